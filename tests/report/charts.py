"""Reads chart declarations: their layers and the rows that each draws."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
from altair.vegalite import load_schema

from ioassay.report import page
from ioassay.report.figures import Drawn


def layers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every single view, however deep, with the data that it shares with its neighbours."""
    shared = {"data": spec["data"]} if "data" in spec else {}
    parts = [part for key in ("layer", "concat", "vconcat", "hconcat") for part in spec.get(key, ())]
    for part in parts:
        yield from layers({**shared, **part})
    if not parts:
        yield spec


def mark(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mark with its options."""
    found = layer["mark"]
    return {"type": found} if isinstance(found, str) else found


def styled(spec: Mapping[str, Any], style: str) -> list[Mapping[str, Any]]:
    """The layers drawn in one of the theme's styles."""
    return [layer for layer in layers(spec) if mark(layer).get("style") == style]


def rows(layer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a layer draws."""
    return layer["data"]["values"]


def subtitle(spec: Mapping[str, Any]) -> str:
    """The subtitle on one line."""
    return " ".join(spec["title"]["subtitle"]).replace("\u00a0", " ")


def check(spec: Mapping[str, Any]) -> None:
    """That a declaration is valid by the schema of Vega-Lite: at once, where altair does it anew for each part."""
    validator = jsonschema.Draft7Validator(load_schema())
    assert not [error.message for error in validator.iter_errors(json.loads(json.dumps(spec)))]


def check_files(drawn: Drawn, folder: Path) -> None:
    """That its PNG and its SVG can be written, and that no number in them is none."""
    ((png, svg),) = page.submit([drawn], folder)()
    text = svg.read_text()
    assert png.read_bytes().startswith(b"\x89PNG") and text.startswith("<svg")
    assert "NaN" not in text and "undefined" not in text
