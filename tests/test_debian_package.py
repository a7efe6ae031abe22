"""The package for Debian and the image of a container, built of the wheel of `./check wheel` and used in a bare root.

The roots are in .setup/debian (setup/packages.sh), that of this system's suite at least. Each test sees one through an
overlay, without a network.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import ioassay

ROOT = Path(__file__).parent.parent
ROOTS = ROOT / ".setup" / "debian"
WHEELS = Path(os.environ.get("IOASSAY_WHEELS") or ROOT / "target" / "wheels")
SCRIPTS = ROOT / "tests" / "corpus" / "debian"
OWN_SUITE = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
SUITES = [suite for suite in ("bookworm", "trixie") if suite == OWN_SUITE or (ROOTS / suite).exists()]

pytestmark = [pytest.mark.root, pytest.mark.wheel, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on the disk, which root's processes in other roots can enter; an overlay lies on no other overlay."""
    folder = Path(tempfile.mkdtemp(prefix="ioassay-debian-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=SUITES)
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of a suite, in a folder of its own."""
    wheels = sorted(WHEELS.glob("ioassay-*-abi3-*.whl"))
    if not wheels:
        pytest.skip(f"needs the wheel: none in {WHEELS}; ./check wheel builds it")
    if not (ROOTS / request.param).exists():
        pytest.skip(f"needs a bare root of {request.param} in {ROOTS}: see .setup/setup.log")
    folder = tmp_path_factory.mktemp(request.param)
    done = run(["sh", str(ROOT / "setup/debian-package.sh"), request.param, str(folder), str(wheels[0])])
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.split()[-1])


def run(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **more}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=800)


def bare_root(package: Path) -> Path:
    """That of the suite for which the package is."""
    return ROOTS / ("trixie" if "~deb13" in package.name else "bookworm")


def test_the_package_says_what_it_is_and_what_it_needs(package: Path) -> None:
    fields = dict(
        line.split(": ", 1) for line in run(["dpkg-deb", "--field", str(package)]).stdout.splitlines() if ": " in line
    )
    version, _, release = fields["Version"].partition("-")
    assert (fields["Package"], version, release) == ("ioassay", ioassay.__version__, f"1~{package.name[-15:-10]}")
    needs = fields["Depends"].split(", ")
    assert "fio" in needs and any(need.startswith("libc6 (>= 2.") for need in needs)
    python = "3.13" if bare_root(package).name == "trixie" else "3.11"
    assert f"python3 (>= {python})" in needs


def test_lintian_finds_no_fault_in_the_package(package: Path) -> None:
    if not shutil.which("lintian"):
        pytest.skip("needs lintian on PATH: apt-get install lintian")
    done = run(["lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", str(package)])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_package_is_installed_used_and_purged_without_a_trace(package: Path, disk: Path) -> None:
    for name in ("upper", "work", "root"):
        (disk / name).mkdir()
    words = [str(bare_root(package)), str(disk), str(package), str(ROOT / "setup/debian-trial.sh")]
    alone = ["unshare", "--mount", "--pid", "--fork", "--net", "--propagation", "private"]
    done = run([*alone, "sh", str(SCRIPTS / "bare_root.sh"), *words])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ioassay {ioassay.__version__}\n" in done.stdout
    assert done.stdout.endswith("debian-trial: all is well\n")


def test_the_containerfile_makes_an_image_of_the_package(package: Path, disk: Path) -> None:
    if not shutil.which("buildah"):
        pytest.skip("needs buildah on PATH: apt-get install buildah")
    words = [str(disk), str(bare_root(package)), str(ROOT / "Containerfile"), str(package.parent)]
    alone = ["unshare", "--mount", "--net", "--propagation", "private"]
    done = run([*alone, "sh", str(SCRIPTS / "image.sh"), *words], BUILDAH_ISOLATION="chroot", TMPDIR=str(disk))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"ioassay {ioassay.__version__}", "[ioassay] map[/data:{}]"]
    assert '"trials"' in (disk / "plan.json").read_text()
