"""Claims, leases, and the process behind each attempt."""
