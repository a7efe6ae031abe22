"""What a trial may change: the rules that follow from its target, touches and driver, and real tools under them.

What was overlooked stays whole, and all else works as before.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from ioassay.api.progress import Progress
from ioassay.drivers import DRIVERS, driver
from ioassay.drivers.fio import Fio
from ioassay.drivers.fio.jobfile import job_study
from ioassay.process import landlock, supervisor
from ioassay.process.landlock import MAKE_SYM, Linux
from ioassay.records.record import FAILED, OK, Record
from ioassay.roles import READ, WRITE, Command, Confinement, Consent, Driver, Load, Rehearsal, Touch
from ioassay.runner import confinement, preflight, run
from ioassay.runner.confinement import CODE, CONFINEMENT, SINKS, Net
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study
from ioassay.verify.witness import strace, strace_summary

from .cli import command_server
from .cli.conftest import ask
from .corpora import CORPUS, cases, has

NOTHING = Load("null", None, 0, False)


class Absent(Linux):
    """A kernel without Landlock."""

    def abi(self) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def spread(
    raw: Path, load: Load = NOTHING, touches: Sequence[Touch] = (), beside: Confinement | None = None, **changes: Any
) -> AbstractContextManager[Net]:
    raw.mkdir(exist_ok=True)
    programs = changes.pop("programs", ["true"])
    return confinement.spread(load, touches, raw, beside or Confinement(), programs, **changes)


def rights(net: Net) -> dict[Path, int]:
    """What is granted beside the raw folder and the sinks."""
    assert net.ruleset is not None
    found: dict[Path, int] = {}
    for rule in net.rules:
        if rule.path not in SINKS and rule.path.name != "raw":
            found[rule.path] = found.get(rule.path, 0) | rule.rights
    return found


# The rules


@pytest.mark.landlock
@cases("confinement", "rules")
def test_what_is_opened_follows_from_the_target_the_touches_and_the_driver(
    case: dict[str, Any], tmp_path: Path
) -> None:
    def paths(*keys: str) -> list[Path]:
        return [tmp_path / name for key in keys for name in case.get(key, ())]

    for folder in paths("folders"):
        folder.mkdir()
    for file in paths("made"):
        file.touch()
    for link, target in case.get("links", {}).items():
        (tmp_path / link).symlink_to(tmp_path / target)
    loaded = case.get("load") or case.get("reads")
    load = Load("any", tmp_path / loaded, 1, "reads" in case) if loaded else NOTHING
    touches = [*(Touch(path, WRITE) for path in paths("writes")), *(Touch(path, READ) for path in paths("looks_at"))]
    beside = Confinement(layouts=paths("layouts"), host=paths("host"))
    with spread(tmp_path / "raw", load, touches, beside) as net:
        assert rights(net) == {tmp_path / name: getattr(landlock, kind) for name, kind in case["rights"].items()}
        assert net.environment == {"TMPDIR": str(tmp_path / "raw")} and net.warnings == []
        assert has(
            net.document["may_change"], {str(tmp_path / name): [says] for name, says in case.get("says", {}).items()}
        )
        (raw,) = (rule for rule in net.rules if rule.path == tmp_path / "raw")
        assert not raw.rights & MAKE_SYM, "the tool could lead the lab elsewhere"
        assert all(path.exists() for path in paths("made_meanwhile"))
        assert all(path.parent.is_dir() and not path.exists() for path in paths("layouts"))
        if "moves" in case:
            old, new = paths("moves")
            old.replace(new)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*case.get("made", ()), *case.get("kept", ())} - {*case.get("moves", ())[:1]}


def test_the_files_of_the_host_that_a_driver_changes_are_those_of_its_parameters() -> None:
    assert driver("filesuite").confinement({"cache": "drop-all"}).host == [Path("/proc/sys/vm/drop_caches")]
    assert driver("filesuite").confinement({"cache": "drop"}).host == []


# What is not confined is said


@pytest.mark.landlock
def test_a_program_of_a_user_that_would_lose_its_privileges_is_not_confined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o4755)
    with spread(tmp_path / "raw", programs=[str(program)]) as net:
        assert (net.ruleset is None) == landlock.needs_no_new_privs()
    monkeypatch.setattr(landlock, "needs_no_new_privs", lambda: True)
    with spread(tmp_path / "raw", programs=["true", str(program)]) as net:
        assert str(program) in net.warnings[0].text
    with spread(tmp_path / "raw", programs=["true"]) as net:
        assert net.ruleset is not None


def test_which_drivers_are_never_confined() -> None:
    params = {"stress_ng": {"stressor": "cpu"}, "db_bench": {"benchmarks": "fillseq"}}
    waived = [name for name in DRIVERS if driver(name).confinement(params.get(name, {})).waiver]
    assert waived == ["stress_ng"]


# Which files fio makes, replaces and removes


def of_job(text: str, folder: Path) -> Confinement:
    return Fio().confinement({"job": text, "job_path": str(folder / "j.fio"), "job_folder": str(folder)})


@cases("confinement", "jobs")
def test_a_job_opens_the_folder_only_for_files_that_it_lays_out_or_removes(
    case: dict[str, Any], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.write_bytes(bytes(4096))
    options = case["options"] if "filename=" in case["options"] else f"filename={there}\n{case['options']}"
    found = of_job(f"[a]\n{options}\n", tmp_path)
    if "waiver" in case:
        assert case["waiver"] in found.waiver
        return
    assert (found.waiver, list(found.layouts)) == ("", [tmp_path / name for name in case["layouts"]])
    assert [str(path) for path in found.host] == case.get("host", [])


PRECIOUS = b"precious" * 1024
ALLOWED = CORPUS / "confinement" / "allowed.fio"


class Stubborn:
    """A kernel that makes rulesets and lets nobody enter them."""

    def __init__(self) -> None:
        self._real = Linux()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def restrict(self, ruleset: int, no_new_privs: bool) -> int:
        return errno.E2BIG


KERNELS = {"absent": Absent, "stubborn": Stubborn}


class Blind(Fio):
    """fio's driver as if it had overlooked every path that its job names."""

    def touches(self, params: Any) -> Sequence[Touch]:
        return ()

    def confinement(self, params: Any) -> Confinement:
        return Confinement()


Recorded = tuple[Record, dict[str, Any]]
"""A trial's record, and its CONFINEMENT."""


def record_of(root: Path, table: dict[str, Any], own: Any = None, consent: Sequence[str] = ()) -> Recorded:
    """The only trial of a study."""
    (recorded,) = records_of(root, table, own, consent)
    return recorded


def records_of(root: Path, table: dict[str, Any], own: Any = None, consent: Sequence[str] = ()) -> list[Recorded]:
    watch = {"monitors": [], "witness": "off", **table.pop("watch", {})}
    made = make_study({"name": "s", "title": "S", **table, "repetitions": 1, "watch": watch}, "s.toml")
    store = RunStore.create(root, Suite(name="s", title="S", studies=[made]), {})
    bench = preflight.Bench(made, own or driver(made.driver), Consent(consent), root.parent)
    preflight.ready_tools([bench])
    run.execute(store, [bench], Progress())
    folders = [(record, store.folder(str(record.trial["id"]))) for record in store.records()]
    return [(record, json.loads((folder / "raw" / CONFINEMENT).read_text())) for record, folder in folders]


def job_table(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    return {
        key: value for key, value in job_study(text, folder / "j.fio").items() if key not in ("figures", "analysis")
    }


@cases("confinement", "trials")
def test_a_trial_changes_what_was_approved_and_nothing_else(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(case, {"{here}": str(tmp_path)}, tmp_path, monkeypatch)


@cases("confinement", "devices")
def test_a_trial_changes_a_device_only_where_that_was_approved(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loop_device: Callable[..., Path]
) -> None:
    device = loop_device(1 << 20)
    if case.get("precious"):
        device.write_bytes(PRECIOUS * 128)
    check(case, {"{here}": str(tmp_path), "{device}": str(device)}, tmp_path, monkeypatch)
    assert not case.get("precious") or device.read_bytes() == PRECIOUS * 128


def check(case: dict[str, Any], names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the only trial of a row, and compare its record and what it left with the row."""
    others = tmp_path / "others"
    others.mkdir()
    (others / "precious").write_bytes(PRECIOUS)
    before = (others / "precious").stat()
    case = placed(case, names)
    if "kernel" in case:
        monkeypatch.setattr(landlock, "Linux", KERNELS[case["kernel"]])
    table = job_table(tmp_path, case["job"], monkeypatch) if "job" in case else case["study"]
    record, document = record_of(tmp_path / "run", table, Blind() if case.get("blind") else None)
    assert record.status == (FAILED if "reason" in case else OK), record.reason
    assert [piece for piece in case.get("reason", ()) if piece not in record.reason] == []
    warnings = [warning.text for warning in record.warnings if warning.code == CODE]
    assert document["confined"] is ("unconfined" not in case) is (warnings == [])
    assert all(case["unconfined"] in text for text in [*warnings, *([document["why"]] if warnings else ())])
    assert has(document.get("may_change", {}), case.get("may_change", {}))
    assert case.get("closed") not in document.get("may_change", {})
    for found in (tmp_path / "run").glob("trials/*/raw/conditions.json"):
        assert has(json.loads(found.read_text())["took_effect"], case.get("conditions", {}))
    assert os.listdir(others) == ["precious"] and (others / "precious").read_bytes() == PRECIOUS
    after = (others / "precious").stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def placed(value: Any, names: dict[str, str]) -> Any:
    """The same with the names of this trial in its texts."""
    if isinstance(value, dict):
        return {placed(key, names): placed(inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [placed(inner, names) for inner in value]
    for name, path in names.items() if isinstance(value, str) else ():
        value = value.replace(name, path)
    return value


@pytest.mark.fio
@pytest.mark.landlock
def test_everything_that_a_job_may_do_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("made/here", "files"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("there", "buffers-too"):  # fio makes no file for mmapshared long enough (alloc_mem_mmap in memory.c)
        (tmp_path / name).write_bytes(bytes(65536))
    consent = [str(tmp_path / "there"), str(tmp_path / "buffers-too")]
    record, document = record_of(
        tmp_path / "run",
        job_table(tmp_path, ALLOWED.read_text(), monkeypatch),
        consent=consent,
    )
    assert (record.status, record.reason) == (OK, "")
    assert document["confined"] and CODE not in {warning.code for warning in record.warnings}
    names = {path.name for path in tmp_path.iterdir()}
    assert {"one", "two", "three", "six", "seven", "eight", "nine", "ten", "made", "files", "buffers-too"} <= names
    assert not {"four", "buffers"} & names  # fio makes the fifth again for its second loop
    assert (tmp_path / "made" / "here" / "job-1" / "file-1").stat().st_size == 65536 // 2
    assert any(name.startswith("bw_bw") for name in record.raw)
    assert any("verify.state" in name for name in record.raw)


@pytest.mark.strace
@pytest.mark.landlock
@pytest.mark.parametrize("wrap", [strace.wrap, strace_summary.wrap])
def test_a_tool_under_strace_is_confined_and_strace_writes_its_own_output(
    tmp_path: Path, wrap: Callable[[Sequence[str], Path], list[str]]
) -> None:
    raw, precious = tmp_path / "raw", tmp_path / "precious"
    raw.mkdir()
    with confinement.spread(NOTHING, (), raw, Confinement(), [strace.PROGRAM]) as net:
        outcome = supervisor.run(
            wrap(["sh", "-c", f"echo x > {precious}"], raw / "calls"),
            stdout=raw / "stdout",
            stderr=raw / "stderr",
            timeout_s=600,
            confine=net.ruleset,
        )
    assert outcome.exit_code and not precious.exists()
    assert (raw / "calls").stat().st_size > 0


@pytest.mark.fio
@pytest.mark.strace
@pytest.mark.landlock
def test_trials_that_have_their_calls_counted_are_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys.modules["ioassay.verify.witness.observed_command"], "counter", lambda: ("strace", "by this test")
    )
    target = {"kind": "file", "path": str(tmp_path / "file"), "size": "1MiB"}
    params = {"rw": "randwrite", "bs": "64k", "ioengine": "psync"}
    table = {"driver": "fio", "target": target, "params": params, "watch": {"calls": True}}
    found = records_of(tmp_path / "run", table)
    assert [record.status for record, _ in found] == [OK] * 2
    assert all(document["confined"] for _, document in found)
    assert sum("summary.strace" in record.raw for record, _ in found) == 1


@pytest.mark.fio
@pytest.mark.landlock
def test_a_job_that_hides_its_path_from_the_reader_writes_nothing(tmp_path: Path) -> None:
    """Behind a long line or a vertical tab, and whichever net catches it."""
    precious, folder = tmp_path / "others" / "precious", tmp_path / "job"
    precious.parent.mkdir()
    precious.write_bytes(PRECIOUS)
    folder.mkdir()
    behind_a_long_line = "description=".ljust(8191, "x") + f"filename={precious}"
    for line in (behind_a_long_line, f"filename={precious}\ndescription=x\x0bioengine=null"):
        (folder / "j.fio").write_text(f"[a]\nsize=4k\nrw=write\n{line}\n")
        answer = ask("run", "j.fio", "--repetitions", 1, cwd=folder)
        assert precious.read_bytes() == PRECIOUS
        assert answer.code != 0, answer.out
    command_server.end()


class Rehearsed(Driver):
    """A driver whose tool writes while it is only asked how it reads its parameters."""

    def __init__(self, place: Path) -> None:
        self.place, self.said = place, ""

    def rehearsal(self, params: Any, folder: Path) -> Rehearsal | None:
        line = f"echo x > {self.place}; cat job; echo y > beside"
        return Rehearsal(Command(["sh", "-c", line], 60, files={"job": "text"}, cwd=folder), "reading", self.confirm)

    def confirm(self, said: str, complaints: str) -> Sequence[Any]:
        self.said = said
        assert complaints.count("Permission denied") == 1
        return ()


@pytest.mark.landlock
def test_a_tool_that_is_asked_how_it_reads_its_parameters_writes_nothing_elsewhere(tmp_path: Path) -> None:
    tool = Rehearsed(tmp_path / "precious")  # type: ignore[abstract]
    made = make_study({"name": "s", "title": "S", "driver": "null"}, "s.toml")
    assert preflight.rehearse(preflight.Bench(made, tool, Consent()), {}) == ()
    assert tool.said == "text"
    assert not (tmp_path / "precious").exists()
