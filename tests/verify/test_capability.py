"""Which backend is chosen, and what is said when it is not the best one."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from ioassay import _core
from ioassay.errors import ToolError, UsageError
from ioassay.host import process_capabilities
from ioassay.verify.witness import strace
from ioassay.verify.witness.capability import best, bpf_unusable


@pytest.fixture
def bpf(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let BPF be unusable for a reason; '' makes it usable."""
    return lambda reason: monkeypatch.setattr(_core, "witness_capability", lambda: reason, raising=False)


@pytest.mark.parametrize("level", ["block", "syscalls", "record"])
def test_bpf_where_it_works(bpf: Callable[[str], None], level: str) -> None:
    bpf("")
    choice = best(level)
    assert (choice.backend, choice.why) == ("bpf", "")
    assert {level, "block", "counters"} <= set(choice.layers)
    assert best("counters").backend == "counters" and best("counters").why == ""


def test_counters_where_bpf_does_not_work(bpf: Callable[[str], None]) -> None:
    bpf("the kernel has no BTF")
    choice = best("block")
    assert (choice.backend, list(choice.layers)) == ("counters", ["counters"])
    assert choice.why == "only counters were read, nothing of level block: the kernel has no BTF"
    with pytest.raises(ToolError, match="the kernel has no BTF"):
        best("block", "bpf")


def test_capabilities_that_are_missing_are_named_with_the_way_to_grant_them(
    bpf: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bpf("missing CAP_PERFMON: run as root, or give the process these capabilities")
    monkeypatch.setattr(process_capabilities, "is_withheld", lambda name: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = (
        "missing CAP_PERFMON: run as root, or give the process these capabilities ('ioassay help backends' shows how)"
    )
    assert bpf_unusable() == said
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert bpf_unusable().startswith("missing CAP_PERFMON: start the container with --cap-add=PERFMON (docker or")


def test_a_build_without_programs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_core, "witness_capability", raising=False)
    assert "no witness: it is of another version" in bpf_unusable()


def test_strace_only_by_name(bpf: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    bpf("no")
    monkeypatch.setattr(strace, "available", lambda: "")
    assert best("syscalls").backend == "counters"
    assert best("syscalls", "strace").why == ""
    assert "block layer" in best("block", "strace").why
    monkeypatch.setattr(strace, "available", lambda: "ptrace is forbidden")
    with pytest.raises(ToolError, match="ptrace is forbidden"):
        best("syscalls", "strace")


def test_counters_by_name_say_what_they_leave_out(bpf: Callable[[str], None]) -> None:
    bpf("")
    assert "nothing of level syscalls" in best("syscalls", "counters").why
    assert best("counters", "counters").why == ""


@pytest.mark.parametrize(("level", "backend"), [("off", "auto"), ("everything", "auto"), ("block", "dtrace")])
def test_what_does_not_exist(level: str, backend: str) -> None:
    with pytest.raises(UsageError):
        best(level, backend)
