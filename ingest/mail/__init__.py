"""Mail in the forms of the internet to messages, with their text labelled."""
