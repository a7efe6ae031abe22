"""Were requests issued on time? The lateness of each condition, next to the response times, which include it.

Nothing is tested: what was late is counted, not sampled. The condition in which lateness is the largest share of the
response times is the one that is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from ioassay.analysis.measurements.cells import cells
from ioassay.narrative.finding import Finding, Table
from ioassay.narrative.say import Quantity, say, templates
from ioassay.packs.replay.driver import LATE_SHARE, LATENESS
from ioassay.stats.result import plain
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

HEADING = templates("lateness")["heading"]
CONCLUDES = False
_P99, _MAX, _LATE, _RESPONSE = f"{LATENESS}.p99", f"{LATENESS}.max", "replay.late", "total.lat.p99"


@dataclass(frozen=True)
class Lateness:
    """Means over the repetitions of a condition; times in ns."""

    condition: str
    p99_ns: float
    max_ns: float
    late_share: float
    response_p99_ns: float

    @property
    def share(self) -> float:
        return self.p99_ns / self.response_p99_ns if self.response_p99_ns else 0.0


def analyse(records: Dataset, study: Study) -> list[Finding]:
    """One finding of a study that replays traces at their times; none elsewhere."""
    means = {
        metric: {cell.label: cell.mean for cell in cells(records, study, metric).cells}
        for metric in (_P99, _MAX, _LATE, _RESPONSE)
    }
    labels = [label for label in means[_P99] if all(label in of for of in means.values())]
    rows = [Lateness(label, *(of[label] for of in means.values())) for label in labels]
    return [_finding(rows)] if rows else []


def _finding(rows: list[Lateness]) -> Finding:
    worst = max(rows, key=lambda row: row.share)
    is_late, alone = worst.share > LATE_SHARE, len(rows) == 1
    values = {"lateness": Quantity(_P99, worst.p99_ns), "share": worst.share}
    place = {
        code: "" if alone else say(f"lateness.{code}", condition=worst.condition) for code in ("place", "place_late")
    }
    table = Table.of(
        rows,
        ("condition", lambda row: row.condition),
        ("lateness, 99 %", lambda row: row.p99_ns, _P99),
        ("largest", lambda row: row.max_ns, _MAX),
        (templates("lateness")["heading_share"], lambda row: row.late_share, _LATE),
        ("total latency, 99 %", lambda row: row.response_p99_ns, _RESPONSE),
    )
    said = say("lateness.late", place=place["place_late"], **values) if is_late else None
    return Finding(
        title=str(say("lateness.title")),
        response=_P99,
        statements=[said or say("lateness.on_time", place=place["place"], **values)],
        statistics={"conditions": plain([{**vars(row), "share": row.share} for row in rows])},
        tables=[table],
        severity="warning" if is_late else "info",
        premises=[say("lateness.premise", place=place["place"], **values)],
    )
