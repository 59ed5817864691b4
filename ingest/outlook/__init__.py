"""Mail in Outlook's forms to messages."""
