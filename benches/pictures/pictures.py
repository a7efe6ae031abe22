"""Pictures of one run by ioassay and by its peers, for docs/pictures.md.

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install fio-plot==1.1.21
    ./ioassay run benches/pictures/depth.toml --output /tmp/depth
    /tmp/peers/bin/python benches/pictures/pictures.py /tmp/depth docs/images/pictures --work /tmp/peers

It needs cargo for criterion, npm for Grafana's components and Chromium for screenshots. What these build stays below
`--work`. fio-plot and Grafana see one repetition of a point, as they have no notion of several; criterion sees all ten.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from PIL import Image  # a dependency of fio-plot

HERE = Path(__file__).resolve().parent
IOASSAY = HERE.parent.parent / "ioassay"
CHROMIUM = (
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-device-scale-factor=1.5",
    "--virtual-time-budget=8000",
)
WIDTH = 1000
"""Pixels of the widest picture: twice what a column of the page has."""
FIGURES = ("throughput_latency", "iops_cells", "latencies", "repetitions", "latency_over_time", "machine")
FIO_PLOT = {
    "bars": ("-l", "-n", "1"),
    "bars-3d": ("-L", "-t", "iops"),
    "histogram": ("-H", "-d", "16", "-n", "1"),
    "log": ("-g", "-t", "iops", "-n", "1"),
}
DEPTHS = ("1", "4", "16", "64")
JOBS = ("1", "4")


def trials(run: Path) -> list[dict[str, Any]]:
    """The records of a run, in the order of their trials, each with its folder."""
    records = [json.loads(path.read_text()) | {"folder": path.parent} for path in run.glob("trials/*/record.json")]
    return sorted(records, key=lambda record: record["trial"]["order"])


def screenshot(page: Path, picture: Path, size: tuple[int, int]) -> None:
    """Show `page` in Chromium at `size` pixels and keep what it looks like."""
    options = (f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}")
    argv = [*CHROMIUM, *options, page.as_uri()]
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)


def reduce(picture: Path, out: Path) -> None:
    """Write `picture` as a PNG of at most `WIDTH` pixels and 256 colours, rare ones included."""
    image = Image.open(picture).convert("RGB")
    if image.width > WIDTH:
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    image.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out.name:32} {out.stat().st_size / 1e3:6.0f} kB  {image.width} x {image.height}")


def draw_fio_plot(records: Iterable[dict[str, Any]], work: Path, out: Path) -> None:
    """Name fio's own output of the first repetitions as fio-plot expects it, and draw its charts."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for record in records:
        if record["trial"]["repetition"] == 0:
            point = record["trial"]["point"]
            name = f"randread-iodepth-{point['iodepth']}-numjobs-{point['numjobs']}"
            for path in (record["folder"] / "raw").iterdir():
                if path.name == "fio.json":
                    shutil.copy(path, work / f"{name}.json")
                elif path.name.startswith("log_iops"):
                    shutil.copy(path, work / path.name.replace("log", name, 1))
    fio_plot = Path(shutil.which("fio-plot") or Path(sys.executable).with_name("fio-plot"))
    for kind, options in FIO_PLOT.items():
        picture = work / f"{kind}.png"
        argv = [str(fio_plot), "-i", str(work), "-T", "Random reads of 4 KiB", "-r", "randread", *options]
        argv += [] if "-d" in options else ["-d", *DEPTHS]
        argv += [] if "-n" in options else ["-n", *JOBS]
        subprocess.run([*argv, "-f", "read", "-o", str(picture)], check=True, cwd=work)
        reduce(picture, out / f"fio-plot-{kind}.png")


def draw_criterion(records: Iterable[dict[str, Any]], work: Path, out: Path) -> None:
    """Give criterion the mean latency of each repetition of one job as a duration, and show its plots."""
    latencies: dict[int, list[float]] = {}
    for record in records:
        if record["trial"]["point"]["numjobs"] == 1:
            latencies.setdefault(record["trial"]["point"]["iodepth"], []).append(record["metrics"]["read.lat.mean"])
    rows = [f"latency {depth} {' '.join(map(str, latencies[depth]))}\n" for depth in sorted(latencies)]
    work.mkdir(parents=True, exist_ok=True)
    (work / "repetitions.txt").write_text("".join(rows))
    for path in (HERE / "criterion").iterdir():
        shutil.copy(path, work)
    (work / "empty.rs").touch()
    shutil.rmtree(work / "target" / "criterion", ignore_errors=True)
    environment = os.environ | {"REPETITIONS": str(work / "repetitions.txt")}
    subprocess.run(["cargo", "bench", "--quiet", "--bench", "repetitions"], check=True, cwd=work, env=environment)
    group = work / "target" / "criterion" / "latency"
    plots = {"violin": group / "report" / "violin.svg", "pdf": group / "depth" / "16" / "report" / "pdf.svg"}
    for name, plot in plots.items():
        page = work / f"{name}.html"
        size = re.search(r'width="(\d+)" height="(\d+)"', plot.read_text())
        assert size, f"{plot} has no size"
        page.write_text(f'<!DOCTYPE html><body style="margin:0"><img src="{plot.as_uri()}">')
        screenshot(page, work / f"{name}.png", (int(size[1]), int(size[2])))
        reduce(work / f"{name}.png", out / f"criterion-{name}.png")


Change = tuple[float, float, dict[str, float]]
"""Seconds between two readings of counters, the instant between them in milliseconds, and how far each counter went."""


def changes(run: Path, records: Iterable[dict[str, Any]], names: str) -> Iterator[Change]:
    """What the counters that match `names` did from reading to reading."""
    query = f"SELECT trial, time_s, name, value FROM samples WHERE name SIMILAR TO '{names}'"
    answer = subprocess.run([str(IOASSAY), "sql", str(run), query, "--json"], check=True, capture_output=True)
    counters: dict[str, dict[float, dict[str, float]]] = {}
    for row in json.loads(answer.stdout)["rows"]:
        reading = counters.setdefault(row["trial"], {}).setdefault(row["time_s"], {})
        reading[row["name"].split(".")[-1]] = row["value"]
    for record in records:
        for (before_s, before), (after_s, after) in itertools.pairwise(sorted(counters[record["trial"]["id"]].items())):
            middle_ms = 1000 * (record["started_unix_s"] + (before_s + after_s) / 2)
            yield after_s - before_s, middle_ms, {name: after[name] - before[name] for name in after}


def machine_panels(run: Path, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a metrics server would show of the run: rates of the disk's and the processors' counters over time."""
    disk = list(changes(run, records, "[a-z0-9]+\\.(reads|read_ms)"))
    processors = list(changes(run, records, "all\\.(user|system|idle|iowait|irq|softirq|steal)"))
    disk_ms, processors_ms = [middle_ms for _, middle_ms, _ in disk], [middle_ms for _, middle_ms, _ in processors]
    reads = [change["reads"] / span_s for span_s, _, change in disk]
    waits_ms = [change["read_ms"] / change["reads"] if change["reads"] else None for _, _, change in disk]
    shares = {
        state: [100 * change[state] / max(sum(change.values()), 1) for _, _, change in processors]
        for state in ("user", "system", "iowait")
    }
    return [
        {"title": "Disk reads", "unit": "iops", "times_ms": disk_ms, "series": {"reads": reads}},
        {"title": "Mean latency of reads", "unit": "ms", "times_ms": disk_ms, "series": {"read": waits_ms}},
        {"title": "CPU time", "unit": "percent", "times_ms": processors_ms, "series": shares},
    ]


def draw_grafana(panels: list[dict[str, Any]], work: Path, out: Path) -> None:
    """Draw `panels` with Grafana's components."""
    work.mkdir(parents=True, exist_ok=True)
    for path in (HERE / "grafana").iterdir():
        shutil.copy(path, work)
    if not (work / "node_modules").exists():
        install = ["npm", "install", "--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund"]
        subprocess.run(install, check=True, cwd=work)
    options = (
        "--bundle",
        "--minify",
        "--jsx=automatic",
        "--outfile=bundle.js",
        "--loader:.svg=dataurl",
        "--loader:.ttf=dataurl",
    )
    names = ('--define:process.env.NODE_ENV="production"', "--define:global=window", "--log-level=error")
    subprocess.run(["node_modules/.bin/esbuild", "panels.jsx", *options, *names], check=True, cwd=work)
    page = work / "panels.html"
    page.write_text(
        '<!DOCTYPE html><meta charset="utf-8"><link rel="stylesheet" href="bundle.css">'
        '<body style="margin:0;background:#f4f5f5"><div id="dashboard"></div>'
        f'<script>window.RUN = {json.dumps(panels)}</script><script src="bundle.js"></script>'
    )
    screenshot(page, work / "panels.png", (656, 790))
    reduce(work / "panels.png", out / "grafana-panels.png")


def draw_ioassay(run: Path, out: Path) -> None:
    """The figures of the run's own report."""
    for name in FIGURES:
        reduce(run / "report" / "figures" / f"{name}.png", out / f"ioassay-{name.replace('_', '-')}.png")


def main() -> None:
    """Draw all pictures of a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="a run of depth.toml")
    parser.add_argument("out", type=Path, help="folder of the pictures")
    parser.add_argument("--work", type=Path, required=True, help="folder for what the peers build")
    parser.add_argument("--only", choices=("ioassay", "fio-plot", "criterion", "grafana"))
    wanted = parser.parse_args()
    run, out, work = wanted.run.resolve(), wanted.out.resolve(), wanted.work.resolve()
    out.mkdir(parents=True, exist_ok=True)
    records = trials(run)
    peers: dict[str, Callable[[], None]] = {
        "ioassay": lambda: draw_ioassay(run, out),
        "fio-plot": lambda: draw_fio_plot(records, work / "fio-plot", out),
        "criterion": lambda: draw_criterion(records, work / "criterion", out),
        "grafana": lambda: draw_grafana(machine_panels(run, records), work / "grafana", out),
    }
    for name, draw in peers.items():
        if wanted.only in (None, name):
            draw()


if __name__ == "__main__":
    main()
