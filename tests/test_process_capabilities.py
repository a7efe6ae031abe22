"""What a user or a container lacks is said before a run begins, with what gives it; tried for real by setpriv."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ioassay.host import process_capabilities
from ioassay.host.process_capabilities import BPF, PERFMON, SYS_ADMIN

from .cli.command_server import CommandServer
from .cli.conftest import Answer

FakeRoot = Callable[..., Path]
DOCKER = 0x00000000A80425FB
"""The capabilities of a container of Docker, which has neither CAP_SYS_ADMIN nor CAP_BPF and CAP_PERFMON."""
ALL = 0x1FFFFFFFFFF
AS_ROOT = "run as root (with sudo)"
WITHHELD = "--bounding-set=-sys_admin,-bpf,-perfmon"
"""As in such a container, for setpriv: what root starts lacks them as well."""
FUSE = "start the container with --device=/dev/fuse --cap-add=SYS_ADMIN (docker or podman run)"


Asked = Callable[..., Answer]


def server(words: list[str]) -> Iterator[Asked]:
    """A function that asks the command line behind these words, which one Python starts for all questions."""
    commands = CommandServer(ahead=words)

    def asked(folder: Path, *argv: str) -> Answer:
        environment = {**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder)}
        return Answer(*commands.run(argv, folder, environment, 300))

    yield asked
    commands.close()


@pytest.fixture(scope="module")
def of_container() -> Iterator[Asked]:
    """Asks as the root of a container."""
    setpriv = shutil.which("setpriv") or pytest.skip("needs setpriv on PATH: apt-get install util-linux")
    yield from server([setpriv, WITHHELD])


@pytest.fixture(scope="module")
def of_user(nobody: list[str]) -> Iterator[Asked]:
    """Asks as a user without rights."""
    yield from server(nobody)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="capabilities-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.mark.parametrize(
    ("user", "effective", "bounding", "remedy"),
    [(1000, 0, ALL, AS_ROOT), (1000, 0, DOCKER, ""), (0, DOCKER, DOCKER, "")],
)
def test_who_lacks_a_capability_is_told_how_to_get_it(
    user: int, effective: int, bounding: int, remedy: str, fake_root: FakeRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    root = fake_root({"proc/self/status": f"Name:\tx\nCapEff:\t{effective:016x}\nCapBnd:\t{bounding:016x}\n"})
    of_container = "start the container with --cap-add=BPF (docker or podman run); it withholds CAP_BPF"
    assert not process_capabilities.is_held(BPF, root)
    assert process_capabilities.is_withheld(BPF, root) == (bounding == DOCKER)
    assert process_capabilities.remedy(BPF, root=root) == (remedy or of_container)
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
    folder: Path, of_user: Asked, of_container: Asked
) -> None:
    for asked, remedy in ((of_user, AS_ROOT), (of_container, "start the container with --privileged")):
        refused = asked(folder, "run", "rocksdb", "--scale", "quick")
        assert (refused.code, refused.out) == (1, "")
        assert "no trial can run on this host; nothing was started: rocksdb: a virtual drive as a folder" in refused.err
        assert remedy in refused.err
        assert not (folder / "runs").exists()
    planned = of_user(folder, "plan", "rocksdb", "--scale", "quick")
    assert planned.code == 0 and f"remedy: {AS_ROOT}" in planned.err


@pytest.mark.root
def test_a_run_of_which_some_trials_can_run_goes_on(folder: Path, of_user: Asked) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)  # the only one that a user may keep, where these tests are niced
    (folder / "some.toml").write_text(
        'title = "Some"\ndriver = "command"\n[params]\nargv = ["true"]\n'
        f'[factors]\n"run.nice" = [{own}, {own - 1}]\n[watch]\nmonitors = []\nwitness = "off"\n'
    )
    words = ("run", "some.toml", "--allow-exec")
    ended = of_user(folder, *words, "--output", "run", "--json").json
    assert (ended["trials"]["ok"], ended["trials"]["skipped"]) == (1, 1)
    alone = of_user(folder, *words, "--factor", f"run.nice={own - 1}", "--output", "alone")
    assert alone.code == 1 and f"run.nice = {own - 1}: the kernel refused" in alone.err
    assert not (folder / "alone").exists()


@pytest.mark.root
def test_a_drive_by_fuse_names_the_options_of_a_container(folder: Path, of_container: Asked) -> None:
    (folder / "drive").touch()
    served = of_container(folder, "device", "serve", "--size", "1MiB", "--transport", "fuse:drive")
    refusal = f"ioassay: fuse:drive: a drive cannot be mounted here; {FUSE}; it withholds CAP_SYS_ADMIN\n"
    assert (served.code, served.err) == (1, refusal)


@pytest.mark.root
def test_the_witness_names_the_options_of_a_container_and_tells_a_user_to_become_root(
    folder: Path, of_user: Asked, of_container: Asked
) -> None:
    wanted = "--cap-add=PERFMON --cap-add=BPF"
    found = of_container(folder, "witness", "--json", "--", "true").json
    assert found["backend"] == "counters" and wanted in found["why"] and "run as root" not in found["why"]
    host = of_container(folder, "doctor", "--json").json
    assert {"facts", "warnings", "unable", "plugins", "realtime_share"} == host.keys()
    assert all({"code", "text", "remedy"} == each.keys() for each in (*host["warnings"], *host["unable"]))
    (warning,) = [each for each in host["warnings"] if each["code"] == "no-witness"]
    assert wanted in warning["remedy"] and "run as root" not in warning["text"]
    found = of_user(folder, "witness", "--json", "--", "true").json
    assert "missing CAP_PERFMON and CAP_BPF: run as root" in found["why"] and "container" not in found["why"]
