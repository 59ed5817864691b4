#!/bin/sh
# Starts the version of Unabridged that this file belongs to, whatever the caller's Python is set to.
self=$(readlink -f -- "$0") || exit 1
root=${self%/bin/unabridged}
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONINSPECT
cache=${XDG_CACHE_HOME:-${HOME-}/.cache}/unabridged
# Bytecode lies in the user's cache, so that the installed files stay what `unabridged verify` knows.
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-$cache/bytecode}"
export PYTHONNOUSERSITE=1
export UNABRIDGED_SHARED_MODELS="${UNABRIDGED_SHARED_MODELS-$root/models}"
# Libraries that can fetch models from a hub are told not to.
export HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 TRANSFORMERS_OFFLINE=1 DO_NOT_TRACK=1
if [ -d "$root/triton" ]; then
    # Triton writes into its cache and keeps whole paths in it: each user gets a copy with his.
    export TRITON_CACHE_DIR="${TRITON_CACHE_DIR:-$cache/triton/$(cat "$root/triton.id")}"
    if [ ! -e "$TRITON_CACHE_DIR" ] && mkdir -p "${TRITON_CACHE_DIR%/*}" && fresh=$(mktemp -d "$TRITON_CACHE_DIR.XXXXXX"); then
        cp -R "$root/triton/." "$fresh/"
        place=$(printf '%s' "$TRITON_CACHE_DIR" | sed 's/[&|\\]/\\&/g')
        find "$fresh" -name '__grp__*.json' -exec sed -i "s|@CACHE@|$place|g" {} +
        # Another start may have been quicker.
        mv -T "$fresh" "$TRITON_CACHE_DIR" 2> /dev/null || rm -rf "$fresh"
    fi
fi
needed='unabridged.__main__, unabridged.app.cli, unabridged.app.commands.verify, unabridged.app.verifying'
if [ "${1-}" = verify ] && ! said=$("$root/bin/python" -P -c "import $needed" 2>&1); then
    # A damaged package must not keep the look at the packages from being taken; models of the user are left out.
    shift
    printf 'unabridged: the program does not start (%s); its files are compared by install.sh\n' \
        "$(printf '%s\n' "$said" | tail -n 1)" >&2
    sh "$root/install.sh" verify --python "$(readlink -f -- "$root/bin/python")" "$@" && exit 0
    code=$?
    [ "$code" = 2 ] && exit 2
    exit 1
fi
exec "$root/bin/python" -P -m unabridged "$@"
