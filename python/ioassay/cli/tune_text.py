"""What `ioassay tune` says at its end: the JSON object, and the same for people. Every number is the analysis's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ioassay.cli import closing, session
from ioassay.factors import CASE

if TYPE_CHECKING:
    from ioassay.cli.session import Published
    from ioassay.narrative.finding import Finding
    from ioassay.records.record import Warning_
    from ioassay.runner.run import Tally
    from ioassay.store.run_folder import RunStore
    from ioassay.tuning.request import Request
    from ioassay.tuning.space import Axis

_FEW = 12
"""Levels of an axis that are listed one by one."""


def _finding(published: Published) -> Finding:
    return next(finding for finding in published.findings if finding.question == "tuned")


def search_result(published: Published) -> dict[str, Any]:
    """What the search came to, as the analysis has it."""
    return dict(_finding(published).statistics)


def result(
    store: RunStore, request: Request, published: Published, found: Mapping[str, Any], warnings: Sequence[Warning_]
) -> dict[str, Any]:
    """The result as --json prints it."""
    goal = request.goal
    kept = ("ended", "trials", "best", "default", "feasible", "dropped", "confirmed", "confirmation")
    return {
        "goal": {
            "metric": goal.metric,
            "maximize": goal.maximize,
            "constraints": [constraint.text for constraint in goal.constraints],
        },
        "space": {"axes": [_axis(axis) for axis in request.axes], **found["space"]},
        **{key: found[key] for key in kept},
        "statement": _finding(published).statement,
        "use": _use(request, found) if found["confirmed"] else None,
        "history": found["history"],
        "run": str(store.root),
        "report": str(published.report.page),
        "figures": [
            {"name": figure.name, "png": str(figure.png), "svg": str(figure.svg), "problem": figure.problem}
            for figure in published.report.figures
        ],
        "warnings": session.all_warnings(published.records, warnings),
        "failures": session.failures(published.records),
        "skips": session.skips(published.records),
        "kept_files": list(published.kept),
    }


def _axis(axis: Axis) -> dict[str, Any]:
    few = len(axis.levels) <= _FEW
    ends = {"levels": list(axis.levels)} if few else {"from": axis.levels[0], "to": axis.levels[-1]}
    return {"name": axis.name, "number": len(axis.levels), **ends}


def _use(request: Request, found: Mapping[str, Any]) -> str:
    """The command that runs the study at the winner: `--factor` takes what a study varies and what it fixes alike.

    All cases run then, since no option of `run` picks one.
    """
    point = found["best"]["point"]
    named = [axis.name for axis in request.axes if axis.name != CASE]
    words = [f"--factor {shlex.quote(f'{name}={_word(point[name])}')}" for name in named]
    return " ".join(["ioassay run", request.source, *words])


def _word(level: object) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)


def say(
    store: RunStore,
    tally: Tally,
    request: Request,
    published: Published,
    found: Mapping[str, Any],
    warnings: Sequence[Warning_],
) -> None:
    """The result for people."""
    use = []
    if found["confirmed"]:
        use.append(" ".join(f"{axis.name}={_word(found['best']['point'][axis.name])}" for axis in request.axes))
        others = " (which runs the other cases too)" if any(axis.name == CASE for axis in request.axes) else ""
        use.append(f"to use it: {_use(request, found)}{others}")
    closing.say(store, tally, published, warnings, use)
