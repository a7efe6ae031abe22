"""ioassay witness: claims of real programs against what the kernel saw of them."""

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
from typing import Any

import pytest

from ioassay.store import packed_page

from .conftest import ask

DAEMON = "setsid sh -c 'echo $$ > daemon; exec sleep {lives_s}' & while [ ! -s daemon ]; do sleep 0.01; done; {then}"
"""A command that goes on only when its daemon has left the process group, or it would be ended with the group."""

MIB = 1 << 20
SIZE = 64 * MIB
IOASSAY = [sys.executable, "-m", "ioassay"]
JOB = ["fio", "--name=job", "--filename=data", "--bs=4k", "--size=64M", "--output-format=json"]


def witness(folder: Path, *argv: str, code: int = 0) -> dict[str, Any]:
    done = subprocess.run(
        [*IOASSAY, "witness", "--json", *argv], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on a disk with 64 MiB that were written and are not in the cache."""
    made = tmp_path_factory.mktemp("witness")
    with (made / "data").open("wb") as file:
        for _ in range(64):
            file.write(os.urandom(MIB))
        os.fsync(file.fileno())
    return made


def cold(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
@pytest.mark.parametrize(
    "engine",
    [
        ["psync"],
        ["libaio", "--iodepth=16"],
        ["libaio", "--iodepth=16", "--iodepth_batch=16", "--iodepth_batch_complete_min=16"],
        ["io_uring", "--iodepth=16"],
        ["io_uring", "--iodepth=16", "--sqthread_poll=1"],
    ],
    ids=["psync", "libaio", "libaio-batch", "io_uring", "sqpoll"],
)
def test_direct_reads_are_counted_as_fio_counts_them(engine: list[str], folder: Path) -> None:
    found = witness(folder, "--", *JOB, "--rw=randread", "--direct=1", f"--ioengine={engine[0]}", *engine[1:])
    assert found["backend"] == "bpf"
    assert {"block", "uring", "syscalls"} <= set(found["layers"])
    assert found["ops"]["read"] == SIZE // 4096 == found["claim"]["operations"]
    assert found["bytes"]["read"] == SIZE == found["claim"]["bytes"]
    assert (found["lost"], found["missed"]) == (0, found["health"]["missed"])
    read = sum(part["calls"]["bytes"] for part in found["block"] if part["own"] and part["kind"] == "read")
    assert read >= SIZE
    assert found["verdict"].startswith("CONFIRMED"), found["explanation"]


@pytest.mark.bpf
def test_system_calls_are_told_by_name(tmp_path: Path) -> None:
    program = "import os, threading\nfor _ in range(2345): os.getppid()\nt = threading.Thread(); t.start(); t.join()"
    argv = ["--level", "syscalls", "--", sys.executable, "-c", program]
    found = witness(tmp_path, *argv)
    assert found["calls"]["getppid"] == 2345 and found["calls"]["execve"] == 1
    assert found["call_errors"]["openat"] + found["call_errors"].get("newfstatat", 0) > 0
    assert (found["processes"], found["threads"], found["most_alive"]) == (2, 1, 2)
    told = subprocess.run(
        [*IOASSAY, "witness", "--all", *argv], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert re.search(r"^System calls, the 8 most frequent of \d+ kinds:$", told, re.MULTILINE)
    assert re.search(r"^getppid +2,345 +[\d,]+ +0$", told, re.MULTILINE), told
    assert "2 tasks (1 thread of them) followed" in told
    assert witness(tmp_path, "--level", "block", "--", "true")["calls"] == {}


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
def test_the_null_engine_is_unsubstantiated(folder: Path) -> None:
    found = witness(folder, "--", *JOB, "--rw=read", "--ioengine=null")
    assert found["verdict"] == "UNSUBSTANTIATED"
    assert found["ops"]["read"] == 0


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
def test_a_hole_is_unsubstantiated_since_no_device_was_asked(tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as file:
        file.truncate(SIZE)
    found = witness(tmp_path, "--", *JOB, "--rw=randread", "--direct=1", "--ioengine=psync")
    assert (found["verdict"], found["reason"]) == ("UNSUBSTANTIATED", "NO-DEVICE-IO")
    assert found["ops"]["read"] == SIZE // 4096
    assert "hole" in found["explanation"] or any("hole" in note for note in found["verdicts"][0]["notes"])


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
def test_warm_reads_are_confirmed_as_those_of_the_cache(folder: Path, in_memory: Any) -> None:
    in_memory(folder / "data")
    found = witness(folder, "--", *JOB, "--rw=read", "--ioengine=psync", "--invalidate=0")
    assert found["verdict"] == "CONFIRMED-CACHED", found["explanation"]
    cold(folder / "data")


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
def test_writes_without_a_sync_are_confirmed_as_deferred(folder: Path) -> None:
    found = witness(folder, "--", *JOB, "--rw=write", "--ioengine=psync")
    assert found["verdict"] == "CONFIRMED-DEFERRED", found["explanation"]
    cold(folder / "data")


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.fio
def test_level_block_confirms_direct_reads_without_watching_a_call(folder: Path) -> None:
    command = [*JOB, "--rw=randread", "--direct=1", "--ioengine=libaio", "--iodepth=8"]
    found = witness(folder, "--level", "block", "--", *command)
    assert "syscalls" not in found["layers"]
    assert found["verdict"] == "CONFIRMED", found["explanation"]


LIAR = """
import os
f = os.open("data", os.O_RDONLY)
for _ in range(256):
    os.read(f, 4096)
"""


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.parametrize(
    ("claim", "code", "verdict"),
    [
        (f"bytes={256 * 4096},ops=256,kind=read,path=data", 0, "CONFIRMED"),
        (f"bytes={2 * 256 * 4096},kind=read,path=data", 4, "CONTRADICTED"),
        ("ops=512,kind=read,path=data", 4, "CONTRADICTED"),
        (f"bytes={256 * 4096},seconds=1000,kind=read,path=data", 4, "CONTRADICTED"),
    ],
    ids=["truth", "twice-the-bytes", "twice-the-operations", "longer-than-it-ran"],
)
def test_a_program_that_lies_ends_with_4(claim: str, code: int, verdict: str, folder: Path) -> None:
    (folder / "data").read_bytes()  # from a cold file the device would read ahead, which is AMPLIFIED
    found = witness(folder, "--claim", claim, "--", sys.executable, "-c", LIAR, code=code)
    assert found["verdict"].split("-")[0] == verdict, found["explanation"]


REPORTS = (
    LIAR
    + """
print("warm-up: 8 reads")
print("data: {reads} reads of 4 KiB, 1.0 MiB")
"""
)
REGEX = r"^(?P<path>\w+): (?P<ops>\d+) reads of (?P<record>\d+ KiB)"


@pytest.mark.root
@pytest.mark.bpf
@pytest.mark.parametrize(("reads", "code", "verdict"), [(256, 0, "CONFIRMED"), (512, 4, "CONTRADICTED")])
def test_a_pattern_finds_what_a_program_claims(reads: int, code: int, verdict: str, folder: Path) -> None:
    (folder / "data").read_bytes()
    script = REPORTS.format(reads=reads)
    found = witness(folder, "--claim-regex", REGEX, "--", sys.executable, "-c", script, code=code)
    assert found["verdict"].split("-")[0] == verdict, found["explanation"]


def program(path: Path, script: str) -> None:
    """Make `path` a program of Python. A path with spaces cannot stand behind `#!`, and this Python's may have some."""
    source = path.with_suffix(".py")
    source.write_text(script)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source.resolve()))} "$@"\n')
    path.chmod(0o755)


@pytest.mark.root
@pytest.mark.bpf
def test_a_benchmark_that_prints_twice_the_bytes_it_moved_ends_with_4(folder: Path) -> None:
    lie = "512+0 records in\\n512+0 records out\\n2097152 bytes (2.1 MB, 2.0 MiB) copied, 0.01 s, 210 MB/s\\n"
    script = LIAR + f'import sys; sys.stderr.write("{lie}")'
    program(folder / "dd", script)
    found = witness(folder, "--", "./dd", "if=data", "of=/dev/null", "bs=4k", code=4)
    assert found["verdict"] == "CONTRADICTED", found["explanation"]


@pytest.mark.root
@pytest.mark.bpf
def test_twins_say_what_watching_did(folder: Path) -> None:
    found = witness(folder, "--twins", "3", "--", "dd", "if=data", "of=/dev/null", "bs=1M")
    assert found["runs"] == 3
    [verdict] = found["verdicts"]
    assert verdict["numbers"]["probe_effect_runs"] == 3
    assert any(note.startswith("With the witness") for note in verdict["notes"]) or found["verdict"] == "PERTURBED"


@pytest.mark.root
@pytest.mark.bpf
def test_everything_that_was_seen_can_be_kept(folder: Path, tmp_path: Path) -> None:
    from ioassay.records.observation import from_dict

    witness(folder, "--output", str(tmp_path / "seen.json"), "--", "dd", "if=data", "of=/dev/null", "bs=1M")
    [run] = json.loads((tmp_path / "seen.json").read_text())
    assert any(file.path == "data" for file in from_dict(run["seen"]).files)
    assert run["claims"][0]["source"] == "dd"


def test_without_privileges_counters_judge_what_they_can(folder: Path) -> None:
    found = witness(folder, "--backend", "counters", "--", "dd", "if=data", "of=/dev/null", "bs=1M")
    assert found["backend"] == "counters"
    assert found["verdict"] in ("CONFIRMED", "CONFIRMED-CACHED", "INCOMPLETE", "UNSUPPORTED")
    assert "counters" in found["why"]


def test_a_program_without_a_claim_is_told_how_to_make_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [*IOASSAY, "witness", "--level", "counters", "--", "sh", "-c", "echo said; echo wrong >&2"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "said\n" in done.stdout and "wrong\n" in done.stderr
    assert "UNSUPPORTED" in done.stdout and "--claim" in done.stdout


def test_a_command_that_fails_or_never_starts_is_not_hidden(tmp_path: Path) -> None:
    assert witness(tmp_path, "--level", "counters", "--", "sh", "-c", "exit 7", code=7)["exit_code"] == 7
    assert witness(tmp_path, "--level", "counters", "--", "sh", "-c", "kill -9 $$", code=137)["exit_code"] is None
    assert witness(tmp_path, "--level", "counters", "--", "sh", "-c", "kill -9 $$", code=137)["signal"] == 9
    for backend in ("counters", "strace") if shutil.which("strace") else ("counters",):
        assert "no-such-program" in witness(tmp_path, "--backend", backend, "--", "no-such-program", code=127)["error"]
    counted = [*IOASSAY, "witness", "--level", "counters", "--"]
    for script, status, said in (("exit 7", 7, "ended with exit status 7."), ("kill -9 $$", 137, "ended by SIGKILL.")):
        done = subprocess.run([*counted, "sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status and f"The command {'was ' * ('SIG' in said)}{said}" in done.stdout


def test_a_daemon_that_goes_on_is_told_and_nothing_is_called_a_lie(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(MIB))
    script = DAEMON.format(lives_s=5, then="cat data > /dev/null")
    argv = ("--level", "counters", "--claim", "bytes=64MiB", "--", "sh", "-c", script)
    found = witness(tmp_path, *argv)
    assert "outlived the command" in found["why"] and found["verdict"] == "INCOMPLETE", found["explanation"]


@pytest.mark.root
@pytest.mark.bpf
def test_a_claim_may_name_a_file_by_any_way_that_leads_to_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder / "data")
    for named, opened in (("link", folder / "data"), (folder / "data", "link"), ("link", "link")):
        found = witness(
            tmp_path, "--claim", f"bytes={SIZE},path={named}", "--", "dd", f"if={opened}", "of=/dev/null", "bs=1M"
        )
        assert found["verdict"] in ("CONFIRMED", "CONFIRMED-CACHED"), found["explanation"]
    found = witness(
        tmp_path, "--claim", f"bytes={SIZE},path=/no/such", "--", "dd", f"if={folder / 'data'}", "of=/dev/null"
    )
    assert found["verdict"] == "UNSUBSTANTIATED"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--level", "everything", "--", "true"], "wanted counters, block, syscalls"),
        (["--level", "record", "--", "true"], "ioassay record"),
        (["--backend", "magic", "--", "true"], "wanted auto"),
        (["--claim", "speed=7", "--", "true"], "speed"),
        (["--claim", "bytes=many", "--", "true"], "bytes"),
        (["--claim-regex", "(?P<speed>.)", "--", "true"], "no group is called 'speed'; wanted bytes, ops"),
        (["--claim-regex", "(?P<ops>", "--", "true"], "no regular expression"),
        (["--claim-regex", "(?P<ops>.)", "--claim", "ops=1", "--", "true"], "exclude each other"),
        (["--output", "no/such/folder/x.json", "--", "true"], "folder does not exist"),
    ],
)
def test_bad_options_are_told_before_anything_runs(argv: list[str], said: str, tmp_path: Path) -> None:
    assert said in witness(tmp_path, *argv, code=2)["error"]


def test_what_is_piped_in_reaches_the_command_and_its_json_option_is_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [*IOASSAY, "witness", "--level", "counters", "--", "sh", "-c", "cat", "--json"],
        cwd=tmp_path, input="through", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("through")


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
    command = ["dd", "if=data", "of=/dev/null", "bs=4k"]
    done = subprocess.run(
        [*as_nobody, *IOASSAY, "witness", "--json", "--", *command],
        cwd=open_folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["backend"], found["asked"]) == ("counters", "syscalls")
    assert "CAP_BPF" in found["why"] and "CAP_PERFMON" in found["why"]
    assert found["counters"]["rchar"] >= MIB
    assert found["verdict"] in ("CONFIRMED", "CONFIRMED-CACHED", "INCOMPLETE")


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
    program(lying, LYING_FIO.format(fio=shutil.which("fio")))
    (tmp_path / "s.toml").write_text(STUDY.format(level=level))
    codes = {}
    for name, path in {"lying": f"{lying.parent}:{os.environ['PATH']}", "honest": os.environ["PATH"]}.items():
        answer = ask("run", "--json", "s.toml", "--output", name, cwd=tmp_path, env={"PATH": path})
        codes[name] = answer.code, answer.json
    assert codes["honest"][0] == 0
    code, found = codes["lying"]
    assert code == 4, found["findings"]
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


def test_a_daemon_survives_the_end_of_its_command_and_not_an_interruption(tmp_path: Path) -> None:
    witness(tmp_path, "--level", "counters", "--", "sh", "-c", DAEMON.format(lives_s=300, then="true"))
    survived = int((tmp_path / "daemon").read_text())
    assert _is_there(survived)
    os.kill(survived, signal.SIGKILL)
    (tmp_path / "daemon").unlink()
    argv = [*IOASSAY, "witness", "--level", "counters", "--", "sh", "-c", DAEMON.format(lives_s=300, then="sleep 300")]
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        deadline_s = time.monotonic() + 30
        while not (tmp_path / "daemon").exists() or not (tmp_path / "daemon").read_text().strip():
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
    assert not _is_there(int((tmp_path / "daemon").read_text()))
