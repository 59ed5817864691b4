"""Recognition of images as `doctor` sees it: which engines are there, which languages they read."""

from typing import TYPE_CHECKING

from unabridged.app.finding import Finding
from unabridged.ingest.ocr import recognise as ocr

if TYPE_CHECKING:
    from unabridged.app.settings import Settings

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
    from unabridged.ingest.ocr import tesseract as ocr_tesseract

    beside = ", and RapidOCR for what it reads badly" if second else ""
    try:
        languages = ocr_tesseract.languages(wanted)
    except ocr.OcrFailed as error:
        return Finding(
            check="ocr", level="fail", text=str(error), remedy="unabridged config set ingest.ocr_languages ''"
        )
    text = f"{ocr_tesseract.version()}: {', '.join(languages)}{beside}"
    unused = [name for name in ocr_tesseract.installed() if name not in languages]
    if unused and not wanted:
        return Finding(
            check="ocr",
            level="warn",
            text=f"{text}; not used, since they are too many to be used together: {', '.join(unused)}",
            remedy=f"choose: unabridged config set ingest.ocr_languages {','.join((*languages, unused[0]))}",
        )
    return Finding(check="ocr", level="ok", text=text)
