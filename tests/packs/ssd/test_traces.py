"""Traces from Python: described, looked at, converted, made, kept parsed in the cache; and their miss ratio curves."""

from __future__ import annotations

import functools
import gzip
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd.commands import trace as trace_command
from ioassay.simulation import traces
from ioassay.units import parse_size

from ...corpora import cases
from ...patience import until

README = Path(traces.__file__).parent / "shipped" / "README.md"
SMALL: dict[str, Any] = {"requests": 2000, "reads": 0.3, "seed": 5}


def made(folder: Path, name: str = "made.disksim", **laws: Any) -> Path:
    traces.make(folder / name, **{**SMALL, **laws})
    return folder / name


def text_of(path: Path, folder: Path) -> bytes:
    """Decompressed: compressors of other versions give other bytes."""
    plain = folder / "plain"
    traces.convert(path, plain, to=str(traces.info(path)["format"]), force=True)
    return plain.read_bytes()


def test_a_recipe_is_told_in_words() -> None:
    recipe = traces.recipe(sizes="4KiB:3,64KiB:1", addresses="hot-cold:0.8:0.2", range="2GiB", arrivals="none")
    assert recipe["sizes"] == ("weighted", [4096, 3.0, 65536, 1.0])
    assert recipe["addresses"] == ("hot-cold", [0.8, 0.2])
    assert (recipe["range_bytes"], recipe["align_bytes"], recipe["arrivals"]) == (2 << 30, 4096, ("none", []))
    assert traces.recipe(sizes="512:1,4KiB:1")["align_bytes"] == 512
    assert traces.recipe(sizes="exponential:6KiB")["align_bytes"] == 512


@cases("traces", "refused")
def test_what_cannot_be_is_refused_by_name(case: dict[str, Any]) -> None:
    refuse: dict[str, Callable[[dict[str, Any]], object]] = {
        "recipe": lambda laws: traces.info(traces.recipe(**laws)),
        "preparation": lambda options: traces.preparation(**options),
        "core": lambda prepare: traces.info(traces.recipe(**SMALL), prepare=prepare),
        "curve": lambda options: traces.mrc(traces.recipe(**SMALL), **options),
    }
    (kind,) = refuse.keys() & case.keys()
    with pytest.raises((UsageError, InputError), match=case["refused"]):
        refuse[kind](case[kind])


@pytest.mark.parametrize(("law", "forms"), [("arrivals", traces.ARRIVALS), ("addresses", traces.ADDRESSES)])
def test_the_laws_that_have_a_near_name_are_those_of_the_core(law: str, forms: tuple[str, ...]) -> None:
    def names(told: list[str]) -> list[str]:
        return [re.match(r"[a-z-]*", form)[0] for form in told]

    with pytest.raises(UsageError) as refused:
        traces.info({**traces.recipe(), law: ("nothing", [])})
    of_core = re.split(", | or ", str(refused.value).partition("expected ")[2])
    assert names(list(forms)) == names(of_core)


def test_a_made_trace_is_what_its_recipe_says(tmp_path: Path) -> None:
    found = traces.info(made(tmp_path, sizes="8KiB", range="64MiB", arrivals="poisson:1000"))
    assert (found["format"], found["requests"]) == ("disksim", 2000)
    assert found["kinds"]["read"]["requests"] == pytest.approx(600, rel=0.15)
    assert found["time"]["requests_per_s"] == pytest.approx(1000, rel=0.1)
    assert found["size_bytes"]["min"] == found["size_bytes"]["max"] == 8192
    assert found["space"]["end_bytes"] <= 64 << 20 and found["space"]["pages_exact"]
    assert found["doubts"] == []


@pytest.mark.parametrize("name", [each["name"] for each in traces.formats() if each["written"]])
def test_every_format_gives_back_what_was_written(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    traces.make(path, to=name, **SMALL)
    before, after = traces.info(traces.recipe(**SMALL)), traces.info(path, format=name)
    for part in ("requests", "kinds", "size_bytes"):
        assert before[part] == after[part]
    assert before["space"]["distinct_pages"] == after["space"]["distinct_pages"]


def test_the_name_of_the_output_tells_format_and_compression(tmp_path: Path) -> None:
    plain, packed = made(tmp_path).read_bytes(), made(tmp_path, "a.disksim.gz")
    assert text_of(packed, tmp_path) == gzip.decompress(packed.read_bytes()) == plain
    assert text_of(made(tmp_path, "a.disksim.zst"), tmp_path) == plain


def test_preparation_is_done_and_counted(tmp_path: Path) -> None:
    prepare = traces.preparation(keep="writes", first=500, shrink="16MiB", sizes="cut", rebase=True, page="8KiB")
    done = traces.convert(made(tmp_path), tmp_path / "out.disksim", prepare=prepare)
    changes = done["changes"]
    assert (done["from"], done["to"], changes["given"]) == ("disksim", "disksim", 500)
    assert changes["seen"] == 500 + changes["dropped_kind"] and changes["lengthened"] == 500
    found = traces.info(tmp_path / "out.disksim")
    assert found["kinds"]["write"]["requests"] == 500
    assert found["time"]["first_ns"] == 0
    assert found["space"]["end_bytes"] <= 16 << 20


def test_shrinking_finds_the_end_of_the_trace_or_takes_it(tmp_path: Path) -> None:
    path, output = made(tmp_path, range="64MiB"), tmp_path / "out.disksim"
    outputs = []
    for end in (None, traces.info(path)["space"]["end_bytes"]):
        prepare = traces.preparation(shrink="16MiB", shrink_from=end)
        done = traces.convert(path, output, prepare=prepare, force=True)
        outputs.append((done["changes"], output.read_bytes()))
    assert outputs[0] == outputs[1]


def test_an_output_stays_as_it_was_when_something_goes_wrong(tmp_path: Path) -> None:
    path = made(tmp_path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="--force"):
        made(tmp_path)
    broken = tmp_path / "broken.disksim"
    broken.write_bytes(before + b"nonsense\n")
    with pytest.raises(InputError, match="line 2001"):
        traces.convert(broken, path, format="disksim", force=True)
    assert path.read_bytes() == before
    assert {each.name for each in tmp_path.iterdir()} == {"made.disksim", "broken.disksim"}


def test_a_place_that_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--to"):
        traces.make(tmp_path / "trace.txt", **SMALL)
    with pytest.raises(InputError, match="missing: No such file"):
        traces.info(tmp_path / "missing")
    with pytest.raises(InputError, match=r"made\.disksim: request \d+: .* end behind 4194304"):
        traces.info(made(tmp_path), prepare=traces.preparation(limit="4MiB"))
    for path in (Path("/dev/null"), tmp_path):
        with pytest.raises(UsageError, match="no regular file"):
            traces.make(path, to="disksim", force=True, **SMALL)


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "link.disksim"
    link.symlink_to(made(tmp_path))
    traces.make(link, requests=1, force=True)
    assert link.is_symlink() and len((tmp_path / "made.disksim").read_bytes().splitlines()) == 1


def test_other_threads_run_meanwhile(tmp_path: Path) -> None:
    """One of them writes the trace that is read: whoever holds the interpreter would wait for it for ever."""
    os.mkfifo(tmp_path / "pipe")
    content = made(tmp_path).read_bytes()
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(content), daemon=True)
    writer.start()
    assert traces.info(tmp_path / "pipe", format="disksim", cache=False)["requests"] == 2000
    writer.join()


def commands() -> list[list[str]]:
    lines = [line.strip() for line in README.read_text().splitlines()]
    return [shlex.split(line)[3:] for line in lines if line.startswith("ioassay trace make ")]


@pytest.mark.parametrize("words", commands(), ids=lambda words: words[0])
def test_a_shipped_trace_can_be_made_again(words: list[str], tmp_path: Path) -> None:
    options = {name.removeprefix("--"): value for name, value in zip(words[1::2], words[2::2], strict=True)}
    for name, kind in (("requests", int), ("seed", int), ("reads", float)):
        options[name] = kind(options[name])  # type: ignore[assignment]
    again = tmp_path / words[0]
    traces.make(again, **options)  # type: ignore[arg-type]
    assert text_of(again, tmp_path) == text_of(README.parent / words[0], tmp_path)


def test_shipped_traces_are_small_plausible_and_known_by_name() -> None:
    shipped = traces.shipped()
    assert {path.name for path in shipped.values()} == {words[0] for words in commands()}
    assert sum(path.stat().st_size for path in shipped.values()) < parse_size("300kB")
    for name in shipped:
        assert traces.info(name)["doubts"] == []


LINES = 60_000
"""More than the megabyte from which on traces are kept."""
DRIVE = {"elements": 4, "blocks": 64}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(traces.SWITCH, raising=False)
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


NOTHING = {"read": False, "written": False, "note": None, "left_out": None}
READ, WRITTEN = NOTHING | {"read": True}, NOTHING | {"written": True}


def columns(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.columns"))


def test_the_second_read_comes_from_the_cache_and_is_the_same(trace: Path, folder: Path) -> None:
    plain, without = seen(trace, cache=False)
    assert without == NOTHING
    assert not folder.exists()
    assert (seen(trace), seen(trace)) == ((plain, WRITTEN), (plain, READ))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert columns(folder)[0].stat().st_size < trace.stat().st_size / 3


def test_a_simulation_and_a_conversion_are_the_same_from_the_cache(trace: Path, folder: Path, tmp_path: Path) -> None:
    runs = [ioassay.simulate(trace, drive=DRIVE, policy="lru", buffer="1MiB", cache=use) for use in (False, True, True)]
    assert [run.raw["cache"]["read"] for run in runs] == [False, False, True]
    summaries = [{**run.summary, "wall_s": 0} for run in runs]
    assert summaries[0] == summaries[1] == summaries[2]
    assert runs[0].series.equals(runs[2].series)
    for name, use in (("plain.csv", False), ("kept.csv", True)):
        traces.convert(trace, tmp_path / name, cache=use)
    assert (tmp_path / "plain.csv").read_bytes() == (tmp_path / "kept.csv").read_bytes()


@pytest.mark.parametrize("last", ["W", "R"])
@pytest.mark.parametrize("window", [None, 20])
def test_a_simulation_is_the_same_by_events_without_them_and_from_the_cache(
    tmp_path: Path, folder: Path, last: str, window: int | None
) -> None:
    traces.make(tmp_path / "writes.spc", requests=LINES, arrivals="poisson:20000", range="64MiB", seed=7)
    text = (tmp_path / "writes.spc").read_text() + f"0,0,4096,{last},10000.5\n"
    (tmp_path / "trace.spc").write_text(text)
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_text, args=(text,), daemon=True).start()
    sources = [(tmp_path / "pipe", False), *[(tmp_path / "trace.spc", use) for use in (False, True, True)]]
    runs = [
        ioassay.simulate(path, format="spc", cache=use, drive=DRIVE, window=window, driver="fcfs")
        for path, use in sources
    ]
    assert runs[-1].raw["cache"]["read"]
    for other in runs[1:]:
        assert {**other.summary, "wall_s": 0} == {**runs[0].summary, "wall_s": 0}
        assert other.series.equals(runs[0].series) and other.elements.equals(runs[0].elements)


def test_changed_content_of_the_same_size_and_times_is_another_trace(trace: Path, folder: Path) -> None:
    before, _ = seen(trace)
    change_size_of_the_last(trace)
    after, done = seen(trace, cache=True)
    plain, _ = seen(trace, cache=False)
    assert after == plain != before
    assert not done["read"]


def change_size_of_the_last(trace: Path) -> None:
    """Another request in a file of the same size and times."""
    status, content = trace.stat(), trace.read_bytes()
    digit = content.rindex(b",4096") + 1
    trace.write_bytes(content[:digit] + b"8192" + content[digit + 4 :])
    os.utime(trace, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert trace.stat().st_size == status.st_size


@pytest.mark.slow
def test_a_settled_file_is_recognised_without_a_look_at_its_content(trace: Path, folder: Path) -> None:
    plain, _ = seen(trace)
    noted = list(folder.glob("*.same"))
    assert not noted or time.time() - trace.stat().st_ctime >= 60, "it was changed less than a minute ago"
    until(lambda: time.time() - trace.stat().st_ctime >= 61)
    seen(trace)
    if not list(folder.glob("*.same")):
        pytest.skip(f"needs ext4, XFS, Btrfs or F2FS at {trace.parent}: elsewhere the content is hashed each time")
    before = _bytes_read()
    assert seen(trace) == (plain, READ)
    assert _bytes_read() - before < trace.stat().st_size
    change_size_of_the_last(trace)
    assert not seen(trace)[1]["read"]


def _bytes_read() -> int:
    """By this process, with all system calls (proc(5))."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return int(fields["rchar"])


def test_a_copy_is_the_same_trace_and_other_options_of_reading_are_kept_apart(
    trace: Path, folder: Path, tmp_path: Path
) -> None:
    seen(trace)
    (tmp_path / "other").mkdir()
    assert seen(Path(shutil.copy(trace, tmp_path / "other")))[1]["read"]
    assert not seen(trace, read={"out_of_order": 10})[1]["read"]
    assert not seen(trace, format="csv")[1]["read"]
    assert len(columns(folder)) == 3


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_compressed_traces_are_kept(folder: Path, tmp_path: Path, compression: str) -> None:
    packed = tmp_path / f"packed.csv{compression}"
    traces.make(packed, requests=5 * LINES, reads=0.3, range="64MiB", seed=7)
    plain, _ = seen(packed, cache=False)
    assert (seen(packed), seen(packed)) == ((plain, WRITTEN), (plain, READ))


def test_damage_anywhere_and_missing_ends_are_noticed_and_the_trace_is_parsed(trace: Path, folder: Path) -> None:
    plain, _ = seen(trace)
    chance = random.Random(5)
    for share in (0.0, 0.3, 0.999, *[None] * 12):
        (kept,) = columns(folder)
        content = bytearray(kept.read_bytes())
        place = chance.randrange(len(content)) if share is None else int(len(content) * share)
        if share is None:
            content[place] ^= 1 << chance.randrange(8)
        kept.write_bytes(content if share is None else content[:place])
        found, done = seen(trace)
        assert found == plain, f"byte {place}"
        assert "damaged" in done["note"], f"byte {place}"
        seen(trace)  # kept again, where the damage was noticed before the first request


def test_what_is_bad_small_or_not_read_to_its_end_is_not_kept(trace: Path, tmp_path: Path, folder: Path) -> None:
    traces.make(tmp_path / "small.csv", requests=1000)
    seen(tmp_path / "small.csv")
    assert not folder.exists()
    seen(trace, prepare=traces.preparation(first=10))
    with trace.open("a", encoding="utf-8") as file:
        file.write("nonsense\n")
    for _ in range(2):
        with pytest.raises(InputError, match=f"line {LINES + 2}"):
            seen(trace)
    assert not list(folder.iterdir())


def test_the_cache_keeps_to_its_limit(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    for seed in range(5):
        path = tmp_path / f"{seed}.csv"
        traces.make(path, requests=LINES, seed=seed)
        seen(path)
        if not sizes:
            monkeypatch.setenv(traces.SWITCH, str(int(columns(folder)[0].stat().st_size * 2.5)))
        sizes.append(sum(kept.stat().st_size for kept in columns(folder)))
    assert len(columns(folder)) == 2
    assert max(sizes) <= traces.cache_limit_bytes()
    _, done = seen(tmp_path / "4.csv")
    assert done["read"], "what was used last stays"


def test_the_switch_limits_the_cache_or_turns_it_off(
    trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(traces.SWITCH, "off")
    seen(trace)
    assert not folder.exists()
    monkeypatch.setenv(traces.SWITCH, "1KiB")
    assert not seen(trace)[1]["written"] and not columns(folder)
    monkeypatch.setenv(traces.SWITCH, "plenty")
    with pytest.raises(UsageError, match=f"{traces.SWITCH} is 'plenty'"):
        seen(trace)


def test_a_folder_that_cannot_be_written_or_is_full_costs_a_line(trace: Path, folder: Path) -> None:
    """/dev/full in the place of the folder cannot be; a limit of file size has the same effect."""
    plain, _ = seen(trace, cache=False)
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")
    found, done = seen(trace)
    assert found == plain and "not kept" in done["note"]
    folder.unlink()
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536));"
        "from ioassay import traces; found = traces.info(sys.argv[1]);"
        "print(found['requests'], found['cache']['note'])"
    )
    words = [sys.executable, "-c", code, str(trace)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{LINES} ") and "not kept" in said
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
    assert traces.cache_entries() == []
    seen(trace)
    (folder / "notes.txt").write_text("mine")
    (entry,) = traces.cache_entries()
    assert columns(folder)[0].stat().st_size == entry["bytes"] == traces.clear_cache()
    assert traces.cache_entries() == [] and (folder / "notes.txt").exists()


RECIPE = traces.recipe(requests=20_000, reads=0.4, addresses="zipf:0.9", sizes="4KiB:3,16KiB:1", range="64MiB", seed=2)


def test_the_curve_of_writes_has_the_hits_of_simulated_lru_buffers() -> None:
    curve = traces.mrc(RECIPE, of="writes", points=12)
    for pages, ratio in list(zip(curve["size_pages"], curve["miss_ratio"], strict=True))[1:]:
        done = ioassay.simulate(RECIPE, elements=4, policy="lru", buffer=pages * 4096, feed="closed:8", window=None)
        assert done.summary["hit_ratio"] == pytest.approx(1 - ratio, abs=1e-12), pages


def test_a_shipped_trace_sampled_and_compared() -> None:
    whole = traces.mrc("oltp", of="both")
    half = traces.mrc("oltp", of="both", sample=0.5, exact=True)
    assert half["exact_miss_ratio"] == whole["miss_ratio"]
    assert whole["error"] == [None] * len(whole["error"])
    assert half["sampled"] < whole["sampled"] == whole["references"] == half["references"]
    sampled = zip(half["miss_ratio"], whole["miss_ratio"], half["error"], strict=True)
    inside = [abs(ratio - exact) <= error for ratio, exact, error in sampled]
    assert sum(inside) >= 0.8 * len(inside)


@functools.cache
def sampled_curve() -> dict[str, Any]:
    return traces.mrc(RECIPE, of="writes", sample=0.5, exact=True, points=9)


def test_a_curve_is_drawn_with_its_errors() -> None:
    curve = sampled_curve()
    chart = trace_command.chart("made", "writes", sampled_curve())
    rows = chart["data"]["values"]
    sample = [row for row in rows if row["curve"] == "sample"]
    assert [row["ratio"] for row in sample] == curve["miss_ratio"]
    for row, error in zip(sample, curve["error"], strict=True):
        assert (row["low"], row["high"]) == (max(0, row["ratio"] - error), min(1, row["ratio"] + error))
    assert [row["ratio"] for row in rows if row["curve"] == "exact"] == curve["exact_miss_ratio"]
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["area", "line"]
    exact = trace_command.chart("made", "both", traces.mrc(RECIPE, points=5))
    assert [layer["mark"]["type"] for layer in exact["layer"]] == ["line"]


@pytest.mark.parametrize(("ending", "begin"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".html", b"<!doctype html>")])
def test_a_picture_is_of_the_kind_that_its_name_tells(ending: str, begin: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"curve{ending}"
    trace_command.draw(path, trace_command.chart("<made> & more", "writes", sampled_curve()), ending)
    content = path.read_bytes()
    assert content.startswith(begin)
    if ending != ".png":
        assert b"&lt;made&gt; &amp; more" in content and b"95 % confidence" in content
        assert b"http" not in content.replace(b"http://www.w3.org", b"")
