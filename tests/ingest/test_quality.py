"""The gate tells text from nonsense, in any language."""

import pytest

from unabridged.ingest.pdf import quality

PLAIN = "The harbour committee met on Tuesday to review the dredging contract, and found it wanting in two points."


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(PLAIN, id="English"),
        pytest.param("Příliš žluťoučký kůň úpěl ďábelské ódy. " * 4, id="Czech"),
        pytest.param("Donaudampfschifffahrtsgesellschaft und Rechtsschutzversicherung gehen voran. " * 3, id="German"),
        pytest.param("これは文字の列であり、空白を含まない長い文章です。" * 5, id="Japanese"),
        pytest.param("هذه وثيقة تجريبية مكتوبة باللغة العربية للتأكد من الجودة. " * 3, id="Arabic"),
        pytest.param("12 345.67 -8.9 1e-5 | 3.14 2.72 " * 10, id="figures"),
        pytest.param("f(x) = α·x² + β ≤ γ ∈ ℝ, ∀x: x → ∞. " * 5, id="formulas"),
        pytest.param("商品编码 数量 商品名称 SPXQ-12 302000001 BRKTZZ 散称华联粉条 " * 8, id="Chinese with codes"),
        pytest.param("Δt = αx μm Ωm, слово, λέξη, ordet. " * 6, id="scripts apart"),
        pytest.param("\\DeclareMathSymbol{\\Zeta}{\\mathalpha}{operators} " * 8, id="code"),
        pytest.param("", id="nothing"),
    ],
)
def test_text_passes(text: str) -> None:
    assert quality.score(text) >= quality.GOOD


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("/g12/g123/g4/g55/g9 " * 20, id="glyph names"),
        pytest.param("(cid:12)(cid:3)(cid:44)" * 20, id="glyph ids"),
        pytest.param("".join(chr(ord(c) - 29) if c.isalpha() else "" for c in PLAIN * 2), id="shifted"),
        pytest.param("7KHKDUERXUFRPPLWWHHPHWRQ7XHVGD\\WRUHYLHZWKHGUHGJLQJFRQWUDFWj\r\n" * 3, id="shifted and glued"),
        pytest.param("/c128/c160/c045 " * 5, id="codes"),
        pytest.param(
            "\u03f2\u0392\u03f4\u0392habibi \u064a\u0628\u064a\u0628\u064e\u062d\u03f2 " * 3, id="mixed scripts"
        ),
        pytest.param("\ue012\ue034\ue0ff\ue055 " * 20, id="private characters"),
        pytest.param("\x01\x05\x11 \x0e" * 30, id="controls"),
    ],
)
def test_nonsense_is_bad(text: str) -> None:
    assert quality.score(text) < quality.BAD


def test_glued_words_ask_for_a_second_opinion() -> None:
    assert quality.score(PLAIN.replace(" ", "") * 3) < quality.GOOD
