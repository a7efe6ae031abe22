"""How long the report of the whole block I/O suite takes, stage by stage: 420 trials, 17 figures, 92 findings.

    .venv/bin/python benches/report.py [--repetitions N] [--keep FOLDER]

Makes up the records of a run (not timed), then times the analyses, each stage of the report by itself, and
`report.build` as users get it. `--keep` leaves the report in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "report"))

import synthetic  # noqa: E402

from ioassay import report  # noqa: E402
from ioassay.store.dataset import Dataset  # noqa: E402

Result = TypeVar("Result")
RAW = ("job.fio", "fio.json", "stdout", "stderr")


def main() -> None:
    """Make up a run, time the stages, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ioassay-bench-") as folder:
        run = options.keep or Path(folder)
        records = synthetic.block_io(run, options.repetitions)
        write_records(records)
        print(f"{records.trials.height} trials, {records.hist.height} buckets, {records.samples.height} samples")
        time_stages(records, run / "report")


def write_records(records: Dataset) -> None:
    """What the report reads of each trial's folder."""
    for trial in records.trials["trial"]:
        raw = records.root / "trials" / trial / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        command = ["fio", "--output-format=json+", f"--output={raw}/fio.json", f"{raw}/job.fio"]
        (raw.parent / "record.json").write_text(json.dumps({"command": command, "raw": RAW}))


def time_stages(records: Dataset, out: Path) -> None:
    """Each stage alone, then the whole as it is used."""
    began_s = time.monotonic()
    from ioassay.narrative.pipeline import analyse_all
    from ioassay.report import page

    timed("import the analyses", began_s, lambda: None)
    findings = timed("analyse", None, lambda: analyse_all(records))
    drawn = timed("declare the figures", None, lambda: report.declare(records))
    svgs = timed("render SVG", None, lambda: [page.svg(one.spec) for one in drawn])
    timed("render PNG from SVG", None, lambda: [page.png(svg) for svg in svgs])
    timed("assemble the JavaScript", None, page.bundle)
    view = timed("gather what the page shows", None, lambda: report._view(records, findings, drawn, out, "Bench", ""))
    text = timed("fill the page in", None, lambda: page.render(view, page.bundle()))
    page.bundle.cache_clear()
    timed("build, all of the report", None, lambda: report.build(records, findings, out, title="Bench"))
    print(f"{len(findings)} findings, {len(drawn)} figures, page of {len(text.encode()) / 1e6:.2f} MB")


def timed(name: str, began_s: float | None, work: Callable[[], Result]) -> Result:
    """Run one stage and print how long it took."""
    began_s = time.monotonic() if began_s is None else began_s
    result = work()
    print(f"{name:28} {time.monotonic() - began_s:6.2f} s")
    return result


if __name__ == "__main__":
    main()
