"""Sizes that the kernels are driven with and the memory plan counts on. Torch-free."""

# Positions of a page (kernels.layout).
PAGE = 16
# Tokens that a pool hands out at a time (kv.blocks).
BLOCK = 64
# Tokens of a prompt's piece at most.
PIECE = 32768
# Contexts that one pass over prompts reads at most.
CONTEXTS = 16
# Bytes of a prompt's scores at once: an eighth of what a small card has left beside a model.
SCORES = 512 << 20
# Pages that a bank keeps of what was chosen, of a row and head (gpu.kernels.lru): more would not fit into a program's
# registers.
CHOSEN = 8192


def width_of(head_dim: int) -> int:
    """W, code bytes that the index keeps of a key: a bit a dimension, as a power of two. It has 4W numbers of it, and
    a byte more for their scale."""
    return 1 << max(0, (head_dim + 7) // 8 - 1).bit_length()
