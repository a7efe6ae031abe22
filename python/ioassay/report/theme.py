"""The colours of `template/theme.toml`: CSS variables of the page, and Vega-Lite configurations of its charts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ioassay.report.figures.spec import VegaLite

_THEME = tomllib.loads((Path(__file__).parent / "template" / "theme.toml").read_text(encoding="utf-8"))
_LIGHT, _DARK = ({role: pair[scheme] for role, pair in _THEME["roles"].items()} for scheme in (0, 1))
_PRINT = {**_LIGHT, **_THEME["print"]}
_VERDICTS = ("slower", "faster", "changed", "same", "undecided")
_OF_PAGE = ("paper", "sheet", "ink", "soft", "rule", "accent", "warn", "warn-sheet", "bad", "good", *_VERDICTS)
# Of cells: the same on both papers, so that the numbers in them can be read on both.
_CELLS = {"scheme": "viridis", "extent": [0.12, 0.97]}
_BEYOND_SCHEMA = {"legend": ("layout",), "title": ("band",)}
"""Keys that Vega knows and that the schema of Vega-Lite lacks."""


def schema_config() -> VegaLite:
    """The light scheme as far as the schema of Vega-Lite has it, by which Altair checks its charts."""
    found = config()
    for part, keys in _BEYOND_SCHEMA.items():
        found[part] = {key: value for key, value in found[part].items() if key not in keys}
    return found


def config(dark: bool = False) -> VegaLite:
    """The Vega-Lite configuration of one scheme."""
    colors, own = (_DARK, _THEME["dark"]) if dark else (_LIGHT, _THEME["light"])

    def colored(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: colored(value) for key, value in part.items()}
        return colors[part[1:]] if isinstance(part, str) and part.startswith("@") else part

    ordered = own["ordered"]
    ranges = {"category": own["category"], "ordinal": ordered, "ramp": ordered, "heatmap": _CELLS}
    return {**colored(_THEME["config"]), "view": {"stroke": None}, "range": ranges}


def css_variables() -> str:
    """The page's colours as CSS variables, `--<role>`: light, dark where the reader prefers that, and on paper."""
    light, dark, paper = (
        " ".join(f"--{role}: {color[role]};" for role in _OF_PAGE) for color in (_LIGHT, _DARK, _PRINT)
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"@media print {{ :root {{ {paper} }} }}\n"
    )
