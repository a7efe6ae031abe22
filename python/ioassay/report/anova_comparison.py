"""The naive analyses of variance beside the one that counts: a row for each response, from the findings.

Computes nothing: p values and counts are the findings' own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay.analysis.finding import Finding
from ioassay.report.tables import NOTHING, Cell, Shown

COLUMNS = (
    "Response",
    "Repetitions of one condition differ: log samples (naive)",
    "… corrected for their dependence",
    "Conditions differ: all log samples (naive)",
    "… log samples of each repetition (naive)",
    "… means of repetitions (this counts)",
)


def table(findings: Sequence[Finding]) -> Shown | None:
    """One study's findings; None where none compared log samples."""
    among = {one.response: one.statistics for one in findings if "naive_different" in one.statistics}
    between = {one.response: one.statistics for one in findings if "all_samples" in one.statistics}
    responses = dict.fromkeys([*among, *between])
    if not responses:
        return None
    rows = [[_name(name), *_among(among.get(name)), *_between(between.get(name))] for name in responses]
    return Shown([Cell(name, False) for name in COLUMNS], rows)


def _name(response: str) -> Cell:
    from ioassay.analysis.narrative import phrases

    return Cell(phrases.name(response), False)


def _among(found: Mapping[str, Any] | None) -> list[Cell]:
    if found is None:
        return [Cell(NOTHING, False)] * 2
    return [
        Cell(f"{found[name]} of {found['conditions']} conditions", False)
        for name in ("naive_different", "corrected_different")
    ]


def _between(found: Mapping[str, Any] | None) -> list[Cell]:
    if found is None:
        return [Cell(NOTHING, False)] * 3
    each = found["per_repetition"]
    seen = sum(one["p"] < found["risk"] for one in each)
    return [
        _test(found["all_samples"]),
        Cell(f"{seen} of {len(each)} repetitions", False),
        _test(found["repetitions"], found["repetitions_welch"]),
    ]


def _test(one: Mapping[str, Any], better: Mapping[str, Any] | None = None) -> Cell:
    """`p < 0.0001` with its F below; Welch's analysis where there is one."""
    from ioassay.analysis.narrative import phrases

    used = better if better and "f" in better else one
    if "f" not in used:
        return Cell("not tested", False, str(used.get("reason", "")))
    name = "Welch F" if used is better else "F"
    degrees = f"{used['df_between']}, {used['df_within']:.3g}"
    return Cell(phrases.p(used["p"]), False, f"{name}({degrees}) = {phrases.plain_number(used['f'])}")
