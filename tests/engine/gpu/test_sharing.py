"""How the GPU's time and memory are divided."""

from unabridged.engine.gpu.pace import Pace


def test_reading_and_answering_get_half_of_the_time_each() -> None:
    pace, reading, answering = Pace(), 0.0, 0.0
    for _ in range(200):
        if pace.reads(decoding=True):
            pace.read(0.06, decoding=True)
            reading += 0.06
        pace.decoded(0.008)
        answering += 0.008
    assert 0.4 < reading / (reading + answering) < 0.6


def test_reading_alone_owes_nothing() -> None:
    pace = Pace()
    pace.read(5.0, decoding=False)
    assert pace.reads(decoding=True)
    pace.read(5.0, decoding=True)
    assert not pace.reads(decoding=True)
    assert pace.reads(decoding=False)
