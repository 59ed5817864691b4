"""Files that programs leave beside people's own, by their names: nobody has written anything in them.

Word and its like keep who has a document open in `~$name.docx`, LibreOffice in `.~lock.name#`; Windows keeps how a
folder is shown in `desktop.ini` and its pictures in `Thumbs.db`, macOS in `.DS_Store` and `._name`. Looks at names
only.
"""

import re

LEFTOVER = "a file that Office or the system keeps for itself"
_NAMES = frozenset({"desktop.ini", "thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", ".ds_store"})
_OWNER = "~$"
_OFFICE = re.compile(
    r"\.(docx?|docm|dot|dot[xm]|rtf|xlsx?|xls[mb]|xlt|xlt[xm]|pptx?|pptm|pps|ppsx|pot|pot[xm]|vsdx?|pub)$"
)


def is_leftover(name: str) -> bool:
    """Whether a file of this name is one."""
    folded = name.casefold()
    if folded.startswith(_OWNER):
        return bool(_OFFICE.search(folded))
    return folded in _NAMES or folded.startswith("._") or (folded.startswith(".~lock.") and folded.endswith("#"))
