"""What a user or a container lacks is said before a run begins, with what gives it; tried for real by setpriv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ioassay.host import process_capabilities
from ioassay.host.process_capabilities import BPF, PERFMON, SYS_ADMIN

FakeRoot = Callable[..., Path]
IOASSAY = [sys.executable, "-I", "-m", "ioassay"]
DOCKER = 0x00000000A80425FB
"""The capabilities of a container of Docker, which has neither CAP_SYS_ADMIN nor CAP_BPF and CAP_PERFMON."""
ALL = 0x1FFFFFFFFFF
AS_ROOT = "run as root (with sudo)"
WITHHELD = "--bounding-set=-sys_admin,-bpf,-perfmon"
"""As in such a container, for setpriv: what root starts lacks them as well."""
FUSE = "start the container with --device=/dev/fuse --cap-add=SYS_ADMIN (docker or podman run)"


@pytest.fixture
def container() -> list[str]:
    """The words in front of a command that run it as the root of a container."""
    return [shutil.which("setpriv") or pytest.skip("needs setpriv on PATH: apt-get install util-linux"), WITHHELD]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="capabilities-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def done(argv: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "XDG_STATE_HOME": str(folder)}
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False)


def status(effective: int, bounding: int) -> dict[str, str]:
    return {"proc/self/status": f"Name:\tx\nCapEff:\t{effective:016x}\nCapBnd:\t{bounding:016x}\n"}


@pytest.mark.parametrize(
    ("user", "effective", "bounding", "remedy"),
    [
        (1000, 0, ALL, AS_ROOT),
        (1000, 0, DOCKER, "start the container with --cap-add=BPF (docker or podman run); it withholds CAP_BPF"),
        (0, DOCKER, DOCKER, "start the container with --cap-add=BPF (docker or podman run); it withholds CAP_BPF"),
    ],
)
def test_who_lacks_a_capability_is_told_how_to_get_it(
    user: int, effective: int, bounding: int, remedy: str, fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    root = fake_root(status(effective, bounding))
    assert not process_capabilities.is_held(BPF, root)
    assert process_capabilities.is_withheld(BPF, root) == (bounding == DOCKER)
    assert process_capabilities.remedy(BPF, root=root) == remedy


def test_several_are_named_with_an_option_each() -> None:
    assert process_capabilities.of_container(PERFMON, BPF) == (
        "start the container with --cap-add=PERFMON --cap-add=BPF (docker or podman run); "
        "it withholds CAP_PERFMON and CAP_BPF"
    )


@pytest.mark.parametrize("tree", [{}, {"proc/self/status": "Name:\tx\n"}, {"proc/self/status": "CapEff:\tzz\n"}])
def test_a_kernel_that_says_nothing_withholds_nothing(tree: dict[str, str], fake_root: FakeRoot) -> None:
    root = fake_root(tree)
    assert process_capabilities.is_held(SYS_ADMIN, root) and not process_capabilities.is_withheld(SYS_ADMIN, root)
    assert process_capabilities.fuse_obstacle(root) == ""


@pytest.mark.root
@pytest.mark.rocksdb
def test_a_study_of_which_no_trial_can_run_is_refused_at_once(
    folder: Path, nobody: list[str], container: list[str]
) -> None:
    for words, remedy in ((nobody, AS_ROOT), (container, "start the container with --privileged")):
        refused = done([*words, *IOASSAY, "run", "rocksdb", "--scale", "quick"], folder)
        assert refused.returncode == 1 and refused.stdout == "", refused.stdout
        assert "no trial can run here, so nothing was begun: rocksdb: a virtual drive as a folder" in refused.stderr
        assert remedy in refused.stderr
        assert not (folder / "runs").exists()
    planned = done([*nobody, *IOASSAY, "plan", "rocksdb", "--scale", "quick"], folder)
    assert planned.returncode == 0 and f"remedy: {AS_ROOT}" in planned.stderr


@pytest.mark.root
def test_a_run_of_which_some_trials_can_run_goes_on(folder: Path, nobody: list[str]) -> None:
    (folder / "some.toml").write_text(
        'title = "Some"\ndriver = "command"\n[params]\nargv = ["true"]\n'
        '[factors]\n"run.nice" = [0, -1]\n[watch]\nmonitors = []\nwitness = "off"\n'
    )
    run = [*nobody, *IOASSAY, "run", "some.toml", "--allow-exec"]
    ended = json.loads(done([*run, "--output", "run", "--json"], folder).stdout)
    assert (ended["trials"]["ok"], ended["trials"]["skipped"]) == (1, 1)
    alone = done([*run, "--factor", "run.nice=-1", "--output", "alone"], folder)
    assert alone.returncode == 1 and "run.nice = -1: the kernel refused" in alone.stderr
    assert not (folder / "alone").exists()


@pytest.mark.root
def test_a_drive_by_fuse_names_the_options_of_a_container(folder: Path, container: list[str]) -> None:
    (folder / "drive").touch()
    served = done([*container, *IOASSAY, "device", "serve", "--size", "1MiB", "--transport", "fuse:drive"], folder)
    assert served.returncode == 1
    assert served.stderr == (
        f"ioassay: fuse:drive: a drive cannot be mounted here; {FUSE}; it withholds CAP_SYS_ADMIN\n"
    )


@pytest.mark.root
def test_the_witness_names_the_options_of_a_container(folder: Path, container: list[str]) -> None:
    wanted = "--cap-add=PERFMON --cap-add=BPF"
    found = json.loads(done([*container, *IOASSAY, "witness", "--json", "--", "true"], folder).stdout)
    assert found["backend"] == "counters" and wanted in found["why"] and "run as root" not in found["why"]
    host = json.loads(done([*container, *IOASSAY, "doctor", "--json"], folder).stdout)
    (warning,) = [each for each in host["warnings"] if each["code"] == "no-witness"]
    assert wanted in warning["remedy"] and "run as root" not in warning["text"]


@pytest.mark.root
def test_a_user_is_told_to_become_root(folder: Path, nobody: list[str]) -> None:
    found = json.loads(done([*nobody, *IOASSAY, "witness", "--json", "--", "true"], folder).stdout)
    assert "missing CAP_PERFMON and CAP_BPF: run as root" in found["why"] and "container" not in found["why"]
