"""Sequences in GPU memory: the KV pool, prompts, and decode steps of a batch. Imported only where Triton is."""
