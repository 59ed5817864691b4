"""The root of every error that a person sees, and the errors of `models`.

    UnabridgedError            message + hint; the base of all
      ModelError               a model folder or file cannot be used
        ModelNotFound          no model of that name is installed
        ModelDamaged           a file's hash or structure is wrong
        ModelUnsupported       an architecture, format or quantisation that we do not run

The root lives here because `models` is the lowest layer: every other package may import it.
"""


class UnabridgedError(Exception):
    """One clear line: the thing, the value, the way out.

    `message` says what failed and names the thing and its value; `hint` says what to do (may be empty); `code` is the
    stable word that the API and `--json` carry.
    """

    code = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ModelError(UnabridgedError):
    """A model cannot be used."""

    code = "model_error"


class ModelNotFound(ModelError):
    """No model of that name is installed."""

    code = "model_not_found"


class ModelDamaged(ModelError):
    """A model's file is missing, truncated or altered."""

    code = "model_damaged"


class ModelUnsupported(ModelError):
    """A model that this version does not run."""

    code = "model_unsupported"
