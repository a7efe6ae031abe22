"""The reference pages of the site, as Markdown: what the program's own tables say, so that no page can differ from it.

Commands come from the signatures that the command line reads, keys of studies from docs/study.schema.json, lists from
their registries, metrics from theirs, and the Python API from the names of the package. Prose stays in docs/.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ioassay
from ioassay import _core, analysis, drivers, formats, metrics, monitors, targets
from ioassay.cli import COMMANDS, OPTIONS, helptext, manual, named
from ioassay.cli.syntax import Command, Group
from ioassay.formats import result_entry
from ioassay.packs.ssd import simulator
from ioassay.registry import Registry
from ioassay.report import figures
from ioassay.simulation.options import OPTIONS as SIMULATION

SCHEMA = Path(__file__).parent.parent.parent / "docs" / "study.schema.json"
LISTS: Sequence[tuple[str, Registry, str]] = (
    ("Drivers", drivers.REGISTRY, "drivers.md"),
    ("Targets", targets.REGISTRY, "targets.md"),
    ("Monitors", monitors.REGISTRY, "monitors.md"),
    ("Questions", analysis.REGISTRY, "METHOD.md"),
    ("Figures", figures.REGISTRY, "figures.md"),
    ("Tools whose claims are read", formats.REGISTRY, "claims.md"),
    ("Results that are imported", result_entry.REGISTRY, "import.md"),
)
"""Heading, registry and document of each list that studies and options name entries of."""


def pages() -> dict[str, str]:
    """Every page by its path in the site."""
    made = {
        "commands": commands(),
        "study-keys": study_keys(),
        "lists": lists(),
        "metrics": metric_names(),
        "python-api": python_api(),
    }
    return {f"reference/{name}.md": "\n".join(lines) + "\n" for name, lines in made.items()}


def commands() -> Iterator[str]:
    """Each command with what it takes, as its help has it."""
    yield from _head(
        "Commands and options",
        "What `--help` says of each command. [The command line](../command-line.md) shows their use.",
    )
    yield from ("## ioassay", "", "    ioassay [OPTIONS] COMMAND [ARGS]...", "")
    yield from _table(("option", "meaning"), ((f"`{term}`", about) for term, about in (*OPTIONS, helptext.HELP_ROW)))
    for name in COMMANDS:
        yield from _member(f"ioassay {name}", named(name), level=2)


def _member(path: str, member: Command | Group, level: int) -> Iterator[str]:
    prose, examples = manual.parts(member.about)
    yield from (f"{'#' * level} {path}", "")
    if isinstance(member, Group):
        yield from (_text(prose), "")
        for name, each in member.members.items():
            yield from _member(f"{path} {name}", each, level + 1)
        return
    yield from (f"    {path} {helptext.usage(member)}", "", _text(prose), "")
    for heading, parameters in helptext.panels(member).items():
        if parameters:
            rows = ((f"`{''.join(helptext.term(each))}`", _text(helptext.described(each))) for each in parameters)
            yield from _table((heading.lower(), "meaning"), rows)
    for example in examples:
        yield f"    {example}"
    yield ""


def study_keys() -> Iterator[str]:
    """Each key of a study with its type, default and meaning, from the schema that editors use."""
    schema = json.loads(SCHEMA.read_text())
    yield from _head(
        "Keys of a study",
        "[Writing a study](../studies.md) is the introduction. With [study.schema.json](../study.schema.json) editors "
        "complete, check and explain the keys.",
    )
    yield from ("## Top level", "")
    yield from _keys(schema, schema["$defs"])
    for name, part in schema["$defs"].items():
        yield from (f"## {name}", "", _text(part.get("description", "")), "")
        yield from _keys(part, schema["$defs"])


def _keys(part: dict[str, Any], parts: dict[str, Any]) -> Iterator[str]:
    required = {key for rule in (part, *part.get("anyOf", ())[:1]) for key in rule.get("required", ())}
    rows = (
        (f"`{key}`", _type(rule, parts), "required" if key in required else _default(rule), _text(rule["description"]))
        for key, rule in part.get("properties", {}).items()
    )
    yield from _table(("key", "value", "default", "meaning"), rows)
    if part.get("additionalProperties") is True:
        yield from ("Other keys are those of the entry that is named.", "")


def _type(rule: dict[str, Any], parts: dict[str, Any]) -> str:
    """A rule of the schema in words; a part of it as a link to its heading."""
    if "anyOf" in rule:
        return " or ".join(_type(each, parts) for each in rule["anyOf"] if each.get("type") != "null")
    if "$ref" in rule:
        name = rule["$ref"].rpartition("/")[2].replace("#", "Top level")
        return f"[{name}](#{name.lower().replace(' ', '-')})"
    if "enum" in rule:
        return ", ".join(f"`{value}`" for value in rule["enum"])
    kinds = [rule["type"]] if isinstance(rule.get("type"), str) else rule.get("type", ["any"])
    words = " or ".join(kinds)
    if "array" in kinds:
        words = words.replace("array", f"list of: {_type(rule['items'], parts)}" if rule.get("items") else "list")
    if kinds == ["object"] and isinstance(rule.get("additionalProperties"), dict):
        return f"table of: {_type(rule['additionalProperties'], parts)}"
    bounds = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    limits = [f"{words_} {rule[bound]}" for bound, words_ in bounds.items() if bound in rule]
    return ", ".join([words.replace("object", "table"), *limits])


def _default(rule: dict[str, Any]) -> str:
    value = rule.get("default")
    return "" if value is None or value == "" else f"`{json.dumps(value)}`"


def lists() -> Iterator[str]:
    """The entries of every list, with the first sentence of each one's docstring."""
    yield from _head("Lists", "The names that studies and options may use. Plugins add to most of these lists.")
    for heading, registry, document in LISTS:
        yield from (f"## {heading}", "", f"More in [{document.removesuffix('.md')}](../{document}).", "")
        rows = ((f"`{name}`", _first_sentence(registry.load(name))) for name in registry.own)
        yield from _table(("name", "what it is"), rows)
    yield from ("## Write buffers", "", "More in [policies](../policies.md).", "")
    buffers = ((f"`{each['name']}`", _text(each["about"])) for each in simulator.policies())
    yield from _table(("name", "what it does"), buffers)
    yield from ("## Models of the served drive", "", "More in [virtual-drive](../virtual-drive.md).", "")
    models = ((f"`{name}`", _text(about)) for name, about in _core.device_models())
    yield from _table(("name", "what it does"), models)
    yield from ("## Options of a simulation", "", "More in [simulator](../simulator.md).", "")
    options = ((f"`{each.name}`", f"`{each.default}`", _text(each.about)) for each in SIMULATION)
    yield from _table(("option", "default", "meaning"), options)


def metric_names() -> Iterator[str]:
    """The metrics of most loads, and those of each driver."""
    yield from _head(
        "Metrics",
        "The unit is that of the stored number. Reports and the terminal choose a readable one. "
        "[Writing a study](../studies.md#keys) explains the names.",
    )
    yield from ("## Of most loads", "")
    yield from _metrics(metrics.metric(name) for name in metrics.USUAL)
    for name in drivers.DRIVERS:
        if own := drivers.REGISTRY.load(name)().metrics:
            yield from (f"## Of the driver {name}", "")
            yield from _metrics(own)


def _metrics(shown: Iterable[metrics.Metric]) -> Iterator[str]:
    rows = ((f"`{each.name}`", _text(each.label), each.unit, each.better) for each in shown)
    yield from _table(("metric", "meaning", "unit", "better"), rows)


def python_api() -> Iterator[str]:
    """Directives of mkdocstrings for every public name of the package."""
    yield from _head("Python API", "Every name of `import ioassay as ia`. [Python](../python.md) is the introduction.")
    for name in ioassay.__all__:
        if not name.startswith("_"):
            found = getattr(ioassay, name)
            where = found.__name__ if inspect.ismodule(found) else f"{found.__module__}.{name}"
            yield from (f"::: {where}", "")


def _head(title: str, about: str) -> tuple[str, ...]:
    return (f"# {title}", "", about, "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;' if '`' not in cell else chr(92) + '|') for cell in row)} |"
    yield ""


def _text(prose: str) -> str:
    """Prose of a help as Markdown: what it says in other characters, code spans apart, stays what it is."""
    escapes = {"*": r"\*", "<": "&lt;", "[": r"\["}
    return re.sub(r"`[^`]*`|[*<\[]", lambda found: escapes.get(found[0], found[0]), " ".join(prose.split()))


def _first_sentence(entry: object) -> str:
    return _text((inspect.getdoc(entry) or "").split("\n\n")[0])
