"""Small programs that ask the real compilers what they do, and keep the answers as figures."""
