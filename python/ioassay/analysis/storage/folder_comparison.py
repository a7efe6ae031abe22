"""Which of two folders is faster, at what and by which factor? Of passes, test by test, with intervals.

For studies with a factor `target.path`. The first folder is what the others are set against; a factor over several
sizes is the geometric mean of theirs. Only trials that count are compared, so with twins those without the witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ioassay.analysis.measurements.passes import Pass
from ioassay.analysis.storage import timing_definitions_text as told
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.records.record import Scalar
from ioassay.stats.ratio_of_means import Ratio, average_ratio
from ioassay.stats.result import Floats, Undefined
from ioassay.study.model import Study

PATH = "target.path"


@dataclass(frozen=True)
class Factor:
    """How many times faster than the first folder another one is, at one test in one mode."""

    folder: str
    where: str
    test: str
    ratio: Ratio | Undefined

    @property
    def size(self) -> float | None:
        """The factor, None where there is none."""
        return None if isinstance(self.ratio, Undefined) else self.ratio.ratio


def compare(study: Study, counted: Sequence[Pass]) -> list[Finding]:
    """One finding where two folders have passes, else none."""
    levels = study.levels.get(PATH, ())
    present = [level for level in levels if any(one.point[PATH] == level for one in counted)]
    if len(present) < 2:
        return []
    confidence = study.analysis.confidence
    found = [factor for other in present[1:] for factor in _factors(counted, present[0], other, confidence)]
    rows = [[one.where, one.test, one.folder, one.size, *_interval(one), _faster(one, present[0])] for one in found]
    columns = ["mode", "test", "folder", f"speed against {told.folder(present[0])}", "from", "to", "faster"]
    return [
        Finding(
            study=study.name,
            question="accountings",
            response="pass.bw",
            title=f"{phrases.capital(phrases.listed([told.folder(level) for level in present]))} compared",
            statement=" ".join(_said(found, present, confidence)),
            statistics={"factors": [_numbers(one) for one in found]},
            tables=[Table(columns, rows)],
            caveats=[f"'from' and 'to' are the {phrases.level(confidence)} interval of the factor, over repetitions."],
        )
    ]


def _factors(counted: Sequence[Pass], first: Scalar, other: Scalar, confidence: float) -> list[Factor]:
    places = dict.fromkeys((_where(one), one.test) for one in counted)
    found = []
    for where, test in places:
        own = [one for one in counted if (_where(one), one.test) == (where, test)]
        sizes = dict.fromkeys(one.size for one in own)
        pairs = [(_rates(own, other, size), _rates(own, first, size)) for size in sizes]
        whole = [pair for pair in pairs if all(part.size for part in pair)]
        if whole:
            found.append(Factor(str(other), where, test, average_ratio(whole, confidence)))
    return found


def _where(one: Pass) -> str:
    rest = {name: level for name, level in one.point.items() if name != PATH}
    return told.place(rest, one.claim.direct)


def _rates(own: Sequence[Pass], folder: Scalar, size: tuple[int, int]) -> Floats:
    found = [one.claim.rate_bytes_per_s for one in own if one.point[PATH] == folder and one.size == size]
    return np.array([rate for rate in found if rate], dtype=np.float64)


def _interval(one: Factor) -> tuple[float | None, float | None]:
    if isinstance(one.ratio, Undefined):
        return None, None
    return one.ratio.interval.low, one.ratio.interval.high


def _faster(one: Factor, first: Scalar) -> str:
    """Which folder the interval calls faster; 'not known' where it has 1 within."""
    low, high = _interval(one)
    if low is None or high is None or low <= 1 <= high:
        return "not known"
    return told.folder(one.folder if low > 1 else first)


def _said(found: Sequence[Factor], present: Sequence[Scalar], confidence: float) -> list[str]:
    said, first = [], f"the {told.folder('.')}" if present[0] == "." else str(present[0])
    for other in map(str, present[1:]):
        own = sorted((one for one in found if one.folder == other and one.size), key=lambda one: one.size or 0)
        if not own:
            said.append(f"{other} cannot be compared with {first}: too few repetitions.")
            continue
        faster = sum(_faster(one, present[0]) == told.folder(other) for one in own)
        slower = sum(_faster(one, present[0]) == told.folder(present[0]) for one in own)
        ends = [f"{_named(one)} {_ratio(one)}" for one in dict.fromkeys((own[-1], own[0]))]
        said.append(
            f"{other} is faster than {first} at {faster} of {phrases.count(len(own), 'test')} and slower at "
            f"{slower}, beyond what chance would do; from {' to '.join(ends)} its speed."
        )
    return said


def _named(one: Factor) -> str:
    return f"{one.test} ({one.where})" if one.where != "all trials" else one.test


def _ratio(one: Factor) -> str:
    if isinstance(one.ratio, Undefined):
        return ""
    interval = one.ratio.interval
    low, high = phrases.plain_number(interval.low), phrases.plain_number(interval.high)
    return f"{phrases.times(one.ratio.ratio)} ({low} to {high})"


def _numbers(one: Factor) -> dict[str, object]:
    low, high = _interval(one)
    return {"folder": one.folder, "where": one.where, "test": one.test, "times": one.size, "low": low, "high": high}
