"""The inference process: token ids in, token events out. Knows nothing of documents."""
