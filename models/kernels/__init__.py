"""Triton kernels of the linear layers and what lies between them. Imported with a CUDA device only."""
