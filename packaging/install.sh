#!/bin/sh
# Installs this bundle of Unabridged, or upgrades to it; `verify`, `rollback`, `uninstall` and `status` work beside an
# installed version too. Needs no network. Signature and every hash are checked before anything is changed, and before any code of
# the bundle but this file runs; docs/airgap.md says how to check the archive, and so this file, before it is unpacked.
#
#   sh install.sh [install] --signers FILE [--python PYTHON] [--prefix DIR] [--system] [--check] [--force]
#   sh install.sh verify [--signers FILE] [--prefix DIR] [--system] [--json]      names every file that differs
#   sh install.sh rollback | uninstall | status [--prefix DIR] [--system]
#
# --signers FILE    whose signature counts, in ssh-keygen's form: a line "NAME ssh-ed25519 AAAA...". By default
#                   ~/.config/unabridged/allowed_signers, else /etc/unabridged/allowed_signers.
# --unsigned        install a bundle that nobody signed; its hashes are checked all the same.
#
# Exit codes: 0 done, 2 usage, 10 signature, 11 a file differs, 12 Python; the others in docs/airgap.md.
set -u
LC_ALL=C
export LC_ALL

fail() { # fail CODE MESSAGE REMEDY
    printf 'install.sh: error: %s (%s)\n' "$2" "$3" >&2
    exit "$1"
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P) || exit 2
for word; do
    case $word in -h | --help) set -- --help ;; esac
done
case ${1-} in
    -h | --help) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p;}' "$0"; exit 0 ;;
    install | verify | rollback | uninstall | status) command=$1; shift ;;
    '' | -*) command=install ;;
    *) fail 2 "unknown command $1" "install, verify, rollback, uninstall or status" ;;
esac

signers='' unsigned='' python='' count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
        --signers | --python)
            [ "$count" -gt 0 ] || fail 2 "$word needs a value" "see install.sh --help"
            if [ "$word" = --signers ]; then signers=$1; else python=$1; fi
            shift
            count=$((count - 1))
            ;;
        --signers=*) signers=${word#*=} ;;
        --python=*) python=${word#*=} ;;
        --unsigned) unsigned=yes ;;
        *) set -- "$@" "$word" ;;
    esac
done

find_signers() {
    [ -z "$signers" ] || return 0
    for file in "${XDG_CONFIG_HOME:-${HOME-}/.config}/unabridged/allowed_signers" /etc/unabridged/allowed_signers; do
        [ -n "$signers" ] || { [ -f "$file" ] && signers=$file; }
    done
}

check_signature() {
    [ -f "$here/MANIFEST" ] || fail 11 "MANIFEST is missing" "unpack the archive again"
    if [ -n "$signers" ] && [ -n "$unsigned" ]; then
        fail 2 "--signers and --unsigned exclude each other" "leave one of them away"
    fi
    find_signers
    if [ -z "$signers" ]; then
        [ -n "$unsigned" ] || fail 10 "nobody is named whose signature counts" \
            "give --signers FILE, or --unsigned to do without one"
        echo "no signature was checked (--unsigned)"
        return
    fi
    [ -z "$unsigned" ] || fail 2 "--unsigned, but $signers says whose signature counts here" \
        "leave --unsigned away; who may do without a signature may move that file"
    [ -f "$signers" ] && [ -r "$signers" ] || fail 10 "$signers cannot be read" "name a file of allowed signers with --signers"
    [ -f "$here/MANIFEST.sig" ] || fail 10 "this bundle is not signed" "get the signed one, or use --unsigned"
    command -v ssh-keygen > /dev/null || fail 10 "ssh-keygen is missing, which checks the signature" \
        "install OpenSSH's client 8.2 or newer (Debian: openssh-client)"
    who=$(ssh-keygen -Y find-principals -f "$signers" -s "$here/MANIFEST.sig" 2> /dev/null | head -n 1)
    if [ -z "$who" ]; then
        said=$(ssh-keygen -Y find-principals -f "$signers" -s "$here/MANIFEST.sig" 2>&1 | tail -n 1)
        fail 10 "the bundle was signed with a key that $signers does not list, or its signature is damaged; ssh-keygen says: $said" \
            "do not install it; ask who made it"
    fi
    ssh-keygen -Y verify -f "$signers" -I "$who" -n unabridged-bundle -s "$here/MANIFEST.sig" \
        < "$here/MANIFEST" > /dev/null 2>&1 || fail 10 "MANIFEST is not what $who signed" \
        "do not install it; copy the archive again, and if it stays so ask who made it"
    echo "signed by $who"
}

check_hashes() {
    # A link could lead to another file once it was looked at.
    odd=$(cd "$here" && find . ! -type d ! -type f | head -n 10 | tr '\n' ' ')
    [ -z "$odd" ] || fail 11 "neither files nor folders: $odd" "unpack the archive again, into a new folder"
    bad=$(cd "$here" && sha256sum --check --strict --quiet MANIFEST 2> /dev/null) \
        || fail 11 "$(printf '%s' "${bad:-MANIFEST: cannot be read}" | head -n 10 | tr '\n' ' ')" \
            "the file differs from what was built, or is missing: copy the archive again"
    more=$(cd "$here" && find . ! -type d | sed 's|^\./||' | awk '
        FNR == NR { known[substr($0, 67)]; next }
        !($0 in known) && $0 != "MANIFEST" && $0 != "MANIFEST.sig"' MANIFEST - | head -n 10 | tr '\n' ' ')
    [ -z "$more" ] || fail 11 "not part of the bundle: $more" "unpack the archive again, into a new folder"
    echo "all files are as they were built"
}

find_python() {
    wanted=$(sed -n 's/^ *"python": "\([0-9.]*\)",*$/\1/p' "$here/bundle.json" "$here/bundle/bundle.json" 2> /dev/null | head -n 1)
    # Its papers may be gone or damaged.
    [ -n "$wanted" ] || wanted=$(cd "$here/lib" 2> /dev/null && echo python3.* | sed -n 's/^python\(3\.[0-9]*\)$/\1/p')
    for one in ${python:+"$python"} "python$wanted" python3; do
        if ! found=$("$one" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null); then
            # The one that was named, and no other in its place.
            [ "$one" != "$python" ] && continue
            break
        fi
        if [ "$found" = "$wanted" ]; then
            python=$one
            return
        fi
        [ "$one" != "$python" ] || fail 12 "$python is Python $found, this bundle is for $wanted" \
            "give another with --python, or carry the bundle for $found"
    done
    fail 12 "there is no ${python:-python$wanted or python3 of that version} that runs" \
        "install Python $wanted, or name it with --python; a bundle for another version has that in its name"
}

if [ "$command" = install ]; then
    check_signature
    check_hashes
fi
if [ "$command" = verify ]; then
    [ -z "$unsigned" ] || fail 2 "--unsigned has no meaning for verify" "leave it away"
    find_signers
    [ -z "$signers" ] || set -- "$@" --signers "$signers"
fi
find_python
umask 022
# -I -S: nothing of the user's environment, of this folder or of the system's packages is imported; -B: no bytecode here.
exec "$python" -I -S -B -c '
import sys
sys.path.insert(0, sys.argv[1] + "/setup")
from pathlib import Path
from unabridged.app.installer.main import main
sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))' "$here" "$command" "$@"
