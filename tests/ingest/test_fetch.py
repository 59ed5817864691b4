"""What happens to a file between the walk and the reader."""

import os
from pathlib import Path

from unabridged.ingest.document import Closed
from unabridged.ingest.fetch import Fetcher, Hashed
from unabridged.ingest.library import Library
from unabridged.ingest.walk import Found
from unabridged.ingest.worker import Workers


def test_what_became_a_pipe_since_the_walk_does_not_block(library: Library, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "was-a-file")
    with Workers(1) as workers:
        steps = list(
            Fetcher(library.path, workers, None, False).steps(Found(str(tmp_path / "was-a-file"), 5, 1), False)
        )
    assert isinstance(steps[0], Hashed)
    assert [step.reason for step in steps if isinstance(step, Closed)] == ["cannot be opened: not a regular file"]
