"""Whether a folder's changes are told by the kernel, from the list of mounts. Network and FUSE file systems do not tell
what others change.
"""

import re
from pathlib import Path

from unabridged.ingest.paths import lies_in

_UNTOLD = re.compile(
    r"(nfs\d?|cifs|smb\d?|smbfs|9p|afs|ceph|lustre|beegfs|glusterfs|ocfs2|gfs2|davfs|ncpfs|virtiofs|vboxsf|prl_fs|drvfs"
    r"|fuse(\..*)?|fuseblk\..*)"
)
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


def untold(folder: Path) -> str:
    """The file system at or below `folder` whose changes the kernel does not tell; "" where all are told."""
    try:
        lines = _MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    return kind_of(str(folder.resolve()), lines)


def kind_of(folder: str, lines: list[str]) -> str:
    """As `untold`, from the lines of mountinfo."""
    mounts = [found for line in lines if (found := _mount(line)) is not None]
    holding = max(
        (mount for mount in mounts if lies_in(folder, mount[0])), default=("", ""), key=lambda one: len(one[0])
    )
    within = [mount for mount in mounts if mount[0] != folder and lies_in(mount[0], folder)]
    return next((kind for _, kind in (holding, *within) if _UNTOLD.fullmatch(kind)), "")


def _mount(line: str) -> tuple[str, str] | None:
    """Mount point and type of a line."""
    before, dash, behind = line.partition(" - ")
    fields = before.split(" ")
    if not dash or len(fields) < 5:
        return None
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4]), behind.split(" ")[0]
