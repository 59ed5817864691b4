"""The charset ladder on labels that are missing, unknown or wrong."""

import pytest

from unabridged.ingest.texts.charset import canonical, decode

CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy, nájem činí 1 200 € měsíčně."
RUSSIAN = "Собрание перенесено на двенадцатое апреля в связи с ремонтом."


@pytest.mark.parametrize(
    ("data", "declared", "text"),
    [
        pytest.param(CZECH.encode(), "", CZECH, id="utf-8 without a label"),
        pytest.param(CZECH.encode(), "iso-8859-1", CZECH, id="utf-8 labelled latin-1"),
        pytest.param(CZECH.encode("cp1250"), "windows-1250", CZECH, id="label that holds"),
        pytest.param(CZECH.encode("cp1250"), "utf-8", CZECH, id="cp1250 labelled utf-8"),
        pytest.param("“quoted” – €5 naïve".encode("cp1252"), "us-ascii", "“quoted” – €5 naïve", id="cp1252 as ascii"),
        pytest.param(RUSSIAN.encode("koi8-r"), "x-unknown", RUSSIAN, id="koi8-r under an invented label"),
        pytest.param(CZECH.encode("utf-16"), "", CZECH, id="utf-16 with its mark"),
        pytest.param("Big endian, no mark.".encode("utf-16-be"), "", "Big endian, no mark.", id="utf-16-be without"),
        pytest.param(CZECH.encode("utf-32"), "", CZECH, id="utf-32"),
        pytest.param("안녕하세요 여러분".encode("cp949"), "ks_c_5601-1987", "안녕하세요 여러분", id="alias"),
        pytest.param("会議は四月".encode("iso2022_jp"), "iso-2022-jp", "会議は四月", id="iso-2022-jp"),
        pytest.param(
            "žluť ".encode() + b"caf\xe9 " + "kůň".encode(), "", "žluť café kůň", id="two charsets in one file"
        ),
        pytest.param(b"\xef\xbb\xbfmark", "cp1252", "mark", id="mark before label"),
        pytest.param(b"", "utf-8", "", id="nothing"),
    ],
)
def test_text_is_decoded(data: bytes, declared: str, text: str) -> None:
    assert decode(data, declared).text == text


def test_any_bytes_become_some_text() -> None:
    for start in range(0, 256, 16):
        data = bytes((start + n * 7) % 256 for n in range(400))
        assert isinstance(decode(data, "no-such-charset").text, str)


def test_labels_that_are_no_charset_are_none() -> None:
    assert canonical("x-no-such") is None
    assert canonical("base64") is None
    assert canonical("unknown-8bit") is None
