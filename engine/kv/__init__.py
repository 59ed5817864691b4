"""The KV pool, its tables and its store on disk."""
