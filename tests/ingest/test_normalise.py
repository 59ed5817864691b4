"""What every character of every document passes through."""

import sqlite3
import unicodedata

import pytest

from unabridged.ingest.texts.normalise import mend_surrogates, normalise, one_line


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        pytest.param("a\r\nb\rc\nd", "a\nb\nc\nd", id="line ends"),
        pytest.param("a\x00b\x07c\x9fd", "a bcd", id="NUL and controls"),
        pytest.param("a\ufffeb\uffffc\U0001fffed", "abcd", id="noncharacters"),
        pytest.param("\ufeffa\u200bb", "ab", id="byte order mark and zero width space"),
        pytest.param("invoice \u202egnp.exe\u202c", "invoice gnp.exe", id="bidi override"),
        pytest.param("o\ufb03ce \ufb01nance", "office finance", id="ligatures"),
        pytest.param("govern\u00ad\nment and hy\u00adphen", "government and hyphen", id="soft hyphens"),
        pytest.param("\ufefb \ufe8d\ufedf\ufecc", "لا العـ"[:-1], id="shaped Arabic letters"),
        pytest.param("\uf76f\uf770 \uf732\uf034 \uf0b7", "op 24 •", id="private characters of Adobe and Symbol"),
        pytest.param("cafe\u0301", "café", id="NFC"),
        pytest.param("x² ½ Å ①", "x² ½ Å ①", id="no NFKC"),
        pytest.param("4\u202f200\u00a0Kč", "4 200 Kč", id="spaces"),
        pytest.param("page\x0cbreak\x0bline\u2028end", "page\nbreak\nline\nend", id="page and line breaks"),
    ],
)
def test_text_is_made_safe_and_keeps_its_look(raw: str, kept: str) -> None:
    assert normalise(raw) == kept


def test_surrogate_pairs_become_their_character_and_lone_ones_go() -> None:
    assert mend_surrogates("\ud835\udc49 x\ud835y") == "𝑉 xy"


def test_whatever_comes_out_can_be_stored() -> None:
    everything = (
        "".join(chr(code) for code in range(0x3000)) + "\ud800\udfff" + "".join(map(chr, range(0xD7F0, 0x10100)))
    )
    text = normalise(everything)
    row = sqlite3.connect(":memory:").execute("select ?, length(?)", (text, text)).fetchone()
    assert row == (text, len(text))
    assert text == normalise(text)
    assert unicodedata.is_normalized("NFC", text)


def test_a_title_is_one_short_line() -> None:
    assert one_line("  A\n title\x00 of \u00ad two ") == "A title of two"
    assert len(one_line("x" * 10_000, 100)) == 100
