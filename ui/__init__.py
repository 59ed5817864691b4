"""The terminal interface. Speaks only to the server, through unabridged.app.client."""
