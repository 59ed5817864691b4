"""Documents, tables and presentations of office programs, and books, to pages."""
