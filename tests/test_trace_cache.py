"""The cache of parsed traces: the same requests with it and without, whatever happens to its files."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay import traces
from ioassay.errors import InputError, UsageError
from ioassay.traces import cache

LINES = 60_000
"""More than the megabyte from which on traces are kept."""
DRIVE = {"elements": 4, "blocks": 64}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(cache.SWITCH, raising=False)
    yield tmp_path / "cache" / "ioassay" / "traces"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace that was written just now."""
    path = tmp_path / "trace.csv"
    traces.make(path, requests=LINES, reads=0.3, sizes="4KiB:3,64KiB:1", range="64MiB", seed=7)
    return path


def seen(trace: Path, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a trace is like, without and with what the cache did."""
    found = traces.info(trace, **options)
    return {name: value for name, value in found.items() if name != "cache"}, found["cache"]


def columns(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.columns"))


def test_the_second_read_comes_from_the_cache_and_is_the_same(trace: Path, folder: Path) -> None:
    plain, without = seen(trace, cache=False)
    assert without == {"read": False, "written": False, "note": None}
    assert not folder.exists()
    first, done = seen(trace)
    assert done == {"read": False, "written": True, "note": None}
    second, done = seen(trace)
    assert done == {"read": True, "written": False, "note": None}
    assert plain == first == second
    assert folder.stat().st_mode & 0o777 == 0o700
    assert columns(folder)[0].stat().st_size < trace.stat().st_size / 3


def test_a_simulation_is_the_same_from_the_cache(trace: Path, folder: Path) -> None:
    runs = [ioassay.simulate(trace, drive=DRIVE, policy="lru", buffer="1MiB", cache=use) for use in (False, True, True)]
    assert [run.raw["cache"]["read"] for run in runs] == [False, False, True]
    summaries = [{**run.summary, "wall_s": 0} for run in runs]
    assert summaries[0] == summaries[1] == summaries[2]
    assert runs[0].series.equals(runs[2].series)


def test_a_conversion_from_the_cache_has_the_same_bytes(trace: Path, folder: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"{number}.csv" for number in range(3)]
    for output, use in zip(outputs, (False, True, True), strict=True):
        traces.convert(trace, output, cache=use)
    assert outputs[0].read_bytes() == outputs[1].read_bytes() == outputs[2].read_bytes()


def test_changed_content_of_the_same_size_and_times_is_another_trace(trace: Path, folder: Path) -> None:
    before, _ = seen(trace)
    status = trace.stat()
    text = trace.read_text(encoding="utf-8")
    changed = text.replace(",write,", ",WRITE,").replace(",read,", ",write,").replace(",WRITE,", ",read,,"[:-1])
    changed = changed[: len(text)].ljust(len(text), "\n")
    trace.write_text(changed, encoding="utf-8")
    os.utime(trace, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert trace.stat().st_size == status.st_size
    after, done = seen(trace, cache=True)
    plain, _ = seen(trace, cache=False)
    assert after == plain != before
    assert not done["read"]


@pytest.mark.slow
def test_a_settled_file_is_recognised_without_a_look_at_its_content(trace: Path, folder: Path) -> None:
    plain, _ = seen(trace)
    assert not list(folder.glob("*.same")), "it was changed less than a minute ago"
    time.sleep(61)
    seen(trace)
    if not list(folder.glob("*.same")):
        pytest.skip(f"needs ext4, XFS, Btrfs or F2FS at {trace.parent}: elsewhere the content is hashed each time")
    before = _bytes_read()
    assert seen(trace) == (plain, {"read": True, "written": False, "note": None})
    assert _bytes_read() - before < trace.stat().st_size
    status = trace.stat()
    content = trace.read_bytes()
    digit = content.rindex(b"4096")
    trace.write_bytes(content[:digit] + b"8192" + content[digit + 4 :])
    os.utime(trace, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert not seen(trace)[1]["read"]


def _bytes_read() -> int:
    """By this process, with all system calls (proc(5))."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(fields["rchar"])


def test_a_copy_is_the_same_trace(trace: Path, folder: Path, tmp_path: Path) -> None:
    seen(trace)
    copy = tmp_path / "other" / trace.name
    copy.parent.mkdir()
    shutil.copy(trace, copy)
    _, done = seen(copy)
    assert done["read"]


def test_other_options_of_reading_are_kept_apart(trace: Path, folder: Path) -> None:
    seen(trace)
    _, done = seen(trace, read={"out_of_order": 10})
    assert not done["read"]
    _, done = seen(trace, format="csv")
    assert not done["read"]
    assert len(columns(folder)) == 3


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_compressed_traces_are_kept(trace: Path, folder: Path, tmp_path: Path, compression: str) -> None:
    packed = tmp_path / f"packed.csv{compression}"
    traces.make(packed, requests=10 * LINES, reads=0.3, range="64MiB", seed=7)
    plain, _ = seen(packed, cache=False)
    assert seen(packed) == (plain, {"read": False, "written": True, "note": None})
    assert seen(packed) == (plain, {"read": True, "written": False, "note": None})


def test_damage_anywhere_is_noticed_and_the_trace_is_parsed(trace: Path, folder: Path) -> None:
    plain, _ = seen(trace)
    chance = random.Random(5)
    for _ in range(12):
        (kept,) = columns(folder)
        content = bytearray(kept.read_bytes())
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
        kept.write_bytes(content)
        found, done = seen(trace)
        assert found == plain, f"byte {place}"
        assert "damaged" in done["note"], f"byte {place}"
        seen(trace)  # kept again, where the damage was noticed before the first request


def test_a_truncated_file_is_noticed(trace: Path, folder: Path) -> None:
    plain, _ = seen(trace)
    for share in (0.0, 0.3, 0.999):
        (kept,) = columns(folder)
        os.truncate(kept, int(kept.stat().st_size * share))
        found, done = seen(trace)
        assert found == plain
        assert "damaged" in done["note"]
        seen(trace)


def test_a_bad_trace_is_refused_each_time(trace: Path, folder: Path) -> None:
    with trace.open("a", encoding="utf-8") as file:
        file.write("nonsense\n")
    for _ in range(2):
        with pytest.raises(InputError, match=f"line {LINES + 2}"):
            seen(trace)
    assert not list(folder.iterdir())


def test_what_is_not_read_to_its_end_is_not_kept(trace: Path, folder: Path) -> None:
    seen(trace, prepare=traces.preparation(first=10))
    assert not list(folder.iterdir())


def test_a_small_trace_is_not_kept(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "small.csv"
    traces.make(path, requests=1000)
    seen(path)
    assert not folder.exists()


def test_the_cache_keeps_to_its_limit(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    for seed in range(5):
        path = tmp_path / f"{seed}.csv"
        traces.make(path, requests=LINES, seed=seed)
        seen(path)
        if not sizes:
            monkeypatch.setenv(cache.SWITCH, str(int(columns(folder)[0].stat().st_size * 2.5)))
        sizes.append(sum(kept.stat().st_size for kept in columns(folder)))
    assert len(columns(folder)) == 2
    assert max(sizes) <= cache.limit_bytes()
    _, done = seen(tmp_path / "4.csv")
    assert done["read"], "what was used last stays"


def test_a_trace_larger_than_the_cache_is_not_kept(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.SWITCH, "1KiB")
    _, done = seen(trace)
    assert not done["written"]
    assert not columns(folder)


def test_the_switch(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.SWITCH, "off")
    seen(trace)
    assert not folder.exists()
    monkeypatch.setenv(cache.SWITCH, "plenty")
    with pytest.raises(UsageError, match=f"{cache.SWITCH} is 'plenty'"):
        seen(trace)


def test_a_folder_that_cannot_be_written_costs_a_line(trace: Path, folder: Path) -> None:
    plain, _ = seen(trace, cache=False)
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    found, done = seen(trace)
    assert found == plain
    assert "not kept" in done["note"]


def test_a_full_file_system_costs_a_line(trace: Path, folder: Path) -> None:
    """/dev/full in the place of the folder cannot be; a limit of file size has the same effect."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536));"
        "from ioassay import traces; found = traces.info(sys.argv[1]);"
        "print(found['requests'], found['cache']['note'])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(trace)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{LINES} ")
    assert "not kept" in done.stdout
    assert not list(folder.iterdir())


def test_concurrent_runs_agree(trace: Path, folder: Path) -> None:
    code = "import sys; from ioassay import traces; print(traces.info(sys.argv[1])['space'])"
    words = [sys.executable, "-c", code, str(trace)]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = {process.communicate()[0] for process in running}
    assert len(outputs) == 1
    assert len(columns(folder)) == 1
    assert seen(trace)[1]["read"]


def test_listing_and_clearing(trace: Path, folder: Path) -> None:
    assert cache.entries() == []
    seen(trace)
    foreign = folder / "notes.txt"
    foreign.write_text("mine")
    (entry,) = cache.entries()
    assert entry["bytes"] == columns(folder)[0].stat().st_size
    assert cache.clear() == entry["bytes"]
    assert cache.entries() == []
    assert foreign.exists()
