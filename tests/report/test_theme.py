"""Colours by WCAG 2.1: text has a contrast of 4.5 (level AA), marks of 3, on every paper they stand on."""

from __future__ import annotations

import itertools

import pytest

from ioassay.report import page

TEXT, GRAPHICS = 4.5, 3.0
SCHEMES = {"light": page._LIGHT, "dark": page._DARK}
CATEGORIES = {"light": page._THEME["light"]["category"], "dark": page._THEME["dark"]["category"]}
ROLES = [("paper", role) for role in ("ink", "soft", "accent", "warn", "bad", "good", *page._VERDICTS)]
ROLES += [("sheet", role) for role in ("ink", "soft", "accent")]
ROLES += [("warn-sheet", role) for role in ("ink", "soft", "accent", "warn")]


def luminance(color: str) -> float:
    """Relative luminance of `#rrggbb`."""
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize(("scheme", "pair"), list(itertools.product(SCHEMES, ROLES)), ids=str)
def test_text_can_be_read(scheme: str, pair: tuple[str, str]) -> None:
    paper, ink = (SCHEMES[scheme][role] for role in pair)
    assert contrast(paper, ink) >= TEXT


@pytest.mark.parametrize("scheme", SCHEMES)
def test_marks_are_seen(scheme: str) -> None:
    colors = SCHEMES[scheme]
    for color in CATEGORIES[scheme]:
        assert contrast(color, colors["paper"]) >= GRAPHICS, color
    for role in ("faint", "fit", "median", "line"):
        assert contrast(colors[role], colors["paper"]) >= GRAPHICS, role
