"""What a drive is like that `ioassay drive learn` measured: its description with intervals, and how far it holds.

The numbers are those of `twin.inference.fit`. A drive of another kind has no description: it is called a misfit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from ioassay import units
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Say, say, sentence, templates
from ioassay.packs.ssd.twin import measurement
from ioassay.packs.ssd.twin.loads import Fit, Parameter, Reading, Residual
from ioassay.store.dataset import Dataset
from ioassay.store.run_folder import LEARN, RunStore
from ioassay.study.model import Study

HEADING = templates("twin")["heading"]
MEAN = "mean_us"
_MOST_ROWS = 12
_MOST_NEEDS = 4


@dataclass(frozen=True)
class Learned:
    """A run of `drive learn`: what was asked, what its loads gave, and what that comes to."""

    target: str
    capacity_bytes: int
    writes: bool
    readings: Sequence[Reading]
    fit: Fit


def judged(fit: Fit) -> list[Residual]:
    """The means that tell how good the twin is: of held-out loads, where there are some."""
    means = [each for each in fit.residuals if each.statistic == MEAN]
    return [each for each in means if not each.is_fitted] or means


def learned(root: Path) -> Learned | None:
    """What a run measured of a drive; None for any other run. The same object while the run's records are the same."""
    if not (root / LEARN).is_file():
        return None
    store = RunStore.open(root)
    return _learned(root, sum(store.has(trial.id) for trial in store.trials()))


@cache
def _learned(root: Path, records: int) -> Learned | None:
    from ioassay.packs.ssd.twin import inference

    store = RunStore.open(root)
    asked, found = store.asked(LEARN), measurement.readings(store)
    if asked is None or not any(each.load.stage != measurement.HOST for each in found):
        return None
    target, writes = asked["target"], bool(asked["writes"])
    fit = inference.fit(found, capacity_bytes=int(target["size"]), laid_out=writes)
    return Learned(str(target["path"]), int(target["size"]), writes, found, fit)


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """The finding of the first study of a run that learned a drive; none of others."""
    found = learned(records.root) if study.name == records.studies[0].name else None
    if found is None:
        return []
    fit, said = found.fit, [*statements(found.fit, is_laid_out=found.writes)]
    numbers: dict[str, Any] = {"misfit": fit.misfit, "options": dict(fit.options)}
    numbers |= {"parameters": [*map(asdict, fit.parameters)], "mean_error": mean_error(judged(fit))}
    numbers["loads"] = len(found.readings)
    if fit.misfit:
        return [Finding(title=HEADING, statements=said, statistics=numbers, severity="warning", leads=True)]
    tables, untold = [parameters(fit.parameters), worst(fit.residuals)], [*_untold(fit.parameters)]
    return [Finding(title=HEADING, statements=said, statistics=numbers, tables=tables, caveats=untold, leads=True)]


def mean_error(residuals: Iterable[Residual]) -> float | None:
    """Mean absolute error of the model, as a share of what was measured."""
    errors = [abs(each.modelled / each.measured - 1) for each in residuals]
    return fmean(errors) if errors else None


def statements(fit: Fit, *, is_laid_out: bool) -> Iterator[Say]:
    """How good the twin is, and how much of it the readings tell; `is_laid_out`: whether the drive was written."""
    if fit.misfit:
        yield say("twin.misfit", why=fit.misfit)
        return
    means = judged(fit)
    code = "twin.fits" if any(each.is_fitted for each in means) else "twin.holds"
    if (error := mean_error(means)) is not None:
        yield say(code, error=error, loads=len(means))
    kinds = [each.identified for each in fit.parameters]
    yield say("twin.identified", told=kinds.count("yes"), all=len(kinds), tied=kinds.count("combination"))
    if all(each.name != "command_write_us" for each in fit.parameters):
        yield say("twin.writes" if is_laid_out else "twin.read_only")


def _untold(parameters: Sequence[Parameter]) -> Iterator[Say]:
    """What the readings do not tell, by what would tell it."""
    by_need: dict[str, list[str]] = {}
    for each in parameters:
        if each.needs and each.identified != "yes":
            by_need.setdefault(each.needs, []).append(each.name)
    for need, names in list(by_need.items())[:_MOST_NEEDS]:
        yield say("twin.untold", names=names, need=need)


# Tables


def parameters(found: Sequence[Parameter]) -> Table:
    return Table.of(
        found,
        ("parameter", lambda each: each.name),
        ("value", lambda each: value_text(each, each.value)),
        ("90 % interval", _interval),
        ("identified", _identified),
        observed=True,
    )


def value_text(parameter: Parameter, value: object) -> str:
    if parameter.unit == "B" and isinstance(value, int | float):
        return units.format_size(int(value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " / ".join(value_text(parameter, each) for each in value)
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{text} {parameter.unit}".rstrip()


def _interval(parameter: Parameter) -> str:
    if parameter.low is None or parameter.high is None:
        return ""
    low, high = (value_text(parameter, each) for each in (parameter.low, parameter.high))
    return sentence("twin.interval", low=low.removesuffix(f" {parameter.unit}"), high=high)


def _identified(parameter: Parameter) -> str:
    if parameter.identified == "combination" and parameter.options:
        return sentence("twin.tied", options=parameter.options)
    return parameter.identified


def worst(residuals: Sequence[Residual]) -> Table:
    """The loads whose mean the model misses most."""
    means = (each for each in residuals if each.statistic == MEAN)
    return Table.of(
        sorted(means, key=lambda each: abs(each.modelled / each.measured - 1), reverse=True)[:_MOST_ROWS],
        ("worst loads", lambda each: each.load.name),
        ("measured (µs)", lambda each: round(each.measured, 2)),
        ("modelled (µs)", lambda each: round(each.modelled, 2)),
        ("error (%)", lambda each: round(100 * (each.modelled / each.measured - 1), 1)),
        ("fitted", lambda each: each.is_fitted),
        observed=True,
    )
