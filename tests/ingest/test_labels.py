"""Labels of what in a message is quoted, attributed, passed on, a signature or a footer; what is somebody's own stays
without."""

import time
from pathlib import Path

import pytest
from tests.ingest.made import pages, read

from unabridged.ingest.document import PartKind
from unabridged.ingest.mail.labels import body_hash, label


def _labelled(text: str) -> list[tuple[str, str]]:
    return [(part.kind.value, text[part.start : part.end].strip()) for part in label(text)]


def _own(text: str) -> str:
    """What keeps no label."""
    for part in reversed(label(text)):
        text = text[: part.start] + "\n" + text[part.end :]
    return " ".join(text.split())


def test_quotation_attribution_and_signature_are_labelled() -> None:
    text = "Yes.\n\nOn Mon, 2 Mar 2026, Dana Holt wrote:\n> first\n\n> second\n\nAgreed.\n\n-- \nPavel\nMill Street 4"
    assert _labelled(text) == [
        ("attribution", "On Mon, 2 Mar 2026, Dana Holt wrote:"),
        ("quoted", "> first\n\n> second"),
        ("signature", "-- \nPavel\nMill Street 4"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Am 3.3.2026 schrieb Dana Holt:",
        "Am Di., 3. März 2026 um 10:00 Uhr schrieb Dana Holt <dana@x.de>:",
        "Le 3 mars 2026, Dana a écrit :",
        "Le mar. 3 mars 2026 à 10:00, Dana Holt <d@x.fr> a écrit :",
        "El mar, 3 mar 2026 a las 10:00, Dana Holt (<d@x.es>) escribió:",
        "Il giorno mar 3 mar 2026 alle ore 10:00 Dana Holt <d@x.it> ha scritto:",
        "Em ter., 3 de mar. de 2026 às 10:00, Dana Holt <d@x.br> escreveu:",
        "Op di 3 mrt 2026 om 10:00 schreef Dana Holt <d@x.nl>:",
        "W dniu 03.03.2026 o 10:00, Dana Holt pisze:",
        "wt., 3 mar 2026 o 10:00 Dana Holt <d@x.pl> napisał(a):",
        "3 марта 2026 Дана <d@x.cz> написала:",
        "вт, 3 мар. 2026 г. в 10:00, Дана Холт <d@x.ru>:",
        "Dne 3. 3. 2026 v 10:00 Dana Holt napsal(a):",
        "Den tis 3 mars 2026 kl 10:00 skrev Dana Holt <d@x.se>:",
        "ti 3. maalisk. 2026 klo 10.00 Dana Holt (d@x.fi) kirjoitti:",
        "3 Mar 2026 Sal, 10:00 tarihinde Dana Holt <d@x.tr> şunu yazdı:",
        "2026年3月3日(火) 10:00 Dana Holt <d@x.jp>:",
        "Dana Holt <d@x.cn> 于2026年3月3日周二 10:00写道：",
        "2026년 3월 3일 (화) 오전 10:00, Dana Holt <d@x.kr>님이 작성:",
    ],
)
def test_attributions_of_many_languages(line: str) -> None:
    text = f"Ja.\n\n{line}\n> x\n\nOwn."
    assert _labelled(text) == [("attribution", line), ("quoted", "> x")]
    assert _own(text) == "Ja. Own."


def test_an_attribution_over_two_lines() -> None:
    text = "Yes.\n\nOn Mon, 2 Mar 2026 at 10:00 AM, Dana Holt\n<dana@example.org> wrote:\n\n> old"
    assert _labelled(text)[0] == (
        "attribution",
        "On Mon, 2 Mar 2026 at 10:00 AM, Dana Holt\n<dana@example.org> wrote:",
    )


def test_answers_between_and_below_quotations_stay_own() -> None:
    between = (
        "On 2 Mar 2026, Dana Holt wrote:\n> When?\n\nOn Friday.\n\n> Where?\nAt the pier.\n>\n> Who?\n\nInes and I."
    )
    assert _own(between) == "On Friday. At the pier. Ines and I."
    below = "Dana Holt <d@x.org> wrote:\n> When does it end?\n> And where?\n\nIt ends on Friday, as I said:\nat noon."
    assert _own(below) == "It ends on Friday, as I said: at noon."


def test_a_sentence_that_ends_in_a_colon_over_a_quotation_is_own() -> None:
    assert _own("I quote the lease of 2024:\n> The tenant pays.\n") == "I quote the lease of 2024:"


OUTLOOK = [
    ("-----Original Message-----", "From: a@b.c", "Sent: Monday, March 2, 2026 10:00 AM", "To: d@e.f", "Subject: x"),
    ("-----Ursprüngliche Nachricht-----", "Von: A B <a@b.c>", "Gesendet: Montag, 2. März 2026", "Betreff: x"),
    ("________________________________", "From: A B", "Sent: Monday", "To: C", "Subject: x"),
    ("", "*Von:* A B", "*Gesendet:* Montag, 2. März 2026 10:00", "*An:* C D", "*Cc:* E", "*Betreff:* AW: x"),
    ("", "De : A B <a@b.c>", "Envoyé : lundi 2 mars 2026 10:00", "À : C D", "Objet : RE: x"),
    ("", "De: A B", "Enviado el: lunes, 2 de marzo de 2026 10:00", "Para: C D", "Asunto: RE: x"),
    ("", "Da: A B", "Inviato: lunedì 2 marzo 2026 10:00", "A: C D", "Oggetto: R: x"),
    ("", "De: A B", "Enviado: segunda-feira, 2 de março de 2026", "Para: C D", "Assunto: RES: x"),
    ("", "Van: A B", "Verzonden: maandag 2 maart 2026 10:00", "Aan: C D", "Onderwerp: RE: x"),
    ("", "From: A B", "Sent: Monday", "To: C", "Subject: x"),
    ("", "От: А Б", "Отправлено: 2 марта 2026 г. 10:00", "Кому: В Г", "Тема: RE: x"),
    ("", "Från: A B", "Skickat: den 2 mars 2026 10:00", "Till: C D", "Ämne: SV: x"),
    ("", "Od: A B", "Wysłano: poniedziałek, 2 marca 2026 10:00", "Do: C D", "Temat: ODP: x"),
    ("", "发件人: A B", "发送时间: 2026年3月2日 10:00", "收件人: C D", "主题: 回复: x"),
    ("", "差出人: A B", "送信日時: 2026年3月2日 10:00", "宛先: C D", "件名: RE: x"),
]


@pytest.mark.parametrize("head", OUTLOOK, ids=[" ".join(head[:2]) for head in OUTLOOK])
def test_what_outlook_puts_below_is_quoted(head: tuple[str, ...]) -> None:
    block = "\n".join(head).strip("\n")
    text = f"See below.\n\n{block}\n\nThe old text.\n\nMore of it."
    assert _labelled(text) == [("attribution", block), ("quoted", "The old text.\n\nMore of it.")]


def test_a_chain_of_outlook_blocks_is_attribution_and_quotation_in_turn() -> None:
    block = "From: A\nSent: Monday\nTo: C\nSubject: x"
    text = f"Mine.\n\n{block}\n\nFirst.\n\n{block}\n\nSecond."
    assert [kind for kind, _ in _labelled(text)] == ["attribution", "quoted", "attribution", "quoted"]
    assert _own(text) == "Mine."


@pytest.mark.parametrize(
    "rule",
    [
        "---------- Forwarded message ---------",
        "-------- Forwarded Message --------",
        "Begin forwarded message:",
        "---------- Weitergeleitete Nachricht ----------",
        "Anfang der weitergeleiteten Nachricht:",
        "---------- Message transféré ----------",
        "---------- Mensaje reenviado ----------",
        "---------- Messaggio inoltrato ----------",
        "---------- Mensagem encaminhada ----------",
        "---------- Doorgestuurd bericht ----------",
        "---------- Пересылаемое сообщение ----------",
        "---------- 转发的邮件 ----------",
    ],
)
def test_a_message_that_is_passed_on_is_forwarded(rule: str) -> None:
    text = f"For you.\n\n{rule}\nFrom: A B <a@b.c>\nDate: Mon, 2 Mar 2026\nSubject: x\nTo: C\n\nThe berth is free."
    assert _labelled(text)[-1] == ("forwarded", "The berth is free.")
    assert _labelled(text)[0][0] == "attribution"
    assert rule in _labelled(text)[0][1]
    assert _own(text) == "For you."


def test_a_block_without_a_word_above_it_is_passed_on() -> None:
    text = "From: A\nSent: Monday\nTo: C\nSubject: x\n\nThe berth is free."
    assert _labelled(text)[-1] == ("forwarded", "The berth is free.")


def test_yahoo_marks_nothing_below_its_attribution() -> None:
    text = (
        "Fine with me.\n\n   On Monday, March 2, 2026, 10:00 AM, Dana Holt <d@x.org> wrote:\n\nIs Friday right?\nDana"
    )
    assert [kind for kind, _ in _labelled(text)] == ["attribution", "quoted"]
    assert _own(text) == "Fine with me."


@pytest.mark.parametrize(
    "line",
    [
        "Sent from my iPhone",
        "Von meinem iPhone gesendet",
        "Envoyé de mon iPhone",
        "Enviado desde mi iPhone",
        "Inviato da iPhone",
        "Enviado do meu iPhone",
        "Verstuurd vanaf mijn iPhone",
        "Отправлено с iPhone",
        "Get Outlook for iOS",
        "Sent with Proton Mail secure email.",
        "Skickat från min iPhone",
        "iPhoneから送信",
    ],
)
def test_the_line_of_a_telephone_is_a_signature(line: str) -> None:
    assert _labelled(f"Yes.\n\n{line}\n\nOn 2 Mar 2026, Dana Holt wrote:\n> Ok?")[0] == ("signature", line)
    assert _own(f"Yes.\n\n{line}") == "Yes."


def test_the_footer_of_a_list_is_labelled() -> None:
    mailman = "_______________________________________________\nR-help mailing list\nhttps://example.org\n"
    assert _labelled(f"Own text.\n\n{mailman}") == [("footer", mailman.strip())]
    google = (
        '-- \nYou received this message because you are subscribed to the Google Groups "x".\nTo unsubscribe, see y.'
    )
    assert _labelled(f"Own.\n\n-- \nInes\n\n{google}\n{mailman}") == [
        ("signature", "-- \nInes"),
        ("footer", f"{google}\n{mailman.strip()}"),
    ]


def test_the_notice_of_a_gateway_is_a_footer_and_a_lawyer_s_own_words_are_not() -> None:
    notice = "This e-mail and any attachments are confidential and intended solely for the addressee.\nDelete it."
    assert _labelled(f"The lease ends.\n\nInes\n\n{notice}\n") == [("footer", notice)]
    assert label(f"{notice}") == []
    assert label("This message is confidential: do not show it to the addressee.\n\nThe lease ends.\n\nInes") == []


@pytest.mark.parametrize(
    "text",
    [
        "Plain words.\n\nHe wrote: nothing.\na -- b\n",
        "| item | price |\n| pier | 3 |\n\nFrom: here\nto there",
        "Data: see the sheet.\n\nFrom: Monday on we dredge.\nTo: nobody.\nThanks",
        "Sent from my desk, the plan is ready.\nIt has four pages.",
        "ABC> select 1\nABC> select 2",
        ">From here on it is mine.",
    ],
)
def test_own_text_carries_no_label(text: str) -> None:
    assert label(text) == []


def test_a_name_is_a_mark_where_an_attribution_says_so() -> None:
    over = '>>>>> "Robert" == Robert Denham <r@x.example> writes:'
    body = f"{over}\n\nRobert> How much memory is it?\nR> debug(x)\n\nFive.\n\nRobert> Thanks.\n"
    quoted = [body[part.start : part.end] for part in label(body) if part.kind is PartKind.QUOTED]
    assert "Robert> How much memory is it?" in "".join(quoted)
    assert "Robert> Thanks." in "".join(quoted)
    assert "debug" not in "".join(quoted)
    assert "Five." not in "".join(quoted)
    plain = "Robert> How much memory is it?\n\nFive.\n"
    assert label(plain) == []


def test_bars_and_initials_count_below_an_attribution() -> None:
    text = "On 2 Mar 2026, Dana Holt wrote:\n| When?\n\nFriday.\n| Where?\n"
    assert _own(text) == "Friday."
    assert _own("Dana Holt <d@x.org> writes:\n\n  DH> When?\n  DH> Where?\n\nFriday.") == "Friday."


def test_a_long_text_behind_two_dashes_is_no_signature() -> None:
    assert PartKind.SIGNATURE not in [part.kind for part in label("Intro\n-- \n" + "A line of text.\n" * 40)]


def test_parts_are_in_order_without_overlap() -> None:
    text = "Yes\n\n> a\n\nNo\n-- \nx\n____________________\nthe mailing list\n"
    at = 0
    for part in label(text):
        assert at <= part.start < part.end <= len(text)
        at = part.end


@pytest.mark.parametrize(
    "piece",
    [
        "> x\n",
        "-- \n",
        " \n",
        "---- Forwarded message ----\n",
        "From: a\nSent: b\nTo: c\n\n",
        "__________\nmailing list\n",
        "a:\n",
        "x wrote:\n> ",
    ],
)
def test_time_is_linear_in_the_text(piece: str) -> None:
    began = time.process_time()
    label(piece * (60_000 // len(piece)))
    assert time.process_time() - began < 1


def test_the_hash_of_a_body_forgets_footers_and_white_space_only() -> None:
    meta = {"date": "2026-03-02T10:00:00+00:00", "from": "a@b.c", "subject": "x"}
    footer = "\n____________________\nthe mailing list\n"
    plain, listed = "The  berth\nis free.\n", f"The berth is\nfree.\n{footer}"
    assert body_hash(meta, plain, label(plain)) == body_hash(meta, listed, label(listed))
    assert body_hash(meta, plain, ()) != body_hash(meta, "The berth is taken.", ())
    assert body_hash(meta, plain, ()) != body_hash({**meta, "subject": "[list] x"}, plain, ())


TALON = {
    "tl_android.eml": ("attribution", "quoted"),
    "tl_apple_mail.eml": ("attribution", "quoted"),
    "tl_gmail.eml": ("attribution", "quoted"),
    "tl_hotmail.eml": ("quoted",),
    "tl_iphone.eml": ("signature", "attribution", "quoted"),
    "tl_outlook.eml": ("attribution", "quoted"),
    "tl_thunderbird.eml": ("attribution", "quoted"),
    "tl_yahoo.eml": ("attribution", "quoted"),
}


@pytest.mark.parametrize("name", TALON)
def test_client_samples_are_labelled_and_only_the_answer_is_own(name: str, shared_data: Path) -> None:
    (page,) = pages(read(name, (shared_data / "ingest" / "mail" / name).read_bytes()))
    assert tuple(part.kind.value for part in page.parts) == ("header", *TALON[name])
    text = page.text
    for part in reversed(page.parts):
        text = text[: part.start] + text[part.end :]
    assert text.strip() == "Hello"
