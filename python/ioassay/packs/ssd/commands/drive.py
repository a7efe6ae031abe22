"""ioassay drive: descriptions of drives listed, shown, and compared with public measurements of the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import completion_values, console, options, session, syntax
from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.commands import learn
from ioassay.packs.ssd.simulator import drive_accuracy
from ioassay.simulation import drive_files
from ioassay.units import format_count, format_size

if TYPE_CHECKING:
    from ioassay.packs.ssd.simulator.drive_accuracy import Accuracy
    from ioassay.simulation.drive_files import DriveFile, Entry

_NAME = "A drive's name, or the file that describes it."
Name = Annotated[str, syntax.argument("NAME|FILE", _NAME, completion_values.drives)]
_MEASURE = "Measure points of the file again on this device or file, and tell whether the drive drifted."
_BUDGET, _MARGIN = "1m", "10%"
_SAME = "With --measure, differences below this count as the same."
_CONSENT = "With --measure, write as well: all data on the named device or file is lost."
_WORDS = {"mean_us": "mean latency", "iops": "IOPS", "p50_us": "p50", "p99_us": "p99"}


def register(app: syntax.Group) -> None:
    drive = syntax.Group("List and show descriptions of drives, and compare them with measurements.")
    drive.command("list")(list_)
    for command in (show, check, learn.learn):
        drive.command()(command)
    app.add(drive, "drive")


def list_(json: options.Json = False) -> None:
    """List the drives that --drive takes by name."""
    drives = [drive_files.load(name) for name in drive_files.builtin()]
    known = [{"name": each.name, "about": each.about, "measurements": len(each.measurements)} for each in drives]
    rows = [[each.name, str(len(each.measurements) or "-"), each.about] for each in drives]
    console.answer(lambda: {"drives": known}, lambda: console.table(["drive", "measurements", "about"], rows))


def show(
    drive: Name,
    all_: Annotated[bool, syntax.option("--all", "Show each option with its unit, basis and source.")] = False,
    json: options.Json = False,
) -> None:
    """Show a drive's options, where they come from, and what follows: capacity, latencies, peak rates.

    The figures are simulated, of a fresh drive: depth 1 and 256 with 4 KiB, depth 32 with 128 KiB in sequence.

    Example: ioassay drive show samsung-980-pro --all
    """
    described = drive_files.load(drive)
    size = _checked(described)
    figures = drive_accuracy.figures(described.options)
    if json:
        values = {name: vars(entry) for name, entry in described.entries.items()}
        about = {"name": described.name, "file": str(described.path), "about": described.about}
        derived = {"capacity_bytes": size["capacity_bytes"], "figures": figures}
        console.emit({**about, "sources": described.sources, "options": values, **derived})
        return
    console.line(f"{described.name}: {described.about}")
    console.line(f"  {'capacity':<18} {format_size(size['capacity_bytes'])}")
    for name, figure in figures.items():
        console.line(f"  {name:<18} {_figure(name, figure)}")
    if all_:
        shown = [[name, _value(one), one.unit, one.basis, one.source] for name, one in described.entries.items()]
        console.table(["option", "value", "unit", "basis", "source"], shown)
        for name, citation in described.sources.items():
            console.line(f"{name}: {citation}")
        return
    by_basis: dict[str, list[str]] = {}
    for name, entry in described.entries.items():
        text = format_size(entry.value) if entry.unit == "B" else f"{_value(entry)} {entry.unit}".rstrip()
        by_basis.setdefault(entry.basis, []).append(f"{name} {text}")
    for basis, texts in by_basis.items():
        console.line(f"  {basis:<18} {', '.join(texts)}")
    console.line("  options that are not listed are those of the reference drive; --all shows sources")


def check(
    drive: Name,
    points: Annotated[bool, syntax.option("--points", "Show each measured point and the model's.")] = False,
    measure: Annotated[str | None, syntax.option("TARGET", _MEASURE)] = None,
    budget: Annotated[str, syntax.option("TIME", "Time for --measure.")] = _BUDGET,
    margin: Annotated[str, syntax.option("SHARE", _SAME)] = _MARGIN,
    output: options.Output = None,
    destroy_data: Annotated[list[str] | None, syntax.option("NAME", _CONSENT)] = None,
    json: options.Json = False,
) -> None:
    """Validate a drive's file, simulate what was measured on the real drive, and show the errors.

    Exit status 1: an error is above the limit that the file states. Every second point was open to a fit; the others
    are held out. With --measure the drive itself is compared with the file, and 1 means that it drifted.

    Examples: ioassay drive check samsung-980-pro --points; ioassay drive check my.toml --measure /dev/nvme0n1
    """
    described = drive_files.load(drive)
    _checked(described)
    if measure is None and (budget, margin, output, destroy_data) != (_BUDGET, _MARGIN, None, None):
        raise UsageError("--budget, --margin, --output and --destroy-data are about --measure; expected it with them")
    if measure is not None:
        if points:
            raise UsageError("--points shows what is simulated; expected it without --measure")
        _measure(described, measure, budget, margin, output, destroy_data or [])
        return
    found = [drive_accuracy.accuracy(described, each) for each in described.measurements]
    excesses = {each.measurement.name: each.excesses for each in found if each.excesses}
    if json:
        console.emit({"name": described.name, "file": str(described.path), "measurements": [*map(_as_json, found)]})
    else:
        console.line(f"{described.name}: {described.path} is valid")
        rows = []
        for one, name in ((each, name) for each in found for name in _statistics(each)):
            errors, limit = one.errors(name), one.measurement.limits.get(name)
            fitted = one.mean_error(name, fitted=True) if one.errors(name, fitted=True) else None
            shares = [fitted, one.mean_error(name, fitted=False), max(errors), limit]
            texts = ["-" if share is None else f"{share:.1%}" for share in shares]
            rows.append([one.measurement.name, str(len(errors)), _WORDS[name], *texts])
        if found:
            console.table(["measurement", "points", "mean error of", "fitted", "held out", "worst", "limit"], rows)
        else:
            console.line("  it names no measurements")
        for each in found if points else ():
            _points(each)
    if excesses:
        parts = (f"{name}: {_WORDS[key]} {error:.1%}" for name, each in excesses.items() for key, error in each.items())
        console.note(f"ioassay: {described.name} misses the limits of its file: {'; '.join(parts)}")
        raise console.Exit(1)


def _measure(drive: DriveFile, target: str, budget: str, margin: str, output: Path | None, consent: list[str]) -> None:
    from ioassay.api.execution import RunOptions
    from ioassay.packs.ssd.twin import drift

    chosen, share = RunOptions(destroy_data=consent), options.share("--margin", margin)
    seconds = options.seconds("--budget", budget)
    run = session.measure(lambda announce: drift.begin(drive, target, seconds, output, chosen, announce))
    found = drift.compare(drive, run, share)
    said = [found.verdict, *console.aligned(found.columns(), list(found.rows()))]
    console.answer(found.as_dict, lambda: session.say(run, said))
    session.refuse_contradicted(run)
    if found.outcome == drift.DRIFTED:
        raise console.Exit(1)


def _checked(drive: DriveFile) -> Mapping[str, Any]:
    try:
        return simulator.check(drive.options)
    except UsageError as error:
        raise InputError(f"{drive.path}: {error}") from None


def _figure(name: str, figure: Mapping[str, float]) -> str:
    load = f"{format_size(int(figure['size_bytes']))}, depth {figure['depth']:.0f}"
    if figure["depth"] == 1:
        return f"{figure['mean_us']:.4g} us  ({load})"
    return f"{format_count(round(figure['iops']))} IOPS, {figure['mb_s']:.4g} MB/s  ({load})"


def _value(entry: Entry) -> str:
    values = entry.value if isinstance(entry.value, list) else [entry.value]
    numbers = (f"{each:.6g}" if isinstance(each, float) else str(each) for each in values)
    return "/".join({"True": "yes", "False": "no"}.get(text, text) for text in numbers)


def _statistics(found: Accuracy) -> list[str]:
    """Those with a limit, or all that were measured."""
    measured = [name for name in _WORDS if found.errors(name)]
    return [name for name in measured if name in found.measurement.limits] or measured


def _points(found: Accuracy) -> None:
    statistics = _statistics(found)
    console.line()
    console.line(f"{found.measurement.name}: {found.measurement.about}")
    columns = [text for name in statistics for text in (_WORDS[name], "model", "error")]
    flows = ["flows"] if any(each.point.flows for each in found.comparisons) else []
    rows = []
    for each in found.comparisons:
        load = [format_size(each.point.size_bytes), str(each.point.depth), *(each.point.flows for _ in flows)]
        load.append("fitted" if each.is_fitted else "held out")
        for name in statistics:
            load += [f"{each.point.statistics[name]:.5g}", f"{each.simulated[name]:.5g}", f"{each.error(name):+.1%}"]
        rows.append(load)
    console.table(["size", "depth", *flows, "use", *columns], rows)


def _as_json(found: Accuracy) -> dict[str, Any]:
    measurement, shares, rows = found.measurement, {}, []
    for name in filter(found.errors, _WORDS):
        both = {use: found.mean_error(name, fitted) for use, fitted in (("fitted", True), ("held_out", False))}
        shares[name] = {**both, "limit": measurement.limits.get(name)}
    for each in found.comparisons:
        point = {name: value for name, value in vars(each.point).items() if name != "statistics"}
        values = {"measured": each.point.statistics, "simulated": each.simulated}
        rows.append({**point, **values, "fitted": each.is_fitted})
    about = {name: getattr(measurement, name) for name in ("name", "about", "source")}
    return {**about, "errors": shares, "points": rows}
