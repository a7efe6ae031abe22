"""ioassay trace: traces of block requests looked at, converted and made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioassay.cli import console, options, syntax
from ioassay.errors import UsageError
from ioassay.packs.ssd.commands import trace_options as wanted


def register(app: syntax.Group) -> None:
    """Add the commands to `app`."""
    trace = syntax.Group("Inspect, convert and generate traces of block requests.")
    trace.command()(info)
    trace.command()(convert)
    trace.command()(make)
    trace.command()(formats)
    trace.command()(cache)
    trace.command()(mrc)
    app.add(trace, "trace")


def info(
    files: wanted.Files,
    format: wanted.Format = None,
    page: wanted.Page = "4KiB",
    out_of_order: wanted.OutOfOrder = None,
    zero_length: wanted.ZeroLength = None,
    bad_lines: wanted.BadLines = 0,
    columns: wanted.Columns = None,
    skip_header: wanted.SkipHeader = False,
    time_unit: wanted.TimeUnit = None,
    offset_unit: wanted.OffsetUnit = None,
    length_unit: wanted.LengthUnit = None,
    kinds: wanted.KindCode = None,
    event: wanted.Event = None,
    no_cache: wanted.NoCache = False,
    json: options.Json = False,
) -> None:
    """Say what traces are like, and what makes them implausible.

    Example: ioassay trace info db.csv
    """
    given = dict(locals())
    from ioassay.packs.ssd import traces
    from ioassay.packs.ssd.commands import trace_text

    console.use_json(json)
    read = reading({**given, "out_of_order": out_of_order or "keep"})
    found = []
    for path in files:
        seen = {"path": str(path), **traces.info(path, page=page, format=format, read=read, cache=not no_cache)}
        found.append(seen)
        if not json:
            trace_text.describe(seen)
        cache_note(seen)
        console.warnings({**doubt, "text": f"{path}: {doubt['text']}"} for doubt in seen["doubts"])
    if json:
        console.emit({"traces": found})


def convert(
    trace: wanted.In,
    output: wanted.Out,
    from_: wanted.From = None,
    to: wanted.To = None,
    out_of_order: wanted.OutOfOrder = None,
    zero_length: wanted.ZeroLength = None,
    bad_lines: wanted.BadLines = 0,
    columns: wanted.Columns = None,
    skip_header: wanted.SkipHeader = False,
    time_unit: wanted.TimeUnit = None,
    offset_unit: wanted.OffsetUnit = None,
    length_unit: wanted.LengthUnit = None,
    kinds: wanted.KindCode = None,
    event: wanted.Event = None,
    devices: wanted.Devices = None,
    keep: wanted.Keep = None,
    drop_empty: wanted.DropEmpty = False,
    shrink: wanted.Shrink = None,
    shrink_from: wanted.ShrinkFrom = None,
    page: wanted.Page = "4KiB",
    offsets: wanted.Offsets = None,
    sizes: wanted.Sizing = None,
    limit: wanted.Limit = None,
    beyond: wanted.Beyond = None,
    skip: wanted.Skip = 0,
    first: wanted.First = None,
    rebase: wanted.Rebase = False,
    time_scale: wanted.TimeScale = 1.0,
    lose: wanted.Lose = None,
    force: wanted.Force = False,
    no_cache: wanted.NoCache = False,
    json: options.Json = False,
) -> None:
    """Write a trace in another format, prepared as the options say, in the order of this list.

    Example: ioassay trace convert db.csv writes.disksim --keep writes --rebase
    """
    given = dict(locals())
    from ioassay.packs.ssd import traces

    console.use_json(json)
    _check_streams(output, json)
    read, prepare = reading(given), preparing(given)
    options_: dict[str, Any] = {"format": from_, "read": read, "prepare": prepare, "lose": lose or (), "force": force}
    done = traces.convert(trace, output, to=to, cache=not no_cache, **options_)
    cache_note(done)
    _written(output, done, json)


def make(
    output: wanted.Out,
    requests: wanted.Requests = 1_000_000,
    arrivals: wanted.Arrivals = "poisson:20000",
    addresses: wanted.Addresses = "uniform",
    sizes: wanted.Sizes = "4KiB",
    reads: wanted.Reads = 0.0,
    trims: wanted.Trims = 0.0,
    range_: wanted.Range = "1GiB",
    align: wanted.Align = None,
    seed: wanted.Seed = 1,
    to: wanted.To = None,
    lose: wanted.Lose = None,
    force: wanted.Force = False,
    json: options.Json = False,
) -> None:
    """Make a trace; the same options give the same trace on every machine.

    Example: ioassay trace make hot.csv --requests 100000 --addresses zipf:0.9
    """
    from ioassay.packs.ssd import traces

    console.use_json(json)
    _check_streams(output, json)
    laws = {"requests": requests, "arrivals": arrivals, "addresses": addresses, "sizes": sizes, "reads": reads}
    laws |= {"trims": trims, "range": range_, "align": align, "seed": seed}
    to = to or ("disksim" if str(output) == "-" else None)  # no name tells it, and the simulator reads any
    done = traces.make(output, to=to, lose=lose or (), force=force, **laws)
    _written(output, done, json)


def formats(json: options.Json = False) -> None:
    """List the formats of traces."""
    from ioassay.packs.ssd import traces

    console.use_json(json)
    known = traces.formats()
    if json:
        console.emit({"formats": known})
    else:
        console.table(["format", "what", "columns"], [[each["name"], each["about"], each["columns"]] for each in known])


def mrc(
    trace: wanted.In,
    of: wanted.ReferencesOf = "both",
    page: wanted.Page = "4KiB",
    sample: wanted.Sample = None,
    sample_pages: wanted.SamplePages = None,
    exact: wanted.Exact = False,
    points: wanted.Points = 25,
    output: wanted.CurveOutput = None,
    force: wanted.CurveForce = False,
    format: wanted.Format = None,
    out_of_order: wanted.OutOfOrder = None,
    zero_length: wanted.ZeroLength = None,
    bad_lines: wanted.BadLines = 0,
    columns: wanted.Columns = None,
    skip_header: wanted.SkipHeader = False,
    time_unit: wanted.TimeUnit = None,
    offset_unit: wanted.OffsetUnit = None,
    length_unit: wanted.LengthUnit = None,
    kinds: wanted.KindCode = None,
    event: wanted.Event = None,
    no_cache: wanted.NoCache = False,
    json: options.Json = False,
) -> None:
    """Say how the misses of an LRU buffer depend on its size: the miss ratio curve."""
    given = dict(locals())
    from ioassay.packs.ssd import traces
    from ioassay.packs.ssd.commands import trace_text

    console.use_json(json)
    _check_picture(output, force=force)
    sampling: dict[str, Any] = {"sample": sample, "sample_pages": sample_pages, "exact": exact, "points": points}
    read = reading({**given, "out_of_order": out_of_order or "keep"})
    curve = traces.mrc(trace, page=page, of=of, format=format, read=read, cache=not no_cache, **sampling)
    cache_note(curve)
    if output is not None:
        _draw(output, str(trace), of, curve, force=force)
    if json:
        drawn = {} if output is None else {"output": str(output)}
        console.emit({"trace": str(trace), "of": of, **curve, **drawn})
    else:
        trace_text.miss_ratio_curve(str(trace), of, curve)
        if output is not None:
            console.line(f"the curve is drawn in {output}")


def _check_picture(output: Path | None, *, force: bool) -> None:
    from ioassay.packs.ssd.traces import miss_ratio_chart, trace_file

    if output is not None:
        miss_ratio_chart.check(output)
        trace_file.check(output, force=force)
    elif force:
        raise UsageError("--force goes with --output FILE")


def _draw(output: Path, trace: str, of: str, curve: Mapping[str, Any], *, force: bool) -> None:
    from ioassay.packs.ssd.traces import miss_ratio_chart, trace_file

    with trace_file.replaced(output, force=force) as unfinished:
        spec = miss_ratio_chart.chart(trace, of, miss_ratio_chart.Curve.of(curve))
        miss_ratio_chart.write(unfinished, spec, output.suffix.lower())


def cache(clear: wanted.Clear = False, json: options.Json = False) -> None:
    """List the parsed traces that are kept, or remove them."""
    from ioassay.packs.ssd.commands import trace_text
    from ioassay.packs.ssd.traces import cache as parsed

    console.use_json(json)
    freed = parsed.clear() if clear else 0
    kept = {"folder": str(parsed.folder()), "limit_bytes": parsed.limit_bytes(), "entries": parsed.entries()}
    if json:
        console.emit({**kept, "freed_bytes": freed})
    elif clear:
        trace_text.cache_cleared(freed)
    else:
        trace_text.cache_entries(kept)


def cache_note(done: Mapping[str, Any]) -> None:
    """What went wrong with the cache of parsed traces, in one line; of `ioassay simulate` as well."""
    if note := done["cache"]["note"]:
        console.note(f"note: {note}")


def reading(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of reading, those that were given; of `ioassay simulate` as well."""
    from ioassay.packs.ssd import traces

    how: str | int | None = given["out_of_order"]
    if isinstance(how, str) and how.startswith("sort:"):
        places = how.removeprefix("sort:")
        if not places.isdecimal():
            raise UsageError(f"--out-of-order is '{how}', wanted refuse, keep or sort:PLACES")
        how = int(places)
    read = {"out_of_order": how, "zero_length": given["zero_length"], "event": given["event"]}
    read["bad_lines"] = given["bad_lines"] or None
    csv = traces.csv(**{name: given[name] for name in wanted.CSV})
    return {**{name: value for name, value in read.items() if value is not None}, **csv}


def preparing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of preparation, those that were given; of `ioassay simulate` as well."""
    from ioassay.packs.ssd import traces

    return traces.preparation(page=given["page"], **{name: given[name] for name in wanted.PREPARING})


def _check_streams(output: Path, json: bool) -> None:
    if str(output) == "-" and json:
        raise UsageError("--json and a trace cannot both go to standard output; write the trace to a file")


def _written(output: Path, done: Mapping[str, Any], json: bool) -> None:
    from ioassay.packs.ssd.commands import trace_text

    if json:
        console.emit({"output": str(output), **done})
    else:
        trace_text.written(output, done)
