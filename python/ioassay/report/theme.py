"""All colours, in light and in dark: of the page, as CSS variables, and of its charts, as Vega-Lite configurations.

Page and charts name colours by role (`--warn`, mark styles such as `mean`), so that both schemes share everything else.
Nothing here is about any one chart. Hues are those of Okabe and Ito ("Color Universal Design", 2008), which people with
any of the common colour vision deficiencies can tell apart: darker ones on light paper where contrast asks for it (WCAG
2.1: 4.5 for text, 3 for marks), lighter ones in the dark scheme.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ioassay.report.figures.spec import VegaLite

TEXT_PX = 13
"""Of all words in a chart but its title: what a reader needs at arm's length."""
# The fonts that vl-convert has built in are metric twins of Arial, so PNG, SVG and page are laid out alike.
FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"

_ROLES = {
    "paper": ("#ffffff", "#171b21"),
    "ink": ("#1f2328", "#e6e9ed"),
    "soft": ("#57606a", "#a3adb8"),
    "grid": ("#e4e8ec", "#2b323b"),
    "line": ("#8c959f", "#6e7884"),
    "faint": ("#0072b2", "#56b4e9"),
    "fit": ("#d55e00", "#f59a5b"),
    "median": ("#1f2328", "#f2f4f7"),
    "shade": ("#009e73", "#2bc59b"),
    "sheet": ("#f6f8fa", "#1e242c"),
    "rule": ("#d8dee4", "#333c47"),
    "accent": ("#0b62a8", "#6cb6ff"),
    "warn": ("#9a4b00", "#f0b26b"),
    "warn-sheet": ("#fff4e5", "#33281a"),
    "bad": ("#b3261e", "#ff8a80"),
    "good": ("#1a7f4b", "#5ccb92"),
    # Verdicts in the hues of their marks, dark enough for words.
    "slower": ("#b04a00", "#f5874f"),
    "faster": ("#0068a3", "#56b4e9"),
    "changed": ("#9c4a7b", "#e39ac4"),
    "same": ("#007a59", "#2bc59b"),
    "undecided": ("#5c6670", "#aab4bf"),
}
"""Role -> its colour in the light and in the dark scheme."""
_LIGHT, _DARK = ({role: pair[scheme] for role, pair in _ROLES.items()} for scheme in (0, 1))
_PRINT = {**_LIGHT, "ink": "#000", "soft": "#444", "rule": "#ccc", "accent": "#003a70", "warn-sheet": "#fff"}
_VERDICTS = ("slower", "faster", "changed", "same", "undecided")
_OF_PAGE = ("paper", "sheet", "ink", "soft", "rule", "accent", "warn", "warn-sheet", "bad", "good", *_VERDICTS)
_LIGHT_CATEGORIES = ["#0072b2", "#d55e00", "#009e73", "#c46a9b", "#c27c00", "#3a97cf", "#6f4e37", "#5c6670", "#5b3fa8"]
_DARK_CATEGORIES = ["#56b4e9", "#f5874f", "#2bc59b", "#e39ac4", "#f2b632", "#a9c7ff", "#c69c7b", "#aab4bf", "#9f8cff"]
# Without the end that would vanish in the paper.
_LIGHT_ORDERED = {"scheme": "viridis", "extent": [0.0, 0.87]}
_DARK_ORDERED = {"scheme": "viridis", "extent": [0.25, 1.0]}
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
    color = _DARK if dark else _LIGHT
    ordered = _DARK_ORDERED if dark else _LIGHT_ORDERED
    category = _DARK_CATEGORIES if dark else _LIGHT_CATEGORIES
    return {
        "background": color["paper"],
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None},
        "title": {
            **_words("subtitle", color["soft"]),
            "anchor": "start",
            "band": {"opacity": 1},
            "frame": "group",
            "color": color["ink"],
            "fontSize": 15,
            "fontWeight": "bold",
            "subtitleLineHeight": 17,
            "subtitlePadding": 5,
            "offset": 12,
        },
        "axis": {
            **_words("label", color["soft"]),
            **_words("title", color["ink"]),
            "gridColor": color["grid"],
            "domainColor": color["line"],
            "tickColor": color["line"],
        },
        "axisY": {"titlePadding": 10, "domain": False, "ticks": False, "labelPadding": 6},
        "axisX": {"titlePadding": 8, "grid": False},
        "header": {**_words("label", color["ink"], "bold"), "labelAnchor": "start", "titleColor": color["soft"]},
        "legend": {
            **_words("label", color["ink"]),
            **_words("title", color["soft"]),
            "orient": "top",
            "direction": "horizontal",
            "symbolType": "circle",
            "symbolSize": 70,
            "symbolStrokeWidth": 1.6,
            "columnPadding": 14,
            "labelLimit": 220,
            "titleOrient": "left",
            "titlePadding": 10,
            "offset": 6,
            # Between legends side by side: as much as between the entries of one.
            "layout": {"top": {"margin": 14, "anchor": "start", "direction": "horizontal"}},
        },
        "mark": {"color": color["faint"]},
        "text": {"color": color["ink"], "fontSize": TEXT_PX},
        "range": {"category": category, "ordinal": ordered, "ramp": ordered, "heatmap": _CELLS},
        "style": _styles(color),
    }


def _words(part: str, color: str, weight: str = "normal") -> VegaLite:
    """The look of the words of one part."""
    return {f"{part}Color": color, f"{part}FontSize": TEXT_PX, f"{part}FontWeight": weight}


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


def _styles(color: dict[str, str]) -> VegaLite:
    return {
        # Thousands of single values, intervals and lines: screen readers hear the means.
        "repetition": {"color": color["faint"], "opacity": 0.4, "aria": False},
        "mean": {"color": color["faint"], "opacity": 1},
        "joined": {"color": color["faint"], "opacity": 0.55, "aria": False},
        "best": {"color": color["faint"], "opacity": 1},
        "deviation": {"color": color["ink"], "opacity": 0.9, "aria": False},
        "median": {"color": color["median"], "strokeWidth": 1.3, "opacity": 1},
        "fit": {"color": color["fit"], "opacity": 0.95},
        "curve": {"color": color["faint"]},
        "mark": {"color": color["faint"], "opacity": 1},
        "bar": {"color": color["faint"]},
        "dot": {"color": color["paper"], "stroke": color["ink"], "strokeWidth": 1, "opacity": 0.85, "aria": False},
        "outlier": {"color": color["fit"], "opacity": 1},
        "value": {"color": color["ink"], "fontSize": TEXT_PX},
        "cell": {"stroke": color["paper"], "strokeWidth": 1},
        "empty": {"color": color["line"], "strokeWidth": 0.8, "strokeOpacity": 0.6},
        "failed": {"color": color["fit"]},
        "on-dark": {"color": "#ffffff", "fontSize": TEXT_PX},
        "on-bright": {"color": "#000000", "fontSize": TEXT_PX},
        "note": {"color": color["soft"], "fontSize": TEXT_PX},
        "whisper": {"color": color["soft"], "fontSize": TEXT_PX},
        "band": {"opacity": 1},
        "frame": {"color": color["grid"], "fillOpacity": 0.5},
        "window": {"color": color["shade"], "fillOpacity": 0.14},
        "reference": {"color": color["line"], "opacity": 1},
    }
