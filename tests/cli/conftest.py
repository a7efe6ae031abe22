"""The real command line, and runs that several tests share. No answer may hold a traceback, whatever was asked."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..conftest import tmpfs
from . import command_server

NULL = """
title = "Null"
driver = "null"
repetitions = 2
[params]
noise = 0.01
[factors]
x = [1, 2]
[watch]
monitors = []
"""


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object that --json prints."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


Ask = Callable[..., Answer]


def command(*argv: object) -> list[str]:
    return [sys.executable, "-I", "-m", "ioassay", *map(str, argv)]


def ask(*argv: object, cwd: Path, env: Mapping[str, str] | None = None, within_s: float = 240) -> Answer:
    """What the command line answers; its figures are not drawn (command_server.py)."""
    words = [*map(str, argv)]
    return checked(*command_server.shared().run(words, cwd, {**os.environ, **(env or {})}, within_s))


def start(
    *argv: object, cwd: Path, streams: Sequence[int | None] = (), of_its_own: bool = False, **env: str
) -> command_server.Running:
    """The command line at work, for `with`: CommandServer.start has the other arguments."""
    words = [*map(str, argv)]
    return command_server.shared().start(words, cwd, {**os.environ, **env}, *streams, of_its_own=of_its_own)


def ask_alone(*argv: object, cwd: Path, env: Mapping[str, str] | None = None, within_s: float = 240) -> Answer:
    """The answer of a process of its own, which draws its figures."""
    done = subprocess.run(
        command(*argv),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=within_s,
    )
    return checked(done.returncode, done.stdout, done.stderr)


def checked(code: int, out: str, err: str) -> Answer:
    assert "Traceback" not in err, err
    return Answer(code, out, err)


@pytest.fixture
def ioassay(tmp_path: Path) -> Ask:
    """Asks the command line, in `tmp_path` unless `cwd` is given; returns its Answer."""

    def asked(*argv: object, cwd: Path = tmp_path, **options: Any) -> Answer:
        return ask(*argv, cwd=cwd, **options)

    return asked


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of four null trials, with its page. Copy it before you change it."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "null.toml").write_text(NULL)
    assert ask("run", "null.toml", "--output", "run", cwd=folder).code == 0
    return folder / "run"


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study, two runs of it, a trace and a fio result: what tests/corpus/endings calls {work}."""
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "null.toml").write_text(NULL)
    for name in ("A", "B"):
        assert ask("run", "null.toml", "--output", name, cwd=folder).code == 0
    assert ask("trace", "make", "t.disksim", "--requests", 2000, cwd=folder).code == 0
    golden = Path(__file__).parent.parent / "golden" / "fio"
    shutil.copy(next(golden.glob("*/read/fio.json")), folder)
    return folder


@pytest.fixture
def a_run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a whole run, without its page."""
    shutil.copytree(finished_run, tmp_path / "a_run", ignore=shutil.ignore_patterns("report"))
    return tmp_path / "a_run"


@pytest.fixture
def null_study(tmp_path: Path) -> Path:
    """A study of four null trials."""
    path = tmp_path / "null.toml"
    path.write_text(NULL)
    return path


def is_alive(pid: int) -> bool:
    """Whether it is there, and no zombie that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def as_nobody(nobody: list[str]) -> command_server.CommandServer:
    """Answers commands of a user without rights."""
    return command_server.shared(ahead=nobody)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach and change, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="open-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A function that mounts a tmpfs of that many KiB and returns its folder; ask for the marker `root` as well."""
    with ExitStack() as mounted:
        yield lambda size_kib, *options: mounted.enter_context(tmpfs(tmp_path / "disk", size_kib, *options))


def enlarge(folder: Path, size_kib: int) -> None:
    """Give a small disk more room."""
    subprocess.run(["mount", "-o", f"remount,size={size_kib}k", folder], check=True)


@pytest.fixture
def more_room() -> Callable[[Path, int], None]:
    """A function that gives a small disk more room."""
    return enlarge
