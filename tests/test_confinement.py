"""What a trial may change: Landlock's rulesets, the rules of a trial, and real tools under them.

Rulesets ask each version of the interface for the rights that it knows. Rules follow from the target, the touches and
the driver of a trial. What was overlooked stays whole, and all else works as before.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers import DRIVERS, driver
from ioassay.packs.fio.driver import Fio
from ioassay.packs.fio.driver.jobfile import job_study
from ioassay.packs.strace import observer as strace
from ioassay.process import landlock, supervisor
from ioassay.process.landlock import FILE, FOLDER, IOCTL_DEV, MAKE_SYM, REFER, TRUNCATE, Linux, Rule, Ruleset
from ioassay.records.record import FAILED, OK, Record
from ioassay.roles import READ, WRITE, Command, Confinement, Consent, Driver, Load, Outcome, Rehearsal, Touch
from ioassay.runner import confinement, preflight, run
from ioassay.runner.confinement import CODE, CONFINEMENT, SINKS, Net
from ioassay.runner.progress import Progress
from ioassay.store.run_folder import RunStore
from ioassay.study.model import Suite, make_study
from ioassay.verify.witness import observed_command

from .cli import command_server
from .cli.conftest import ask
from .corpora import CORPUS, cases, has, rows


class FakeKernel(Linux):
    """A kernel with one version of the interface; as strict as the real one about rights that it does not know."""

    def __init__(self, abi: int, *, error: int = 0, refusal: int = 0) -> None:
        self._abi, self._error, self._refusal = abi, error, refusal
        self.handled = 0
        self.rules: list[tuple[int, bool]] = []
        self.no_new_privs: bool | None = None

    def abi(self) -> int:
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        return self._abi

    def create(self, handled: int) -> int:
        known = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(self._abi, 16)) - 1
        if not handled or handled & ~known:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.handled = handled
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def add(self, ruleset: int, rights: int, parent: int) -> None:
        is_folder = Path(f"/proc/self/fd/{parent}").is_dir()
        if not rights or rights & ~self.handled or (not is_folder and rights & ~FILE):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self.rules.append((rights, is_folder))

    def restrict(self, ruleset: int, no_new_privs: bool) -> int:
        self.no_new_privs = no_new_privs
        return self._refusal


@pytest.mark.parametrize("abi", range(1, 10))
def test_a_kernel_is_asked_only_for_the_rights_that_its_version_knows(abi: int, tmp_path: Path) -> None:
    kernel, file = FakeKernel(abi), tmp_path / "file"
    file.touch()
    with Ruleset([Rule(tmp_path, FOLDER), Rule(file, FILE), Rule(file, FOLDER)], kernel) as ruleset:
        assert ruleset.abi == abi
        assert len(ruleset.granted) == 3
    for right, since in ((REFER, 2), (TRUNCATE, 3), (IOCTL_DEV, 5)):
        assert bool(kernel.handled & right) == (abi >= since)
    (folder, _), (alone, _), (narrowed, _) = kernel.rules
    assert folder == FOLDER & kernel.handled
    assert alone == FILE & kernel.handled
    assert narrowed == FOLDER & FILE & kernel.handled


@pytest.mark.parametrize(("abi", "gaps"), [(0, 0), (1, 2), (2, 2), (3, 1), (4, 1), (5, 0), (7, 0)])
def test_what_an_older_kernel_cannot_stop_is_said(abi: int, gaps: int) -> None:
    assert len(landlock.Support(abi).gaps) == gaps


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSYS, "5.13"), (errno.EOPNOTSUPP, "lsm="), (errno.EPERM, "seccomp"), (errno.EIO, "")],
)
def test_a_kernel_without_landlock_says_why(number: int, remedy: str) -> None:
    able = landlock.support(FakeKernel(7, error=number))
    assert able.abi == 0
    assert able.why and remedy in able.why


def test_what_is_not_there_grants_nothing(tmp_path: Path) -> None:
    with Ruleset([Rule(tmp_path / "absent", FILE)], FakeKernel(7)) as ruleset:
        assert ruleset.granted == []


def test_a_rule_that_the_kernel_refuses_leaves_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADFD, os.strerror(errno.EBADFD))

    monkeypatch.setattr(FakeKernel, "add", refuse)
    before = {*os.listdir("/proc/self/fd")}
    with pytest.raises(OSError, match=os.strerror(errno.EBADFD)):
        Ruleset([Rule(tmp_path, FOLDER)], FakeKernel(7))
    assert {*os.listdir("/proc/self/fd")} <= before


@pytest.mark.parametrize(
    ("capabilities", "needed"), [("000001ffffffffff", False), ("00000000a80425fb", True), ("0000000000000000", True)]
)
def test_only_who_lacks_cap_sys_admin_gives_up_new_privileges(tmp_path: Path, capabilities: str, needed: bool) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapEff:\t{capabilities}\nNoNewPrivs:\t0\n")
    assert landlock.needs_no_new_privs(status) is needed


@pytest.mark.root
def test_programs_with_privileges_of_their_own_are_known(tmp_path: Path) -> None:
    plain, setuid, capable = (tmp_path / name for name in ("plain", "setuid", "capable"))
    for program in (plain, setuid, capable):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o4755 if program == setuid else 0o755)
    # struct vfs_cap_data of linux/capability.h, revision 2, effective: CAP_SYS_RAWIO
    os.setxattr(capable, "security.capability", bytes.fromhex("0100000200000200000000000000000000000000"))
    assert [landlock.gains_privileges(str(each)) for each in (plain, setuid, capable)] == [False, True, True]
    assert not landlock.gains_privileges("no-such-program")


def supervised(folder: Path, confine: Ruleset, *argv: str) -> Outcome:
    made = folder / "said"
    made.mkdir(exist_ok=True)
    return supervisor.run(argv, stdout=made / "out", stderr=made / "err", timeout_s=600, cwd=folder, confine=confine)


def test_a_tool_runs_where_the_kernel_refuses_to_confine_it(tmp_path: Path) -> None:
    with Ruleset([], FakeKernel(7, refusal=errno.EPERM)) as ruleset:
        outcome = supervised(tmp_path, ruleset, "echo", "hello")
    assert outcome.exit_code == 0
    assert outcome.unconfined == os.strerror(errno.EPERM)
    assert outcome.stdout.read_text() == "hello\n"


CALLS = """
import errno, json, os, sys
folders, own, calls = map(json.loads, sys.argv[1:])
said = []
for folder in folders:
    for number, (call, words) in enumerate(calls):
        os.chdir(f"{folder}/{number}")
        os.dup2(os.open("precious", os.O_RDONLY), 9)
        places = {"own": own, "parent": os.getppid()}
        texts = [word.format(**places) if isinstance(word, str) else word for word in words]
        given = [sum(getattr(os, one) for one in word.split("|")) if str(word)[:2] == "O_" else word for word in texts]
        try:
            getattr(os, call)(*given)
            said.append("done")
        except OSError as error:
            said.append(errno.errorcode[error.errno])
print(json.dumps(said))
"""


def seen(folder: Path) -> dict[str, object]:
    """Everything below a folder: name -> content and time of the last change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (content, status.st_mtime_ns, status.st_ino, status.st_size)
    return found


def filled(folder: Path) -> Path:
    """A folder with what may be spoilt."""
    (folder / "empty").mkdir(parents=True)
    (folder / "precious").write_text("precious")
    (folder / "neighbour").write_text("neighbour")
    (folder / "link").symlink_to("precious")
    return folder


@pytest.mark.landlock
def test_everything_is_done_where_it_is_granted_and_nothing_elsewhere(tmp_path: Path) -> None:
    calls = rows("confinement", "calls")
    own, mine, others = (tmp_path / name for name in ("own", "mine", "others"))
    own.mkdir()
    (own / "source").write_text("source")
    for number in range(len(calls)):
        filled(mine / str(number))
        filled(others / str(number))
    before = seen(others)
    words = [[str(others), str(mine)], str(own), [[call["call"], call["words"]] for call in calls]]
    with Ruleset([Rule(own, FOLDER), Rule(mine, FOLDER)]) as ruleset:
        outcome = supervised(tmp_path, ruleset, sys.executable, "-c", CALLS, *map(json.dumps, words))
    assert (outcome.unconfined, outcome.exit_code) == ("", 0), outcome.stderr.read_text()
    said = json.loads(outcome.stdout.read_text())
    names = [call["id"] for call in calls]
    refused, granted = dict(zip(names, said, strict=False)), dict(zip(names, said[len(calls) :], strict=True))
    assert {name: result for name, result in refused.items() if result not in ("EACCES", "EXDEV")} == {}
    assert {name for name, result in granted.items() if result != "done"} == {c["id"] for c in calls if "never" in c}
    assert seen(others) == before


@pytest.mark.landlock
def test_a_rule_on_a_file_leaves_its_neighbours_alone_and_dies_with_it(tmp_path: Path) -> None:
    others = filled(tmp_path / "others")
    script = f"cd '{others}'; echo x > neighbour; rm neighbour; (echo y > precious); echo > /dev/null; cat neighbour"
    with Ruleset([Rule(others / "neighbour", FILE), Rule(Path("/dev/null"), FILE)]) as ruleset:
        outcome = supervised(tmp_path, ruleset, "sh", "-c", script)
    assert outcome.stdout.read_text() == (others / "neighbour").read_text() == "x\n"
    assert (others / "precious").read_text() == "precious"
    assert outcome.stderr.read_text().count("Permission denied") == 2


@pytest.mark.landlock
@pytest.mark.root
def test_a_device_that_may_not_be_written_answers_no_ioctl_that_would_trim_it(
    tmp_path: Path, loop_device: type[Path]
) -> None:
    device, given = loop_device(1 << 20), loop_device(1 << 20)
    for path in (device, given):
        path.write_bytes(b"x" * (1 << 20))
    # linux/fs.h: BLKDISCARD of an offset and a length, BLKGETSIZE64
    trim = (
        "import fcntl, os, sys; fcntl.ioctl(os.open(sys.argv[1], os.O_RDWR), 0x1277, bytes(8) + b'\\0\\x10' + bytes(6))"
    )
    size = "import fcntl, os, sys; print(fcntl.ioctl(os.open(sys.argv[1], 0), 0x80081272, bytes(8)) > bytes(8))"
    with Ruleset([Rule(given, FILE)]) as ruleset:
        python = partial(supervised, tmp_path, ruleset, sys.executable, "-c")
        assert python(trim, str(given)).exit_code == 0
        for program in (trim, size):
            assert "PermissionError" in python(program, str(device)).stderr.read_text()
    with Ruleset([Rule(device, IOCTL_DEV)]) as ruleset:
        python = partial(supervised, tmp_path, ruleset, sys.executable, "-c")
        assert python(size, str(device)).stdout.read_text() == "True\n"
        assert python(trim, str(device)).exit_code != 0
    assert device.read_bytes() == b"x" * (1 << 20)


OF_A_USER = """
import sys, tempfile, types
landlock = sys.modules["landlock"] = types.ModuleType("landlock")
exec(compile(sys.stdin.read(), "landlock", "exec"), landlock.__dict__)
with landlock.Ruleset([]) as ruleset:
    print(ruleset.enter())
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")][0])
try:
    tempfile.mkstemp(dir="/tmp")
except PermissionError:
    print("refused")
"""


@pytest.mark.landlock
@pytest.mark.root
def test_a_user_without_privileges_can_be_confined() -> None:
    python, source = str(Path(sys.executable).resolve()), Path(landlock.__file__).read_text()
    argv = [python, "-I", "-c", OF_A_USER]  # the checkout may be closed to that user
    done = subprocess.run(argv, input=source, capture_output=True, text=True, user=65534, cwd="/")
    assert done.stdout.split() == ["0", "1", "refused"], done.stderr


# The rules of a trial


NOTHING = Load("null", None, 0, False)


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
        says = {str(tmp_path / name): [text] for name, text in case.get("says", {}).items()}
        assert has(net.document["may_change"], says)
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


class Stubborn:
    """A kernel that makes rulesets and lets nobody enter them."""

    def __init__(self) -> None:
        self._real = Linux()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def restrict(self, ruleset: int, no_new_privs: bool) -> int:
        return errno.E2BIG


KERNELS = {"absent": partial(FakeKernel, 0, error=errno.ENOSYS), "stubborn": Stubborn}


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
    bench = preflight.PreparedStudy(made, own or driver(made.driver), Consent(consent), root.parent)
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
    for folder in case.get("folders", ()):
        (tmp_path / folder).mkdir(parents=True)
    approved = [tmp_path / name for name in case.get("approved", ())]
    for path in approved:
        path.write_bytes(bytes(65536))
    job = (CORPUS / "confinement" / case["file"]).read_text() if "file" in case else case.get("job")
    table = job_table(tmp_path, job, monkeypatch) if job else case["study"]
    own = Blind() if case.get("blind") else None
    record, document = record_of(tmp_path / "run", table, own, [str(path) for path in approved])
    assert record.status == (FAILED if "reason" in case else OK), record.reason
    assert [piece for piece in case.get("reason", ()) if piece not in record.reason] == []
    warnings = [warning.text for warning in record.warnings if warning.code == CODE]
    assert document["confined"] is ("unconfined" not in case) is (warnings == [])
    assert all(case["unconfined"] in text for text in [*warnings, *([document["why"]] if warnings else ())])
    assert has(document.get("may_change", {}), case.get("may_change", {}))
    assert case.get("closed") not in document.get("may_change", {})
    kept = list((tmp_path / "run").glob("trials/*/raw/conditions.json"))
    assert kept or "conditions" not in case
    for found in kept:
        assert has(json.loads(found.read_text())["took_effect"], case.get("conditions", {}))
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left >= {*case.get("left", ())} and not left & {*case.get("gone", ())}
    assert [piece for piece in case.get("raw", ()) if not any(piece in name for name in record.raw)] == []
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


@pytest.mark.strace
@pytest.mark.landlock
@pytest.mark.parametrize("wrap", [strace.wrap, strace.wrap_summary])
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
    monkeypatch.setattr(observed_command, "counter", lambda: observed_command.Choice("strace", "by this test"))
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
        return Rehearsal(Command(["sh", "-c", line], 240, files={"job": "text"}, cwd=folder), "reading", self.confirm)

    def confirm(self, said: str, complaints: str) -> Sequence[Any]:
        self.said = said
        assert complaints.count("Permission denied") == 1
        return ()


@pytest.mark.landlock
def test_a_tool_that_is_asked_how_it_reads_its_parameters_writes_nothing_elsewhere(tmp_path: Path) -> None:
    tool = Rehearsed(tmp_path / "precious")  # type: ignore[abstract]
    made = make_study({"name": "s", "title": "S", "driver": "null"}, "s.toml")
    assert preflight.rehearse(preflight.PreparedStudy(made, tool, Consent()), {}) == ()
    assert tool.said == "text"
    assert not (tmp_path / "precious").exists()
