"""Turns files into documents with pages, parts and character spans, and keeps them in the library."""
