"""Programs under the BPF witness: run, built, looked at. One process watches them, so its programs are loaded once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia
from ioassay import _core
from ioassay.process import supervisor
from ioassay.records.observation import BPF, Calls, Observation, from_dict

Watch = Callable[..., Observation]
Witnessed = Callable[..., dict[str, Any]]


@pytest.fixture
def witnessed(monkeypatch: pytest.MonkeyPatch) -> Witnessed:
    """`witnessed(folder, argv)`: what `witness --json` prints of a command there; options as `witness` has."""

    def judged(folder: Path, argv: Iterable[str], **options: Any) -> dict[str, Any]:
        monkeypatch.chdir(folder)
        return ia.witness([*argv], **options).as_dict()

    return judged


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """`compiled(source, *options)`: path of a C program, or with `-shared` of a library; each is compiled once."""
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler: apt-get install gcc libc6-dev")
    folder, made = tmp_path_factory.mktemp("compiled"), dict[tuple[str, ...], str]()

    def build(source: str, *options: str) -> str:
        if (key := (source, *options)) not in made:
            program = folder / f"program{len(made)}{'.so' * ('-shared' in options)}"
            argv = [compiler, "-x", "c", "-", "-O1", "-o", str(program), *options]
            subprocess.run(argv, input=source, text=True, check=True)
            made[key] = str(program)
        return made[key]

    return build


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """`watch(level, *argv)`: what the programs saw of a command in `tmp_path`; `record` as `_core.Witness` has it."""

    def seen(level: str, *argv: str, record: Path | None = None, layers: Iterable[str] = ()) -> Observation:
        programs = _core.Witness(level, record, list(layers))
        out, err = tmp_path / "stdout", tmp_path / "stderr"
        supervisor.run(
            argv, stdout=out, stderr=err, timeout_s=60, cwd=tmp_path, on_held=lambda pid: programs.follow(asleep(pid))
        )
        found = from_dict({**json.loads(programs.finish()), "backend": BPF, "asked": level})
        problems = {name: count for name, count in found.health.items() if count and name != "missed"}
        assert not problems, f"{problems}; {err.read_text()}"
        return found

    return seen


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A written and synced file of 16 MiB, on a filesystem that can do direct I/O."""
    path = tmp_path / "data"
    with path.open("wb") as file:
        file.write(os.urandom(1 << 20) * 16)
        os.fsync(file.fileno())
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip(f"{tmp_path} cannot do direct I/O: point --basetemp to a disk")
    return path


def asleep(pid: int) -> int:
    """The held child, once it waits: what it does before is its runner's doing."""
    deadline_s = time.monotonic() + 60
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline_s, "the child does not wait"
        time.sleep(0.001)
    return pid


class Look:
    """Questions to an observation."""

    @staticmethod
    def on_file(seen: Observation, name: str, kind: str) -> Calls:
        """All calls of one kind (read, write, sync) on the files of a name, over all sessions."""
        ids = {file.id for file in seen.files if file.path.rpartition("/")[2] == name}
        return _sum([getattr(session, kind) for session in seen.sessions if session.file in ids])

    @staticmethod
    def by(seen: Observation, entry: str, kind: str | None = None) -> Calls:
        """All calls by one way into the kernel."""
        return _sum([part.calls for part in seen.operations if part.entry == entry and kind in (None, part.kind)])

    @staticmethod
    def own(seen: Observation, kind: str) -> Calls:
        """Block requests of one kind that the process tree issued."""
        return _sum([part.calls for part in seen.block if part.own and part.kind == kind])


@pytest.fixture
def look() -> type[Look]:
    return Look


def _sum(parts: list[Calls]) -> Calls:
    total = Calls()
    for part in parts:
        total = total.plus(part)
    return total
