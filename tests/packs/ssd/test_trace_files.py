"""What is around a trace: archives, compression, encodings, folders, files that are none, lines that are bad."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import InputError
from ioassay.simulation import options, traces

from ...readers.test_containers import streamed, tarred, zipped, zstd

HEADER = b"time_ns,kind,offset_bytes,length_bytes\n"
FIRST, SECOND = b"10,read,0,4096\n20,write,4096,4096\n", b"30,read,8192,4096\n40,write,0,8192\n"
LONG = b"0.000004 supervise 1950 %s W 13092560 4096 0.74\n"


def written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def converted(path: Path, folder: Path, **how: Any) -> bytes:
    traces.convert(path, folder / "converted", to="csv", force=True, cache=False, **how)
    return (folder / "converted").read_bytes()


@pytest.mark.parametrize("pack", [tarred, zipped, streamed], ids=["tar", "zip", "zip of a pipe"])
def test_files_of_an_archive_are_one_trace_in_its_order_and_others_are_named(
    tmp_path: Path, pack: Callable[..., bytes]
) -> None:
    files = [
        ("README", b"how it was\nrecorded"),
        ("b.csv", HEADER + FIRST),
        ("x/a.csv", gzip.compress(HEADER + SECOND)),
    ]
    packed = written(tmp_path / "packed", pack(*files))
    assert converted(packed, tmp_path) == converted(written(tmp_path / "plain", HEADER + FIRST + SECOND), tmp_path)
    found = traces.info(packed)
    assert (found["requests"], found["format"]) == (4, "csv")
    assert "1 file holds no request and is left out (--member chooses files): README (" in found["cache"]["left_out"]
    for member, requests in {"x/a.csv": 2, "*.csv": 4, "a.?sv": 2, "b*": 2}.items():
        found = traces.info(packed, read={"member": member})
        assert (found["requests"], found["cache"]["left_out"]) == (requests, None), member
    with pytest.raises(InputError, match=r"member is `c`, expected the name .* there are README, b\.csv, x/a\.csv"):
        traces.info(packed, read={"member": "c"})


def test_files_that_overlap_in_time_are_merged_only_where_that_is_wanted(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    written(folder / "1.csv", HEADER + b"10,read,0,512\n30,read,1,512\n20,read,2,512\n")
    written(folder / "2.csv.gz", gzip.compress(HEADER + b"5,write,0,512\n30,write,1,512\n"))
    packed = written(
        tmp_path / "packed", tarred(*((path.name, path.read_bytes()) for path in sorted(folder.iterdir())))
    )
    merged = b"5,write,0\n10,read,0\n20,read,2\n30,read,1\n30,write,1\n".split()
    for path in (folder, packed):
        with pytest.raises(InputError, match=r"1\.csv: .*line 4: goes back in time"):
            converted(path, tmp_path)
        text = converted(path, tmp_path, read={"out_of_order": 1})
        assert [line.rsplit(b",", 2)[0] for line in text.split()[1:]] == merged
        with pytest.raises(InputError, match=r"2\.csv\.gz begins at 5 ns, before .*sort:1 merges"):
            converted(path, tmp_path, read={"bad_lines": 1})


def test_devices_that_have_names_have_one_number_in_all_files(tmp_path: Path) -> None:
    for number, disks in enumerate((b"ab", b"bc", b"a")):
        lines = [LONG % b"xvd%c" % disk for disk in disks]
        written(tmp_path / "folder" / f"{number}", b"".join(lines))
    devices = [line.rsplit(b",", 1)[1] for line in converted(tmp_path / "folder", tmp_path).split()[1:]]
    assert devices == [b"0", b"1", b"1", b"2", b"0"]
    of_host = b"128166372003061629,%s,1,Read,383496192,32768,113736\n"
    packed = written(tmp_path / "msr.zip", zipped(("hm_1.csv", of_host % b"hm"), ("prn_1.csv", of_host % b"prn")))
    assert "prn_1.csv (line 1: host is `prn`, expected the host" in traces.info(packed)["cache"]["left_out"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (tarred(("README", b"words"), ("b", b"others")), r"has no trace: README \(.*\), and 1 more"),
        (zipped(), "has no files"),
        (tarred(("a.csv", HEADER + FIRST), ("b.csv", HEADER + SECOND + b"x\n")), r"b\.csv: line 4: "),
    ],
    ids=["no trace", "no file", "a bad line"],
)
def test_what_holds_no_right_trace_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = written(tmp_path / "packed", content)
    with pytest.raises(InputError, match=f"^{path}: .*{why}"):
        converted(path, tmp_path)


def test_an_archive_is_read_from_standard_input(tmp_path: Path) -> None:
    packed = zstd(tarred(("a.csv", HEADER + FIRST), ("b.csv", HEADER + SECOND)))
    code = "from ioassay import traces; print(traces.info('-', read={read})['requests'])"
    for read, wanted in {"{}": "4", "{'out_of_order': 1}": "read only once"}.items():
        words = ["python3", "-c", code.replace("{read}", read)]
        done = subprocess.run(words, input=packed, capture_output=True, check=False)
        assert wanted in (done.stdout + done.stderr).decode()


def test_an_archive_is_kept_in_the_cache_where_all_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(traces.SWITCH, raising=False)
    names = []
    for seed in (1, 2):
        traces.make(tmp_path / f"{seed}.csv", requests=40_000, seed=seed)
        names.append((f"{seed}.csv", (tmp_path / f"{seed}.csv").read_bytes()))
    packed = written(tmp_path / "packed", tarred(*names))
    for read in ({"out_of_order": 1}, {}, {"member": "1.csv"}):
        before, after = (traces.info(packed, read=read) for _ in range(2))
        assert [(found["cache"]["written"], found["cache"]["read"]) for found in (before, after)] == [
            (True, False),
            (False, True),
        ]
        assert {**before, "cache": None} == {**after, "cache": None}
    written(packed, tarred(*names, ("README", b"words")))
    assert all(traces.info(packed)["cache"]["left_out"] for _ in range(2))


def test_bad_lines_are_forgiven_while_the_format_is_found(tmp_path: Path) -> None:
    lines = [b"%d.5 0 %d 8 1\n" % (at, 8 * at) for at in range(20)]
    lines[3:3], lines[9:9] = [b"--- log rotated ---\n"], [b"7.5 0 \0\0\0\n"]
    path = written(tmp_path / "trace", b"".join(lines))
    with pytest.raises(InputError, match="no known trace format fits"):
        traces.info(path)
    with pytest.raises(InputError, match="disksim: line 10"):
        traces.info(path, read={"bad_lines": 1})
    for most in (2, 100):
        found = traces.info(path, read={"bad_lines": most})
        assert (found["format"], found["requests"]) == ("disksim", 20)
    prose = written(tmp_path / "prose", b"this is\nno trace\n1.5 0 8 8 1\n")
    with pytest.raises(InputError, match="no known trace format fits"):
        traces.info(prose, read={"bad_lines": 100})


def test_a_request_longer_than_any_is_refused_by_its_number(tmp_path: Path) -> None:
    for length in (2**32, 2**40, 2**62):
        path = written(tmp_path / "trace.csv", HEADER + FIRST + b"50,write,0,%d\n" % length)
        for look in (traces.info, traces.mrc):
            with pytest.raises(InputError, match=f"line 4: length `{length} bytes` is too large: .*--bad-lines"):
                look(path)
            assert look(path, read={"bad_lines": 1})
    path = written(tmp_path / "trace.csv", HEADER + b"50,trim,0,%d\n51,write,0,%d\n" % (2**40, 2**32 - 1))
    assert traces.info(path)["requests"] == 2


def test_a_curve_takes_no_more_memory_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "available_bytes", lambda: 2**24)
    path = written(tmp_path / "trace.csv", HEADER + b"50,write,0,%d\n" % (2**32 - 1))
    with pytest.raises(InputError, match=r"number of pages is 83887, expected at most 83886, .*12 MiB.*--sample-pages"):
        traces.mrc(path)
    assert traces.mrc(path, sample_pages=1000)["references"] == 2**20
