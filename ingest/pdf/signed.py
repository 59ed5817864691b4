"""Who signed a PDF, as its signatures say: names of certificates, times and reasons. Nothing is verified here.

meta["signed"] = "Ada Lovelace, 2026-03-03T09:15:00+01:00, reason: approved (not verified)"
"""

import warnings
from contextlib import suppress
from typing import Any

from unabridged.ingest.pdf.extra import iso_date
from unabridged.ingest.pdf.wide import octets, wide
from unabridged.ingest.texts.normalise import one_line

_MOST = 20  # signatures of one document
_TIME_STAMP = b"ETSI.RFC3161"


def meta(document: Any) -> dict[str, str]:
    """What belongs into the meta of a pypdfium2 document; nothing for one without signatures."""
    import pypdfium2.raw as raw

    signatures = [
        line
        for index in range(min(max(0, raw.FPDF_GetSignatureCount(document.raw)), _MOST))
        if (line := _line(raw, raw.FPDF_GetSignatureObject(document.raw, index)))
    ]
    return {"signed": "; ".join(signatures) + " (not verified)"} if signatures else {}


def _line(raw: Any, signature: Any) -> str:
    if not signature:
        return ""
    contents = octets(lambda *to: raw.FPDFSignatureObj_GetContents(signature, *to))
    if not contents:
        return ""  # a field that waits for its signature
    stamp = octets(lambda *to: raw.FPDFSignatureObj_GetSubFilter(signature, *to)).rstrip(b"\0")
    when = iso_date(octets(lambda *to: raw.FPDFSignatureObj_GetTime(signature, *to)).decode("latin-1").rstrip("\0"))
    why = wide(lambda *to: raw.FPDFSignatureObj_GetReason(signature, *to))
    who = signer(contents) or "somebody"
    said = [f"time stamp of {who}" if stamp == _TIME_STAMP else who, when]
    if reason := one_line(why, 200):
        said.append(f"reason: {reason}")
    return ", ".join(part for part in said if part)


def signer(contents: bytes) -> str:
    """The common name of the certificate that signed: the one that issued no other of the signature. "" for none."""
    from cryptography.hazmat.primitives.serialization import pkcs7
    from cryptography.x509.oid import NameOID

    with suppress(Exception), warnings.catch_warnings():  # cryptography raises what the file makes it raise
        warnings.simplefilter("ignore")  # of certificates that are not as they should be
        certificates = pkcs7.load_der_pkcs7_certificates(_trimmed(contents))
        issuers = {one.issuer for one in certificates if one.issuer != one.subject}
        leaves = [one for one in certificates if one.subject not in issuers] or certificates
        for attribute in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME):
            if names := leaves[0].subject.get_attributes_for_oid(attribute):
                return one_line(str(names[0].value), 200)
    return ""


def _trimmed(der: bytes) -> bytes:
    """Without the zeros that fill the room which was left for the signature."""
    count = der[1] & 0x7F if der[1] & 0x80 else 0
    return der[: 2 + count + (int.from_bytes(der[2 : 2 + count], "big") if count else der[1])]
