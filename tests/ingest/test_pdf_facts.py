"""Outlines, signatures, and attachments that alone are locked."""

import datetime
import hashlib
import json
import os
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.serialization import pkcs7
from cryptography.x509.oid import NameOID
from pypdf import PdfWriter
from pypdf._encryption import AlgV4
from pypdf.generic import BooleanObject, ByteStringObject, NameObject, StreamObject
from tests.ingest.made import data, end, entries, line, opened, pdf, read, sound, text

from unabridged.ingest.document import Status


def _outline(writer: PdfWriter) -> Any:
    return json.loads(opened(read("a.pdf", data(writer)))[0].meta["outline"])


def test_an_outline_has_levels_titles_and_pages() -> None:
    writer = pdf(line("one"), line("two"))
    chapter = writer.add_outline_item(title="1 Scope\u200b", page_number=0)
    writer.add_outline_item(title="1.1 Terms", page_number=1, parent=chapter)
    assert _outline(writer) == [[0, "1 Scope", 1], [1, "1.1 Terms", 2]]


def test_of_a_long_outline_the_deepest_levels_go_first_and_are_counted() -> None:
    writer = pdf(line("one"))
    for number in range(20):
        chapter = writer.add_outline_item(title=f"Chapter {number}", page_number=0)
        for section in range(20):
            writer.add_outline_item(title=f"Section {number}.{section}", page_number=0, parent=chapter)
    assert [title for _, title, _ in _outline(writer)] == [f"Chapter {number}" for number in range(20)]
    assert opened(read("a.pdf", data(writer)))[0].meta["outline_left_out"] == "400"


def test_an_outline_that_runs_in_a_circle_ends() -> None:
    writer = pdf(line("one"))
    first, second = writer.add_outline_item(title="A", page_number=0), writer.add_outline_item(title="B", page_number=0)
    writer._objects[second.idnum - 1][NameObject("/Next")] = first  # type: ignore[index]
    assert _outline(writer) == [[0, "A", 1], [0, "B", 1]]


def _certificate(name: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(day).not_valid_after(day + datetime.timedelta(days=30))
    return builder.sign(key, hashes.SHA256()), key


def test_signatures_name_who_signed_and_say_that_nothing_was_verified() -> None:
    certificate, key = _certificate("Ada Lovelace")
    signed = pkcs7.PKCS7SignatureBuilder().set_data(b"").add_signer(certificate, key, hashes.SHA256())
    contents = signed.sign(serialization.Encoding.DER, [pkcs7.PKCS7Options.DetachedSignature]) + bytes(100)
    writer = pdf(line("Agreed."))
    value = entries(
        Type="/Sig",
        SubFilter="/adbe.pkcs7.detached",
        Contents=ByteStringObject(contents),
        ByteRange=(0, 1, 2, 3),
        M="D:20260303091500+01'00'",
        Reason="approved",
    )
    field = writer._add_object(entries(FT="/Sig", T="s", V=value))
    writer._root_object[NameObject("/AcroForm")] = entries(Fields=[field])
    meta = opened(read("a.pdf", data(writer)))[0].meta
    assert meta["signed"] == "Ada Lovelace, 2026-03-03T09:15:00+01:00, reason: approved (not verified)"


def _attachments_locked(password: bytes) -> bytes:
    """A PDF whose attachment alone is encrypted (AES-128, an Identity filter for all else)."""
    writer = pdf(line("Open to all."))
    writer.add_attachment("secret.txt", b"The vault is behind the map.")
    identity = b"0123456789abcdef"
    permissions = 0xFFFFFFFC
    owner = AlgV4.compute_O_value(AlgV4.compute_O_value_key(b"owner", 4, 128), password, 4)
    key = AlgV4.compute_key(password, 4, 128, owner, permissions, identity, True)
    user = AlgV4.compute_U_value(key, 4, identity)
    for number, one in enumerate(writer._objects, 1):
        if isinstance(one, StreamObject) and one.get("/Type") == "/EmbeddedFile":
            one.set_data(_aes(key, number, one.get_data()))
    rules = entries(
        Filter="/Standard",
        V=4,
        R=4,
        Length=128,
        CF=entries(StdCF=entries(CFM="/AESV2", AuthEvent="/EFOpen", Length=16)),
        StmF="/Identity",
        StrF="/Identity",
        EFF="/StdCF",
        O=ByteStringObject(owner),
        U=ByteStringObject(user),
        P=permissions - (1 << 32),
        EncryptMetadata=BooleanObject(True),
    )
    entry = writer._add_object(rules)
    whole = data(writer)
    ids = f"/Encrypt {entry.idnum} 0 R /ID [<{identity.hex()}> <{identity.hex()}>] /Root".encode()
    head, _, tail = whole.rpartition(b"/Root")
    return head + ids + tail


def _aes(key: bytes, number: int, content: bytes) -> bytes:
    own = hashlib.md5(key + number.to_bytes(3, "little") + bytes(2) + b"sAlT").digest()
    start = os.urandom(16)
    pad = 16 - len(content) % 16
    encryptor = Cipher(algorithms.AES(own), modes.CBC(start)).encryptor()
    return start + encryptor.update(content + bytes([pad]) * pad) + encryptor.finalize()


@pytest.mark.parametrize(("passwords", "reason"), [((), "needs a password"), (("crow",), "no password given opens it")])
def test_attachments_that_alone_are_locked_are_said_to_be(passwords: tuple[str, ...], reason: str) -> None:
    items = read("a.pdf", _attachments_locked(b"kestrel"), passwords=passwords)
    sound(items)
    assert (text(items), end(items).status) == ("Open to all.", Status.READ)
    assert [(one.name, end(items, one.ref).status, end(items, one.ref).reason) for one in opened(items)[1:]] == [
        ("secret.txt", Status.NEEDS_PASSWORD, reason)
    ]


def test_attachments_that_alone_are_locked_open_with_the_password() -> None:
    items = read("a.pdf", _attachments_locked(b"kestrel"), passwords=("crow", "kestrel"))
    assert text(items, 1) == "The vault is behind the map."
