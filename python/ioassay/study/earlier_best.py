"""`workers = "best of jobs"`: a parameter that is the best level of an earlier study of the same suite.

    reference = "best of" STUDY [ "for" RESPONSE ]

Until that study has its records, the parameter has a stand-in, the first level there: it is checked and estimated with
it, and no trial runs with it. What is pending is in `model.Relative`. Which level is best is found by
`analysis.study_focus`, when `runner.best_levels` asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.errors import StudyError
from ioassay.study import machine_levels
from ioassay.study.model import Relative, Study, Suite

_REFERENCE = re.compile(r"^\s*best of (?P<study>\w[\w.-]*)(?: for (?P<response>\S+))?\s*$")


@dataclass(frozen=True)
class Reference:
    """What a parameter waits for: the best level of the factor of its own name."""

    factor: str
    study: str
    response: str
    """'' for the one that the earlier study is about."""


def references(study: Study) -> list[Reference]:
    """What the parameters of a study wait for."""
    pending = study.relative.pending if study.relative else {}
    return [_read(name, text) for name, text in pending.items()]


def follows(study: Study) -> bool:
    """Whether a parameter is, or was until it became known, the best of an earlier study."""
    written = study.relative.written.values() if study.relative else ()
    return bool(references(study)) or any(isinstance(text, str) and _REFERENCE.match(text) for text in written)


def with_stand_ins(tables: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> list[dict[str, Any]]:
    """The tables of a suite's studies with stand-ins for all references.

    StudyError names key and value of one to no earlier study, or to one without a factor of the parameter's name.
    """
    results: list[dict[str, Any]] = []
    for table, source in zip(tables, sources, strict=True):
        params = table.get("params")
        waiting = {
            name: text
            for name, text in (params.items() if isinstance(params, Mapping) else ())
            if isinstance(text, str) and _REFERENCE.match(text)
        }
        if not waiting or not isinstance(params, Mapping):
            results.append(dict(table))
            continue
        known = {
            name: _first_level(_read(name, text), text, results, table.get("name", ""), source)
            for name, text in waiting.items()
        }
        machine = machine_levels.this_machine()
        relative = {"processors": machine.processors, "memory_bytes": machine.memory_bytes, "written": {}}
        relative |= {**table.get("relative", {}), "pending": waiting}
        results.append({**table, "params": {**params, **known}, "relative": relative})
    return results


def _read(name: str, text: str) -> Reference:
    match = _REFERENCE.match(text)
    if match is None:
        raise ValueError(f"'{text}' refers to no study")
    return Reference(name, match["study"], match["response"] or "")


def _first_level(wanted: Reference, text: str, earlier: Iterable[Mapping[str, Any]], own: str, source: str) -> Any:
    key, known = f"params.{wanted.factor}", {str(table.get("name")): table for table in earlier}
    if wanted.study not in known:
        others = f"expected one of {', '.join(known)}" if known else f"'{own}' has no study before it in a suite"
        raise StudyError(f"'{text}': no earlier study of the suite has this name; {others}", source=source, key=key)
    study = known[wanted.study]
    levels = study.get("factors", {}).get(wanted.factor)
    if not isinstance(levels, list) or not levels:
        factors = ", ".join(study.get("factors", {})) or "none"
        message = f"'{text}': that study has no factor '{wanted.factor}'; its factors: {factors}"
        raise StudyError(message, source=source, key=key)
    responses = study.get("analysis", {}).get("responses", [])
    if wanted.response and responses and wanted.response not in responses:
        message = f"'{text}': that study has no such response; expected one of {', '.join(responses)}"
        raise StudyError(message, source=source, key=key)
    return levels[0]


def settled(suite: Suite, study: Study, levels: Mapping[str, Any]) -> tuple[Suite, Study]:
    """Suite and study with the levels that were found in place of the stand-ins, and what was written beside them."""
    assert study.relative is not None
    written = {f"params.{name}": text for name, text in study.relative.pending.items()}
    relative = Relative(
        processors=study.relative.processors,
        memory_bytes=study.relative.memory_bytes,
        written={**study.relative.written, **written},
    )
    found = study.model_copy(update={"params": {**study.params, **levels}, "relative": relative})
    studies = [found if one.name == study.name else one for one in suite.studies]
    return suite.model_copy(update={"studies": studies}), found
