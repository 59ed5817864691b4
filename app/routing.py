"""Whole or focused, and what is read: a plan that is made, and can be shown, before anything is read.

*Whole* reads every document. *Focused* reads the sections that match the question best. What is not read stands in the
plan with its reason. Blocking: the library is asked here. Knows token counts, not the engine.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any, Literal

from unabridged.app.choosing import fitting, nearest, not_chosen, shown_text, size, together
from unabridged.app.context import Key, Section, display_name, readable
from unabridged.app.cutting import sections
from unabridged.app.events import Composition, LeftOut
from unabridged.app.hints import hints
from unabridged.app.output import count
from unabridged.app.selection import Selection, select
from unabridged.app.unrepeated import own_shares, without_repeats
from unabridged.app.words import terms
from unabridged.ingest.catalog.filters import Filter
from unabridged.ingest.errors import DocumentNotFound

if TYPE_CHECKING:
    from unabridged.ingest.catalog.repeats import Repeat
    from unabridged.ingest.catalog.rows import DocumentRow
    from unabridged.ingest.library import Library
    from unabridged.models.tokenizer import Tokenizer

Mode = Literal["whole", "focused"]

# Pages that focused mode looks at for each section that it will read.
_CANDIDATES = 48
# Models that were not measured: from this size on they are trusted with many documents at once.
_LARGE = 3_000_000_000
# Tokens whose sections are kept at hand between questions, about 16 bytes each.
_KEPT = 4_000_000
# Tokens of a collection that "auto" reads as one text. Over about half as many more is found so than in documents that
# were read by themselves (docs/decisions/0020-composable.md), and a change costs reading so many again at most.
_ONE_TEXT = 8192


@dataclass(frozen=True)
class Limits:
    """What a plan must keep to."""

    whole: bool
    """Whether the engine can attend past the model's window."""
    window: int
    room: int
    """Tokens that documents may take."""
    section: int
    """The longest section in tokens."""
    focus: int
    """Sections that focused mode reads."""


@dataclass(frozen=True)
class Ask:
    """What is asked of which documents."""

    collection: str
    where: Filter
    query: str
    mode: Literal["auto", "whole", "focused"]


@dataclass(frozen=True)
class Plan:
    """What will be read."""

    mode: Mode
    why: str
    sections: tuple[Section, ...]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    found: int
    """Readable documents that the question could have been asked of."""
    composition: Composition = "composable"
    """How they are read."""


class Planner:
    """Makes plans. Keeps the sections of recently used documents; use it from one thread at a time."""

    def __init__(self, library: "Library", tokenizer: "Tokenizer", defaults: dict[str, Any], parameters: int) -> None:
        """`defaults` and `parameters`: the model's measured defaults and size."""
        self._library = library
        self._tokenizer = tokenizer
        self._defaults = defaults
        self._parameters = parameters
        self._kept: OrderedDict[tuple[int, int, tuple[Repeat, ...]], list[Section]] = OrderedDict()

    def plan(self, ask: Ask, limits: Limits) -> Plan:
        """Raises CollectionNotFound, FilterInvalid and NothingToRead."""
        selection = select(self._library, ask.collection, ask.where, self._tokenizer.id)
        total = sum(self._tokens(document) for document in selection.documents)
        mode, why = self._mode(ask, limits, total)
        if mode == "whole":
            chosen, left_out, notes = self._whole(ask, limits, selection)
        else:
            chosen, left_out, notes = self._focused(ask, limits, selection)
        if repeated := sum(section.repeated for section in chosen):
            notes.append(f"{repeated:,} tokens of quotations were left out: the messages that they quote are read")
        if hiding := self._library.hiding({section.document.id for section in chosen}):
            notes.append(f"hidden text of {count(hiding, 'document')} was not read: `unabridged show` prints it")
        return Plan(
            mode,
            why,
            tuple(chosen),
            (*left_out, *selection.left_out({section.document.id for section in chosen})),
            tuple(notes),
            len(selection.documents),
            self._composition(ask.collection, mode, limits),
        )

    def everything(self, collection: str, where: Filter, limit: int) -> tuple[list[Section], list[LeftOut]]:
        """All sections of a collection's documents, in the order of whole mode, and what is not read. Raises
        CollectionNotFound, FilterInvalid and NothingToRead."""
        selection = select(self._library, collection, where, self._tokenizer.id)
        every = [section for document in selection.documents for section in self.sections(document, limit)]
        return self._unrepeated(every, limit), selection.left_out({row.id for row in selection.documents})

    def composition(self, ask: Ask, limits: Limits) -> Composition:
        """How the documents of a collection are read for such questions. Raises CollectionNotFound."""
        mode, _ = self._mode(ask, limits, self._total(ask.collection))
        return self._composition(ask.collection, mode, limits)

    def hints(self, question: str, plan: Plan, most: int, collection: str | None = None) -> tuple[str, ...]:
        """The sentences in the plan that match the question best; of a large plan, on the pages that match best."""
        pages = [(section, page) for section in plan.sections for page in section.pages]
        if len(pages) > _CANDIDATES:
            ids = tuple({section.document.id for section in plan.sections})
            # A long list of ids costs more than pages that are thrown away.
            narrowed = ids if len(ids) <= _CANDIDATES else ()
            ranked = {hit[:2] for hit in self._library.rank(question, collection, _CANDIDATES, narrowed)}
            pages = [(section, page) for section, page in pages if (section.document.id, page) in ranked]
        texts = [shown_text(section, self._library.page(section.document.id, page)) for section, page in pages]
        return hints(question, texts, most)

    def sections(self, document: "DocumentRow", limit: int, repeats: "tuple[Repeat, ...]" = ()) -> list[Section]:
        """The sections of one document without `repeats`; of one that was removed meanwhile, none."""
        key = (document.id, limit, repeats)
        if key not in self._kept:
            try:
                self._kept[key] = sections(document, self._library, self._tokenizer, limit, repeats)
            except DocumentNotFound:
                return []
            self._shrink()
        self._kept.move_to_end(key)
        return self._kept[key]

    def _unrepeated(self, chosen: Sequence[Section], limit: int) -> list[Section]:
        def cut(document: "DocumentRow", repeats: "tuple[Repeat, ...]") -> list[Section]:
            return self.sections(document, limit, repeats)

        return without_repeats(chosen, self._library, cut)

    def _shrink(self) -> None:
        total = sum(len(section) for one in self._kept.values() for section in one)
        while total > _KEPT and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            total -= sum(len(section) for section in oldest)

    def _tokens(self, document: "DocumentRow") -> int:
        if document.tokens is not None:
            return document.tokens
        from unabridged.ingest.catalog.tokens import tokens

        return tokens(self._library, document.id, self._tokenizer).count

    def _total(self, collection: str) -> int:
        documents = self._library.documents(collection, tokenizer=self._tokenizer.id)
        return sum(self._tokens(document) for document in documents if readable(document))

    def _composition(self, collection: str, mode: Mode, limits: Limits) -> Composition:
        said = self._library.composition(collection)
        if said != "auto":
            return said
        # The sections of focused mode stand beside others for every question. A question about some documents is read
        # as those about all are.
        small = mode == "whole" and self._total(collection) <= min(_ONE_TEXT, limits.window)
        return "joint" if small else "composable"

    # --------------------------------------------------------------------------------------------------------- mode

    def _mode(self, ask: Ask, limits: Limits, total: int) -> tuple[Mode, str]:
        if total > min(limits.window, limits.room) and not limits.whole:
            asked = "whole was asked for, but " if ask.mode == "whole" else ""
            return "focused", f"{asked}the {total:,} tokens of documents exceed what this engine can attend to"
        if ask.mode != "auto":
            return ask.mode, "asked for"
        if total <= limits.focus * limits.section:
            return "whole", f"all {total:,} tokens of documents are no more than focused mode would read"
        measured = self._defaults.get("mode")
        if measured in ("whole", "focused"):
            return measured, self._measured(measured)
        if self._parameters >= _LARGE:
            return "whole", "not measured for this model; its size suggests it (`unabridged models verify --recall`)"
        return "focused", "not measured for this model; its size suggests it (`unabridged models verify --recall`)"

    def _measured(self, mode: Mode) -> str:
        recall = self._defaults.get("recall")
        if not isinstance(recall, dict) or mode not in recall:
            return "this model's default"
        return "measured on this model: " + ", ".join(f"{name} finds {found}" for name, found in recall.items())

    # -------------------------------------------------------------------------------------------------------- whole

    def _whole(self, ask: Ask, limits: Limits, selection: Selection) -> tuple[list[Section], list[LeftOut], list[str]]:
        every = [section for document in selection.documents for section in self.sections(document, limits.section)]
        lean = self._unrepeated(every, limits.section)
        if size(lean) <= limits.room:
            return lean, [], []
        # The best matching first, so that what does not fit is what the question needs least.
        order = self._ranked(ask, selection, limits)
        rest = [section for section in every if section.key not in {one.key for one in order}]
        kept = fitting([*order, *rest], limits.room)
        chosen = [section for section in every if section.key in kept]
        reason = f"does not fit: documents may take {limits.room:,} tokens, these have {size(lean):,}"
        note = "not everything fits: the sections that match the question least were left out"
        left_out = not_chosen(every, chosen, reason)
        return self._unrepeated(chosen, limits.section), left_out, [note]

    # ------------------------------------------------------------------------------------------------------ focused

    def _focused(
        self, ask: Ask, limits: Limits, selection: Selection
    ) -> tuple[list[Section], list[LeftOut], list[str]]:
        documents = selection.documents
        ranked = self._scored(ask, selection, limits)
        notes = []
        if ranked:
            chosen = together(nearest(ranked, limits.focus, limits.section))
        else:
            first = self.sections(documents[0], limits.section)[: limits.focus]
            chosen = first
            notes.append(
                f"no word of the question occurs in the documents: only the beginning of {display_name(documents[0])} "
                "was read; ask in the documents' own words, or with --mode whole"
            )
        kept = fitting(chosen, limits.room)
        chosen = [section for section in chosen if section.key in kept]
        left_out = self._not_focused(documents, chosen, limits)
        return self._unrepeated(chosen, limits.section), left_out, notes

    def _not_focused(
        self, documents: "Sequence[DocumentRow]", chosen: Sequence[Section], limits: Limits
    ) -> list[LeftOut]:
        reason = "focused mode reads only what matches the question best"
        read = {section.document.id: section.document for section in chosen}
        every = [section for document in read.values() for section in self.sections(document, limits.section)]
        others = len(documents) - len(read)
        out = not_chosen(every, chosen, reason)
        if others:
            out.append(
                LeftOut(document=f"{others:,} other document{'s' if others > 1 else ''}", pages="all", reason=reason)
            )
        return out

    def _hits(self, ask: Ask, selection: Selection, read: set[int]) -> list[tuple[int, int, float]]:
        """Pages that match of the documents that are read. A copy counts as what is read in its place."""
        narrowed = tuple(read | set(selection.copies)) if ask.where else ()
        # Copies take the places of others among the candidates.
        most = 2 * _CANDIDATES if selection.copies else _CANDIDATES
        best: dict[tuple[int, int], float] = {}
        for document, page, score in self._library.rank(ask.query, ask.collection, most, narrowed):
            number = selection.copies.get(document, document)
            if number in read:
                best.setdefault((number, page), score)
        return [(*place, score) for place, score in list(best.items())[:_CANDIDATES]]

    def _ranked(self, ask: Ask, selection: Selection, limits: Limits) -> list[Section]:
        return [section for section, _ in self._scored(ask, selection, limits)]

    def _scored(self, ask: Ask, selection: Selection, limits: Limits) -> list[tuple[Section, float]]:
        """Sections with pages that match, best first."""
        by_id = {document.id: document for document in selection.documents}
        hits = self._hits(ask, selection, set(by_id))
        own = own_shares(ask.query, hits, self._library, by_id)
        best: dict[Key, tuple[Section, float]] = {}
        for document_id, page, found in hits:
            score = found * own.get((document_id, page), 1.0)
            holding = [one for one in self.sections(by_id[document_id], limits.section) if page in one.pages]
            for section, share in self._shares(ask.query, holding, page):
                known = best.get(section.key)
                # A section with two matching pages is a little better than one with the better of them alone.
                value = score * share if known is None else max(known[1], score * share) * 1.02
                best[section.key] = (section, value)
        return sorted(best.values(), key=lambda one: -one[1])

    def _shares(self, query: str, holding: Sequence[Section], page: int) -> list[tuple[Section, float]]:
        """How the score of a page is shared by the sections that it was cut into."""
        if len(holding) <= 1:
            return [(section, 1.0) for section in holding]
        row = self._library.page(holding[0].document.id, page)
        wanted = terms(query)
        parts = [terms(shown_text(section, row)) for section in holding]
        weights = {
            word: log(1 + len(parts) / (1 + sum(word in part.words | part.numbers for part in parts)))
            for word in wanted.words | wanted.numbers
        }
        sums = [sum(weights[word] for word in weights if word in part.words | part.numbers) for part in parts]
        most = max(sums) or 1.0
        return [(section, value / most) for section, value in zip(holding, sums, strict=True)]
