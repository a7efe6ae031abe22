"""Host settings: set for a run, put back however it ends, killed runs and runs at the same time included."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ioassay.host import settings
from ioassay.host.settings import HostSettings, restore_all

from .corpora import cases

FakeRoot = Callable[..., Path]
CPU = "/sys/devices/system/cpu"
GOVERNOR = "cpu{}/cpufreq/scaling_governor"
CPUS = 3
KILLS = 40 if os.environ.get("IOASSAY_THOROUGH") else 5
POWERSAVE, PERFORMANCE = ["powersave"] * CPUS, ["performance"] * CPUS


@pytest.fixture
def machine(fake_root: FakeRoot) -> Path:
    """Three processors with the governor powersave and a disk; processes are the real ones (never drop caches here)."""
    tree: dict[str, str | Path] = {"proc": Path("/proc"), "sys/block/sda/queue/scheduler": "none [mq-deadline] bfq\n"}
    for cpu in range(CPUS):
        tree[f"{CPU}/{GOVERNOR.format(cpu)}"] = "powersave\n"
        tree[f"{CPU}/cpu{cpu}/cpufreq/scaling_available_governors"] = "performance powersave schedutil\n"
    return fake_root(tree)


def present(machine: Path) -> list[str]:
    found = (settings.read_value(f"{CPU}/{GOVERNOR.format(cpu)}", machine) for cpu in range(CPUS))
    return [one for one in found if one is not None]


def restore_files(machine: Path) -> list[str]:
    return sorted(path.name for path in (machine / "run/ioassay").glob("restore-*"))


def place(machine: Path, name: str) -> Path:
    """The file of a processor's governor, a file of the processors, or a path of the machine."""
    if name.isdigit():
        name = GOVERNOR.format(name)
    return machine / (name if name.startswith("/") else f"{CPU}/{name}").lstrip("/")


ACTIONS = ("begin", "end", "kill", "reboot", "write", "remove", "refuse", "forbid", "restore", "shown")
REQUIRED = ("governors", "files", "leftovers")


class Runs:
    """A machine and the runs on it: does the steps of a row."""

    def __init__(self, machine: Path, patch: pytest.MonkeyPatch) -> None:
        self.machine, self.patch = machine, patch
        self.runs: dict[str, HostSettings] = {}
        self.files: dict[str, settings.RestoreFile | None] = {}
        self.put = settings.put

    def take(self, step: Mapping[str, Any]) -> None:
        assert not step.keys() - {*ACTIONS, *REQUIRED, "governor", "said"}
        for key in ACTIONS:
            if key in step:
                getattr(self, f"do_{key}")(step[key], step)
        self.require(**{key: step[key] for key in REQUIRED if key in step})

    def require(self, governors: str | list[str] | None = None, files: int | None = None, leftovers: int = -1) -> None:
        if governors is not None:
            assert present(self.machine) == ([governors] * CPUS if isinstance(governors, str) else governors)
        assert files is None or files == len(restore_files(self.machine))
        assert leftovers in (-1, len(settings.leftovers(self.machine)))

    def do_shown(self, wanted: Mapping[str, str], step: Mapping[str, Any]) -> None:
        for name, text in wanted.items():
            path = place(self.machine, name).relative_to(self.machine)
            assert settings.read_value(f"/{path}", self.machine) == text

    def do_begin(self, name: str, step: Mapping[str, Any]) -> None:
        self.runs[name] = HostSettings(step.get("governor", "performance"), root=self.machine)
        self.runs[name].__enter__()
        self.files[name] = self.runs[name]._file

    def do_end(self, name: str, step: Mapping[str, Any]) -> None:
        self.runs[name].__exit__(None, None, None)

    def do_kill(self, name: str, step: Mapping[str, Any], **owner: Any) -> None:
        held = self.files[name]
        assert held is not None
        path = held.file
        table = json.loads(path.read_text())
        table["owner"] |= owner or {"start_ticks": 1}
        path.write_text(json.dumps(table))

    def do_reboot(self, name: str, step: Mapping[str, Any]) -> None:
        self.do_kill(name, step, boot_id="00000000-0000-0000-0000-000000000000")

    def do_write(self, changes: Mapping[str, str], step: Mapping[str, Any]) -> None:
        for name, text in changes.items():
            path = place(self.machine, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    def do_remove(self, names: list[int], step: Mapping[str, Any]) -> None:
        for name in names:
            place(self.machine, str(name)).unlink()

    def do_refuse(self, is_refused: bool, step: Mapping[str, Any]) -> None:
        def put(path: str, value: str, root: Path) -> None:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

        self.patch.setattr(settings, "put", put if is_refused else self.put)

    def do_forbid(self, _: bool, step: Mapping[str, Any]) -> None:
        self.patch.setattr(settings.os, "access", lambda path, mode: False)

    def do_restore(self, _: bool, step: Mapping[str, Any]) -> None:
        said = restore_all(self.machine)
        if "said" in step:
            assert len(said) == len(step["said"])
            assert all(any(piece in text for text in said) for piece in step["said"])


@cases("settings", "runs")
def test_settings_are_those_of_the_row_after_its_steps(
    case: dict[str, Any], machine: Path, fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if case.get("governors") == []:
        machine = tmp_path / "bare"
    for name, text in case.get("machine", {}).items():
        (machine / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / name).write_text(text)
    lab = Runs(machine, monkeypatch)
    for step in case["steps"]:
        lab.take(step)
    lab.require(case.get("governors", "powersave"), files=0)
    assert not case.get("untouched") or not (machine / "run").exists()
    warned = {name: [each.code for each in run.warnings] for name, run in lab.runs.items() if run.warnings}
    assert warned == case.get("codes", {})
    warnings = [each for run in lab.runs.values() for each in run.warnings]
    assert all(any(piece in each.text for each in warnings) for piece in case.get("texts", ()))
    assert all(any(piece in each.remedy for each in warnings) for piece in case.get("remedies", ()))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("before", [2, None], ids=["in the middle of setting", "in the run"])
def test_settings_are_put_back_when_the_run_ends_by_an_exception(
    machine: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], before: int | None
) -> None:
    real, calls = settings.put, []

    def put(path: str, value: str, root: Path) -> None:
        calls.append(path)
        if len(calls) == before:
            raise error
        real(path, value, root)

    monkeypatch.setattr(settings, "put", put)
    with pytest.raises(error), HostSettings(root=machine):
        raise error
    assert present(machine) == POWERSAVE
    assert restore_files(machine) == []


def test_the_restore_file_is_there_before_the_first_change(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def put(path: str, value: str, root: Path) -> None:
        seen.append((value, len(restore_files(machine))))
        (root / path.lstrip("/")).write_text(value)

    monkeypatch.setattr(settings, "put", put)
    with HostSettings(root=machine):
        pass
    assert seen == [("performance", 1)] * CPUS + [("powersave", 1)] * CPUS


@cases("settings", "unreadable")
def test_a_restore_file_that_makes_no_sense_is_said_and_left(machine: Path, case: dict[str, Any]) -> None:
    folder = machine / "run/ioassay"
    folder.mkdir(parents=True)
    (folder / "restore-1-1-1.json").write_bytes(case["text"].encode("latin-1"))
    assert len(settings.leftovers(machine)) == 1
    assert ["no restore file that can be read" in text for text in restore_all(machine)] == [True]
    assert len(restore_files(machine)) == 1


def test_a_number_that_now_belongs_to_another_process_is_not_the_owner(machine: Path) -> None:
    me = settings.this_process(machine)
    assert settings.is_alive(me, machine)
    assert not settings.is_alive(settings.Owner(me.pid, me.start_ticks + 1, me.boot_id), machine)
    assert not settings.is_alive(settings.Owner(me.pid, me.start_ticks, "another boot"), machine)


@contextlib.contextmanager
def child(work: Callable[[], None]) -> Iterator[int]:
    """A forked process that does `work` for ever; killed and reaped at the end, if it was not before."""
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                work()
        finally:
            os._exit(1)
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def in_and_out(machine: Path, pause_s: float = 0.0) -> None:
    with HostSettings(root=machine):
        time.sleep(pause_s)


def test_a_run_killed_at_any_instant_is_put_back(machine: Path, seed: int) -> None:
    chance, left, longest_s = random.Random(seed), 0, 0.02
    while left < KILLS:  # a kill before anything is changed, as on a busy machine or a slow disk, does not count
        with child(lambda: in_and_out(machine)) as pid:
            time.sleep(chance.uniform(0, longest_s))
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now, which counts as dead
            left, longest_s = (left + 1, longest_s) if restore_files(machine) else (left, longest_s * 1.2)
            restore_all(machine)
            assert present(machine) == POWERSAVE, f"seed {seed}"
            assert restore_files(machine) == []


def test_runs_killed_beside_a_live_one_do_not_disturb_it(machine: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(KILLS):
        with child(lambda: in_and_out(machine, 0.001)) as one, child(lambda: in_and_out(machine)) as two:
            time.sleep(chance.uniform(0, 0.01))
            with HostSettings(root=machine):
                for pid in chance.sample([one, two], 2):
                    time.sleep(chance.uniform(0, 0.01))
                    assert present(machine) == PERFORMANCE, f"seed {seed}"
                    os.kill(pid, signal.SIGKILL)
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                    restore_all(machine)
                assert present(machine) == PERFORMANCE, f"seed {seed}"
            restore_all(machine)
            assert present(machine) == POWERSAVE, f"seed {seed}"
            assert restore_files(machine) == []


# Caches and places


def test_caches_are_dropped_by_writing_three_and_else_there_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, fake_root: FakeRoot
) -> None:
    """A container whose kernel settings are read-only is not told to become root."""

    def refuse(path: str, value: str, root: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    root = fake_root({"proc/sys/vm/drop_caches": "0\n"})
    assert settings.drop_caches(root) is None
    assert (root / "proc/sys/vm/drop_caches").read_text() == "3\n"
    warning = settings.drop_caches(root / "nowhere")
    assert warning is not None and warning.code == "caches-not-dropped"
    monkeypatch.setattr(settings, "put", refuse)
    warning = settings.drop_caches(root)
    assert warning is not None and "container" in warning.remedy and "sudo" not in warning.remedy


def test_restore_files_lie_in_run_for_root_and_in_the_state_folder_for_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert settings.state_folder() == Path("/run/ioassay")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert settings.state_folder() == tmp_path / "ioassay"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")
    assert settings.state_folder() == Path("/home/ada/.local/state/ioassay")
