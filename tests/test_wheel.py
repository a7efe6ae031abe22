"""The wheel and the source distribution that `./check wheel` builds: what is in them, and what a user has of them.

A release's wheel is built from the source distribution, for systems of 2018 on (--thorough); that of `./check` is of
this machine, and the source distribution has the same sources.
They are installed as users do it, by uvx, and of a release by pipx as well, with the Pythons of .setup/wheelhouse. That
folder has the wheels of the dependencies (setup/python.sh). The installed program finds no network, no compiler and not
the checkout.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import cache
from pathlib import Path

import pytest

import ioassay
from ioassay.cli import help

from .corpora import THOROUGH

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "target" / "wheels"
WHEELHOUSE = ROOT / ".setup" / "wheelhouse"
PYTHONS = {"3.11": "pipx", "3.13": "uvx"}
"""Each Python, and what installs the wheel with it. `./check` takes the last."""
NEWEST_C_LIBRARY = (2, 28)
COMPILERS = re.compile(r"(cargo|rustc|rustup|clang|gcc|cc|c\+\+|g\+\+|cpp|ld|make|cmake|python3?|ioassay)(-?[\d.]+)?")

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(1800)]


def built(pattern: str) -> Path:
    """The file of that name, which has the sources of now; skipped where it has not."""
    files = sorted(FOLDER.glob(pattern))
    if not files:
        pytest.skip(f"needs the wheel: no {pattern} in {FOLDER}; ./check wheel builds it")
    newest = max(
        path.stat().st_mtime for path in (ROOT / name for name in tracked("python", "crates", "docs", "pyproject.toml"))
    )
    if files[0].stat().st_mtime < newest:
        pytest.skip(f"needs the wheel: {files[0]} is older than the sources; ./check wheel builds it")
    return files[0]


def tracked(*places: str) -> set[str]:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *places]  # whoever owns the checkout
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}


def of_the_package() -> set[str]:
    """What a wheel has: the package, what is compiled, and the documents that are topics of `ioassay help`."""
    ours = {name.removeprefix("python/") for name in tracked("python")}
    return ours | {"ioassay/_core.abi3.so"} | {f"ioassay/docs/{path.name}" for path in help.topics().values()}


@pytest.fixture(scope="session")
def wheel() -> Path:
    return built("ioassay-*.whl")


@pytest.fixture(scope="session")
def source_distribution() -> Path:
    return built("ioassay-*.tar.gz")


@cache
def parts(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_has_the_package_with_its_data_and_nothing_else(wheel: Path) -> None:
    names = set(parts(wheel))
    assert {name for name in names if ".dist-info/" not in name} == of_the_package()
    about = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE-APACHE", "licenses/LICENSE-MIT")
    assert {name.split(".dist-info/")[1] for name in names if ".dist-info/" in name} == {
        *about,
        "sboms/ioassay.cdx.json",
    }


def test_the_wheel_is_for_any_python_from_3_11_on_and_has_bpf_programs(wheel: Path) -> None:
    assert re.fullmatch(r"ioassay-[\d.]+-cp311-abi3-(manylinux_2_28|linux)_(x86_64|aarch64)\.whl", wheel.name)
    core = parts(wheel)["ioassay/_core.abi3.so"]
    assert all(part in core for part in (b"tp_btf/sys_enter", b"tp_btf/block_rq_complete", b".BTF.ext"))


@pytest.mark.thorough
def test_the_wheel_of_a_release_is_for_systems_of_2018_and_has_no_path_of_the_machine_that_built(wheel: Path) -> None:
    assert "-manylinux_2_28_" in wheel.name
    core = parts(wheel)["ioassay/_core.abi3.so"]
    wanted = {tuple(map(int, found)) for found in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", core)}
    assert wanted and max(wanted) <= NEWEST_C_LIBRARY
    cargo = os.environ.get("CARGO_HOME") or Path.home() / ".cargo"
    revealing = [str(ROOT), str(cargo), str(Path.home() / ".rustup"), "registry/src/", "file://"]
    found = {(name, word) for name, content in parts(wheel).items() for word in revealing if word.encode() in content}
    assert not found - {(name, "file://") for name in tracked("python")}


def test_the_metadata_says_what_the_package_is(wheel: Path) -> None:
    (content,) = (content for name, content in parts(wheel).items() if name.endswith("METADATA"))
    metadata = HeaderParser().parsestr(content.decode())
    assert wheel.stat().st_size < 10 << 20  # that of a release is smaller still
    assert metadata["Version"] == ioassay.__version__ == wheel.name.split("-")[1]
    assert metadata["License-Expression"] == "MIT OR Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Operating System :: POSIX :: Linux" in metadata.get_all("Classifier", [])
    assert not [url for url in metadata.get_all("Project-URL", []) if "OWNER" in url or "example" in url]


def test_the_source_distribution_has_what_a_build_needs_and_no_tests(source_distribution: Path) -> None:
    with tarfile.open(source_distribution) as archive:
        opened = ((member.name, archive.extractfile(member)) for member in archive.getmembers())
        files = {name.split("/", 1)[1]: file.read() for name, file in opened if file}
    sources = {name for name in tracked("crates") if not re.search("/(tests|benches)/", name)}
    given = {name for name in tracked("python") | sources if not name.endswith("Cargo.toml")}  # maturin writes these
    assert [name for name in sorted(given) if files.get(name) != (ROOT / name).read_bytes()] == []
    assert sources <= files.keys()
    read = re.compile(rb'include(?:_str|_bytes)?!\(\s*"([^"]+)"')
    wanted = {os.path.normpath(Path(name, "..", file.decode())) for name in given for file in read.findall(files[name])}
    assert wanted <= files.keys()
    assert {f"python/ioassay/docs/{path.name}" for path in help.topics().values()} <= files.keys()
    about = {"LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md", "constraints.txt", "PKG-INFO"}
    assert about | {"pyproject.toml", "Cargo.toml", "Cargo.lock"} <= files.keys()
    assert not [name for name in files if "/tests/" in f"/{name}" or "golden" in name]
    assert source_distribution.stat().st_size < 3 << 20


@dataclass(frozen=True)
class Installed:
    """What a user has: the command, its Python, and an environment without compilers."""

    command: list[str]
    python: Path
    environment: dict[str, str]

    def ask(self, *words: str, cwd: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = self.environment if path is None else {**self.environment, "PATH": path}
        command = [*self.command, *words]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module", params=[*PYTHONS][0 if THOROUGH else -1 :])
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """The wheel, installed for a new user by what PYTHONS names, with the versions of constraints.txt."""
    interpreters = WHEELHOUSE / "pythons"
    listed = interpreters.read_text().split() if interpreters.exists() else []
    found = [path for path in listed if path.startswith(f"{request.param}=")]
    if not found:
        where = f"by pyenv or uv, or as python{request.param} on PATH"
        pytest.skip(f"needs Python {request.param} {where}, and its wheels: install it, run ./check wheel")
    interpreter = found[0].partition("=")[2]
    home = tmp_path_factory.mktemp("home")
    # pip and uv split these variables at spaces, which the path of a checkout may have.
    (home / "wheelhouse").symlink_to(WHEELHOUSE)
    (home / "constraints.txt").symlink_to(ROOT / "constraints.txt")
    environment = {
        "HOME": str(home),
        "PATH": str(system_commands(home / "bin")),
        "LANG": "C.UTF-8",
        "PIPX_HOME": str(home / "pipx"),
        "PIPX_BIN_DIR": str(home / "pipx" / "bin"),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(home / "wheelhouse"),
        "PIP_CONSTRAINT": str(home / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(home / "wheelhouse"),
        "UV_CONSTRAINT": str(home / "constraints.txt"),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    tools = ROOT / ".venv" / "bin"
    try:
        if PYTHONS[request.param] == "pipx":
            words = [tools / "pipx", "install", "--backend", "pip", "--python", interpreter, wheel]
            subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=True)
            yield Installed([str(home / "pipx/bin/ioassay")], home / "pipx/venvs/ioassay/bin/python", environment)
        else:
            uvx = [str(tools / "uvx"), "--python", interpreter, "--from", str(wheel)]
            words = [*uvx, "python", "-c", "import sys; print(sys.executable)"]
            done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, check=True)
            yield Installed([*uvx, "ioassay"], Path(done.stdout.strip()), environment)
    except subprocess.CalledProcessError as error:
        pytest.fail(f"{error}: {error.stderr}")
    finally:
        shutil.rmtree(home)


def system_commands(folder: Path) -> Path:
    """A folder with the system's commands, apart from compilers, Python and what may be there of ioassay."""
    folder.mkdir()
    for command in [path for place in ("/usr/bin", "/usr/sbin") for path in Path(place).iterdir()]:
        link = folder / command.name
        if not COMPILERS.fullmatch(command.name) and not link.exists():
            link.symlink_to(command)
    return folder


def test_the_installed_program_shows_documents_plans_and_examines_the_host(
    installed: Installed, tmp_path: Path
) -> None:
    version = installed.ask("--version", cwd=tmp_path)
    assert (version.returncode, version.stdout) == (0, f"ioassay {ioassay.__version__}\n"), version.stderr
    assert "measure-a-disk" in installed.ask("help", cwd=tmp_path).stdout
    assert installed.ask("help", "safety", cwd=tmp_path).stdout == (ROOT / "docs" / "safety.md").read_text()
    plan, doctor = installed.ask("plan", "block-size", "--json", cwd=tmp_path), installed.ask("doctor", cwd=tmp_path)
    assert plan.returncode == 0 and json.loads(plan.stdout)["trials"], plan.stderr
    assert doctor.returncode in (0, 1) and doctor.stdout, doctor.stderr
    said = plan.stdout + plan.stderr + doctor.stdout + doctor.stderr
    assert "./ioassay" not in said and "setup/" not in said


@pytest.mark.fio
def test_the_installed_program_measures_and_writes_the_page(installed: Installed, tmp_path: Path) -> None:
    smaller = ["--set", "target.size=16MiB", "--set", "runtime=250ms", "--repetitions", "1"]
    done = installed.ask("run", "quick", "--output", str(tmp_path / "run"), *smaller, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "run/report/index.html").read_text()
    assert "random read 4 KiB, depth 32" in page and str(ROOT) not in page


@pytest.mark.root
@pytest.mark.bpf
def test_the_installed_program_attaches_its_bpf_programs(installed: Installed, tmp_path: Path) -> None:
    words = ["witness", "--json", "--", "dd", "if=/dev/zero", f"of={tmp_path}/data", "bs=4k", "count=100"]
    done = installed.ask(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"bpf"' in done.stdout


def test_the_interface_for_python_is_installed_with_its_types(installed: Installed, tmp_path: Path) -> None:
    script = "import ioassay as ia; print(len(ia.Study.read('block-size').plan().trials), ia.__file__)"
    words = [installed.python, "-I", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, env=installed.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, place = done.stdout.split()
    assert int(count) > 1 and Path(place).with_name("py.typed").exists() and not place.startswith(str(ROOT))


def test_without_fio_the_installed_program_names_its_package(installed: Installed, tmp_path: Path) -> None:
    commands = system_commands(tmp_path / "bin")
    (commands / "fio").unlink(missing_ok=True)
    done = installed.ask("quick", cwd=tmp_path, path=str(commands))
    assert done.returncode == 1 and "apt-get install fio" in done.stderr, done.stdout + done.stderr
