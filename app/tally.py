"""The count of an addition, in which everything that lies there adds up. No I/O."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unabridged.app.events import Added

if TYPE_CHECKING:
    from unabridged.ingest.catalog.rows import FileDone, Ignored


@dataclass
class Tally:
    """How many files there were of each status and change, how many each rule left out, and of what files hold how many
    documents of each status but read."""

    statuses: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)

    def file(self, item: "FileDone") -> None:
        """Counts a file; one that is gone has a change only."""
        self.changes[item.change] += 1
        if item.change != "removed":
            self.statuses[item.status] += 1
            self.inside.update(item.inside)

    def left_out(self, item: "Ignored") -> None:
        """Counts what a rule leaves out."""
        self.ignored[item.rule] += item.files

    def again(self, item: "FileDone", status: str, inside: Mapping[str, int]) -> None:
        """Counts a file anew that was counted with this `status` and this `inside`. Its change stays."""
        self.statuses.subtract([status])
        self.statuses.update([item.status])
        self.inside.subtract(inside)
        self.inside.update(item.inside)
        # Without what has come to nothing.
        self.statuses, self.inside = +self.statuses, +self.inside

    def join(self, other: "Tally") -> None:
        """Counts what another addition counted."""
        self.statuses += other.statuses
        self.changes += other.changes
        self.ignored += other.ignored
        self.inside += other.inside

    def unread(self) -> int:
        """Files, and documents that they hold, that were not read in full."""
        return sum(count for status, count in self.statuses.items() if status != "read") + self.inside.total()

    def account(self, collection: str, seconds: float) -> Added:
        """The account for programs."""
        return Added(
            collection=collection,
            files=self.statuses.total(),
            statuses=dict(self.statuses),
            changes=dict(self.changes),
            ignored={rule: files for rule, files in self.ignored.items() if files},
            seconds=seconds,
            inside=dict(self.inside),
        )
