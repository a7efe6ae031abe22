"""ioassay quick: about a minute to an honest answer for the disk under a folder."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ioassay.cli import closing, console, options, session, syntax
from ioassay.errors import StudyError, UsageError
from ioassay.roles import Consent

if TYPE_CHECKING:
    from ioassay.analysis.headline import ConditionMean
    from ioassay.analysis.storage.workload_profile import Profile
    from ioassay.records.record import Warning_
    from ioassay.study.model import Suite
    from ioassay.study.quick_profile import Choice, QuickProfile


def register(app: syntax.Group) -> None:
    """Add the command to `app`."""
    app.command("quick")(quick)


def quick(
    path: Annotated[Path, syntax.Argument(metavar="PATH", help="A folder on the disk to measure.")] = Path(),
    budget: Annotated[
        str, syntax.Option(metavar="TIME", help="Total time with the report; it chooses the profile.")
    ] = "60s",
    output: options.Output = None,
    wait_quiet: options.WaitQuiet = "",
    live: options.Live = False,
    json: options.Json = False,
) -> None:
    """Measure the disk under PATH in about a minute, with a report.

    Random and sequential reads and writes of a new file, repeated; the file is removed at the end. The budget chooses
    the profile: short (from 15s), standard (from 60s) or long (from 5m). Runs of one profile can be compared.
    """
    from ioassay.store.run_folder import new_folder

    console.use_json(json)
    began_s = time.monotonic()
    wait_quiet_s = options.seconds("--wait-quiet", wait_quiet)
    budget_s = options.seconds("--budget", budget)
    choice = _choice(path, budget_s)
    suite = _suite(path, choice.profile)
    store, benches, warnings = session.begin(suite, output or new_folder(Path("runs"), "quick"), Consent())
    warnings = [*_compromise(choice, budget_s), *warnings, *_left_behind(path.resolve())]
    tally, published = session.measure(store, benches, wait_quiet_s=wait_quiet_s, live=live)
    if json:
        console.emit(
            {
                **session.result(store, tally, published, warnings),
                "target": _target(path, published),
                "profile": asdict(choice.profile),
                "rows": [row.as_dict() for row in _rows(published)],
                "seconds": time.monotonic() - began_s,
            }
        )
    else:
        closing.say(store, tally, published, warnings, _table(published))
    session.end(tally, published)


def _choice(path: Path, budget_s: float) -> Choice:
    from ioassay.study import catalog, quick_profile

    if not path.is_dir():
        what = "is no folder" if path.exists() else "no such folder"
        raise UsageError(f"{path}: {what}; wanted a folder on the disk to measure")
    quick_profile.check_budget(budget_s)
    speed, free_bytes = quick_profile.write_speed(path)
    try:
        return quick_profile.choose(budget_s, speed, free_bytes, len(catalog.load("quick").studies[0].case))
    except StudyError as error:
        raise StudyError(str(error), source=str(path)) from None


def _suite(path: Path, profile: QuickProfile) -> Suite:
    from ioassay.study import catalog, quick_profile

    return catalog.load("quick", lambda table: quick_profile.applied(dict(table), path.resolve(), profile))


def _compromise(choice: Choice, budget_s: float) -> list[Warning_]:
    """The profile that does not fit the disk, or the budget that does not fit the profile."""
    from ioassay import units
    from ioassay.records.record import Warning_

    if choice.obstacle:
        text = (
            f"the profile '{choice.wanted.name}' does not fit: {choice.obstacle}. '{choice.profile.name}' is used, "
            "which compares with runs of that profile only"
        )
        return [Warning_("smaller-profile", text, "raise --budget, free space, or name another folder")]
    if choice.seconds > budget_s:
        about, given = units.format_duration(choice.seconds), units.format_duration(budget_s)
        text = f"the profile '{choice.profile.name}' takes about {about}; the budget is {given}"
        return [Warning_("over-budget", text, f"--budget {choice.seconds:.0f}s")]
    return []


def _left_behind(folder: Path) -> list[Warning_]:
    """Test files of earlier runs of this command that were killed together with all that could have removed them."""
    from ioassay import units
    from ioassay.records.record import Warning_
    from ioassay.study import quick_profile
    from ioassay.targets import ownership_mark

    found = []
    for path in quick_profile.files_of_killed(folder):
        if parts := ownership_mark.files(path):
            size = units.format_size(sum(part.stat().st_blocks * 512 for part in parts))
            text = f"{path} ({size}) is the test file of a run that was killed"
            found.append(Warning_("file-left", text, shlex.join(["rm", "--", *map(str, parts)])))
    return found


def _rows(published: session.Published) -> list[ConditionMean]:
    from ioassay.analysis.headline import headline

    return headline(published.records, published.records.studies)


def _target(path: Path, published: session.Published) -> dict[str, Any]:
    study = published.records.studies[0]
    return {"path": str(path.resolve()), **study.target.model_dump(), "disk": published.records.host.get("disk", {})}


def _table(published: session.Published) -> list[str]:
    """A row a workload. IOPS and bandwidth differ by the block size alone, so they share one interval."""
    from ioassay.analysis.storage import workload_profile
    from ioassay.analysis.storage.workload_profile import LATENCIES, RATE, VOLUME
    from ioassay.narrative import describe_text

    quantities = (RATE, VOLUME, *LATENCIES)
    shown = [
        [
            profile.workload,
            *(_format(profile, name) for name in quantities),
            describe_text.half_width(profile.values[RATE]),
        ]
        for profile in workload_profile.profiles(published.records, published.records.studies[0])
    ]
    return console.aligned(["workload", "IOPS", "bandwidth", "p50", "p99", "p99.9", "IOPS, 95 %"], shown)


def _format(profile: Profile, name: str) -> str:
    from ioassay import metrics

    value = profile.values.get(name)
    return metrics.format_metric(profile.metric(name), value.mean) if value else ""
