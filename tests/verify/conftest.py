"""Programs under the BPF witness: run, built, looked at. One process watches them, so its programs are loaded once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import ioassay as ia
from ioassay import _core
from ioassay.process import supervisor
from ioassay.records.observation import BPF, Calls, Observation, from_dict
from ioassay.verify.case import Case, Pool, expected
from ioassay.verify.claim_groups import Group
from ioassay.verify.evidence import NOTHING, Device, Evidence
from ioassay.verify.verdict import NOT_JUDGED, Finding

from ..corpora import CORPUS
from ..patience import PATIENCE_S, until

Watch = Callable[..., Observation]
FIO = ["fio", "--clocksource=clock_gettime", "--name=job"]
"""With another clock, fio measures the speed of the processor's own at each start, for 60 ms."""
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
    """`compiled(name, *options)`: path of a C program of tests/corpus/programs, or with `-shared` of a library."""
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler: apt-get install gcc libc6-dev")
    folder = tmp_path_factory.mktemp("compiled")

    @cache
    def build(name: str, *options: str) -> str:
        source, made = CORPUS / "programs" / f"{name}.c", folder / name
        subprocess.run([compiler, "-D_GNU_SOURCE", "-O1", "-o", str(made), str(source), *options], check=True)
        return str(made)

    return build


def pool(kind: str = "read", device: Device | None = None, **fields: Any) -> Pool:
    """What devices did for ten calls."""
    of = {"syncs": None, "page_cache_bytes": None, "direct": False, "synced": None, "filesystems": frozenset(),
          "bytes": 1_000_000, "operations": 10, "claims": 1, "storage": True, "watched": True}  # fmt: skip
    return Pool(kind=kind, device=device or Device(False), **{**of, **fields})


def case(group: Group, **fields: Any) -> Case:
    """A case of this group, for which nothing was seen but what is given."""
    nothing = {"seen": Evidence(NOTHING), "pool": pool(), "observation": Observation(BPF, "syscalls", ())}
    return Case(group, **{"expected": expected(group), **nothing, **fields})


def said(found: Finding | None) -> tuple[str, str] | None:
    """Category and reason of the worst."""
    if found is None or found.faults:
        return found and found.faults[0][:2]
    return ("CONFIRMED" if found.judged else NOT_JUDGED, "")


def table(name: str, *of: str, subject: str = "verify") -> Any:
    """A decorator: the test's arguments are those of each row of these tables of tests/corpus/SUBJECT/NAME.toml.

    Lists there are tuples, and "none" is None, as is what a row leaves out of the words of the others. A table has the
    name of what it shows: the rows of several are called by it.
    """
    tables = tomllib.loads((CORPUS / subject / f"{name}.toml").read_text())
    listed = {f"{each}-{number}": row for each in of for number, row in enumerate(tables[each])}
    words = list(dict.fromkeys(word for row in listed.values() for word in row))
    values = [[_as_tuples(row.get(word)) for word in words] for row in listed.values()]
    return pytest.mark.parametrize(words, values, ids=list(listed) if len(of) > 1 else None)


def _as_tuples(value: Any) -> Any:
    if value == "none":
        return None
    if isinstance(value, dict):
        return {name: _as_tuples(part) for name, part in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def observe(
    folder: Path, level: str, *argv: str, record: Path | None = None, layers: Iterable[str] = (), **options: Any
) -> Observation:
    """What the programs saw of a command in `folder`; `record` as `_core.Witness` has it, `options` as `run`."""
    programs = _core.Witness(level, record, list(layers))
    out, err = folder / "stdout", folder / "stderr"
    supervisor.run(
        argv,
        stdout=out,
        stderr=err,
        timeout_s=PATIENCE_S,
        cwd=folder,
        on_held=lambda pid: programs.follow(asleep(pid)),
        **options,
    )
    found = from_dict({**json.loads(programs.finish()), "backend": BPF, "asked": level})
    # The kernel skips a program that an interrupt would start a second time, on any device and for anybody: a request
    # seems to begin or to end without the other, or to be under way.
    skipped = {"missed", "unmatched", "in_flight"}
    problems = {name: count for name, count in found.health.items() if count and name not in skipped}
    assert not problems, f"{problems}; {err.read_text()}"
    return found


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """`observe` in `tmp_path`."""
    return partial(observe, tmp_path)


def whole(path: Path) -> Path:
    """A file of 16 MiB without holes, made unless it is there."""
    size = 16 << 20
    if not path.exists() or path.stat().st_size != size or path.stat().st_blocks * 512 < size:
        path.write_bytes(os.urandom(1 << 20) * 16)
    return path


def cold(path: Path) -> Path:
    """The file is on the disk, and nothing of it in the page cache any more."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for files that many tests use, each by a link of its own."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture
def data(tmp_path: Path, files: Path) -> Path:
    """A file of 16 MiB, see `whole`, on a filesystem that can do direct I/O."""
    path = tmp_path / "data"
    path.hardlink_to(whole(files / "data"))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip(f"{tmp_path} cannot do direct I/O: point --basetemp to a disk")
    return path


def asleep(pid: int) -> int:
    """The held child, once it waits: what it does before is its runner's doing."""
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")
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

    @staticmethod
    def read_for(seen: Observation, name: str) -> int:
        """Bytes of own reads but for what they brought of other files into memory: programs and libraries."""
        others = sum(file.page_cache_bytes or 0 for file in seen.files if file.path.rpartition("/")[2] != name)
        return Look.own(seen, "read").bytes - others


@pytest.fixture
def look() -> type[Look]:
    return Look


def _sum(parts: list[Calls]) -> Calls:
    total = Calls()
    for part in parts:
        total = total.plus(part)
    return total
