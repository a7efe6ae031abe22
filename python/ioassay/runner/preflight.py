"""Everything that can be said before the first trial: tools, points, targets, space, safety. Loads nothing.

Assembles a study's roles into a PreparedStudy. A problem is an error here, and not a failed trial an hour later.
`doctor` asks here what this host can do for a study: conditions and trials are tried on nothing.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ioassay import analysis, debug_log, drivers, metrics, monitors, roles
from ioassay.drivers import driver as make_driver
from ioassay.errors import ConditionError, IoassayError, SafetyRefusal, StudyError, ToolError
from ioassay.hints import document, suggestion
from ioassay.host import block_devices, interference, system
from ioassay.process import supervisor
from ioassay.records.observation import BPF, EXPLAIN, SYSCALLS
from ioassay.records.record import WILL_BE_SKIPPED, Warning_
from ioassay.roles import NOTHING, WRITE, Confinement, Consent, Driver, Footprint, Load, Target, Tool, Touch, Trial
from ioassay.runner import conditions, confinement, demand, worker_pool
from ioassay.runner.conditions import Conditions
from ioassay.study import catalog, plan
from ioassay.study.model import Run, Study, Suite, Watch
from ioassay.targets import filesystem, safety
from ioassay.targets import target as make_target
from ioassay.verify import witness

_NO_LOAD = Load("null", None, 0, read_only=True)
_STRENGTH = {NOTHING: 0, roles.READ: 1, WRITE: 2}


@dataclass
class PreparedStudy:
    """One study's roles, assembled. Targets are made once for each distinct setting of the points."""

    study: Study
    driver: Driver
    consent: Consent
    folder: Path = Path()
    """Where relative paths of the study start from."""
    version: str = ""
    targets: dict[str, Target] = field(default_factory=dict)
    rehearsed: set[str] = field(default_factory=set)
    """Readings of parameters that the tool itself has confirmed."""
    cannot: dict[str, str] = field(default_factory=dict)
    """Point (as JSON) -> why no repetition of it can run here, once one of them has found out."""
    rates: dict[str, float] = field(default_factory=dict)
    """Point (as JSON) -> operations a second of its last trial that went well."""
    elsewhere: bool = False
    """Its trials are measured on other hosts: nothing of this one is touched, and nothing of it is examined."""
    meter: interference.Meter = field(init=False)
    _touches: list[Touch] | None = None

    def __post_init__(self) -> None:
        self.meter = interference.Meter(servers=self.study.watch.servers)

    def target(self, trial: Trial) -> Target:
        """The target of a trial; the same settings give the same object."""
        key = json.dumps(trial.target, sort_keys=True)
        if key not in self.targets:
            self.targets[key] = make_target(trial.target, self.consent, study_folder=self.folder)
        return self.targets[key]

    def points(self) -> Iterable[Trial]:
        return (plan.make_trial(self.study, point, 0, 0) for point in plan.points(self.study))

    def all_targets(self) -> list[Target]:
        return list({id(target): target for target in map(self.target, self.points())}.values())

    def access(self) -> str:
        found = (self.driver.access(trial.params) for trial in self.points())
        return max(found, key=_STRENGTH.__getitem__, default=NOTHING)

    def touches(self) -> list[Touch]:
        """Every path of this host that the points' own parameters name, each once for each access."""
        if self._touches is None:
            points = () if self.elsewhere else self.points()
            self._touches = list(dict.fromkeys(touch for one in points for touch in self.driver.touches(one.params)))
        return self._touches

    def footprints(self) -> list[Footprint]:
        """Room that the points take in file systems; asked when their targets were inspected."""
        found = [Footprint(touch.path, touch.size_bytes) for touch in self.touches() if touch.access == WRITE]
        if self.elsewhere or self.access() == NOTHING:
            return found
        own_bytes: dict[int, int] = {}  # target -> the most that the tool's own files take there
        for trial in self.points():
            least = self.driver.estimate(trial.params, trial.target).occupied_bytes
            key = id(self.target(trial))
            own_bytes[key] = max(own_bytes.get(key, 0), least)
        for target in self.targets.values():
            least = own_bytes.get(id(target), 0)
            found += [
                footprint if footprint.lasting else replace(footprint, size_bytes=max(footprint.size_bytes or 0, least))
                for footprint in target.footprints()
            ]
        return found

    def paths(self) -> Iterator[Path]:
        """Each path of this host that its points load, as the study writes it: of targets, and of parameters."""
        for trial in () if self.elsewhere else self.points():
            if path := trial.target.get("path"):
                yield self.folder / Path(str(path)).expanduser()
            yield from (self.folder / touch.path for touch in self.driver.touches(trial.params))

    def close(self) -> None:
        for target in self.targets.values():
            target.close()

    def abandon(self) -> None:
        """Remove what a killed runner would have removed. For another process; nothing is thrown there."""
        for target in self.targets.values():
            with suppress(IoassayError, OSError):
                target.abandon()


def assemble(
    suite: Suite, consent: Consent, folder: Path | None = None, *, on_host: bool = False
) -> list[PreparedStudy]:
    """The benches of a suite's studies; StudyError names an unknown driver or monitor.

    Relative paths start from `folder`, by default the working directory. Studies that name hosts are measured there,
    and not here unless `on_host`.
    """
    place, benches = (folder or Path()).absolute(), []
    for study in suite.studies:
        named = [("watch.monitors", monitors.REGISTRY, name) for name in study.watch.monitors]
        named += [("analysis.questions", analysis.REGISTRY, name) for name in analysis.questions_of(study)]
        for key, registry, name in named:
            if why := registry.refusal(name):
                raise StudyError(why, source=study.name, key=key)
        with _placed(study.name):
            driver = make_driver(study.driver)
            metrics.declare(driver.declared_metrics(study.params))
            if study.hosts and not driver.measures:
                why = f"the driver '{study.driver}' computes and measures no host; --executor says where"
                raise StudyError(f"names hosts; expected none: {why}", key="run.hosts")
            if study.hosts and getattr(study.target, "purge", None) is not None:
                # A host knows its own session only: a run that is resumed would be purged amid a study.
                raise StudyError("is for a run of this host; expected none where hosts measure", key="target.purge")
            elsewhere = bool(study.hosts) and not on_host
            benches.append(PreparedStudy(study, driver, consent, place, elsewhere=elsewhere))
    return benches


def ready_tools(benches: Sequence[PreparedStudy]) -> dict[str, str]:
    """Find each driver's tool and tell the driver its version; tool -> version line. ToolError when one is missing."""
    versions: dict[str, str] = {}
    answers: dict[str, dict[str, str]] = {}
    for bench in benches:
        tool = bench.driver.tool()
        if tool is None or bench.elsewhere:
            continue
        if tool.executable not in versions:
            versions[tool.executable] = tool_version(tool)
            said = {name: _captured(argv) for name, argv in tool.probes.items()}
            # Both streams: what a probe is after may be a complaint, with a hint beside it on the other stream.
            answers[tool.executable] = {name: one.stdout + one.stderr for name, one in said.items()}
        bench.version = versions[tool.executable]
        debug_log.info("tools", f"{bench.study.name}: {tool.executable}: {bench.version}")
        bench.driver.configure(bench.version, answers[tool.executable])
    return versions


def missing_tools() -> list[Warning_]:
    return [
        Warning_(
            "tool-missing",
            f"driver {name}: no {tool.executable} here",
            f"apt-get install {tool.package}" if tool.package else "",
        )
        for name, tool in drivers.tools().items()
        if shutil.which(tool.executable) is None
    ]


def tool_version(tool: Tool) -> str:
    """The tool's version line; ToolError with the remedy when it is not here."""
    if shutil.which(tool.executable) is None:
        package = f", on Debian with: apt-get install {tool.package}" if tool.package else ""
        raise ToolError(f"{tool.executable}: not found; install it{package}")
    captured = _captured(tool.version_argv)
    return (captured.stdout or captured.stderr).strip()


def _captured(argv: Sequence[str]) -> supervisor.Captured:
    captured = supervisor.capture(argv, timeout_s=30)
    if captured.timed_out:
        raise ToolError(f"'{' '.join(argv)}' did not answer within 30 s")
    return captured


def inspect(
    suite: Suite, consent: Consent, folder: Path | None = None, *, without_tools: bool = False, on_host: bool = False
) -> tuple[list[PreparedStudy], list[Warning_]]:
    """A suite's benches (`assemble`), everything about them examined, and what is suspicious; nothing was touched.

    ToolError for a missing tool, which is a warning with `without_tools`: less can be checked then.
    """
    benches = assemble(suite, consent, folder, on_host=on_host)
    missing = []
    try:
        ready_tools(benches)
    except ToolError as error:
        if not without_tools:
            raise
        missing = [Warning_("tool-missing", f"names of parameters were not checked: {error}")]
    return benches, [*missing, *examine(benches)]


def examine(benches: Sequence[PreparedStudy]) -> list[Warning_]:
    """Check each point, each path and each target of all studies, before anything is touched.

    StudyError (impossible or too large), SafetyRefusal (would destroy something). Returns what is suspicious. Studies
    that are measured elsewhere are examined there.
    """
    if system.lacks_avx2(Path("/")):  # says now, and not after the last trial, whether the build of polars runs here
        import polars  # noqa: F401
    here = [bench for bench in benches if not bench.elsewhere]
    found = dict.fromkeys(warning for bench in here for warning in _examined(bench))
    files: dict[Path, Footprint] = {}  # those of targets and those that jobs name, which have to fit at once
    resolved = cache(safety.resolve)  # of files that are not there yet, and there may be many in one
    for footprint in (footprint for bench in here for footprint in bench.footprints()):
        named = footprint.path
        path = safety.resolve(named) if os.path.lexists(named) else resolved(named.parent) / named.name
        if not path.exists() or path.is_file():  # no device, nor /dev/null
            sizes = [files.get(path, footprint).size_bytes, footprint.size_bytes]
            largest = None if None in sizes else max(size for size in sizes if size is not None)
            files[path] = Footprint(path, largest, footprint.lasting)
    filesystem.require_total_room(list(files.values()))
    return [*found, *_uncounted(here)]


def _examined(bench: PreparedStudy) -> Iterator[Warning_]:
    """One study: what its parameters ask for, then what they would touch, then its targets."""
    study, driver = bench.study, bench.driver
    yield from examine_points(bench)
    if driver.measures:  # trials under conditions that are refused will be skipped
        for wanted in dict.fromkeys(Conditions.of(trial.run) for trial in bench.points()):
            with _placed(study.name):
                yield from conditions.check(wanted)
            yield from _tried(wanted, f"{study.name}: {{}}; trials that ask for it will be skipped")
    externals = dict.fromkeys(each for trial in bench.points() for each in driver.externals(trial.params))
    if externals and not bench.consent.exec:
        lines = "\n".join(f"  - {each.option} {each.effect}" for each in externals)
        raise SafetyRefusal(
            f"{study.name}: refused, nothing was run: no check can see what these options do:\n{lines}\n"
            "If you trust them, go on with --allow-exec"
        )
    for trial in bench.points() if bench.version else ():  # else its tool is not here (`ioassay plan`)
        with _placed(study.name):
            yield from rehearse(bench, trial.params)
    lacking: set[tuple[Path, str]] = set()  # of files that a folder lacks yet, all is known from the first of them
    for touch in bench.touches():
        place = (touch.path.parent, touch.access)
        is_there = os.path.lexists(touch.path)
        if is_there or place not in lacking:
            yield from safety.inspect_path(touch.path, touch.access, bench.consent)
        lacking |= set() if is_there else {place}
    with _placed(study.name):
        access = bench.access()
        for target in bench.all_targets():
            yield from target.inspect(access)


def examine_points(bench: PreparedStudy) -> Iterator[Warning_]:
    """What the parameters of a study's points ask for, looked at without any of them being used."""
    study, driver = bench.study, bench.driver
    for trial in bench.points():
        with _placed(f"{study.name} at {plan.describe(trial.point)}" if trial.point else study.name):
            yield from driver.validate(trial.params, trial.target)
            wanted = driver.estimate(trial.params, trial.target).demand
            kind, folder = trial.target.get("kind", "null"), None  # a drive made for the trial is nobody else's to fill
            if kind in ("null", "folder"):
                folder = bench.folder / Path(str(trial.target.get("path", ""))).expanduser()
            yield from demand.check(wanted, Conditions.of(trial.run).memory_limit, folder)
            if not driver.measures:
                yield from _unmeasured(study, trial)
    # Names that are perhaps misspelt; a driver may make metrics of its own, so they are no errors.
    for name, key in study.wanted.items():
        effect = "points may run to the cap" if key == "until.metric" else "there may be nothing to analyse"
        if not metrics.known(name):
            code = "until-metric-unknown" if key == "until.metric" else "response-unknown"
            near = suggestion(name, metrics.USUAL, "use a metric such as read.bw or write.lat.p99")
            yield Warning_(code, f"{study.name}: {key} '{name}' is in no registry, so {effect}", near)
        elif name.startswith("kernel.") and (study.witness_level not in (SYSCALLS, EXPLAIN) or study.watch.twins):
            level = "twins" if study.watch.twins else f"witness = '{study.witness_level}'"
            why = f"{study.name}: {key} '{name}' is what the witness times, and watch has {level}, so {effect}"
            yield Warning_("response-unwatched", why, "use watch.witness = 'syscalls', without twins")


def _unmeasured(study: Study, trial: Trial) -> Iterator[Warning_]:
    """A pure driver measures nothing: it takes no target, and what serves measuring is not used."""
    kind, driver = trial.target.get("kind", "null"), f"the driver '{study.driver}' computes"
    calls = f"asks for system calls; expected false: {driver}, in a process that is not its own"
    for is_wrong, key, why in (
        (kind != "null", "target.kind", f"is '{kind}'; expected 'null': {driver} and loads nothing"),
        (study.watch.twins, "watch.twins", f"is true; expected false: {driver}, and the witness has no effect on it"),
        (study.watch.calls, "watch.calls", calls),
    ):
        if is_wrong:
            raise StudyError(why, key=key)
    usual = Run().model_dump()
    named = [f"run.{key}" for key, value in trial.run.items() if key != "governor" and value != usual.get(key)]
    named += ["watch.monitors"] if study.watch.monitors and study.watch.monitors != Watch().monitors else []
    if named:
        text = f"{study.name}: {', '.join(named)}: not used, since {driver} and measures nothing"
        yield Warning_("not-measured", text, "remove it from the study")


def _tried(wanted: Conditions, form: str = "{}") -> list[Warning_]:
    """What is said of conditions that a program which does nothing is put under; `form` is for a refusal."""
    try:
        return conditions.rehearse(wanted) if wanted else []
    except ConditionError as error:
        return [Warning_(_REFUSED, form.replace("{}", str(error)))]


def _uncounted(benches: Sequence[PreparedStudy]) -> list[Warning_]:
    """Whether system calls can be counted here; trials that are for nothing else will be skipped.

    Asked once for all studies, since the answer takes a try in the kernel.
    """
    names = [bench.study.name for bench in benches if bench.driver.measures and bench.study.watch.calls]
    if not names:
        return []
    studies = names[0] if len(names) == 1 else f"{len(names)} studies"
    try:
        who, why = witness.counter()
    except ToolError as error:
        text = f"{studies}: {error}; trials that count them will be skipped"
        return [Warning_("calls-uncounted", text, "apt-get install strace")]
    if who == BPF:
        return []
    text = f"{studies}: system calls are counted by {who}, in trials that it slows down, not by BPF: {why}"
    return [Warning_(f"calls-by-{who}", text, f"{document('backends')} says what BPF needs")]


def require_measurable(benches: Sequence[PreparedStudy], warnings: Sequence[Warning_]) -> None:
    """ConditionError where each trial of each study would be skipped; `warnings` are those of `examine`."""
    if not any(warning.code in _NOT_RUN for warning in warnings):
        return
    first = ""
    for bench in benches:
        for trial in bench.points():
            with _placed(bench.study.name):
                said = [*bench.driver.validate(trial.params, trial.target)]
                said += bench.target(trial).inspect(bench.access())
            said += _tried(Conditions.of(trial.run)) if bench.driver.measures else []
            obstacle = next((warning for warning in said if warning.code in _NOT_RUN), None)
            if obstacle is None:
                return
            remedy = f"; {obstacle.remedy}" if obstacle.remedy else ""
            first = first or f"{bench.study.name}: {obstacle.text}{remedy}"
    if first:
        raise ConditionError(f"no trial can run on this host; nothing was started: {first}")


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """An error that does not say where it is gets its place."""
    try:
        yield
    except StudyError as error:
        if error.source:
            raise
        raise StudyError(str(error), source=place) from None


def rehearse(bench: PreparedStudy, params: Mapping[str, Any]) -> Sequence[Warning_]:
    """Hold the driver's reading of the parameters against the tool's, once for each reading.

    The tool may write nothing meanwhile, where the kernel can confine it: its parameters are not trusted yet.
    Asked again before each trial: a file that a job file includes may have changed.
    """
    folder = Path(tempfile.gettempdir(), f"ioassay-{secrets.token_hex(8)}")
    rehearsal = bench.driver.rehearsal(params, folder)
    if rehearsal is None or rehearsal.reading in bench.rehearsed:
        return ()
    command, output, messages = rehearsal.command, folder / "stdout", folder / "stderr"
    tool = command.argv[0]
    folder.mkdir(mode=0o700)
    try:
        for name, text in command.files.items():
            (folder / name).write_bytes(text.encode())
        with confinement.spread(_NO_LOAD, (), folder, Confinement(), [tool]) as net:
            outcome = supervisor.run(
                command.argv,
                stdout=output,
                stderr=messages,
                timeout_s=command.timeout_s,
                cwd=command.cwd,
                confine=net.ruleset,
            )
        if outcome.timed_out:
            raise StudyError(f"{tool} did not say within {command.timeout_s:g} s how it reads the parameters")
        warnings = rehearsal.confirm(output.read_text(errors="replace"), messages.read_text(errors="replace"))
    finally:
        shutil.rmtree(folder)
    bench.rehearsed.add(rehearsal.reading)
    about = f"{bench.study.name}: driver {bench.study.driver} reads the parameters as its tool does"
    debug_log.debug("rehearsal", about)
    return warnings


def require_record_room(benches: Sequence[PreparedStudy], folder: Path) -> None:
    """StudyError unless the logs that the tools leave in the run's folder fit there, as far as they can be known."""
    filesystem.require_record_room(folder, sum(forecast(bench).recorded_bytes for bench in benches))


@dataclass(frozen=True)
class Storage:
    """A block device that a suite loads, for people to compare with what they meant."""

    path: str
    name: str
    """The name that --destroy-data takes."""
    model: str
    serial: str
    size_bytes: int
    access: str
    """READ or WRITE."""
    content: Sequence[str]
    """What was found on it."""
    host: str = ""
    """Where it is; '' for this host."""


def devices(benches: Sequence[PreparedStudy]) -> list[Storage]:
    """The block devices that the studies load, each once; after `examine`, which looks at them."""
    strongest: dict[Path, str] = {}
    for bench in benches:
        if bench.elsewhere:
            continue
        own = [trial.target for trial in bench.points() if trial.target.get("kind") == "device"]
        named = [(bench.folder / Path(str(target.get("path"))).expanduser(), bench.access()) for target in own]
        for path, access in (*named, *((touch.path, touch.access) for touch in bench.touches())):
            if not path.expanduser().is_block_device():  # there may be many files
                continue
            resolved = safety.resolve(path)
            if _STRENGTH[access] > _STRENGTH[strongest.get(resolved, NOTHING)]:
                strongest[resolved] = access
    found = []
    for path, access in strongest.items():
        device = safety.require_device(path)
        disk, name = block_devices.disk_of(device), safety.consent_names(device)[0]
        serial, content = next(iter(safety.serials(disk)), ""), safety.content(path, device)
        found.append(Storage(str(path), name, safety.model(disk), serial, device.size_bytes, access, content))
    return found


@dataclass(frozen=True)
class Forecast:
    trials: int
    seconds: float
    written_bytes: int
    unknown_writes: bool
    """True when some trials write for a time rather than a size, so that the volume is a lower bound."""
    recorded_bytes: int = 0
    """What the tools leave in the run's folder, where that is much."""


def forecast(bench: PreparedStudy, workers: int | None = None) -> Forecast:
    """Cost of one study, from its driver's estimates at each point (adaptive repetition: at the cap).

    Trials of a pure driver run in so many `workers` at once, by default one for each processor; hosts measure side by
    side.
    """
    repetitions = bench.study.max_repetitions * bench.study.runs_per_trial
    points = list(bench.points())
    times = [repetitions + plan.counts_calls(bench.study, trial.point) for trial in points]
    estimates = [bench.driver.estimate(trial.params, trial.target) for trial in points]
    each = list(zip(estimates, times, strict=True))
    at_once = min(workers or worker_pool.processors(), sum(times))
    if bench.driver.measures:
        at_once = max(len(bench.study.hosts), 1)
    cooldown_s = bench.study.run.cooldown if bench.driver.measures else 0.0
    return Forecast(
        trials=sum(times),
        seconds=sum((estimate.seconds + cooldown_s) * number for estimate, number in each) / at_once,
        written_bytes=sum((estimate.written_bytes or 0) * number for estimate, number in each),
        recorded_bytes=sum(estimate.recorded_bytes * number for estimate, number in each),
        unknown_writes=any(estimate.written_bytes is None for estimate in estimates),
    )


_TRIED = (
    Conditions(scheduler="fifo:1"),
    Conditions(nice=-1),
    Conditions(cpu_limit=0.5),
    Conditions(memory_limit=2**26),
)
_REFUSED = "condition-unavailable"
_NOT_RUN = (WILL_BE_SKIPPED, _REFUSED)
_SCHEDULER = "proc/sys/kernel/sched_rt_{}_us"


def refused_conditions() -> list[Warning_]:
    return [warning for wanted in _TRIED for warning in _tried(wanted) if warning.code == _REFUSED]


def skipped_trials(suite_name: str) -> list[Warning_]:
    """Why trials of a suite will be skipped here, by study; none where its tool is missing (see `missing_tools`)."""
    benches = assemble(catalog.load(suite_name), Consent())
    try:
        ready_tools(benches)
    except ToolError:
        return []
    skipped = [(bench.study.name, one) for bench in benches for one in examine([bench]) if one.code in _NOT_RUN]
    return [Warning_(one.code, f"{name}: {one.text.removeprefix(f'{name}: ')}") for name, one in skipped]


def real_time_share(root: Path = Path("/")) -> float | None:
    """The share of a processor's time that real-time tasks may take while others wait; None where nobody says.

    Documentation/scheduler/sched-rt-group.rst: runtime of each period, of which -1 is no bound.
    """
    try:
        runtime_us, period_us = (int((root / _SCHEDULER.format(name)).read_text()) for name in ("runtime", "period"))
    except (OSError, ValueError):
        return None
    return 1.0 if runtime_us < 0 else runtime_us / period_us
