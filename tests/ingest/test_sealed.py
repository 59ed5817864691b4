"""What is signed is read, what is encrypted is named, and nothing is claimed of either."""

import datetime
import zlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from tests.ingest.made import end, opened, read, sound, text

from unabridged.ingest.document import Status
from unabridged.ingest.mail import cms

HEAD = b"From: dana@example.org\nSubject: sealed\n"
INNER = b"Content-Type: text/plain; charset=utf-8\r\n\r\nThe lease is signed.\r\n"
_OIDS = {"data": b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01", "signed": b"\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02"}
_COMPRESSED = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01\x09"


@pytest.fixture(scope="module")
def keys() -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Dana")])
    day = datetime.datetime(2026, 3, 3)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + datetime.timedelta(9))
    return key, builder.sign(key, SHA256())


def _signed(keys: tuple[rsa.RSAPrivateKey, x509.Certificate], *options: pkcs7.PKCS7Options) -> bytes:
    key, certificate = keys
    builder = pkcs7.PKCS7SignatureBuilder().set_data(INNER).add_signer(certificate, key, SHA256())
    return builder.sign(Encoding.DER, [pkcs7.PKCS7Options.Binary, *options])


def test_opaque_signed_mail_is_read(keys: tuple[rsa.RSAPrivateKey, x509.Certificate]) -> None:
    kind = b"Content-Type: application/pkcs7-mime; smime-type=signed-data; name=smime.p7m\n\n"
    items = read("a.eml", HEAD + kind + _signed(keys))
    sound(items)
    assert text(items).endswith("The lease is signed.")
    assert (opened(items)[0].meta["signed"], end(items).status) == ("S/MIME", Status.READ)


def test_an_envelope_with_a_wrong_label_is_known(keys: tuple[rsa.RSAPrivateKey, x509.Certificate]) -> None:
    kind = b"Content-Type: application/octet-stream; name=smime.p7m\n\n"
    assert text(read("a.eml", HEAD + kind + _signed(keys))).endswith("The lease is signed.")


def test_a_signature_beside_its_text_is_no_document(keys: tuple[rsa.RSAPrivateKey, x509.Certificate]) -> None:
    detached = _signed(keys, pkcs7.PKCS7Options.DetachedSignature)
    assert cms.opened(detached) == cms.Opened("signed", None)
    part = b"Content-Type: application/octet-stream; name=smime.p7s\n\n" + detached
    body = b"Content-Type: multipart/mixed; boundary=bb\n\n--bb\n\nThe text.\n--bb\n" + part + b"\n--bb--\n"
    items = read("a.eml", HEAD + body)
    assert len(opened(items)) == 1
    assert (opened(items)[0].meta["signed"], end(items).status) == ("S/MIME", Status.READ)


def test_encrypted_mail_is_named(keys: tuple[rsa.RSAPrivateKey, x509.Certificate]) -> None:
    builder = pkcs7.PKCS7EnvelopeBuilder().set_data(INNER).add_recipient(keys[1])
    sealed = builder.encrypt(Encoding.DER, [pkcs7.PKCS7Options.Binary])
    items = read("a.eml", HEAD + b"Content-Type: application/pkcs7-mime; name=smime.p7m\n\n" + sealed)
    assert (end(items).status, end(items).reason) == (
        Status.NO_TEXT,
        "encrypted with S/MIME: its text cannot be read",
    )
    assert opened(items)[0].meta["encrypted"] == "S/MIME"


def _tlv(tag: int, content: bytes, endless: bool = False) -> bytes:
    if endless:
        return bytes([tag, 0x80]) + content + b"\0\0"
    return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content


@pytest.mark.parametrize("endless", [False, True])
def test_content_in_pieces_is_put_together(endless: bool) -> None:
    pieces = _tlv(0x24, b"".join(_tlv(4, piece) for piece in (b"The lease ", b"is signed.")), endless)
    body = b"\2\1\1\x31\0" + _tlv(0x30, _tlv(6, _OIDS["data"]) + _tlv(0xA0, pieces, endless), endless)
    data = _tlv(0x30, _tlv(6, _OIDS["signed"]) + _tlv(0xA0, _tlv(0x30, body, endless), endless), endless)
    assert cms.opened(data) == cms.Opened("signed", b"The lease is signed.")


def test_compressed_mail_is_unpacked_as_far_as_the_limit() -> None:
    packed = _tlv(4, zlib.compress(b"x" * 10_000))
    algorithm = _tlv(0x30, _tlv(6, b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x03\x08"))
    body = b"\2\1\0" + algorithm + _tlv(0x30, _tlv(6, _OIDS["data"]) + _tlv(0xA0, packed))
    data = _tlv(0x30, _tlv(6, _COMPRESSED) + _tlv(0xA0, _tlv(0x30, body)))
    assert cms.opened(data) == cms.Opened("compressed", b"x" * 10_000)
    assert cms.opened(data, 50) == cms.Opened("compressed", b"x" * 50)


def test_nesting_costs_nothing() -> None:
    for data in (b"\x30\x80" * 100_000, b"\x30\x84\xff\xff\xff\xff" * 10_000, b"\x24\x80" * 50_000):
        assert cms.opened(data).kind == "damaged"


def test_an_attachment_sealed_with_pgp_is_named() -> None:
    part = b"Content-Type: application/octet-stream; name=contract.pdf.asc\n\n-----BEGIN PGP MESSAGE-----\n\nxyz\n"
    body = b"Content-Type: multipart/mixed; boundary=bb\n\n--bb\n\nSee file.\n--bb\n" + part + b"--bb--\n"
    items = read("a.eml", HEAD + body)
    assert (end(items).status, end(items).reason) == (
        Status.PARTIAL,
        "attachment contract.pdf.asc is encrypted with PGP",
    )
