"""`unabridged ask` and `unabridged chat`: questions, through the server that runs or one that is started for them."""

import asyncio
import shutil
import sys
import unicodedata
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unabridged.app.cli import exit_code, say
from unabridged.app.commands.common import (
    TEXT,
    App,
    collection_option,
    emit,
    examples,
    json_option,
    pass_app,
    vram_option,
)
from unabridged.app.commands.filtering import filter_options, question_fields
from unabridged.app.events import Answer, Delta, Problem, Question, Stage
from unabridged.app.places import place
from unabridged.app.printable import one_line, printable
from unabridged.engine.events import Sampling

if TYPE_CHECKING:
    from unabridged.app.settings import Settings
    from unabridged.ingest.catalog.filters import Filter

_ASK = examples(
    'unabridged ask "When does the lease end?"',
    'unabridged ask "What did Ines ask for?" --doc harbour.mbox',
    'unabridged ask "What was agreed?" --from ines --since 2024-03 --tag contracts',
    'unabridged ask "Who signed?" --mode whole --json',
    'echo "Who signed?" | unabridged ask -',
)


@click.command(epilog=_ASK)
@click.argument("question", type=TEXT)
@collection_option
@filter_options
@click.option("--mode", type=click.Choice(["auto", "whole", "focused"]), help="How to read (setting answer.mode).")
@click.option("--conversation", type=TEXT, help="Go on with the conversation of this id.")
@click.option("--model", type=TEXT, help="The installed model that answers (setting model.name).")
@click.option("--engine", type=click.Choice(["torch", "llama-cpp"]), help="The engine (setting engine.backend).")
@vram_option
@click.option("--max-tokens", type=click.IntRange(min=1), help="The longest answer (setting answer.max_tokens).")
@click.option("--temperature", type=click.FloatRange(0, 2), help="0 is deterministic (setting answer.temperature).")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), help="See setting answer.top_p.")
@click.option("--top-k", type=click.IntRange(min=0), default=0, help="Draw from the k likeliest words; 0 is off.")
@click.option(
    "--min-p", type=click.FloatRange(0, 1), default=0.0, help="Drop words less likely than this share of the best."
)
@click.option("--seed", type=int, help="The same seed draws the same words.")
@click.option("--stop", type=TEXT, multiple=True, help="End the answer at this text; may be repeated.")
@click.option("--no-history", is_flag=True, help="Do not keep this exchange.")
@click.option("--quiet", "-q", is_flag=True, help="No progress and no receipt.")
@json_option
@pass_app
def ask(
    app: App,
    question: str,
    collection: str,
    where: "Filter",
    mode: Any,
    conversation: str | None,
    model: str | None,
    engine: str | None,
    vram: int | None,
    max_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    top_k: int,
    min_p: float,
    seed: int | None,
    stop: tuple[str, ...],
    no_history: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Ask QUESTION ("-" reads it from standard input) of a collection.

    Every sentence of the answer carries [n], the place that supports it, or [unsupported]. The receipt says what was
    read and what was left out.
    """
    settings = app.settings(
        answer__mode=mode,
        answer__max_tokens=max_tokens,
        answer__temperature=temperature,
        answer__top_p=top_p,
        model__name=model,
        engine__backend=engine,
        engine__vram_mib=vram,
    )
    text = (sys.stdin.buffer.read().decode("utf-8", "replace") if question == "-" else question).strip()
    if not text:
        raise click.UsageError("the question is empty")
    answering = settings.answer
    asked = Question(
        text=text,
        collection=collection,
        **question_fields(where),
        mode=answering.mode,
        conversation=conversation,
        sampling=Sampling(
            temperature=answering.temperature,
            top_p=answering.top_p,
            top_k=top_k,
            min_p=min_p,
            repetition_penalty=answering.repetition_penalty,
            seed=seed,
            max_tokens=answering.max_tokens,
            stop=stop,
        ),
        store=answering.keep_history and not no_history,
    )
    screen = _Screen(app, quiet=quiet, as_json=as_json)
    try:
        return asyncio.run(_ask(app, settings, asked, model, screen))
    finally:
        screen.close()


async def _ask(app: App, settings: "Settings", question: Question, model: str | None, screen: "_Screen") -> int:
    from unabridged.app.launch import connect

    async with (
        connect(settings, app.locations, model=model, on_stage=screen.stage) as client,
        aclosing(client.ask(question)) as events,
    ):
        async for event in events:
            if isinstance(event, Stage):
                screen.stage(event)
            elif isinstance(event, Delta):
                screen.delta(event.text)
            elif isinstance(event, Answer):
                screen.answer(event)
                return 0
            elif isinstance(event, Problem):
                return screen.problem(event)
    return screen.problem(Problem(code="bad_reply", message="the server ended without an answer"))


class _Screen:
    """Where events go: progress and receipt to standard error, the answer and its sources to standard output."""

    def __init__(self, app: App, *, quiet: bool, as_json: bool) -> None:
        self._app = app
        self._quiet = quiet
        self._json = as_json
        self._live = sys.stdout.isatty() and not as_json
        self._status: Any = None
        self._streamed = ""

    def stage(self, stage: Stage) -> None:
        if self._quiet:
            return
        if stage.name == "plan":
            self._end_status()
            self._app.console.print(printable(stage.text), markup=False, style="dim")
            return
        if not self._app.console.is_terminal:
            return
        if self._status is None:
            self._status = self._app.console.status("")
            self._status.start()
        self._status.update(_progress(stage))

    def delta(self, text: str) -> None:
        self._end_status()
        if self._live:
            text = printable(text)
            self._streamed += text
            click.echo(text, nl=False)
            sys.stdout.flush()

    def answer(self, answer: Answer) -> None:
        self._end_status()
        if self._json:
            emit(answer_json(answer))
            return
        self._replace_streamed()
        click.echo(printable(answer.answer))
        if answer.citations:
            click.echo()
        for citation in answer.citations:
            where = place(citation.page, one_line(citation.label))
            doubt = "" if citation.verified else " (nearest passage, does not support it)"
            click.echo(f"[{citation.n}] {one_line(citation.document)}, {where}{doubt}")
            click.echo(f"    “{printable(' '.join(citation.quote.split()))}”")
        if not self._quiet:
            self._receipt(answer)

    def problem(self, problem: Problem) -> int:
        self.close()
        hint = f" ({problem.hint})" if problem.hint else ""
        say(f"unabridged: error: {problem.message}{hint}")
        return exit_code(problem.code)

    def _receipt(self, answer: Answer) -> None:
        from unabridged.app.output import receipt_lines

        self._app.console.print()
        for line in receipt_lines(answer.receipt):
            self._app.console.print(one_line(line), markup=False, style="dim")
        if answer.conversation:
            self._app.console.print(f"go on with --conversation {answer.conversation}", markup=False, style="dim")

    def _replace_streamed(self) -> None:
        """Go back over what was streamed, so that the text with its marks takes its place where it is still in view."""
        if not (self._live and self._streamed):
            return
        columns, rows = shutil.get_terminal_size()
        lines = sum(max(1, -(-_width(line) // columns)) for line in self._streamed.split("\n"))
        if lines >= rows:
            click.echo("\n")
        else:
            click.echo(f"\r\x1b[{lines - 1}A\x1b[J" if lines > 1 else "\r\x1b[J", nl=False)
        self._streamed = ""

    def close(self) -> None:
        """Leave the cursor at the start of a line, whatever was cut short."""
        self._end_status()
        if self._live and self._streamed:
            click.echo()
            self._streamed = ""

    def _end_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def answer_json(answer: Answer) -> dict[str, Any]:
    """An answer as `ask --json` prints it."""
    return {
        "answer": answer.answer,
        "citations": [
            {"n": one.n, "document": one.document, "page": one.page, "quote": one.quote, "verified": one.verified}
            for one in answer.citations
        ],
        "receipt": answer.receipt,
        "sentences": answer.sentences,
        "conversation": answer.conversation,
    }


def _progress(stage: Stage) -> str:
    from rich.markup import escape

    share = f" {stage.done:,} of {stage.total:,} {stage.unit}" if stage.total else ""
    left = f", {stage.seconds_left:.0f} s left" if stage.seconds_left else ""
    return escape(one_line(stage.text) + f"{share}{left}")


def _width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


@click.command(epilog=examples("unabridged chat ~/case", "unabridged chat --collection lease"))
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, exists=True))
@collection_option
@filter_options
@click.option("--model", type=TEXT, help="The installed model that answers (setting model.name).")
@vram_option
@pass_app
def chat(
    app: App, paths: tuple[Path, ...], collection: str, where: "Filter", model: str | None, vram: int | None
) -> int:
    """Open the terminal interface; PATHS are read first. Filters hold until they are changed there (Ctrl+L)."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("chat needs a terminal; use `unabridged ask` in scripts")
    with suppress(asyncio.CancelledError):
        settings = app.settings(model__name=model, engine__vram_mib=vram)
        return asyncio.run(_chat(app, settings, collection, paths, where, model))
    return 130


async def _chat(
    app: App, settings: "Settings", collection: str, paths: tuple[Path, ...], where: "Filter", model: str | None
) -> int:
    from unabridged.app.launch import connect
    from unabridged.ingest.paths import expanded
    from unabridged.ui.tui import show

    async with connect(settings, app.locations, model=model) as client:
        read_first = [expanded(path).absolute() for path in paths]
        return await show(client, collection, read_first, question_fields(where))
