"""What the offload benchmark prints of its rows, a line each."""

from typing import Any

GIB = 1 << 30
Row = dict[str, Any]


def decode_line(row: Row) -> str:
    """Steps at the end of a context."""
    hits, bus = row.get("hits"), row.get("bus")
    there = f"; found {hits['keys']:.1%} of keys {hits['values']:.1%} of values" if hits else ""
    over = f", {bus['total'] / 1e6:.2f} MB a token over the bus ({bus['fetched'] / 1e6:.2f} fetched)" if bus else ""
    ratio = f" = {row['of_gpu']:.2f} x the GPU's" if "of_gpu" in row else ""
    gpu = row["gpu"]
    return (
        f"{row['context'] // 1024:5}K {row['preset']:9} {'/'.join(map(str, row['refresh'])):9} {row['place']:7} "
        f"{row['choice']:10}: {row['tokens_per_second']:6.1f} tokens/s, step {gpu['mean'] * 1e3:.3f} ms (p50 "
        f"{gpu['p50'] * 1e3:.3f}, p99 {gpu['p99'] * 1e3:.3f}){ratio}{there}{over}"
    )


def engine_line(row: Row) -> str:
    """The engine over a context."""
    memory, step, read = row["memory"], row["step"], row.get("read")
    whole = "" if read is None else f" (read: {read['joint']:.1f} s, documents alone {read['composable']:.1f} s)"
    return (
        f"{row['context'] // 1024:5}K engine, {row['place']}: prefill {row['prefill']:.1f} s{whole}, first token "
        f"{row['first']:.2f} s, step {step['mean'] * 1e3:.3f} ms (p99 {step['p99'] * 1e3:.3f}); GPU memory "
        f"{memory['used'] / GIB:.2f} GiB of {memory['planned'] / GIB:.2f} planned: {memory['of_plan']:.1%}"
    )


def disk_line(place: str, row: Row) -> str:
    """A pool and a disk."""
    return (
        f"{place}: written {row['write'] / 1e9:.2f} GB/s (dd {row['dd_write'] / 1e9:.2f}), restored "
        f"{row['restore'] / 1e9:.2f} GB/s (dd {row['dd_read'] / 1e9:.2f}, four at a time "
        f"{row['dd_read_four'] / 1e9:.2f})"
    )
