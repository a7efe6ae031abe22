"""ioassay witness: what it prints and keeps, its exit statuses, and who may use it. Its verdicts: tests/verify."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ioassay.cli import closing
from ioassay.records.observation import from_dict
from ioassay.store import packed_page

from .conftest import ask, command
from .terminal import Terminal

DAEMON = "setsid sh -c 'echo $$ > daemon; exec sleep {lives_s}' & while [ ! -s daemon ]; do sleep 0.01; done; {then}"
"""A command that goes on only when its daemon has left the process group, or it would be ended with the group."""

MIB = 1 << 20
READS = ["dd", "if=data", "of=/dev/null", "bs=1M"]
DD = ["dd", "if=data", "of=copy", "bs=1M"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of 16 MiB that is in the page cache."""
    (tmp_path / "data").write_bytes(os.urandom(MIB) * 16)
    return tmp_path / "data"


def python(program: str) -> list[str]:
    return [sys.executable, "-SIc", program]


@pytest.mark.bpf
def test_a_lie_ends_with_4_and_the_whole_observation_can_be_kept(data: Path) -> None:
    claim = ["--claim", "bytes=32MiB,kind=read,path=data", "--output", "seen.json"]
    answer = ask("witness", "--json", *claim, "--", *READS, cwd=data.parent)
    assert (answer.code, answer.json["verdict"], answer.json["backend"]) == (4, "CONTRADICTED", "bpf")
    assert (answer.json["ops"]["read"], answer.json["bytes"]["read"], answer.json["lost"]) == (
        17,
        16 * MIB,
        0,
    )  # the last read finds the end
    [run] = json.loads((data.parent / "seen.json").read_text())
    assert any(file.path == "data" for file in from_dict(run["seen"]).files)
    assert run["claims"][0]["source"] == "user"


@pytest.mark.bpf
def test_each_claim_stands_next_to_what_the_kernel_saw(data: Path) -> None:
    told = ask("witness", "--", *DD, cwd=data.parent).out
    assert re.search(r"^CONFIRMED-DEFERRED \(NO-SYNC\): The writes were accepted", told, re.M), told
    assert re.search(r"^claim +verdict +operations +seen +bytes +seen +device$", told, re.M), told
    assert re.search(r"^dd's read +CONFIRMED-CACHED +16 +17 +16 MiB +16 MiB +0 B$", told, re.M), told
    assert re.search(r"^dd's read \(PAGE-CACHE\): 16 operations and 16 MiB were claimed; ", told, re.M), told
    assert told.index("dd's write (NO-SYNC)") < told.index("dd's read (PAGE-CACHE)"), "the worse one comes first"
    assert "System calls" not in told and len(told.splitlines()) <= closing.MOST_LINES + 1


@pytest.mark.bpf
def test_all_shows_notes_calls_and_requests(data: Path) -> None:
    program = "import os, threading\nfor _ in range(2345): os.getppid()\nt = threading.Thread(); t.start(); t.join()"
    script = f"{shlex.join(python(program))}; exec {shlex.join(DD)} conv=fsync"
    told = ask("witness", "--all", "--", "sh", "-c", script, cwd=data.parent).out
    for part in ("CONFIRMED-CACHED (PAGE-CACHE): dd's read\n", "The observer effect was not judged"):
        assert part in told
    assert "Requests to block devices:" in told and "The files that this is about" in told
    assert re.search(r"^System calls, the 8 most frequent of \d+ kinds:$", told, re.M)
    assert re.search(r"^getppid +2,346 +[\d,]+ +0$", told, re.M), told  # one of them by the shell
    assert "3 tasks (1 thread of them) followed" in told


@pytest.mark.bpf
def test_twins_show_what_watching_did(data: Path) -> None:
    answer = ask("witness", "--twins", "2", "--output", "seen.json", "--", *DD, cwd=data.parent)
    assert re.search(r"^With the witness, .* times that without it\.", answer.out, re.M), answer
    assert len(json.loads((data.parent / "seen.json").read_text())) == 2


END = "end of the command's own output"
MANY = f'for n in $(seq 40); do echo "pass $n: $n reads"; done; echo "{END}"'
COLUMNS = 80


@pytest.mark.parametrize(
    ("options", "script"),
    [
        ([], f'echo "{END}"'),
        ([], f'dd if=data of=/dev/null bs=1M; echo "{END}"; exit 3'),
        (["--claim", "bytes=1GiB,ops=4"], f'cat data | wc -c; echo "{END}"'),
        (["--claim-regex", r"(?P<ops>\d+) reads"], MANY),
        (["--claim-regex", r"(?P<ops>\d+) reads", "--require", "true"], MANY),
    ],
    ids=["no-claim", "failed", "contradicted", "many-claims", "required"],
)
def test_a_terminal_of_80_columns_shows_15_lines(options: list[str], script: str, data: Path) -> None:
    argv = command("witness", "--level", "counters", *options, "--", "sh", "-c", script)
    with Terminal(argv, data.parent, size=(60, COLUMNS)) as terminal:
        terminal.ended()
    lines = terminal.shown.rpartition(f"{END}\r\n")[2].rstrip().splitlines()
    own = [line for line in lines if line.strip()]
    assert any(line.startswith("More: --all") for line in own), own
    assert len(lines) <= closing.MOST_LINES + 1, "\n".join(lines)  # the empty line in front of them
    assert max(map(len, own)) <= COLUMNS


def test_without_privileges_counters_judge_what_they_can(data: Path) -> None:
    found = ask("witness", "--json", "--backend", "counters", "--", *READS, cwd=data.parent).json
    assert found["backend"] == "counters" and "counters" in found["why"]
    assert found["verdict"] in ("CONFIRMED", "CONFIRMED-CACHED", "INCOMPLETE", "UNSUPPORTED")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, with 1 MiB in it."""
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        made.chmod(0o755)
        (made / "data").write_bytes(os.urandom(MIB))
        yield made


@pytest.mark.root
def test_a_user_without_privileges_gets_what_the_counters_can_say(open_folder: Path, nobody: list[str]) -> None:
    as_nobody = [*nobody, "env", f"HOME={open_folder}", "PYTHONDONTWRITEBYTECODE=1"]
    argv = [*as_nobody, *command("witness", "--json", "--", "dd", "if=data", "of=/dev/null", "bs=4k")]
    done = subprocess.run(argv, cwd=open_folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["backend"], found["asked"]) == ("counters", "syscalls")
    assert "CAP_BPF" in found["why"] and "CAP_PERFMON" in found["why"]
    assert found["counters"]["rchar"] >= MIB
    assert found["verdict"] in ("CONFIRMED", "CONFIRMED-CACHED", "INCOMPLETE")


def test_what_is_piped_in_reaches_the_command_and_its_json_option_is_its_own(tmp_path: Path) -> None:
    argv = command("witness", "--level", "counters", "--", "sh", "-c", "cat", "--json")
    done = subprocess.run(argv, cwd=tmp_path, input="through", capture_output=True, text=True, check=False)
    assert done.stdout.startswith("through")


LYING_FIO = """
import json, subprocess, sys
code = subprocess.call(["{fio}", *sys.argv[1:]])
for result in (word.partition("=")[2] for word in sys.argv if word.startswith("--output=")):
    text = open(result).read()
    table = json.loads(text[text.index("{{"):])
    for job in table["jobs"]:
        for key in ("io_bytes", "io_kbytes", "bw", "bw_bytes", "iops", "total_ios"):
            job["read"][key] *= 2
    open(result, "w").write(json.dumps(table))
sys.exit(code)
"""
STUDY = """
title = "A study"
driver = "fio"
[target]
kind = "file"
path = "t.dat"
size = "4MiB"
[params]
rw = "randread"
bs = "4k"
direct = 1
[watch]
witness = "{level}"
"""


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
@pytest.mark.parametrize("level", ["block", "syscalls"])
def test_a_study_whose_tool_lies_ends_with_4_and_says_so_in_its_report(level: str, tmp_path: Path) -> None:
    lying = tmp_path / "bin" / "fio"
    lying.parent.mkdir()
    (source := tmp_path / "lying.py").write_text(LYING_FIO.format(fio=shutil.which("fio")))
    # A path with spaces cannot stand behind `#!`, and this Python's may have some.
    lying.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n')
    lying.chmod(0o755)
    (tmp_path / "s.toml").write_text(STUDY.format(level=level))
    assert ask("run", "s.toml", "--output", "honest", cwd=tmp_path).code == 0
    path = f"{lying.parent}:{os.environ['PATH']}"
    answer = ask("run", "--json", "s.toml", "--output", "lying", cwd=tmp_path, env={"PATH": path})
    found = answer.json
    assert answer.code == 4, found["findings"]
    assert found["trials"]["ok"] == 1
    [verdict] = [finding for finding in found["findings"] if finding["question"] == "verdict"]
    assert verdict["statistics"]["contradicted"] == 1
    assert "CONTRADICTED" in verdict["statement"]
    page = (tmp_path / found["report"]).read_text()
    assert "1 is contradicted." in page  # without opening anything
    assert "CONTRADICTED" in packed_page.unpacked(page)


def _is_there(pid: int) -> bool:
    try:
        return "sleep" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_a_daemon_survives_the_end_of_its_command_and_makes_nothing_a_lie(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(MIB))
    script = DAEMON.format(lives_s=300, then="cat data > /dev/null")
    argv = ["--level", "counters", "--claim", "bytes=64MiB", "--", "sh", "-c", script]
    found = ask("witness", "--json", *argv, cwd=tmp_path).json
    assert "outlived the command" in found["why"] and found["verdict"] == "INCOMPLETE", found["explanation"]
    survived = int((tmp_path / "daemon").read_text())
    assert _is_there(survived)
    os.kill(survived, signal.SIGKILL)


def test_a_daemon_ends_with_an_interrupted_command(tmp_path: Path) -> None:
    """A shell that starts a child at this moment may survive the signal: it has become another program by then."""
    script = DAEMON.format(lives_s=300, then="echo > waits; exec sleep 300")
    argv = command("witness", "--level", "counters", "--", "sh", "-c", script)
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        deadline_s = time.monotonic() + 120
        while not (tmp_path / "waits").exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130
    assert not _is_there(int((tmp_path / "daemon").read_text()))


WORK = """
import os
data = os.open("data", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
for place in range(20):
    os.pwrite(data, bytes(4096), place * 4096)
os.fsync(data)
for place in (7, 3, 19, 0):
    os.pread(data, 512, place * 512)
os.lseek(data, -8192, os.SEEK_END)
os.read(data, 4096)
os.preadv(data, [bytearray(100), bytearray(200)], 64)
copy = os.open("copy", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DSYNC, 0o600)
os.write(copy, bytes(10))
os.dup2(copy, 99)
os.fdatasync(99)
os.close(99)
os.close(copy)
try:
    os.open("absent", os.O_RDONLY)
except FileNotFoundError:
    pass
if not os.fork():
    os.pread(data, 1, 5)
    os.close(data)
    os._exit(0)
os.wait()
os.close(data)
"""
TRACED = "pread64,pwrite64,read,write,preadv2,fsync,fdatasync,lseek,openat,close,dup2"
_LINE = re.compile(r"^(?:\[pid +)?(\d+)\]? +(\w+)\((.*)\) += (.*) <\d+\.\d{6}>$")


def comparable(text: str, folder: Path) -> list[tuple[str, str, str]]:
    """Name, arguments and result of each call on files in `folder`, without the data."""
    found = []
    for line in text.splitlines():
        line = re.sub(r"AT_FDCWD<[^>]*>", "AT_FDCWD", line)
        if (match := _LINE.match(line)) and (str(folder) in line or '"absent"' in line):
            arguments = re.sub(r'(, )(?:".*"(?:\.\.\.)?|…|\[.*\])(, )', r"\1…\2", match[3], count=1)
            if match[2] == "openat":
                arguments = match[3]
            if match[2] == "preadv2":
                arguments = arguments.removesuffix(", 0")  # the flags, which are not listed
            found.append((match[2], arguments, match[4]))
    return found


@pytest.mark.bpf
@pytest.mark.root
@pytest.mark.strace
def test_the_listing_of_calls_is_straces(tmp_path: Path) -> None:
    strace, listing, folder = tmp_path / "strace.txt", tmp_path / "calls.txt", tmp_path / "work"
    folder.mkdir()
    traced = ["strace", "-f", "-y", "-T", "-o", str(strace), "-e", f"trace={TRACED}", *python(WORK)]
    subprocess.run(traced, cwd=folder, check=True)
    for path in folder.iterdir():
        path.unlink()
    answer = ask("witness", "--json", f"--calls={listing}", "--", *python(WORK), cwd=folder)
    wanted, listed = (comparable(path.read_text(), folder) for path in (strace, listing))
    assert len(wanted) > 35
    assert listed == wanted
    told = answer.json["listing"]
    assert (told["file"], told["unlisted"]) == (str(listing), 0)
    assert told["calls"] == len(listing.read_text().splitlines())


@pytest.mark.bpf
@pytest.mark.root
def test_a_sample_of_calls_has_of_each_file_the_first_and_the_last(tmp_path: Path) -> None:
    source = "import os\nfile = os.open('data', os.O_RDWR | os.O_CREAT)\nfor place in range(1000):\n"
    source += "    os.pwrite(file, b'x', place)\n"
    answer = ask("witness", "--calls", "--", *python(source), cwd=tmp_path)
    _, found, sample = answer.out.partition(f"\n{tmp_path / 'data'}: 1001 calls\n")
    assert found, answer
    lines = sample.splitlines()[:13]
    assert "openat(AT_FDCWD" in lines[0]
    assert "pwrite64(3<" in lines[1]
    assert lines[8] == "    … 989 more"
    assert [re.findall(r", (\d+)\) = 1", line) for line in lines[9:]] == [["996"], ["997"], ["998"], ["999"]]
