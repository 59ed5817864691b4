"""The installer's commands: install (and upgrade), verify, rollback, uninstall, status.

What packaging/install.sh calls once it has checked the bundle, or the copy of itself beside an installed version. Each
command may be interrupted and run again; until its last step the version in use stays as it is. Standard library only.
"""

import argparse
import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from unabridged.app.installer import checks, links
from unabridged.app.installer.codes import DISK, NOTHING, OK, PERMISSION, Interrupted, Stop
from unabridged.app.installer.comparing import differences
from unabridged.app.installer.making import make, same_papers
from unabridged.app.installer.manifest import FACTS, INSTALLED, Facts, Malformed, read, read_facts
from unabridged.app.installer.prefix import Prefix
from unabridged.app.installer.verify import is_version, verify

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(here: Path, words: Sequence[str]) -> int:
    """Run a command. `here`: the unpacked bundle, or an installed version. Returns the exit code."""
    given = _parser().parse_args(words)
    try:
        prefix = Prefix(given.prefix or _prefix_of(here) or _usual(given.system))
        shared = given.system or prefix.folder == _usual(True)
        base = given.links or (Path("/usr/local") if shared else Path.home() / ".local")
    except RuntimeError:
        _complain("error: HOME is not set and this user has no account (set HOME, or give --prefix and --links)")
        return PERMISSION
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        command: Callable[[Path, Prefix, Path, argparse.Namespace], int] = given.command
        return command(here, prefix, base.absolute(), given)
    except Stop as stop:
        _complain(f"error: {stop.message}" + (f" ({stop.remedy})" if stop.remedy else ""))
        return stop.code
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        _complain(f"error: {error.filename or prefix.folder}: {error.strerror}")
        return DISK if full else PERMISSION
    except Interrupted as interrupted:
        _complain("interrupted: the version that was in use still is; run the same command again to go on")
        return 128 + interrupted.number


def _install(here: Path, prefix: Prefix, base: Path, given: argparse.Namespace) -> int:
    facts = _facts(here)
    _require(facts, prefix.folder, forced=given.force)
    if given.check:
        prefix.refuse_others()
        _tell("everything that is needed is there; nothing was changed (--check)")
        return OK
    with prefix.locked():
        prefix.clean()
        used = prefix.in_use()
        if _is_whole(here, prefix, facts.id):
            _tell(f"{facts.id} is installed already, and as it was built")
        else:
            folder = prefix.incoming(facts.id)
            try:
                twin = prefix.versions / used if used and used != facts.id else None
                make(here, facts, folder, _tell, twin)
                prefix.note_previous(folder, prefix.previous(facts.id) if used == facts.id else used)
                _tell("putting it into use")
                prefix.adopt(facts.id)
            except BaseException:
                _discard(folder)
                raise
        if used != facts.id:
            prefix.note_previous(prefix.versions / facts.id, used)
            prefix.use(facts.id)
        for sentence in links.link(prefix.folder, base):
            _complain(f"note: {sentence}")
        _prune(prefix, facts.id)
    _tell(f"{facts.id} is in use at {prefix.folder / 'current'}; the command is {base / 'bin/unabridged'}")
    if str(base / "bin") not in os.environ.get("PATH", "").split(os.pathsep):
        _tell(f"{base / 'bin'} is not in PATH: add it in your shell's profile")
    return OK


def _is_whole(here: Path, prefix: Prefix, id: str) -> bool:
    """Whether the version is there already, its files and papers as the bundle `here` has them."""
    folder = prefix.versions / id
    return id in prefix.ids() and same_papers(here, folder) and not any(differences(folder, read(here / INSTALLED)))


def _verify(here: Path, prefix: Prefix, base: Path, given: argparse.Namespace) -> int:
    if given.prefix is None and not given.system and is_version(here):
        return verify(here, given.signers, as_json=given.json)
    used = _existing(prefix).in_use()
    if used is None:
        raise Stop(NOTHING, f"no version in {prefix.folder} is in use", "install the bundle")
    return verify(prefix.versions / used, given.signers, as_json=given.json)


def _rollback(here: Path, prefix: Prefix, base: Path, given: argparse.Namespace) -> int:
    with _existing(prefix).locked():
        prefix.clean()
        used = prefix.in_use()
        before = prefix.previous(used) if used else None
        if before is None:
            raise Stop(
                NOTHING, f"no earlier version than {used} is kept in {prefix.folder}", "install an earlier bundle"
            )
        prefix.use(before)
        for sentence in links.link(prefix.folder, base):
            _complain(f"note: {sentence}")
    _tell(f"{before} is in use again; {used} is kept until the next installation")
    return OK


def _uninstall(here: Path, prefix: Prefix, base: Path, given: argparse.Namespace) -> int:
    with _existing(prefix).locked():
        prefix.clean()
        # From here on there is no way back, and no install.sh beside the version to go on with: it ends what it began.
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        links.unlink(prefix.folder, base)
        prefix.current.unlink(missing_ok=True)
        _discard(prefix.versions)
        prefix.unmark()
    if any(prefix.folder.iterdir()):
        _complain(f"note: {prefix.folder} holds files that are not ours and stays")
    else:
        prefix.folder.rmdir()
    _tell(
        f"all versions in {prefix.folder} and the links to them are gone; data and settings of users were not touched"
    )
    return OK


def _status(here: Path, prefix: Prefix, base: Path, given: argparse.Namespace) -> int:
    used = _existing(prefix).in_use()
    for id in prefix.ids():
        facts = prefix.facts(id)
        print(f"{'*' if id == used else ' '} {id}  {facts.version}, Python {facts.python}, {facts.flavour}")
    return OK


def _require(facts: Facts, prefix: Path, *, forced: bool) -> None:
    """Say what was found; raise Stop for the first thing that is missing."""
    first: Stop | None = None
    for found in checks.look(facts, prefix.absolute()):
        fatal = not found.good and found.code and not forced
        mark = "ok  " if found.good else "FAIL" if fatal else "warn"
        _tell(f"{mark}  {found.what}: {found.text}" + (f" ({found.remedy})" if found.remedy else ""))
        if fatal and first is None:
            first = Stop(found.code, f"{found.what}: {found.text}", found.remedy)
    if first is not None:
        raise first


def _prune(prefix: Prefix, id: str) -> None:
    """Keep the version in use and the one before it."""
    for gone in prefix.prune(frozenset({id, prefix.previous(id) or id})):
        _tell(f"deleted {gone}, which was neither in use nor the one before")


def _existing(prefix: Prefix) -> Prefix:
    if not prefix.versions.is_dir():
        raise Stop(NOTHING, f"nothing is installed in {prefix.folder}", "name the folder with --prefix")
    return prefix


def _discard(folder: Path) -> None:
    """Delete all of it; signals wait until that is done."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        shutil.rmtree(folder, ignore_errors=not folder.exists())
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _facts(here: Path) -> Facts:
    try:
        return read_facts(here / FACTS)
    except FileNotFoundError as error:
        raise Stop(NOTHING, f"{here} is not an unpacked bundle", "run install.sh of the bundle") from error
    except (Malformed, OSError) as error:
        raise Stop(NOTHING, str(error), "unpack the archive again") from error


def _usual(system: bool) -> Path:
    return Path("/opt/unabridged") if system else Path.home() / ".local/opt/unabridged"


def _prefix_of(here: Path) -> Path | None:
    """The prefix, where `here` is a version in one."""
    return here.parent.parent if here.parent.name == "versions" else None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="install.sh", allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, command, about in (
        ("install", _install, "install this bundle, or upgrade to it"),
        ("verify", _verify, "compare every installed file with the list of the bundle; changes nothing"),
        ("rollback", _rollback, "use the version that was in use before"),
        ("uninstall", _uninstall, "delete all versions; the data of users stays"),
        ("status", _status, "list the installed versions"),
    ):
        one = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        one.set_defaults(command=command)
        one.add_argument("--prefix", type=lambda text: Path(text).absolute(), help="folder of all versions")
        one.add_argument("--system", action="store_true", help="for all users: /opt/unabridged, links in /usr/local")
        one.add_argument("--links", type=Path, help="where the links go instead of ~/.local or /usr/local")
        if name == "install":
            one.add_argument("--check", action="store_true", help="look at bundle and machine, change nothing")
            one.add_argument("--force", action="store_true", help="install although the machine lacks something")
        if name == "verify":
            one.add_argument("--signers", type=Path, help="whose signature counts")
            one.add_argument(
                "--json", action="store_true", help="a line of JSON for each difference, and one at the end"
            )
    return parser


def _tell(text: str) -> None:
    print(text, flush=True)


def _complain(text: str) -> None:
    print(f"install.sh: {text}", file=sys.stderr, flush=True)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted(number)
