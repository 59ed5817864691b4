"""One module a widget; widgets post messages, screens decide."""
