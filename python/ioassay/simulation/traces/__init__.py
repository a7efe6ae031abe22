"""Traces of block requests: looked at, converted, made. The work is done in Rust, without the GIL.

A trace is named by the path of a file, or by a recipe (`recipe`); `source` makes of either, and of how it is to be
prepared (`preparation`), the one description that `info`, `convert` and the simulator take. What formats there are:
`formats()`, docs/traces.md. The core checks the numbers. Nothing here simulates or draws.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ioassay import _core, atomic_file
from ioassay._core import CoreError
from ioassay.errors import InputError, UsageError
from ioassay.hints import nearest
from ioassay.simulation import options
from ioassay.units import parse_size

__all__ = [
    "check_output",
    "convert",
    "csv",
    "formats",
    "info",
    "make",
    "mrc",
    "nothing_left",
    "preparation",
    "recipe",
    "shipped",
    "source",
]

Trace = str | Path | Mapping[str, Any]
"""A file (`-` is standard input), the name of a shipped trace, a recipe, `{"recording": …}` for what the witness wrote
down (`path`, and optionally `own`: only the command's own requests, `device`: major:minor), arrays of equal length,
flows of a simulation, or what `source` made. Arrays are `kind` (0 read, 1 write, 2 trim, 3 flush), `offset_bytes`,
`bytes` and, optionally, `at_us`."""


def formats() -> list[dict[str, Any]]:
    """The formats of traces that are read, and, as far as they are, `written`: name, about, endings, columns."""
    return _core.trace_formats()


def shipped() -> dict[str, Path]:
    """The small made traces that come with ioassay, by name; `shipped/README.md` says how each was made."""
    folder = Path(__file__).parent / "shipped"
    return {path.name.split(".")[0]: path for path in sorted(folder.glob("*.zst"))}


_OF_A_CPU = re.compile(r"(.+\.blktrace\.)\d+")


def distinct(paths: Sequence[Path]) -> list[Path]:
    """The traces that files are, in their order: several of blktrace's, one for each CPU, are one, `<name>.blktrace.*`.

    So a shell's expansion of that pattern is what the quoted pattern is.
    """
    wholes = [path.with_name(f"{part[1]}*") if (part := _OF_A_CPU.fullmatch(path.name)) else path for path in paths]
    number, given = Counter(wholes), dict(zip(wholes, paths, strict=True))
    return [path if number[whole] == 1 else whole for whole, path in given.items()]


class Reading(TypedDict, total=False):
    """How a trace is read, as `source` takes it."""

    format: str | None
    read: Mapping[str, Any] | None
    prepare: Mapping[str, Any] | None
    cache: bool


def source(
    trace: Trace,
    *,
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    cache: bool = True,
) -> dict[str, Any]:
    """The description of a source of requests.

    `format` is a name of `formats()`; without it, the format is found. `read` may have `out_of_order` (refuse, keep or
    the number of places over which to sort), `zero_length` (refuse or skip), `bad_lines` (how many may be left out),
    `event` (of blktrace, blkparse and fiolat: queued, issued, completed), `member` (files of an archive or folder, with
    * and ?) and what `csv` returns; with `pattern`, the format is regex. `prepare` is what `preparation` returns.
    With `cache` a large file is parsed once: the parsed trace is kept (below `cache_folder`).
    """
    described: dict[str, Any]
    if isinstance(trace, Mapping):
        if not trace.keys() & {"path", "make", "recording", "arrays", "flows"}:
            trace = {"arrays" if "offset_bytes" in trace else "make": dict(trace)}
        described = dict(trace)
    else:
        named = shipped().get(str(trace))
        described = {"path": str(named if named and not Path(trace).exists() else Path(trace))}
    if read and read.get("pattern"):
        if format not in (None, "regex"):
            raise UsageError(f"pattern goes with the format regex, and the format is {format}")
        format = "regex"
    given = {"format": format, "read": dict(read) if read else None, "prepare": dict(prepare) if prepare else None}
    described |= {name: value for name, value in given.items() if value is not None}
    if "flows" in described and (of_trace := described.keys() & given.keys()):
        raise UsageError(
            f"{' and '.join(sorted(of_trace))} is given with flows, which are no trace; expected one of both"
        )
    if "path" in described:
        described.setdefault("cache", cache_description() if cache else None)
    return described


def info(trace: Trace, *, page: str | int = "4KiB", **how: Unpack[Reading]) -> dict[str, Any]:
    """What a trace is like: requests, bytes, rates, sizes, gaps, pages, and the doubts about it.

    Pages are counted in units of `page`, `how` is as in `source`. Times that go back are counted, unless `read` says
    otherwise. Raises InputError for a trace that cannot be read.
    """
    described = _looked_at(trace, how)
    page_bytes = _size("page", page)
    if page_bytes == 0:
        raise UsageError("page is 0, expected at least 1 byte")
    with core_errors(described):
        return _core.trace_info(described, page_bytes)


def mrc(
    trace: Trace,
    *,
    page: str | int = "4KiB",
    of: str = "both",
    sample: float | None = None,
    sample_pages: int | None = None,
    exact: bool = False,
    points: int = 25,
    **how: Unpack[Reading],
) -> dict[str, Any]:
    """The miss ratio curve of a trace: miss ratios of LRU buffers of many sizes, from one pass.

    References are the pages of `of`: reads, writes or both. Without a sample the curve is exact. `sample` is the share
    of pages that are looked at, `sample_pages` how many at most (SHARDS); then `error` is half the width of each
    ratio's interval of 95 %. With `exact`, the exact ratios are computed too (`exact_miss_ratio`). `how` is as in
    `info`. Raises UsageError, InputError.
    """
    if sample is not None and sample_pages is not None:
        raise UsageError("sample and sample-pages are given, expected one of them")
    if points < 2:
        raise UsageError(f"points is {points}, expected at least 2")
    described = _looked_at(trace, how)
    memory_bytes = int(options.available_bytes() * options.MEMORY_SHARE)
    with core_errors(described):
        page_bytes = _size("page", page)
        sampled: dict[str, Any] = {"rate": sample, "pages": sample_pages, "exact": exact}
        return _core.trace_mrc(described, page_bytes, of, points, **sampled, memory_bytes=memory_bytes)


def _looked_at(trace: Trace, how: Reading) -> dict[str, Any]:
    """The source of a trace that may have times that go back."""
    how["read"] = {"out_of_order": "keep", **(how.get("read") or {})}
    described = source(trace, **how)
    if "make" in described:
        del described["read"]
    return described


def convert(
    trace: Trace,
    output: str | Path,
    *,
    to: str | None = None,
    lose: Sequence[str] = (),
    force: bool = False,
    empty: bool = False,
    **how: Unpack[Reading],
) -> dict[str, Any]:
    """Write a trace in the format `to`, by default the one that the name of `output` tells; `how` is as in `source`.

    `.gz` and `.zst` at the end compress; `-` is standard output. `output` is whole or as it was before, whatever
    happens; it is replaced only with `force`. `lose` names what may be lost where the format cannot hold it:
    alignment, devices, kinds. Returns the formats and the counts of what preparation changed. Raises InputError for a
    trace that cannot be read, UsageError where there is no request, unless it may be `empty`.
    """
    described = source(trace, **how)
    name, compress = format_of(output, to, formats())
    place = nullcontext() if str(output) == "-" else replaced(Path(output), force=force)
    with core_errors(described), place as unfinished:
        done = _core.trace_write(described, unfinished, name, compress=compress, lose=list(lose))
        if not empty and (reason := nothing_left(done["changes"], described.get("prepare"))):
            raise UsageError(f"{described['path']}: {reason}" if "path" in described else reason)
    return done


def make(
    output: str | Path, *, to: str | None = None, lose: Sequence[str] = (), force: bool = False, **laws: Any
) -> dict[str, Any]:
    """Write a made trace; `laws` are those of `recipe`, the rest is as in `convert`."""
    return convert(recipe(**laws), output, to=to, lose=lose, force=force)


def check_output(output: str | Path, to: str | None = None, *, force: bool = False) -> None:
    """UsageError, before anything is done, for an output that `convert` would refuse."""
    format_of(output, to, formats())
    if str(output) != "-":
        check_file(Path(output), force=force)


@contextmanager
def core_errors(described: Mapping[str, Any]) -> Iterator[None]:
    """What the core says of a trace or an option, as an error of ours."""
    path = described.get("path")
    try:
        yield
    except CoreError as error:
        raise (InputError if path and str(error).startswith(str(path)) else UsageError)(str(error)) from None
    except OSError as error:
        if path is None or error.filename != path:
            raise
        raise InputError(f"{path}: {error.strerror}") from None


# How a trace is read and prepared


def preparation(
    *,
    keep: str | Sequence[str] | None = None,
    devices: str | None = None,
    drop_empty: bool = False,
    shrink: str | int | None = None,
    shrink_from: str | int | None = None,
    page: str | int | None = None,
    offsets: str | None = None,
    sizes: str | None = None,
    limit: str | int | None = None,
    beyond: str | None = None,
    skip: int = 0,
    first: int | None = None,
    rebase: bool = False,
    time_scale: float = 1.0,
) -> dict[str, Any]:
    """What is done to a trace, in this order; what is not told is not done. docs/workloads.md has it in full.

    `devices`: ignore, only:NUMBER or side-by-side:SIZE. `keep`: kinds such as writes, or reads,writes. `drop_empty`
    drops requests of no bytes. `shrink`: evenly to that size, from `shrink_from` or where the trace ends.
    `offsets`: keep, down, refuse. `sizes`: keep, round-out, cut, split (pages of `page`, 4 KiB), split:SIZE (cut to
    SIZE, then split). `limit`: where requests may end, and what is `beyond`: refuse, wrap, drop. `skip` and `first`
    count what is left. `rebase` lets times begin at 0, `time_scale` multiplies them. Raises UsageError.
    """
    if first == 0:
        raise UsageError("first is 0, expected at least 1: nothing would be left of the trace")
    kinds = keep.split(",") if isinstance(keep, str) else keep
    sizing, colon, cut = (sizes or "").partition(":")
    if colon and sizing != "split":
        raise UsageError(f"sizes is '{sizes}', expected keep, round-out, cut, split or split:SIZE")
    wanted = {
        "devices": _devices(devices) if devices else None,
        "keep": [kind.strip() for kind in kinds] if kinds else None,
        "drop_empty": drop_empty or None,
        "shrink_to_bytes": _known_size("shrink", shrink),
        "shrink_from_bytes": _known_size("shrink-from", shrink_from),
        "page_bytes": _known_size("page", page),
        "offsets": offsets,
        "cut_bytes": _size("sizes", cut) if colon else None,
        "sizes": sizing or None,
        "limit_bytes": _known_size("limit", limit),
        "beyond": beyond,
        "skip": skip or None,
        "first": first,
        "rebase": rebase or None,
        "time_scale": None if time_scale == 1.0 else time_scale,
    }
    if shrink_from is not None and shrink is None:
        raise UsageError("shrink-from is given without shrink, expected both or none")
    return {name: value for name, value in wanted.items() if value is not None}


_DROPS = {
    "dropped_device": "devices",
    "dropped_kind": "keep",
    "dropped_empty": "drop_empty",
    "dropped_beyond": "beyond",
    "skipped": "skip",
}
"""Counts of what a preparation leaves out, and the option that is the reason."""


def nothing_left(changes: Mapping[str, int], prepare: Mapping[str, Any] | None) -> str:
    """Why a preparation left no request: each option with its value and count; '' where it left some.

    `changes` are the counts of the core, `prepare` is what `preparation` returned.
    """
    if changes["given"]:
        return ""
    if not changes["seen"]:
        return "the trace has no requests"
    values = prepare or {}
    drops = [
        f"{option.replace('_', '-')} is {_written(values.get(option, True))} and leaves out {changes[count]:,}"
        for count, option in _DROPS.items()
        if changes[count]
    ]
    return f"nothing is left of the trace's {changes['seen']:,} requests: {', '.join(drops)}"


def _written(value: Any) -> str:
    """A value as a user writes it: `reads,writes`, `only:3`."""
    if isinstance(value, tuple):
        return ":".join(map(str, value))
    return ",".join(value) if isinstance(value, list) else str(value)


def _devices(text: str) -> str | tuple[str, int]:
    name, _, number = text.partition(":")
    if name == "only" and number.isdecimal():
        return name, int(number)
    if name == "side-by-side" and number:
        return name, _size("devices", number)
    if text in ("keep", "ignore"):
        return text
    raise UsageError(f"devices is '{text}', expected keep, ignore, only:NUMBER or side-by-side:SIZE")


def _size(name: str, text: str | int) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def _known_size(name: str, text: str | int | None) -> int | None:
    return None if text is None else _size(name, text)


def csv(
    columns: str | Sequence[str] | None = None,
    skip_header: bool = False,
    time_unit: str | None = None,
    offset_unit: str | int | None = None,
    length_unit: str | int | None = None,
    kinds: str | None = None,
    pattern: str | None = None,
    skip_unmatched: bool = False,
) -> dict[str, Any]:
    """Options for `read`, where a CSV trace's header does not say everything, or no format fits.

    `columns`: their names in order, `-` for one of no interest; `skip_header`: the first line is one nevertheless.
    `time_unit`: s, ms, us, ns. `offset_unit` and `length_unit`: bytes of one, such as 512. `kinds`: words, read-is-1,
    write-is-1, scsi, rwbs, reads or writes. `pattern`: a regular expression whose groups are named as columns are;
    `skip_unmatched`: lines that it does not match are no error. Raises UsageError.
    """
    names = columns.split(",") if isinstance(columns, str) else columns
    given = {
        "columns": [name.strip() for name in names] if names else None,
        "skip_header": skip_header or None,
        "time_unit": time_unit,
        "offset_unit_bytes": _known_size("offset-unit", offset_unit),
        "length_unit_bytes": _known_size("length-unit", length_unit),
        "kinds": kinds,
        "pattern": pattern,
        "skip_unmatched": skip_unmatched or None,
    }
    if skip_unmatched and not pattern:
        raise UsageError("skip-unmatched goes with pattern")
    return {name: value for name, value in given.items() if value is not None}


# How one is made

Law = tuple[str, list[float]]

ARRIVALS = ("none", "fixed:RATE", "uniform:RATE", "poisson:RATE", "bursts:RATE:LENGTH:PEAK_RATE")
ADDRESSES = ("uniform", "normal", "zipf:THETA", "hot-cold:ACCESSES:SPACE", "sequential[:RUN[:STREAMS]]")
"""The forms of both laws, as the core knows them."""

_MOST_ALIGN_BYTES = 4096
_SECTOR_BYTES = 512


def recipe(
    *,
    requests: int = 1_000_000,
    arrivals: str = "poisson:20000",
    addresses: str = "uniform",
    sizes: str | int = "4KiB",
    reads: float = 0.0,
    trims: float = 0.0,
    range: str | int = "1GiB",
    align: str | int | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """The recipe of a made trace; docs/workloads.md has every form.

    `arrivals`: none, fixed:RATE, uniform:RATE, poisson:RATE, bursts:RATE:LENGTH:PEAK_RATE (requests a second).
    `addresses`: uniform, normal, zipf:THETA, hot-cold:ACCESSES:SPACE, sequential[:RUN[:STREAMS]].
    `sizes`: a size, exponential:MEAN, or sizes with weights, 4KiB:3,64KiB:1.
    `reads` and `trims` are shares of the requests; all else writes. `align` is 4 KiB unless told, or the smallest size
    where that is less. Raises UsageError.
    """
    law, numbers = _sizes(str(sizes))
    smallest = _SECTOR_BYTES if law == "exponential" else min(numbers[::2] if law == "weighted" else numbers)
    natural_align = max(1, min(_MOST_ALIGN_BYTES, int(smallest)))
    return {
        "requests": requests,
        "arrivals": _law("arrivals", arrivals, ARRIVALS),
        "addresses": _law("addresses", addresses, ADDRESSES),
        "sizes": (law, numbers),
        "reads": reads,
        "trims": trims,
        "range_bytes": _size("range", range),
        "align_bytes": natural_align if align is None else _size("align", align),
        "seed": seed,
    }


def _law(name: str, text: str, forms: tuple[str, ...]) -> Law:
    """`zipf:0.99` -> ("zipf", [0.99])."""
    law, *numbers = text.strip().split(":")
    known = [re.split(r"\W*:", form)[0] for form in forms]
    if law not in known:
        raise UsageError(f"{name} is '{text}', expected {', '.join(forms[:-1])} or {forms[-1]}{nearest(law, known)}")
    try:
        return law, [float(number) for number in numbers]
    except ValueError:
        raise UsageError(f"{name} is '{text}', expected a name and numbers, such as zipf:0.99") from None


def _sizes(text: str) -> Law:
    """`4KiB` -> ("fixed", [4096]); `4KiB:3,8KiB:1` -> ("weighted", [4096, 3, 8192, 1])."""
    name, _, rest = text.partition(":")
    if name.strip() == "exponential":
        return "exponential", [_size("sizes", rest)]
    if not rest and "," not in text:
        return "fixed", [_size("sizes", text)]
    numbers: list[float] = []
    for part in text.split(","):
        size, _, weight = part.partition(":")
        try:
            numbers += [_size("sizes", size), float(weight or 1)]
        except ValueError:
            raise UsageError(f"sizes has the weight '{weight}', expected a number, such as 4KiB:3,64KiB:1") from None
    return "weighted", numbers


# Files of traces: what the name of one tells, that it is written whole or not at all, and the cache of parsed traces.
# The core reads and writes the cache. Its files may be removed at any time: a trace that is not there is parsed again.
# What they are, and why a trace that changed is never mistaken for another: docs/traces.md

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def format_of(output: str | Path, to: str | None, formats: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """The format and the compression for a file: `to`, or what the name's ending tells. Raises UsageError."""
    name = "" if str(output) == "-" else Path(output).name
    ending = Path(name).suffix.lower()
    compress = _COMPRESSIONS.get(ending)
    if to is not None:
        return to, compress
    formats = [known for known in formats if known["written"]]
    plain = name.lower().removesuffix(ending) if compress else name.lower()
    fitting = [
        (len(end), known["name"])
        for known in formats
        for end in (*known["endings"], "." + known["name"])
        if plain.endswith(end)
    ]
    longest = {name for length, name in fitting if length == max(fitting)[0]}
    if len(longest) != 1:
        several = f"could be {' or '.join(sorted(longest))}" if longest else "tells no format"
        known_names = ", ".join(known["name"] for known in formats)
        raise UsageError(f"{output}: the name {several}; say it with --to, one of {known_names}")
    return longest.pop(), compress


def check_file(path: Path, *, force: bool) -> None:
    """UsageError where something is there that may not be replaced, or there is no folder for it."""
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file, expected one, or - for standard output")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force replaces it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder, expected one that exists for {path.name}")


@contextmanager
def replaced(path: Path, *, force: bool) -> Iterator[Path]:
    """A path to write to, which becomes `path` when all went well and is removed otherwise.

    Raises UsageError where something is there that may not be replaced, OSError as the system does.
    """
    path = path.resolve()  # a symbolic link stays, and what it names is replaced
    check_file(path, force=force)
    unfinished = atomic_file.unfinished_of(path)
    try:
        yield unfinished
        atomic_file.sync(unfinished)
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    atomic_file.sync(path.parent)


SWITCH = "IOASSAY_TRACE_CACHE"
"""The environment variable: `off`, or the size that the cache may have."""
LIMIT = "4GiB"


def cache_folder() -> Path | None:
    """Where the cache is (XDG Base Directory Specification: a relative path there is to be ignored); None: nowhere."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (named if named.is_absolute() else Path("~/.cache").expanduser()) / "ioassay" / "traces"
    except RuntimeError:  # there is no home
        return None


def cache_limit_bytes() -> int:
    """How many bytes it may have; 0 where it is off. Raises UsageError for a switch that is neither."""
    value = os.environ.get(SWITCH, "") or LIMIT
    if value == "off":
        return 0
    try:
        return parse_size(value)
    except ValueError as error:
        raise UsageError(f"{SWITCH} is '{value}', expected off or a size such as 4GiB: {error}") from None


def cache_description() -> dict[str, Any] | None:
    limit, place = cache_limit_bytes(), cache_folder()
    return {"folder": str(place), "limit_bytes": limit} if limit and place else None


def cache_entries() -> list[dict[str, Any]]:
    """The parsed traces that are kept, the last used one first: name, bytes, and time of the last use (seconds)."""
    kept = []
    for path in _files(".columns"):
        with suppress(FileNotFoundError):  # another run has removed it
            status = path.stat()
            kept.append({"name": path.name, "bytes": status.st_size, "used_s": status.st_mtime})
    return sorted(kept, key=lambda entry: -entry["used_s"])


def clear_cache() -> int:
    """Remove all that the cache has; returns the bytes that became free. Raises OSError."""
    freed = 0
    for path in _files(".columns", ".same", ".unfinished"):
        with suppress(FileNotFoundError):
            freed += path.stat().st_size
            path.unlink()
    return freed


def _files(*endings: str) -> Iterator[Path]:
    """Only files that are the cache's own, whatever else may be in the folder."""
    place = cache_folder()
    if place is None or not place.is_dir():
        return iter(())
    return (path for path in place.iterdir() if path.suffix in endings and path.is_file())
