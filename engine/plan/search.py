"""The division of a machine's memory for one model: where keys and values lie, how many tokens, what takes how much.

Keys and values lie in the GPU's memory, or in the host's, where the GPU reads them: then it keeps the index, banks of
what decode steps attend to, and staging through which prompts read a layer at a time. Sizes grow with the tokens of a
context, so the most that fit are searched for. Bytes, from shapes; nothing is loaded.
"""

from collections.abc import Sequence
from dataclasses import replace

from unabridged.engine.attention.limits import BLOCK, CONTEXTS, PAGE, PIECE
from unabridged.engine.gpu.bank_pages import BankPages, BankRoom
from unabridged.engine.plan.kv import Kv
from unabridged.engine.plan.machine import DRIVER, Machine
from unabridged.engine.plan.plan import Part, Place, Plan, Subject, Wish
from unabridged.engine.plan.workspace import Workspace, tables

# Answers at a time where nobody says, most first.
_COUNTS = (8, 4, 2, 1)
# Tokens of a pass, and of a piece behind a long past in the host, the longest first: all that is stored is streamed for
# each, and activations grow with them.
CHUNK = 4096
_LONGEST = (PIECE, PIECE // 2, PIECE // 4)
# Tokens that staging has room for where it cannot have room for the whole context: documents that are each read behind
# the prefix need no more, longer texts are read in place, slowly.
_STAGED = 1 << 17
# Contexts within it are attended to whole where the pool lies in the host: they have a copy in the banks.
DENSE_BELOW = 8192
# Contexts below this are of no use with documents: better the CPU. Whoever says what they may take knows better.
_LEAST = 4096
# What a search may find at most.
_MOST_TOKENS = 1 << 30


class Search:
    """Plans of a subject on a machine: the one that does what is asked, and others. `unserved`: why a pool in the host
    does not serve the engine's attention, "" where it does."""

    def __init__(self, subject: Subject, machine: Machine, wish: Wish) -> None:
        self.subject, self.machine, self.wish = subject, machine, wish
        self._kv = Kv.of(subject.config, subject.kind, subject.indexed)
        self._chunk = min(wish.chunk or CHUNK, PIECE)
        self._counts = (wish.slots,) if wish.slots else _COUNTS
        self.wanted = -(-(wish.context or subject.config.window) // BLOCK) * BLOCK
        self.of_use = BLOCK if wish.pool else _LEAST
        self.unserved = _unserved(subject)

    @property
    def places(self) -> tuple[Place, ...]:
        """Where keys and values may lie."""
        if self.wish.place == "auto":
            return ("gpu",) if self.unserved else ("gpu", "host")
        return (self.wish.place,)

    def find(self) -> Plan | None:
        """The plan that does what is asked."""
        gpu = self._on_gpu() if "gpu" in self.places else None
        if gpu is not None and (gpu.tokens >= self.wanted or "host" not in self.places):
            return gpu
        host = self._in_host() if "host" in self.places else None
        found = [plan for plan in (host, gpu) if plan is not None]
        return max(found, key=lambda plan: plan.tokens) if found else None

    def least(self, place: Place, tokens: int) -> Plan:
        """The plan for `tokens` tokens that takes the least."""
        return self.plan(place, tokens, min(self._counts), self._pieces(place)[-1], _STAGED)

    def most_at_all(self, place: Place) -> int:
        """Tokens that fit if need be with fewer answers at a time, shorter pieces and little staging."""
        return self._most(place, min(self._counts), self._pieces(place)[-1], _STAGED)

    def plan(self, place: Place, tokens: int, slots: int, piece: int, staged: int = _MOST_TOKENS) -> Plan:
        """How memory is divided then, whether there is enough or not. `staged`: tokens that staging has room for at
        most."""
        subject, config, kv = self.subject, self.subject.config, self._kv
        # Without extension any context may be attended to whole, and none is longer than the pool.
        whole = max(config.window, tokens + 1) if place == "gpu" else DENSE_BELOW
        attention = replace(subject.attention, dense_below=min(subject.attention.dense_below, whole))
        banks, parts = None, [Part("weights", subject.weights, "the model")]
        bases = 2 * 4 * config.layers * config.kv_heads * config.head_dim * 4 * kv.width
        if kv.width:
            parts.append(Part("index", tokens * kv.codes + bases, f"codes of {kv.width + 1} bytes a key and head"))
        if place == "gpu":
            parts.append(Part("keys and values", tokens * kv.token, kv.kind))
            known = staged = 0
        else:
            staged = min(staged, tokens)
            banks = BankRoom.of(attention, config.layers, slots, tokens)
            parts += _banks(banks, kv)
            of = "a context" if staged == tokens else f"{staged:,} tokens"
            parts.append(Part("staging", kv.staging(CONTEXTS, staged), f"two layers of {of}, for prompts"))
            known = banks.tables_bytes(kv.layers, kv.heads, tokens)
        space = Workspace.of(config, attention, subject.itemsize, kv.layer_codes, slots, piece, tokens)
        parts += [
            Part("tables", tables(config, slots, tokens) + known, "where pages lie"),
            Part("workspace", space.total, f"passes of up to {piece:,} tokens, steps of {_answers(slots)}"),
            Part("CUDA", DRIVER, "its context and the kernels' code"),
        ]
        return Plan(
            place=place,
            tokens=tokens,
            slots=slots,
            chunk=self._chunk,
            longest=piece,
            staged=staged,
            whole=whole,
            attention=attention,
            kv=kv,
            parts=tuple(parts),
            passing=space.activations + space.rotated,
            banks=banks,
        )

    def _most(self, place: Place, slots: int, piece: int, staged: int) -> int:
        """Tokens at most, in whole blocks."""
        low, high = 0, _MOST_TOKENS // BLOCK
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._fits(self.plan(place, middle * BLOCK, slots, piece, staged))
            low, high = (middle, high) if fits else (low, middle - 1)
        return low * BLOCK

    def _on_gpu(self) -> Plan | None:
        """With as many answers at a time as leave room for what is wanted."""
        return self._best("gpu", [(slots, self._chunk, _MOST_TOKENS) for slots in self._counts])

    def _in_host(self) -> Plan | None:
        """The same, with pieces as long as may be, and with little staging where nothing else holds what was asked for.
        Where nothing was, one answer at a time, of as many tokens as there is room for."""
        counts, pieces = self._counts if self.wish.context or self.wish.slots else (1,), self._pieces("host")
        tries = [(slots, piece, _MOST_TOKENS) for piece in pieces for slots in counts]
        if self.wish.context:
            tries += [(slots, pieces[-1], _STAGED) for slots in counts]
        return self._best("host", tries)

    def _pieces(self, place: Place) -> list[int]:
        return [self._chunk] if place == "gpu" else [max(longest, self._chunk) for longest in _LONGEST]

    def _best(self, place: Place, tries: Sequence[tuple[int, int, int]]) -> Plan | None:
        """The first try (slots, piece, staged) that has room for what is wanted; where that was not asked for, else the
        one with the most."""
        asked, best = self.wish.context, (0, 0, 0, 0)
        for slots, piece, staged in tries:
            most = self._most(place, slots, piece, staged)
            if most >= self.wanted:
                return self.plan(place, self.wanted if asked else most, slots, piece, staged)
            best = max(best, (most, slots, piece, staged))
        return None if asked or best[0] < self.of_use else self.plan(place, *best)

    def taken(self, plan: Plan) -> int:
        """What engine.kv_memory_mib limits."""
        return plan.tokens * (plan.kv.token + (plan.kv.codes if plan.place == "gpu" else 0))

    def _fits(self, plan: Plan) -> bool:
        limit = self.wish.pool or self.taken(plan)
        return plan.vram <= self.machine.vram and plan.ram <= self.machine.ram and self.taken(plan) <= limit


def _answers(slots: int) -> str:
    return "one answer" if slots == 1 else f"up to {slots} answers"


def _unserved(subject: Subject) -> str:
    try:
        BankPages.of(subject.attention, subject.config.layers)
    except ValueError as error:
        return str(error)
    return ""


def _banks(banks: BankRoom, kv: Kv) -> list[Part]:
    """One row has all of them; where there are more, they share, and dense rows have copies of their own."""
    page = banks.bytes(kv.layers, kv.heads, kv.dim, kv.itemsize) // banks.total
    if banks.slots == 1:
        keys, copies = banks.alone.each[0], 0
        values = banks.total - keys
    else:
        keys, values = (banks.slots * each for each in banks.shared.each)
        copies = banks.total - keys - values
    about = "{:,} chosen pages of 16 tokens for each layer and head of a context"
    return [
        Part("bank of keys", keys * page, about.format(banks.pages(banks.slots).keys)),
        Part("bank of values", values * page, about.format(banks.pages(banks.slots).values)),
        *([Part("copies", copies * page, f"contexts of up to {banks.dense * PAGE:,} tokens")] if copies else []),
    ]
