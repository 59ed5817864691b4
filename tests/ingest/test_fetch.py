"""What happens to a file between the walk and the reader."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from unabridged.ingest.adding.fetch import Fetcher, Hashed
from unabridged.ingest.adding.walk import Found
from unabridged.ingest.document import Closed
from unabridged.ingest.library import Library
from unabridged.ingest.worker import Workers


def test_what_became_a_pipe_since_the_walk_does_not_block(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "was-a-file")
    monkeypatch.setattr("unabridged.ingest.adding.fetch.look", lambda path: Found(path, 5, 1))
    with Workers(1) as workers, closing(Fetcher(library.path, workers, (), False)) as fetcher:
        steps = list(fetcher.steps(str(tmp_path / "was-a-file"), False))
    assert isinstance(steps[0], Hashed)
    assert [step.reason for step in steps if isinstance(step, Closed)] == ["cannot be opened: not a regular file"]
