"""The language of the system, by its locale, as tesseract names it: de_AT.UTF-8 is deu."""

import os
import re

_NAMES: dict[str, str] = dict(
    re.findall(
        r"(\w+):(\w+)",
        """
        af:afr ar:ara bg:bul bs:bos ca:cat cs:ces cy:cym da:dan de:deu el:ell en:eng es:spa et:est eu:eus fa:fas fi:fin
        fr:fra ga:gle gl:glg he:heb hi:hin hr:hrv hu:hun hy:hye id:ind is:isl it:ita ja:jpn ka:kat ko:kor lt:lit lv:lav
        mk:mkd ms:msa mt:mlt nb:nor nl:nld nn:nor no:nor pl:pol pt:por ro:ron ru:rus sk:slk sl:slv sq:sqi sr:srp sv:swe
        th:tha tr:tur uk:ukr ur:urd vi:vie zh:chi_sim zh_hk:chi_tra zh_tw:chi_tra
        """,
    )
)


def language() -> str:
    """tesseract's name, "" where the locale has none or is one that is not known here."""
    said = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    place = said.partition(".")[0].partition("@")[0].lower()
    return _NAMES.get(place) or _NAMES.get(place.partition("_")[0], "")
