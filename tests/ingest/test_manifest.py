"""Every file of the shared collection against what its manifest expects of it.

The facts come from five PDF engines that agree, from people who looked, and, for much of the mail, from Python's email
package alone, which is wrong in known places. `EXPLAINED` lists every difference with its reason; a difference that is
not listed fails, and so does an explanation that no longer applies.
"""

import csv
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.made import end, files, opened, pages, sound

from unabridged.ingest.document import Flag, Item, Kind, Page, Status
from unabridged.ingest.limits import Limits
from unabridged.ingest.worker import Workers

# (file, what differs): why ours is right, or what is missing still.
EXPLAINED = {
    ("made/mail_date_3.eml", "date"): "the zone +9999 is none: the time is kept without a zone, and meta says so",
    ("made/mail_date_7.eml", "date"): "the year 0 is none; email reads 2000",
    ("made/mail_filename_raw8bit.eml", "attachment"): "raw cp1250 name decoded; email gives U+FFFD",
    (
        "made/mail_header_injection_spaces.eml",
        "subject",
    ): "a space before the colon is allowed; email loses the headers",
    ("made/mail_header_injection_spaces.eml", "date"): "as above",
    ("made/mail_mangled_from_header.eml", "subject"): 'the ">From -" line is stepped over; email loses the headers',
    ("made/mail_mangled_from_header.eml", "date"): "as above",
    ("made/mail_no_date_no_msgid.eml", "date"): "from Received",
    ("made/mail_smime_detached.eml", "attachment"): "a signature is a fact of the message (signed), no document",
    ("made/mail_traversal_name.eml", "attachment"): "the folders are taken off the name",
    ("made/mail_utf16_saved.eml", "subject"): "email does not read UTF-16 files",
    ("made/mail_utf16_saved.eml", "date"): "as above",
    ("made/31415.emlx", "subject"): "email does not know Apple's frame",
    ("made/31415.emlx", "date"): "as above",
    ("made/mbox_cl2.mbox", "messages"): "4 by Content-Length, as its author says; mailbox splits it in 6",
    ("made/mbox_cl2.mbox", "subject"): "as above",
    ("made/mbox_cl2.mbox", "date"): "as above",
    ("made/mail_uuencode_inline.eml", "phrase"): "its uuencoded line claims a length that it has not",
    ("made/pdf_two_columns_rowwise.pdf", "phrase"): "columns written by rows are read one after the other",
    ("made/pdf_aes256_owner_only.pdf", "class"): "its page 2 is an image, so it is read in part",
    ("made/pdf_rc4_owner_only.pdf", "class"): "as above",
    ("made/pdf_attachments.pdf", "class"): "as above",
    ("made/maildir_made/.Archive.2025/maildirfolder", "kind"): "an empty marker file of Maildir, no message",
    ("made/maildir_made/tmp/1772526902.M3P1.host", "kind"): "half a message that was never delivered: read as text",
    ("mail/cpy_msg_15.eml", "date"): "from Received",
    ("mail/cpy_msg_22.eml", "attachment"): "images within the text are counted, no documents",
    ("mail/cpy_msg_45.eml", "attachment"): "a signature",
    ("mail/mimekit_feedback-report.txt", "subject"): "the file begins with a mark that hides its headers from email",
    ("mail/mimekit_feedback-report.txt", "date"): "as above",
    ("mail/mimekit_thunderbird-signed.txt", "attachment"): "a signature",
    ("mail/mk_bad_date_header.eml", "date"): "from Received",
    ("mail/mk_raw_email_with_bad_date.eml", "date"): "from Received",
    ("mail/sw_malformed_015.eml", "attachment"): "a signature",
    ("mail/sw_malformed_019.eml", "subject"): "a garbage line is stepped over; email loses the headers",
    ("mail/sw_malformed_019.eml", "date"): "as above",
    ("mail/tk_testEML_embedded_xhtml_and_img.eml", "attachment"): "an image within the text",
    ("pdf/qp_deep-pages.pdf", "class"): "its page, below hundreds of levels, is empty",
    ("pdf/qp_digitally-signed.pdf", "phrase"): "the text of a signature's picture is not read",
    ("pdf/qp_empty.pdf", "class"): "it has no pages, and says so",
    ("pdf/qp_xref-with-short-size.pdf", "class"): "its page has one letter",
    ("pdf/sf_imagemagick-images.pdf", "class"): "scans: the word Background on them is invisible",
    ("pdf/tk_testPDF_deeplyEmbeddedAttachments.pdf", "class"): "its page has one letter",
}

# What people who looked, or who made the file, say must be found in it.
PHRASES = {
    "made/csv_semicolon_cp1250.csv": "Žofie",
    "made/html_deep_30000.html": "deep text",
    "made/html_meta_mismatch.html": "Příliš žluťoučký kůň",
    "made/mail_base64_broken.eml": "ferry timetable changes on 12 April",
    "made/mail_cr_only.eml": "mac line ends",
    "made/mail_flowed_delsp.eml": "was flowed over three lines",
    "made/mail_html_only.eml": "orchard lease ends on 12 June",
    "made/mail_invite.eml": "Orchard lease signing",
    "made/mail_long_line_base64_html.eml": "Lot number 5531 is sold.",
    "made/mail_qp_broken.eml": "Price = 40 €",
    "made/mail_rfc2047_quoted.eml": "Jiří Novák",
    "made/mail_rfc2047_split_char.eml": "Žádost o prodloužení nájmu sadu",
    "made/mail_rfc822_base64.eml": "bidder: Kestrel Works",
    "made/mail_smime_detached.eml": "orchard lease",
    "made/mail_uuencode_inline.eml": "well is forty metres deep",
    "made/mail_wrong_charset_label.eml": "žluťoučký",
    "made/mail_yenc_pgp_inline.eml": "clearsigned text is about bees",
    "made/mbox_o.mbox": "From the desk",
    "made/mbox_rd.mbox": ">From here",
    "made/pdf_attachments.pdf": "vault code word is Heliotrope",
    "made/pdf_flate_bomb.pdf": "Second page is fine.",
    "made/pdf_hebrew_arabic_bidi.pdf": "Mixed: invoice 4821 של חברת אורן",
    "made/pdf_letterspaced.pdf": "harbour committee met on Tuesday",
    "made/pdf_text_matrix_rot90.pdf": "harbour committee met on Tuesday",
    "made/pdf_truncated_60pct.pdf": "Sheet 18 of the ledger",
    "made/pdf_two_columns_rowwise.pdf": "LEFT19 alpha beta gamma delta LEFT20",
    "made/txt_cp1252.txt": "“special” costs €5",
    "made/txt_gb18030.txt": "合同金额为四千二百元",
    "made/txt_koi8r.txt": "Собрание перенесено",
    "made/txt_mixed_utf8_latin1.txt": "good again: kůň",
    "made/txt_prompt_injection.md": "meter reads 5512",
    "made/txt_sjis.txt": "会議は四月十二日です",
    "made/txt_utf16be_nobom.txt": "UTF-16 big endian",
    "made/txt_utf16le_bom.txt": "žluťoučký kůň",
    "made/txt_with_nuls.txt": "alpha beta gamma",
}
MESSAGES = {
    "mail/mimekit_content-length.mbox.txt": 29,
    "mail/mimekit_issue1189.mbox.txt": 4,
    "mail/mimekit_simple.mbox.txt": 3,
    "made/mbox_cl2.mbox": 4,
    "made/mbox_truncated_in_base64.mbox": 5,
}


_OUTSIDE = ("file time", "mbox From line")  # days that no header of the message says


def _rows(folder: Path) -> list[dict[str, str]]:
    csv.field_size_limit(sys.maxsize)
    with (folder / "MANIFEST.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _folded(text: str) -> str:
    """Letters without white space and hyphens, which extractors treat in their own ways."""
    return re.sub(r"[\s\u00ad-]+", "", unicodedata.normalize("NFKC", text))


def _pdf(expected: dict[str, Any], items: list[Item]) -> Iterator[str]:
    found = {page.number: page for page in pages(items)}
    status = end(items).status
    kind = expected.get("class", "")
    if "pages" in expected and len(found) != expected["pages"]:
        yield "pages"
    for phrase in expected.get("phrases", []):
        page = found.get(phrase["page"])
        if page is None or _folded(phrase["text"]) not in _folded(page.text):
            yield "phrase"
    if kind == "ok" and status != Status.READ:
        yield "class"
    if kind.startswith("no_text") and status != Status.NO_TEXT:
        yield "class"
    if kind.startswith("damaged_recoverable") and status not in (Status.READ, Status.PARTIAL):
        yield "class"
    if kind.startswith("garbled") and not all(Flag.GARBLED in page.flags for page in found.values()):
        yield "class"


def _mail(expected: dict[str, Any], items: list[Item]) -> Iterator[str]:
    documents = opened(items)
    messages = [d for d in documents if d.kind == Kind.MESSAGE and (d.parent == 0 or d.ref == 0)]
    if documents[0].kind not in (Kind.MAILBOX, Kind.MESSAGE):
        yield "kind"
        return
    if len(messages) != expected.get("mbox_n", len(messages)):
        yield "messages"
    for message, subject, date in zip(messages, expected.get("subject", []), expected.get("date", []), strict=False):
        if (subject or "").split() != message.meta.get("subject", "").split():
            yield "subject"
        said = None if message.meta.get("date_source") in _OUTSIDE else message.meta.get("date")
        if (None if date == "UNPARSED" else date) != said:
            yield "date"
    names = {document.name for document in documents[1:]}
    if any(name and not kind.startswith("multipart/") and name not in names for name, kind in expected.get("att", [])):
        yield "attachment"


def _differences(name: str, expected: dict[str, Any], items: list[Item]) -> set[str]:
    found = set(_pdf(expected, items)) if name.endswith(".pdf") else set()
    if "stdlib_says_unverified" in expected:
        found |= set(_mail(expected["stdlib_says_unverified"], items))
    if name in MESSAGES and sum(document.parent == 0 for document in opened(items)) != MESSAGES[name]:
        found.add("messages")
    whole = "".join(item.text for item in items if isinstance(item, Page))
    if name in PHRASES and _folded(PHRASES[name]) not in _folded(whole):
        found.add("phrase")
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_file_gives_what_its_manifest_expects(shared_data: Path) -> None:
    folder = shared_data / "ingest"
    differences: set[tuple[str, str]] = set()
    with Workers(1, Limits(ocr="off")) as workers:
        for row in _rows(folder):
            name, expected = row["path"], json.loads(row["expected"] or "{}")
            locked = expected.get("class") == "needs_password"
            items = list(workers.read(folder / name))
            sound(items)
            if locked:
                assert end(items).status == Status.NEEDS_PASSWORD, name
            if locked and expected["password"] is not None:
                items = list(workers.read(folder / name, [expected["password"]]))
                assert end(items).status in (Status.READ, Status.PARTIAL), name
            if not locked:
                differences |= {(name, what) for what in _differences(name, expected, items)}
        assert workers.peak_bytes < workers.limits.memory_bytes
    assert differences - EXPLAINED.keys() == set()
    assert EXPLAINED.keys() - differences == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_manuals_are_read_completely(shared_data: Path) -> None:
    with Workers(1, Limits(ocr="off")) as workers:
        for path in files(shared_data / "manuals"):
            if path.suffix == ".pdf":
                items = list(workers.read(path))
                sound(items)
                assert end(items).status == Status.READ, path.name
