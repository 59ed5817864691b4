"""Folders to the library: what is found, what has changed, what is read, and what is followed."""
