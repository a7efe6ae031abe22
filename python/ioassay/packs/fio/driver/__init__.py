"""The fio driver: describes fio's command for a trial and reads what fio left.

Parameters are fio's own options (docs/drivers.md), or `job`, `job_path` and `job_folder` for a user's job file, whose
other parameters then are options that factors set in it. What fio is told beside them is in `job.defaults` and
`command_line` here. Nothing is started here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ioassay import roles
from ioassay.drivers import require_version, text_of
from ioassay.errors import InputError, StudyError, ToolError
from ioassay.packs.fio.claims import fio_claims, fio_json
from ioassay.packs.fio.driver import fio_outcome, job, jobfile, paths
from ioassay.packs.fio.driver.fio_outcome import judge, without_impossible
from ioassay.packs.fio.fio_options import ELSEWHERE, SERVED_S, SPDK, Names, Section, canonical, cost, timeout_s
from ioassay.records.record import FAILED, OK, SKIPPED, Warning_
from ioassay.roles import NOTHING, READ, WRITE, Driver

MINIMUM = (3, 18)
"""The percentiles, and with them the bins, of all three latencies came with 3.18."""
RESULTS = "fio.json"
JOB = "job.fio"
_JOB_FILE = {"job", "job_path", "job_folder"}
"""The text of a user's job file, where it lies, and the folder that fio is to run in."""
_REHEARSAL_S = 60.0
_PROBED_ENGINES = ("io_uring", "libaio")


@dataclass(frozen=True)
class _View:
    """One point as fio will see it: its jobs, and for a job file the text and the folder of relative names."""

    jobs: Sequence[Section]
    stages: Sequence[Sequence[Section]]
    file: jobfile.JobFile | None = None
    text: str = ""
    folder: Path = field(default_factory=lambda: Path().absolute())
    place: Path = Path()
    """Where the user's job file lies."""

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> _View:
        """The view of a point; StudyError for a job file that cannot be."""
        if "job" not in params:
            alone = [job.section(params)]
            return cls(alone, [alone])
        text, place = str(params["job"]), Path(str(params.get("job_path", "job.fio"))).absolute()
        folder = Path(str(params.get("job_folder", place.parent)))
        read = jobfile.parse(text, folder, os.environ, place)
        set_by_factors = {canonical(key): value for key, value in params.items() if key not in job.OURS | _JOB_FILE}
        if set_by_factors:
            text = jobfile.rewrite(text, read, set_by_factors)
            read = jobfile.parse(text, folder, os.environ, place)
        return cls(read.sections, read.stages(), read, text, folder, place)

    @property
    def engines(self) -> set[str]:
        """Those of the jobs, and of sections in a job file that no job takes them from."""
        lines = self.file.lines if self.file else ()
        return {line.value for line in lines if line.name == "ioengine" and line.value} | {
            section.engine for section in self.jobs
        }

    @property
    def missing_plugin(self) -> str:
        """Why an engine of SPDK's cannot be loaded here; '' where all can, and where there is none."""
        wanted = [section for section in self.jobs if section.engine in SPDK]
        return next((why for section in wanted if (why := job.missing_spdk(section.engine, section.plugin))), "")

    @property
    def ungrouped(self) -> dict[str, Any]:
        """What turns off group_reporting: fio would name a whole group after its first job and hide an idle one.

        It changes the report only, but for a steady state, which fio then looks for in the whole group.
        """
        named = self.file is not None and any(line.name == "group_reporting" for line in self.file.lines)
        kept = self.file is not None and "group_reporting" in self.file.included
        kept = kept or any("steadystate" in section.options for section in self.jobs)
        return {"group_reporting": False} if named and not kept else {}


class Fio(Driver):
    """Runs fio. Implements `roles.Driver`."""

    name = "fio"
    measures = True
    length_key = "runtime"

    def __init__(self) -> None:
        self._names = Names()
        self._views: dict[str, _View] = {}

    def _view(self, params: Mapping[str, Any]) -> _View:
        """One reading of each point, but where it includes files, which fio itself reads when it runs."""
        if "include" in str(params.get("job", "")):
            return _View.of(params)
        if (key := repr(params)) not in self._views:
            self._views[key] = _View.of(params)
        return self._views[key]

    def tool(self) -> roles.Tool:
        engines = {f"engine:{engine}": ["fio", f"--enghelp={engine}"] for engine in _PROBED_ENGINES}
        lists = {"engines": ["fio", "--enghelp"], "options": ["fio", "--cmdhelp=all"]}
        return roles.Tool("fio", ["fio", "--version"], MINIMUM, "fio", {**lists, **engines})

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        example, instead = "a line such as fio-3.33", ", on Debian: apt-get install fio"
        require_version(self.tool(), version, r"fio-(\d+)\.(\d+)", example, instead)
        self._names.learn(probes)

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        view = self._view(params)
        job.check_logs(params)
        warnings: list[Warning_] = []
        for section in view.jobs:
            # As the user wrote them: the lab's own defaults are left out, which an older fio may not have.
            self._names.check(list(section.options if "job" in params else job.settings(params)), view.engines)
            warnings += job.check(section, target, self._names.engines)
        if view.file is not None:
            jobfile.writes_logs(view.file)
            paths.refuse_endless(view.jobs, view.folder)
            warnings += jobfile.warnings(view.file)
        elif problem := job.unwritable(str(target.get("path", ""))):
            raise StudyError(problem, key="target.path")
        elif target.get("kind", "null") == "null" and view.jobs[0].engine not in ELSEWHERE:
            raise StudyError(f"ioengine {view.jobs[0].engine} needs something to load; expected [target] kind and path")
        if params.get("group_reporting"):
            text = "group_reporting is not used: results are kept by job, and merged by the lab"
            warnings.append(Warning_("group-reporting-ignored", text, "remove it"))
        return list(dict.fromkeys(warnings))

    def access(self, params: Mapping[str, Any]) -> str:
        """What the point's jobs do to the target; NOTHING for engines that load no local storage."""
        jobs = [section for section in self._view(params).jobs if section.engine not in ELSEWHERE]
        if any(section.writes for section in jobs):
            return WRITE
        return READ if jobs else NOTHING

    def touches(self, params: Mapping[str, Any]) -> Sequence[roles.Touch]:
        """Every path that a job file names; for a study, what it overwrites beside its target."""
        view = self._view(params)
        if view.file is None:
            return [touch for section in view.jobs for touch in paths.overwritten_files(section, view.folder)]
        return paths.touches(view.jobs, view.folder)

    def in_folder(self, params: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        return {**params, "job_folder": str(folder)} if "job" in params else params

    def confinement(self, params: Mapping[str, Any]) -> roles.Confinement:
        view = self._view(params)
        return paths.confinement(view.jobs, view.folder)

    def externals(self, params: Mapping[str, Any]) -> Sequence[roles.External]:
        return [each for section in self._view(params).jobs for each in paths.externals(section)]

    def page_cache_remedy(self, params: Mapping[str, Any]) -> str:
        """Direct I/O, where an engine that moves data goes without; the cache belongs to writes that are synced."""
        engine = params.get("ioengine")
        is_direct = str(params.get("direct", 0)).strip().lower() not in ("0", "false", "none", "")
        is_synced = params.get("rw") in ("write", "randwrite") and (params.get("fsync") or params.get("fdatasync"))
        if engine == "null" or is_synced or (is_direct and engine != "mmap"):
            return ""
        return "set direct = 1 in [params], and an ioengine other than mmap"

    def rehearsal(self, params: Mapping[str, Any], folder: Path) -> roles.Rehearsal | None:
        """fio on a user's job file, and on one that is not there, so that it ends before any job begins."""
        view = self._view(params)
        if view.file is None or view.missing_plugin:
            return None
        # Redirected as for a trial, since fio merges traces while it still reads the file.
        text = jobfile.rewrite(view.text, view.file, {}, folder)
        jobs = jobfile.parse(text, view.folder, os.environ, view.place)
        argv = ["fio", jobfile.DEBUG, str(folder / JOB), str(folder / jobfile.ABSENT)]
        return roles.Rehearsal(
            roles.Command(argv, timeout_s=_REHEARSAL_S, files={JOB: text}, cwd=view.folder),
            reading=repr((view.folder, view.file.contents, view.jobs)),
            confirm=partial(jobfile.confirm, jobs, view.folder, view.place),
        )

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> roles.Estimate:
        """Expected cost, rough where the run is limited by size; next to nothing where a plugin is missing."""
        view = self._view(params)
        if view.missing_plugin:
            return roles.Estimate(0.0, 0)  # it is skipped before anything is started
        found = cost(view.stages, job.target_bytes(target))
        return replace(found, seconds=found.seconds + (SERVED_S if target.get("kind") == "virtual" else 0.0))

    def shortened(self, params: Mapping[str, Any], share: float) -> Mapping[str, Any] | None:
        """With a shorter `runtime`, where all jobs run for one time."""
        whole_s, *others_s = {section.must_run_s for section in self._view(params).jobs}
        if others_s or whole_s is None or (part_s := roles.short_s(whole_s, share)) is None:
            return None
        others = {name: value for name, value in params.items() if canonical(name) != "runtime"}
        return {**others, "runtime": f"{round(part_s * 1000)}ms"}

    def stated_level(self, params: Mapping[str, Any], name: str) -> str | None:
        return jobfile.fixed(params, name)

    def command(self, trial: roles.Trial, load: roles.Load, raw: Path) -> roles.Command | None:
        """fio with the job file that is written to `raw`; ToolError when the load cannot be expressed in one.

        None where an engine's plugin is missing; `parse` then says which, and how to get it.
        """
        view, raw = self._view(trial.params), raw.absolute()
        beside: Mapping[str, str] = {}
        environment: dict[str, str] = {}
        if view.missing_plugin:
            return None
        if view.file is None:
            text, folder, beside = job.emit(trial, load, raw), raw, job.extra_files(trial, load)
            must_not_write = load.read_only and view.jobs[0].engine not in ELSEWHERE
            options = ["--readonly"] if must_not_write or not view.jobs[0].writes else []
        else:
            redirected, folder = raw if jobfile.writes_logs(view.file) else None, view.folder
            text = jobfile.rewrite(view.text, view.file, view.ungrouped, redirected)
            options = _command_line(trial, view, raw)
            environment = {"TMPDIR": os.environ.get("TMPDIR", "")}  # as its ${TMPDIR} was read
        if (beside or view.file is not None) and (problem := job.unwritable(str(raw))):  # the job names a file there
            raise ToolError(f"the run's folder {problem}: give another with --output")
        if "spdk_bdev" in {section.engine for section in view.jobs}:
            environment["RUNTIME_DIRECTORY"] = str(raw)  # DPDK's, which is /run otherwise
        eta = "never" if trial.calls else "always"  # its own writes would be among the calls that are counted
        standard = ["--output-format=json+", f"--output={raw / RESULTS}", f"--eta={eta}", f"--aux-path={raw}"]
        return roles.Command(
            argv=["fio", *standard, *options, str(raw / JOB)],
            timeout_s=timeout_s(view.stages, load.size_bytes or None),
            files={JOB: text, **beside},
            cwd=folder,
            env=environment,
        )

    def rates(self, output: str) -> roles.Rates | None:
        return fio_outcome.rates(output)

    def parse(self, trial: roles.Trial, outcome: roles.Outcome | None, raw: Path) -> roles.Parsed:
        try:
            view = self._view(trial.params)
            if outcome is None:
                why = view.missing_plugin
                return roles.Parsed(SKIPPED, why, lasting=True) if why else roles.Parsed(FAILED, "fio was not run")
            jobs = view.jobs if view.file else [replace(view.jobs[0], name=job.name_of(trial))]
            return _read(trial, jobs, outcome, raw)
        except StudyError as error:  # a file that the job includes is gone since
            return roles.Parsed(FAILED, str(error))
        except (ValueError, ArithmeticError, InputError) as error:
            return roles.Parsed(FAILED, f"{RESULTS}: its numbers make no sense: {error}")


def _read(trial: roles.Trial, jobs: Sequence[Section], outcome: roles.Outcome, raw: Path) -> roles.Parsed:
    results, unreadable = None, ""
    try:
        results = fio_json.parse((raw / RESULTS).read_text(encoding="utf-8", errors="replace"), RESULTS)
    except OSError as error:
        unreadable = f"{RESULTS}: {error.strerror}: fio wrote no results"
    except InputError as error:
        unreadable = str(error)
    verdict = judge(results, jobs, outcome, text_of(outcome.stderr), unreadable)
    if results is None or verdict.reason:
        return roles.Parsed(SKIPPED if verdict.cannot else FAILED, verdict.reason, lasting=verdict.cannot)
    results, doubtful = without_impossible(results)
    series, lost = job.log_series(trial.params, raw)
    found = fio_outcome.metrics(results.jobs)
    return roles.Parsed(
        OK,
        metrics={
            **found,
            **fio_outcome.by_section(results.jobs),
            **fio_outcome.cpu_metrics(results.jobs, found, outcome.usage),
        },
        buckets=fio_outcome.buckets(results.jobs),
        series=series,
        parts=fio_outcome.parts(results),
        claims=fio_claims.claims(results),
        warnings=(*verdict.warnings, *doubtful, *lost),
    )


def _command_line(trial: roles.Trial, view: _View, raw: Path) -> list[str]:
    """Options given before a job file are its [global] defaults: what the file sets itself stays as it is."""
    options = ["--clat_percentiles=1", "--lat_percentiles=1", "--slat_percentiles=1"]
    seeds = ("randseed", "randrepeat", "allrandrepeat")
    if not any(name in section.options for section in view.jobs for name in seeds):
        options += ["--randrepeat=0", f"--randseed={trial.seed % 2**63}"]
    asked = job.log_options(trial.params, view.jobs[0], f"{raw}/")
    options += [f"--{name}={value}" for name, value in asked.items()]
    touched = paths.touches(view.jobs, view.folder)
    if not any(section.writes for section in view.jobs) and all(touch.access == READ for touch in touched):
        options.append("--readonly")
    return options
