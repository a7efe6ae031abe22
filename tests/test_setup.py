"""The set-up's question at every start (setup/ready.sh), and its tables of packages. Installs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WATCHED = ["Cargo.toml", "Cargo.lock", "pyproject.toml", "constraints.txt", "crates/stats/src/lib.rs", "setup/setup.sh"]


def shell(script: str, *arguments: str | Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs POSIX shell text with `arguments` as $1, $2 …"""
    environment = {**os.environ, "PATH": path} if path is not None else None
    command = ["/bin/sh", "-eu", "-c", script, "sh", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a set-up leaves, with sources older than its stamp; in a folder whose name has a space and a quote."""
    root = tmp_path / "a check'out"
    for name in [*WATCHED, ".venv/bin/python", "python/ioassay/_core.abi3.so", "bin/fio"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for name in ["bin/fio", ".venv/bin/python"]:
        (root / name).chmod(0o755)
    for path in [root, *root.rglob("*")]:
        os.utime(path, (1_000_000, 1_000_000))
    (root / ".setup").mkdir()
    (root / ".setup/run").write_text(f"{root}\n")
    return root


def is_ready(root: Path, goal: str = "run") -> bool:
    path = f"{root / 'bin'}:/usr/bin:/bin"
    done = shell(
        '. "$1"; if ready "$2" "$3"; then echo yes; else echo no; fi', ROOT / "setup/ready.sh", root, goal, path=path
    )
    assert done.stderr == "" and done.stdout in ("yes\n", "no\n"), done
    return done.stdout == "yes\n"


def test_a_checkout_is_ready_to_run_but_not_to_check_nor_where_it_is_moved(checkout: Path) -> None:
    assert is_ready(checkout) and not is_ready(checkout, "check")
    assert not is_ready(checkout.rename(checkout.with_name("moved")))


@pytest.mark.parametrize("name", WATCHED)
def test_an_edited_source_asks_for_set_up(checkout: Path, name: str) -> None:
    stamp_s = (checkout / ".setup/run").stat().st_mtime
    os.utime(checkout / name, (stamp_s + 1, stamp_s + 1))
    assert not is_ready(checkout)
    ask = '. "$1"; ready_but_for "$2" run "$3"'
    for changed, is_enough in {name: name.startswith("crates/"), "crates/other.rs": False}.items():
        assert (shell(ask, ROOT / "setup/ready.sh", checkout, changed).returncode == 0) == is_enough


@pytest.mark.parametrize("name", [".setup/run", ".venv/bin/python", "python/ioassay/_core.abi3.so", *WATCHED[1:5:3]])
def test_a_missing_part_asks_for_set_up(checkout: Path, name: str) -> None:
    os.utime(checkout / ".setup/run", (2_000_000, 2_000_000))
    assert is_ready(checkout)
    (checkout / name).unlink()
    assert not is_ready(checkout)


def test_packages_are_missing_only_where_their_sign_is_not_there() -> None:
    table = "\nsh a shell\n/no/such/file b a path\n/bin/sh c\nno-such-command d\n"
    said = shell('. "$1"; missing_packages "$2"', ROOT / "setup/packages.sh", table).stdout
    assert said.split() == ["b", "d"]


def test_a_kernel_for_guests_is_asked_for_again_with_fresh_lists(tmp_path: Path) -> None:
    for name in ("qemu-system-x86_64", "apt-get"):
        (tmp_path / name).symlink_to("/bin/true")
    script = """. "$1"; PATH=$2; state=$2 log=its-log; say() { echo "$*"; }; can_install() { true; }
        quietly() { echo "$*"; [ "$1" = apt_update ]; }; fetch_guest_kernel check"""
    said = shell(script, ROOT / "setup/packages.sh", tmp_path).stdout.splitlines()
    ask = ".venv/bin/python tests/guest/kernel.py"
    why = "could not fetch a kernel (see its-log); tests will be skipped that need it"
    assert said == ["fetching a kernel for tests, once", ask, "apt_update", ask, why]


def write_command(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


MADISON = """
[ "$2" != {missing} ] || exit 0
echo "$2 | 1.96.0+dfsg1-1~deb12u2 | a mirror bookworm-security/main amd64 Packages"
echo "$2 | 1.85.0+dfsg3-1~deb12u3 | a mirror bookworm/main amd64 Packages"
"""


@pytest.fixture
def minimum_rust(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs shell text below a root whose name has a space, with a small stand-in for each command that it names."""
    root = tmp_path / "a root"
    for folder in (".setup", "bin"):
        (root / folder).mkdir(parents=True)

    def run(script: str, **commands: str) -> subprocess.CompletedProcess[str]:
        for name, text in commands.items():
            write_command(root / "bin" / name.replace("_", "-"), text)
        start = """cd "$1"; for file in say packages rust; do . "$2/setup/$file.sh"; done
            root=$1 state=$1/.setup log=$1/log cargo_bin=$1/bin rust_wanted=1.85 rust_seen=1.95.0
            can_install() { false; }; """
        return shell(start + script, root, ROOT, path=f"{root / 'bin'}:/usr/bin:/bin")

    return run


def test_the_minimum_rust_is_fetched_by_its_version_in_packages_of_one_kind_though_newer_ones_are_offered(
    minimum_rust: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    arguments = 'for argument; do case $argument in *=1.*) echo "$argument"; esac; done >"$PWD/packages"; exit 1'
    for missing, names in {
        "none": ("rustc-web", "cargo-web", "libstd-rust-web-dev"),
        "cargo-web": ("rustc", "cargo", "libstd-rust-dev"),
    }.items():
        done = minimum_rust("fetch_minimum_rust", apt_cache=MADISON.format(missing=missing), apt_get=arguments)
        asked = (tmp_path / "a root/packages").read_text().split()
        assert asked == [f"{name}=1.85.0+dfsg3-1~deb12u3" for name in names]
        assert done.returncode != 0


def test_a_rust_of_the_minimum_version_serves_itself(
    minimum_rust: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    script = "rust_seen=1.85.1; fetch_minimum_rust; minimum_cargo check"
    done = minimum_rust(script, cargo='echo "$RUSTC" "$@"', rustc="true", apt_cache="exit 1", apt_get="exit 1")
    assert done.stdout == f"{tmp_path / 'a root/.setup/minimum-rust/usr/bin/rustc'} check\n"
    assert done.stderr == ""


def test_versions_are_compared_as_numbers() -> None:
    seen = ("1.85", "1.85.0"), ("1.85", "1.96.0+dfsg1-1~deb12"), ("3.11", "3.11.2"), ("1.85", "1.63.0"), ("3.11", "3.9")
    ask = '. "$1"; version_is_at_least "$2" "$3"'
    assert [shell(ask, ROOT / "setup/say.sh", *pair).returncode for pair in seen] == [0, 0, 0, 1, 1]


PYTHONS = """. "$1/say.sh"; . "$1/python.sh"
state=$2 HOME=$2 XDG_DATA_HOME=$2/data PATH=$2/bin:/usr/bin:/bin tried_pythons=3.99;"""


def test_a_python_that_is_missing_is_said_with_what_it_is_for(tmp_path: Path) -> None:
    done = shell(f"{PYTHONS} name_missing_pythons", ROOT / "setup", tmp_path)
    assert done.returncode == 0 and done.stdout == ""
    assert done.stderr == (
        "ioassay: no Python 3.99 here, so the tests of the wheel with it will be skipped: install it by pyenv or uv, "
        "or as python3.99 on PATH\n"
    )


@pytest.mark.parametrize(
    "place", ["bin/python3.99", ".pyenv/versions/3.99.1/bin/python", "data/uv/python/cpython-3.99.1-linux/bin/python"]
)
def test_a_python_is_found_where_pyenv_uv_or_path_has_it(place: str, tmp_path: Path) -> None:
    write_command(tmp_path / place, "echo $0")
    done = shell(f"{PYTHONS} name_missing_pythons; python_of_version 3.99", ROOT / "setup", tmp_path)
    assert (done.stderr, Path(done.stdout.strip()).name) == ("", Path(place).name)


def test_a_python_that_came_later_has_its_wheels_fetched(tmp_path: Path) -> None:
    (tmp_path / "pythons").write_text("3.11=/usr/bin/python3\n")
    ask = f'{PYTHONS} if has_new_python "$2/pythons"; then echo yes; else echo no; fi'
    assert shell(ask, ROOT / "setup", tmp_path).stdout == "no\n"
    write_command(tmp_path / "bin/python3.99", "echo $0")
    assert shell(ask, ROOT / "setup", tmp_path).stdout == "yes\n"
    (tmp_path / "pythons").write_text("3.99=/usr/bin/python3.99\n")
    assert shell(ask, ROOT / "setup", tmp_path).stdout == "no\n"


def test_every_requirement_is_pinned() -> None:
    command = [sys.executable, str(ROOT / "setup/requirements.py"), "check"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pins = {normal(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    wanted = {normal(line.split(">")[0].split("[")[0]) for line in listed.split()}
    assert wanted and wanted <= pins, f"pin these in constraints.txt: {sorted(wanted - pins)}"


def normal(name: str) -> str:
    """The comparable form of a distribution's name (PEP 503)."""
    return name.strip().lower().replace("_", "-").replace(".", "-")
