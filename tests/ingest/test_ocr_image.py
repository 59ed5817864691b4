"""Skew is found and undone; blank pages are told from those with ink."""

import numpy as np
import pytest
from tests.ingest.scans import drawn, gray, turned

from unabridged.ingest.ocr.image import Gray, blank, skew, straightened


@pytest.fixture(scope="module")
def page() -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
    """A page of text."""
    return drawn(dpi=100)


@pytest.mark.parametrize("degrees", [-9.0, -3.0, 1.0, 6.5])
def test_skew_is_found_and_undone(page: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]", degrees: float) -> None:
    crooked = turned(page, degrees)
    assert skew(crooked) == pytest.approx(degrees, abs=0.25)
    level = straightened(gray(crooked))
    assert abs(skew(level.array())) < 0.4
    assert (level.array() < 128).sum() == pytest.approx((crooked < 128).sum(), rel=0.02)


def test_a_level_page_stays_as_it_is(page: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]") -> None:
    image = gray(page)
    assert straightened(image) is image


def test_specks_and_dark_edges_leave_a_page_blank() -> None:
    pixels = np.full((1_000, 700), 250, np.uint8)
    pixels[:, :15] = 20
    pixels[500, 300:320] = 0
    assert blank(gray(pixels))
    assert blank(Gray(1, 1, b"\0"))


def test_a_page_of_text_is_not_blank(page: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]") -> None:
    assert not blank(gray(page))


def test_what_seems_steeper_than_any_crooked_scan_is_left(
    page: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]",
) -> None:
    assert skew(turned(page, 16.0)) == 0.0
