"""Loads whose threads hold what a tensor-core product wants of them, so that nothing moves between threads.

In a product of 16-bit numbers (m16n8k16) lane 4r + c of a warp holds rows r and r + 8 of an operand and, of the
dimension that is summed over, every fourth run of KW numbers. Which of the summed numbers is which does not matter as
long as both operands agree: a lane takes runs of 16 contiguous bytes, and `operand` puts them where it holds them.

What is loaded has dimensions [4 (c), 8 (r), warps, ...registers, contiguous].
"""

import triton
import triton.language as tl

# Threads go to a load's dimensions, after the contiguous one, from the first on until Triton 3.6, from the last since.
_FROM_LAST = tl.constexpr(tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7))


@triton.jit
def _ordered(x, RANK: tl.constexpr, VECTOR: tl.constexpr):
    """x with its dimensions, but a contiguous one, in the order that puts lanes first: its own or the reverse."""
    if _FROM_LAST:
        if RANK == 4:
            x = tl.permute(x, [3, 2, 1, 0])
        elif RANK == 5:
            x = tl.permute(x, [4, 3, 2, 1, 0])
        elif RANK == 6 and VECTOR:
            x = tl.permute(x, [4, 3, 2, 1, 0, 5])
        elif RANK == 6:
            x = tl.permute(x, [5, 4, 3, 2, 1, 0])
        elif RANK == 7:
            x = tl.permute(x, [5, 4, 3, 2, 1, 0, 6])
        else:
            x = tl.permute(x, [6, 5, 4, 3, 2, 1, 0, 7])
    return x


@triton.jit
def read(pointers, mask, VECTOR: tl.constexpr):
    """What `pointers` (4 to 8 dimensions) point to, 0 where not `mask`. VECTOR: the last dimension is contiguous, and
    the numbers are floating-point ones; otherwise they are integers."""
    RANK: tl.constexpr = len(pointers.type.shape)
    pointers = _ordered(pointers, RANK, VECTOR)
    if mask is None:
        x = tl.load(pointers)
    else:
        other: tl.constexpr = 0.0 if VECTOR else 0
        x = tl.load(pointers, mask=_ordered(mask, RANK, VECTOR), other=other)
    return _ordered(x, RANK, VECTOR)


@triton.jit
def read_angles(near, far, positions, f, F: tl.constexpr, WIDE: tl.constexpr):
    """rope.angles in a load's dimensions."""
    if WIDE:
        at = near + positions % 8192 * (2 * F) + f
        past = far + positions // 8192 * (2 * F) + f
        c0, s0 = read(at, None, True), read(at + F, None, True)
        c1, s1 = read(past, None, True), read(past + F, None, True)
        cos, sin = c0 * c1 - s0 * s1, s0 * c1 + c0 * s1
    else:
        at = near + positions * (2 * F) + f
        cos, sin = read(at, None, True), read(at + F, None, True)
    return cos, sin


@triton.jit
def of_lanes(RUN: tl.constexpr, RUNS: tl.constexpr, VECTOR: tl.constexpr, F: tl.constexpr, HALF: tl.constexpr):
    """Which of F numbers (HALF: the next power of two) each c holds: `[4, RUNS, RUN / VECTOR, VECTOR]`."""
    f = (
        tl.arange(0, 4)[:, None, None, None] * RUN
        + tl.arange(0, RUNS)[None, :, None, None] * (4 * RUN)
        + tl.arange(0, RUN // VECTOR)[None, None, :, None] * VECTOR
        + tl.arange(0, VECTOR)[None, None, None, :]
    )
    return f if F == HALF else tl.where(f < F, f, 0)


@triton.jit
def operand(x, KW: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr):
    """x `[..., 4, HALF / 4]` as `[COUNT, ROWS, HALF]`, each c's numbers at places that it holds in a product."""
    x = tl.reshape(x, [COUNT, ROWS, 4, HALF // (8 * KW), 2, KW])
    return tl.reshape(tl.permute(x, [0, 1, 3, 4, 2, 5]), [COUNT, ROWS, HALF])


@triton.jit
def query(
    q, heads_before, GROUP: tl.constexpr, STRIDE: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr,
    RUN: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Halves of a key/value head's queries `[1, W, 8, 4, HALF / 4]`: head h in row h * STRIDE."""
    F: tl.constexpr = D // 2
    RUNS: tl.constexpr = HALF // (4 * RUN)
    row = tl.broadcast_to(tl.arange(0, 8)[None, :, None, None, None, None], [4, 8, W, 1, 1, 1])
    real = (row % STRIDE == 0) & (row < GROUP * STRIDE)
    VECTOR: tl.constexpr = 8 if RUN >= 8 else RUN
    own = q + (heads_before + row // STRIDE) * D + of_lanes(RUN, RUNS, VECTOR, F, HALF)[:, None, None]
    low = tl.permute(read(own, real, True), [2, 1, 0, 3, 4, 5])
    high = tl.permute(read(own + F, real, True), [2, 1, 0, 3, 4, 5])
    return tl.reshape(low, [1, W, 8, 4, HALF // 4]), tl.reshape(high, [1, W, 8, 4, HALF // 4])


@triton.jit
def padded(x, COUNT: tl.constexpr, HALF: tl.constexpr):
    """x `[COUNT, 8, HALF]` with eight rows of zeros below, which cost no register."""
    real = (tl.arange(0, 2) == 0)[None, :, None, None]
    x = tl.where(real, tl.reshape(x, [COUNT, 1, 8, HALF]), tl.zeros([1, 1, 1, 1], x.dtype))
    return tl.reshape(x, [COUNT, 16, HALF])


@triton.jit
def key_angles(
    near, far, numbers, F: tl.constexpr, HALF: tl.constexpr, RUN: tl.constexpr, PAGES: tl.constexpr, W: tl.constexpr,
    WIDE: tl.constexpr, TURN: tl.constexpr,
):  # fmt: skip
    """Cosines and sines of keys' numbers `[4, 8, W, PAGES, 2]`: `[PAGES, W, 2, 8, 4, HALF / 4]`."""
    f = of_lanes(RUN, HALF // (4 * RUN), 4, F, HALF)[:, None, None, None, None]
    cos, sin = read_angles(near, far, numbers[:, :, :, :, :, None, None, None], f, F, WIDE)
    cos = tl.reshape(tl.permute(cos, [3, 2, 4, 1, 0, 5, 6, 7]), [PAGES, W, 2, 8, 4, HALF // 4])
    sin = tl.reshape(tl.permute(sin, [3, 2, 4, 1, 0, 5, 6, 7]), [PAGES, W, 2, 8, 4, HALF // 4])
    return cos.to(TURN), sin.to(TURN)


@triton.jit
def keys(
    k, rows, used, F: tl.constexpr, HALF: tl.constexpr, RUN: tl.constexpr, PAGES: tl.constexpr, W: tl.constexpr,
    TURN: tl.constexpr,
):  # fmt: skip
    """The halves of keys whose rows begin at `rows` `[4, 8, W, PAGES, 2]`: `[PAGES, W, 2, 8, 4, HALF / 4]`."""
    RUNS: tl.constexpr = HALF // (4 * RUN)
    f = (
        tl.arange(0, 4)[:, None, None, None, None, None, None] * RUN
        + tl.arange(0, RUNS)[:, None] * (4 * RUN)
        + tl.arange(0, RUN)[None, :]
    )
    own = k + rows[:, :, :, :, :, None, None] + f
    known = used[:, :, :, :, :, None, None]
    if F < HALF:
        known = known & (f < F)
    low = tl.permute(read(own, known, True), [3, 2, 4, 1, 0, 5, 6])
    high = tl.permute(read(own + F, known, True), [3, 2, 4, 1, 0, 5, 6])
    low = tl.reshape(low, [PAGES, W, 2, 8, 4, HALF // 4])
    return low.to(TURN), tl.reshape(high, [PAGES, W, 2, 8, 4, HALF // 4]).to(TURN)


@triton.jit
def values(
    v, rows, used, D: tl.constexpr, WIDTH: tl.constexpr, RUN: tl.constexpr, PAGES: tl.constexpr, W: tl.constexpr,
    KW: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Values whose rows begin at `rows` `[4, 8, W, PAGES, 2, 2]`, transposed: `[W, WIDTH, PAGES * 16]`."""
    d = (
        tl.arange(0, 8)[None, :, None, None, None, None, None, None] * RUN
        + tl.arange(0, WIDTH // (8 * RUN))[:, None] * (8 * RUN)
        + tl.arange(0, RUN)[None, :]
    )
    known = used[:, :, :, :, :, :, None, None]
    if D < WIDTH:
        known = known & (d < D)
    x = read(v + rows[:, :, :, :, :, :, None, None] + d, known, True).to(DOT)
    x = tl.permute(x, [2, 6, 7, 1, 3, 0, 4, 5]) if KW == 4 else tl.permute(x, [2, 6, 7, 1, 3, 4, 0, 5])
    return tl.reshape(x, [W, WIDTH, PAGES * 16])


@triton.jit
def shares(weights, PAGES: tl.constexpr, W: tl.constexpr, KW: tl.constexpr, DOT: tl.constexpr):
    """Weights `[W, 8, PAGES * 16]` with keys in the order of `values`: `[W, PAGES * 16, 8]`."""
    x = tl.reshape(weights.to(DOT), [W, 8, PAGES, 2, 4, 2])
    x = tl.permute(x, [0, 2, 4, 3, 5, 1]) if KW == 4 else tl.permute(x, [0, 2, 3, 4, 5, 1])
    return tl.reshape(x, [W, PAGES * 16, 8])
