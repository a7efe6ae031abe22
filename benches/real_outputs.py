"""Outputs that real tools make here, and every number that `ioassay import` has of them against a plain reading.

    .venv/bin/python benches/real_outputs.py --count 100 --seed 1 --fio /usr/bin/fio --fio ~/fio/fio

The parameters of each output, its format and what it is wrapped in are drawn from the seed and its number, so that
`--only 17` makes one of them again. `--damage N` damages N copies of each output as well: an import has what the plain
reading of the damaged text has, or refuses it by name. `plain_readings.py` reads; nothing of ioassay's readers is used.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import importlib
import io
import json
import lzma
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import traceback
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import plain_readings as plain
from plain_readings import Load
from tool_outputs import Output, loop_device, makers

sys.path.insert(0, str(Path(__file__).parent.parent))
import ioassay
from ioassay.errors import UsageError


@dataclass
class Tally:
    """What became of the outputs of one tool in one form."""

    outputs: int = 0
    refused: int = 0
    compared: int = 0
    equal: int = 0
    unread: Counter[str] = field(default_factory=Counter)


# What outputs are wrapped in: a function of a text, a name and a folder that gives the paths to import


def plain_file(text: str, name: str, folder: Path) -> Path:
    """As it is."""
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def packed_by(suffix: str, packed: Callable[[bytes], bytes]) -> Callable[[str, str, Path], Path]:
    """In a stream of its own."""

    def write(text: str, name: str, folder: Path) -> Path:
        path = folder / f"{name}{suffix}"
        path.write_bytes(packed(text.encode()))
        return path

    return write


def zstd(data: bytes) -> bytes:
    """By the program."""
    return subprocess.run(["zstd", "-c"], input=data, capture_output=True, check=True).stdout


def zipped(data: bytes) -> bytes:
    """One file in a folder of a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("results/deep/output.txt", data)
        archive.writestr("results/notes", "nothing of interest\n")
    return out.getvalue()


def tarred(data: bytes) -> bytes:
    """One file in a folder of a tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in (("./results/output", data), ("./results/README", b"nothing\n")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


WRAPS: dict[str, Callable[[str, str, Path], Path]] = {
    "plain": plain_file,
    "gz": packed_by(".gz", gzip.compress),
    "bz2": packed_by(".bz2", bz2.compress),
    "xz": packed_by(".xz", lzma.compress),
    "zst": packed_by("", zstd),
    "zip": packed_by("", zipped),
    "tar": packed_by(".tar", tarred),
    "tar.gz": packed_by(".tgz", lambda data: gzip.compress(tarred(data))),
    "utf-16": packed_by(".txt", lambda data: data.decode().encode("utf-16")),
    "utf-16-be": packed_by(".txt", lambda data: b"\xfe\xff" + data.decode().encode("utf-16-be")),
    "bom": packed_by("", lambda data: b"\xef\xbb\xbf" + data),
    "crlf": packed_by("", lambda data: data.replace(b"\n", b"\r\n")),
}


# Reading what was imported, from the files of the run


@dataclass
class Trial:
    """One record, and the distributions beside it."""

    record: Mapping[str, Any]
    bins: dict[tuple[str, str, int], dict[int, int]]


def imported(paths: Sequence[Path], folder: Path) -> list[Trial]:
    """The trials in the order of the plan."""
    import polars as pl

    shutil.rmtree(folder, ignore_errors=True)
    root = Path(ioassay.import_results(paths, folder).root)
    found = []
    for path in root.glob("trials/*/record.json"):
        bins: dict[tuple[str, str, int], dict[int, int]] = defaultdict(dict)
        if (table := path.with_name("hist.parquet")).exists():
            for row in pl.read_parquet(table).iter_rows(named=True):
                bins[row["direction"], row["kind"], row["job"]][row["value_ns"]] = row["count"]
        found.append(Trial(json.loads(path.read_text()), dict(bins)))
    return sorted(found, key=lambda trial: trial.record["trial"]["order"])


def differences(trials: Sequence[Trial], loads: Sequence[Load], tally: Tally) -> Iterator[str]:
    """Each number that is another, that is missing, or that nobody stated."""
    if len(trials) != len(loads):
        yield f"{len(trials)} trials; the output has {len(loads)} loads"
        return
    for place, (trial, load) in enumerate(zip(trials, loads, strict=True)):
        head = f"trial {place}: " if len(loads) > 1 else ""
        if (trial.record["status"] != "ok") != load.failed:
            expected = "failed" if load.failed else "ok"
            yield f"{head}is {trial.record['status']} ({trial.record['reason']}), not {expected}"
        tally.unread.update(load.unread)
        yield from _of_numbers(trial.record["metrics"], load.numbers, load.bins, tally, head)
        jobs = [part["metrics"] for part in trial.record["parts"] if "job" in part]
        if load.parts and len(jobs) != len(load.parts):
            yield f"{head}has {len(jobs)} jobs; expected {len(load.parts)}"
            continue
        for number, (found, wanted) in enumerate(zip(jobs, load.parts, strict=False)):
            own = {(way, kind, -1): bins for (way, kind, job), bins in load.bins.items() if job == number}
            yield from _of_numbers(found, wanted, own, tally, f"{head}job {number}: ")
        for key, bins in load.bins.items():
            if len(load.parts) < 2 and key[2] >= 0:
                continue
            tally.compared += len(bins)
            same = _same_bins(found_bins := trial.bins.get(key, {}), bins, load.bin_share)
            tally.equal += same and len(bins)
            if not same:
                counts = f"{sum(found_bins.values())} of {sum(bins.values())} requests"
                yield f"{head}the distribution {key} is another: {counts}"


def _same_bins(found: Mapping[int, int], wanted: Mapping[int, int], share: float) -> bool:
    if not share:
        return found == wanted
    values, others = ([value for value in sorted(bins) for _ in range(bins[value])] for bins in (found, wanted))
    return len(values) == len(others) and all(abs(a - b) <= share * b + 1 for a, b in zip(values, others, strict=True))


PERCENTILE = re.compile(r"(read|write|trim|total|sync)\.(lat|clat|slat)\.p([\d.]+)")


def _of_numbers(
    found: Mapping[str, float],
    wanted: Mapping[str, plain.Number],
    bins: Mapping[tuple[str, str, int], Mapping[int, int]],
    tally: Tally,
    head: str,
) -> Iterator[str]:
    wanted = {name.removeprefix("?"): number for name, number in wanted.items() if name[0] != "?" or name[1:] in found}
    for name, (value, slack) in wanted.items():
        tally.compared += 1
        if name not in found and not value and name.startswith("cpu."):
            tally.equal += 1  # a job that took no millisecond
        elif name not in found:
            yield f"{head}{name} is missing: {value:.10g}"
        elif not abs(found[name] - value) <= slack:
            yield f"{head}{name} is {found[name]:.10g}, expected {value:.10g}"
        else:
            tally.equal += 1
    for name in found.keys() - wanted.keys():
        if (match := PERCENTILE.fullmatch(name)) and (own := bins.get((match[1], match[2], -1))):
            low, high = plain.percentile_bounds(own, float(match[3]))
            tally.compared += 1
            tally.equal += low <= found[name] <= high
            if not low <= found[name] <= high:
                yield f"{head}{name} is {found[name]:.10g}, expected {low:.10g} to {high:.10g}"
        elif found[name] and not DERIVED.fullmatch(name):
            yield f"{head}{name} is {found[name]:.10g}, which the output does not state"


DERIVED = re.compile(r"total\.\w+|cpu\..*|context_switches|\w+_faults|\w+\.(bw|iops|\w?lat\.(mean|stddev))")
"""What is computed of several jobs or directions together in formats with few digits."""


# All of it


def examine(output: Output, wrap: str, folder: Path, tally: Tally) -> list[str]:
    """What differs, or what else went wrong."""
    place = folder / "wrapped"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    path = WRAPS[wrap if not output.beside else "plain"](output.text, output.name, place)
    for name, text in output.beside.items():
        (place / name).write_text(text)
        path = place
    tally.outputs += 1
    try:
        loads: Any = output.read(output.text)
    except Exception:  # the examiner's own fault
        return [f"PLAIN READING FAILED: {traceback.format_exc()[-600:]}"]
    if output.is_trace:
        return list(trace_differences(path, loads, tally))
    if not output.in_any_trial:
        loads = sorted(loads, key=lambda load: load.started_s)
    try:
        trials = imported([path], folder / "run")
    except UsageError as error:
        tally.refused += 1
        if loads and (output.in_any_trial or not all(load.failed for load in loads)):
            return [f"refused: {str(error)[:300]}"]
        return []
    except Exception:
        return [f"TRACEBACK {traceback.format_exc()[-1500:]}"]
    if output.in_any_trial:
        return list(in_any_trial(trials, loads, tally))
    warned = sorted({warning["code"] for trial in trials for warning in trial.record["warnings"]})
    return [f"{one}{f' (warned: {warned})' if warned else ''}" for one in differences(trials, loads, tally)]


def damage(output: Output, folder: Path, count: int) -> Iterator[str]:
    """Damaged copies: an import refuses one, says by a warning or a failed trial that something is wrong, or has the
    numbers of the plain reading."""
    copies = importlib.import_module("tests.readers.mutation").copies
    path = folder / "damaged.txt"
    for label, copy in copies(
        [output.text.encode()], output.command, tree="json" if output.form.startswith("json") else "", count=count
    ):
        path.write_bytes(copy)
        try:
            trials = imported([path], folder / "run")
        except UsageError:
            continue
        except Exception:
            yield f"copy {label.rpartition('/')[2]}: TRACEBACK {traceback.format_exc()[-1500:]}"
            continue
        if any(trial.record["warnings"] or trial.record["status"] != "ok" for trial in trials):
            continue
        try:
            marked = copy.startswith((b"\xff\xfe", b"\xfe\xff"))
            loads: Any = output.read(copy.decode("utf-16" if marked else "utf-8", "replace"))
        except Exception as error:
            yield f"copy {label.rpartition('/')[2]}: read, where the plain reading fails: {error!r}"
            continue
        if output.in_any_trial:
            found = in_any_trial(trials, loads, Tally())
        else:
            found = differences(trials, sorted(loads, key=lambda load: load.started_s), Tally())
        # What only one of the two takes for a number is no other number.
        strange = [one for one in found if " is missing: " not in one and "does not state" not in one]
        if strange:
            yield f"copy {label.rpartition('/')[2]}: {'; '.join(strange[:3])}"


COMPUTED = re.compile(r"event\.(rate|time\.mean)|\w+\.(ios|bytes|runtime|lat\.mean)")
"""What may be a quotient of two numbers that an output states."""


def in_any_trial(trials: Sequence[Trial], wanted: Sequence[tuple[str, plain.Number]], tally: Tally) -> Iterator[str]:
    """Each number that no trial has, each metric that the output does not state."""
    found = [(name, value) for trial in trials for name, value in trial.record["metrics"].items()]
    used = set()
    for pattern, (value, slack) in wanted:
        tally.compared += 1
        own = {name for name, known in found if re.fullmatch(pattern, name) and abs(known - value) <= slack}
        used |= {(name, known) for name, known in found if name in own and abs(known - value) <= slack}
        tally.equal += bool(own)
        if not own:
            near = {name: known for name, known in found if re.fullmatch(pattern, name)}
            tally.unread[pattern] += not near
            yield f"{pattern} is missing: {value:.10g}; there is {near}"
    for name, value in found:
        if value and (name, value) not in used and not COMPUTED.fullmatch(name):
            yield f"{name} is {value:.10g}, which the output does not state"


def trace_differences(path: Path, trace: plain.Trace, tally: Tally) -> Iterator[str]:
    """What `trace info` says, against the requests."""
    command = [sys.executable, "-m", "ioassay", "trace", "info", str(path), "--json", "--no-cache"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        tally.refused += 1
        yield f"refused: {(ended.stderr or ended.stdout)[-400:]}"
        return
    one, wanted = json.loads(ended.stdout)["traces"][0], trace.sums()
    pairs = [("requests", one["requests"], wanted["requests"])]
    pairs += [
        (f"{kind} {what}", one["kinds"][kind][what], wanted["kinds"][kind][what])
        for kind in ("read", "write", "trim")
        for what in ("requests", "bytes")
    ]
    pairs += [(name, one["size_bytes"][name], wanted[name]) for name in ("min", "max")]
    pairs += [(name, one["space"][name], wanted[name]) for name in ("end_bytes", "distinct_pages")]
    if one["format"] != "iolog2":
        coarse = 1e9 if one["format"] == "tencent" else 1e3
        span = wanted["last_ns"] - wanted["first_ns"]
        pairs += [
            (
                "span",
                0.0 if abs(one["time"]["span_s"] * 1e9 - span) <= coarse else one["time"]["span_s"] * 1e9 - span,
                0.0,
            )
        ]
        pairs += [("backward", one["time"]["backward"], wanted["backward"])]
    for name, found, expected in pairs:
        tally.compared += 1
        tally.equal += found == expected
        if found != expected:
            yield f"as {one['format']}: {name} is {found}, expected {expected}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, action="append", help="of these numbers alone")
    parser.add_argument("--fio", action="append", help="a program; several")
    parser.add_argument("--damage", type=int, default=0, metavar="COPIES", help="of each output, damaged")
    parser.add_argument("--tool", help="the tools whose names have this alone")
    parser.add_argument("--keep", type=Path, help="a folder for the outputs that differ")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the loop device goes
    programs = given.fio or [path for path in [shutil.which("fio")] if path]
    made = [one for one in makers(programs) if (given.tool or "") in str(one)]
    tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
    faults: list[str] = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch, loop_device(Path(scratch)):
        for number in given.only or range(given.count):
            dice = random.Random(f"{given.seed}/{number}")
            folder = Path(scratch) / "work"
            folder.mkdir(exist_ok=True)
            output = made[number % len(made)](dice, folder)
            wrap = dice.choice([*WRAPS, *["plain"] * 6])
            tally = tallies[output.tool, output.form]
            found = examine(output, wrap, Path(scratch), tally)
            if given.damage and not output.is_trace:
                found += damage(output, Path(scratch), given.damage)
            if found:
                faults.append(f"#{number} {output.tool} {output.form} in {wrap}: {output.command}")
                faults += [f"    {one}" for one in found[:12]] + (
                    [f"    … {len(found)} in all"] if len(found) > 12 else []
                )
                if given.keep:
                    given.keep.mkdir(exist_ok=True, parents=True)
                    (given.keep / f"{number}.txt").write_text(output.text)
                    (given.keep / f"{number}.command").write_text(output.command)
    print_table(tallies)
    print(*faults, sep="\n")
    return 1 if faults else 0


def print_table(tallies: Mapping[tuple[str, str], Tally]) -> None:
    """A row for each tool and form."""
    print(f"{'tool':<16}{'form':<22}{'outputs':>8}{'refused':>8}{'numbers':>9}{'equal':>9}{'other':>7}  not read")
    for (tool, form), tally in sorted(tallies.items()):
        unread = ", ".join(f"{name} {count}" for name, count in tally.unread.most_common(40))
        print(
            f"{tool:<16}{form:<22}{tally.outputs:>8}{tally.refused:>8}{tally.compared:>9}{tally.equal:>9}"
            f"{tally.compared - tally.equal:>7}  {unread}"
        )
    outputs, numbers, equal = (
        sum(getattr(one, name) for one in tallies.values()) for name in ("outputs", "compared", "equal")
    )
    print(f"{outputs} outputs, {numbers} numbers, {equal} equal, {numbers - equal} other")


if __name__ == "__main__":
    sys.exit(main())
