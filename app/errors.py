"""Errors of the application: what a person meets at the command line, in the TUI and through the API.

UnabridgedError
  AppError
    SettingsInvalid       a setting is unknown or has a value that cannot be used
    NothingToRead         the collection, or the part of it that was asked for, has no readable document
    ConversationNotFound  no conversation of that id
    HistoryUnavailable    the history cannot be read or written: full disk, damage, permissions
    ServerUnreachable     no server runs and none could be started
    ServerBusy            another server holds the data directory
    RequestInvalid        a request's fields are missing, contradict each other or are out of range
"""

from unabridged.models.errors import UnabridgedError


class AppError(UnabridgedError):
    """The application cannot do what was asked."""

    code = "app_error"


class SettingsInvalid(AppError):
    """A setting is unknown or has a value that cannot be used."""

    code = "invalid_settings"


class NothingToRead(AppError):
    """There is no readable document to answer from."""

    code = "nothing_to_read"


class ConversationNotFound(AppError):
    """No conversation of that id."""

    code = "conversation_not_found"


class HistoryUnavailable(AppError):
    """The history of questions and answers cannot be read or written."""

    code = "history_unavailable"


class ServerUnreachable(AppError):
    """No server runs and none could be started."""

    code = "server_unreachable"


class ServerBusy(AppError):
    """Another server holds the data directory."""

    code = "server_busy"


class RequestInvalid(AppError):
    """A request's fields are missing, contradict each other or are out of range."""

    code = "invalid_request"
