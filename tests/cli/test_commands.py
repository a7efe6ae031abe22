"""Command lines and what they must answer: the rows of tests/corpus/commands, whose README has the words of a row."""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest

from ioassay.store import packed_page

from ..conftest import tmpfs
from ..corpora import CORPUS, cases, has, rows
from ..packs.virtual_drive.drives import served
from ..packs.virtual_drive.nbd import Client
from ..patience import PATIENCE_S, until
from .command_server import Running
from .conftest import Answer, ask, checked, start

README = CORPUS / "commands" / "README.md"
BEGINNINGS = {row["id"]: row for row in rows("commands", "beginnings")}
OF_DEVICES = "block_devices"
TABLES = sorted({path.stem for path in (CORPUS / "commands").glob("*.toml")} - {"beginnings", OF_DEVICES})
REFUSED = (2, 3)
TIMES = {"wall_s"}
OF_ROWS = {"id", "needs", "thorough", "beginning", "memory", "steps"}
OF_ROWS |= {"executable", "disk", "device", "serve", "told"}
OF_STEPS = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", README.read_text(), re.M))))
Names = Mapping[str, str]


@pytest.fixture(scope="module")  # and so all rows run in one worker, which makes each beginning once
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns the folder in which a row begins, by its name. Copy it before you change it."""

    @functools.cache
    def made(name: str) -> Path:
        folder = tmp_path_factory.mktemp("beginning")
        act(BEGINNINGS[name], folder, {})
        return folder

    return made


@cases("commands", *TABLES)
def test_a_command_line_is_answered_as_its_row_says(
    case: dict[str, Any], beginning: Callable[[str], Path], in_memory: Callable[[Path], None], tmp_path: Path
) -> None:
    if "beginning" in case:
        shutil.copytree(beginning(case["beginning"]), tmp_path, dirs_exist_ok=True)
    for name in case.get("memory", ()):
        in_memory(tmp_path / name)
    act(case, tmp_path, {})


@pytest.mark.root
@cases("commands", OF_DEVICES)
def test_a_command_line_about_a_device_is_answered_as_its_row_says(
    case: dict[str, Any], loop_device: Callable[[int], Path], tmp_path: Path
) -> None:
    device = loop_device(case["device"] << 20)
    backing = Path("/sys/block", device.name, "loop/backing_file").read_text().strip()
    act(case, tmp_path, {"{device}": str(device), "{backing}": backing})


def act(row: Mapping[str, Any], folder: Path, names: Names) -> None:
    """Take the row's steps one after another; a row without steps is one itself."""
    assert not row.keys() - OF_ROWS - ({"files"} if "steps" in row else OF_STEPS), row.keys()
    count = len(os.sched_getaffinity(0))
    names = {
        **names,
        "{here}": str(folder),
        "{python}": sys.executable,
        **{f"{{{n} x processors}}": str(n * count) for n in (1, 2, 4)},
    }
    drive = None
    with ExitStack() as opened:
        if "disk" in row:
            opened.enter_context(tmpfs(folder / "disk", row["disk"]))
        for step in [{"files": row.get("files", {})}, *row["steps"]] if "steps" in row else [row]:
            assert not step.keys() - OF_STEPS - (OF_ROWS if step is row else set()), step.keys()
            prepare(step, folder, names, row)
            if "serve" in row and drive is None:
                drive = opened.enter_context(served(folder, *shlex.split(row["serve"]), "--no-calibrate"))
                names |= {f"{{{name}}}": text for name, text in drive.told.items() if isinstance(text, str)}
                assert has(drive.told, json.loads(filled(json.dumps(row.get("told", {})), names))), drive.told
            take(step, folder, names)
        if drive:
            assert drive.end() == (0, "")


def prepare(step: Mapping[str, Any], folder: Path, names: Names, row: Mapping[str, Any]) -> None:
    """Remove, write and damage files as the step says."""
    for name in step.get("remove", ()):
        (shutil.rmtree if (folder / name).is_dir() else Path.unlink)(min(folder.glob(name)))
    for name, text in step.get("files", {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(filled(text, names))
        (folder / name).chmod(0o755 if name in row.get("executable", ()) else 0o644)
    for pattern, change in step.get("damage", {}).items():
        found = sorted(folder.glob(pattern))
        assert found
        if isinstance(change, int):
            os.truncate(found[0], change if change >= 0 else found[0].stat().st_size + change)
            continue
        for path in found:
            text, count = re.subn(*change, path.read_text())
            assert count
            path.write_text(text)
    if "mount" in step:
        subprocess.run(["mount", "-o", f"remount,{step['mount']}", folder / "disk"], check=True)


def filled(text: str, names: Names) -> str:
    for name, value in names.items():
        text = text.replace(name, value)
    return text


def take(step: Mapping[str, Any], folder: Path, names: Names) -> None:
    """Ask, and compare. Whom a command refuses (2, 3) finds every file as it was, and under --json one object."""
    if "io" in step:
        with ExitStack() as clients:
            exchange(step["io"], lambda: clients.enter_context(Client(folder / "a")))
    if "ask" not in step and "run" not in step:
        assert not step.keys() - OF_ROWS - {"io", "files", "remove", "damage", "mount"}, "nobody is asked"
        return
    is_json = "ask" in step and "--json" in step["ask"].split(" -- ")[0].split()
    assert is_json or not step.keys() & {"json", "keys", "within", "same"}, "compared of --json only"
    assert "until" in step or not step.keys() & {"during", "signal"}, "of what is waited for"
    code = step.get("code", 0)
    before = contents(folder) if code in REFUSED and "writes" not in step else {}
    kept = {path: path.stat().st_mtime_ns for path in (folder.glob(step["kept"]) if "kept" in step else ())}
    answer = answered(step, folder, names)
    assert answer.code == code, answer
    compare_words(step, answer, names)
    if is_json:
        compare_json(step, answer, folder, names)
    compare_files(step, folder, names)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept and bool(kept) == ("kept" in step)
    assert code not in REFUSED or "writes" in step or contents(folder) == before


def answered(step: Mapping[str, Any], folder: Path, names: Names) -> Answer:
    """The answer to a command line of ours, or of another program, with the steps that are taken `during` it."""
    words = shlex.split(filled(step.get("ask") or step["run"], names))
    cwd = folder / step.get("in", ".")
    env = {name: filled(text, names) for name, text in step.get("env", {}).items()}
    with tempfile.TemporaryFile() as given:
        given.write(filled(step.get("input", ""), names).encode())
        given.seek(0)
        if "run" in step:
            options: Any = {"capture_output": True, "text": True, "timeout": PATIENCE_S}
            path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
            done = subprocess.run(words, cwd=cwd, env={**os.environ, **path, **env}, stdin=given, **options)
            return Answer(done.returncode, done.stdout, done.stderr)
        with start(*words, cwd=cwd, streams=(given.fileno(),), of_its_own="until" in step, **env) as running:
            if "until" in step:
                for place in [step["until"]] if isinstance(step["until"], str) else step["until"]:
                    until(lambda place=place: running.has_ended() or is_at(place, running, folder))
                for one in step.get("during", ()):
                    take(one, folder, names)
                running.send_signal(getattr(signal, step.get("signal", "SIGTERM")))
            return checked(running.wait(), running.out, running.err)


def is_at(place: str, running: Running, folder: Path) -> bool:
    """Whether a file of that pattern is there; for `work`, whether it has computed for a while; or what it has said."""
    if place == "work":
        return psutil.Process(running.pid).cpu_times().user > 0.2
    if place.startswith("said "):
        return place.removeprefix("said ") in running.out + running.err
    return any(folder.glob(place))


def exchange(lines: Sequence[str], connect: Callable[[], Client]) -> None:
    """What one client does, line by line. `connect COUNT`: others connect and stay, or are turned away (`closed`)."""
    client = None
    for kind, *words in map(str.split, lines):
        if kind == "connect":
            for _ in range(int(words[0])):
                with pytest.raises((EOFError, OSError)) if "closed" in words else nullcontext():
                    connect()
        else:
            client = client or connect()
            transfer(client, kind, *words)


def transfer(client: Client, kind: str, *words: str) -> None:
    """`write OFFSET LENGTH BYTE`, `read OFFSET LENGTH BYTE` or `flush`; for the byte: zero, or the error that comes."""
    offset, length = map(int, words[:2]) if kind != "flush" else (0, 0)
    last = words[-1] if words else ""
    content = (b"\0" if len(last) > 1 else last.encode()) * length
    calls: dict[str, Callable[[], Any]] = {
        "write": lambda: client.write(offset, content),
        "read": lambda: client.read(offset, length),
        "flush": client.flush,
    }
    if last == "closed":
        with pytest.raises((EOFError, ConnectionError)):
            calls[kind]()
    elif last in errno.errorcode.values():
        with pytest.raises(OSError) as raised:
            calls[kind]()
        assert errno.errorcode[raised.value.errno or 0] == last
    else:
        found = calls[kind]()
        assert kind != "read" or found == content


def compare_words(step: Mapping[str, Any], answer: Answer, names: Names) -> None:
    """What it says, in parts, in whole, by patterns and as the beginnings of a table's lines."""
    said = {"out": answer.out, "err": answer.err, "both": answer.out + answer.err}
    escaped = {name: re.escape(text) for name, text in names.items()}
    for name, wanted in step.items():
        if name in said:
            assert [text for text in wanted if filled(text, names) not in said[name]] == [], answer
        elif name in ("whole_out", "whole_err"):
            assert filled(wanted, names) == said[name.removeprefix("whole_")]
        elif name in ("first", "last"):
            assert answer.out.splitlines()[0 if name == "first" else -1] == filled(wanted, names)
        elif name == "like":
            assert [text for text in wanted if not re.search(filled(text, escaped), said["both"], re.M)] == [], answer
        elif name == "table":
            lines = iter([" ".join(line.split()) for line in answer.out.splitlines()])
            missing = [text for text in wanted if not any(line.startswith(filled(text, names)) for line in lines)]
            assert missing == [], answer
    assert [text for text in step.get("without", ()) if filled(text, names) in said["both"]] == [], answer
    assert len(said["both"].splitlines()) <= step.get("lines", 10_000), answer


def compare_json(step: Mapping[str, Any], answer: Answer, folder: Path, names: Names) -> None:
    """The object that --json prints: what it has, its keys, bounds of numbers, and what another command says too."""
    wanted = json.loads(filled(json.dumps(step.get("json", {})), names))
    assert has(answer.json, wanted), answer.json
    assert set(step.get("keys", ())) <= answer.json.keys(), answer.json
    for place, (least, most) in step.get("within", {}).items():
        assert least <= held(answer.json, place) <= most, place
    for words, places in step.get("same", {}).items():
        other = ask(*shlex.split(filled(words, names)), cwd=folder / step.get("in", ".")).json
        pairs = places if isinstance(places, dict) else {place: place for place in places or answer.json.keys() - TIMES}
        assert [place for place in pairs if held(answer.json, place) != held(other, pairs[place])] == []
    if step.get("code", 0) in REFUSED and "writes" not in step:
        assert answer.json["exit_code"] == step["code"]
        assert [text for text in step["err"] if filled(text, names) not in answer.json["error"]] == [], answer.json


def held(found: Any, place: str) -> Any:
    """What an object has at such a place as `simulations.1.hit_ratio`, without the time that it took."""
    for key in place.split("."):
        found = found[int(key) if isinstance(found, list) else key]
    if isinstance(found, list):
        return [held({"one": one}, "one") for one in found]
    return {key: value for key, value in found.items() if key not in TIMES} if isinstance(found, dict) else found


def compare_files(step: Mapping[str, Any], folder: Path, names: Names) -> None:
    """What is in files afterwards, which are the same, and which are there and are not."""
    for place, parts in step.get("pages", {}).items():
        page = packed_page.unpacked(next(folder.glob(place)).read_text())
        assert [text for text in parts if filled(text, names) not in page] == [], place
    for place, wanted in step.get("written", {}).items():
        found = [json.loads(path.read_text()) for path in sorted(folder.glob(place))]
        assert found and [one for one in found if not has(one, wanted)] == [], place
    for first, second in step.get("equal", ()):
        assert (folder / first).read_bytes() == (folder / second).read_bytes()
    assert [name for name in step.get("there", ()) if not list(folder.glob(name))] == []
    assert [name for name in step.get("gone", ()) if list(folder.glob(name))] == []


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
