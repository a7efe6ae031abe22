"""One file a question; each turns records into answers: numbers and outcomes. Draws nothing and starts nothing.

`ANALYSES` has the questions of the core and of the packs: question -> module, whose `analyse(records, study)` returns
answers, or findings in its own words where the core has none for it. `OVERALL` lists the
questions to all studies at once. `narrative.pipeline` asks all.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import import_module
from typing import TYPE_CHECKING, Any, Required, TypedDict, cast

from ioassay.pack import files, listed
from ioassay.registry import Contract, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ioassay.records.record import Scalar
    from ioassay.study.model import Study

ANALYSES: dict[str, str] = listed(
    "analyses",
    {
        "load": "ioassay.analysis.load_saturation",
        "conclude": "ioassay.analysis.conclusion",
        "choice": "ioassay.analysis.alternatives",
        "costs": "ioassay.analysis.latency_shares",
        "conditions": "ioassay.analysis.machine_conditions",
        "verdict": "ioassay.analysis.claim_verdicts",
        "describe": "ioassay.analysis.descriptive",
        "stability": "ioassay.analysis.stability",
        "effect": "ioassay.analysis.factor_effects",
        "peak": "ioassay.analysis.optimum",
        "calls": "ioassay.analysis.system_calls",
        "caveats": "ioassay.analysis.threats",
    },
)
"""In report order: the conclusion first, threats to validity last."""

MERGED: dict[str, str] = listed(
    "merged", {"regression": "effect", "latency": "describe", "ablation": "reductions", "hits": "reductions"}
)
"""Former names of questions, which studies may still use: name -> the question that has its answers now."""

PATHS: dict[str, str] = listed("paths", {})
"""Kind of target -> the module that says where a request's time goes on the way to it: `analyse` as of a question,
`premise` (the code of what its cases have in common), and `NAMES` and `bars` for a figure."""

CASES: dict[str, str] = listed("cases", {})
"""What cases differ in -> the module that says what that comes to: its `parts` are of `conclusion.CasePart`."""

REGISTRY = Registry("analyses", "question", ANALYSES, Contract("analyse"))

OVERALL: dict[str, str] = {
    "peaks": "ioassay.analysis.conclusion",
    "choices": "ioassay.analysis.alternatives",
    "unclaimed": "ioassay.analysis.claim_verdicts",
}
"""Questions to all studies of a run together: name -> module, whose `together(records)` returns the answers. Their
findings belong to no study (`study` is '') and stand at the top of the page."""


def path_of(study: Study) -> Any:
    """The module of the way to the target of a study; None where no pack says anything of it."""
    return import_module(PATHS[study.target.kind]) if study.target.kind in PATHS else None


def questions_of(study: Study) -> list[str]:
    """The questions that a study names, by their present names."""
    return list(dict.fromkeys(MERGED.get(question, question) for question in study.analysis.questions))


class PublishedPath(TypedDict, total=False):
    """Requests a second and mean completion latency of an access path; `words` for a number that was not published."""

    case: Required[str]
    where: Required[dict[str, Scalar]]
    iops: float | None
    clat_mean_ns: float | None
    words: str


class Published(TypedDict, total=False):
    """What one source published of some studies, and how to read it: of a database's loads operations a second."""

    studies: Required[list[str]]
    source: Required[str]
    reading: Required[list[str]]
    loads: dict[str, float]
    path: list[PublishedPath]


@functools.cache
def published(kind: str, *studies: str) -> Published | None:
    """What stands next to a study's own numbers: of this kind ("loads", "path"), of any of the studies."""
    read = (tomllib.loads(file.read_text("utf-8")) for _, file in sorted(files("published").items()))
    tables = cast("Iterator[Published]", read)
    return next((one for one in tables if kind in one and set(studies) & set(one["studies"])), None)
