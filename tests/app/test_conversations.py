"""The history of questions and answers."""

from pathlib import Path

import pytest

from unabridged.app.conversations import Conversations, new_id, turns
from unabridged.app.errors import ConversationNotFound, HistoryUnavailable
from unabridged.app.events import Answer, Receipt, Turn


def _answer(text: str) -> Answer:
    receipt = Receipt(
        mode="whole", why="", model="m", engine="torch", documents=1, pages=1, tokens=1, context=1, cached=0,
        attended=1,
        coverage=1.0, attention="dense", completion=1, seconds_to_first_token=0.1, seconds=0.2, finish="stop",
    )  # fmt: skip
    return Answer(answer=f"{text} [1]", text=text, citations=(), sentences=(), receipt=receipt, conversation="")


@pytest.fixture
def history(tmp_path: Path) -> Conversations:
    """An empty history."""
    return Conversations(tmp_path / "deep" / "conversations.db")


def test_a_conversation_comes_back_as_it_was(history: Conversations) -> None:
    id = new_id()
    history.append(id, "default", "What?\n" + "long " * 40, _answer("This."))
    history.append(id, "default", "And?", _answer("That."))
    assert history.path.stat().st_mode & 0o777 == 0o600
    stored = Conversations(history.path).get(id)
    assert [exchange.question for exchange in stored.exchanges][1] == "And?"
    assert stored.exchanges[0].answer == _answer("This.")
    assert len(stored.info.title) <= 80
    assert turns(stored)[1:3] == (Turn("assistant", "This."), Turn("user", "And?"))


def test_the_newest_stands_first_and_can_be_deleted(history: Conversations) -> None:
    first, second = new_id(), new_id()
    for id in (first, second, first):
        history.append(id, "default", "q", _answer("a"))
    assert [(info.id, info.exchanges) for info in history.list()] == [(first, 2), (second, 1)]
    history.delete(first)
    assert [info.id for info in history.list()] == [second]
    with pytest.raises(ConversationNotFound, match=first):
        history.get(first)


def test_an_unknown_one_is_an_error(history: Conversations) -> None:
    with pytest.raises(ConversationNotFound, match="c_no"):
        history.delete("c_no")


def test_a_history_that_cannot_be_used_says_so(history: Conversations) -> None:
    history.append("c_1", "default", "q", _answer("a"))
    history.path.write_bytes(b"no database at all " * 400)
    with pytest.raises(HistoryUnavailable, match="damaged") as caught:
        history.list()
    assert str(history.path) in caught.value.message
    with pytest.raises(HistoryUnavailable):
        Conversations(history.path / "below" / "a-file.db").list()
