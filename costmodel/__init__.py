"""What a sharding costs on a chip: compute, collectives and memory (TOAST section 4.5)."""
