"""Plain text and what is written in it, to pages."""
