"""The pool in GPU memory: what is stored comes back, whole pages make contexts."""

import pytest
import torch

from unabridged.engine.attention.index_basis import Basis, width_of
from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.index import encoded
from unabridged.engine.errors import OutOfMemory
from unabridged.engine.gpu.host_memory import Place
from unabridged.engine.gpu.pool import K_SCALE, GpuPool
from unabridged.engine.gpu.tables import Tables
from unabridged.engine.kv import memory
from unabridged.engine.kv.blocks import Run
from unabridged.engine.kv.cache import KvCache

LAYERS, HEADS, DIM = 2, 3, 16


def basis(heads: int, dim: int, seed: int) -> Basis:
    """Of no model: keys turned somehow."""
    width = width_of(dim)
    random = torch.Generator().manual_seed(seed)
    turned = torch.linalg.qr(torch.randn(heads, dim, dim, generator=random)).Q.repeat(1, 1, 4)[:, :, : 4 * width]
    weights = torch.full((heads, 4 * width), 1 / (4 * dim))
    return Basis(torch.zeros(heads, dim), (2 * turned).contiguous(), (turned / 2).contiguous(), weights)


# Where pools lie: plain host memory where kernels run in the interpreter, the driver's where there is a GPU.
PLACES = [
    "device",
    "plain",
    pytest.param("managed", marks=pytest.mark.gpu),
    pytest.param("pinned", marks=pytest.mark.gpu),
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, device: str) -> Place:
    if request.param == "plain" and device == "cuda":
        pytest.skip("a GPU does not reach plain memory")
    chosen: Place = request.param
    return chosen


def make_pool(
    device: str, blocks: int = 6, dtype: torch.dtype = torch.float8_e4m3fn, place: Place = "device"
) -> GpuPool:
    token = 2 * LAYERS * HEADS * DIM * dtype.itemsize
    return GpuPool(LAYERS, HEADS, DIM, blocks * 64 * token, dtype, device, place=place)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16])
def test_what_is_written_is_read_from_any_runs(device: str, dtype: torch.dtype, place: Place) -> None:
    pool = make_pool(device, dtype=dtype, place=place)
    assert pool.offloaded == (place != "device")
    assert pool.allocate(384) == [Run(0, 384)]
    assert pool.slots == 384
    assert pool.token_bytes == 2 * LAYERS * HEADS * DIM * dtype.itemsize
    data = torch.randn(2, LAYERS, HEADS, 100, DIM).to(dtype)
    pool.write([Run(128, 64), Run(0, 36)], data)
    assert torch.equal(pool.read([Run(128, 64), Run(0, 36)]).float(), data.float())
    assert torch.equal(pool.read([Run(0, 20)]).float(), data[:, :, :, 64:84].float())
    # A page more would have been another run's.
    assert not pool.read([Run(64, 64)]).float().any()
    assert not pool.read([Run(0, 64)])[:, :, :, 48:].float().any()


def test_keys_that_a_kernel_stored_are_read_where_the_table_says(device: str, place: Place) -> None:
    pool, tables = make_pool(device, dtype=torch.float32, place=place), Tables(2, HEADS, 128, device)
    pool.allocate(384)
    runs = [Run(192, 32), Run(64, 64)]
    tables.put(1, runs)
    assert tables.reserved(1) == 96
    assert tables.slots[0].unique().tolist() == [-1]
    k, v = torch.randn(2, 1, 96, HEADS, DIM, device=device).unbind(0)
    one = torch.ones(1, dtype=torch.int32, device=device)
    write(k, v, pool.caches(tables)[1].bank, one, one - 1)
    found = pool.read(runs)
    assert torch.equal(found[:, 1], torch.stack([k[0], v[0]]).transpose(1, 2).cpu())
    assert not found[:, 0].any()


def test_a_table_grows_in_place_and_by_whole_pages(device: str) -> None:
    tables = Tables(1, 1, 100, device)
    slots = tables.slots
    tables.put(0, [Run(64, 32)])
    tables.extend(0, [Run(0, 20)])
    assert slots[0, 0].tolist() == [4, 5, 0, 1, -1, -1, -1]
    with pytest.raises(ValueError, match="a run of 16 tokens behind 52"):
        tables.extend(0, [Run(128, 16)])
    tables.put(0, [Run(128, 16)])
    assert slots[0, 0].tolist() == [8] + 6 * [-1]
    with pytest.raises(ValueError, match="144 tokens in a row with room for 112"):
        tables.extend(0, [Run(256, 128)])


def test_a_cache_works_on_it(device: str, place: Place) -> None:
    cache = KvCache(make_pool(device, place=place))
    entry = cache.add("a", 100)
    assert cache.pool.free_tokens == 256
    with pytest.raises(OutOfMemory):
        cache.add("b", 300)
    cache.release(entry)
    assert cache.pool.free_tokens == 384


def test_a_pool_says_when_it_holds_nothing(device: str) -> None:
    with pytest.raises(OutOfMemory, match="holds no block"):
        make_pool(device, blocks=0)


def test_what_is_written_is_in_the_index(device: str, place: Place) -> None:
    bases = [basis(HEADS, DIM, seed) for seed in range(LAYERS)]
    # Codes lie on the device: those of a pool that does not come on top.
    token = 2 * LAYERS * HEADS * DIM + (LAYERS * HEADS * 3 if place == "device" else 0)
    pool = GpuPool(LAYERS, HEADS, DIM, 3 * 64 * token, device=device, bases=bases, place=place)
    assert (pool.slots, pool.indexed) == (192, True)
    pool.allocate(192)
    runs = [Run(128, 64), Run(0, 21)]
    data = torch.randn(2, LAYERS, HEADS, 85, DIM).to(torch.float8_e4m3fn)
    pool.write(runs, data)
    tables = Tables(1, HEADS, 128, device)
    tables.put(0, runs)
    for layer, cache in enumerate(pool.caches(tables)):
        assert cache.index is not None
        codes, scales = encoded(data[0, layer].float() * K_SCALE, bases[layer])
        assert torch.equal(cache.index.read(0, 0, 85)[0].cpu(), codes)
        assert torch.equal(cache.index.read(0, 0, 85)[1].cpu(), scales)


def test_a_pool_in_host_memory_takes_nothing_when_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = make_pool("cpu", place="plain")
    first = pool.allocate(64)
    pool.write(first, torch.ones(2, LAYERS, HEADS, 64, DIM).to(pool.dtype))
    monkeypatch.setattr(memory, "available", lambda: memory.RESERVE_BYTES)
    with pytest.raises(OutOfMemory, match="bytes of KV are needed"):
        pool.check(130)
    with pytest.raises(OutOfMemory, match="bytes of KV are needed"):
        pool.allocate(130)
    assert pool.free_tokens == 320
    monkeypatch.undo()
    pool.check(320)
    with pytest.raises(OutOfMemory, match="room for 320 of 321 tokens"):
        pool.check(321)
    assert pool.free_tokens == 320
    pool.free(first)
    assert pool.allocate(384) == [Run(0, 384)]


@pytest.mark.gpu
def test_a_pool_that_memory_does_not_hold_says_so() -> None:
    with pytest.raises(OutOfMemory, match="does not fit"):
        make_pool("cuda", blocks=1 << 30)
