"""Results of the Phoronix Test Suite (composite.xml) for `ioassay import`: each run of a test on a system is an entry.

Written after the suite's schema (pts-core/definitions/result-file.xsd of its repository), without a file of our own.
`RawString` has the value of each run, which become repetitions; where it is empty there is only their mean, `Value`.
Rates in bytes and times are converted to bytes/s and s, other scales keep theirs as part of the metric's name:
`score.<scale>` where more is better, `cost.<scale>` where less is. Results of several values (line graphs) are failed
trials. The facts about the systems' hardware and software are not read.
"""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

from ioassay import units
from ioassay.errors import InputError
from ioassay.formats.number_parsing import real
from ioassay.formats.result_entry import Entry, ResultFile

_HEAD_CHARS = 2**16
_BETTER = {"HIB": "score", "LIB": "cost"}
_TIMES_S = {
    **dict.fromkeys(("seconds", "sec", "s"), 1.0),
    **dict.fromkeys(("milliseconds", "ms"), 1e-3),
    **dict.fromkeys(("microseconds", "us", "µs"), 1e-6),
    **dict.fromkeys(("nanoseconds", "ns"), 1e-9),
    "minutes": 60.0,
}
_RATE = re.compile(r"([kKMGT]?i?B)/s(?:ec)?")
_LONGEST_SLUG = 60


def _entries(text: str) -> list[Entry]:
    """The runs of each result in the file's order; InputError for what is no result file."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError("declares entities, which no result file of the Phoronix Test Suite does")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"is no XML that the Phoronix Test Suite wrote: {error}") from None
    runs: dict[tuple[str, str], list[Entry]] = {}
    for result in root.iter("Result"):
        _add(result, runs)
    return [entry for found in runs.values() for entry in found]


def _add(result: ElementTree.Element, runs: dict[tuple[str, str], list[Entry]]) -> None:
    """Add a result to the runs of its test on each system. A test with several scales has one result for each."""
    title = " ".join(part for part in (_text(result, "Title"), _text(result, "AppVersion")) if part)
    test = ": ".join(part for part in (title, _text(result, "Description")) if part) or "test"
    metric, factor = _metric(_text(result, "Scale"), _text(result, "Proportion"))
    for stated in result.iter("Entry"):
        system = _text(stated, "Identifier")
        known = runs.setdefault((test, system), [])
        values, problem = _values(stated, test)
        found = [{metric: value * factor} for value in values]
        if found and len(known) == len(found) and not any(metric in one.metrics or one.problem for one in known):
            known[:] = [replace(one, metrics={**one.metrics, **new}) for one, new in zip(known, found, strict=True)]
            continue
        options = {"test": test, **({"system": system} if system else {})}
        known += [Entry(test, options=options, metrics=new, problem=problem) for new in found or [{}]]


def _values(stated: ElementTree.Element, test: str) -> tuple[list[float], str]:
    """The value of each run, or why there is none."""
    mean = _text(stated, "Value")
    if "," in mean:
        return [], f"has {mean.count(',') + 1} values of a graph; expected one"
    runs = [run for run in _text(stated, "RawString").split(":") if run] or [mean]
    if not runs[0]:
        return [], "has no value: the test failed on this system"
    return [real(run, f"the value of '{test[:60]}'") for run in runs], ""


def _metric(scale: str, proportion: str) -> tuple[str, float]:
    """The metric of a scale, and the factor that gives its unit."""
    kind = _BETTER.get(proportion.upper(), "value")
    if rate := _RATE.fullmatch(scale):
        return f"{kind}.bw", float(units.parse_size(f"1{rate[1]}"))
    if scale.lower() in _TIMES_S:
        return f"{kind}.time", _TIMES_S[scale.lower()]
    slug = re.sub(r"[^a-z0-9]+", "_", scale.lower().replace("/", " per ")).strip("_")[:_LONGEST_SLUG]
    return f"{kind}.{slug or 'number'}", 1.0


def _text(element: ElementTree.Element, name: str) -> str:
    return " ".join((element.findtext(name) or "").split())


RESULTS = ResultFile(
    "the Phoronix Test Suite's composite.xml", lambda text: "<PhoronixTestSuite>" in text[:_HEAD_CHARS], _entries
)
