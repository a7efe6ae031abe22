"""How long a report takes to be made and to open, and how large and high its page is: 30, 400 and 5 000 trials.

    .venv/bin/python benches/pages.py [--turns N] [--run RUN ...]

The runs are computed (null driver, latencies of 200 requests a trial), or are those that RUN names. A page is open when
the charts of its first screen are drawn, in headless Chromium at 1280 by 900; the ratio is to an empty page that the
same browser opened in the same turn. Times are medians. The heights are those of the whole page in a window of a desk
and of a telephone, once every chart of it has been scrolled to.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
WIDTHS_PX = (1280, 400)
SHOWN = "html[data-state=shown], html[data-state=drawn]"
LEVELS = {30: (5, 1), 400: (8, 5), 5000: (50, 10)}
"""Trials -> levels of two factors; ten repetitions of each but the first, which has six."""
STUDY = """
title = "{trials} trials"
driver = "null_pure"
repetitions = {repetitions}
seed = 1
[target]
kind = "null"
[params]
requests = 200
[params.metrics]
"read.iops" = 20000
"read.bw" = 80000000
[params.latencies]
"read.lat" = 100000
[factors]
a = {a}
b = {b}
"""


def make(folder: Path, trials: int) -> Path:
    """A finished run of so many trials."""
    first, second = LEVELS[trials]
    study = folder / f"trials{trials}.toml"
    levels = {"a": [2**place for place in range(first)] if first < 20 else list(range(1, first + 1))}
    words = {"trials": trials, "repetitions": trials // (first * second), **levels, "b": list(range(1, second + 1))}
    study.write_text(STUDY.format(**words))
    run = folder / f"run{trials}"
    argv = [str(ROOT / "ioassay"), "run", str(study), "--output", str(run), "--json"]
    subprocess.run(argv, check=True, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return run


def report_s(run: Path) -> float:
    """Wall seconds of one report."""
    began_s = time.monotonic()
    argv = [str(ROOT / "ioassay"), "report", str(run)]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began_s


def open_s(browser: Any, page: Path, selector: str) -> float:
    """Seconds until the page in a new tab has what `selector` says."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    began_s = time.monotonic()
    tab.goto(page.as_uri())
    tab.wait_for_selector(selector, state="attached", timeout=60_000)
    took_s = time.monotonic() - began_s
    tab.close()
    return took_s


def height_px(browser: Any, page: Path, width_px: int) -> int:
    """Of the whole page at that width; charts get their place when they come into sight."""
    tab = browser.new_page(viewport={"width": width_px, "height": 900})
    tab.goto(page.as_uri())
    tab.wait_for_selector(SHOWN, state="attached", timeout=60_000)
    seen_px = 0
    while seen_px < (height := tab.evaluate("document.documentElement.scrollHeight")):
        tab.evaluate(f"scrollTo(0, {seen_px})")
        tab.wait_for_timeout(50)
        seen_px += 900
    tab.close()
    return int(height)


def main() -> None:
    """Make the runs, take turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--run", type=Path, nargs="*", default=[])
    wanted = parser.parse_args()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("needs playwright: ./check installs it")
    heights = " ".join(f"{f'px at {width_px}':>10}" for width_px in WIDTHS_PX)
    print(f"{'run':24} {'report s':>9} {'page MB':>8} {'open s':>7} {'empty s':>8} {'ratio':>6} {heights}")
    with tempfile.TemporaryDirectory(prefix="ioassay-bench-") as name, sync_playwright() as driver:
        folder = Path(name)
        empty = folder / "empty.html"
        empty.write_text("<!DOCTYPE html><title>empty</title>")
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for run in wanted.run or (make(folder, trials) for trials in LEVELS):
            page = run / "report" / "index.html"
            made_s, opened_s, empty_s = [], [], []
            for _ in range(wanted.turns):
                made_s.append(report_s(run))
                empty_s.append(open_s(browser, empty, "title"))
                opened_s.append(open_s(browser, page, SHOWN))
            opened, nothing = statistics.median(opened_s), statistics.median(empty_s)
            size_mb = page.stat().st_size / 1e6
            heights = " ".join(f"{height_px(browser, page, width_px):10,}" for width_px in WIDTHS_PX)
            print(
                f"{run.name:24} {statistics.median(made_s):9.2f} {size_mb:8.2f} {opened:7.2f} {nothing:8.2f} "
                f"{opened / nothing:6.1f} {heights}"
            )
        browser.close()
    print(f"medians of {wanted.turns} turns at a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
