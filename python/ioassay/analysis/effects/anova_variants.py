"""The three analyses of variance between conditions that are usually done, side by side, each with what it counts.

Over all log samples and over each repetition's log samples the count of observations is false (`naive`); over the
repetitions it is right. The difference is shown, not hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ioassay.analysis.measurements.cells import Cells
from ioassay.analysis.measurements.log_samples import Samples, of_cell
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.anova import OneWay, Welch, one_way, welch
from ioassay.stats.result import Floats, Undefined, plain

PROPER = "over repetitions (the unit)"


def side_by_side(found: Cells, logged: Mapping[str, Samples], confidence: float) -> list[Finding]:
    """One finding where logs exist, none otherwise: the analysis over repetitions alone is `one_factor`'s."""
    runs = [of_cell(cell, logged) for cell in found.cells]
    present = [np.concatenate(group) for group in runs if group]
    everything = one_way(present) if len(present) > 1 else Undefined("fewer than two conditions have log samples")
    if isinstance(everything, Undefined):
        return []
    proper, unequal = one_way(found.groups), welch(found.groups)
    each = _each_repetition(found, logged)
    return [
        Finding(
            study=found.study,
            question="effect",
            response=found.response,
            title=f"{phrases.name(found.response)}: three analyses of variance side by side",
            statement=_statement(everything, each, proper, 1 - confidence),
            statistics={
                "risk": 1 - confidence,
                "all_samples": {"label": phrases.NAIVE_LABEL, **plain(everything)},
                "per_repetition": [
                    {"label": phrases.NAIVE_LABEL, "repetition": number, **plain(one)} for number, one in each.items()
                ],
                "repetitions": plain(proper),
                "repetitions_welch": plain(unequal),
            },
            tables=[_table(everything, each, proper, unequal)],
            caveats=[
                phrases.NAIVE_REASON,
                "An analysis of one repetition cannot know how much the next one would differ.",
            ],
        )
    ]


def _each_repetition(found: Cells, logged: Mapping[str, Samples]) -> dict[int, OneWay]:
    groups: dict[int, list[Floats]] = {}
    for cell in found.cells:
        for repetition, trial in zip(cell.repetition, cell.trials, strict=True):
            if trial in logged:
                groups.setdefault(int(repetition), []).append(logged[trial].value)
    done = {number: one_way(parts) for number, parts in sorted(groups.items())}
    return {number: one for number, one in done.items() if isinstance(one, OneWay)}


def _statement(everything: OneWay, each: Mapping[int, OneWay], proper: OneWay | Undefined, risk: float) -> str:
    claimed, n = everything.df_within, phrases.count(len(each), "repetition")
    different = sum(one.p < risk for one in each.values())
    told = (
        f"Over all log samples conditions {_verdict(everything, risk)} with {claimed} degrees of freedom (naive); "
        f"so they do in {different} of {n} taken alone (naive). "
    )
    if isinstance(proper, Undefined):
        return f"{told}Over repetitions there is no test: {proper.reason}."
    return (
        f"{told}Over repetitions, which is the analysis that counts, they {_verdict(proper, risk)} "
        f"with {proper.df_within} degrees of freedom."
    )


def _verdict(one: OneWay, risk: float) -> str:
    return f"{'differ' if one.p < risk else 'do not differ visibly'} ({phrases.p(one.p)})"


def _table(
    everything: OneWay, each: Mapping[int, OneWay], proper: OneWay | Undefined, unequal: Welch | Undefined
) -> Table:
    rows: list[Sequence[Any]] = [_row("all log samples (naive)", everything)]
    rows += [_row(f"log samples of repetition {number + 1} (naive)", one) for number, one in each.items()]
    if isinstance(proper, OneWay):
        rows.append(_row(PROPER, proper))
    if isinstance(unequal, Welch):
        df = f"{unequal.df_between}, {unequal.df_within:.1f}"
        rows.append([f"{PROPER}, Welch", None, unequal.f, df, unequal.p, None])
    return Table(["analysis", "observations", "F", "degrees of freedom", "p", "eta²"], rows)


def _row(name: str, one: OneWay) -> list[Any]:
    size = one.df_between + one.df_within + 1
    return [name, size, one.f, f"{one.df_between}, {one.df_within}", one.p, one.eta2]
