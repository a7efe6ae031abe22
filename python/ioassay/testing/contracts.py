"""What every driver, target, monitor, analysis, figure and parser of claims promises, and what they are given."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ioassay import analysis, drivers, formats, metrics, monitors, roles, targets
from ioassay.errors import InputError, StudyError
from ioassay.monitors import COUNTER, Field
from ioassay.narrative.finding import Finding
from ioassay.records import record
from ioassay.records.record import OK, Claim, Record, Scalar
from ioassay.report import figures
from ioassay.report.figures.spec import NoData, read_spec
from ioassay.roles import Consent, Driver, Load, Monitor, Outcome, Target, Trial
from ioassay.store.dataset import Dataset
from ioassay.store.run_folder import RunStore
from ioassay.study import plan
from ioassay.study.model import Figure, Suite, make_study

GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "a line": b"error: no such engine\n",
    "half of it": b'{"fio version" : "fio-3.33", "jobs" : [ { "jobname" : "a", "read" : {',
    "an empty object": b"{}",
    "another object": b'{"jobs": [], "fio version": 3, "timestamp": null}',
    "a list": b"[1, 2, 3]",
    "no text": bytes(range(256)) * 16,
}
"""What a tool may leave when it was killed, when the disk was full, or when it is another tool."""


class DriverContract:
    """A subclass states the class of the driver, and the least that a study has to say."""

    driver: ClassVar[type[Driver]]
    params: ClassVar[Mapping[str, Any]] = {}
    """What the driver cannot do without."""
    timed: ClassVar[tuple[Mapping[str, Any], Mapping[str, Any]] | None] = None
    """Parameters of a load that runs for 8 s, and the target that it needs; None: no load runs for a time."""

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert drivers.REGISTRY.contract.breach(self.driver) == ""

    def test_it_says_what_it_needs(self) -> None:
        made = self.driver()
        assert isinstance(made.name, str) and made.name
        assert isinstance(made.measures, bool)
        tool = made.tool()
        assert tool is None or (tool.executable and tool.minimum and tool.version_argv)

    @pytest.mark.parametrize(
        "params", [{}, {"direct": None, "ioengine": 3}, {"job": "/no/such/file", "tests": {}, "metrics": 7}]
    )
    def test_it_states_facts_whatever_the_parameters_of_an_old_run_are(self, params: dict[str, object]) -> None:
        made = self.driver()
        assert isinstance(made.page_cache_remedy(params), str)
        assert not (made.deterministic and made.measures)
        assert all(metrics.known(response) for response in made.responses)
        assert list(made.declared_metrics(params)) == []

    @pytest.mark.parametrize("exit_code", [0, 1, None])
    @pytest.mark.parametrize("left", GARBAGE)
    def test_output_that_cannot_be_believed_is_a_failed_trial_with_a_reason(
        self, left: str, exit_code: int | None, tmp_path: Path
    ) -> None:
        made = self.driver()
        if made.tool() is None:
            return  # it reads no output of a tool that it knows
        one = trial(self.params, driver=made.name)
        command = made.command(one, Load("file", tmp_path / "data", 1 << 20, False), tmp_path)
        assert command is not None and command.argv and command.timeout_s > 0
        parsed = made.parse(one, outcome(tmp_path, GARBAGE[left], exit_code=exit_code), tmp_path)
        assert parsed.status == record.FAILED
        assert parsed.reason

    def test_it_names_nothing_outside_the_trial_unless_it_is_asked_to(self) -> None:
        made = self.driver()
        assert made.access(self.params) in (roles.READ, roles.WRITE, roles.NOTHING)
        assert list(made.touches(self.params)) == []

    def test_a_load_that_runs_for_a_time_can_be_shortened_and_no_other(self) -> None:
        made = self.driver()
        params, where = self.timed or (self.params, {})
        short = made.shortened(params, 0.25)
        assert (short is not None) == (self.timed is not None)
        if short is not None:
            made.validate(short, where)
            saved_s = made.estimate(params, where).seconds - made.estimate(short, where).seconds
            assert saved_s == pytest.approx(6, abs=0.1)
            assert set(short) == set(params)
            assert made.shortened(short, 0.25) is None or made.estimate(short, where).seconds >= 2


class TargetContract:
    """A subclass states the class of the target, and the least of its settings in a folder."""

    target: ClassVar[type[Target]]

    def settings(self, folder: Path) -> Mapping[str, object]:
        """What a study's `[target]` says."""
        return {"path": str(folder / "data")}

    def made(self, folder: Path, **more: object) -> Target:
        """The target of these settings."""
        made: Any = self.target
        spec = {"kind": made.kind, **self.settings(folder), **more}
        found: Target = made(spec, Consent(), root=Path("/"))
        return found

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert targets.REGISTRY.contract.breach(self.target) == ""

    def test_it_refuses_a_setting_that_it_does_not_know(self, tmp_path: Path) -> None:
        with pytest.raises(StudyError, match="no_such_setting"):
            self.made(tmp_path, no_such_setting=1)

    def test_one_that_was_only_made_has_touched_nothing(self, tmp_path: Path) -> None:
        made = self.made(tmp_path)
        made.close()
        assert list(tmp_path.iterdir()) == []

    def test_one_that_nothing_is_done_to_needs_nothing(self, tmp_path: Path) -> None:
        assert list(self.made(tmp_path).inspect(roles.NOTHING)) == []
        assert list(tmp_path.iterdir()) == []


class MonitorContract:
    """A subclass states the monitor: a module or an object with `FIELDS` and `make`."""

    monitor: ClassVar[Any]
    name: ClassVar[str]
    """What a study calls it."""
    may_fall: ClassVar[tuple[str, ...]] = ()
    """Ends of the names of counters that the kernel estimates, and that may shrink a little."""

    def made(self) -> Monitor:
        """The monitor of this machine."""
        found: Monitor = self.monitor.make(Path("/"), ())
        return found

    def field(self, name: str) -> Field | None:
        """What a value of a reading is."""
        found: Field | None = self.monitor.FIELDS.get(name.rpartition(".")[2])
        return found

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert monitors.REGISTRY.contract.breach(self.monitor) == ""

    def test_it_reads_numbers_of_fields_that_are_documented(self) -> None:
        made = self.made()
        assert made.name == self.name
        for name, value in made.read().items():
            assert self.field(name) is not None, f"{name} is not in FIELDS"
            assert math.isfinite(value)

    def test_its_counters_never_fall(self) -> None:
        made = self.made()
        before, after = made.read(), made.read()
        for name in before.keys() & after.keys():
            known = self.field(name)
            if known is not None and known.kind == COUNTER and not name.endswith(self.may_fall):
                assert after[name] >= before[name], name


class RecordsContract:
    """A subclass states a study, and what its trials measured."""

    study: ClassVar[Mapping[str, Any]]

    def measure(self, point: Mapping[str, Scalar], repetition: int) -> Mapping[str, float]:
        """The metrics of a trial."""
        raise NotImplementedError("state what the trials measured")

    def records(self, folder: Path) -> Dataset:
        """The records of these trials."""
        return records(folder, self.study, self.measure)

    def unmeasured(self, folder: Path) -> Dataset:
        """The same without a metric."""
        return records(folder, self.study, lambda point, repetition: {})


class AnalysisContract(RecordsContract):
    """A subclass states the analysis as well: a module or an object with `analyse`."""

    analysis: ClassVar[Any]

    def findings(self, data: Dataset) -> Sequence[Finding]:
        """What it finds in the only study."""
        found: Sequence[Finding] = self.analysis.analyse(data, data.studies[0])
        return found

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert analysis.REGISTRY.contract.breach(self.analysis) == ""

    def test_its_findings_have_words_and_numbers_that_can_be_stored(self, tmp_path: Path) -> None:
        found = self.findings(self.records(tmp_path))
        assert found, "it finds nothing in records that it is made for"
        for finding in found:
            assert isinstance(finding, Finding)
            assert finding.title and finding.statement.rstrip().endswith(".")
            assert max(map(len, (part.split() for part in finding.statement.split(". ")))) <= 25, "a long sentence"
            json.dumps(finding.as_dict(), allow_nan=False)

    def test_it_says_the_same_of_the_same_records(self, tmp_path: Path) -> None:
        data = self.records(tmp_path)
        assert [one.as_dict() for one in self.findings(data)] == [one.as_dict() for one in self.findings(data)]

    def test_records_without_its_metrics_are_no_error(self, tmp_path: Path) -> None:
        for finding in self.findings(self.unmeasured(tmp_path)):
            assert isinstance(finding, Finding)


class FigureContract(RecordsContract):
    """A subclass states the kind of figure as well: a module with `Spec` and `draw`, and the keys of a study."""

    figure: ClassVar[Any]
    kind: ClassVar[str]
    keys: ClassVar[Mapping[str, Any]] = {}

    def drawn(self, data: Dataset) -> dict[str, Any]:
        """The declaration of the figure, valid by the schema of Vega-Lite."""
        import altair

        stated = Figure.model_validate({"kind": self.kind, "name": "figure", **self.keys})
        spec = read_spec(self.figure.Spec, stated, "study")
        drawn = figures.drawn("study", "figure", self.kind, self.figure.draw(data, data.studies[0], spec))
        altair.Chart.from_dict(drawn.spec)
        return drawn.spec

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert figures.REGISTRY.contract.breach(self.figure) == ""

    def test_it_has_a_title_and_a_description_for_those_who_cannot_see_it(self, tmp_path: Path) -> None:
        declared = self.drawn(self.records(tmp_path))
        assert declared["title"]["text"] and declared["description"]
        json.dumps(declared)

    def test_records_without_its_metrics_give_a_reason(self, tmp_path: Path) -> None:
        with pytest.raises(NoData, match=r"\w"):
            self.drawn(self.unmeasured(tmp_path))


NOISE = ("", "\n", "0", "{}", "[1, 2", "\x00\x1b[2J", "9" * 400, "1e999 MB/s", "\ud800", "ä€ " * 50, "x\n" * 10_000)


class ClaimsContract:
    """A subclass states the parser, a module with `read` and the others, and outputs of the tool."""

    parser: ClassVar[Any]
    program: ClassVar[str]
    outputs: ClassVar[Sequence[str]]
    """Texts, each with at least one claim."""

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert formats.REGISTRY.contract.breach(self.parser) == ""
        assert self.parser.STREAM in ("stdout", "stderr")
        assert self.parser.matches(self.program) and not self.parser.matches("sh")

    def test_it_recognises_its_outputs_and_reads_claims_of_its_own(self) -> None:
        for text in self.outputs:
            assert self.parser.looks_like(text)
            claims = self.parser.read(text, [self.program])
            assert claims and all(isinstance(claim, Claim) and claim.source == self.parser.NAME for claim in claims)

    def test_damaged_output_is_read_or_refused_in_one_line(self) -> None:
        for text in self.outputs:
            for cut in range(0, len(text), max(len(text) // 50, 1)):
                for noise in NOISE:
                    self._read(text[:cut] + noise + text[cut + 1 :])

    def _read(self, text: str) -> None:
        try:
            self.parser.read(text, [self.program])
        except InputError as error:
            assert str(error) and "\n" not in str(error)


# What entries are given, made of a few numbers


def trial(
    params: Mapping[str, Any], *, driver: str = "", target: Mapping[str, Any] | None = None, repetition: int = 0
) -> Trial:
    """The first trial of a study with these parameters."""
    return Trial("0" * 16, "contract", driver, {}, params, target or {}, {}, repetition, seed=1, order=0)


def outcome(
    raw: Path, stdout: str | bytes = "", stderr: str | bytes = "", exit_code: int | None = 0, duration_s: float = 1.0
) -> Outcome:
    """A process that ended so, with its output in `raw`; one without an exit code was ended by SIGKILL."""
    for name, text in (("stdout", stdout), ("stderr", stderr)):
        (raw / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return Outcome(exit_code, 9 if exit_code is None else None, False, 0.0, duration_s, raw / "stdout", raw / "stderr")


def records(
    folder: Path, study: Mapping[str, Any], measure: Callable[[Mapping[str, Scalar], int], Mapping[str, float]]
) -> Dataset:
    """The records of a run below `folder`, as analyses and figures get them.

    `study` is what a study's file says; `measure(point, repetition)` gives the metrics of a trial.
    """
    from ioassay.store import frames

    made = make_study({"name": "study", "title": "Study", "watch": {"monitors": []}, **study}, "study")
    suite = Suite(name=made.name, title=made.title, studies=[made])
    trials = list(plan.trials(suite))
    store = RunStore.create(folder / "run", suite, {}, trials)
    for one in trials:
        store.begin(one.id)
        fields = ("id", "study", "driver", "repetition", "seed", "order")
        described = {"point": dict(one.point), **{name: getattr(one, name) for name in fields}}
        values = dict(measure(one.point, one.repetition))
        store.write(Record(described, OK, started_unix_s=float(one.order), duration_s=1.0, metrics=values))
    return frames.load(store)
