"""What every driver, target and monitor promises, whichever it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ioassay import drivers, metrics, monitors, roles, targets
from ioassay.errors import StudyError
from ioassay.monitors import COUNTER, Field
from ioassay.records import record
from ioassay.roles import Consent, Driver, Load, Monitor, Target
from ioassay.testing.made_records import outcome, trial

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
