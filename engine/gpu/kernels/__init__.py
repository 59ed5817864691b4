"""Triton kernels of a decode step that belong to no layer. Imported with a CUDA device only."""
