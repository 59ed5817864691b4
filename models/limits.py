"""Sizes that forward passes keep to, and the engine's memory plan counts on. Torch-free."""

# Bytes of the one buffer in which a GPU's products of many rows dequantise int4 weights, slice by slice.
BUFFER = 128 << 20
# Tokens of a pass whose MLP runs at once, at most. Weights of 4 bits are dequantised for each slice, which fewer tokens
# would not be worth.
SLICE = 8192
