"""Reads the findings of a study as facts and lists those that contradict each other.

Facts are outcomes and numbers of `Finding.statistics`, never sentences. Each rule names two findings that one reader
would set against each other: effect, interaction, best level, plateau, knee, law of scaling, regression, conclusion,
choice, mix, policies, loads of a database, drift, headline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from corpora import rows
from ioassay import metrics
from ioassay.analysis.descriptive import headline
from ioassay.analysis.one_factor import lower_is_better
from ioassay.narrative.finding import Finding
from ioassay.narrative.pipeline import analyse_all
from ioassay.narrative.say import statement
from ioassay.stats.contrasts import MARGIN
from ioassay.store.dataset import Dataset

Place = tuple[str, str, str, tuple[tuple[str, str], ...]]
_OUTSIDE = 1 + MARGIN + 1e-9


def contradictions(records: Dataset) -> list[str]:
    """What the findings of one run say against each other."""
    findings = analyse_all(records)
    effects, peaks = (_by_place(findings, question) for question in ("effect", "peak"))
    found: list[str] = []
    for place, effect in effects.items():
        if "outcome" not in effect:
            continue
        found += [f"{place}: {text}" for text in _of_effect(effect)]
        if peak := peaks.get(place):
            found += [f"{place}: {text}" for text in _of_peak(effect, peak, lower_is_better(place[1]))]
        if line := effect["line"]:
            found += [f"{place}: {text}" for text in _of_line(effect, line)]
    found += _of_statements(findings, effects, peaks)
    found += _of_ratios(findings, effects)
    found += _of_choices(findings, peaks)
    found += [*_of_headline(records, peaks), *_of_bounds(records)]
    found += _of_interactions(findings, effects)
    found += _of_loads(findings, effects)
    found += _of_policies(findings, peaks)
    found += _of_drift(findings)
    return found


def _by_place(findings: Sequence[Finding], question: str) -> dict[Place, Mapping[str, Any]]:
    """(study, response, factor, levels of the others) -> statistics; places that share a finding each for itself."""
    known: dict[Place, Mapping[str, Any]] = {}
    for finding in findings:
        if finding.question != question or "factor" not in finding.statistics:
            continue
        factor = str(finding.statistics["factor"])
        slices = finding.statistics.get("slices") or [{"where": finding.where, **finding.statistics}]
        for one in slices:
            known[finding.study, finding.response, factor, _where(one["where"])] = one
    return known


def _where(levels: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(level)) for name, level in levels.items()))


def _above(effect: Mapping[str, Any]) -> set[tuple[Any, Any]]:
    """The pairs (higher, lower) of levels that certainly differ."""
    apart = set()
    for pair in effect["pairs"]:
        none = 1 if pair["scale"] == "log" else 0
        if pair["interval"]["low"] > none:
            apart.add((pair["level"], pair["against"]))
        if pair["interval"]["high"] < none:
            apart.add((pair["against"], pair["level"]))
    return apart


def _of_effect(effect: Mapping[str, Any]) -> Iterator[str]:
    """An effect against its own pairs and shape."""
    apart, outcome, levels = _above(effect), effect["outcome"], effect["levels"]
    if outcome in ("difference", "no direction") and not apart:
        yield "a difference without a pair that differs"
    if outcome in ("undecided", "trend") and apart:
        yield f"{outcome}, yet {apart} differ"
    if outcome == "equivalent" and not all(pair["within_margin"] for pair in effect["pairs"]):
        yield "equivalent, yet a pair is not"
    if outcome == "undecided" and effect["shape"] not in (None, "unclear"):
        yield f"undecided, yet {effect['shape']}"
    if (effect["shape"] == "level") > (outcome == "equivalent"):
        yield f"level, yet {outcome}"
    for pair in effect["pairs"]:
        bounds = pair["interval"]
        if pair["scale"] == "log" and pair["within_margin"] and max(bounds["low"], 1 / bounds["high"]) > _OUTSIDE:
            yield "a pair is within the margin and beyond it"
        none = 1 if pair["scale"] == "log" else 0
        if (pair["p"] < 0.05) != (bounds["low"] > none or bounds["high"] < none):
            yield "p of a pair disagrees with its interval"
    back = {"up": apart, "down": {(low, high) for high, low in apart}}.get(str(effect["shape"]), set())
    if wrong := [(one, two) for one, two in back if sorted(levels).index(one) < sorted(levels).index(two)]:
        yield f"{effect['shape']}, yet the pairs {wrong} go the other way"


def _of_peak(effect: Mapping[str, Any], peak: Mapping[str, Any], lower: bool) -> Iterator[str]:
    """An effect against the best level of the same place."""
    better = {(low, high) if lower else (high, low) for high, low in _above(effect)}
    candidates, good, levels = peak["not_worse"], peak["as_good"], peak["levels"]
    if candidates is None:
        if effect["outcome"] != "not tested":
            yield "an effect is tested, yet no best level is"
        return
    beaten = {worse for _, worse in better}
    if beaten != set(levels) - set(candidates):
        yield f"worse levels differ: {beaten} of the effect, not {candidates} of the best"
    if (effect["outcome"] == "equivalent") != (peak["outcome"] in ("equivalent", "equal")):
        yield f"{effect['outcome']}, yet the best level is {peak['outcome']}"
    if effect["outcome"] == "undecided" and peak["best_can_be_told"]:
        yield "undecided, yet a best level is identified"
    if peak["best"] not in candidates:
        yield "the best level is certainly worse than another"
    for pair in effect["pairs"]:
        below = {pair["level"]: 1 / pair["interval"]["high"], pair["against"]: pair["interval"]["low"]}
        for level, factor in below.items():
            other = pair["against"] if level == pair["level"] else pair["level"]
            if pair["scale"] == "log" and factor > _OUTSIDE and (other if lower else level) in good:
                yield "a level is as good and certainly worse by more than the margin"
    yield from _of_picture(effect["shape"], peak)
    yield from _of_plateau(peak)
    yield from _of_curve(effect, peak, lower)


def _of_picture(shape: str | None, peak: Mapping[str, Any]) -> Iterator[str]:
    """A direction against the means that a figure draws over the levels."""
    means = np.asarray([mean for _, mean in sorted(zip(peak["levels"], peak["means"], strict=True))])
    if shape in ("up", "down"):
        logs = np.log(means) if shape == "up" else -np.log(means)
        if logs[-1] - logs[0] <= (np.maximum.accumulate(logs) - logs).max():
            yield f"{shape}, yet the means go back by as much: {means}"
    if shape in ("peak", "dip") and (means.argmax() if shape == "peak" else means.argmin()) in (0, means.size - 1):
        yield f"{shape}, yet the mean at an end is beyond all others: {means}"


def _of_curve(effect: Mapping[str, Any], peak: Mapping[str, Any], lower: bool) -> Iterator[str]:
    """The knee and the law of scaling against the pairs of levels."""
    levels = peak["levels"]
    rises = {(levels.index(high), levels.index(low)) for high, low in _above(effect)}
    if "x" in (peak["knee"] or {}) and not any((high < low) if lower else (high > low) for high, low in rises):
        yield "a knee, yet no level is better than one before it"
    if peak["law"] == "usl" and peak["usl"]["peak_interval"]:
        may = [levels.index(level) for level in peak["not_worse"]]
        if may[0] and peak["usl"]["peak_interval"]["high"] < levels[may[0] - 1]:
            yield "a law has its peak below levels that are certainly worse than the best"


def _of_plateau(peak: Mapping[str, Any]) -> Iterator[str]:
    levels, flat = peak["levels"], peak["plateau"]
    if flat:
        first, last = (levels.index(end) for end in flat)
        if not set(levels[first : last + 1]) <= set(peak["as_good"]):
            yield "a plateau holds a level that is not as good"
        if not first <= levels.index(peak["best"]) <= last:
            yield "the best level is not on its plateau"
        if levels.index(peak["plateau_earliest"]) > first:
            yield "a plateau begins before it can"
        if set(peak["second_peaks"]) & set(levels[first : last + 1]):
            yield "a second peak is on the plateau"
    for second in peak["second_peaks"]:
        ends = sorted((levels.index(second), levels.index(peak["best"])))
        if all(level in peak["not_worse"] for level in levels[ends[0] + 1 : ends[1]]):
            yield "a second peak has no level between it and the best that is worse"


def _of_line(effect: Mapping[str, Any], line: Mapping[str, Any]) -> Iterator[str]:
    """An effect against the regression that is shown."""
    if effect["shape"] in ("peak", "dip", "mixed") and line["outcome"] != "turns":
        yield f"{effect['shape']}, yet its line is {line['outcome']}"
    if line["outcome"] == "turns":
        return
    bounds = line["slope_interval"]
    way = "up" if bounds["low"] > 0 else "down" if bounds["high"] < 0 else ""
    if way and effect["outcome"] == "undecided":
        yield f"undecided, yet its line goes {way}"
    if way and {"up": "down", "down": "up"}[way] == effect["shape"]:
        yield f"{effect['shape']}, yet its line goes {way}"


_NO_BEST = ("equal", "equivalent", "undecided")
_WAYS = {"rises": "up", "tends_to_rise": "up", "falls": "down", "tends_to_fall": "down"}


def _of_statements(
    findings: Sequence[Finding],
    effects: Mapping[Place, Mapping[str, Any]],
    peaks: Mapping[Place, Mapping[str, Any]],
) -> Iterator[str]:
    """What is said of a factor, by its code and values, against its effect and its best level."""
    for finding in findings:
        for said in map(statement, (*finding.statements, *finding.details)):
            if not {"name", "factor"} <= said.values.keys():
                continue
            where = _where(said.values.get("place") or said.where)
            place = (finding.study, said.values["name"].metric, said.values["factor"].name, where)
            if not (effect := effects.get(place)):
                continue
            if direction := said.values.get("direction"):
                way = direction.code.removeprefix("effect.")
                vague = effect["shape"] in (None, "unclear") or effect["outcome"] == "no direction"
                if not vague if way == "undirected" else _WAYS.get(way, way) != effect["shape"]:
                    yield f"{place}: it says {said}, and the effect is {effect['shape']}"
            if said.code == "effect.untested" and effect["outcome"] != "not tested":
                yield f"{place}: untested, yet {effect['outcome']}"
            peak, level = peaks.get(place), said.values.get("level")
            if (
                peak
                and said.code == "peak.best"
                and (peak["outcome"] in _NO_BEST or said.values["best"].level != peak["best"])
            ):
                yield f"{place}: it says {said}, and the best level is {peak['outcome']}, {peak['best']}"
            if peak and said.code in ("peak.equivalent", "peak.undecided") and peak["outcome"] != said.code[5:]:
                yield f"{place}: it says {said}, and the best level is {peak['outcome']}"
            if peak and said.code.startswith("effect.levels_off") and peak["outcome"] == "saturates":
                improves = effect["shape"] == ("down" if lower_is_better(place[1]) else "up")
                if improves and level.level != peak["plateau"][0]:
                    yield f"{place}: it levels off at {level.level}, its plateau is {peak['plateau']}"


def _of_ratios(findings: Sequence[Finding], effects: Mapping[Place, Mapping[str, Any]]) -> Iterator[str]:
    """What the conclusion compares, such as a mix of sizes with a fixed one, against the same pair of the effect."""
    for finding in findings:
        for one in finding.statistics.get("ratios", ()) if finding.question == "conclude" else ():
            place = (finding.study, one["response"], one["factor"], _where(one["where"]))
            for pair in effects[place]["pairs"] if place in effects else ():
                if {pair["level"], pair["against"]} == {one["level"], one["against"]}:
                    same = pair["estimate"] if pair["level"] == one["level"] else 1 / pair["estimate"]
                    if abs(one["ratio"]["ratio"] / same - 1) > 1e-9 or abs(one["ratio"]["p"] - pair["p"]) > 1e-9:
                        yield f"{place}: {one['level']} against {one['against']} has another ratio than the effect"


def _of_choices(findings: Sequence[Finding], peaks: Mapping[Place, Mapping[str, Any]]) -> Iterator[str]:
    """The best case of each place against the best level of the factor `case`."""
    for finding in findings:
        for standing in finding.statistics["places"] if finding.question == "choice" else ():
            place = (finding.study, finding.response, "case", _where(standing["where"]))
            if not (peak := peaks.get(place)):
                continue
            may = {standing["best"], *standing["not_told_apart"]}
            known = (set(peak["not_worse"] or peak["levels"]), set(peak["as_good"] or ()))
            if (may, set(standing["as_good"])) != known:
                yield f"{place}: the choice differs from the best level of the cases"


def _of_interactions(findings: Sequence[Finding], effects: Mapping[Place, Mapping[str, Any]]) -> Iterator[str]:
    """Interactions of two factors against the ratios of levels where the other is fixed."""
    for finding in findings:
        for one in finding.statistics.get("interactions", ()) if finding.question == "effect" else ():
            none = one["interval"]["low"] <= 1 <= one["interval"]["high"]
            if none != (one["p"] >= 0.05) or (one["outcome"] == "present" and none):
                yield f"{one['factors']}: {one['outcome']}, p = {one['p']}, {one['interval']}"
            known: dict[tuple[Any, Any], list[Mapping[str, float]]] = {}
            for (study, response, factor, _), effect in effects.items():
                if (study, response, factor) == (finding.study, finding.response, one["factors"][0]):
                    for pair in effect["pairs"]:
                        known.setdefault((pair["level"], pair["against"]), []).append(pair["interval"])
            for places in known.values():
                if one["outcome"] == "absent" and any(a["low"] > _OUTSIDE * b["high"] for a in places for b in places):
                    yield f"{one['factors']} do not interact, yet ratios of levels differ by more than the margin"


def _of_loads(findings: Sequence[Finding], effects: Mapping[Place, Mapping[str, Any]]) -> Iterator[str]:
    """What a factor changes of a database's load on average against its effect in each place, and the conclusion."""
    averages = {
        (finding.study, one["response"], one["factor"]): one["ratio"]["ratio"]
        for finding in findings
        if finding.question == "conclude"
        for one in finding.statistics.get("ratios", ())
        if not one["where"]
    }
    for finding in findings:
        for one in finding.statistics.get("changes", ()) if finding.question == "database" else ():
            place = (finding.study, f"{one['load']}.ops_rate", one["factor"])
            pairs = [pair for key, effect in effects.items() if key[:3] == place for pair in effect["pairs"]]
            ratio, bounds = one["ratio"]["ratio"], one["ratio"]["interval"]
            if averages.get(place, ratio) != ratio:
                yield f"{place}: the conclusion has another average"
            if (one["outcome"] == "difference") > (bounds["low"] > 1 or bounds["high"] < 1):
                yield f"{place}: a difference whose interval holds 1"
            if pairs and one["outcome"] == "difference":
                against = "high" if ratio > 1 else "low"
                if all((pair["interval"][against] < 1) == (ratio > 1) for pair in pairs):
                    yield f"{place}: its average goes another way than every place"
            if pairs and one["outcome"] == "equivalent" and all(p["interval"]["low"] > _OUTSIDE for p in pairs):
                yield f"{place}: equal on average, and beyond the margin in every place"


def _of_policies(findings: Sequence[Finding], peaks: Mapping[Place, Mapping[str, Any]]) -> Iterator[str]:
    """The policies that no other is certainly below, against the best level of the factor."""
    for finding in findings:
        for point in finding.statistics.get("points", ()) if finding.question == "reductions" else ():
            peak = peaks.get((finding.study, finding.response, "policy", _where(point["where"])))
            if peak and not set(peak["not_worse"] or ()) <= set(point["lowest"]):
                yield f"{point['where']}: lowest {point['lowest']}, best {peak['not_worse']}"


def _of_drift(findings: Sequence[Finding]) -> Iterator[str]:
    """A drift against its own interval."""
    for finding in findings:
        for one in finding.statistics["responses"] if finding.question == "stability" else ():
            if not (measured := one.get("drift")):
                continue
            bounds, outcome = measured["interval"], measured["outcome"]
            if outcome == "drift" and bounds["low"] <= 0 <= bounds["high"]:
                yield f"{one['response']}: a drift whose interval holds 0"
            if outcome == "no drift" and max(bounds["high"], -bounds["low"]) > MARGIN:
                yield f"{one['response']}: no drift, yet its interval is wider than the margin"


def _of_bounds(records: Dataset) -> Iterator[str]:
    """Every interval that is shown: it holds its mean, and no end leaves what the quantity can be."""
    for row in headline(records, records.studies):
        low, high = metrics.metric(row.metric).bounds or (-math.inf, math.inf)
        if row.ci95 and not low <= row.ci95[0] <= row.mean * (1 + 1e-9) <= row.ci95[1] * (1 + 2e-9) <= high:
            yield f"{row.study}, {row.workload}: {row.metric} is {row.mean}, between {row.ci95}"


def _of_headline(records: Dataset, peaks: Mapping[Place, Mapping[str, Any]]) -> Iterator[str]:
    """The means of the first page against those of the best levels."""
    rows = headline(records, records.studies)
    for (study, response, factor, where), peak in peaks.items():
        for level, mean in zip(peak["levels"], peak["means"], strict=True):
            point = dict([*where, (factor, str(level))])
            shown = [
                row.mean
                for row in rows
                if (row.study, row.metric) == (study, response)
                and {name: str(one) for name, one in row.point.items()} == point
            ]
            if shown != [mean]:
                yield f"{study}, {response}, {point}: the headline has {shown}, the best level {mean}"


def simulated(lab: Any, number: int, **also: Any) -> Dataset:
    """A study of its own shape, noise, factors and direction. `also` is in each trial's row."""
    random = np.random.default_rng(number)
    noise, n = float(random.choice([0.005, 0.03, 0.1, 0.3])), int(random.integers(2, 9))
    curve = _CURVES[number % len(_CURVES)]
    case = _STUDIES[number // len(_CURVES) % len(_STUDIES)]
    lower = case["lower"] if "lower" in case else bool(random.random() < 0.3)
    responses = case.get("responses", ["read.lat.mean" if lower else "read.bw"])
    if "noiseless" in case:
        noise = float(random.choice([0.0, noise]))
    study = lab.study(responses=responses, **case["keys"])
    shifts = random.normal(0, noise, n) * (random.random() < 0.3)

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        value = curve(float(point.get("numjobs") or point.get("block_size") or point["page"]))
        for level in map(str, point.values()):
            value = value ** _POWERS.get(level, 1.0) * _TIMES.get(level, 1.0)
        values = [1e6 * value * max(1 + noise * random.standard_normal() + shifts[repetition], 0.01) for _ in responses]
        return {**dict(zip(responses, values, strict=True)), **case.get("always", {}), **also}

    records: Dataset = lab.records(lab.run(study, measure, n, seed=number))
    return records


_STUDIES = rows("contradictions", "studies")
_POWERS = {"randwrite": -0.3, "fab": 0.3}
_TIMES = {"b": 1.02, "c": 1.2, "snappy": 1.05, "epo": 0.9, "large": 4.0, "mixed": 2.0}
_CURVES: Sequence[Callable[[float], float]] = (
    lambda x: 1.0,
    lambda x: x,
    lambda x: 1 + 0.02 * x,
    lambda x: 1.5 if x > 3 else 1.0,
    lambda x: min(x, 4),
    lambda x: x / (1 + 0.3 * x),
    lambda x: x / (1 + 0.05 * (x - 1) + 0.05 * x * (x - 1)),
    lambda x: 1 + math.log2(x),
    lambda x: {2: 3.0, 6: 3.2}.get(x, 1.0),
    lambda x: 1.3 if x == 4 else 1.0,
    lambda x: 1.052 if x > 3 else 1.0,
    lambda x: 1 / x,
    lambda x: 1 + int(x) % 2,
    lambda x: {1: 1.0, 2: 2.0, 3: 0.02, 4: 3.0, 6: 4.0, 8: 5.0}.get(x, 1.0),
    lambda x: {1: 1.0, 2: 2.0, 3: 4.0, 4: 8.0, 6: 8.0, 8: 1.1}.get(x, 1.0),
    lambda x: 1.3 if x == 8 else 1.0,
)
