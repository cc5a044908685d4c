"""The generic problem of nodes and pairs: contest format, reductions, beam search, ILP."""
