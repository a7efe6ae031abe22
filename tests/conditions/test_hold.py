"""Conditions on real processes: taken over by the child, read back, enforced, refused, and gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.corpora import cases
from tests.patience import PATIENCE_S, until

from ioassay import units
from ioassay.cli.doctor import doctor
from ioassay.errors import ConditionError, ToolError
from ioassay.host import cgroup, settings
from ioassay.process import process_table, supervisor
from ioassay.roles import Outcome
from ioassay.runner import conditions
from ioassay.runner.conditions import Conditions, Hold

from .conftest import HOG, allowed_here, members

ALLOWED = sorted(os.sched_getaffinity(0))
SEEN = (
    "import json, os, subprocess, sys; "
    "policy = [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority]; "
    "mine = [*policy, sorted(os.sched_getaffinity(0)), os.nice(0)]; "
    "print(json.dumps(mine), flush=True); "
    "sys.argv[1:] and subprocess.run([sys.executable, '-c', sys.argv[1]])"
)
several = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two processors")


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    yield
    assert os.sched_getaffinity(0) == before
    assert mine() == []


def mine(pid: int | None = None) -> list[Path]:
    """Groups that a process made and has not removed."""
    found = ((folder, name) for folder, below, _ in os.walk("/sys/fs/cgroup") for name in below)  # others go meanwhile
    return sorted(Path(folder, name) for folder, name in found if name.startswith(f"ioassay-{pid or os.getpid()}-"))


def run(tmp_path: Path, wanted: Conditions, *argv: str) -> tuple[Outcome, Hold]:
    with Hold(wanted, tag="", timeout_s=PATIENCE_S) as hold:
        files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
        outcome = supervisor.run(argv, **files, timeout_s=PATIENCE_S, on_held=hold.apply, on_ended=hold.ended)
    return outcome, hold


def codes(hold: Hold) -> list[str]:
    return [warning.code for warning in hold.warnings]


@pytest.mark.root
@several
@pytest.mark.parametrize(
    ("scheduler", "number", "priority"),
    [("fifo:3", os.SCHED_FIFO, 3), ("rr:1", os.SCHED_RR, 1), ("batch", os.SCHED_BATCH, 0), ("idle", os.SCHED_IDLE, 0)],
)
def test_the_child_and_its_children_run_under_the_policy(
    tmp_path: Path, scheduler: str, number: int, priority: int
) -> None:
    wanted = allowed_here(scheduler=scheduler, affinity=str(ALLOWED[-1]), nice=7)
    outcome, hold = run(tmp_path, wanted, sys.executable, "-c", SEEN, SEEN)
    assert outcome.exit_code == 0
    seen = [json.loads(line) for line in outcome.stdout.read_text().splitlines()]
    assert seen == [[number, priority, ALLOWED[-1:], 7]] * 2
    assert hold.took_effect == {"scheduler": scheduler, "affinity": str(ALLOWED[-1]), "nice": 7}
    assert hold.warnings == []


def test_nothing_is_touched_where_nothing_is_asked_for(tmp_path: Path) -> None:
    outcome, hold = run(tmp_path, Conditions(), sys.executable, "-c", SEEN)
    assert json.loads(outcome.stdout.read_text()) == [os.SCHED_OTHER, 0, ALLOWED, os.nice(0)]
    assert (hold.warnings, hold.took_effect, hold.account) == ([], {}, {})


@pytest.mark.root
@several
def test_a_real_time_load_leaves_a_processor_to_the_lab(tmp_path: Path) -> None:
    allowed_here(scheduler="fifo:1")
    outcome, hold = run(tmp_path, Conditions(scheduler="fifo:1"), sys.executable, "-c", SEEN)
    assert json.loads(outcome.stdout.read_text())[2] == ALLOWED[1:]
    (warning,) = hold.warnings
    assert warning.code == "affinity-narrowed"
    assert warning.remedy == f"set run.affinity = '{units.format_processors(ALLOWED[1:])}'"


def test_a_child_that_ends_while_it_is_held_is_a_failure_of_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = conditions.put

    def ended(pid: int, *rest: Any) -> None:
        put(pid, *rest)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        monkeypatch.setattr(conditions, "effective_policy", lambda pid: os.sched_getscheduler(2**22 + 1))

    monkeypatch.setattr(conditions, "put", ended)
    with pytest.raises(ToolError, match="run.nice = 5: the process was ended before it began"):
        run(tmp_path, Conditions(nice=5), "true")


@several
def test_the_lab_moves_off_the_processors_of_a_real_time_load() -> None:
    with Hold(Conditions(scheduler="rr:1", affinity=str(ALLOWED[-1])), tag="", timeout_s=1):
        assert sorted(os.sched_getaffinity(0)) == ALLOWED[:-1]


def test_a_host_with_one_processor_is_refused_real_time() -> None:
    one = f"import os; os.sched_setaffinity(0, [{ALLOWED[0]}])"
    text = f"{one}; from ioassay.runner import conditions as c; c.rehearse(c.Conditions(scheduler='fifo:1'))"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False).stderr
    assert "ConditionError: run.scheduler = fifo:1: under a real-time policy one processor is left" in said


def test_a_processor_that_is_not_there_is_named() -> None:
    with pytest.raises(ConditionError, match=r"run.affinity = 0,8000: this host has no processor 8000; it has "):
        conditions.rehearse(Conditions(affinity="0,8000"))


@pytest.mark.root
def test_a_hog_is_ended_at_the_memory_limit_and_that_is_said(tmp_path: Path) -> None:
    wanted = allowed_here(memory_limit=48 << 20)
    outcome, hold = run(tmp_path, wanted, sys.executable, "-c", HOG)
    assert outcome.signal == signal.SIGKILL
    assert hold.over_memory == f"run.memory_limit = {48 << 20} bytes was reached, and the kernel ended a process"
    assert hold.took_effect["memory_limit"] == 48 << 20


@pytest.mark.root
def test_a_burner_is_throttled_at_the_limit_of_processor_time(tmp_path: Path) -> None:
    wanted = allowed_here(cpu_limit=0.1)
    burn = "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass"
    outcome, hold = run(tmp_path, wanted, sys.executable, "-c", burn)
    assert outcome.exit_code == 0
    assert outcome.duration_s > 0.5  # for 0.1 s of processor time, however busy the processors are
    assert hold.took_effect["cpu_limit"] == pytest.approx(0.1)


@pytest.mark.root
def test_a_group_is_gone_after_an_interruption_and_so_are_those_in_it(tmp_path: Path) -> None:
    wanted = allowed_here(memory_limit=256 << 20)
    stray = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(300)"
    script = '"$0" -c "$1" > "$2" & while [ ! -s "$2" ]; do sleep 0.01; done'
    argv = ["sh", "-c", script, sys.executable, stray, str(tmp_path / "stray")]
    files = {"stdout": tmp_path / "out", "stderr": tmp_path / "err"}
    with pytest.raises(KeyboardInterrupt), Hold(wanted, tag="", timeout_s=PATIENCE_S) as hold:
        outcome = supervisor.run(argv, **files, timeout_s=PATIENCE_S, on_held=hold.apply)
        assert outcome.exit_code == 0
        assert len(mine()) >= 1
        raise KeyboardInterrupt
    assert process_table.group_of(int((tmp_path / "stray").read_text())) is None
    assert codes(hold) == ["processes-left-behind"]


@pytest.mark.root
@several
@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("scheduler='fifo:99'", "run.scheduler = fifo:99: the kernel refused (Operation not permitted); run as root"),
        ("nice=-20", "run.nice = -20: the kernel refused (Permission denied); run as root"),
        ("cpu_limit=0.5", "run.cpu_limit: no group with the controller 'cpu' can be made"),
        ("memory_limit=2**26", "run.memory_limit: no group with the controller 'memory' can be made"),
    ],
)
def test_a_user_without_rights_is_told_what_to_do(wanted: str, message: str, nobody: list[str]) -> None:
    code = f"from ioassay.runner import conditions as c; c.rehearse(c.Conditions({wanted}))"
    done = subprocess.run([*nobody, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"ConditionError: {message}" in done.stderr


@pytest.mark.root
def test_a_user_without_rights_may_have_what_the_kernel_allows(nobody: list[str]) -> None:
    wanted = f"scheduler='batch', nice={min(os.nice(0) + 5, 19)}, affinity='{ALLOWED[0]}'"
    code = f"from ioassay.runner import conditions as c; print(c.rehearse(c.Conditions({wanted})))"
    done = subprocess.run([*nobody, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.root
def test_a_tool_that_is_killed_itself_needs_no_log(
    tmp_path: Path, other_group: cgroup.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "_opened", lambda path: None)
    text = f"import sys\nfor group in sys.argv[1:]: open(group, 'w').write('0')\n{HOG}"
    _, hold = run(tmp_path, Conditions(), sys.executable, "-c", text, *members(other_group))
    assert hold.over_memory.startswith("the host ran out of memory, and the kernel ended python")


@cases("conditions", "victims")
def test_victims(fake_root: Callable[..., Path], case: dict[str, str]) -> None:
    """Process 7 has ended; nobody has waited for it."""
    stat = f"7 ({case['comm']}) Z {' '.join('0' for _ in range(49))}\n"
    log = {"dev/kmsg": ""} if "log" in case else {}  # who may not read it knows of no victims of others
    root = fake_root({"proc/vmstat": "oom_kill 4\n", "proc/7/comm": f"{case['comm']}\n", "proc/7/stat": stat, **log})
    if "own" in case:
        fake_root({"proc/self/cgroup": case["own"], "proc/self/ns/cgroup": Path(case["namespace"])})
    watch = conditions.OutOfMemory(case["program"], root)
    if "log" in case:
        fake_root({"proc/vmstat": "pgfault 9\noom_kill 5\n", "dev/kmsg": case["log"]})
    watch.ended(7)
    watch.close()
    assert (watch.of_trial, watch.of_others) == (case["of_trial"], case["of_others"])


RUNNER = """
import sys
from pathlib import Path
from ioassay.process import process_table, supervisor
from ioassay.runner.conditions import Conditions, Hold
root, tag, margin_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
wanted = Conditions(scheduler=sys.argv[4] or None, memory_limit=int(sys.argv[5]) or None)
with supervisor.kill_orphans_after(tag), Hold(wanted, tag=tag, timeout_s=0.2, margin_s=margin_s) as hold:
    outcome = supervisor.run(
        ["sh", "-c", "echo $$; exec sleep 300"], stdout=root / "o", stderr=root / "e", outputs=(1, 2), timeout_s=300,
        env={supervisor.TRIAL_VARIABLE: tag}, on_held=hold.apply, on_ended=hold.ended,
    )
print(outcome.signal, *(warning.code for warning in hold.warnings))
"""


def started(tmp_path: Path, *, margin_s: float, scheduler: str = "", memory_bytes: int = 0) -> tuple[Any, int]:
    """A runner, and the process that it runs."""
    tag = f"test-{os.getpid()}-{time.monotonic_ns()}"
    argv = [sys.executable, "-c", RUNNER, str(tmp_path), tag, str(margin_s), scheduler, str(memory_bytes)]
    runner = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    return runner, int(runner.stdout.readline())


def gone(pid: int) -> None:
    until(lambda: process_table.group_of(pid) is None)


@pytest.mark.root
@several
def test_the_watchdog_ends_a_real_time_trial_whose_runner_gets_no_time(tmp_path: Path) -> None:
    allowed_here(scheduler="fifo:2")
    runner, child = started(tmp_path, margin_s=4, scheduler="fifo:2")
    runner.send_signal(signal.SIGSTOP)
    gone(child)
    runner.send_signal(signal.SIGCONT)
    said, _ = runner.communicate()
    assert said.split() == [str(int(signal.SIGKILL)), "affinity-narrowed", "watchdog-ended"]


@pytest.mark.root
@several
def test_a_real_time_trial_ends_with_its_killed_runner(tmp_path: Path) -> None:
    allowed_here(scheduler="fifo:2")
    runner, child = started(tmp_path, margin_s=600, scheduler="fifo:2")
    runner.kill()
    runner.wait()
    gone(child)


def test_what_was_set_and_is_not_so_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "put", lambda *_: None)
    _, hold = run(tmp_path, Conditions(scheduler="batch", affinity=str(ALLOWED[0])), "true")
    assert next(warning.text for warning in hold.warnings) == (
        "run.scheduler = batch: was set, and the kernel says other"
    )
    assert set(codes(hold)) == {"condition-differs"}


@pytest.mark.root
def test_the_group_of_a_killed_runner_is_removed_by_the_next_one(tmp_path: Path) -> None:
    allowed_here(memory_limit=2**27)
    runner, child = started(tmp_path, margin_s=600, memory_bytes=2**27)
    (group,) = mine(runner.pid)
    assert group not in conditions.leftovers()
    runner.kill()
    runner.wait()
    gone(child)
    until(lambda: conditions.remove_leftovers() == [] and not mine(runner.pid))  # another test may do it as well
    assert group not in conditions.leftovers()


@pytest.mark.root
def test_the_doctor_removes_the_groups_of_killed_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    allowed_here(memory_limit=2**27)
    # Of this boot: with another one, all groups would be taken for dead, those of other tests as well.
    dead = replace(settings.this_process(), start_ticks=1)
    monkeypatch.setattr(settings, "this_process", lambda root: dead)
    group = cgroup.make(Conditions(memory_limit=2**27))
    monkeypatch.undo()
    monkeypatch.setattr(settings, "restore_all", list)
    doctor(restore=True)
    said = capsys.readouterr().out
    folder = group.folders["memory"][1]
    assert not folder.exists()
    assert str(folder) in said or "nothing to restore" in said  # another test may have been quicker
