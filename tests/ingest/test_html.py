"""HTML as its reader sees it."""

from unabridged.ingest.texts.html import declared, render


def test_blocks_become_lines_and_rows_stay_rows() -> None:
    page = render(
        "<title>T</title><h1>Head</h1><p>one<br>two<table><tr><td>Rent<td>4&nbsp;200</table><ul><li>a<li>b</ul>"
    )
    assert page.title == "T"
    assert page.text == "Head\n\none\ntwo\n\nRent\t4 200\n\n- a\n- b"


def test_scripts_and_styles_are_no_text() -> None:
    assert render("<style>p{}</style><script>var a='secret'</script>seen<!-- not -->").text == "seen"


def test_hidden_text_is_kept_apart() -> None:
    page = render('<p>seen<div style="display: none">pre<b>header</b></div><span hidden>more</span><p>end')
    assert page.text == "seen\n\nend"
    assert page.hidden == "preheader\n\nmore"
    page = render('<p>seen<p style="position:absolute; left:-9999px">far off<p style="left:-12px">near')
    assert (page.text, page.hidden) == ("seen\n\nnear", "far off")


def test_quotations_of_mail_are_marked() -> None:
    page = render("new<blockquote>old<blockquote>older</blockquote></blockquote>end", quotes=True)
    assert [line for line in page.text.split("\n") if line.strip("> ")] == ["new", "> old", "> > older", "end"]


def test_white_space_is_folded_but_in_preformatted_text() -> None:
    assert render("a \n  b<pre>x\n  y</pre>").text == "a b\n\nx\n  y"


def test_deep_nesting_is_no_recursion() -> None:
    assert render("<div>" * 3_000 + "deep text").text == "deep text"


def test_the_charset_that_a_page_claims_is_found() -> None:
    assert declared(b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">') == "koi8-r"
    assert declared(b"<p>none") == ""
