"""A question and its answer: streaming Markdown, what came of it, the sources, the receipt.

Posts `CitationOpened` and `LinkOpened`. Knows the events of one answer, not where they come from.
"""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Collapsible, Markdown, OptionList, Static
from textual.widgets.markdown import MarkdownStream

from unabridged.app.events import Answer, Citation, Problem, Stage
from unabridged.ui import format as words
from unabridged.ui.marks import CITE, parser
from unabridged.ui.messages import CitationOpened, LinkOpened


class Sources(OptionList):
    """The citations of an answer, one a line."""

    def show(self, citations: tuple[Citation, ...]) -> None:
        """List them; takes no room when there are none."""
        self.clear_options()
        self.add_options([_source(citation) for citation in citations])
        self.display = bool(citations)


def _source(citation: Citation) -> Content:
    line = words.citation_line(citation)
    mark = f"[{citation.n}]"
    return Content.assemble((mark, "bold $text-accent"), line[len(mark) :])


def citation_keys(where: str, answer: str) -> list[BindingType]:
    """The digits, for a widget `where` that opens the citations of `answer`."""
    return [
        Binding(
            str(number),
            f"cite({number})",
            "Open citation",
            show=False,
            id=f"{where}.citation.{number}",
            tooltip=f"Open the page behind citation [{number}] of {answer}",
        )
        for number in range(1, 10)
    ]


class Exchange(Vertical):
    """One question and its answer."""

    BINDINGS: ClassVar[list[BindingType]] = citation_keys("answer", "this answer")

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question
        self.answer: Answer | None = None
        self.said = ""
        self.note = ""
        self._known: set[int] = set()
        self._stream: MarkdownStream | None = None

    def compose(self) -> ComposeResult:
        """Question, answer, note, sources, receipt."""
        yield Static(Content(words.clean(self.question)), classes="question")
        yield Markdown(classes="answer", open_links=False, parser_factory=parser(self._known))
        yield Static(classes="note")
        yield Sources(classes="sources", compact=True)
        with Collapsible(title="Receipt", classes="receipt"):
            yield Static(classes="receipt-lines")

    def on_mount(self) -> None:
        """Nothing is there yet but the question."""
        for part in (".note", ".sources", ".receipt"):
            self.query_one(part).display = False

    @property
    def citations(self) -> tuple[Citation, ...]:
        """The citations, once the answer is complete."""
        return self.answer.citations if self.answer else ()

    def stage(self, event: Stage) -> None:
        """Say what is being done before the first word."""
        if not self.said:
            self._say(words.stage(event), "-working")

    async def feed(self, text: str) -> None:
        """Append a piece of the answer."""
        if self._stream is None:
            self._say("")
            self._stream = Markdown.get_stream(self.query_one(Markdown))
        self.said += text
        await self._stream.write(words.clean(text))

    async def finish(self, answer: Answer) -> None:
        """Replace what was streamed by the answer with its marks, and show sources and receipt."""
        await self._close()
        self.answer, self.said = answer, answer.text
        self._known.update(citation.n for citation in answer.citations)
        markdown = self.query_one(Markdown)
        await markdown.update(words.clean(answer.answer))
        cancelled = answer.receipt.finish == "cancelled"
        self._say("■ stopped" if cancelled else "" if answer.answer.strip() else "the model said nothing", "-stopped")
        self.query_one(Sources).show(answer.citations)
        self._receipt(answer)

    async def stopped(self) -> None:
        """The reader stopped it: keep what came."""
        await self._close()
        self._say("■ stopped: the answer is incomplete, and its sources were not checked", "-stopped")

    async def failed(self, problem: Problem) -> None:
        """It ended in an error: keep what came and say why."""
        await self._close()
        self._say(f"✗ {words.problem(problem)}", "-failed")

    async def _close(self) -> None:
        if self._stream is not None:
            await self._stream.stop()
            self._stream = None

    def _say(self, note: str, kind: str = "") -> None:
        self.note = note
        line = self.query_one(".note", Static)
        line.update(Content(note))
        line.set_classes(f"note {kind}")
        line.display = bool(note)

    def _receipt(self, answer: Answer) -> None:
        receipt = self.query_one(Collapsible)
        receipt.title = words.receipt_title(answer.receipt)
        receipt.set_class(bool(answer.receipt.left_out), "-left-out")
        receipt.query_one(".receipt-lines", Static).update(Content("\n".join(words.receipt_lines(answer.receipt))))
        receipt.display = True

    def action_cite(self, number: int) -> None:
        """Open a citation by its number."""
        for citation in self.citations:
            if citation.n == number:
                self.post_message(CitationOpened(citation, self.citations))

    @on(Markdown.LinkClicked)
    def _link(self, event: Markdown.LinkClicked) -> None:
        event.stop()
        number = event.href.removeprefix(CITE)
        if event.href.startswith(CITE) and number.isdecimal():
            self.action_cite(int(number))
        else:
            self.post_message(LinkOpened(event.href))

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.post_message(CitationOpened(self.citations[event.option_index], self.citations))
