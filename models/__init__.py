"""Checkpoints and tokenizers: from files to a forward pass whose attention is an argument."""
