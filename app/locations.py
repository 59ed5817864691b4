"""Where everything lies on disk. The only module that knows paths.

By default the platform's own folders hold settings, data, state and the runtime file. With `--data-dir` (or
UNABRIDGED_DATA_DIR) everything lies below one folder, which can be moved or deleted as a whole.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = "UNABRIDGED_DATA_DIR"


@dataclass(frozen=True)
class Locations:
    """The four folders and the files in them. Nothing is created before `create` is called."""

    config: Path
    """Folder of config.toml."""
    data: Path
    """Folder of what cannot be had again for free: library, models, stored KV, conversations."""
    state: Path
    """Folder of logs."""
    runtime: Path
    """Folder of what a running server leaves for its clients; private to the user."""

    @staticmethod
    def find(data_dir: Path | None = None, environ: Mapping[str, str] | None = None) -> "Locations":
        """`data_dir` (a flag) before UNABRIDGED_DATA_DIR before the platform's folders."""
        chosen = data_dir or (os.environ if environ is None else environ).get(ENVIRONMENT)
        return Locations.below(Path(chosen)) if chosen else Locations.of_platform()

    @staticmethod
    def below(folder: Path) -> "Locations":
        """Everything in one folder."""
        root = folder.expanduser().absolute()
        return Locations(config=root, data=root, state=root / "state", runtime=root / "run")

    @staticmethod
    def of_platform() -> "Locations":
        """The platform's folders (XDG on Linux)."""
        from platformdirs import PlatformDirs

        dirs = PlatformDirs("unabridged", appauthor=False)
        # Without a session's own folder platformdirs would take one in /tmp that others can guess.
        session = sys.platform != "linux" or "XDG_RUNTIME_DIR" in os.environ
        return Locations(
            config=dirs.user_config_path,
            data=dirs.user_data_path,
            state=dirs.user_state_path,
            runtime=dirs.user_runtime_path if session else dirs.user_state_path / "run",
        )

    @property
    def config_file(self) -> Path:
        """The settings file."""
        return self.config / "config.toml"

    @property
    def library(self) -> Path:
        """The SQLite database of documents."""
        return self.data / "library.db"

    @property
    def conversations(self) -> Path:
        """The SQLite database of questions and answers."""
        return self.data / "conversations.db"

    @property
    def models(self) -> Path:
        """The folder of installed models."""
        return self.data / "models"

    @property
    def kv(self) -> Path:
        """The folder of stored KV: what the engine has read is not read again."""
        return self.data / "kv"

    @property
    def server_lock(self) -> Path:
        """Held by the running server: one server a data directory."""
        return self.data / "server.lock"

    @property
    def server_file(self) -> Path:
        """URL, process id and key of the running server, readable by the user only."""
        return self.runtime / "server.json"

    @property
    def log(self) -> Path:
        """The log of a server that was started in the background."""
        return self.state / "server.log"

    def hold(self, path: str) -> bool:
        """Whether `path` lies in one of the folders, or is where one of them is to be made."""
        real = Path(path).absolute()
        folders = (self.config, self.data, self.state, self.runtime)
        return any(real.is_relative_to(folder) or folder.is_relative_to(real) for folder in folders)

    def create(self) -> None:
        """Make the folders. All are private to the user: they hold his documents' text."""
        for folder in (self.config, self.data, self.state, self.runtime, self.models, self.kv):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
