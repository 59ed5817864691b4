"""Recognition of images as `doctor` sees it: which engines are there, which languages they read."""

from typing import TYPE_CHECKING

from unabridged.app.finding import Finding
from unabridged.ingest.ocr import recognise as ocr
from unabridged.ingest.ocr import tesseract

if TYPE_CHECKING:
    from unabridged.app.settings import IngestSettings, Settings

_WAY_OUT = f"{ocr.INSTALL}; `unabridged add` reads the scans that it has passed over then"


def look(settings: "Settings | None") -> Finding:
    """What reads scans and pictures here."""
    if settings is not None and settings.ingest.ocr == "off":
        return Finding(check="ocr", level="ok", text="off: scans and pictures are listed, not read")
    engines = ocr.installed()
    if not engines:
        return Finding(check="ocr", level="warn", text="nothing is installed that reads scans", remedy=_WAY_OUT)
    if "tesseract" not in engines:
        from unabridged.ingest.ocr import rapid as ocr_rapid

        text = f"{ocr_rapid.version()}: Latin, Chinese and Japanese letters"
        return Finding(check="ocr", level="ok", text=text)
    return _tesseract(settings.ingest.ocr_languages if settings else (), len(engines) > 1)


def _tesseract(wanted: tuple[str, ...], second: bool) -> Finding:
    beside = ", and RapidOCR for what it reads badly" if second else ""
    try:
        languages = tesseract.languages(wanted)
    except ocr.OcrFailed as error:
        return Finding(
            check="ocr", level="fail", text=str(error), remedy="unabridged config set ingest.ocr_languages ''"
        )
    text = f"{tesseract.version()}: {', '.join(languages)}{beside}"
    if unused := _unused(wanted):
        return Finding(
            check="ocr",
            level="warn",
            text=f"{text}; not used, since they are too many to be used together: {', '.join(unused)}",
            remedy=f"choose: {_choice(unused)}",
        )
    return Finding(check="ocr", level="ok", text=text)


def languages_note(settings: "IngestSettings") -> str:
    """After scans were read: that it was done in few of the languages that are installed; "" where it was not."""
    try:
        unused = _unused(settings.ocr_languages) if "tesseract" in ocr.installed() else []
    except ocr.OcrFailed:
        return ""  # each page has said so
    if not unused:
        return ""
    return (
        f"scans were read as {' and '.join(tesseract.languages(()))}, not as {', '.join(unused)}, which are"
        f" installed too; choose: {_choice(unused)}, then `unabridged add --force`"
    )


def _unused(wanted: tuple[str, ...]) -> list[str]:
    """Languages that are installed and not read with, though none were chosen. Raises OcrFailed."""
    used = tesseract.languages(wanted)
    return [] if wanted else [name for name in tesseract.installed() if name not in used]


def _choice(unused: list[str]) -> str:
    return f"unabridged config set ingest.ocr_languages {','.join((*tesseract.languages(()), unused[0]))}"
