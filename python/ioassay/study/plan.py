"""From a study to its trials: points, order, seeds and ids. Runs nothing and reads nothing.

Order is shuffled in blocks: each repetition runs every point once, in an order of its own, so that drift of the
machine hits all levels alike (randomised complete block design; Montgomery, Design and Analysis of Experiments).
Twins, with the witness and without it, run one right after the other, in an order that is drawn as well. A trial that
counts system calls runs right after those of its point's first repetition, so that the machine is as it was for them.
Where hosts measure together, the trials that start at one instant are one after the other (`instant`).
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ioassay.factors import CASE, HOST, level_word, same_level
from ioassay.records.record import Scalar
from ioassay.roles import Trial
from ioassay.study.model import Run, Study, Suite
from ioassay.study.run_conditions import KEYS

PLAIN, TWIN, CALLS = "plain", "twin", "calls"
"""Kinds of trials of a point."""
Point = Mapping[str, Scalar]


def points(study: Study) -> list[dict[str, Scalar]]:
    """Every combination of the cases and the factors' levels, in the order that the study lists them."""
    cases: dict[str, list[Scalar]] = {CASE: [case["name"] for case in study.case]} if study.case else {}
    axes = {**cases, **study.factors}
    return [dict(zip(axes, levels, strict=True)) for levels in itertools.product(*axes.values())]


def trials(suite: Suite) -> Iterator[Trial]:
    """All trials of a suite in the order to run them; a generator, since there may be very many."""
    order = 0
    for study in suite.studies:
        for repetition in range(study.max_repetitions):
            for point, kind in _block(study, repetition):
                yield make_trial(study, point, repetition, order, twin=kind == TWIN, calls=kind == CALLS)
                order += 1


def known_trials(suite: Suite) -> Iterator[Trial]:
    """The same without the trials of studies that wait for the best level of an earlier one."""
    waiting = {study.name for study in suite.studies if study.relative and study.relative.pending}
    return (trial for trial in trials(suite) if trial.study not in waiting)


def count(suite: Suite) -> dict[str, int]:
    return {
        study.name: sum(
            study.max_repetitions * study.runs_per_trial + counts_calls(study, point) for point in points(study)
        )
        for study in suite.studies
    }


def counts_calls(study: Study, point: Point) -> bool:
    """Whether a point runs once more to have its system calls counted."""
    wanted = study.watch.calls
    if not isinstance(wanted, Mapping):
        return wanted
    return all(any(same_level(name, point[name], level) for level in levels) for name, levels in wanted.items())


def _block(study: Study, repetition: int) -> list[tuple[dict[str, Scalar], str]]:
    """The points of one repetition in the order to run them, each with its kind: PLAIN, TWIN or CALLS."""
    drawn = random.Random(f"{study.seed}/{study.name}/{repetition}")
    block = _groups(study)
    if study.order == "shuffled":
        drawn.shuffle(block)
    kinds: list[tuple[dict[str, Scalar], str]] = []
    for group in block:
        order = drawn.sample([PLAIN, TWIN], 2) if study.watch.twins else [PLAIN]
        kinds += [(point, kind) for kind in order for point in group]
        if repetition == 0:
            kinds += [(point, CALLS) for point in group if counts_calls(study, point)]
    return kinds


def _groups(study: Study) -> list[list[dict[str, Scalar]]]:
    """The points, those together that are measured at one instant."""
    if not study.run.together:
        return [[point] for point in points(study)]
    groups: dict[str, list[dict[str, Scalar]]] = {}
    for point in points(study):
        groups.setdefault(_without_host(point), []).append(point)
    return list(groups.values())


def instant(trial: Trial) -> str:
    """What the trials have in common that start at one instant on several hosts; '' for one that starts alone."""
    if not trial.run.get("together"):
        return ""
    return f"{trial.study} {_without_host(trial.point)} {trial.repetition} {trial.twin} {trial.calls}"


def _without_host(point: Point) -> str:
    return point_key({name: level for name, level in point.items() if name != HOST})


def make_trial(
    study: Study,
    point: Point,
    repetition: int,
    order: int,
    *,
    twin: bool = False,
    calls: bool = False,
    search: str = "",
) -> Trial:
    """One frozen trial; its id depends on its content only, and so does its seed, which a twin shares.

    `search` is what a search wants it for, which is no content.
    """
    settings = study.settings(point)
    target, run = study.target.model_dump(), _run(study.run)
    parts: dict[str, dict[str, Any]] = {"params": dict(study.params), "target": target, "run": run}
    for key, value in settings.items():
        part, dot, name = key.partition(".")
        parts[part if dot else "params"][name or key] = value
    if any(key.startswith("run.") for key in settings):
        parts["run"] = _run(Run.model_validate(run))
    seed = _digest([study.seed, study.name, dict(point), repetition])
    content: dict[str, Any] = {
        "study": study.name,
        "driver": study.driver,
        "point": dict(point),
        "repetition": repetition,
        **parts,
    }
    kind = {name: True for name, asked in (("twin", twin), ("calls", calls)) if asked}
    identity = _digest({**content, **kind, "seed": study.seed})[:16]
    return Trial(id=identity, **content, seed=int(seed[:12], 16), order=order, twin=twin, calls=calls, search=search)


def with_params(trial: Trial, params: Mapping[str, Any], search: str) -> Trial:
    """The trial with other parameters of its driver than those of its point, and an id of its own."""
    identity = _digest({"of": trial.id, "params": dict(params)})[:16]
    return replace(trial, id=identity, params=dict(params), search=search)


def _run(run: Run) -> dict[str, Any]:
    """What holds for a trial; conditions that are not asked for are not in it, so that they do not change its id."""
    said = run.model_dump(exclude={"hosts"} if run.together else {"hosts", "together"})
    return {key: value for key, value in said.items() if value is not None or key not in KEYS}


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def point_key(point: Point) -> str:
    """A point as a key of tables: equal for equal ones."""
    return json.dumps(point, sort_keys=True)


def describe(point: Point) -> str:
    return " ".join(f"{name}={level_word(level)}" for name, level in point.items()) or "(one point)"
