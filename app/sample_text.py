"""Text that a model is measured with: of files, of a collection in the library, or Python's manual; cut to pieces."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from unabridged.models.errors import ModelError

if TYPE_CHECKING:
    from unabridged.ingest.library import Library
    from unabridged.models.tokenizer import Tokenizer

# Characters that surely hold a token, on average over a piece.
_CHARACTERS = 8
# Of the tokens of a piece, the share that must not be blank: indented code and tables have more.
_SAYING = 0.25
# Of a collection: documents, spread over all of it, and characters of each.
_DOCUMENTS = 200
_EACH = 100_000


def pieces(tokenizer: "Tokenizer", text: str, tokens: int, count: int) -> list[list[int]]:
    """`count` runs of ids, all of one length, `tokens` unless the text says little with many characters, from evenly
    spread places. Raises ModelError when it is too short, or blank for the most part in one of them."""
    step = (len(text) - _CHARACTERS * tokens) // count
    if step < tokens:
        wanted = (count + _CHARACTERS) * tokens
        raise ModelError(f"{len(text):,} characters of text are too few", f"give {wanted:,} or more")
    found = [tokenizer.encode(text[step * number :][: _CHARACTERS * tokens])[:tokens] for number in range(count)]
    shortest = min(map(len, found))
    cut = [list(ids[:shortest]) for ids in found]
    least, wanted = min(_saying(tokenizer, ids) for ids in cut), int(_SAYING * tokens)
    if least < wanted:
        raise ModelError(
            f"{_CHARACTERS * tokens:,} characters of text hold {least:,} tokens that are not blank",
            f"{wanted:,} are needed: give text with fewer blanks",
        )
    return cut


def _saying(tokenizer: "Tokenizer", ids: Sequence[int]) -> int:
    """How many are not blank."""
    return sum(bool(tokenizer.decode([one]).strip()) for one in ids)


def text_of_files(paths: Sequence[Path]) -> str:
    """Raises ModelError for a file that is no text, or when all of them are empty."""
    text = "\n\n".join(map(_read, paths))
    if not text.strip():
        raise ModelError(f"no text in {', '.join(map(str, paths))}", "give files of plain text")
    return text


def text_of_collection(library: "Library", collection: str) -> str:
    """Of documents from all over the collection. Raises CollectionNotFound, ModelError when it holds no text."""
    documents = [document for document in library.documents(collection) if document.pages]
    chosen = documents[:: len(documents) // _DOCUMENTS + 1]
    text = "\n\n".join("\n".join(page.text for page in library.pages(one.id))[:_EACH] for one in chosen)
    if not text.strip():
        raise ModelError(f"the collection {collection} holds no text", "add documents to it, or give a file")
    return text


def manual() -> str:
    """Some 700,000 characters of English and code that come with Python."""
    try:
        return (files("pydoc_data") / "topics.py").read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise ModelError("this Python comes without its manual", "give files of plain text") from error


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: {error}", "give files of plain text") from error
