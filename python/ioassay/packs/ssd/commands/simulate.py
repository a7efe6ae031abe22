"""ioassay simulate: a trace over a simulated SSD, with one write buffer and setting or several."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import completion_values, console, syntax
from ioassay.cli.progress import reading_progress
from ioassay.cli.syntax import row
from ioassay.cli.trace_options import NO_CACHE, PREPARING, READING, cache_note, preparing, reading, trace_formats
from ioassay.errors import Interrupted, UsageError
from ioassay.hints import nearest
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.simulator import results
from ioassay.simulation import options as simulation_options
from ioassay.simulation import traces
from ioassay.simulation.options import OPTIONS
from ioassay.units import format_count, format_duration, format_rate, format_size

if TYPE_CHECKING:
    from ioassay.packs.ssd.simulator import Simulation


_METAVARS = {
    simulation_options.COUNT: "N",
    simulation_options.NUMBER: "X",
    simulation_options.NUMBERS: "X/X/…",
    simulation_options.SHARE: "SHARE",
    simulation_options.SIZE: "SIZE",
    simulation_options.WINDOW: "N|none",
    simulation_options.FEEDING: "HOW",
    simulation_options.AUTO_SHARE: "SHARE|auto",
    simulation_options.AUTO_COUNT: "N|auto",
}

Trace = Annotated[Path | None, syntax.argument("TRACE", "A trace; - is standard input.")]


def _options(group: str) -> dict[str, syntax.Row]:
    """Those of a group, as texts, which the table's own reader takes: a wrong value is said alike everywhere."""
    rows = {}
    for option in OPTIONS:
        name, default = option.name.replace("_", "-"), option.default
        if isinstance(default, bool):
            default = "yes" if default else "no"
        about = f"{option.about} [default: {f'{default:g}' if isinstance(default, float) else default}]"
        metavar = "|".join(option.choices) or _METAVARS.get(option.kind, "NAME,…")
        values = completion_values.listed(completion_values.policies) if option.name == "policy" else None
        if option.group == group and option.kind == simulation_options.FLAG:
            rows[option.name] = row(bool, None, f"--{name}/--no-{name}", about)
        elif option.group == group:
            rows[option.name] = row(str, None, f"--{name} {metavar}", about, values)
    return rows


_DRIVE = "Drive whose options apply: a name (ioassay drive list) or a file; single options override its own."
_FLOW = "One of several loads at once, in place of TRACE, such as read,depth=8,size=4KiB; repeatable."
_THREADS = "Threads that share one simulation, for writes in an open loop without window. [default: 1]"
_SAMPLE = "Estimate the hit ratios of write buffers from this share of the pages, and simulate nothing else."
_OUTPUT = "Write summary.json and tables there, for several simulations in a folder each."
_TABLE = {
    "The drive": {
        "drive": row(str, None, "NAME|FILE", _DRIVE, completion_values.drives),
        **_options(simulation_options.DRIVE),
    },
    "The controller of a drive of today": _options(simulation_options.CONTROLLER),
    "The write buffer": _options(simulation_options.BUFFER),
    "Feeding": {
        "flow": row(list[str], None, "KEY=VALUE,…", _FLOW),
        **_options(simulation_options.FEED),
    },
    "Before the measurement": _options(simulation_options.PRECONDITION),
    "Reading the trace": {
        "format": row(str, None, "NAME", "Format of TRACE; detected by default.", trace_formats),
        **READING,
        **NO_CACHE,
    },
    "Preparing the trace, in this order": {name: each for name, each in PREPARING.items() if name != "page"},
    "Sweep": {
        "set": row(
            *(list[str], None, "NAME=A,B,…", "Simulate once for each of these values of an option above."),
            completion_values.of_simulation,
        )
    },
    "Long traces": {
        "threads": row(int, 1, "N", _THREADS, min=1, max=1024),
        "sample": row(float, None, "RATE", _SAMPLE),
    },
    "Lifetime": {
        "lifetime": row(
            bool, False, "--lifetime", "How long the drive lasts under the trace; --endurance is its rating."
        ),
        "daily_writes": row(str, None, "SIZE", "Bytes that the host writes a day. [default: by the trace's times]"),
        "warranty": row(
            float, None, "YEARS", f"Years of drive writes per day. [default: {simulator.WARRANTY_YEARS:g}]"
        ),
    },
    "States": {
        "state": row(Path, None, "FILE", "Begin with the drive whose state was saved there."),
        "resume": row(bool, False, "--resume", "With --state: continue the saved run behind its last request."),
        "save_state": row(Path, None, "FILE", "Save the state; without TRACE, of the preconditioned drive."),
    },
    "What comes out": {
        "output": row(Path, None, "DIR", _OUTPUT),
        "csv": row(bool, False, "--csv", "With --output: tables as CSV, not Parquet."),
        "force": row(bool, False, "--force", "With --output and --save-state: replace files that exist."),
        "json": row(bool, False, "--json", "Print the result as one JSON object."),
        "list_policies": row(bool, False, "--list-policies", "List the write-buffer policies and exit."),
    },
}
"""Heading of the help -> the options below it."""


@syntax.takes({name: each.below(heading) for heading, rows in _TABLE.items() for name, each in rows.items()})
def simulate(trace: Trace = None, **given: Any) -> None:
    """Run a trace on a simulated SSD and report response times and the drive's activity.

    Several policies, with commas, and several values of options (--set) are simulated in one pass and compared.

    Examples: ioassay simulate db.csv --drive samsung-980-pro; ioassay simulate db.csv --policy lru,epo --buffer 16MiB;
    ioassay simulate --drive samsung-980-pro --flow read,depth=8 --flow write,rate=2000,size=64KiB,range=0-50%
    """
    json = given["json"]
    if given["list_policies"]:
        known = simulator.policies()
        if json:
            console.emit({"policies": known})
        else:
            dashed = (", ".join(f"--{name.replace('_', '-')}" for name in each["options"]) for each in known)
            rows = [[each["name"], each["about"], names] for each, names in zip(known, dashed, strict=True)]
            console.table(["policy", "what it does", "options"], rows)
        return
    of_drive = simulator.drive_options(given["drive"])
    given["trace"] = trace
    trace, described = _trace(given, of_drive)
    options = {**of_drive, **{name: given[name] for name in simulator.NAMES if given[name] is not None}}
    endurance = _endurance(given, options)
    if given["state"]:
        options = simulator.options_of(given["state"], options, resume=given["resume"])
    runs = _runs(options, given["set"] or ())
    _check_state(given, len(runs))
    if given["sample"] is not None:
        _sample(given, described, runs, json=json)
        return
    if len(runs) > 1 and given["threads"] > 1:
        hint = "each has a thread of its own, and they share the processors"
        raise UsageError(f"--threads goes with one simulation, and {len(runs)} were asked for: {hint}")
    if len(runs) > 1 and str(trace) == "-":
        hint = "write it to a file first: ioassay trace make FILE"
        raise UsageError(
            f"standard input can be read once, {len(runs)} simulations and their optimum need more; {hint}"
        )
    drives = {name: simulator.check(run.options) for name, run in runs.items()}
    folders = _folders(given, list(runs))
    with reading_progress() as progress:
        described["progress"] = progress
        if len(runs) > 1:
            settings = [run.options for run in runs.values()]
            simulations = simulator.sweep(described, settings, state=given["state"])
        else:
            (run,) = runs.values()
            how = {name: given[name] for name in ("threads", "state", "resume", "save_state")}
            simulations = [simulator.simulate(described, partial=True, **how, **run.options)]
    del described["progress"]
    found = []
    for (name, run), done in zip(runs.items(), simulations, strict=True):
        if not done.raw["changes"]["given"] and given["trace"] is not None:
            raise UsageError(f"{trace}: {done.nothing}; nothing was simulated")
        summary = run.summary(done, {"trace": str(trace), "format": done.raw["format"]})
        found.append(summary)
        lasts = _lifetime(done, name if len(runs) > 1 else "", endurance, given) if given["lifetime"] else None
        if lasts:
            summary["lifetime"] = lasts.summary
        if name in folders:
            simulator.save(done, folders[name], {**summary, "options": run.options}, csv=given["csv"], force=True)
        if len(runs) == 1 and not json and lasts:
            _describe_lifetime(lasts, str(trace))
        elif len(runs) == 1 and not json:
            _describe(done, drives[name], run.options, str(trace))
    cache_note(simulations[0].raw)
    _warn(dict(zip(runs, found, strict=True)))
    if len(found) > 1:
        _compare(described, runs, found, json)
    elif json:
        console.emit(found[0])
    if simulations[0].raw.get("interrupted"):
        issued = f"{simulations[0].summary['issued']:,}"
        console.note(f"ioassay: interrupted after {issued} requests; the results are of the requests until then")
        raise console.Exit(Interrupted.exit_code)


def _endurance(given: Mapping[str, Any], options: dict[str, Any]) -> int | None:
    """The erasures of a block that a lifetime is about. The blocks that are simulated last for any number of them, so
    that the drive stays the same; those of a state are as they were saved."""
    if not given["lifetime"]:
        for name in ("daily_writes", "warranty"):
            if given[name] is not None:
                raise UsageError(f"--{name.replace('_', '-')} goes with --lifetime")
        return None
    if any(text.partition("=")[0].strip() == "endurance" for text in given["set"] or ()):
        raise UsageError("--lifetime takes one --endurance: the years are in proportion to it; expected no --set of it")
    option = simulation_options.known("endurance")
    endurance = int(simulation_options.read(option, options.get("endurance", option.default)))
    years = simulator.WARRANTY_YEARS if given["warranty"] is None else given["warranty"]
    simulator.check_terms(endurance, given["daily_writes"], years)
    if given["state"]:
        options.pop("endurance", None)
    else:
        options["endurance"] = 0
    return endurance


def _lifetime(done: Simulation, run: str, endurance: int | None, given: Mapping[str, Any]) -> simulator.Lifetime | None:
    """None for a run that was interrupted before its wear told a lifetime, after a note that says why."""
    daily, years = given["daily_writes"], given["warranty"] or simulator.WARRANTY_YEARS
    try:
        return simulator.lifetime(done, endurance=endurance, daily_writes=daily, warranty_years=years)
    except UsageError as error:
        why = f"{run}: {error}" if run else str(error)
        if not done.raw.get("interrupted"):
            raise UsageError(why) from None
        console.note(f"ioassay: no lifetime: {why}")
        return None


def _sample(given: Mapping[str, Any], described: dict[str, Any], runs: Mapping[str, _Run], *, json: bool) -> None:
    """The hit ratios of each run's buffer from a sample of the pages, in one pass."""
    given_too = {
        "threads": given["threads"] > 1,
        **{name: given[name] for name in ("lifetime", "state", "save_state", "csv")},
    }
    for name in (name for name, there in given_too.items() if there):
        raise UsageError(f"--{name.replace('_', '-')} and --sample do not go together: no drive is simulated")
    for run in runs.values():
        results.check_sampled(run.options)
    folders = _folders(given, list(runs), names=[results.SUMMARY])
    with reading_progress() as progress:
        hits = simulator.sampled_hits(
            {**described, "progress": progress}, [run.options for run in runs.values()], given["sample"]
        )
    found = []
    for (name, run), done in zip(runs.items(), hits, strict=True):
        summary = run.summary(done, {"trace": str(given["trace"])})
        found.append(summary)
        if name in folders:
            results.save_summary(folders[name], {**summary, "options": run.options})
    _warn(dict(zip(runs, found, strict=True)))
    if json:
        console.emit(found[0] if len(found) == 1 else {"samples": found})
        return
    first = found[0]
    names = list(dict.fromkeys(name for each in found for name in each.get("set", ())))
    pages = f"{first['written_pages']:,} page writes and {first['read_pages']:,} page reads"
    console.line(f"{first['trace']}: {first['requests']:,} requests, {pages}")
    _row("sample", "each ratio is within its error with 95 % confidence; times and wear are not those of a sample")
    rows = []
    for each in found:
        cells = [f"{each['sample_rate']:.4g}", f"{each['sampled_pages']:,}"]
        for name in ("hit_ratio", "read_hit_ratio", "optimum_hit_ratio"):
            cells += ["-" if share is None else f"{share:.2%}" for share in (each[name], each[f"{name}_error"])]
        rows.append([each["policy"], *(each.get("set", {}).get(name, "-") for name in names), *cells])
    columns = ["hits", "error", "read hits", "error", "optimum", "error"]
    console.table(["policy", *names, "sample", "pages", *columns], rows)


def _compare(
    described: Mapping[str, Any], runs: Mapping[str, _Run], found: Sequence[dict[str, Any]], json: bool
) -> None:
    """Several simulations beside the offline optimum of their buffer, of which there is one for each `--set`."""
    optima: dict[tuple[str, ...], simulator.OfflineOptimum] = {}
    bound: dict[str, Any] = {}
    for run, summary in zip(runs.values(), found, strict=True):
        levels = tuple(run.levels.values())
        if "flows" in described:  # which pages they write depends on the drive
            summary["gain_share"] = None
            continue
        if levels not in optima:
            optima[levels] = simulator.offline_optimum(described, **run.options)
        optimum = optima[levels]
        summary["gain_share"] = optimum.gain_share(summary["hit_ratio"])
        bound = {"offline_optimum": {**vars(optimum), "hit_ratio": optimum.hit_ratio}}
        if run.levels:
            summary |= bound
    if json:
        console.emit({"simulations": found, **(bound if len(optima) == 1 else {})})
        return
    names = list(dict.fromkeys(name for each in found for name in each.get("set", ())))
    columns = ["policy", *names, "mean ms", "median ms", "99 % ms", "99.9 % ms", "MB/s"]
    columns += ["hits", "of optimum", "write amp.", "erases", "moved"]
    lifetimes = ["years"] if "lifetime" in found[0] else []
    columns += lifetimes
    rows = []
    for each in found:
        mean = "saturated" if each["saturated"] else _number(each["mean_response_ms"])
        rest = [_number(each[name]) for name in ("p50_ms", "p99_ms", "p999_ms", "throughput_mb_s")]
        share = "-" if each["gain_share"] is None else f"{each['gain_share']:.1%}"
        work = [_number(each["write_amplification"]), f"{each['erases']:,}", f"{each['moved_pages']:,}"]
        work += [_number(each["lifetime"][name]) for name in lifetimes]
        of_set = [each.get("set", {}).get(name, "-") for name in names]
        rows.append([each["policy"], *of_set, mean, *rest, f"{each['hit_ratio']:.2%}", share, *work])
    for chosen, optimum in optima.items():
        of_optimum = dict.fromkeys(columns, "-") | dict(zip(names, chosen, strict=False))
        of_optimum |= {"policy": "offline optimum", "hits": f"{optimum.hit_ratio:.2%}"}
        rows.append([*of_optimum.values()])
    console.table(columns, rows)


def _trace(given: Mapping[str, Any], of_drive: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The trace and its description, read and prepared as the options say; pages are those of the drive."""
    if given["flow"]:
        if named := next((name for name in ("trace", "resume", "save_state", "sample") if given[name]), ""):
            raise UsageError(f"{named.replace('_', '-')} is given with --flow, expected one of both")
        flows = simulator.flows(*given["flow"])
        how = {"format": given["format"], "read": reading(given), "prepare": preparing({**given, "page": None})}
        return Path(", ".join(flow["name"] for flow in flows["flows"])), traces.source(flows, **how)
    if given["trace"] is None and given["save_state"]:
        return Path("no trace"), traces.source(traces.recipe(requests=0))
    if given["trace"] is None:
        raise UsageError("no trace and no --flow is given (see: ioassay simulate --help)")
    page = given["page"] or of_drive.get("page", simulator.NAMES["page"].default)
    prepare = preparing({**given, "page": page})
    trace = given["trace"]
    read, cache = reading(given), not given["no_cache"]
    return trace, traces.source(trace, format=given["format"], read=read, prepare=prepare, cache=cache)


@dataclass(frozen=True)
class _Run:
    """One simulation of a sweep: its options, and those of `--set` among them."""

    policy: str
    options: dict[str, Any]
    levels: dict[str, str]

    def summary(self, done: Simulation | simulator.SampledHits, trace: Mapping[str, Any]) -> dict[str, Any]:
        levels = {"set": self.levels} if self.levels else {}
        warnings = [vars(warning) for warning in done.warnings]
        flows = {"flows": done.flows} if isinstance(done, simulator.Simulation) and done.flows else {}
        return {**trace, "policy": self.policy, **done.summary, **flows, **levels, "warnings": warnings}


def _runs(options: dict[str, Any], sets: Sequence[str]) -> dict[str, _Run]:
    """A run for each policy and each combination of `--set`, by name. An option that only some policies know is for
    those alone."""
    known = {each["name"]: set(each["options"]) for each in simulator.policies()}
    wanted = [name.strip() for name in options.get("policy", "none").split(",")]
    for name in wanted:
        if name not in known:
            raise UsageError(f"policy is '{name}', expected {', '.join(known)}{nearest(name, known)}")
    levels = _levels(sets, options)
    special = set().union(*known.values())
    for name in special & (options.keys() | levels.keys()) - set().union(*(known[policy] for policy in wanted)):
        able = ", ".join(policy for policy in known if name in known[policy])
        raise UsageError(f"--{name.replace('_', '-')} is an option of {able}, and the policy is {', '.join(wanted)}")
    runs = {}
    for policy in wanted:
        apt = {name: values for name, values in levels.items() if name not in special or name in known[policy]}
        common = {name: value for name, value in options.items() if name not in special or name in known[policy]}
        for values in itertools.product(*apt.values()):
            chosen = dict(zip(apt, values, strict=True))
            name = " ".join([policy, *(f"{option}={value}" for option, value in chosen.items())])
            runs[name] = _Run(policy, {**common, **chosen, "policy": policy}, chosen)
    return runs


def _levels(sets: Sequence[str], options: Mapping[str, Any]) -> dict[str, list[str]]:
    levels: dict[str, list[str]] = {}
    for text in sets:
        name, separator, values = text.partition("=")
        option = simulation_options.known(name.strip().replace("-", "_")).name
        if option == "policy":
            raise UsageError("--set policy=…: the policies of a sweep are those of --policy lru,epo")
        if option in levels or option in options:
            raise UsageError(f"{option} is given twice, expected one --set with all of its values, or --{name} alone")
        levels[option] = list(dict.fromkeys(value.strip() for value in values.split(",")))
        if not separator or "" in levels[option]:
            raise UsageError(f"--set is '{text}', expected NAME=VALUE,VALUE,… such as buffer=1MiB,4MiB")
    return levels


def _check_state(given: Mapping[str, Any], runs: int) -> None:
    """UsageError for options of states that do not go together, before anything is simulated."""
    if given["resume"] and not given["state"]:
        raise UsageError("--resume goes with --state FILE")
    if runs > 1 and (given["resume"] or given["save_state"]):
        name = "resume" if given["resume"] else "save-state"
        raise UsageError(f"--{name} goes with one simulation, and {runs} were asked for")
    if given["save_state"]:
        traces.check_file(given["save_state"], force=given["force"])


def _warn(found: Mapping[str, dict[str, Any]]) -> None:
    """Each warning once, with the runs that it is about where there are several."""
    about: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, summary in found.items():
        for warning in summary["warnings"]:
            about.setdefault(tuple(warning.items()), []).append(name)
    for fields, names in about.items():
        warning = dict(fields)
        text = warning["text"] if len(found) == 1 else f"{', '.join(names)}: {warning['text']}"
        console.warnings([{**warning, "text": text}])


def _folders(given: Mapping[str, Any], runs: list[str], names: Sequence[str] = ()) -> dict[str, Path]:
    """Where what is simulated goes, after a look that it may."""
    if given["output"] is None:
        if given["csv"] or (given["force"] and not given["save_state"]):
            raise UsageError(f"--{'csv' if given['csv'] else 'force'} goes with --output DIR")
        return {}
    output: Path = given["output"]
    folders = {runs[0]: output} if len(runs) == 1 else {name: output / name.replace(" ", ",") for name in runs}
    for folder in folders.values():
        results.check_files(folder, names or results.file_names(given["csv"]), force=given["force"])
    return folders


# What people are told


def _describe(simulation: Simulation, drive: Mapping[str, Any], given: Mapping[str, Any], trace: str) -> None:
    """One simulation, one thing a line. `drive` is what `simulation.check` returned."""
    found = simulation.summary
    format_ = simulation.raw["format"]
    console.line(f"{trace}: {f'{format_}, ' if format_ else ''}{found['requests']:,} requests measured")
    done = simulation.raw["preconditioned"]
    state = f"preconditioned with {_pages(done['pages'])}" if done else "every page written once before"
    _row("drive", f"{_value(given, 'elements')} elements, {format_size(drive['capacity_bytes'])}, {state}")
    policy, buffer, mode = (_value(given, name) for name in ("policy", "buffer", "mode"))
    _row("buffer", "none" if policy == "none" else f"{policy}, {buffer}, {mode}")
    if not simulation.flows:
        queue = f"window {_value(given, 'window')}, driver {_value(given, 'driver')}"
        _row("feed", f"{_value(given, 'feed')}, {queue}")
    _row("response", _response(found))
    rate = found["throughput_mb_s"]
    rates = "" if rate is None else f"{format_rate(rate * 1e6)}, {format_count(found['iops'])} requests/s"
    _row("throughput", rates or "none: no time passed")
    if found["written_pages"]:
        amplification = f"write amplification {found['write_amplification']:.4g}"
        _row("flash", f"{_pages(found['written_pages'])} written, {amplification}")
        moved = f"{_pages(found['moved_pages'])} moved"
        spread = f"{found['least_element_erases']:,} to {found['most_element_erases']:,} an element"
        collected = f"{console.count(found['cleanings'], 'block')} collected"
        _row("garbage", f"{collected}, {moved}, {found['erases']:,} erases ({spread})")
    if (free := found["slc_free_share"]) is not None:
        slc = f"{_pages(found['slc_pages'])} written, {_pages(found['folded_pages'])} folded"
        _row("SLC", f"{slc}, {free:.1%} of the region free at the end")
    if policy != "none":
        _row("hits", f"{found['hit_ratio']:.2%} of written pages, {found['left_in_buffer']:,} pages left in the buffer")
    if found["pad_reads"] or found["pad_writes"]:
        _row("padding", f"{_pages(found['pad_reads'])} read, {_pages(found['pad_writes'])} written")
    if found["translation_reads"] is not None:
        hits = "no lookups" if found["mapping_hit_ratio"] is None else f"{found['mapping_hit_ratio']:.2%} hits"
        reads, writes = _pages(found["translation_reads"]), f"{found['translation_writes']:,} written"
        _row("mapping", f"{hits}, translation {reads} read, {writes}")
    if found["mean_utilisation"] is not None:
        _row("busy", f"elements {found['mean_utilisation']:.1%} of the time")
    _row("took", f"{format_duration(found['wall_s'])} for {format_duration(found['simulated_s'])} simulated")
    if simulation.flows:
        _flows(simulation.flows)


_OF_FLOW = {
    "mean ms": "mean_response_ms",
    "median ms": "p50_ms",
    "99 % ms": "p99_ms",
    "99.9 % ms": "p999_ms",
    "IOPS": "iops",
    "MB/s": "throughput_mb_s",
}


def _flows(flows: Mapping[str, Mapping[str, Any]]) -> None:
    kinds = {name: [kind for kind in ("read", "write") if kind in found] for name, found in flows.items()}
    shown = {name: found for name, found in flows.items() if not kinds[name]}
    shown |= {f"{name}, {kind}s": flows[name][kind] for name in flows for kind in kinds[name]}
    rows = [
        [name, f"{found['requests']:,}", *(_number(found[key]) for key in _OF_FLOW.values())]
        for name, found in shown.items()
    ]
    console.table(["flow", "requests", *_OF_FLOW], rows)


def _describe_lifetime(lasts: simulator.Lifetime, trace: str) -> None:
    found, capacity, daily = lasts.summary, format_size(lasts.capacity_bytes), lasts.daily_bytes
    range_ = {
        name: f"{found[f'{name}_low']:.4g} to {found[f'{name}_high']:.4g}" for name in ("write_amplification", "tbw")
    }
    console.line(f"{trace}: a drive of {capacity} lasts {_years(lasts.years)} under this workload, if its wear is even")
    by = "as given" if lasts.is_rate_given else "by the trace's time stamps"
    _row("writes", f"{daily / 1e9:,.4g} GB a day, {by}: {daily / lasts.capacity_bytes:.3g} drive writes")
    share = f"in the last {lasts.steady_share:.0%} of the run's writes"
    _row("wear", f"write amplification {found['write_amplification']:.4g} ({range_['write_amplification']}), {share}")
    spread = (
        f"{min(lasts.erasures):,} to {max(lasts.erasures):,} a block in the run, {lasts.mean_erasures:.3g} on average"
    )
    _row("erasures", f"{spread}; the endurance is {lasts.endurance:,}")
    interval = lasts.years_interval
    lasting = f"{_years(lasts.years)} ({_years(interval.low)} to {_years(interval.high)})"
    _row("endures", f"{found['tbw']:,.4g} TB written ({range_['tbw']}), {lasting}")
    first = f"block is dead after {_years(lasts.first_dead_years)}, if the most worn one stays as far ahead"
    _row("first", first)
    _row("rating", f"{found['dwpd']:.3g} drive writes a day over {lasts.warranty_years:g} years")
    _row("intervals", "of 90 %, by batch means; the rate of the workload is taken as exact")


def _years(years: float) -> str:
    return f"{years:.3g} years" if years >= 1 else f"{years * simulator.DAYS_PER_YEAR:.3g} days"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _row(name: str, text: str) -> None:
    console.line(f"  {name:<10} {text}")


def _pages(number: int) -> str:
    return f"{number:,} page{'' if number == 1 else 's'}"


def _value(given: Mapping[str, Any], name: str) -> Any:
    return given.get(name, simulator.NAMES[name].default)


def _response(found: Mapping[str, Any]) -> str:
    """A saturated run has no mean: it is as large as the trace is long."""
    if not found["requests"]:
        return "none: no request was measured"
    if found["saturated"]:
        return "none that is steady: requests came faster than the drive completes them"
    parts = [("mean", "mean_response_ms"), ("median", "p50_ms"), ("95 %", "p95_ms"), ("99 %", "p99_ms")]
    parts += [("99.9 %", "p999_ms"), ("largest", "max_ms")]
    said = ", ".join(f"{word} {found[key]:.4g}" for word, key in parts)
    return f"{said} ms{'' if found['steady'] else ' (not steady)'}"
