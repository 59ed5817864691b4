import pytest

from unabridged.engine.errors import BadRequest, QueueFull
from unabridged.engine.events import Prefill
from unabridged.engine.scheduler import Scheduler


def work(id: str) -> Prefill:
    return Prefill(id=id, prefix=b"", segments=())


def filled(*ids: str, waiting: int = 9, slots: int = 1) -> Scheduler:
    scheduler = Scheduler(waiting, slots)
    for id in ids:
        scheduler.add(work(id))
    return scheduler


def next_id(scheduler: Scheduler) -> str | None:
    found = scheduler.next()
    return found.id if found else None


def test_one_slot_finishes_requests_in_the_order_of_arrival() -> None:
    scheduler = filled("a", "b", "c")
    order = []
    while (id := next_id(scheduler)) is not None:
        assert next_id(scheduler) == id
        order.append(id)
        scheduler.remove(id)
    assert order == ["a", "b", "c"]
    assert len(scheduler) == 0


def test_several_slots_take_turns_step_by_step() -> None:
    scheduler = filled("a", "b", "c", slots=2)
    assert [next_id(scheduler) for _ in range(4)] == ["a", "b", "a", "b"]
    scheduler.remove("a")
    assert [next_id(scheduler) for _ in range(4)] == ["b", "c", "b", "c"]


def test_waiting_requests_know_how_many_are_ahead() -> None:
    scheduler = filled("a", "b", "c")
    assert scheduler.ahead() == [("a", 0), ("b", 1), ("c", 2)]
    scheduler.next()
    assert scheduler.ahead() == [("b", 1), ("c", 2)]
    scheduler.remove("b")
    assert scheduler.ahead() == [("c", 1)]


def test_running_and_waiting_requests_can_be_removed_and_unknown_ones_are_no_error() -> None:
    scheduler = filled("a", "b", "c")
    scheduler.next()
    for id in ("a", "b", "nobody"):
        scheduler.remove(id)
    assert next_id(scheduler) == "c"


def test_the_queue_has_a_limit_and_an_id_is_used_once() -> None:
    scheduler = filled("a", "b", waiting=1)
    with pytest.raises(QueueFull, match="2 requests"):
        scheduler.add(work("c"))
    with pytest.raises(BadRequest, match="'b' is already in use"):
        scheduler.add(work("b"))
    scheduler.remove("a")
    scheduler.add(work("a"))
