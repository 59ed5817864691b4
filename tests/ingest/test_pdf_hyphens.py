"""Words that are broken at a line's end: the hyphen goes, but for compounds."""

import pytest
from tests.ingest.made import data, line, pages, pdf, read


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (("of the agree-", "ment signed"), "agreement signed"),
        (("of the Navier-", "Stokes equations"), "Navier-Stokes equations"),
        (("of the well-", "known harbour"), "well-known harbour"),
        (("a Self-", "contained flat"), "Self-contained flat"),
        (("the long-term lease, a long-", "term plan"), "a long-term plan"),
        (("a long-", "term plan and a Long-Term lease"), "a long-term plan"),
        (("the short-term lease, a long-", "termed plan"), "a longtermed plan"),
    ],
)
def test_a_word_broken_at_a_lines_end(lines: tuple[str, ...], text: str) -> None:
    content = "".join(line(said, 700 - 14 * at) for at, said in enumerate(lines))
    assert text in " ".join(pages(read("a.pdf", data(pdf(content))))[0].text.split())
