"""ioassay quick: about a minute to an honest answer for the disk under a folder."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ioassay import metrics
from ioassay.cli import console, options, session, syntax

if TYPE_CHECKING:
    from ioassay.api.run_results import Run


def quick(
    path: Annotated[Path, syntax.argument("PATH", "A folder on the disk to measure.")] = Path(),
    budget: Annotated[str, syntax.option("TIME", "Total time with the report; it chooses the profile.")] = "60s",
    output: options.Output = None,
    wait_quiet: options.WaitQuiet = "",
    live: options.Live = False,
    json: options.Json = False,
) -> None:
    """Measure the disk under PATH in about a minute, with a report.

    Random and sequential reads and writes of a new file, repeated; the file is removed at the end. The budget chooses
    the profile: short (from 15s), standard (from 60s) or long (from 5m). Runs of one profile can be compared.

    Examples: ioassay quick; ioassay quick /mnt/disk
    """
    from ioassay.api.execution import RunOptions
    from ioassay.packs.fio.quick_study import QuickStudy

    began_s = time.monotonic()
    quiet = RunOptions(wait_quiet_s=options.seconds("--wait-quiet", wait_quiet))
    study = QuickStudy.fitting(path, options.seconds("--budget", budget))
    run = session.measure(lambda announce: study.begin(output, announce, quiet), live=live)
    if json:
        from ioassay.analysis import descriptive

        disk = run.records.host.get("disk", {})
        console.emit(
            {
                **run.as_dict(),
                "target": {"path": str(path.resolve()), **run.records.studies[0].target.model_dump(), "disk": disk},
                "profile": asdict(study.profile),
                "rows": [row.as_dict() for row in descriptive.headline(run.records, run.records.studies)],
                "seconds": time.monotonic() - began_s,
            }
        )
    else:
        session.say(run, _table(run))
    session.end(run)


def _table(run: Run) -> list[str]:
    """A row a workload. IOPS and bandwidth differ by the block size alone, so they share one interval."""
    from ioassay.analysis import descriptive
    from ioassay.analysis.descriptive import LATENCIES, RATE, VOLUME
    from ioassay.narrative import describe_text

    quantities = (RATE, VOLUME, *LATENCIES)
    shown = [
        [
            profile.workload,
            *(
                metrics.format_metric(profile.metric(name), value.mean) if (value := profile.values.get(name)) else ""
                for name in quantities
            ),
            describe_text.half_width(profile.metric(RATE), profile.values[RATE]),
        ]
        for profile in descriptive.profiles(run.records, run.records.studies[0])
    ]
    return console.aligned(["workload", "IOPS", "bandwidth", "p50", "p99", "p99.9", "IOPS, 95 %"], shown)
