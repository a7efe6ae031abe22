"""Outputs and files of results of elbencho, vdbench and the Phoronix Test Suite, for claims and `ioassay import`.

docs/claims.md and docs/import.md have what is read. elbencho: written after outputs of 3.1, its sources
(Statistics.cpp, UnitTk.cpp) and its description of the file (the page csv-docs of its repository). The first column of
a quantity, up to the first thread to end, is a part of the second and left out. In the table whole numbers are rounded
down: bytes to MiB, rates to MiB/s (with --base10 to MB/s), latencies to microseconds; from a millisecond on these have
three digits. Columns of the CSV have names with `[first]`, `[last]`, `[min]`, in older versions without brackets. Of a
mix (--rwmixpct) the plain columns are the writes.
"""

from __future__ import annotations

import csv
import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from ioassay import units
from ioassay.errors import InputError, naming
from ioassay.formats.number_parsing import duration, last_line, lines_with, mark, real, size, step_of, whole_number
from ioassay.formats.result_entry import MIB, Entry, ResultFile, quantities, size_level
from ioassay.formats.text_rules import Tool, pattern
from ioassay.records.record import Claim, Series

_TABLES = tomllib.loads(Path(__file__).with_name("results.toml").read_text(encoding="utf-8"))
_ROW = re.compile(r"(?P<phase>[A-Z][\w+-]{1,20})? +(?P<name>[A-Z][A-Za-z0-9 /%]{1,24}?) +: +(?P<values>\S.{0,200})")
_KINDS = {"WRITE": "write", "READ": "read", "RWMIX": "write", "MIX-T": "write"}
"""What the names of phases begin with: `WRITE+r`, `RWMIX30`, `MIX-T2`."""
_ELAPSED = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|ms))?")
"""`85ms`, `12.345s`, `2m3.456s`, `3h25m45s`; milliseconds alone in versions before 2."""
_LATENCY = pattern(r"\[ (?:min=\S{1,20} )?avg=(#)(us|ms|s)?[ ].*")
_RATE_UNITS = {"MiB/s": MIB, "MB/s": 10**6}
_FILE_OPTIONS = re.compile(
    r"--(csvfile|jsonfile|resfile|configfile|treefile|livecsv|livejson|hostsfile|opslog)|-c", re.I
)


def _phases(text: str) -> list[tuple[str, dict[str, str]]]:
    """The name of each phase with its rows: name -> the value of the last thread to end."""
    phases: list[tuple[str, dict[str, str]]] = []
    for _, line in lines_with(text, " : "):
        if row := _ROW.fullmatch(line.rstrip()):
            if row["phase"] and row["name"].startswith("Elapsed"):  # rows of latencies may repeat the name
                phases.append((row["phase"], {}))
            if phases and _kind(phases[-1][0]):
                mark(line)
            if phases:
                values = row["values"]
                phases[-1][1].setdefault(row["name"], values if values.startswith("[") else values.split()[-1])
    return phases


def _kind(phase: str) -> str | None:
    return next((kind for name, kind in _KINDS.items() if phase.upper().startswith(name)), None)


def _claims(text: str, argv: Sequence[str]) -> list[Claim]:
    """The claims of each phase in their order; of a mix the writes and the reads."""
    claims = []
    for phase, rows in _phases(text):
        if kind := _kind(phase):
            mixed = any(name.startswith(("MiB read", "IOs read")) for name in rows)
            sides = (("write", " write"), ("read", " read")) if mixed else ((kind, ""),)
            claims += [_claim(one, side, phase, rows, argv[1:]) for one, side in sides]
    if len({claim.kind for claim in claims}) < len(claims):  # files stay open from one phase to the next of its kind
        return [replace(claim, seconds=None, rate_bytes_per_s=None) for claim in claims]
    return claims


def _claim(kind: str, side: str, phase: str, rows: Mapping[str, str], argv: Sequence[str]) -> Claim:
    blocks = rows.get(f"IOs{side or ' total'}")
    mib = rows.get(f"MiB{side}" if side else "Total MiB")
    rates = {unit: rows.get(f"{unit}{side}" if side else f"Throughput {unit}") for unit in _RATE_UNITS}
    unit = next((unit for unit, printed in rates.items() if printed), None)
    step = _RATE_UNITS[unit] if unit else 1
    operations = whole_number(blocks, "elbencho's IOs") if blocks else None
    record_bytes = _block_bytes(argv)
    volume = whole_number(whole_number(mib, "elbencho's MiB") * MIB, "elbencho's bytes") if mib else None
    if operations is not None and volume != operations * (record_bytes or 0):
        volume = None  # it is rounded down, and the last block of a file may be a part of one
    exact = operations is not None or not volume
    short = {"": "", " write": " wr", " read": " rd"}[side]
    latency = _LATENCY.fullmatch(rows.get(f"IO{short} latency", rows.get(f"IO{short} lat us", "")))
    mean = duration(latency[1], latency[2] or "us", "elbencho's latency") if latency else None
    return Claim(
        source="elbencho",
        kind=kind,
        test=phase,
        operations=operations,
        bytes=volume or None,
        seconds=_elapsed_s(rows),
        rate_bytes_per_s=real(rates[unit], "elbencho's rate") * step if unit and exact else None,
        rate_unit_bytes=float(step if exact else MIB),
        clock_step_s=1e-3,
        latency_ns={"mean": mean.value * 1e9} if mean else {},
        latency_step_ns={"mean": mean.step * 1e9} if mean else {},
        engine="mmap" if "--mmap" in argv else "",
        direct="--direct" in argv if argv else None,
        paths=tuple(  # words with a slash, other than the files of options
            word
            for last, word in zip(["", *argv], argv, strict=False)
            if "/" in word and not word.startswith("-") and not _FILE_OPTIONS.fullmatch(last)
        ),
        record_bytes=record_bytes,
        doubts=("several-clocks", *(("whole-microseconds",) if mean else ())),
    )


def _elapsed_s(rows: Mapping[str, str]) -> float | None:
    if printed := rows.get("Elapsed ms"):
        return real(printed, "elbencho's time") / 1e3
    match = _ELAPSED.fullmatch(rows.get("Elapsed time", ""))
    if match is None or not match[0]:
        return None
    hours, minutes, rest, unit = match.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest) * (1e-3 if unit == "ms" else 1.0)


def _block_bytes(argv: Sequence[str]) -> int | None:
    for place, word in enumerate(argv):
        option = re.fullmatch(r"(?:--block(?:=|$)|-b)(.*)", word)
        printed = (option[1] or "".join(argv[place + 1 : place + 2])) if option else ""
        if block := re.fullmatch(r"([0-9]{1,12})([kKmMgG]?)", printed):
            return size(block[1], block[2], "elbencho's block size").rounded
    return None


_SIZES = {"bs", "file_size"}
_MOST_COLUMNS = 500


def _names(cells: list[str]) -> list[str]:
    """Without brackets and capitals: `IO lat us [avg]` is `io lat us avg`."""
    return [re.sub(r"[\[\]]", "", cell).strip().lower() for cell in cells]


def _entries(text: str) -> Iterator[Entry]:
    """The phases in their order; the same phase again is a repetition. InputError names the row."""
    try:  # the last cell is the command, in which each word has quotation marks, and which may have commas
        head, *rows = csv.reader(line.partition(',"')[0] for line in text.lstrip("\ufeff").splitlines())
    except csv.Error as error:
        raise InputError(f"is no CSV that elbencho wrote: {error}") from None
    names = _names(head)
    expected = len(names) - (names[-1] == "command")
    for number, cells in enumerate(rows, 2):
        if not cells or _names(cells) == names:  # the head again, where two files were put together
            continue
        if len(cells) != expected:
            raise InputError(f"row {number} has {len(cells)} cells before the command; expected {expected}")
        with naming(f"row {number}"):
            entry = _entry(dict(zip(names, cells, strict=False)))
        yield entry


def _entry(row: Mapping[str, str]) -> Entry:
    operation = row["operation"].strip()
    if not operation:
        raise InputError("has no operation; expected READ, WRITE, …")
    requests: dict[str, float] = {}
    direction, known = _kind(operation), _TABLES["elbencho"]
    for way, prefix in ((direction, ""), ("read", "rwmix read ")) if direction else ():
        cells = {f"{way}.{name}": (prefix + cell, factor) for name, (cell, factor) in known["requests"].items()}
        if found := quantities(row, cells, "elbencho"):
            requests |= found | quantities(row, {f"{way}.runtime": ("time ms last", 1e-3)}, "elbencho")
    levels = {factor: text for column, factor in known["levels"].items() if (text := row.get(column, "").strip())}
    for factor in _SIZES & levels.keys():
        levels[factor] = size_level(whole_number(levels[factor], f"elbencho's {factor}"))
    metrics = quantities(row, known["entries"], "elbencho") | requests
    problem = "no request was done" if direction and not requests else ""
    return Entry(operation, options=levels, metrics=metrics, problem=problem)


def _is_csv(text: str) -> bool:
    """Whether its first line has the names of elbencho's columns."""
    first = text.lstrip("\ufeff").partition("\n")[0]
    return {"operation", "time ms last"} <= set(_names(first.split(",")[:_MOST_COLUMNS]))


ELBENCHO = Tool(
    "elbencho",
    sign=r"^OPERATION +RESULT TYPE +FIRST DONE +LAST DONE",
    claims=_claims,
    missing="elbencho printed no phase",
    silent=lambda text, words: bool(_phases(text)),
    RESULTS=ResultFile("elbencho's --csvfile", _is_csv, _entries),
)


# vdbench's flat file (output/flatfile.html), written after vdbench's documentation and the source of that file
# (Flat.java), without an output of our own. A line of names comes first; each row is an interval of a run, and the last
# of a run is its average, called `avg_2-10`: it leaves out the first interval. MB are 2**20 bytes, response times
# milliseconds, numbers have four decimals. Of volumes (SD, WD) reads and writes have one rate together: it is that of
# reads or of writes where there is nothing else, and else of the total. Of files (FSD) both have their own.

_HEAD = re.compile(r"^ *tod +timestamp +Run +Interval +reqrate +rate +.*$", re.M)
_AVERAGE = re.compile(r" avg_[0-9]{1,9}(?:-[0-9]{1,9})? ")
_EVERY = re.compile(r"(?<![0-9])[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]")
"""Which rows are wanted: the averages of runs, or these and every interval."""
_NOTHING = "vdbench's flat file has no run that ended ('avg_')"
_MS_NS = 1e6
_RATES = (".iops", ".bw")
_DAY_S = 86400.0
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2}(?:\.[0-9]{1,6})?)")


def _rows(text: str, wanted: re.Pattern[str]) -> Iterator[dict[str, str]]:
    """The rows that have `wanted`, by their columns' names in lower case; InputError for one that does not fit.

    A name that stands twice has its first value; what is not available is left out.
    """
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        names = [name.lower() for name in head[0].split()]
        for _, line in lines_with(text[:end], wanted, head.end()):
            cells = line.split()
            if len(cells) != len(names):
                raise InputError(f"vdbench's flat file has a row of {len(cells)} columns; expected {len(names)}")
            pairs = reversed(list(zip(names, cells, strict=True)))
            yield {name: word for name, word in pairs if word != "n/a"}


def _way(row: Mapping[str, str], both: str) -> str:
    """What is done to volumes: reads, writes or both."""
    share = real(row["read%"], "vdbench's read%") if "read%" in row else None
    return {100.0: "read", 0.0: "write"}.get(share, both) if share is not None else both


def _vdbench_outputs(argv: Sequence[str]) -> list[str]:
    """The flat file in the folder of -o, which is `output` without it."""
    call = VDBENCH.words(argv)
    folders = [word for option, word in pairwise(call) if option == "-o"]
    joined = [word[2:] for word in call[1:] if re.match(r"-o\w", word)]
    return [posixpath.join(*([*folders, *joined] or ["output"])[-1:], "flatfile.html")] if call else []


def _vdbench_claims(text: str, argv: Sequence[str]) -> Iterator[Claim]:
    """Of files (FSD) a read and a write; of devices one claim, whose kind is known where there is only one."""
    for row in _rows(text, _AVERAGE):
        cells = {kind: (f"mb_{kind}", f"{kind}_resp") for kind in ("read", "write")}
        if not {"mb_read", "mb_write"} & row.keys():
            cells = {_way(row, "mixed"): ("mb/sec", "resp")}
        for kind, (rate, response) in cells.items():
            numbers = {
                name: real(row[name], f"vdbench's {name}") for name in (rate, response, "xfersize") if name in row
            }
            requested = numbers.get("xfersize", 0.0)
            if numbers.get(rate):
                yield Claim(
                    source="vdbench",
                    kind=kind,
                    test=row.get("run", ""),
                    rate_bytes_per_s=numbers[rate] * MIB,
                    rate_unit_bytes=step_of(row[rate]) * MIB,
                    latency_ns={"mean": numbers[response] * _MS_NS} if numbers.get(response) else {},
                    record_bytes=round(requested) if requested and requested.is_integer() else None,
                    unreported=("ramp",),
                )


def _vdbench_entries(text: str) -> Iterator[Entry]:
    """The runs in their order."""
    intervals: list[dict[str, str]] = []
    ended = False
    for row in _rows(text, _EVERY):
        if intervals and intervals[0].get("run") != row.get("run"):
            intervals = []  # of a run that was interrupted
        if not _AVERAGE.fullmatch(f" {row.get('interval', '')} "):
            intervals.append(row)
            continue
        cells = _vdbench_cells(row)
        metrics = quantities(row, cells, "vdbench")
        levels = {  # `100.0000` is 100, `70.1000` is 70.1
            factor: re.sub(r"(\.[0-9]*?)0+$", r"\1", row[column]).removesuffix(".")
            for column, factor in _TABLES["vdbench"]["levels"].items()
            if column in row
        }
        if levels.get("bs", "").isdecimal():  # the mean of several sizes is no size
            levels["bs"] = size_level(whole_number(levels["bs"], "vdbench's xfersize"))
        if any(name.endswith(_RATES) for name in metrics):
            series = _series(intervals, {name: cell for name, cell in cells.items() if name in metrics})
            yield Entry(row.get("run", ""), options=levels, metrics=metrics, series=series)
        else:
            yield Entry(row.get("run", ""), options=levels, problem="no request was done")
        intervals, ended = [], True
    if not ended:
        raise InputError(f"{_NOTHING}; it ends with {last_line(text)}")


def _vdbench_cells(row: Mapping[str, str]) -> dict[str, tuple[str, float]]:
    """Metric -> the column that has it and the factor of its unit, for a run with this average."""
    if {"mb_read", "mb_write"} & row.keys():
        own = {"iops": ("{}_rate", 1.0), "bw": ("mb_{}", float(MIB)), "lat.mean": ("{}_resp", _MS_NS)}
        ways = ("read", "write")
        return {f"{way}.{name}": (cell.format(way), factor) for way in ways for name, (cell, factor) in own.items()}
    way = _way(row, "total")
    return {
        f"{way}.iops": ("rate", 1.0),
        f"{way}.bw": ("mb/sec", float(MIB)),
        f"{way}.lat.mean": ("resp", _MS_NS),
        f"{way}.lat.max": ("resp_max", _MS_NS),
        f"{way}.lat.stddev": ("resp_std", _MS_NS),
        **({f"{one}.lat.mean": (f"{one}_resp", _MS_NS) for one in ("read", "write")} if way == "total" else {}),
    }


def _series(intervals: Sequence[Mapping[str, str]], cells: Mapping[str, tuple[str, float]]) -> list[Series]:
    """One of each metric, by the time after the first interval; a rate of 0 is a point of it, a time of 0 none."""
    points: dict[str, list[tuple[float, float]]] = {}
    begin_s = None
    for row in intervals:
        if match := _TIME.fullmatch(row.get("tod", "")):
            time_s = int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3])
            begin_s = time_s if begin_s is None else begin_s
            for name, (cell, factor) in cells.items():
                if cell in row and ((value := real(row[cell], f"vdbench's {cell}")) or name.endswith(_RATES)):
                    points.setdefault(name, []).append(((time_s - begin_s) % _DAY_S, value * factor))
    return [Series(name, [at for at, _ in found], [value for _, value in found]) for name, found in points.items()]


VDBENCH = Tool(
    "vdbench",
    sign=_HEAD.pattern,
    claims=_vdbench_claims,
    missing=_NOTHING,
    outputs=_vdbench_outputs,
    RESULTS=ResultFile("vdbench's flatfile.html", _HEAD.search, _vdbench_entries),
)


# The Phoronix Test Suite's composite.xml, written after its schema (pts-core/definitions/result-file.xsd of its
# repository), without a file of our own. `RawString` has the value of each run, which become repetitions; where it is
# empty there is only their mean, `Value`. Rates in bytes and times are converted, other scales are part of the metric's
# name: `score.<scale>` where more is better, `cost.<scale>` where less is.

_HEAD_CHARS = 2**16
_BETTER = {"HIB": "score", "LIB": "cost"}
_RATE = re.compile(r"([kKMGT]?i?B)/s(?:ec)?")
_LONGEST_SLUG = 60


def _phoronix_entries(text: str) -> list[Entry]:
    """The runs of each result in the file's order; InputError for what is no result file."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InputError("declares entities, which no result file of the Phoronix Test Suite does")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"is no XML that the Phoronix Test Suite wrote: {error}") from None
    runs: dict[tuple[str, str], list[Entry]] = {}
    for result in root.iter("Result"):  # a test with several scales has one result for each
        title = " ".join(part for part in (_text_of(result, "Title"), _text_of(result, "AppVersion")) if part)
        test = ": ".join(part for part in (title, _text_of(result, "Description")) if part) or "test"
        metric, factor = _metric(_text_of(result, "Scale"), _text_of(result, "Proportion"))
        for stated in result.iter("Entry"):
            system, mean = _text_of(stated, "Identifier"), _text_of(stated, "Value")
            known, problem = runs.setdefault((test, system), []), ""
            texts = [run for run in _text_of(stated, "RawString").split(":") if run] or [mean]
            if "," in mean:
                texts, problem = [], f"has {mean.count(',') + 1} values of a graph; expected one"
            elif not texts[0]:
                texts, problem = [], "has no value: the test failed on this system"
            found = [{metric: real(run, f"the value of '{test[:60]}'") * factor} for run in texts]
            if found and len(known) == len(found) and not any(metric in one.metrics or one.problem for one in known):
                known[:] = [replace(one, metrics={**one.metrics, **new}) for one, new in zip(known, found, strict=True)]
                continue
            options = {"test": test, **({"system": system} if system else {})}
            known += [Entry(test, options=options, metrics=new, problem=problem) for new in found or [{}]]
    return [entry for found in runs.values() for entry in found]


def _metric(scale: str, proportion: str) -> tuple[str, float]:
    """The metric of a scale, and the factor that gives its unit."""
    kind = _BETTER.get(proportion.upper(), "value")
    if rate := _RATE.fullmatch(scale):
        return f"{kind}.bw", float(units.parse_size(f"1{rate[1]}"))
    if (time_s := _TABLES["phoronix"]["times"].get(scale.lower())) is not None:
        return f"{kind}.time", time_s
    slug = re.sub(r"[^a-z0-9]+", "_", scale.lower().replace("/", " per ")).strip("_")[:_LONGEST_SLUG]
    return f"{kind}.{slug or 'number'}", 1.0


def _text_of(element: ElementTree.Element, name: str) -> str:
    return " ".join((element.findtext(name) or "").split())


PHORONIX = ResultFile(
    "the Phoronix Test Suite's composite.xml",
    lambda text: "<PhoronixTestSuite>" in text[:_HEAD_CHARS],
    _phoronix_entries,
)
