"""Host settings: set for a run, put back however it ends, killed runs and runs at the same time included."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ioassay.host import settings
from ioassay.host.settings import HostSettings, restore_all, restore_file, tunables

FakeRoot = Callable[..., Path]
CPUS = 3
CPUFREQ = "sys/devices/system/cpu/cpu{}/cpufreq"
OFFERED = "performance powersave schedutil\n"
KILLS = 40


@pytest.fixture
def machine(fake_root: FakeRoot) -> Path:
    """Three processors with the governor powersave and a disk; processes are the real ones (never drop caches here)."""
    tree: dict[str, str | Path] = {"proc": Path("/proc"), "sys/block/sda/queue/scheduler": "none [mq-deadline] bfq\n"}
    for cpu in range(CPUS):
        tree[f"{CPUFREQ.format(cpu)}/scaling_governor"] = "powersave\n"
        tree[f"{CPUFREQ.format(cpu)}/scaling_available_governors"] = OFFERED
    return fake_root(tree)


def governors(machine: Path) -> list[str | None]:
    return [tunables.present(f"/{CPUFREQ.format(cpu)}/scaling_governor", machine) for cpu in range(CPUS)]


def set_governors(machine: Path, value: str) -> None:
    for cpu in range(CPUS):
        (machine / CPUFREQ.format(cpu) / "scaling_governor").write_text(f"{value}\n")


def files(machine: Path) -> list[str]:
    return sorted(path.name for path in (machine / "run/ioassay").glob("restore-*"))


def codes(of: HostSettings) -> list[str]:
    return [warning.code for warning in of.warnings]


POWERSAVE, PERFORMANCE = ["powersave"] * CPUS, ["performance"] * CPUS


def test_the_governor_is_performance_inside_and_what_it_was_afterwards(machine: Path) -> None:
    with HostSettings(root=machine) as host:
        assert governors(machine) == PERFORMANCE
        assert len(files(machine)) == 1
    assert governors(machine) == POWERSAVE
    assert files(machine) == []
    assert host.warnings == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_settings_are_put_back_when_the_run_ends_by_an_exception(machine: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), HostSettings(root=machine):
        raise error
    assert governors(machine) == POWERSAVE
    assert files(machine) == []


def test_the_restore_file_is_there_before_the_first_change(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def put(path: str, value: str, root: Path) -> None:
        seen.append((value, len(files(machine))))
        (root / path.lstrip("/")).write_text(value)

    monkeypatch.setattr(tunables, "put", put)
    with HostSettings(root=machine):
        pass
    assert seen == [("performance", 1)] * CPUS + [("powersave", 1)] * CPUS


def test_an_interruption_in_the_middle_of_setting_puts_back_what_was_set(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = tunables.put, []

    def put(path: str, value: str, root: Path) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(path, value, root)

    monkeypatch.setattr(tunables, "put", put)
    with pytest.raises(KeyboardInterrupt), HostSettings(root=machine):
        pass
    assert governors(machine) == POWERSAVE
    assert files(machine) == []


def test_a_machine_without_cpufreq_gives_a_warning_and_no_restore_file(fake_root: FakeRoot) -> None:
    root = fake_root({"sys/devices/system/cpu/cpu0/online": "1"})
    with HostSettings(root=root) as host:
        assert codes(host) == ["no-governor"]
    assert not (root / "run").exists()


def test_a_governor_that_the_machine_lacks_is_named_with_those_it_has(machine: Path) -> None:
    with HostSettings("ondemand", root=machine) as host:
        assert governors(machine) == POWERSAVE
    assert codes(host) == ["governor-unavailable"]
    assert "performance, powersave, schedutil" in host.warnings[0].text


def test_keep_changes_nothing_and_warns_of_nothing(machine: Path) -> None:
    with HostSettings(settings.KEEP, root=machine) as host:
        assert governors(machine) == POWERSAVE
    assert host.warnings == []


def test_a_user_who_may_not_gets_a_warning_once_and_not_an_error(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunables, "is_writable", lambda path, root: False)
    with HostSettings(root=machine) as host:
        assert governors(machine) == POWERSAVE
    assert codes(host) == ["settings-not-permitted"]
    assert "stays 'powersave' instead of 'performance'" in host.warnings[0].text
    assert host.warnings[0].remedy
    assert files(machine) == []


def test_what_is_as_wanted_already_is_not_touched(machine: Path) -> None:
    set_governors(machine, "performance")
    preference = machine / CPUFREQ.format(0) / "energy_performance_preference"
    preference.write_text("balance_power\n")
    with HostSettings(root=machine) as host:
        assert not (machine / "run").exists()
    (machine / "run/ioassay").mkdir(parents=True)
    with HostSettings(root=machine):
        assert files(machine) == []
    assert governors(machine) == PERFORMANCE
    assert preference.read_text() == "balance_power\n"
    assert host.warnings == []


def test_a_value_that_the_kernel_refuses_is_said(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(path: str, value: str, root: Path) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(tunables, "put", put)
    with HostSettings(root=machine) as host:
        pass
    assert codes(host) == ["setting-refused"] * CPUS
    assert files(machine) == []  # nothing was changed, so nothing is left to be put back


def test_without_a_place_for_the_restore_file_nothing_is_changed(machine: Path) -> None:
    (machine / "run").write_text("a file where a folder should be")
    with HostSettings(root=machine) as host:
        assert governors(machine) == POWERSAVE
    assert codes(host) == ["settings-unrecorded"]


def test_a_value_that_somebody_changed_meanwhile_is_left_and_said(machine: Path) -> None:
    with HostSettings(root=machine) as host:
        (machine / CPUFREQ.format(1) / "scaling_governor").write_text("schedutil\n")
    assert governors(machine) == ["powersave", "schedutil", "powersave"]
    assert codes(host) == ["settings-not-restored"]
    assert "cpu1" in host.warnings[0].text
    assert "left at 'schedutil'" in host.warnings[0].text
    assert files(machine) == []


def test_a_value_that_cannot_be_put_back_keeps_its_restore_file(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(path: str, value: str, root: Path) -> None:
        raise OSError(16, "Device or resource busy")

    with monkeypatch.context() as patch, HostSettings(root=machine) as host:
        patch.setattr(tunables, "put", put)
    assert codes(host) == ["settings-not-restored"]
    assert host.warnings[0].remedy == "ioassay doctor --restore"
    assert governors(machine) == PERFORMANCE
    assert len(files(machine)) == 1
    # This process still lives, so nobody else replays its file; the next one finds it dead.
    disown(machine)
    assert restore_all(root=machine) == [
        f"/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor: put back to 'powersave' ({CPUS} files)"
    ]
    assert governors(machine) == POWERSAVE
    assert files(machine) == []


def disown(machine: Path, **owner: object) -> None:
    """Make all restore files belong to a process that is gone."""
    for path in (machine / "run/ioassay").glob("restore-*.json"):
        table = json.loads(path.read_text())
        table["owner"] |= owner or {"start_ticks": 1}
        path.write_text(json.dumps(table))


def abandon(machine: Path) -> None:
    """Leave what a killed run leaves."""
    HostSettings(root=machine).__enter__()
    disown(machine)


def test_what_a_driver_changes_along_with_the_governor_is_put_back_after_it(machine: Path) -> None:
    preference = f"{CPUFREQ.format(0)}/energy_performance_preference"
    (machine / preference).write_text("balance_power\n")
    with HostSettings(root=machine) as host:
        assert tunables.present(preference, machine) == "balance_power"  # we do not write it
        (machine / preference).write_text("performance\n")  # but the driver does
    assert tunables.present(preference, machine) == "balance_power"
    with HostSettings(root=machine):
        pass  # a driver that does not
    assert tunables.present(preference, machine) == "balance_power"
    assert host.warnings == []


def test_the_scheduler_of_a_disk_is_set_and_put_back(machine: Path) -> None:
    path = "/sys/block/sda/queue/scheduler"
    with HostSettings(settings.KEEP, {"sda": "none"}, root=machine):
        assert tunables.present(path, machine) == "none"
        (machine / path[1:]).write_text("[none] mq-deadline bfq\n")  # as the kernel shows it
    assert tunables.present(path, machine) == "mq-deadline"


def test_a_scheduler_that_a_disk_lacks_is_named_with_those_it_has(machine: Path) -> None:
    with HostSettings(settings.KEEP, {"sda": "kyber", "dm-0": "none"}, root=machine) as host:
        pass
    assert codes(host) == ["scheduler-unavailable"] * 2
    assert "it offers none, mq-deadline, bfq" in host.warnings[0].text


# Runs at the same time


@pytest.mark.parametrize("first_to_end", ["first", "second"])
def test_runs_at_the_same_time_nest_whichever_ends_first(machine: Path, first_to_end: str) -> None:
    first, second = HostSettings(root=machine), HostSettings(root=machine)
    first.__enter__()
    second.__enter__()
    assert len(files(machine)) == 2  # the second found performance, and knows what was before
    order = [first, second] if first_to_end == "first" else [second, first]
    order[0].__exit__(None, None, None)
    assert governors(machine) == PERFORMANCE
    order[1].__exit__(None, None, None)
    assert governors(machine) == POWERSAVE
    assert files(machine) == []
    assert first.warnings == second.warnings == []


@pytest.mark.parametrize("first_to_end", ["first", "second"])
def test_runs_that_want_different_governors_end_with_the_original_one(machine: Path, first_to_end: str) -> None:
    first, second = HostSettings("performance", root=machine), HostSettings("schedutil", root=machine)
    first.__enter__()
    second.__enter__()
    assert governors(machine) == ["schedutil"] * CPUS
    order = [first, second] if first_to_end == "first" else [second, first]
    order[0].__exit__(None, None, None)
    assert governors(machine) == (["schedutil"] * CPUS if first_to_end == "first" else PERFORMANCE)
    order[1].__exit__(None, None, None)
    assert governors(machine) == POWERSAVE
    assert first.warnings == second.warnings == []


def test_a_live_run_is_not_replayed_by_another_process(machine: Path) -> None:
    with HostSettings(root=machine):
        assert restore_all(root=machine) == []
        assert settings.leftovers(machine) == []
        assert governors(machine) == PERFORMANCE
    assert governors(machine) == POWERSAVE


# Killed runs


def test_the_next_run_puts_back_what_a_killed_one_left_and_remembers_the_original(machine: Path) -> None:
    abandon(machine)
    assert [path.name for path in settings.leftovers(machine)] == files(machine)
    with HostSettings(root=machine) as host:
        assert governors(machine) == PERFORMANCE
    assert codes(host) == ["settings-restored"]
    assert governors(machine) == POWERSAVE


def test_a_killed_run_is_not_put_back_under_a_live_one(machine: Path) -> None:
    killed = HostSettings(root=machine)
    killed.__enter__()
    with HostSettings(root=machine):
        for path in (machine / "run/ioassay").glob("restore-*.json"):
            if path == killed._file.file:
                table = json.loads(path.read_text())
                table["owner"]["start_ticks"] = 1
                path.write_text(json.dumps(table))
        said = restore_all(root=machine)
        assert len(said) == 1
        assert "another run that is still going on wants it" in said[0]
        assert governors(machine) == PERFORMANCE
        assert len(files(machine)) == 1
    assert governors(machine) == POWERSAVE


def test_replaying_leaves_what_somebody_changed_since_unless_forced(machine: Path) -> None:
    abandon(machine)
    (machine / CPUFREQ.format(2) / "scaling_governor").write_text("schedutil\n")
    said = restore_all(root=machine)
    assert any("left at 'schedutil'" in text for text in said)
    assert governors(machine) == ["powersave", "powersave", "schedutil"]
    assert files(machine) == []
    set_governors(machine, "powersave")
    abandon(machine)
    set_governors(machine, "schedutil")
    restore_all(force=True, root=machine)
    assert governors(machine) == POWERSAVE


def test_a_restore_file_from_before_a_reboot_is_only_forgotten(machine: Path) -> None:
    HostSettings(root=machine).__enter__()
    disown(machine, boot_id="00000000-0000-0000-0000-000000000000")
    said = restore_all(root=machine)
    assert ["was reset by a reboot" in text for text in said] == [True]
    assert governors(machine) == PERFORMANCE  # whoever set that, it was not the killed run
    assert files(machine) == []


def test_a_processor_that_is_gone_is_said(machine: Path) -> None:
    abandon(machine)
    (machine / CPUFREQ.format(2) / "scaling_governor").unlink()
    assert any("cpu2/cpufreq/scaling_governor: is not there any more" in text for text in restore_all(root=machine))
    assert files(machine) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema": 99}',
        b"\xff\xfe",
        json.dumps(
            {
                "schema": 1,
                "owner": {"pid": 1, "start_ticks": 1, "boot_id": ""},
                "made_unix_s": 0,
                "changes": [{"path": "/sys/../etc/passwd", "old": "root::0:0", "new": "x"}],
            }
        ).encode(),
    ],
)
def test_a_restore_file_that_makes_no_sense_is_said_and_left_unless_forced(machine: Path, content: bytes) -> None:
    folder = machine / "run/ioassay"
    folder.mkdir(parents=True)
    (folder / "restore-1-1-1.json").write_bytes(content)
    assert len(settings.leftovers(machine)) == 1
    assert ["no restore file that can be read" in text for text in restore_all(root=machine)] == [True]
    assert len(files(machine)) == 1
    restore_all(force=True, root=machine)
    assert files(machine) == []


def test_where_nothing_was_ever_changed_there_is_nothing_to_restore(machine: Path) -> None:
    assert restore_all(root=machine) == []
    assert settings.leftovers(machine) == []
    assert not (machine / "run").exists()


def test_a_number_that_now_belongs_to_another_process_is_not_the_owner(machine: Path) -> None:
    me = restore_file.this_process(machine)
    assert restore_file.is_alive(me, machine)
    assert not restore_file.is_alive(restore_file.Owner(me.pid, me.start_ticks + 1, me.boot_id), machine)
    assert not restore_file.is_alive(restore_file.Owner(me.pid, me.start_ticks, "another boot"), machine)


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
    chance = random.Random(seed)
    left = 0
    for _ in range(KILLS):
        with child(lambda: in_and_out(machine)) as pid:
            time.sleep(chance.uniform(0, 0.02))
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now, which counts as dead
            left += len(files(machine)) > 0
            restore_all(root=machine)
            assert governors(machine) == POWERSAVE, f"seed {seed}"
            assert files(machine) == []
    assert left > 0, "no run was killed while it had settings changed: make the waits longer"


def test_runs_killed_beside_a_live_one_do_not_disturb_it(machine: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(KILLS // 2):
        with child(lambda: in_and_out(machine, 0.001)) as one, child(lambda: in_and_out(machine)) as two:
            time.sleep(chance.uniform(0, 0.01))
            with HostSettings(root=machine):
                for pid in chance.sample([one, two], 2):
                    time.sleep(chance.uniform(0, 0.01))
                    assert governors(machine) == PERFORMANCE, f"seed {seed}"
                    os.kill(pid, signal.SIGKILL)
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                    restore_all(root=machine)
                assert governors(machine) == PERFORMANCE, f"seed {seed}"
            restore_all(root=machine)
            assert governors(machine) == POWERSAVE, f"seed {seed}"
            assert files(machine) == []


# Caches and places


def test_caches_are_dropped_by_writing_three(fake_root: FakeRoot) -> None:
    root = fake_root({"proc/sys/vm/drop_caches": "0\n"})
    assert settings.drop_caches(root) is None
    assert (root / "proc/sys/vm/drop_caches").read_text() == "3\n"


def test_caches_that_cannot_be_dropped_are_a_warning(fake_root: FakeRoot) -> None:
    warning = settings.drop_caches(fake_root({"proc": None}))
    assert warning is not None
    assert warning.code == "caches-not-dropped"


def test_a_container_whose_kernel_settings_are_read_only_is_not_told_to_become_root(
    monkeypatch: pytest.MonkeyPatch, fake_root: FakeRoot
) -> None:
    def refuse(path: str, value: str, root: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(settings.tunables, "put", refuse)
    warning = settings.drop_caches(fake_root({"proc": None}))
    assert warning is not None and "container" in warning.remedy and "sudo" not in warning.remedy


def test_restore_files_lie_in_run_for_root_and_in_the_state_folder_for_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert restore_file.state_folder() == Path("/run/ioassay")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert restore_file.state_folder() == tmp_path / "ioassay"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ada")
    assert restore_file.state_folder() == Path("/home/ada/.local/state/ioassay")
