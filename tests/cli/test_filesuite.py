"""`ioassay filesuite` as it is typed: options, results, the calls that it makes, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from . import file_calls

COMMAND = [sys.executable, "-m", "ioassay", "filesuite"]


def typed(folder: Path, *words: str, ahead: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*ahead, *COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def found(folder: Path, *words: str) -> dict[str, Any]:
    done = typed(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def passes(folder: Path, *words: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = found(folder, *words)["passes"]
    return result


# What is done


def test_each_pass_is_exact_and_nothing_is_left(tmp_path: Path) -> None:
    result = found(tmp_path, "-s", "256k", "-r", "4k")
    assert len(result["passes"]) == 13
    for one in result["passes"]:
        assert (one["status"], one["operations"], one["bytes"]) == ("ok", 64, 256 << 10)
        assert one["nanoseconds"] == max(one["end_ns"] - one["start_ns"], 1)
        assert one["bytes_per_s"] == pytest.approx(one["bytes"] * 1e9 / one["nanoseconds"])
    assert 0 < result["clock_overhead_ns"] < 100_000
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_kb_unless_they_say_otherwise(tmp_path: Path) -> None:
    for size, record, wanted in [
        ("64", "4", (65536, 4096)),
        ("1m", "64k", (1 << 20, 65536)),
        ("8k", "512b", (8192, 512)),
    ]:
        one = passes(tmp_path, "-i0", "-s", size, "-r", record)[0]
        assert (one["file_bytes"], one["record_bytes"]) == wanted


def test_lists_are_crossed_and_repeated(tmp_path: Path) -> None:
    told = passes(tmp_path, "-i9", "-s", "64k", "-s", "16k", "-r", "4k", "-r", "32k", "--repetitions", "2")
    cells = [(one["asked_file_bytes"] // 1024, one["record_bytes"] // 1024) for one in told]
    assert Counter(cells) == {(16, 4): 4, (64, 4): 4, (64, 32): 4}
    assert Counter(one["repetition"] for one in told) == {0: 6, 1: 6}


def test_content_and_checks_of_every_kind_agree_with_each_other(tmp_path: Path) -> None:
    for words in (["--data", "iozone"], ["--data", "zeros"], ["-V", "165"], ["--check", "off"], ["--plain"]):
        result = found(tmp_path, "-s64", "-i", "0-7", *words)
        assert {one["status"] for one in result["passes"]} == {"ok"}
        assert [one["differing_records"] for one in result["checked"]] == ([0] if words == ["--plain"] else [])


def test_threads_each_move_a_whole_file(tmp_path: Path) -> None:
    result = found(tmp_path, "-t", "3", "-i0", "-i8", "-s", "128k")
    assert [group["name"] for group in result["groups"]] == ["write", "rewrite", "random_mix"]
    for group in result["groups"]:
        assert (group["ok"], group["bytes"]) == (3, 3 * (128 << 10))
        assert group["common_ns"] <= group["span_ns"] <= group["parent_ns"] + 10_000_000
        assert group["min_bytes_per_s"] <= group["mean_bytes_per_s"] <= group["max_bytes_per_s"]
    assert len({one["path"] for one in result["passes"]}) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_table_for_people_names_every_pass(tmp_path: Path) -> None:
    said = typed(tmp_path, "-s64", "-R").stdout
    assert "record_rewrite" in said
    assert "stride_read, file by record" in said
    assert "ops/s" not in typed(tmp_path, "-s64", "-i0", "-N").stdout
    assert " µs" in typed(tmp_path, "-s64", "-i0", "-N").stdout


def test_iozones_table_is_read_by_those_who_read_iozone(tmp_path: Path) -> None:
    from ioassay.formats import iozone_claims

    text = typed(
        tmp_path, "-i0", "-i1", "-i10", "-s", "256k", "-r", "4k", "-r", "64k", "-e", "--format", "iozone", "-R"
    )
    claims = iozone_claims.read(text.stdout)
    assert [claim.test for claim in claims] == ["write", "rewrite", "read", "reread", "pread", "repread"] * 2
    assert {(claim.bytes, tuple(claim.includes)) for claim in claims} == {(256 << 10, ("fsync",))}
    assert '"Re-Pread report"' in text.stdout


def test_matrices_and_throughput_are_read_as_iozones_as_well(tmp_path: Path) -> None:
    from ioassay.formats import iozone_claims

    text = typed(tmp_path, "-a", "-g", "32m", "-n", "16m", "-i0", "--format", "iozone", "-R").stdout
    matrices = text[text.index('"Writer report"') :]
    assert len(iozone_claims.read(matrices)) == 2 * (13 + 9)
    summary = typed(tmp_path, "-t", "2", "-i0", "-s", "64", "--format", "iozone").stdout
    assert [(claim.test, claim.file_bytes, claim.record_bytes) for claim in iozone_claims.read(summary)] == [
        ("write", 65536, 4096),
        ("rewrite", 65536, 4096),
    ]


def test_tests_are_listed(tmp_path: Path) -> None:
    assert "every 17th record" in typed(tmp_path, "--list-tests").stdout
    assert len(found(tmp_path, "--list-tests")["tests"]) == 13


# The calls that are made


def sessions(folder: Path, *words: str) -> list[list[str]]:
    """The names of the calls between each open and close of the file."""
    trace = folder / "trace"
    ahead = ["strace", "-f", "-qq", "-o", str(trace), "-e", file_calls.TRACED]
    done = typed(folder, *words, "-f", "measured", ahead=ahead)
    assert done.returncode == 0, done.stderr
    made = file_calls.sessions(trace.read_text(), "measured")
    return [[name for name, *_ in session.calls] for session in made]


@pytest.mark.strace
def test_plain_makes_no_other_calls_than_it_counts(tmp_path: Path) -> None:
    told = sessions(tmp_path, "-i", "0,1,3", "-s64", "-r4", "--plain", "--check", "off")
    moved = [Counter(name for name in one if name in ("read", "write")) for one in told]
    assert moved == [{"write": 16}, {"write": 16}, {"read": 16}, {"read": 16}, {"read": 16}]


@pytest.mark.strace
@pytest.mark.parametrize(("flags", "last"), [([], "fsync close"), (["-c"], "write close"), (["-ec"], "fsync close")])
def test_the_end_of_a_pass_is_as_its_flags_say(tmp_path: Path, flags: list[str], last: str) -> None:
    told = sessions(tmp_path, "-i", "0", "-s64", "-r4", *flags)
    assert [" ".join(one[-2:]) for one in told] == [last] * 2


# What cannot be


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sise", "4k"], "--size"),
        (["-s", "4x"], "--size is '4x'"),
        (["-i", "13"], "0 to 12"),
        (["-i", "8"], "also another one"),
        (["-s4k", "-r8k"], "at most the file's size"),
        (["-n4k"], "--auto"),
        (["-a", "-n8m", "-g4m"], "ends no earlier"),
        (["-V", "256"], "0 to 255"),
        (["-O", "-N"], "one of them"),
        (["--cache", "cold"], "leave, drop, drop-all, warm"),
        (["--repetitions", "0"], "at least 1"),
        (["-t", "-1"], "at least 0"),
        (["--format", "csv"], "text, iozone"),
        (["--format", "iozone", "-r", "512b"], "use --json"),
        (["-j", "0"], "--stride is 0"),
        (["-B", "-I"], "mmap (-B) is given with direct (-I)"),
        (["-B", "-o"], "mmap (-B) is given with sync (-o)"),
        (["-D"], "without --mmap (-B)"),
        (["-B", "-D", "-G"], "one of them"),
        (["-B", "-G", "-r", "512b"], "multiple of the page"),
        (["-K", "-B"], "jitter (-K) is given with mmap (-B)"),
        (["--shuffle", "3.5"], "3.471, 3.489"),
        (["-K", "-I"], "jitter (-K) is given with direct (-I)"),
        (["-l", "2"], "--max-threads (-u) is not given"),
        (["-u", "2"], "--min-threads (-l) is not given"),
        (["-t", "2", "-l", "1", "-u", "2"], "both given"),
        (["-l", "3", "-u", "2"], "fewest workers (-l) is 3"),
        (["-F", "a", "b"], "-F is given without threads"),
        (["-t", "2", "-F", "a"], "files (-F) is 1 names"),
        (["-t", "2", "-F", "a", "a"], "one name twice"),
        (["-t", "2", "-F", "a", "b", "-f", "c"], "both given"),
        (["-t", "2", "-F", "-e"], "-F is given without a name"),
        (["-t", "2", "-b", "x.xls"], "--workbook (-b) and threads"),
        (["-x"], "-x is given without threads"),
        (["-C"], "-C is given without threads"),
        (["-T"], "-T is given without threads"),
        (["-P", "99999"], "processor (-P) is 99999"),
        (["-P", "-1"], "at least 0"),
        (["-Q", "-a"], "a file holds one pass"),
        (["-Q", "-l", "1", "-u", "2"], "wanted one"),
        (["-+d", "--data", "zeros"], "--diagnose (-+d)"),
        (["-H", "4"], "-H of IOzone is not supported; use the driver fio"),
        (["-+dx"], "No such option: -+dx"),
        (["-+u"], "-+u of IOzone is not supported"),
    ],
)
def test_options_that_cannot_be_are_named_with_what_was_wanted(tmp_path: Path, words: list[str], said: str) -> None:
    done = typed(tmp_path, *words)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("precious"), lambda path: path.symlink_to("other"), Path.mkdir]
)
def test_what_is_there_is_refused(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "there")
    done = typed(tmp_path, "-f", "there", "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)["exit_code"] == 3
    assert "there: " in done.stderr
    assert (tmp_path / "there").is_symlink() or (tmp_path / "there").exists()


def test_overwrite_deletes_a_regular_file_alone(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    assert passes(tmp_path, "-f", "there", "-i0", "-s64", "--overwrite")[0]["status"] == "ok"
    (tmp_path / "link").symlink_to("other")
    assert typed(tmp_path, "-f", "link", "--overwrite").returncode == 3
    assert typed(tmp_path, "-f", "/dev/null", "--overwrite").returncode == 3
    assert Path("/dev/null").is_char_device()


def test_a_cell_without_room_is_named_and_has_no_number(tmp_path: Path) -> None:
    done = typed(tmp_path, "-i0", "-i1", "-s64", "-s", "99999999g", "--json")
    told = json.loads(done.stdout)["passes"]
    assert done.returncode == 1
    assert [one["status"] for one in told] == ["ok"] * 4 + ["skipped"] * 4
    assert {one["nanoseconds"] for one in told[4:]} == {None}
    assert "has room for" in told[4]["reason"]
    assert "    -" in typed(tmp_path, "-i0", "-s", "99999999g", "--format", "iozone").stdout


def test_records_that_direct_transfers_cannot_have_are_explained(tmp_path: Path) -> None:
    done = typed(tmp_path, "-I", "-i0", "-s64", "-r", "1000b", "--json")
    told = json.loads(done.stdout)["passes"]
    if told[0]["status"] == "ok":
        pytest.skip("this filesystem takes direct transfers of any size")
    assert done.returncode == 1
    assert "O_DIRECT" in told[0]["reason"]
    assert told[1]["status"] == "skipped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_file_goes_when_it_is_stopped(tmp_path: Path, number: signal.Signals) -> None:
    words = ["-i0", "-i2", "-s", "8m", "-r", "512b", "--repetitions", "100000"]
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


# Root


@pytest.mark.root
def test_a_filesystem_is_unmounted_and_mounted_again(tmp_path: Path) -> None:
    image, mounted = tmp_path / "image", tmp_path / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(32 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", str(image)], capture_output=True, text=True, check=False)
    attached = subprocess.run(
        ["mount", "-o", "loop,noatime", image, mounted], capture_output=True, text=True, check=False
    )
    if made.returncode or attached.returncode:
        pytest.skip(f"no loop mount here: {made.stderr}{attached.stderr}")
    try:
        told = passes(tmp_path, "-i0", "-i1", "-s", "1m", "-f", "mounted/file", "-U", "mounted")
        line = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(mounted) in line)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)
    assert [one["status"] for one in told] == ["ok"] * 4
    assert all(one["resident_share"] < 0.9 for one in told[2:]), "it came from memory"
    assert "noatime" in line


@pytest.mark.root
def test_only_its_own_filesystem_is_unmounted(tmp_path: Path) -> None:
    for mountpoint in ("/", "/proc", str(tmp_path)):
        done = typed(tmp_path, "-i0", "-s64", "-U", mountpoint)
        assert done.returncode == 3, done.stderr
        assert "-U" in done.stderr
