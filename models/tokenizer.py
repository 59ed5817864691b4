"""Text to token ids and back, from the model's own files. Torch-free.

Plain text is data: `encode` never adds a special token and never recognises one, whatever the text spells. Special
tokens come from the chat template alone (`chat`, `chat_around`). BPE only, byte-level or with byte fallback: each token
is a run of bytes, which makes decoding exact and streaming safe. A tokenizer that we cannot rebuild exactly is refused,
never guessed.
"""

import codecs
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer as Encoder

from unabridged.models.chat import ChatTemplate, Special, Turn
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.sentence_pieces import SPACE, piece_bytes
from unabridged.models.tokenizer_files import TokenizerFiles, byte_alphabet, read_tokenizer_files

# UTF-8 lead bytes: first, last, their payload, and how many bits follow.
_LEADS = ((0x00, 0x7F, 0x7F, 0), (0xC2, 0xDF, 0x1F, 6), (0xE0, 0xEF, 0x0F, 12), (0xF0, 0xF4, 0x07, 18))


class Tokenizer:
    """One model's tokenizer. Immutable; safe to share between threads."""

    def __init__(self, files: TokenizerFiles) -> None:
        self._files = files
        try:
            self._encoder = Encoder.from_str(json.dumps(files.spec))
        except Exception as error:
            # The library raises nothing narrower.
            raise ModelDamaged(f"the model's tokenizer: {error}", "download or copy it again") from error
        self._encoder.encode_special_tokens = True

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """From an installed model's folder or a .gguf file. Raises ModelDamaged or ModelUnsupported."""
        return cls(read_tokenizer_files(folder))

    @cached_property
    def id(self) -> str:
        """Short hash of everything that changes the ids of plain text: stored tokens carry it."""
        shown = json.dumps(self._files.spec, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(shown.encode()).hexdigest()[:16]

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return len(self._bytes)

    @property
    def reach(self) -> int:
        """One more than the largest id that plain text or the chat template can have: some checkpoints list special
        tokens that neither the model nor its template knows."""
        template, names = self._files.template or "", self._files.names
        known = {text for key, text in names.items() if key in template}
        unused = {
            one["id"]
            for one in self._files.added
            if one["special"] and one["content"] not in template and one["content"] not in known
        }
        ids = {*self._files.spec["model"]["vocab"].values(), *(one["id"] for one in self._files.added)}
        return 1 + int(max(ids - unused))

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self._files.eos_ids

    @property
    def has_chat(self) -> bool:
        """Whether the model brings a chat template."""
        return self._files.template is not None

    def encode(self, text: str) -> list[int]:
        """Ids of plain text."""
        encoded = self._encoder.encode_batch_fast([self._fitting(text)], add_special_tokens=False)
        return list(encoded[0].ids)

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of plain text, and for each the characters `text[start:end]` it stands for. Tokens that share a character
        (parts of its UTF-8 bytes) share its span."""
        encoded = self._encoder.encode(self._fitting(text), add_special_tokens=False)
        return list(encoded.ids), list(encoded.offsets)

    def unencodable(self, text: str) -> str:
        """The characters of `text`, each once, that this vocabulary cannot represent and that `encode` therefore reads
        as U+FFFD. Some vocabularies lack bytes that their training text lacked."""
        return "".join(sorted(set(self._unfit.findall(text))))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of these ids. Special tokens have no text; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self._bytes[one] for one in ids).decode("utf-8", errors="replace")

    def stream(self) -> "StreamDecoder":
        """A decoder for ids that come one at a time."""
        return StreamDecoder(self._bytes)

    def chat(self, turns: Sequence[Turn], generation_prompt: bool = True) -> list[int]:
        """Ids of a conversation as the model was trained to see it; `generation_prompt` opens the answer.

        Raises ModelUnsupported when the model has no chat template or its template refuses these turns.
        """
        before, after = self._chat(turns, generation_prompt, None)
        return before + after

    def chat_around(self, turns: Sequence[Turn], marker: str) -> tuple[list[int], list[int]]:
        """`chat`, split where `marker` stands in a content: (ids before it, ids after it); the marker itself is gone.

        Raises ValueError when the marker does not stand exactly once in the contents.
        """
        return self._chat(turns, True, marker)

    def _chat(self, turns: Sequence[Turn], generation_prompt: bool, marker: str | None) -> tuple[list[int], list[int]]:
        valid = [(role, self._fitting(content)) for role, content in turns]
        before: list[int] = []
        ids: list[int] = []
        for piece in self._template.pieces(valid, generation_prompt, marker):
            if piece.split:
                before, ids = ids, []
            elif piece.special is not None:
                ids.append(piece.special)
            else:
                ids += self.encode(piece.text)
        return before, ids

    @cached_property
    def _template(self) -> ChatTemplate:
        if self._files.template is None:
            raise ModelUnsupported("the model has no chat template", "use an instruction-tuned model")
        specials = [
            Special(one["content"], one["id"], one.get("lstrip", False), one.get("rstrip", False))
            for one in self._files.added
        ]
        return ChatTemplate(self._files.template, specials, self._files.names)

    @cached_property
    def _bytes(self) -> list[bytes]:
        """The bytes of each token, by id; of a special token none."""
        plain, text = (piece_bytes, piece_bytes) if self._files.sentence_pieces else (_token_bytes, str.encode)
        vocab: dict[str, int] = self._files.spec["model"]["vocab"]
        added = {one["id"]: b"" if one["special"] else text(one["content"]) for one in self._files.added}
        size = 1 + max(max(vocab.values()), max(added, default=0))
        table = [b""] * size
        for token, index in vocab.items():
            if index not in added:
                table[index] = plain(token)
        for index, content in added.items():
            table[index] = content
        return table

    def _fitting(self, text: str) -> str:
        """One character for one character, so that spans keep counting the caller's."""
        return self._unfit.sub("\ufffd", text)

    @cached_property
    def _unfit(self) -> re.Pattern[str]:
        """Matches one character that cannot be encoded: lone surrogates have no UTF-8, others no token of their own."""
        if self._files.sentence_pieces:
            return re.compile(f"[\ud800-\udfff{SPACE}]")
        vocab = self._files.spec["model"]["vocab"]
        missing = [byte for char, byte in byte_alphabet().items() if char not in vocab]
        spans = filter(None, map(_characters, missing))
        ranges = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in spans)
        return re.compile(f"[\ud800-\udfff{ranges}]")


class StreamDecoder:
    """Bytes of tokens in, characters out: never half of one."""

    def __init__(self, table: list[bytes]) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The text that became certain with this token; may be empty."""
        return self._decoder.decode(self._table[token])

    def flush(self) -> str:
        """What is left at the end: U+FFFD for a character that never became whole."""
        return self._decoder.decode(b"", final=True)


def _token_bytes(token: str) -> bytes:
    alphabet = byte_alphabet()
    try:
        return bytes(alphabet[char] for char in token)
    except KeyError as error:
        raise ModelUnsupported(f"token {token!r} of the vocabulary is not byte-level") from error


def _characters(lead: int) -> tuple[int, int] | None:
    """First and last character whose UTF-8 begins with this byte; None for bytes that begin none."""
    for low, high, mask, bits in _LEADS:
        if low <= lead <= high:
            first = (lead & mask) << bits
            return first, min(first + (1 << bits) - 1, sys.maxunicode)
    return None
