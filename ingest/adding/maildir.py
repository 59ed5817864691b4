"""Folders of mail with a file for each message, as they are walked: which entries of a Maildir are no mail.

A Maildir (and Maildir++, whose folders begin with a dot) holds `cur`, `new` and `tmp`. What is in `tmp` was not
delivered; what mail servers keep beside it is an index of theirs.
"""

import os

from unabridged.ingest.adding.ignores import HIDDEN

UNDELIVERED = "mail that was never delivered (Maildir tmp)"
INDEX = "an index of a mail server"
_INDEXES = ("dovecot", "courier", "maildirfolder", "maildirsize", "subscriptions", "cyrus.")


def is_box(names: set[str]) -> bool:
    """Whether a folder with these entries is a Maildir."""
    return "cur" in names and "new" in names


def rule(path: str, is_folder: bool, said: str) -> str:
    """The rule that leaves out an entry of a Maildir, where the usual ones say `said`; "" for none."""
    name = path.rpartition("/")[2]
    if is_folder:
        if name == "tmp":
            return said or UNDELIVERED
        return "" if said == HIDDEN and _is_box(path) else said
    return said or (INDEX if name.startswith(_INDEXES) else "")


def _is_box(path: str) -> bool:
    try:
        return not {"cur", "new"}.isdisjoint(os.listdir(path))  # noqa: PTH208 - names alone
    except OSError:
        return False
