"""The best values of all sweeps of a suite in one table: level, value, plateau, law; and what was not measured.

Only of studies that are about peaks (`headline_finding.py`), and only where there are several. Computes nothing:
`optimum.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ioassay import metrics
from ioassay.analysis.measurements import missing_trials
from ioassay.analysis.optimum import headline_finding, optimum_tables, optimum_text
from ioassay.analysis.optimum.optimum import Peak
from ioassay.factors import level_text
from ioassay.narrative import phrases
from ioassay.narrative.finding import Finding, Table
from ioassay.stats.result import Interval
from ioassay.stats.scalability import USL, Law
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study

QUESTION = "peaks"
COLUMNS = ("Sweep", "Best", "It may be", "Value", "Plateau", "Scaling law")
_NONE = "–"
_LONG = 200
"""Characters of a note that are not said in every row."""


def together(records: Dataset, findings: Sequence[Finding]) -> list[Finding]:
    """One finding for a run of two studies of peaks or more."""
    studies = [study for study in records.studies if study.analysis.lead == "peak"]
    if len(studies) < 2:
        return []
    rows = [row for study in studies for row in _rows(records, study)]
    return [
        Finding(
            study="",
            question=QUESTION,
            response="",
            title="Best values and plateaus",
            statement=_statement(rows, len(studies)),
            statistics={"sweeps": rows},
            tables=[Table(COLUMNS, [_told(row) for row in rows])],
        )
    ]


def _rows(records: Dataset, study: Study) -> list[dict[str, Any]]:
    """What is in the table, a row a place; one with the reason where a study measured nothing."""
    common = {"study": study.name, "title": study.title or study.name}
    missing = missing_trials.missing(records, study)
    found = headline_finding.headline(records, study)
    if found is None:
        said = missing_trials.sentences(missing, study) or ["Nothing was measured."]
        factor = next(iter(study.levels), "")
        return [{**common, "factor": factor, "where": {}, "best": None, "not_measured": " ".join(said)}]
    whole = [one for peaks in found.peaks.values() for one in peaks]
    note = " ".join(missing_trials.sentences(missing, study))
    if len(whole) > 1 and len(note) > _LONG:
        note = "some levels were not measured, see below"  # once in its summary, not in every row
    return [{**common, "response": found.response, **_row(one), "not_measured": note} for one in whole]


def _row(one: Peak) -> dict[str, Any]:
    numbers = optimum_tables.statistics(one)
    return {
        "where": one.part.where(),
        **{name: numbers[name] for name in headline_finding.FACTS},
        "texts": {
            "best": _best(one),
            "may": _may(one),
            "value": _value(one),
            "plateau": _plateau(one),
            "law": _law(one),
        },
    }


def _best(one: Peak) -> str:
    if optimum_text.all_equal(one):
        return "all the same"
    best = optimum_tables.phrase_at(one, one.best)
    return f"none can be told (highest mean: {best})" if one.unseen else best


def _may(one: Peak) -> str:
    """The levels that may be as good: as a range of numbers, as a list of words."""
    near = optimum_tables.statistics(one)["not_worse"] or []
    bounds = optimum_tables.statistics(one)["best_interval"]
    if one.unseen or not near:
        return _NONE
    if bounds:
        low, high = (level_text(one.factor, bounds[end]) for end in ("low", "high"))
        return low if low == high else f"{low} to {high}"
    return phrases.listed([level_text(one.factor, level) for level in near], 9)


def _value(one: Peak) -> str:
    """`930 MB/s (910 to 950 MB/s)`; a unit that is a word stands once."""
    response, bounds = one.part.response, one.interval
    shown = phrases.value(response, one.mean)
    if not isinstance(bounds, Interval):
        return shown
    return f"{shown} ({phrases.span(response, bounds.low, bounds.high, metrics.format_metric)})"


def _plateau(one: Peak) -> str:
    if one.plateau is None:
        return one.no_plateau if one.numbers else _NONE
    first, last = one.plateau
    at = " (this machine's processors)" if optimum_tables.at_processors(one, first) else ""
    if last == len(one.cells) - 1:
        return f"from {optimum_tables.phrase_at(one, first)}{at}"
    return optimum_tables.span(one, first, last)


def _law(one: Peak) -> str:
    if one.law is not None:
        return _called(one.law)
    if one.growth is not None and one.plateau is not None:
        return f"up to {optimum_tables.phrase_at(one, one.plateau[0])}: {_called(one.growth)}"
    return _NONE if one.scaling is None or one.unseen else "none fits"


def _called(law: Law) -> str:
    name = "universal scalability" if law.kind == USL else "Amdahl"
    return f"{name}, {max(law.alpha, 0) * 100:.2g} % cannot run in parallel"


def _told(row: Mapping[str, Any]) -> list[Any]:
    where = phrases.levels(row["where"])
    sweep = f"{row['title']} ({where})" if where else row["title"]
    if row["best"] is None:
        return [sweep, row["not_measured"], _NONE, _NONE, _NONE, _NONE]
    texts = dict(row["texts"])
    texts["best"] += f" ({row['not_measured']})" if row["not_measured"] else ""
    return [sweep, *(texts[name] for name in ("best", "may", "value", "plateau", "law"))]


def _statement(rows: Sequence[Mapping[str, Any]], studies: int) -> str:
    measured = [row for row in rows if row["best"] is not None]
    best = sum(bool(row["best_can_be_told"]) for row in measured)
    flat = [row for row in measured if row["plateau"] is not None]
    own = [row for row in flat if row["plateau_at_processors"]]
    told = f"{phrases.count(studies, 'study').replace('studys', 'studies')}, {phrases.count(len(rows), 'sweep')}: "
    told += f"a best value can be told in {best}, a plateau in {len(flat)}"
    if own:
        told += f", of which {len(own)} {'begins' if len(own) == 1 else 'begin'} at the number of this machine's "
        told += f"processors ({own[0]['processors']})"
    empty = len(rows) - len(measured)
    return f"{told}." + (f" {phrases.count(empty, 'sweep')} could not be measured." if empty else "")
