"""Archives and compressed files to the files in them."""
