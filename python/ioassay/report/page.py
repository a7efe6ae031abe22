"""The page: one HTML file that holds everything it needs, and its charts as SVG and PNG files; no network is asked.

Scripts are allowed by their hashes only, so nothing that a tool printed can run, even if it got past the escaping.
Vega works without `eval` here: its expressions are interpreted (option `ast`). Files of charts are made by vl-convert,
without a browser. A chart takes about a tenth of a second, in which Python's lock is held. The PNG is made from the
SVG, so that the two cannot differ.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import json
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ioassay import atomic_file
from ioassay.pack import built_in
from ioassay.store import packed_page

if TYPE_CHECKING:
    from jinja2 import Environment

    from ioassay.report.figures import Drawn
    from ioassay.report.figures.spec import VegaLite

TEMPLATE = Path(__file__).parent / "template"
_SCRIPTS = ("reflow.js", "charts.js", "tables.js")
_NAME = "(?:bundle|script|style|part)-[0-9a-f]{32}"
_THEME = tomllib.loads((TEMPLATE / "theme.toml").read_text(encoding="utf-8"))
_LIGHT, _DARK = ({role: pair[scheme] for role, pair in _THEME["roles"].items()} for scheme in (0, 1))
_PRINT = {**_LIGHT, **_THEME["print"]}
_VERDICTS = ("slower", "differs", "faster", "changed", "same", "undecided")
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


@functools.cache
def environment() -> Environment:
    """What compiles each template once for each version of it: that takes longer than filling a small page."""
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    kept, packs = _own_folder(), TEMPLATE.parents[1] / "packs"
    return Environment(
        loader=FileSystemLoader([TEMPLATE, *(packs / name / "template" for name in built_in())]),
        bytecode_cache=FileSystemBytecodeCache(str(kept)) if kept else None,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(
    view: Mapping[str, object], bundle: str, shown: Callable[[str], str] = str, template: str = "page.html.j2"
) -> str:
    """The page's text. `bundle` is the JavaScript of vega, vega-lite and vega-embed; the rest is in `view`.

    `template` extends base.html.j2. `shown` is applied to all text but the scripts, whose hashes the page's policy has.
    """
    from markupsafe import Markup

    from ioassay.report.figures.chart import shared_rows

    script = "".join((TEMPLATE / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    parts: dict[str, str] = {}
    names = {name: f"{name}-{secrets.token_hex(16)}" for name in ("bundle", "script", "style")}  # no tool prints these

    def packed(caller: Callable[[], str]) -> Any:
        """A name in the place of what a template packs (`{% call packed() %}`)."""
        name = f"part-{secrets.token_hex(16)}"
        parts[name] = caller()
        return Markup(name)

    text = (
        environment()
        .get_template(template)
        .render(
            **view,
            # Neither holds anything but our own and the libraries' code.
            bundle=Markup(names["bundle"]),
            script=Markup(names["script"]),
            style=Markup(names["style"]),
            policy=policy(bundle, script),
            themes=data({"light": config(), "dark": config(dark=True)}),
            data=lambda declared: data(shared_rows(declared)),
            packed=packed,
        )
    )
    style = css_variables() + (TEMPLATE / "style.css").read_text(encoding="utf-8")
    code = {names["bundle"]: bundle, names["script"]: script, names["style"]: style}
    code |= {name: packed_page.packed(shown(content)) for name, content in parts.items()}
    return "".join(code.get(part) or shown(part) for part in re.split(f"({_NAME})", text))


def data(value: Any) -> Any:
    """JSON for a `<script type="application/json">`: no text in it can end the element."""
    from markupsafe import Markup

    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def policy(*scripts: str) -> str:
    """The Content Security Policy: our scripts, inline styles, pictures beside the page, and no connection at all."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


@functools.cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script.

    Assembling it takes more of a processor than the rest of a small report, so it is kept for each version of
    vl-convert.
    """
    import vl_convert

    if (folder := _own_folder()) is None:
        return _assembled()
    kept = folder / f"vega-{vl_convert.get_vega_version()}-{vl_convert.get_vega_embed_version()}.js"
    with suppress(OSError, UnicodeDecodeError):
        if _is_ours(kept.stat()):
            return kept.read_text(encoding="utf-8")
    text = _assembled()
    with suppress(OSError):
        atomic_file.write(kept, text)
    return text


def _own_folder() -> Path | None:
    """The folder of what is kept between runs (XDG Base Directory Specification), made where it is missing.

    None without a home, and where others could write into it. A relative path in the environment is to be ignored.
    """
    with suppress(OSError, RuntimeError):
        named = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = (named if named.is_absolute() else Path("~/.cache").expanduser()) / "ioassay"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _is_ours(folder.stat()) else None
    return None


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else could have written the script, which the page's policy will allow to run."""
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _assembled() -> str:
    import vl_convert

    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # The bundle's own end tag would end the script element; a comment's opening would change how it is read.
    if "</script" in text.lower() or "<!--" in text:
        raise AssertionError("the bundled JavaScript cannot stand inside a script element")
    return text


Waiting = Callable[[], Sequence[tuple[Path, Path]]]
"""Waits for figures: the paths of the PNG and the SVG of each."""
ZOOMED = "view_zoomed"
"""The name of the view that moves under a pointer."""
PNG_SCALE = 2.0
"""Twice the nominal resolution: sharp in print and on dense screens."""
_WORTH_STARTING = 16
"""So many charts take several times as long as starting vl-convert in one more process."""


def svg(spec: VegaLite) -> str:
    """The chart in the light scheme, without what only moves under a pointer.

    What is clipped for it ends on the edge of its axis: masks cost most.
    """
    import vl_convert

    still = {key: part for key, part in spec.items() if key != "params"}
    for place, one in enumerate(spec.get("layer", ()) if "params" in spec else ()):
        if one.get("name") == ZOOMED:
            x = one["encoding"]["x"]
            ending = {**x, "scale": {**x["scale"], "clamp": True}}
            unclipped = {**one, "mark": {**one["mark"], "clip": False}, "encoding": {**one["encoding"], "x": ending}}
            still["layer"] = [*spec["layer"][:place], unclipped, *spec["layer"][place + 1 :]]
    text: str = vl_convert.vegalite_to_svg(still, config=config(), allowed_base_urls=[])
    return text


def png(drawn: str) -> bytes:
    """The picture of an SVG."""
    import vl_convert

    pixels: bytes = vl_convert.svg_to_png(drawn, scale=PNG_SCALE)
    return pixels


def write_svg(spec: VegaLite, vector: Path) -> Path:
    """Write the chart as SVG; the path."""
    vector.write_text(svg(spec), encoding="utf-8")
    return vector


def write_png(vector: Path) -> Path:
    """Write the picture of an SVG beside it, which needs no interpreter; the path."""
    path = vector.with_suffix(".png")
    path.write_bytes(png(vector.read_text(encoding="utf-8")))
    return path


def submit(drawn: Sequence[Drawn], folder: Path, executors: Sequence[Executor] = ()) -> Waiting:
    """Write `<name>.svg` and `<name>.png` of each figure by the first executor, by others as well where there are many.

    What is returned waits for the paths of both, and meanwhile writes the PNGs that no executor has begun.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sharing = itertools.cycle(executors[: 1 + len(drawn) // _WORTH_STARTING] or [ThreadPoolExecutor(1)])
    turns = [(executor, folder / f"{one.name}.svg", one.spec) for executor, one in zip(sharing, drawn, strict=False)]
    vectors = [executor.submit(write_svg, spec, path) for executor, path, spec in turns]
    pictures = [executor.submit(write_png, path) for executor, path, _ in turns]

    def wait() -> list[tuple[Path, Path]]:
        written = [vector.result() for vector in vectors]
        last_first = zip(reversed(pictures), reversed(written), strict=True)
        shown = [write_png(path) if picture.cancel() else picture.result() for picture, path in last_first]
        return list(zip(reversed(shown), written, strict=True))

    return wait


def warm_up() -> None:
    """Start vl-convert's interpreter, which takes as long as writing several figures."""
    bundle()
    svg({"data": {"values": []}, "mark": "point"})
