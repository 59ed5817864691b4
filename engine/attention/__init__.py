"""InfiniteHiP: pruning stages, RoPE styles, mask caching, sparse attention. See README.md for the maths."""
