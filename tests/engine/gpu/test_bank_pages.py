"""How large banks are, and how batches share their memory."""

from dataclasses import replace

import pytest

from unabridged.engine.attention.config import PRESETS
from unabridged.engine.gpu.bank_pages import BankPages, BankRoom

LAYERS, HEADS, DIM = 32, 8, 128
CONFIG = replace(PRESETS["3k-index"](131072), dense_below=8192)


def test_a_list_and_the_stream_find_room() -> None:
    pages = BankPages.of(CONFIG, LAYERS)
    assert (pages.sink, pages.listed) == (16, (2048, 128))
    # From any place of a page on, with the page that is being written.
    assert pages.ring * 16 >= CONFIG.recent(LAYERS) + 15 + 16
    assert (pages.keys, pages.values) == (3584, 512)
    assert BankPages.of(CONFIG, LAYERS, share=0.5).keys == 2048


def test_chunks_shorter_than_a_page_may_lie_in_a_page_each() -> None:
    # The first three layers keep 4096 tokens in chunks of 8.
    assert BankPages.of(PRESETS["3k"](131072), LAYERS).listed == (2048, 512)


def test_an_answer_alone_has_the_memory_of_all() -> None:
    one, four = (BankRoom.of(CONFIG, LAYERS, slots, 1 << 20) for slots in (1, 4))
    assert one.alone == one.shared
    assert one.bytes(LAYERS, HEADS, DIM, 1) == sum(one.alone.each) * LAYERS * HEADS * 2048
    assert four.alone.keys == 4 * 2048
    assert len(four.part(1, dense=False)) <= four.total
    assert four.part(1, dense=True) == range(2 * 512)


def test_dense_and_sparse_batches_of_several_rows_do_not_meet() -> None:
    room = BankRoom.of(CONFIG, LAYERS, 4, 1 << 20)
    sparse, dense = room.part(4, dense=False), room.part(4, dense=True)
    assert (sparse.start, sparse.stop, dense.stop) == (0, dense.start, room.total)
    with pytest.raises(ValueError, match="a batch of 3 rows in banks for 1 or 4"):
        room.part(3, dense=False)


def test_what_banks_do_not_serve_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sink = 100 .*: a multiple of 16"):
        BankPages.of(replace(CONFIG, sink=100), LAYERS)
    (layer,) = CONFIG.layers
    stages = (replace(layer.stages[0], keep=1 << 19), layer.stages[1])
    with pytest.raises(ValueError, match=r"lists of 524,288 tokens .*: 131,072 at most"):
        BankPages.of(replace(CONFIG, layers=(replace(layer, stages=stages),)), LAYERS)
