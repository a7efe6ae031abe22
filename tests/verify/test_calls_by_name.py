"""Every system call counted by name, processes and threads: programs whose calls are known, and strace beside BPF."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.errors import ToolError
from ioassay.process import supervisor
from ioassay.records.observation import COMPAT, STRACE, Observation, from_dict
from ioassay.verify import witness

from ..patience import PATIENCE_S


def run_counted(argv: Sequence[str], folder: Path, monkeypatch: pytest.MonkeyPatch | None = None) -> Observation:
    """What `counting` sees of a command; with `monkeypatch`, where BPF cannot."""
    if monkeypatch is not None:
        monkeypatch.setattr(_core, "witness_capability", lambda: "BPF is forbidden here", raising=False)
    with witness.counting((), folder) as watching:
        outcome = supervisor.run(
            watching.command(argv),
            stdout=folder / "stdout",
            stderr=folder / "stderr",
            timeout_s=PATIENCE_S,
            on_held=watching.held,
            on_ended=watching.ended,
        )
        seen = watching.observation(outcome)
    assert seen is not None and outcome.exit_code == 0
    return seen


@pytest.mark.bpf
def test_calls_are_counted_one_by_one_and_those_that_fail_once_more(watch: Any, compiled: Any) -> None:
    seen = watch("syscalls", compiled("known_calls"))
    assert seen.calls["getpid"] == 12345
    assert seen.calls["openat"] - seen.call_errors["openat"] >= 77 and seen.call_errors["openat"] == 55
    assert seen.calls["close"] >= 77 and "close" not in seen.call_errors
    assert (seen.calls["syscall_9999"], seen.call_errors["syscall_9999"]) == (9, 9)
    assert (seen.calls["syscall_511"], seen.call_errors["syscall_511"]) == (4, 4)
    assert seen.calls["execve"] == seen.calls["exit_group"] == 1
    by_file = sum(part.calls.calls for part in seen.operations if part.entry == "openat")
    assert seen.calls["openat"] == by_file


@pytest.mark.bpf
def test_processes_threads_and_the_most_at_once_are_counted_at_every_level(watch: Any, compiled: Any) -> None:
    program = compiled("tree_of_tasks", "-pthread")
    for level in ("block", "syscalls"):
        seen = watch(level, program)
        assert (seen.processes, seen.threads) == (1 + 6 * 2 + 6 * 3, 6 * 3)
        assert seen.most_alive == 5  # itself, a child, and its three threads
    assert seen.calls["getppid"] == 6 * 4 * 100


@pytest.mark.bpf
def test_more_odd_numbers_than_have_room_lose_no_call(watch: Any, compiled: Any) -> None:
    seen = watch("syscalls", compiled("odd_numbers"))
    odd = {name: number for name, number in seen.calls.items() if name.startswith("syscall_")}
    assert sum(odd.values()) == 2003
    assert odd["syscall_others"] > 1000 and len(odd) > 200
    assert sum(seen.call_errors.get(name, 0) for name in odd) in (2000, 2003)  # the last three are told by no number


@pytest.mark.bpf
def test_what_a_signal_interrupts_is_no_error_of_another_call(watch: Any, compiled: Any) -> None:
    seen = watch("syscalls", compiled("interrupted_calls"))
    assert seen.calls["pause"] == 50
    assert seen.calls["rt_sigreturn"] >= 50 and not seen.call_errors.keys() & {"rt_sigreturn", "syscall_4294967295"}


@pytest.mark.bpf
def test_calls_by_the_numbers_of_32_bit_programs_are_counted_apart(compiled: Any, tmp_path: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("written for x86-64")
    seen = run_counted([compiled("old_way_in")], tmp_path)
    if COMPAT not in seen.calls:
        pytest.skip("this kernel has no calls of 32-bit programs")
    assert seen.calls[COMPAT] == 40 and "writev" not in seen.calls
    assert seen.health["lost"] == 40


@pytest.mark.bpf
@pytest.mark.strace
def test_strace_and_its_lines_count_the_same_but_for_what_never_returns_or_has_no_name(
    compiled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled("known_calls")
    by_bpf = run_counted([program], tmp_path)
    (lined := tmp_path / "lines").mkdir()
    by_lines = witness.watch([program], "syscalls", lined, backend=STRACE).seen
    by_strace = run_counted([program], tmp_path, monkeypatch)
    assert by_lines is not None and (by_bpf.backend, by_strace.backend) == ("bpf", STRACE)
    unseen = {"exit_group", "syscall_9999", "syscall_511"}

    def of_program(counted: Mapping[str, int], without: Collection[str] = ()) -> dict[str, int]:
        """Reads and futexes are of the held child before it starts, which the programs see and strace does not."""
        return {name: number for name, number in counted.items() if name not in {"read", "futex", *without}}

    assert of_program(by_bpf.calls, unseen) == of_program(by_strace.calls)
    assert {name: by_bpf.call_errors[name] for name in by_strace.call_errors} == dict(by_strace.call_errors)
    assert of_program(by_bpf.calls) == of_program(by_lines.calls)
    assert of_program(by_bpf.call_errors) == of_program(by_lines.call_errors)
    assert (by_strace.processes, by_strace.threads, by_strace.most_alive) == (1, None, None)
    assert "BPF is forbidden here" in by_strace.why and "slowed down" in by_strace.why


@pytest.mark.strace
def test_strace_counts_a_tree_of_processes_and_threads(
    compiled: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = run_counted([compiled("tree_of_tasks", "-pthread")], tmp_path, monkeypatch)
    assert seen.calls["getppid"] == 6 * 4 * 100
    assert seen.processes == 31


def test_where_neither_can_count_both_reasons_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "witness_capability", lambda: "BPF is forbidden here", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"BPF is forbidden here.*apt-get install strace"):
        witness.counting((), tmp_path)


def test_an_observation_keeps_its_calls_and_an_old_one_has_none() -> None:
    of = {"processes": 3, "threads": 1, "most_alive": 2, "calls": {"read": 5}, "call_errors": {"read": 1}}
    seen = Observation("bpf", "syscalls", ["syscalls"], **of)
    lists: dict[str, Any] = {"operations": [], "files": [], "sessions": [], "block": []}
    assert from_dict(seen.as_stored()).as_dict() == {**seen.as_dict(), **lists}
    old = from_dict({"backend": "bpf", "asked": "syscalls", "layers": ["syscalls"], "processes": 3})
    assert (dict(old.calls), old.threads, old.most_alive) == ({}, None, None)
