"""Rulesets of Landlock: which rights each version of the interface is asked for, and what they stop for real."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ioassay.process import landlock, supervisor
from ioassay.process.landlock import FILE, FOLDER, IOCTL_DEV, LAYOUT, REFER, TRUNCATE, Rule, Ruleset
from ioassay.roles import Outcome

from .corpora import rows


class FakeKernel:
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


def test_no_right_to_make_device_nodes_is_ever_given() -> None:
    assert not (FOLDER | LAYOUT | FILE) & (landlock.MAKE_CHAR | landlock.MAKE_BLOCK)
    assert landlock.restrictable(1) & landlock.MAKE_BLOCK


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
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=os.strerror(errno.EBADFD)):
        Ruleset([Rule(tmp_path, FOLDER)], FakeKernel(7))
    assert sorted(os.listdir("/proc/self/fd")) == before


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


def run(folder: Path, confine: Ruleset, *argv: str) -> Outcome:
    made = folder / "said"
    made.mkdir(exist_ok=True)
    return supervisor.run(argv, stdout=made / "out", stderr=made / "err", timeout_s=600, cwd=folder, confine=confine)


def test_a_tool_runs_where_the_kernel_refuses_to_confine_it(tmp_path: Path) -> None:
    with Ruleset([], FakeKernel(7, refusal=errno.EPERM)) as ruleset:
        outcome = run(tmp_path, ruleset, "echo", "hello")
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
        outcome = run(tmp_path, ruleset, sys.executable, "-c", CALLS, *map(json.dumps, words))
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
        outcome = run(tmp_path, ruleset, "sh", "-c", script)
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
        assert run(tmp_path, ruleset, sys.executable, "-c", trim, str(given)).exit_code == 0
        assert "PermissionError" in run(tmp_path, ruleset, sys.executable, "-c", trim, str(device)).stderr.read_text()
        assert "PermissionError" in run(tmp_path, ruleset, sys.executable, "-c", size, str(device)).stderr.read_text()
    with Ruleset([Rule(device, IOCTL_DEV)]) as ruleset:
        assert run(tmp_path, ruleset, sys.executable, "-c", size, str(device)).stdout.read_text() == "True\n"
        assert run(tmp_path, ruleset, sys.executable, "-c", trim, str(device)).exit_code != 0
    assert device.read_bytes() == b"x" * (1 << 20)


OF_A_USER = """
import sys, types
landlock = sys.modules["landlock"] = types.ModuleType("landlock")
exec(compile(sys.stdin.read(), "landlock", "exec"), landlock.__dict__)
with landlock.Ruleset([]) as ruleset:
    print(ruleset.enter())
print([line.split()[1] for line in open("/proc/self/status") if line.startswith("NoNewPrivs")][0])
try:
    open("/tmp/ioassay-of-a-user", "w")
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
