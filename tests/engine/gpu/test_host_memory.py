"""Memory of the host that kernels use in place: taken slot by slot, given back where it can be, refused in time."""

import gc
from pathlib import Path

import pytest
import torch

from unabridged.engine.attention.kernels.bank_write import write
from unabridged.engine.attention.kernels.layout import Bank
from unabridged.engine.errors import OutOfMemory
from unabridged.engine.gpu.host_memory import HostMemory, HostPlace, best_place
from unabridged.engine.gpu.host_ranges import Registered
from unabridged.engine.kv import memory

HERE = torch.device("cpu")
CUDA = torch.device("cuda")
PAGE = 4096
GPU_PLACES: list[HostPlace] = ["managed", "pinned"]


def resident(within: HostMemory) -> int:
    """Bytes of the tensor that the machine has given memory for."""
    first, last = within.tensor.data_ptr() // PAGE, -(-(within.tensor.data_ptr() + within.tensor.nbytes) // PAGE)
    with Path("/proc/self/pagemap").open("rb") as pages:
        pages.seek(8 * first)
        entries = torch.frombuffer(bytearray(pages.read(8 * (last - first))), dtype=torch.int64)
    # The highest bit: the page is there.
    return PAGE * int((entries < 0).sum())


class Recorder:
    """Stands for the driver: remembers what is registered."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.pinned: dict[int, int] = {}
        self.waited, self._most = 0, most

    def register(self, address: int, size: int) -> None:
        if sum(self.pinned.values()) + size > self._most:
            raise OutOfMemory("cuMemHostRegister_v2 failed")
        assert not any(one < address + size and address < one + length for one, length in self.pinned.items())
        self.pinned[address] = size

    def unregister(self, address: int) -> None:
        del self.pinned[address]

    def synchronize(self) -> None:
        self.waited += 1


def test_memory_is_taken_slot_by_slot_and_given_back() -> None:
    # 3 planes of 4,096 slots of a machine's page: 48 MiB.
    held = HostMemory((3, 4096, PAGE // 2), torch.int16, "plain", HERE)
    empty = resident(held)
    assert empty == 3 * PAGE
    held.commit(512, 1024)
    taken = resident(held) - empty
    assert taken == 3 * 512 * PAGE
    held.tensor[:, 512:1024] = 7
    held.commit(256, 1024)
    assert bool((held.tensor[:, 512:1024] == 7).all())
    assert not held.tensor[:, 256:512].any()
    held.release(512, 1024)
    assert resident(held) - empty == 3 * 256 * PAGE
    held.release(0, 4096)
    assert resident(held) == empty
    held.close()


def test_much_memory_is_touched_by_several_threads() -> None:
    held = HostMemory((2, 64, 1 << 20), torch.uint8, "plain", HERE)
    held.commit(10, 60)
    assert resident(held) >= 100 << 20
    held.close()


def test_memory_that_the_machine_has_not_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HostMemory((1, 64, 1 << 20), torch.uint8, "plain", HERE)
    monkeypatch.setattr(memory, "available", lambda: memory.RESERVE_BYTES + (10 << 20))
    with pytest.raises(OutOfMemory, match=r"33,554,432 bytes of KV are needed, the machine has 9,814,672 free"):
        held.commit(4, 36)
    assert resident(held) == 1 << 20
    held.commit(4, 8)
    monkeypatch.setattr(memory, "available", lambda: 0)
    # What is there already needs nothing.
    held.commit(5, 8)
    held.close()


def test_pinned_memory_comes_and_goes_in_chunks() -> None:
    driver = Recorder()
    range_ = Registered(64 * PAGE, driver, spare=1, chunk=4 * PAGE)
    assert range_.wanted([(0, 1), (5 * PAGE, 9 * PAGE)]) == 12 * PAGE
    range_.take([(0, 1), (5 * PAGE, 9 * PAGE)])
    assert len(driver.pinned) == 3
    range_.take([(9 * PAGE, 10 * PAGE)])
    assert len(driver.pinned) == 3
    range_.give([(5 * PAGE, 9 * PAGE)])
    # The second chunk is free, and spare; the third holds a page still.
    assert (len(driver.pinned), driver.waited) == (3, 0)
    range_.give([(9 * PAGE, 10 * PAGE)])
    assert (len(driver.pinned), driver.waited) == (2, 1)
    range_.take([(4 * PAGE, 12 * PAGE)])
    assert len(driver.pinned) == 3
    range_.close()
    assert not driver.pinned


def test_a_driver_that_pins_no_more_leaves_nothing_behind() -> None:
    driver = Recorder(most=8 * PAGE)
    range_ = Registered(64 * PAGE, driver, spare=0, chunk=4 * PAGE)
    range_.take([(0, PAGE)])
    with pytest.raises(OutOfMemory, match="cuMemHostRegister"):
        range_.take([(4 * PAGE, 16 * PAGE)])
    # The one that it did pin serves the next who asks.
    assert len(driver.pinned) == 2
    range_.take([(4 * PAGE, 8 * PAGE)])
    assert len(driver.pinned) == 2
    range_.close()


def test_memory_without_a_gpu_is_plain() -> None:
    assert best_place(HERE) == "plain"


@pytest.mark.gpu
@pytest.mark.parametrize("place", GPU_PLACES)
def test_a_gpu_writes_it_in_place_and_takes_no_memory_of_its_own(place: HostPlace) -> None:
    # 2 planes of 64 MiB, of whose slots every other one is written.
    held = HostMemory((2, 32768, 16, 128), torch.float8_e4m3fn, place, CUDA)
    held.commit(100, 32768)
    table = torch.arange(128, 32768, 2, dtype=torch.int32, device=CUDA).view(1, 1, -1)
    tokens = 16 * table.shape[2]
    k, v = torch.randn(2, 1, tokens, 1, 128, dtype=torch.bfloat16, device=CUDA).unbind(0)
    one = torch.ones(1, device=CUDA)
    planes = held.tensor.unbind(0)
    bank = Bank(planes[0], planes[1], table, table, one, one)
    nowhere = torch.zeros(1, dtype=torch.int32, device=CUDA)
    taken = []
    for _ in range(5):
        before, _ = torch.cuda.mem_get_info()
        write(k, v, bank, nowhere, nowhere)
        torch.cuda.synchronize()
        taken.append(before - torch.cuda.mem_get_info()[0])
        # The host reads them: what had moved to the GPU would have to move again.
        assert held.tensor.view(torch.uint8).any()
    # Other processes may take memory of the same GPU meanwhile, but not each time.
    assert min(taken) < 16 << 20
    for stored, plane in zip((k, v), held.tensor, strict=True):
        wanted = stored.view(-1, 16, 128).to(held.tensor.dtype).cpu()
        assert torch.equal(plane[128::2].view(torch.uint8), wanted.view(torch.uint8))
        assert not plane[129::2].view(torch.uint8).any()
    held.release(100, 32768)
    held.commit(0, 200)
    held.close()


@pytest.mark.gpu
def test_the_best_place_is_one_that_the_gpu_reaches() -> None:
    assert best_place(CUDA) in GPU_PLACES
    if torch.cuda.get_device_capability()[0] == 9:
        assert best_place(CUDA, 1 << 50) == "pinned"


def test_memory_that_is_forgotten_is_given_back() -> None:
    memory = HostMemory((1, 64, 16), torch.uint8, "plain", torch.device("cpu"))
    taken = memory._range
    del memory
    gc.collect()
    assert taken.buffer is None
