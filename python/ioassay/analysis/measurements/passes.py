"""Each pass that a tool timed, as if it were a trial of its own: its claim, and what the witness saw of it.

IOzone's tests and the driver `filesuite` time several passes in one trial, over one size of file and record or a
matrix of them. `passes` sets each claim beside its three accountings; `expanded` makes a Dataset of them, so that
analyses and figures read passes as they read trials. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ioassay.analysis import machine_conditions
from ioassay.analysis.measurements.memo import memoized
from ioassay.formats import conventions
from ioassay.records.observation import BPF, SYSCALLS, Observation, Session
from ioassay.records.record import OK, Claim, Scalar
from ioassay.store.dataset import Dataset
from ioassay.study.model import Study
from ioassay.verify import claim_groups, judge, session_times
from ioassay.verify.verdict import Verdict

if TYPE_CHECKING:
    import polars as pl

TEST, FILE_SIZE, RECORD_SIZE, ACCOUNTING = "test", "file_size", "record_size", "accounting"
CLAIM, WATCHED, SPAN = "claim", "claim, watched", "first to last call"
SUM, SESSION = "sum of call times", "open to close"
ACCOUNTINGS = (CLAIM, WATCHED, SPAN, SUM, SESSION)
"""Levels of the factor `accounting`. CLAIM is of the trials that count; where these have twins that the witness
watched, WATCHED is the claim of those, which the last three belong to."""
RATE, DIFFERENCE = "pass.bw", "pass.difference"
_PARTS = (TEST, FILE_SIZE, RECORD_SIZE)
_IDENTITY = ("study", "trial", "status", "reason", "repetition", "order", "started_unix_s", "duration_s")


@dataclass(frozen=True)
class Pass:
    """One timed pass of one trial. `seen` and `session` are None where the witness did not tell its calls apart."""

    study: str
    trial: str
    point: Mapping[str, Scalar]
    repetition: int
    order: int
    claim: Claim
    seen: session_times.Accountings | None = None
    session: Session | None = None
    silent: Sequence[Session] = ()
    """Sessions of passes that the tool made after it and does not report."""
    verdict: Verdict | None = None
    """Of the claim of this very run; whether watching changed the run is another question."""
    contended: bool = False
    """Others used the processors during its trial, so that it may have waited for one at any moment."""

    @property
    def test(self) -> str:
        """The test in words: 'random read'."""
        return test_name(self.claim)

    @property
    def size(self) -> tuple[int, int]:
        """Bytes of file and record, 0 where they are not known."""
        return self.claim.file_bytes or 0, self.claim.record_bytes or 0

    @property
    def claimed_s(self) -> float | None:
        """Length of the claimed interval."""
        return session_times.claimed_seconds(self.claim)

    def rates(self) -> dict[str, float]:
        """Bytes/s by each accounting that is known, the claim as WATCHED."""
        found = {} if self.claim.rate_bytes_per_s is None else {WATCHED: self.claim.rate_bytes_per_s}
        names = {"first_to_last": SPAN, "sum_of_calls": SUM, "open_to_close": SESSION}
        return found | ({names[name]: rate for name, rate in self.seen.rates().items()} if self.seen else {})

    @property
    def gap_s(self) -> float | None:
        """The claimed interval less the time from the first to the last call."""
        return None if self.seen is None or self.claimed_s is None else self.claimed_s - self.seen.first_to_last_s

    def differences(self) -> dict[str, float]:
        """How far each accounting lies from the claim, as a share of it."""
        rates = self.rates()
        claimed = rates.pop(WATCHED, 0.0)
        return {name: rate / claimed - 1 for name, rate in rates.items()} if claimed > 0 else {}


def test_name(claim: Claim) -> str:
    """'random read' for 'random-read' and 'random_read'; the kind where the tool has no name for it."""
    return (claim.test or claim.kind).replace("-", " ").replace("_", " ")


def is_about(records: Dataset, study: Study) -> bool:
    """Whether the study's trials claim passes of a tool that opens its file for each."""
    own = set(records.trials_of(study)["trial"].to_list())
    return any(_of_passes(records.claims[trial]) for trial in records.claims if trial in own)


def _of_passes(claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in claims if conventions(claim.source).passes and claim.test]


@memoized
def counted(records: Dataset, study: Study) -> tuple[Pass, ...]:
    """The passes of the trials that count; with twins these ran without the witness."""
    return tuple(_passes(records, study, records.trials_of(study)))


@memoized
def witnessed_passes(records: Dataset, study: Study) -> tuple[Pass, ...]:
    """The passes that the witness watched; those of `counted` where the study has no twins."""
    traced = _traced(records, study)
    return counted(records, study) if traced is None else tuple(_passes(records, study, traced))


def _traced(records: Dataset, study: Study) -> pl.DataFrame | None:
    import polars as pl

    if records.traced is None or not study.watch.twins:
        return None
    return records.traced.filter(pl.col("study") == study.name).sort("order")


def _passes(records: Dataset, study: Study, trials: pl.DataFrame) -> Iterator[Pass]:
    design = study.design
    for row in trials.iter_rows(named=True):
        claims = _of_passes(records.claims.get(row["trial"], ())) if row["status"] == OK else []
        point = design.point(row)
        busy = machine_conditions.contended(records.environments.get(row["trial"]))
        bare = [
            Pass(row["study"], row["trial"], point, row["repetition"], row["order"], claim, contended=busy)
            for claim in claims
        ]
        seen = records.observations.get(row["trial"])
        yield from _seen(bare, seen) if seen is not None else bare


def _seen(passes: Sequence[Pass], observation: Observation) -> Iterator[Pass]:
    """Each pass with its session; unchanged where calls were not told apart, or not timed (strace slows them down)."""
    if SYSCALLS not in observation.layers or observation.backend != BPF:
        yield from passes
        return
    claims = [one.claim for one in passes]
    groups = {group.places[0]: group for group in claim_groups.groups(claims, observation) if group.one_pass}
    ordered = sorted(observation.sessions, key=lambda one: one.opened_ns)
    verdicts = judge.judge(claims, observation, contended=any(one.contended for one in passes))
    for place, (one, verdict) in enumerate(zip(passes, verdicts, strict=True)):
        group = groups.get(place)
        found = session_times.of_group(group) if group else None
        if group is None or found is None:
            yield replace(one, verdict=verdict)
            continue
        session = group.sessions[0]
        silent = _silent(one.claim, session, ordered)
        yield replace(one, seen=found, session=session, silent=silent, verdict=verdict)


def _silent(claim: Claim, session: Session, ordered: Sequence[Session]) -> list[Session]:
    """The next sessions of the same file, as many as the tool has silent passes."""
    if not claim.silent_passes:
        return []
    later = (one for one in ordered if one.file == session.file and one.opened_ns > session.opened_ns)
    moved = [one for one in later if claim_groups.calls_of(one, claim.kind).calls]
    return moved[: claim.silent_passes]


# As a Dataset


@dataclass(frozen=True)
class Expanded:
    """The passes as trials of a study that has the factors test, file_size, record_size and accounting as well."""

    records: Dataset
    study: Study


@memoized
def expanded(records: Dataset, study: Study) -> Expanded | None:
    """One row a pass and accounting, with the metrics `pass.bw` and `pass.difference`; None where nothing claims any.

    Trials that failed or were skipped have a row for each pass that other trials have, with their reason.
    """
    import polars as pl

    rows = [*_rows(records, study)]
    if not rows:
        return None
    factors = study.levels
    levels = {name: list(dict.fromkeys(row[name] for row in rows)) for name in (*_PARTS, ACCOUNTING)}
    levels[ACCOUNTING] = [one for one in ACCOUNTINGS if one in levels[ACCOUNTING]]
    for name in (FILE_SIZE, RECORD_SIZE):
        levels[name] = sorted(levels[name])
    rows += _lost_rows(records, study, rows)
    columns = dict.fromkeys(name for row in rows for name in row)
    trials = pl.DataFrame([_column(name, [row.get(name) for row in rows]) for name in columns])
    more = {name: found for name, found in levels.items() if name not in factors}
    own = study.model_copy(update={"factors": {**study.factors, **more}})
    return Expanded(replace(records, studies=[own], trials=trials, traced=None), own)


def _column(name: str, values: Sequence[Any]) -> pl.Series:
    """Numbers where all are numbers, else text, as in the frame of trials."""
    import polars as pl

    present = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return pl.Series(name, values, strict=False)
    texts = [str(value).lower() if isinstance(value, bool) else value for value in values]
    return pl.Series(name, [None if value is None else str(value) for value in texts], pl.String())


def _row(one: Pass, level: str) -> dict[str, Any]:
    identity = (one.study, one.trial, OK, "", one.repetition, one.order, 0.0, one.claimed_s or 0.0)
    parts = dict(zip(_PARTS, (one.test, *one.size), strict=True))
    return {**dict(zip(_IDENTITY, identity, strict=True)), **parts, **one.point, ACCOUNTING: level}


def _rows(records: Dataset, study: Study) -> Iterator[dict[str, Any]]:
    """The claims of the trials that count, and the accountings of those that the witness watched."""
    for one in counted(records, study):
        if one.claim.rate_bytes_per_s is not None:
            yield {**_row(one, CLAIM), RATE: one.claim.rate_bytes_per_s}
    twins = _traced(records, study) is not None
    for one in witnessed_passes(records, study):
        differences = one.differences()
        for name, rate in one.rates().items():
            if name != WATCHED or twins:
                share = differences.get(name)
                yield {**_row(one, name), RATE: rate, DIFFERENCE: None if share is None else 100 * share}


def _lost_rows(records: Dataset, study: Study, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Trials without a pass, once for each pass that others have."""
    parts = {tuple(row[name] for name in _PARTS): None for row in rows}
    for trial in records.trials_of(study).iter_rows(named=True):
        if trial["status"] == OK:
            continue
        kept = {name: trial.get(name) for name in (*_IDENTITY, *study.levels)}
        for part in parts:
            yield {**dict(zip(_PARTS, part, strict=True)), **kept, ACCOUNTING: CLAIM}
