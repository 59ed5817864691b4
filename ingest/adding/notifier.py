"""What the kernel tells of changes below folders. The only module that knows watchfiles."""

from collections.abc import Sequence
from threading import Event
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

_LOOK_MILLISECONDS = 2


class WatchesUsedUp(Exception):
    """The kernel follows no more folders for this user."""


class Notifier:
    """Follows folders and all below them. `close` at the end."""

    def __init__(self) -> None:
        self._notify: RustNotify | None = None
        self.followed: frozenset[str] = frozenset()

    def follow(self, folders: Sequence[str]) -> None:
        """Follows these and no others. Raises WatchesUsedUp: then it follows none."""
        from watchfiles._rust_notify import RustNotify

        self.close()
        if not folders:
            return
        try:
            self._notify = RustNotify(list(folders), False, False, 0, True, True)
        except OSError as error:  # inotify says ENOSPC or EMFILE
            raise WatchesUsedUp(
                f"the kernel follows no more folders ({error}; sysctl fs.inotify.max_user_watches)"
            ) from error
        self.followed = frozenset(folders)

    def changes(self, seconds: float, stop: Event) -> set[str]:
        """Paths to which something happened within the next `seconds`; less where `stop` is set."""
        # Not within watchfiles, which gathers changes meanwhile, and swallows what a signal's handler raises.
        stop.wait(seconds)
        if self._notify is None:
            return set()
        found = self._notify.watch(_LOOK_MILLISECONDS, _LOOK_MILLISECONDS, _LOOK_MILLISECONDS, stop)
        if found == "signal":
            raise KeyboardInterrupt
        return set() if isinstance(found, str) else {path for _, path in found}

    def close(self) -> None:
        """Follows nothing any more."""
        if self._notify is not None:
            self._notify.close()
        self._notify, self.followed = None, frozenset()
