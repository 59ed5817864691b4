"""What is told of an addition that runs: the time left, and the share of a long file."""

from unabridged.ingest.adding.fetch import Announced, Step
from unabridged.ingest.adding.pace import Pace
from unabridged.ingest.adding.position import Partway, Position
from unabridged.ingest.adding.walk import Found
from unabridged.ingest.catalog.versions import CHANGED, READER_VERSION, outdated_kinds
from unabridged.ingest.document import Closed, Kind, Opened, Page, Status


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_counts_bytes_and_files() -> None:
    clock = Clock()
    pace = Pace(100, 1_000_000, clock)
    assert pace.seconds_left() is None
    for _ in range(10):
        clock.now += 1.0
        pace.file(10_000)
        pace.seconds_left()
    assert pace.bytes_done == 100_000
    assert round(pace.seconds_left() or 0) == 90


def test_a_large_file_moves_the_time_left_while_it_is_read() -> None:
    clock = Clock()
    pace = Pace(2, 2_000_000, clock)
    clock.now += 10.0
    quarter = pace.seconds_left(500_000)
    assert quarter is not None
    assert round(quarter) == 31


def test_the_pace_is_that_of_the_last_half_minute() -> None:
    clock = Clock()
    pace = Pace(1_000, 0, clock)
    for second in range(1, 101):
        clock.now += 1.0
        for _ in range(1 if second <= 50 else 9):
            pace.file(0)
        pace.seconds_left()
    left = pace.seconds_left()
    assert left is not None
    assert 50 < left < 60  # 500 files at nine a second


def _shares(*steps: Step) -> list[Partway]:
    position = Position(Found("/d/x", 1_000, 0))
    position._said = 0.0  # long ago
    return [said for step in steps for said in position.follow(step)]


def test_the_share_of_a_file_is_told_by_pages_or_by_bytes() -> None:
    page = Page(ref=0, number=1, text="x")
    (said,) = _shares(page)
    assert said == Partway(1, 0.0)
    position = Position(Found("/d/x", 1_000, 0))
    for step in (Announced(4), page):
        list(position.follow(step))
    assert position._share() == 0.25
    position = Position(Found("/d/x", 1_000, 0))
    mailbox = Opened(ref=0, parent=None, name="x", kind=Kind.MAILBOX)
    letter = Opened(ref=1, parent=0, name="1", kind=Kind.MESSAGE, meta={"offset": "600"})
    for each in (mailbox, letter, Closed(ref=1, status=Status.READ)):
        list(position.follow(each))
    assert position._share() == 0.6


def test_every_kind_has_the_version_that_last_changed_it() -> None:
    assert set(CHANGED) == set(Kind)
    assert max(CHANGED.values()) == READER_VERSION
    assert outdated_kinds(READER_VERSION) == []
    assert set(outdated_kinds(0)) == set(Kind)
