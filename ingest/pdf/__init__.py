"""PDF files to pages."""
