"""A simulated SSD over a trace: `ioassay.simulate` in Python. The work is done in Rust, without the GIL.

`simulation.options.OPTIONS` lists the options, `drive_files` reads descriptions of drives, `drive_accuracy` compares
them with measurements. `results.Simulation` is the outcome, `results.save` stores it.
How the drive works: docs/simulator.md.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, Unpack

from ioassay import _core
from ioassay.errors import UsageError
from ioassay.packs.ssd.simulator import flow_description, results
from ioassay.packs.ssd.simulator.endurance import DAYS_PER_YEAR, WARRANTY_YEARS, Lifetime, check_terms, lifetime
from ioassay.packs.ssd.simulator.flow_description import flows
from ioassay.packs.ssd.simulator.results import SECTOR_BYTES, Estimate, OfflineOptimum, SampledHits, Simulation, save
from ioassay.simulation import options as known_options
from ioassay.simulation import traces
from ioassay.simulation.drive_files import drive_options
from ioassay.simulation.options import DRIVE, NAMES, NONE, OPTIONS, PRECONDITION, Option, available_bytes, known, setup
from ioassay.simulation.options import read as option_value

__all__ = [
    "DAYS_PER_YEAR", "NAMES", "OPTIONS", "WARRANTY_YEARS", "Drive", "Estimate", "Lifetime", "OfflineOptimum", "Option",
    "SampledHits", "Simulation", "check", "check_terms", "drive_options", "flows", "lifetime", "offline_optimum",
    "options_of", "policies", "sampled_hits", "save", "setup", "simulate", "sweep",
]  # fmt: skip

MOST_THREADS = 1024
"""Threads that may share a simulation."""
SHORT_SERIES = 16
"""Rows of the time series of a run on a drive in memory."""


def policies() -> list[dict[str, Any]]:
    """The write buffers there are: name, what they do, and the options that they know."""
    options = {each["name"]: each["options"] for each in _core.policies()}
    for name, fixed in known_options.VARIANTS.items():
        options[name] = [option for option in options[fixed["policy"]] if option not in fixed]
    meanings = known_options.policy_meanings()
    return [{"name": name, "about": about, "options": options[name]} for name, about in meanings.items()]


def simulate(
    trace: traces.Trace,
    *,
    drive: str | Path | Mapping[str, Any] | None = None,
    policy: str = "none",
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    threads: int = 1,
    cache: bool = True,
    state: str | Path | None = None,
    resume: bool = False,
    save_state: str | Path | None = None,
    partial: bool = False,
    **options: Any,
) -> Simulation:
    """Run a trace over a simulated SSD.

    `trace` is a file, a recipe (`ioassay.traces.recipe`) or `flows`. `drive` is the name of a drive, the path of a
    file that describes one (`drive_files`), or a mapping of options. The other keywords are those of `OPTIONS`, and
    override the drive's: `elements=48, page="4KiB", buffer="8MiB", feed="closed:32", window=None, …`. `prepare` is what
    `traces.preparation` returns, `cache` as in `traces.source`. `threads` share the simulation where elements do not
    depend on each other, from 1 to 1024. Results do not depend on it. Other threads of Python run meanwhile.
    Raises UsageError for what cannot be set so, InputError for a trace that cannot be used.

    `state` is a file that `save_state` wrote: the drive is as it was then, and options that are not given are those of
    the state. With `resume` the saved run goes on: `trace` is its trace, and the result is that of both together. With
    `partial`, Ctrl-C ends the run as the end of its trace would (`raw["interrupted"]`).
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_THREADS:
        raise UsageError(f"threads is {threads!r}, expected 1 to {MOST_THREADS}")
    described = traces.source(trace, format=format, read=read, prepare=prepare, cache=cache)
    if flow_description.are_flows(described):
        if resume or save_state:
            raise UsageError(f"{'resume' if resume else 'save_state'} goes with a trace, and flows are given")
        options = {**flow_description.DEFAULTS, **options}
    chosen = {**drive_options(drive), **({} if state and policy == NONE else {"policy": policy}), **options}
    if state:
        chosen = options_of(state, chosen, resume=resume)
        identity = json.loads(json.dumps(_identity(described)))
        if resume and (of_run := _saved(state)["trace"]) != identity:
            expected = f"expected the same and not {_shown(identity)}"
            raise UsageError(f"the run in {state} is of the trace {_shown(of_run)}, {expected}")
    elif resume:
        raise UsageError("resume is given without state, expected the state of the run to continue")
    wanted = {**_limited(chosen, state, resume=resume), "partial": partial}
    with traces.core_errors(described), ExitStack() as files:
        if save_state:
            unfinished = files.enter_context(traces.replaced(Path(save_state), force=True))
            label = json.dumps({"options": chosen, "trace": _identity(described)})
            wanted["save"] = {"path": str(unfinished), "label": label}
        raw = _core.simulate(_source(described, wanted), wanted, threads)
        # An interruption from here on would lose what was saved, and what was measured.
        raw["interrupted"] |= partial and _finished_uninterrupted(files)
    return _outcome(raw, described, wanted)


def _source(described: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What the core takes for it, which knows no shares of a drive."""
    if not flow_description.are_flows(described):
        return described
    return flow_description.described(described, _core.drive_check(dict(wanted))["capacity_bytes"])


def _outcome(raw: Mapping[str, Any], described: Mapping[str, Any], wanted: Mapping[str, Any]) -> Simulation:
    """With the sectors of a page that is padding and counts as part of a request, by its kind; 0: it does not."""
    buffer, sectors = wanted.get("buffer") or {}, int(wanted["drive"]["page"]) // SECTOR_BYTES
    writes = sectors if buffer.get("mode", "reshape") == "reshape" else 0
    padding = {"read": writes if buffer.get("pad_reads", True) else 0, "write": writes}
    kept = {"drive": wanted["drive"], "feed": wanted["feed"]}
    return Simulation({**raw, "prepare": described.get("prepare"), "padding": padding, "setup": kept})


def _finished_uninterrupted(files: ExitStack) -> bool:
    """Finish the files while Ctrl-C and SIGTERM only leave a note; whether one of them came."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in numbers}
    try:
        files.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    return bool(came)


class Drive:
    """A simulated SSD in memory: runs follow each other on it, its state is copied, and its times are changed.

    `drive` and the options are those of `simulate`; `precondition` wears it, and options of `feed` hold for each run
    that has no others. The time series has 16 rows unless `slices` says more: 256 cost more than a short run. Raises
    as `simulate`.
    """

    def __init__(self, drive: str | Path | Mapping[str, Any] | None = None, **options: Any) -> None:
        self._wanted = _limited({"slices": SHORT_SERIES, **drive_options(drive), **options}, None)
        with traces.core_errors({}):
            self._drive = _core.SimulatedDrive(self._wanted)

    @property
    def capacity_bytes(self) -> int:
        return self._drive.capacity_bytes

    def copy(self) -> Drive:
        """A drive in the same state, on which runs have no effect on this one."""
        copy = Drive.__new__(Drive)
        copy._wanted = self._wanted
        with traces.core_errors({}):
            copy._drive = self._drive.copy()
        return copy

    def set_timing(self, **options: Any) -> None:
        """Change options that only decide when things are done (`Option.is_timing`): times, rates, bandwidths.

        UsageError for others, and for what the drive cannot be; it is as before then.
        """
        with traces.core_errors({}):
            self._drive.set_timing({name: option_value(known(name), value) for name, value in options.items()})

    def rest(self, seconds: float) -> None:
        """Let no request come for some time, in which the drive may fold its SLC region and collect garbage."""
        with traces.core_errors({}):
            self._drive.rest(seconds)

    def run(
        self, trace: traces.Trace, *, prepare: Mapping[str, Any] | None = None, latencies: bool = False, **feed: Any
    ) -> Simulation:
        """Run a trace on the drive as the last run left it, from time 0 on.

        `trace` and `prepare` are those of `simulate`, `feed` its options of when requests are issued. With `latencies`
        the result has that of each request (`Simulation.latencies_us`). A run that fails or is given up leaves a drive
        that cannot be used: copy it before. Raises as `simulate`.
        """
        described = traces.source(trace, prepare=prepare)
        chosen = dict(self._wanted[known_options.FEED])
        for name, value in feed.items():
            if (option := known(name)).group != known_options.FEED:
                names = ", ".join(each.name for each in OPTIONS if each.group == known_options.FEED)
                raise UsageError(f"{name} is an option of the {option.group}, expected of {names}")
            chosen[name] = option_value(option, value)
        with traces.core_errors(described):
            raw = self._drive.run(described, chosen, latencies=latencies)
        return _outcome(raw, described, self._wanted)


def sweep(
    trace: traces.Trace,
    runs: Sequence[Mapping[str, Any]],
    *,
    state: str | Path | None = None,
    **how: Unpack[traces.Reading],
) -> list[Simulation]:
    """Run a trace over several simulated SSDs at once, each with the options of one of `runs`.

    The trace is parsed once, and its requests are shared in memory. Each simulation has a thread of its own and the
    result that `simulate` would give it. If the drives do not fit into memory together, they take turns, and the trace
    is read as often. All begin with the `state`, as in `simulate`; `how` is as in `traces.source`. Raises as
    `simulate`; UsageError for standard input that would have to be read twice.
    """
    described = traces.source(trace, **how)
    if are_flows := flow_description.are_flows(described):
        runs = [{**flow_description.DEFAULTS, **options} for options in runs]
    if state:
        runs = [options_of(state, options, resume=False) for options in runs]
    groups = list(_groups_that_fit(runs))
    if described.get("path") == "-" and len(groups) > 1:
        text = f"{len(runs)} drives do not fit into memory at once, and standard input can be read once only"
        raise UsageError(f"{text}; write the trace to a file first: ioassay trace make FILE")
    done: list[Simulation] = []
    for group in groups:
        setups = [_limited(options, state) for options in group]
        with traces.core_errors(described):
            # Which requests a closed loop issues depends on the drive: flows are not shared as a trace is.
            if len(setups) == 1 or are_flows:
                raw = [_core.simulate(_source(described, each), each, 1) for each in setups]
            else:
                raw = _core.simulate_all(described, setups)
        done += (_outcome(each, described, wanted) for each, wanted in zip(raw, setups, strict=True))
    return done


def _limited(options: Mapping[str, Any], state: str | Path | None, *, resume: bool = False) -> dict[str, Any]:
    """The core's description of a simulation that keeps to the memory that is available."""
    wanted = {**setup(options), "available_bytes": int(available_bytes() * known_options.MEMORY_SHARE)}
    return {**wanted, "state": {"path": str(state), "resumed": resume}} if state else wanted


def _groups_that_fit(runs: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """The runs in order, as many at a time as memory has room for; one that alone has none stands alone."""
    most_bytes = available_bytes() * known_options.MEMORY_SHARE
    group: list[Mapping[str, Any]] = []
    group_bytes = 0
    for options in runs:
        needed_bytes = check(options)["memory_bytes"]
        if group and group_bytes + needed_bytes > most_bytes:
            yield group
            group, group_bytes = [], 0
        group.append(options)
        group_bytes += needed_bytes
    if group:
        yield group


def offline_optimum(
    trace: traces.Trace,
    *,
    format: str | None = None,
    read: Mapping[str, Any] | None = None,
    prepare: Mapping[str, Any] | None = None,
    **options: Any,
) -> OfflineOptimum:
    """The offline optimum of the buffer that the options describe, on a trace: the bound of every policy's write hits.

    Arguments and errors as of `simulate`. The policy does not matter, nor when requests are issued.
    """
    described = traces.source(trace, format=format, read=read, prepare=prepare)
    wanted = setup({**options, "policy": "fifo"})
    with traces.core_errors(described):
        return OfflineOptimum(*_core.offline_optimum(described, wanted))


def sampled_hits(
    trace: traces.Trace, runs: Sequence[Mapping[str, Any]], sample: float, **how: Unpack[traces.Reading]
) -> list[SampledHits]:
    """Estimate the hit ratios of write buffers from the share `sample` of a trace's pages, in one pass over it.

    Each of `runs` has the options of a simulation with a write buffer in front of the drive. Options of times, such as
    `feed`, are refused, and so are policies whose hits depend on the drive. `sample=1` is exact. Raises as `simulate`.
    """
    described = traces.source(trace, **how)
    for options in runs:
        results.check_sampled(options)
    with traces.core_errors(described):
        raw = _core.sampled_hits(described, [setup(options) for options in runs], sample)
    if reason := traces.nothing_left(raw["changes"], described.get("prepare")):
        raise UsageError(f"{described.get('path', 'the trace')}: {reason}; nothing was simulated")
    return [results.sampled(each) for each in raw["hits"]]


def check(options: Mapping[str, Any]) -> dict[str, Any]:
    """Whether a simulation with these options can be, without running it; UsageError otherwise.

    Returns what the drive is: `pages`, `capacity_bytes`, and `memory_bytes` that simulating it takes.
    """
    wanted = setup(options)
    with traces.core_errors({}):
        return _core.drive_check(wanted)


# Saved states. The core writes and reads them; the file begins with a text of ours: the options given, and the trace.


def options_of(path: str | Path, given: Mapping[str, Any], *, resume: bool) -> dict[str, Any]:
    """The options of a simulation that begins with the state in `path`: those of the state, and those `given`.

    Options of the drive are the state's, unless they only decide when things are done; with a buffer that was used, so
    are those of the buffer; to resume a run, all are. Raises UsageError, which names the option that differs,
    InputError for a file that is no state.
    """
    saved = _saved(path)["options"]
    if not resume and (share := given.get(PRECONDITION)) and float(share):
        raise UsageError(f"precondition is {share}, and {path} is the state of a drive already; expected one of both")
    merged = {**saved, **given}
    if not resume:
        merged.pop(PRECONDITION, None)
    buffers = {known_options.BUFFER} if _value(saved, NAMES["policy"]) != NONE else set()
    # With the defaults of all of them there is no controller, which is another drive.
    controller = [option for option in OPTIONS if option.group == known_options.CONTROLLER]
    has_controller = all(any(_value(of, each) != _value({}, each) for each in controller) for of in (saved, merged))
    for option in OPTIONS:
        free = option.is_timing and (option.group == DRIVE or has_controller)
        fixed = resume or (option.group in {DRIVE, known_options.CONTROLLER, *buffers} and not free)
        if fixed and option.group != PRECONDITION and _value(saved, option) != _value(merged, option):
            was, name = saved.get(option.name, option.default), option.name.replace("_", "-")
            raise UsageError(f"{name} is {given[option.name]}, and the state in {path} is of a drive with {name} {was}")
    return merged


def _value(options: Mapping[str, Any], option: Option) -> Any:
    return option_value(option, options.get(option.name, option.default))


def _saved(path: str | Path) -> dict[str, Any]:
    try:
        text = _core.state_label(path)
    except _core.CoreError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    # The checksum is of what follows this text.
    if not isinstance(found, dict) or not all(isinstance(found.get(part), dict) for part in ("options", "trace")):
        raise UsageError(f"{path}: the saved state is damaged: its text has no options and no trace")
    return found


def _identity(trace: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a trace the same, however much of it is simulated: file or recipe, and how it is read and prepared."""
    kept = {name: value for name, value in trace.items() if name not in ("cache", "progress")}
    if "arrays" in kept:
        import numpy as np

        columns = {name: np.asarray(column, np.float64) for name, column in kept["arrays"].items()}
        kept["arrays"] = {name: sha256(column.tobytes()).hexdigest() for name, column in columns.items()}
    if "path" in kept and kept["path"] != "-":
        kept["path"] = str(Path(kept["path"]).resolve())
    kept["prepare"] = {name: value for name, value in kept.get("prepare", {}).items() if name != "first"}
    return kept


def _shown(identity: Mapping[str, Any]) -> str:
    name = identity.get("path", "that was made")
    rest = {key: value for key, value in identity.items() if key != "path" and value}
    return f"{name} {json.dumps(rest)}" if rest else str(name)
