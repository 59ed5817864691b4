#!/bin/sh
# Writes the hash-pinned locks in requirements/ anew: runtime, dev and recognition for Python 3.11 and 3.12, torch and CUDA
# apart.
#
# torch is apart since one version has several builds: torch-cpu.txt is the small one for the CPU, where pip is configured
# to find it; torch.txt and cuda.txt are the public index's, with what it needs on top (docs/decisions/0002-locks.md).
# Usage: packaging/lock.sh [CPU wheel of torch whose hash to list ...]
set -eu
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
torch=2.13.0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "torch==$torch ; python_version < '3'" > "$scratch/without-torch.txt"

lock() { # lock OUT PYTHON ARGS...
    out=$1 python=$2
    shift 2
    "$uv" pip compile "$@" --generate-hashes --python-version "$python" --python-platform x86_64-manylinux_2_28 \
        --no-header --no-annotate --quiet --upgrade -o "$out"
}

echo "torch==$torch" > "$scratch/torch.in"
lock "$scratch/torch.txt" 3.12 "$scratch/torch.in"
awk '/^[a-z]/ {keep = /^torch==/} keep' "$scratch/torch.txt" > requirements/torch.txt
awk '/^[a-z]/ {keep = /^(nvidia|cuda|triton)/} keep' "$scratch/torch.txt" > requirements/cuda.txt
# Kernels are checked with the Triton that torch's CUDA build needs, also where torch is the one for the CPU.
grep -o '^triton==[^ ]*' requirements/cuda.txt > "$scratch/triton.txt"

for python in 3.11 3.12; do
    short=py$(echo $python | tr -d .)
    lock "requirements/runtime-$short.txt" $python pyproject.toml requirements/torch-needs.in \
        --override "$scratch/without-torch.txt"
    lock "requirements/dev-$short.txt" $python pyproject.toml requirements/torch-needs.in --extra dev \
        --override "$scratch/without-torch.txt" --constraint "requirements/runtime-$short.txt" --constraint "$scratch/triton.txt"
    # What the extra for recognition adds, for bundles that are to carry it (unabridged bundle --with).
    lock "$scratch/ocr.txt" $python pyproject.toml requirements/torch-needs.in --extra ocr \
        --override "$scratch/without-torch.txt" --constraint "requirements/runtime-$short.txt"
    awk 'NR == FNR {if (/^[a-z]/) known[$1]; next} /^[a-z]/ {keep = !($1 in known)} keep' \
        "requirements/runtime-$short.txt" "$scratch/ocr.txt" > "requirements/ocr-$short.txt"
done

if [ $# -gt 0 ]; then
    printf 'torch==%s+cpu' $torch > requirements/torch-cpu.txt
    for wheel in "$@"; do
        printf ' \\\n    --hash=sha256:%s' "$(sha256sum "$wheel" | cut -d' ' -f1)" >> requirements/torch-cpu.txt
    done
    echo >> requirements/torch-cpu.txt
fi
