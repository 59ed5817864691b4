"""Subjects of mail: what a thread is called, without the prefixes that answering and forwarding put in front.

Pure functions of text. The prefixes are those of mail programs in their users' languages, also counted ("Re[2]:",
"Re^3:", "AW (2):") and behind a mailing list's name in brackets.
"""

import re
import unicodedata

_PREFIXES = (
    # English, French, Spanish, Italian, Portuguese, Romanian
    r"re|r|res|ref|rif|resp|fw|fwd|f|tr|rv|enc|i|rép|réf|fs|trans"
    # German, Dutch, Scandinavian, Finnish, Icelandic, Estonian
    r"|aw|antw|antwort|wg|betr|doorst|sv|svar|vs|vb|vl|vá|vst|ej"
    # Polish, Czech, Slovak, Hungarian, Turkish, Greek, Welsh, Indonesian, Vietnamese
    r"|odp|pd|přep|preposlané|továbbítás|ynt|ilt|i̇lt|απ|σχετ|πρθ|atb|ym|bls|trs|hđ|trl"
    # Russian, Ukrainian, Bulgarian, Hebrew, Arabic, Chinese, Japanese, Korean
    r"|отв|ответ|на|пер|пересл|fwd\.|hv|השב|העב|הועבר|رد|إعادة توجيه|回复|回覆|答复|转发|轉寄|返信|転送|답장|회신|전달"
)
_PREFIX = re.compile(rf"\s*(?:{_PREFIXES})\s*(?:[\[(^]\s*\d{{1,3}}\s*[\])]?)?\s*[:：]", re.IGNORECASE)
_BLOB = re.compile(r"\s*\[[^\[\]]{1,60}\]")
_TRAILER = re.compile(r"(?:\s*\((?:fwd|was:[^()]*)\))+\s*$", re.IGNORECASE)
_ROUNDS = 40


def base(subject: str) -> tuple[str, bool]:
    """A subject without prefixes, folded, and whether it had one. "AW: [harbour] Re[2]: Dredging" is
    ("dredging", True), what is nothing but prefixes ("", True)."""
    text, reply = subject[:1_000], False
    for _ in range(_ROUNDS):
        if match := _PREFIX.match(text):
            reply, text = True, text[match.end() :]
        elif (match := _BLOB.match(text)) and text[match.end() :].strip():
            # A list's name, unless it is all that there is.
            text = text[match.end() :]
        elif match := _TRAILER.search(text):
            reply, text = True, text[: match.start()]
        else:
            break
    return fold(text), reply


def fold(text: str) -> str:
    """Text as it is compared: without case, accents and runs of white space."""
    if not text.isascii():
        apart = unicodedata.normalize("NFKD", text)
        text = "".join(char for char in apart if not unicodedata.combining(char))
    return " ".join(text.casefold().split())
