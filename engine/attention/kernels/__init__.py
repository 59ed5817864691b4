"""Attention on the GPU, in Triton. Needs `triton`; nothing outside this folder imports it without a CUDA device."""
