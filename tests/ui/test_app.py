"""The interface driven by keys, against a server in memory that sends the real events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.ui.scripted_server import ScriptedServer
from textual import events
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Input, Markdown, OptionList, Static

from unabridged.app.client import ClientError, EngineHealth, Health
from unabridged.app.events import Added, Answer, Delta, FileRead, Problem, Stage
from unabridged.ui.screens.choose import ConversationsScreen, SearchScreen
from unabridged.ui.screens.dialogs import Confirm, PasswordDialog, PathDialog, Report
from unabridged.ui.screens.help import HelpScreen
from unabridged.ui.screens.main import MainScreen
from unabridged.ui.screens.page import PageScreen
from unabridged.ui.tree import patterns
from unabridged.ui.tui import UnabridgedApp
from unabridged.ui.widgets.chat import Chat
from unabridged.ui.widgets.document_tree import DocumentTree
from unabridged.ui.widgets.documents import Documents
from unabridged.ui.widgets.exchange import Exchange, Sources
from unabridged.ui.widgets.prompt import Prompt
from unabridged.ui.widgets.status import StatusBar

Wait = Callable[..., Awaitable[None]]
Drive = Callable[..., AbstractAsyncContextManager["Driver"]]


class Driver:
    """The application under test, with the few things that every test looks at."""

    def __init__(self, app: UnabridgedApp, pilot: Pilot[int], wait: Wait) -> None:
        self.app, self.pilot, self._wait = app, pilot, wait

    @property
    def main(self) -> MainScreen:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, MainScreen))

    @property
    def newest(self) -> Exchange:
        exchange = self.main.query_one(Chat).newest
        assert exchange is not None
        return exchange

    @property
    def status(self) -> StatusBar:
        return self.main.query_one(StatusBar)

    async def until(self, condition: Callable[[], object]) -> None:
        await self._wait(self.pilot, condition)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def ask(self, text: str) -> None:
        self.main.query_one(Prompt).text = text
        self.main.query_one(Prompt).focus()
        await self.press("enter")

    async def type_fast(self, text: str, *keys: str) -> None:
        """Keys that arrive together, before the first of them is handled."""
        for key in (*text, *keys):
            self.app.post_message(events.Key(key, key if len(key) == 1 else None))

    async def answered(self, text: str) -> None:
        await self.ask(text)
        await self.until(lambda: self.main.query_one(Chat).newest and not self.main.busy)

    def text(self, selector: str) -> str:
        return str(self.app.screen.query_one(selector, Static).content)


@pytest.fixture
def drive(server: ScriptedServer, wait: Wait) -> Drive:
    @asynccontextmanager
    async def driving(*paths: Path, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Driver]:
        app = UnabridgedApp(server, "default", paths)
        async with app.run_test(size=size) as pilot:
            driver = Driver(app, pilot, wait)
            await driver.until(lambda: driver.status.state.health or driver.status.state.fault)
            await driver.until(lambda: str(driver.main.query_one("#counts", Static).content) or server.fault)
            yield driver

    return driving


class TestAsking:
    async def test_an_answer_streams_and_ends_with_sources_and_receipt(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        gate = asyncio.Event()
        server.answers = [[Stage(name="read", done=1, total=4), Delta(text="The rent"), gate, answer]]
        async with drive() as it:
            await it.ask("How much?")
            await it.until(lambda: it.newest.said == "The rent")
            assert it.main.busy
            gate.set()
            await it.until(lambda: not it.main.busy)
            assert it.newest.query_one(Markdown).source == answer.answer
            assert it.newest.query_one(Sources).option_count == 2
            assert it.newest.query_one(".receipt").display
            assert not it.status.progress.display
            assert it.main.query_one(Prompt).text == ""

    @pytest.mark.slow
    async def test_progress_shows_what_is_read_and_the_time_left(self, drive: Drive, server: ScriptedServer) -> None:
        gate = asyncio.Event()
        stage = Stage(name="read", text="reading lease.pdf", done=3, total=12, seconds_left=75)
        server.answers = [[stage, gate, Problem(code="x", message="over")]]
        async with drive() as it:
            await it.ask("How much?")
            await it.until(lambda: it.status.progress.display)
            shown = str(it.status.progress.render())
            assert "25%" in shown
            assert "1 min 15 s left · reading lease.pdf" in shown
            gate.set()

    async def test_the_conversation_goes_on_with_its_id_and_the_chosen_mode(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer], [answer]]
        async with drive() as it:
            await it.answered("How much?")
            await it.press("ctrl+t")
            await it.answered("And the deposit?")
        assert [question.conversation for question in server.asked] == [None, "c1"]
        assert [question.mode for question in server.asked] == ["auto", "whole"]

    async def test_enter_does_not_overtake_the_letters_and_what_is_typed_behind_it_stays(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer]]
        async with drive() as it:
            prompt = it.main.query_one(Prompt)
            prompt.focus()
            await it.type_fast("when?", "enter", "a", "b", "ctrl+j", "c")
            await it.until(lambda: it.main.query_one(Chat).newest and not it.main.busy and prompt.text == "ab\nc")
        assert [question.text for question in server.asked] == ["when?"]

    async def test_escape_stops_keeps_what_came_and_says_so(self, drive: Drive, server: ScriptedServer) -> None:
        server.answers = [[Delta(text="The rent is"), asyncio.Event()]]
        async with drive() as it:
            await it.ask("How much?")
            await it.until(lambda: it.newest.said)
            await it.press("escape")
            await it.until(lambda: it.newest.note.startswith("■ stopped"))
            assert it.newest.query_one(Markdown).source == "The rent is"
            assert server.closed == 1
            assert not it.main.busy

    async def test_a_failed_answer_is_one_line_and_the_next_question_works(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        died = Problem(code="engine_died", message="the engine ended while answering", hint="ask again")
        server.answers = [[Delta(text="The"), died], [answer]]
        async with drive() as it:
            await it.answered("How much?")
            assert it.newest.note == "✗ the engine ended while answering → ask again"
            assert it.newest.query_one(Markdown).source == "The"
            await it.answered("How much?")
            assert it.newest.answer == answer

    @pytest.mark.slow
    async def test_a_stream_without_an_end_is_reported(self, drive: Drive, server: ScriptedServer) -> None:
        server.answers = [[Delta(text="The")]]
        async with drive() as it:
            await it.answered("How much?")
            assert "ended without a result" in it.newest.note

    @pytest.mark.slow
    async def test_an_error_nobody_expected_is_shown_and_survived(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[ZeroDivisionError("boom")], [answer]]
        async with drive() as it:
            await it.answered("How much?")
            assert it.newest.note == "✗ unexpected ZeroDivisionError: boom → please report this"
            await it.until(lambda: "boom" in " ".join(note.message for note in it.app._notifications))
            await it.answered("Again?")
            assert it.newest.answer == answer

    @pytest.mark.slow
    async def test_a_second_question_waits_for_the_first(self, drive: Drive, server: ScriptedServer) -> None:
        server.answers = [[asyncio.Event()]]
        async with drive() as it:
            await it.ask("One?")
            await it.until(lambda: it.main.busy)
            await it.ask("Two?")
            assert len(server.asked) == 1
            assert it.main.query_one(Prompt).text == "Two?"

    async def test_quitting_during_an_answer_closes_the_stream(self, drive: Drive, server: ScriptedServer) -> None:
        server.answers = [[Delta(text="The"), asyncio.Event()]]
        async with drive() as it:
            await it.ask("One?")
            await it.until(lambda: it.newest.said)
            await it.press("ctrl+q")
        assert server.closed == 1

    @pytest.mark.slow
    async def test_up_and_down_go_through_the_questions(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer], [answer]]
        async with drive() as it:
            await it.answered("One?")
            await it.answered("Two?")
            prompt = it.main.query_one(Prompt)
            await it.press(*"dra", "up", "up", "up")
            assert prompt.text == "One?"
            await it.press("down", "down")
            assert prompt.text == "dra"

    @pytest.mark.slow
    async def test_a_new_line_does_not_send(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            await it.press("a", "ctrl+j", "b")
            assert it.main.query_one(Prompt).text == "a\nb"
            assert server.asked == []


class TestCitations:
    async def test_a_number_opens_the_page_with_the_passage_in_view(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer]]
        async with drive() as it:
            await it.answered("How much?")
            await it.press("ctrl+o", "1")
            await it.until(lambda: isinstance(it.app.screen, PageScreen) and it.app.screen.page)
            assert "page 3 (printed ii) of 12" in it.text("#where")
            sheet = it.app.screen.query_one("#sheet")
            await it.until(lambda: sheet.scroll_y > 20)
            content = it.app.screen.query_one("#text", Static).content
            assert isinstance(content, Content)
            marked = [content.plain[span.start : span.end] for span in content.spans]
            assert answer.citations[0].quote in marked
            await it.press("c")
            await it.until(lambda: "inbox.mbox#2" in it.text("#where"))
            await it.press("escape")
            assert it.app.screen is it.main

    async def test_a_click_on_the_mark_in_the_text_opens_the_page(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer]]
        async with drive() as it:
            await it.answered("How much?")
            block = it.newest.query("MarkdownParagraph").first()
            await it.until(lambda: block.size.width)
            plain = "The rent is 1,240 euros a month [1]"
            await it.pilot.click(block, offset=(plain.index("[1]") + 1, 0))
            await it.until(lambda: isinstance(it.app.screen, PageScreen))

    @pytest.mark.slow
    async def test_enter_on_a_source_opens_it(self, drive: Drive, server: ScriptedServer, answer: Answer) -> None:
        server.answers = [[answer]]
        async with drive() as it:
            await it.answered("How much?")
            await it.press("ctrl+o", "down", "enter")
            await it.until(lambda: isinstance(it.app.screen, PageScreen) and it.app.screen.page)

    @pytest.mark.slow
    async def test_pages_turn_and_stop_at_the_ends(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            it.main.query_one(DocumentTree).focus()
            await it.press("down", "enter")
            await it.until(lambda: isinstance(it.app.screen, PageScreen) and it.app.screen.page)
            await it.press("left")
            page = it.app.screen
            assert isinstance(page, PageScreen)
            assert page.page is not None
            assert page.page.number == 1
            await it.press("right")
            await it.until(lambda: page.page and page.page.number == 2)
            assert "page 2 of 12" in it.text("#where")

    @pytest.mark.slow
    async def test_a_page_that_cannot_be_had_is_one_line(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers, server.sheets = [[answer]], {}
        async with drive() as it:
            await it.answered("How much?")
            await it.press("ctrl+o", "1")
            await it.until(lambda: isinstance(it.app.screen, PageScreen) and it.text("#text"))
            assert it.text("#text") == "page not found"

    @pytest.mark.slow
    async def test_a_link_of_the_model_is_shown_and_never_followed(
        self, drive: Drive, server: ScriptedServer, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[str] = []
        monkeypatch.setattr(UnabridgedApp, "open_url", lambda self, url, **_: opened.append(url))
        server.answers = [[answer]]
        async with drive() as it:
            await it.answered("How much?")
            markdown = it.newest.query_one(Markdown)
            markdown.post_message(Markdown.LinkClicked(markdown, "http://x.org"))
            await it.pilot.pause()
            assert opened == []


class TestDocuments:
    @pytest.mark.slow
    async def test_statuses_and_problems_are_shown_and_counted(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            assert it.text("#counts") == "9 documents, 24 pages, 2 problems"

    async def test_space_scopes_the_question_and_the_status_says_so(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer], [answer]]
        async with drive() as it:
            it.main.query_one(DocumentTree).focus()
            await it.press("space")
            await it.until(lambda: it.status.state.scope == "asking 3 of 9 documents")
            await it.answered("How much?")
            it.main.query_one(DocumentTree).focus()
            await it.press("u")
            await it.until(lambda: it.status.state.scope == "all 9 documents")
            await it.answered("How much?")
        assert server.asked[0].documents == patterns(server.files[:3])
        assert server.asked[1].documents == ()

    async def test_the_filter_line_narrows_the_question_and_stays(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer], [answer]]
        async with drive() as it:
            await it.press("ctrl+l")
            await it.press(*"from:ann since:2024 x.pdf", "enter")
            await it.until(lambda: it.status.state.narrowed == "from:ann since:2024 x.pdf")
            await it.answered("How much?")
            it.main.query_one("#narrow", Input).value = ""
            await it.press("ctrl+l", "escape")
            await it.until(lambda: not it.main.query_one("#narrow", Input).display)
            await it.answered("How much?")
        assert (server.asked[0].sender, server.asked[0].since) == ("ann", "2024")
        assert server.asked[0].documents == ("x.pdf",)
        assert (server.asked[1].sender, server.asked[1].documents) == ("", ())

    async def test_a_filter_that_means_nothing_is_not_taken(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            await it.until(lambda: "all 9 documents" in str(it.status.state.render()))
            await it.press("ctrl+l", *"since:foo", "enter")
            assert it.main.query_one("#narrow", Input).has_focus
            assert it.status.state.narrowed == ""
            it.main.query_one("#narrow", Input).value = "since:2024"
            await it.press("enter")
            await it.until(lambda: it.status.state.narrowed == "since:2024")
            assert "only since:2024" in str(it.status.state.render())
            assert "all 9 documents" not in str(it.status.state.render())

    @pytest.mark.slow
    async def test_the_filter_and_the_problems_key_narrow_the_tree(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            it.main.query_one("#filter", Input).focus()
            await it.press(*"annex")
            await it.until(lambda: it.text("#counts").startswith("1 of 9 documents"))
            await it.press("enter", "p")
            await it.until(lambda: it.text("#counts").startswith("0 of 9 documents"))

    @pytest.mark.slow
    async def test_removing_asks_first(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            it.main.query_one(DocumentTree).focus()
            await it.press("end", "delete")
            await it.until(lambda: isinstance(it.app.screen, Confirm))
            await it.press("n")
            assert len(server.files) == 9
            await it.press("delete", "y")
            await it.until(lambda: len(it.main.query_one(Documents).documents) == 8)

    @pytest.mark.slow
    async def test_names_with_brackets_and_escapes_are_shown_as_they_are(
        self, drive: Drive, server: ScriptedServer
    ) -> None:
        async with drive() as it:
            tree = it.main.query_one(DocumentTree)
            lines = [tree.render_line(y).text for y in range(8)]
            assert any("lease [2024].pdf" in line for line in lines)


class TestReading:
    READ = FileRead(path="/a/b.pdf", kind="pdf", status="read", reason="", pages=2, documents=1, change="new")
    BAD = FileRead(
        path="/a/[x].pdf", kind="pdf", status="damaged", reason="no trailer", pages=0, documents=1, change="new"
    )
    DONE = Added(collection="default", files=2, statuses={"read": 1, "damaged": 1}, changes={"new": 2}, seconds=1.5)

    async def test_a_path_at_the_start_is_read_and_its_problems_listed(
        self, drive: Drive, server: ScriptedServer, tmp_path: Path
    ) -> None:
        server.readings = [[Stage(name="files", done=1, total=2), self.READ, self.BAD, self.DONE]]
        async with drive(tmp_path) as it:
            await it.until(lambda: "1 damaged · F9 lists them" in it.text("#reading"))
            assert server.added == [((str(tmp_path),), "default")]
            await it.press("f9")
            await it.until(lambda: isinstance(it.app.screen, Report))
            report = str(it.app.screen.query("Static").first(Static).content)
            assert report.splitlines()[0] == "✗ /a/[x].pdf · new · damaged: no trailer"

    @pytest.mark.slow
    async def test_the_dialog_completes_paths_and_refuses_what_is_not_there(
        self, drive: Drive, server: ScriptedServer, tmp_path: Path
    ) -> None:
        (tmp_path / "papers").mkdir()
        server.readings = [[self.DONE]]
        async with drive() as it:
            await it.press("f2")
            await it.until(lambda: isinstance(it.app.screen, PathDialog))
            field = it.app.screen.query_one(Input)
            field.value = f"{tmp_path}/nowhere"
            await it.press("enter")
            await it.until(lambda: "nothing lies at" in it.text("#hint"))
            field.value = ""
            await it.press(*f"{tmp_path}/pa")
            await it.press("tab", "enter")
            await it.until(lambda: server.added == [((f"{tmp_path}/papers",), "default")])

    @pytest.mark.slow
    async def test_a_locked_file_is_read_again_with_its_password(self, drive: Drive, server: ScriptedServer) -> None:
        server.readings = [[self.DONE]]
        async with drive() as it:
            it.main.query_one(DocumentTree).focus()
            await it.press("end", "k")
            await it.until(lambda: isinstance(it.app.screen, PasswordDialog))
            await it.press(*"secret", "enter")
            await it.until(lambda: server.added)
        assert (server.added, server.passwords) == ([(("/home/ann/case/locked.pdf",), "default")], ["secret"])

    @pytest.mark.slow
    async def test_looking_again_reads_what_changed(self, drive: Drive, server: ScriptedServer) -> None:
        server.readings = [[self.DONE]]
        async with drive() as it:
            await it.press("f5")
            await it.until(lambda: server.added == [((), "default")])

    @pytest.mark.slow
    async def test_reading_can_be_stopped(self, drive: Drive, server: ScriptedServer, tmp_path: Path) -> None:
        server.readings = [[self.READ, asyncio.Event()]]
        async with drive(tmp_path) as it:
            await it.press("f8")
            await it.until(lambda: it.text("#reading") == "stopped: what was read stays")
            assert server.closed == 1


class TestConversations:
    async def test_an_old_conversation_is_reopened_and_continued(
        self, drive: Drive, server: ScriptedServer, answer: Answer
    ) -> None:
        server.answers = [[answer], [answer]]
        async with drive() as it:
            await it.answered("How much?")
        async with drive() as it:
            await it.press("f4")
            await it.until(lambda: isinstance(it.app.screen, ConversationsScreen) and it.app.screen.focused)
            await it.until(lambda: it.app.screen.query_one(OptionList).option_count == 1)
            await it.press("enter")
            await it.until(lambda: it.main.query_one(Chat).newest and it.newest.answer == answer)
            await it.answered("And then?")
            await it.press("ctrl+n")
            await it.until(lambda: it.main.query_one(Chat).newest is None)
        assert server.asked[1].conversation == "c1"

    @pytest.mark.slow
    async def test_deleting_takes_two_presses(self, drive: Drive, server: ScriptedServer, answer: Answer) -> None:
        server.answers = [[answer]]
        async with drive() as it:
            await it.answered("How much?")
            await it.press("f4")
            await it.until(lambda: isinstance(it.app.screen, ConversationsScreen) and it.app.screen.focused)
            await it.press("delete")
            await it.until(lambda: "for good" in it.text("#hint"))
            assert server.stored
            await it.press("delete")
            await it.until(lambda: it.text("#hint") == "No conversations yet")

    async def test_copy_and_export_carry_the_sources(
        self, drive: Drive, server: ScriptedServer, answer: Answer, tmp_path: Path
    ) -> None:
        server.answers = [[answer]]
        target = tmp_path / "out.md"
        async with drive() as it:
            await it.answered("How much?")
            await it.press("f6")
            assert "[2] /home/ann/case/mail/inbox.mbox#2" in it.app.clipboard
            await it.press("f7")
            await it.until(lambda: isinstance(it.app.screen, PathDialog))
            it.app.screen.query_one(Input).value = str(target)
            await it.press("enter")
            await it.until(target.exists)
        assert "## How much?" in target.read_text("utf-8")

    @pytest.mark.slow
    async def test_export_does_not_replace_a_file_at_once(
        self, drive: Drive, server: ScriptedServer, answer: Answer, tmp_path: Path
    ) -> None:
        server.answers = [[answer]]
        target = tmp_path / "out.md"
        target.write_text("mine", "utf-8")
        async with drive() as it:
            await it.answered("How much?")
            await it.press("f7")
            await it.until(lambda: isinstance(it.app.screen, PathDialog))
            it.app.screen.query_one(Input).value = str(target)
            await it.press("enter")
            await it.until(lambda: "Enter again replaces it" in it.text("#hint"))
            assert target.read_text("utf-8") == "mine"


class TestServer:
    @pytest.mark.slow
    async def test_engine_states_are_shown(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            assert "● ready" in str(it.status.state.render())
            engine = EngineHealth(state="ready", max_context=1_000_000, place="host")
            server.state = Health(status="ok", version="0", pid=1, engine=engine)
            await it.main._poll()
            await it.until(lambda: "room for 1.0M tokens in host memory" in str(it.status.state.render()))
            engine = EngineHealth(state="restarting", message="killed by signal 9")
            server.state = Health(status="starting", version="0", pid=1, engine=engine)
            await it.main._poll()
            await it.until(lambda: "engine restarting: killed by signal 9" in str(it.status.state.render()))

    async def test_a_dead_server_is_a_line_and_its_return_brings_everything_back(
        self, drive: Drive, server: ScriptedServer
    ) -> None:
        server.fault = ClientError("no answer from the server at http://127.0.0.1:1", "see `unabridged doctor`")
        async with drive() as it:
            assert "no answer from the server" in str(it.status.state.render())
            for key in ("f4", "escape", "f3", "x", "enter", "escape", "f5"):
                await it.press(key)
            server.fault = None
            await it.main._poll()
            await it.until(lambda: it.text("#counts").startswith("9 documents"))
            assert "● ready" in str(it.status.state.render())


class TestScreens:
    @pytest.mark.slow
    async def test_search_opens_the_page_with_the_words_marked(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            await it.press("f3", *"rent", "enter")
            await it.until(
                lambda: isinstance(it.app.screen, SearchScreen) and it.app.screen.query_one(OptionList).has_focus
            )
            await it.press("enter")
            await it.until(lambda: isinstance(it.app.screen, PageScreen) and it.app.screen.page)
            assert "page 3" in it.text("#where")

    async def test_help_lists_every_key(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            await it.press("f1")
            await it.until(lambda: isinstance(it.app.screen, HelpScreen))
            shown = "\n".join(str(static.content) for static in it.app.screen.query(".keys").results(Static))
            for key in ("Ctrl+N", "Ctrl+T", "F2", "Space", "Esc", "Ctrl+J", "1-9"):
                assert key in shown

    async def test_an_empty_library_is_shown_without_complaint(self, drive: Drive, server: ScriptedServer) -> None:
        server.files = []
        async with drive() as it:
            assert "No documents yet" in it.text("#counts")
            assert not [note.message for note in it.app._notifications]

    async def test_every_command_is_in_the_palette(self, drive: Drive, server: ScriptedServer) -> None:
        async with drive() as it:
            titles = {command.title for command in it.app.get_system_commands(it.app.screen)}
        assert {"Add files or folders", "Save the conversation as Markdown", "Stop reading files", "Theme"} <= titles

    @pytest.mark.parametrize(
        "size",
        [(80, 24), pytest.param((60, 15), marks=pytest.mark.slow), pytest.param((200, 60), marks=pytest.mark.slow)],
    )
    async def test_every_size_shows_prompt_status_and_documents(
        self, drive: Drive, server: ScriptedServer, answer: Answer, size: tuple[int, int]
    ) -> None:
        server.answers = [[answer]]
        async with drive(size=size) as it:
            await it.answered("How much?")
            for selector in ("#prompt", "#state", "#tree", "#chat"):
                region = it.main.query_one(selector).region
                assert region.height >= 1
                assert region.right <= size[0]
                assert region.bottom <= size[1]

    @pytest.mark.slow
    async def test_it_works_without_colours(
        self, drive: Drive, server: ScriptedServer, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        server.answers = [[answer]]
        async with drive() as it:
            await it.answered("How much?")
            assert it.app.no_color
            assert "unsupported" in it.app.export_screenshot()
