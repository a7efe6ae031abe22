"""One answer to one question about one response: statements, numbers, tables and caveats.

All that pages, terminals and the API say of a run comes from findings, and what may not be concluded is withheld here.
`answers` has the few sentences that a command ends with and a page begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ioassay.metrics import format_metric
from ioassay.narrative import phrases
from ioassay.narrative.say import Response, Say, say, statement
from ioassay.records.record import SKIPPED, Scalar
from ioassay.stats.result import Interval, Undefined

if TYPE_CHECKING:
    from ioassay.analysis.measurements.cells import Cells, MissingConditions
    from ioassay.study.model import Study

NOTHING = "–"
"""What a table has in the place of a value."""
_Row = TypeVar("_Row")


class Column(NamedTuple):
    """A column of a table: its title, what it shows of a row, and the metric that formats it."""

    title: str
    value: Callable[[Any], Any]
    metric: str = ""


def bounds(value: Callable[[Any], Interval | Undefined | None], metric: str = "") -> list[Column]:
    """The columns `from` and `to` of an interval; empty cells where a row has none."""
    ends = [lambda row: getattr(value(row), "low", None), lambda row: getattr(value(row), "high", None)]
    return [Column(title, end, metric) for title, end in zip(("from", "to"), ends, strict=True)]


@dataclass(frozen=True)
class Table:
    """A small table: `rows` hold numbers, strings or None, one list a row, in the order of `columns`.

    `metrics[i]` names the metric that formats column i ('' for none).
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    metrics: Sequence[str] = ()
    observed: bool = False
    """Numbers that were counted or measured, from which nothing is concluded: they stay where a finding is withheld."""

    @classmethod
    def of(cls, rows: Iterable[_Row], *columns: Column | tuple[Any, ...], observed: bool = False) -> Table:
        """A row for each of `rows`, and columns as `Column` has them."""
        own = [Column(*column) for column in columns]
        cells = [[column.value(row) for column in own] for row in rows]
        return cls([column.title for column in own], cells, [column.metric for column in own], observed)

    def _repr_html_(self) -> str:
        """What a notebook shows: numbers as their metrics are written."""
        names = [*self.metrics, *[""] * (len(self.columns) - len(self.metrics))]
        head = "".join(f"<th>{escape(str(column))}</th>" for column in self.columns)
        rows = [
            "".join(f"<td>{escape(cell_text(value, name))}</td>" for value, name in zip(row, names, strict=False))
            for row in self.rows
        ]
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def cell_text(value: object, metric: str = "") -> str:
    """A value of a table: of a metric as that is written, else numbers to four digits; a dash where there is none."""
    if value is None or value != value:  # a number that does not exist
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {part}" for key, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(cell_text(part, metric) for part in value)
    if not isinstance(value, int | float):
        return str(value)
    if metric:
        return format_metric(metric, value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e9):
        return str(int(value))
    if 0 < abs(value) < 1e-4:  # such as p values
        return "< 0.0001" if value > 0 else f"{value:.2e}"
    return f"{value:.4g}"


@dataclass(frozen=True)
class Finding:
    """One answer to one question about one response of one study.

    study, question: as the pipeline asks them; response: a metric name ('' of the study as a whole);
    statements: what is said, the most telling first, for a reader without statistics (a plugin gives a text or texts);
    where: the factor levels that it is restricted to; statistics: JSON-able numbers under stable names, which nothing
    reads to decide what is shown; caveats: texts; severity: 'info', 'warning'.
    """

    study: str = ""
    question: str = ""
    response: str = ""
    title: str = ""
    statements: Sequence[Say | str] = ()
    where: Mapping[str, Scalar] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)
    tables: Sequence[Table] = ()
    caveats: Iterable[Say | str] = ()
    severity: str = "info"
    concludes: bool = False
    """It is withheld where the machine was not fit, though other answers to its question are not."""
    leads: bool = False
    """It stands before what else answers for its study."""
    details: Sequence[Say | str] = ()
    """What else is said where there is room for all."""
    omissions: Sequence[Say | str] = ()
    """What was not measured: it is said where the rest is withheld, too."""
    premises: Sequence[Say | str] = ()
    """What holds for all that is said of the run; never withheld."""
    withheld: str = ""
    """Why nothing is concluded, '' where something is."""

    def __post_init__(self) -> None:
        for name in ("statements", "details", "omissions", "premises"):
            said: Sequence[Say | str] = getattr(self, name)
            texts = [said] if isinstance(said, str) else said
            object.__setattr__(self, name, [statement(text) for text in texts if text])
        object.__setattr__(self, "caveats", [*dict.fromkeys(map(str, self.caveats))])

    @property
    def statement(self) -> str:
        return " ".join(map(str, self.statements))

    def as_dict(self) -> dict[str, Any]:
        said = {
            name: [statement(one).as_dict() for one in getattr(self, name)]
            for name in ("statements", "details", "premises")
        }
        named = {name: getattr(self, name) for name in ("study", "question", "response", "title", "statement")}
        rest = {name: getattr(self, name) for name in ("where", "statistics", "caveats", "severity", "withheld")}
        return {**named, **said, **rest, "tables": [asdict(table) for table in self.tables]}

    def _repr_html_(self) -> str:
        """What a notebook shows; all text is escaped, since names come from files."""
        caveats = "".join(f"<li>{escape(str(caveat))}</li>" for caveat in self.caveats)
        body = f"<p><strong>{escape(self.title)}</strong><br>{escape(self.statement)}</p>"
        return body + (f"<ul>{caveats}</ul>" if caveats else "") + "".join(table._repr_html_() for table in self.tables)


# What an analysis leaves out, and which conditions a study did not measure

_LONGEST = 240
"""Characters of a reason; the page has all of it among the warnings."""


def left_out(cells: Cells) -> list[Say]:
    counts = {"failed": cells.failed, "skipped": cells.skipped, "implausible": cells.implausible}
    said = [say(f"omissions.{code}", number=number) for code, number in counts.items() if number]
    groups = {"lost": cells.lost, "absent": cells.absent}
    name = Response(cells.response)
    return [*said, *(say(f"omissions.{code}", name=name, conditions=group) for code, group in groups.items() if group)]


def missing_conditions(groups: Sequence[MissingConditions]) -> list[Say]:
    """A sentence for each: `Not measured: fifo (priority 99). 3 trials were skipped (no permission).`"""
    said = []
    for group in groups:
        were, count = "was" if group.trials == 1 else "were", phrases.count(group.trials, "trial")
        reason = " ".join(group.reason.split()) or str(say("omissions.no_reason"))
        reason = (reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST].rstrip()} …").rstrip(".")
        known = {"ended": f"{were} skipped" if group.status == SKIPPED else "failed", "reason": reason}
        if group.all_conditions:
            every = {1: f"the only {count[2:]}", 2: "both trials"}.get(group.trials, f"all {count}")
            said.append(say("omissions.nothing_measured", trials=every, **known))
            continue
        points = [{group.factor: point[group.factor]} if group.factor else point for point in group.points]
        conditions = list(dict.fromkeys(map(phrases.levels, points)))  # the levels of the factor that says all
        said.append(say("omissions.not_measured", conditions=phrases.listed(conditions, 6), trials=count, **known))
    return said


# What of them answers


QUESTIONS = ("tuned", "reductions", "load", "conclude", "choice", "database", "accountings", "costs", "unclaimed")
"""Those that can answer for a study, the most telling first."""
OVERVIEWS = ("peaks", "choices")
"""Those that answer for all studies of a run, better than one after the other."""
_Part = TypeVar("_Part")


@dataclass(frozen=True)
class Answer:
    """What answers for a study; for the whole run where `study` is ''."""

    study: str
    title: str
    sentences: Sequence[str]


def answers(studies: Sequence[Study], findings: Sequence[Finding]) -> list[Answer]:
    """What answers for the run, or for each of its studies; none where nothing does."""
    titles = {study.name: study.title or study.name for study in studies}
    chosen = [[finding] for finding in findings if finding.question in OVERVIEWS]
    for study in titles if not chosen else ():
        own = [finding for finding in findings if finding.study == study]
        by_question = [[finding for finding in own if finding.question == question] for question in QUESTIONS]
        group = [finding for finding in own if finding.leads]
        group += next((found for found in by_question if found), [])
        chosen += [group] if group else []
    if chosen and all(finding.withheld for group in chosen for finding in group):
        return [Answer("", "", [str(say("conclude.nothing"))])]
    found = []
    for group in chosen:
        # The first statement of each finding, then what else they say; nothing of those that are withheld.
        known = [one for one in group if one.statements and not one.withheld] or group[:1]
        said = [[*map(str, one.statements)] for one in known]
        sentences = [*(first for first, *_ in said), *(sentence for _, *others in said for sentence in others)]
        found.append(Answer(group[0].study, titles.get(group[0].study, group[0].title), sentences))
    return found


def is_answer(finding: Finding) -> bool:
    return finding.leads or finding.question in (*QUESTIONS, *OVERVIEWS)


def premises(findings: Sequence[Finding]) -> list[str]:
    """What holds for all that is said of a run, sentences for the first line of it. They are never withheld."""
    return list(dict.fromkeys(text for one in findings for text in map(str, one.premises)))


def fitted(
    topics: Sequence[Sequence[_Part]], room: int, height: Callable[[_Part], int], rest: int = 0
) -> list[list[_Part]]:
    """The first parts of the topics, as evenly as there is room for, then the first topics; at least one part.

    `rest` is the height of what will be said of topics that are left out.
    """
    shown = [list(topic) for topic in topics]

    def taken() -> int:
        return sum(height(part) for topic in shown for part in topic) + (rest if len(shown) < len(topics) else 0)

    while taken() > room and any(len(topic) > 1 for topic in shown):
        max((topic for topic in shown if len(topic) > 1), key=lambda topic: sum(map(height, topic))).pop()
    while taken() > room and len(shown) > 1:
        shown.pop()
    return shown
