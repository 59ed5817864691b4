"""The library's tables: what was read, who wrote it, and how it is found again."""
