"""`ioassay filesuite`: what it measures, the calls that it makes, and IOzone's options.

What it refuses and leaves are rows of tests/corpus/commands/filesuite.toml.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ioassay import _core
from ioassay.errors import UsageError
from ioassay.packs.iozone.claims import filesuite_json, iozone_claims
from ioassay.packs.iozone.commands import filesuite

from ...cli.conftest import Answer, ask, checked, command
from . import file_calls

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "iozone" / "3.489"


def typed(folder: Path, *words: str, ahead: tuple[str, ...] = ()) -> Answer:
    """The answer; `ahead` is a program that starts it."""
    if not ahead:
        return ask("filesuite", *words, cwd=folder)
    argv = [*ahead, *command("filesuite", *words)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=240)
    return checked(done.returncode, done.stdout, done.stderr)


def found(folder: Path, *words: str, ahead: tuple[str, ...] = ()) -> dict[str, Any]:
    done = typed(folder, *words, "--json", ahead=ahead)
    assert done.code == 0, done.err
    return done.json


def passes(folder: Path, *words: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = found(folder, *words)["passes"]
    return result


def traced(folder: Path, *words: str, calls: str = file_calls.TRACED) -> tuple[dict[str, Any], str]:
    """What it found, and strace's record of its calls."""
    trace = folder / "trace"
    ahead = ("strace", "-f", "-qq", "-o", str(trace), "-e", calls)
    return found(folder, *words, ahead=ahead), trace.read_text()


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


def test_threads_each_move_a_whole_file(tmp_path: Path) -> None:
    result = found(tmp_path, "-t", "3", "-i0", "-i8", "-s", "128k")
    assert [group["name"] for group in result["groups"]] == ["write", "rewrite", "random_mix"]
    for group in result["groups"]:
        assert (group["ok"], group["bytes"]) == (3, 3 * (128 << 10))
        # The parent's time is taken apart, and on a busy machine may be shorter than the span by any amount.
        assert group["common_ns"] <= group["span_ns"] and group["parent_ns"] > 0
        assert group["min_bytes_per_s"] <= group["mean_bytes_per_s"] <= group["max_bytes_per_s"]
    assert len({one["path"] for one in result["passes"]}) == 3
    assert list(tmp_path.iterdir()) == []


def test_iozones_table_is_read_by_those_who_read_iozone(tmp_path: Path) -> None:
    words = ["-i0", "-i1", "-i10", "-s256k", "-r4k", "-r64k", "-e", "--format", "iozone", "-R"]
    text = typed(tmp_path, *words).out
    claims = iozone_claims.read(text)
    assert [claim.test for claim in claims] == ["write", "rewrite", "read", "reread", "pread", "repread"] * 2
    assert {(claim.bytes, tuple(claim.includes)) for claim in claims} == {(256 << 10, ("fsync",))}
    assert '"Re-Pread report"' in text


def test_matrices_and_throughput_are_read_as_iozones_as_well(tmp_path: Path) -> None:
    file = f"/dev/shm/{tmp_path.name}-{os.getpid()}"  # a gigabyte in all, each file of it synchronised
    text = typed(tmp_path, "-a", "-g", "32m", "-n", "16m", "-i0", "--format", "iozone", "-R", "-f", file).out
    matrices = text[text.index('"Writer report"') :]
    assert len(iozone_claims.read(matrices)) == 2 * (13 + 9)
    summary = typed(tmp_path, "-t", "2", "-i0", "-s", "64", "--format", "iozone").out
    assert [(claim.test, claim.file_bytes, claim.record_bytes) for claim in iozone_claims.read(summary)] == [
        ("write", 65536, 4096),
        ("rewrite", 65536, 4096),
    ]


# The calls that are made


def sessions(folder: Path, *words: str) -> list[list[str]]:
    """The names of the calls between each open and close of the file."""
    _, trace = traced(folder, *words, "-f", "measured")
    return [[name for name, *_ in session.calls] for session in file_calls.sessions(trace, "measured")]


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


@pytest.mark.strace
@pytest.mark.parametrize("case", file_calls.CASES)
def test_the_calls_are_those_that_iozone_makes(tmp_path: Path, case: str) -> None:
    words, names = file_calls.CASES[case]
    golden = file_calls.golden(GOLDEN / f"calls-{case}.txt")
    assert tuple(golden) == names
    named = "-F" if "-t1" in words else "-f"
    result, trace = traced(tmp_path, *words, "--shuffle", "3.489", named, "measured")
    each_pass = [
        one["name"] + suffix for one in result["passes"] for suffix in ("", *[" silent"] * one["silent_passes"])
    ]
    made = file_calls.sessions(trace, "measured")
    ours = {name: session.lines() for name, session in zip(each_pass, made, strict=True)}
    assert {name: ours[name] for name in names} == golden


@pytest.mark.strace
def test_vectored_calls_are_those_of_pwrite_and_pread(tmp_path: Path) -> None:
    """No IOzone at hand has them compiled in: by the documents they differ in the call alone."""
    result, trace = traced(tmp_path, "-i11", "-i12", "-s64k", "-r16k", calls="trace=pwritev,preadv")
    assert len(result["passes"]) == 4
    lines = file_calls.whole_lines(trace.splitlines())
    calls = [call for line in lines if (call := re.match(r"(\w+)\(.*, 1, (\d+)\) += 16384$", line))]
    assert [call[1] for call in calls] == ["pwritev"] * 8 + ["preadv"] * 8
    offsets = [int(call[2]) // 16384 for call in calls]
    assert offsets == [0, 1, 2, 3] * 4


# What is there, and what is left


def test_records_that_direct_transfers_cannot_have_are_explained(tmp_path: Path) -> None:
    done = typed(tmp_path, "-I", "-i0", "-s64", "-r", "1000b", "--json")
    told = done.json["passes"]
    if told[0]["status"] == "ok":
        pytest.skip("this filesystem takes direct transfers of any size")
    assert done.code == 1
    assert "O_DIRECT" in told[0]["reason"]
    assert told[1]["status"] == "skipped"


def test_latencies_are_a_file_for_each_pass(tmp_path: Path) -> None:
    words = ("-Q", "-i0", "-i1", "-i3", "-s64k", "-r16k")
    result = found(tmp_path, *words)
    files = {path.name: path.read_text().splitlines() for path in tmp_path.iterdir()}
    assert sorted(files) == ["backward_read.dat", "rol.dat", "rrol.dat", "rwol.dat", "wol.dat"]
    for lines in files.values():
        assert lines[0] == "Offset in kBytes   Latency in microseconds  Transfer size in bytes"
        assert {line.split()[2] for line in lines[1:]} == {"16384"}
    assert [line.split()[0] for line in files["backward_read.dat"][1:]] == ["48", "32", "16", "0"]
    sum_us = sum(float(line.split()[1]) for line in files["wol.dat"][1:])
    assert 0 < sum_us * 1000 <= result["passes"][0]["nanoseconds"]
    again = typed(tmp_path, *words)
    assert (again.code, "wol.dat: exists" in again.err) == (3, True)
    assert (tmp_path / "wol.dat").read_text().splitlines() == files["wol.dat"]


def cells(content: bytes) -> Iterator[tuple[int, int, str | float]]:
    """Row, column and value of the labels and numbers of a BIFF2 sheet."""
    place = 0
    while place < len(content):
        kind, length = struct.unpack_from("<HH", content, place)
        body = content[place + 4 : place + 4 + length]
        place += 4 + length
        if kind == 0x0003:
            yield (*struct.unpack_from("<HH", body), struct.unpack_from("<d", body, 7)[0])
        elif kind == 0x0004:
            yield (*struct.unpack_from("<HH", body), body[8 : 8 + body[7]].decode("latin-1"))
        else:
            assert kind in (0x0009, 0x000A)
    assert place == len(content)


def test_a_workbook_holds_the_matrices(tmp_path: Path) -> None:
    result = found(tmp_path, "-b", "rates.xls", "-i0", "-s64k", "-s128k", "-r4k", "-r16k")
    content = list(cells((tmp_path / "rates.xls").read_bytes()))
    labels = [value for _, _, value in content if isinstance(value, str)]
    assert labels[2:] == ["write", "rewrite"]
    values = {(row, column): value for row, column, value in content}
    rates = {(each["name"], each["file_bytes"], each["record_bytes"]): each for each in result["passes"]}
    assert [values[4, column] for column in (1, 2)] == [4, 16]
    assert [values[row, 0] for row in (5, 6)] == [64, 128]
    assert values[6, 1] == pytest.approx(rates["write", 128 << 10, 4096]["bytes_per_s"] / 1024)
    assert values[11, 2] == pytest.approx(rates["rewrite", 128 << 10, 16384]["bytes_per_s"] / 1024)
    assert typed(tmp_path, "-b", "rates.xls").code == 3


def test_what_comes_out_says_what_was_asked_for(tmp_path: Path) -> None:
    words = ["-B", "-G", "-j3", "-P0", "-i0", "-i5", "-s64k"]
    text = typed(tmp_path, *words, "--format", "iozone").out
    assert "Using mmap files" in text
    assert "filesuite -i0 -i5 -P0 -j3 -B -G -s64k -f" in text
    assert {claim.engine for claim in iozone_claims.read(text)} == {"mmap"}
    own = typed(tmp_path, *words, "--json").out
    assert {claim.engine for claim in filesuite_json.CLAIMS.read(own)} == {"mmap"}


# Root


@pytest.mark.root
def test_a_filesystem_is_unmounted_and_mounted_again(loop_device: Callable[[int], Path], tmp_path: Path) -> None:
    device, mounted = loop_device(32 << 20), tmp_path / "mounted"
    mounted.mkdir()
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    subprocess.run(["mount", "-o", "noatime", device, mounted], check=True)
    try:
        told = passes(tmp_path, "-i0", "-i1", "-s", "1m", "-f", "mounted/file", "-U", "mounted")
        line = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(mounted) in line)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)
    assert [one["status"] for one in told] == ["ok"] * 4
    assert all(one["resident_share"] < 0.9 for one in told[2:]), "it came from memory"
    assert "noatime" in line


# All options


def test_each_option_is_built_or_refused_with_what_to_use_instead() -> None:
    command = filesuite.Command(filesuite.filesuite)
    known = {name for option in command.options for name in option.yes} | {"-h", "-+d"}
    assert not known & filesuite.refused().keys()
    for name in filesuite.refused():
        with pytest.raises(UsageError) as caught:
            command.run([name], "ioassay filesuite")
        assert str(caught.value).startswith(f"{name} of IOzone is not supported; ")
    names = {f"-{name}" for name in "abBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZA"}
    assert names <= known | filesuite.refused().keys()
    letters = {name for option in command.options for name in option.yes if not name.startswith("--")}
    assert letters <= names, "a letter that IOzone has not"


def test_the_stride_is_that_of_the_fact_sheet() -> None:
    """Eight records are record 0 eight times; of 256 the first sweep does not reach the last."""
    small = file_calls.golden(GOLDEN / "calls-512k-64k.txt")["stride_read"]
    assert small == ["fsync 0 0 0 1", "read 65536 0 0 1", "lseek+read 65536 0 0 7", "lseek 0 0 0 1"]
    large = file_calls.golden(GOLDEN / "calls-1m-4k.txt")["stride_read"]
    assert large[1:4] == ["read 4096 0 0 1", "lseek+read 4096 69632 69632 14", "lseek+read 4096 4096 69632 15"]
    assert [test["number"] for test in _core.filesuite_tests()] == list(range(13))
