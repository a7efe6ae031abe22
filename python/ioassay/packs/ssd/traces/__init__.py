"""Traces of block requests: looked at, converted, made. The work is done in Rust, without the GIL.

A trace is named by the path of a file, or by a recipe (`recipes`); `source` makes of either, and of how it is to be
prepared (`preparation`), the one description that `info`, `convert` and the simulator take. What formats there are:
`formats()`, docs/traces.md. Nothing here simulates or draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ioassay import _core
from ioassay._core import CoreError
from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd.traces import trace_file
from ioassay.packs.ssd.traces.preparation import csv, nothing_left, preparation
from ioassay.packs.ssd.traces.recipes import recipe

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
down (`path`, and optionally `own`: only the command's own requests, `device`: major:minor), or what `source` made."""


def formats() -> list[dict[str, Any]]:
    """The formats of traces that are read and written: name, about, endings, columns."""
    return _core.trace_formats()


def shipped() -> dict[str, Path]:
    """The small made traces that come with ioassay, by name; `shipped/README.md` says how each was made."""
    folder = Path(__file__).parent / "shipped"
    return {path.name.split(".")[0]: path for path in sorted(folder.glob("*.zst"))}


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
    `event` (of blkparse: queued, issued, completed) and what `csv` returns. `prepare` is what `preparation` returns.
    With `cache` a large file is parsed once: the parsed trace is kept (`traces.trace_file`).
    """
    described: dict[str, Any]
    if isinstance(trace, Mapping):
        described = dict(trace) if trace.keys() & {"path", "make", "recording"} else {"make": dict(trace)}
    else:
        described = {"path": str(_found(trace))}
    if format is not None:
        described["format"] = format
    if read:
        described["read"] = dict(read)
    if prepare:
        described["prepare"] = dict(prepare)
    if "path" in described:
        described.setdefault("cache", trace_file.cache_description() if cache else None)
    return described


def info(
    trace: Trace,
    *,
    page: str | int = "4KiB",
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    cache: bool = True,
) -> dict[str, Any]:
    """What a trace is like: requests, bytes, rates, sizes, gaps, pages, and the doubts about it.

    Pages are counted in units of `page`. Times that go back are counted, unless `read` says otherwise.
    Raises InputError for a trace that cannot be read.
    """
    read = {"out_of_order": "keep", **(read or {})}
    described = source(trace, format=format, read=read, prepare=prepare, cache=cache)
    if "make" in described:
        del described["read"]
    page_bytes = preparation(page=page)["page_bytes"]
    if page_bytes == 0:
        raise UsageError("page is 0, expected at least 1 byte")
    with _said(described):
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
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    cache: bool = True,
) -> dict[str, Any]:
    """The miss ratio curve of a trace: miss ratios of LRU buffers of many sizes, from one pass.

    References are the pages of `of`: reads, writes or both. Without a sample the curve is exact. `sample` is the share
    of pages that are looked at, `sample_pages` how many at most (SHARDS); then `error` is half the width of each
    ratio's interval of 95 %. With `exact`, the exact ratios are computed too (`exact_miss_ratio`).
    Raises UsageError, InputError.
    """
    if sample is not None and sample_pages is not None:
        raise UsageError("sample and sample-pages are given, expected one of them")
    if points < 2:
        raise UsageError(f"points is {points}, expected at least 2")
    read = {"out_of_order": "keep", **(read or {})}
    described = source(trace, format=format, read=read, prepare=prepare, cache=cache)
    if "make" in described:
        del described["read"]
    page_bytes = preparation(page=page)["page_bytes"]
    with _said(described):
        return _core.trace_mrc(described, page_bytes, of, points, rate=sample, pages=sample_pages, exact=exact)


def convert(
    trace: Trace,
    output: str | Path,
    *,
    to: str | None = None,
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    lose: Sequence[str] = (),
    force: bool = False,
    cache: bool = True,
    empty: bool = False,
) -> dict[str, Any]:
    """Write a trace in the format `to`, by default the one that the name of `output` tells.

    `.gz` and `.zst` at the end compress; `-` is standard output. `output` is whole or as it was before, whatever
    happens; it is replaced only with `force`. `lose` names what may be lost where the format cannot hold it:
    alignment, devices, kinds. Returns the formats and the counts of what preparation changed. Raises InputError for a
    trace that cannot be read, UsageError where there is no request, unless it may be `empty`.
    """
    described = source(trace, format=format, read=read, prepare=prepare, cache=cache)
    name, compress = trace_file.format_of(output, to, formats())
    with _said(described):
        if str(output) == "-":
            done = _core.trace_write(described, None, name, compress=compress, lose=list(lose))
            return done if empty else _filled(done, described)
        with trace_file.replaced(Path(output), force=force) as unfinished:
            done = _core.trace_write(described, unfinished, name, compress=compress, lose=list(lose))
            return done if empty else _filled(done, described)


def _filled(done: dict[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    """What was written; UsageError where that is no request."""
    if reason := nothing_left(done["changes"], described.get("prepare")):
        raise UsageError(f"{described['path']}: {reason}" if "path" in described else reason)
    return done


def make(
    output: str | Path, *, to: str | None = None, lose: Sequence[str] = (), force: bool = False, **laws: Any
) -> dict[str, Any]:
    """Write a made trace; `laws` are those of `recipe`, the rest is as in `convert`."""
    return convert(recipe(**laws), output, to=to, lose=lose, force=force)


def check_output(output: str | Path, to: str | None = None, *, force: bool = False) -> None:
    """UsageError, before anything is done, for an output that `convert` would refuse."""
    trace_file.format_of(output, to, formats())
    if str(output) != "-":
        trace_file.check(Path(output), force=force)


def _found(trace: str | Path) -> Path:
    """A file; a shipped trace where there is none of that name here."""
    named = shipped().get(str(trace))
    return named if named and not Path(trace).exists() else Path(trace)


@contextmanager
def _said(described: Mapping[str, Any]) -> Iterator[None]:
    """What the core says of a trace or an option, as an error of ours."""
    path = described.get("path")
    try:
        yield
    except CoreError as error:
        raise (InputError if path else UsageError)(str(error)) from None
    except OSError as error:
        if path is None or error.filename != path:
            raise
        raise InputError(f"{path}: {error.strerror}") from None
