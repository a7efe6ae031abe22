"""Figures for a study that asks for none: responses over its factors, latencies, and the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from ioassay.factors import counts_concurrency, level_axis_numbers, takes_processors
from ioassay.metrics import DIRECTIONS, RATE, metric
from ioassay.pack import listed
from ioassay.records.record import OK, Scalar
from ioassay.report.figures import axes, latency_distributions
from ioassay.store.dataset import Dataset
from ioassay.study.model import Figure, Study

_MOST_RESPONSES = 6
PARTS = "path_costs"
_MOST_FACTORS = 2
"""What a small panel can tell apart, by place and by colour."""
_SEVERAL = 3
"""Fewer studies than this are seen by their own figures."""


def of_run(records: Dataset) -> list[Figure]:
    """Those of a suite that has none of its own: studies side by side, where three or more sweep one factor or two."""
    # Loads that run once, in a listed order, are a sequence and no sweep.
    sweeps = [study for study in records.studies if study.order != "listed" or study.until is not None]
    varied = {study.name: sum(len(levels) > 1 for levels in study.levels.values()) for study in sweeps}
    swept = [name for name, factors in varied.items() if 0 < factors <= _MOST_FACTORS]
    if len(swept) < _SEVERAL:
        return []
    some: dict[str, object] = {"studies": swept} if len(swept) < len(records.studies) else {}
    # As many as fit a screen, without a row of a single panel.
    some["columns"] = next((columns for columns in (4, 3) if len(swept) % columns != 1), 4)
    figures = [_figure("multiples", "overview", **some)]
    watched = records.samples.filter(records.samples["monitor"] == "cpu")["study"].unique().to_list()
    if len(set(watched) & set(swept)) >= _SEVERAL:
        figures.append(_figure("multiples", "overview_cpu", show="cpu", **some))
    return figures


def of_explained(records: Dataset, study: Study, own: Sequence[Figure]) -> list[Figure]:
    """Where the time went, first of all, of a study of which the witness explained operations."""
    if not study.may_explain or any(figure.kind == PARTS for figure in own):
        return []
    trials = records.trials_of(study)["trial"]
    if not any(trial in records.observations and records.observations[trial].explained for trial in trials):
        return []
    factors = {name: levels for name, levels in study.levels.items() if len(levels) > 1} or study.levels
    return [_figure(PARTS, "latency_parts", x=_along(factors))] if factors else []


def of_study(records: Dataset, study: Study) -> list[Figure]:
    """The figures that the study could have listed itself."""
    from ioassay.analysis.measurements import log_samples

    factors = {name: levels for name, levels in study.levels.items() if len(levels) > 1}
    responses = records.responses(study)[:_MOST_RESPONSES]
    if not factors:
        over_time = [_figure("order", _name(response, "order"), y=response) for response in responses]
        return [*over_time, *_of_the_machine(records, study, None)]
    of_packs: dict[str, str] = listed("figures", {})
    modules = dict.fromkeys(path.partition(":")[0] for path in of_packs.values())
    kinds = [kind for path in modules if hasattr(kind := import_module(path), "suggested")]
    figures: list[Figure] = [figure for kind in kinds for figure in kind.suggested(study)]
    figures += [*_of_load(records, study, factors), *(_response(response, factors) for response in responses)]
    known = records.hist.filter(study=study.name, kind="lat")["direction"].unique().to_list()
    shown = [direction for direction in DIRECTIONS if direction in known]
    figures += [_figure("cdf", f"{one}_lat_cdf", direction=one, latency="lat") for one in shown]
    # Latency over time of each direction, where the first trial that went well kept histograms of it.
    first = records.trials_of(study).filter(status=OK)["trial"].to_list()[:1]
    if any(log_samples.histogram_logs(records, trial) for trial in first):
        known = records.hist.filter(study=study.name, kind="clat")["direction"].unique().to_list()
        shown = [direction for direction in DIRECTIONS if direction in known]
        figures += [_figure("latency_heatmap", f"{one}_lat_over_time", direction=one) for one in shown]
    return [*figures, *_of_the_machine(records, study, _along(factors))]


def _of_load(records: Dataset, study: Study, factors: Mapping[str, Sequence[Scalar]]) -> list[Figure]:
    """Throughput against latency of each direction, where a rate or a depth is swept and latencies were recorded."""
    load = latency_distributions.load_factor(study)
    others = [name for name in factors if name != load]
    if load is None or takes_processors(load) or len(others) >= _MOST_FACTORS:
        return []
    trials = records.trials_of(study)
    color = {"color": others[0]} if others else {}
    known = [name for name in trials.columns if trials[name].null_count() < trials.height]
    return [
        _figure("throughput_latency", f"{direction}_throughput_latency", load=load, direction=direction, **color)
        for direction in DIRECTIONS
        if f"{direction}.lat.p99" in known
    ]


def _along(factors: Mapping[str, Sequence[Scalar]]) -> str:
    """The longest row of numbers, or the first factor where there is none."""
    long = [name for name, levels in factors.items() if len(levels) > 2 and level_axis_numbers(name, levels)]
    return max(long, key=lambda name: len(factors[name])) if long else next(iter(factors))


def _response(response: str, factors: Mapping[str, Sequence[Scalar]]) -> Figure:
    """A trend over a row of numbers, scaling where they count workers, bars over words; a second factor by colour."""
    x = _along(factors)
    others = [name for name in factors if name != x]
    color = {"color": others[0]} if others else {}
    name = _name(response, x)
    if len(factors[x]) < 3 or level_axis_numbers(x, factors[x]) is None:
        return _figure("bar", name, x=x, y=response, **color)
    if not others and counts_concurrency(x) and metric(response).kind == RATE:
        return _figure("scaling", name, x=x, y=response)
    log = {"log_x": True} if axes.geometric(x, factors[x]) else {}
    return _figure("trend", name, x=x, y=response, **log, **color)


def _of_the_machine(records: Dataset, study: Study, x: str | None) -> list[Figure]:
    """What the machine did, as far as it was watched: over `x`, over time, and by system call.

    A suite with small multiples shows the processors there, and no time line of each study.
    """
    watched = set(records.samples.filter(records.samples["study"] == study.name)["monitor"].unique().to_list())
    figures = []
    if x is not None and "cpu" in watched:
        figures.append(_figure("stack", f"cpu_by_{x}".replace(".", "_"), x=x, suite=False))
    if panels := [name for name in ("cpu", "disk", "net", "memory") if name in watched]:
        figures.append(_figure("timeline", "timeline", panels=panels, order="levels", repetition=0, suite=False))
    if records.calls.filter(records.calls["study"] == study.name).height:
        figures.append(_figure("calls", "calls", **({"x": x} if x in records.calls.columns else {})))
    return figures


def _name(response: str, factor: str) -> str:
    return f"{response}_by_{factor}".replace(".", "_").replace("/", "_")


def _figure(kind: str, name: str, **keys: object) -> Figure:
    return Figure.model_validate({"kind": kind, "name": name, **keys})
