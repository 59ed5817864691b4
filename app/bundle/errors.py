"""The one way in which building a bundle fails."""

from unabridged.app.errors import AppError


class BundleFailed(AppError):
    """A bundle cannot be built, signed or read."""

    code = "bundle_failed"
