"""How good is the twin of a drive that is served in real time? Learned by fio through FUSE, as a stranger's drive is.

    .venv/bin/python benches/twin_served.py [--drives 0,1,2] [--budget 150] [--folder FOLDER]

Each drive is served (`ioassay device serve --realtime`, write cache of 2 MiB) and learned (`ioassay drive learn`, its
fio under SCHED_FIFO, below the server's priority). Printed are the wrong parts of the structure, the parameters with
their true values, and for loads of reads, then of writes, that no battery has: how far mean and median latency of the
simulated twin are from those of the served drive under fio, which both get the same requests in the same order. Stalls
of the host are in the means. A drive without description, such as one called a misfit, is a failure. Needs root, fio
and FUSE. With `--folder` the runs are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ioassay.packs.ssd.twin.loads import Load
from ioassay.packs.ssd.twin.simulated import READ, SimulatedTarget, arrays

KIB, MIB = 1024, 2**20
SIZE_BYTES = 64 * MIB
COMMON = {
    "page": 4096,
    "planes": 1,
    "dies": 1,
    "spare_bytes": 0,
    "write_cache": 2 * MIB,
    "transfer_us_per_byte": 0,
    "channel_us_per_sector": 0,
    "command_read_us": 12,
}
DRIVES: tuple[dict[str, Any], ...] = (
    COMMON
    | {"elements": 8, "program_unit": 16 * KIB, "flash_page": 16 * KIB, "read_us": 400}
    | {"flash_channels": 4, "flash_channel_mb_s": 600, "link_mb_s": 2000},
    COMMON
    | {"elements": 4, "program_unit": 64 * KIB, "flash_page": 16 * KIB, "read_us": 300}
    | {"page_type_read_us": [240, 360], "flash_channels": 2, "flash_channel_mb_s": 400, "link_mb_s": 1000},
    COMMON
    | {"elements": 16, "program_unit": 48 * KIB, "pages_per_block": 48, "flash_page": 16 * KIB, "read_us": 700}
    | {"flash_channels": 4, "flash_channel_mb_s": 300, "link_mb_s": 800},
)
"""Read times that this host can show: 16 elements of 700 us give 23,000 reads a second."""
REQUESTS, SEED = 8000, 5
REST: dict[str, Any] = {"span_bytes": SIZE_BYTES, "requests": REQUESTS}
HELD_OUT = (
    Load("8 KiB depth 6", "", "read", 8 * KIB, 6, **REST),
    Load("4 KiB depth 12", "", "read", 4 * KIB, 12, **REST),
    Load("4 KiB Zipf depth 24", "", "read", 4 * KIB, 24, zipf=0.9, **REST),
    Load("32 KiB depth 3", "", "read", 32 * KIB, 3, **REST),
    Load("96 KiB depth 2", "", "read", 96 * KIB, 2, **REST),
    Load("128 KiB sequential depth 2", "", "read", 128 * KIB, 2, "sequential", **REST),
    Load("4 KiB writes depth 8", "", "write", 4 * KIB, 8, **REST),
    Load("4 KiB writes depth 24", "", "write", 4 * KIB, 24, **REST),
    Load("8 KiB half reads depth 4", "", "mixed", 8 * KIB, 4, read_share=0.5, **REST),
    Load("4 KiB Zipf writes depth 16", "", "write", 4 * KIB, 16, zipf=0.9, **REST),
)
PRIORITY = 5
"""Of fio under SCHED_FIFO: below the server's 10."""
IOASSAY = [sys.executable, "-m", "ioassay"]
STRUCTURE = ("elements", "program_unit", "flash_page")


def text(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, list) else str(value)


def under_fio(load: Load, path: Path, draws: np.random.Generator) -> dict[str, float]:
    """Mean and median latency in microseconds, of reads if there are any: the requests that the twin gets.

    By libaio: fio's io_uring has up to the next power of two in flight.
    """
    requests = arrays(load, SIZE_BYTES, draws)
    names = np.where(requests["kind"] == READ, "read", "write")
    places = zip(names, requests["offset_bytes"], requests["bytes"], strict=True)
    log = path.with_suffix(".iolog")
    lines = [
        "fio version 2 iolog",
        f"{path} add",
        f"{path} open",
        *(f"{path} {name} {at} {size}" for name, at, size in places),
    ]
    log.write_text("\n".join([*lines, f"{path} close", ""]))
    command = ["chrt", "-f", str(PRIORITY), "fio", "--name=held-out", f"--read_iolog={log}", "--direct=1"]
    command += ["--ioengine=libaio", f"--iodepth={load.depth}", "--lat_percentiles=1", "--output-format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    latency = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0][min(names)]["lat_ns"]
    return {"mean": latency["mean"] / 1e3, "median": latency["percentile"]["50.000000"] / 1e3}


def tools(folder: Path) -> Path:
    """A folder with a fio that runs before all programs of the usual class, and after the server."""
    wrapper = folder / "tools" / "fio"
    wrapper.parent.mkdir(exist_ok=True)
    wrapper.write_text(f'#!/bin/sh\nexec chrt -f {PRIORITY} {shutil.which("fio")} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper.parent


@contextmanager
def served(number: int, target: Path) -> Iterator[None]:
    """A fresh drive, full as if written in sequence."""
    options = [word for name, value in DRIVES[number].items() for word in ("--set", f"{name}={text(value)}")]
    command = [*IOASSAY, "device", "serve", "--size", str(SIZE_BYTES), "--transport", f"fuse:{target}", *options]
    with subprocess.Popen(
        [*command, "--realtime", "--prefault", "--json"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            if not target.exists():
                raise SystemExit("the drive was not served; see above why")
            yield
        finally:
            server.send_signal(signal.SIGINT)


def one(number: int, budget_s: int, folder: Path) -> dict[str, Any]:
    truth, target, run = DRIVES[number], folder / f"drive-{number}.img", folder / f"run-{number}"
    learn = ["nice", "-n", "-10", *IOASSAY, "drive", "learn", str(target), "--destroy-data", str(target)]
    learn += ["--budget", f"{budget_s}s", "--output", str(run), "--json"]
    environment = os.environ | {"PATH": f"{tools(folder)}:{os.environ['PATH']}"}
    with served(number, target):
        done = subprocess.run(learn, capture_output=True, text=True, check=False, env=environment)
    description = run / "drive.toml"
    if not description.exists():
        return {"failure": (done.stderr or done.stdout)[-400:]}
    entries = tomllib.loads(description.read_text())["drive"]
    twin = {name: entry["value"] if isinstance(entry, dict) else entry for name, entry in entries.items()}
    errors = {}
    with served(number, target):
        simulated, draws = SimulatedTarget(twin, seed=SEED), np.random.default_rng(SEED)
        for load in HELD_OUT:
            measured, (reading,) = under_fio(load, target, draws), simulated.run([load])
            modelled = reading.statistics
            errors[load.name] = {
                "mean": modelled["mean_us"] / measured["mean"] - 1,
                "median": modelled["p50_us"] / measured["median"] - 1,
            }
    times = ("read_us", "command_read_us", "flash_channels", "flash_channel_mb_s", "link_mb_s", "page_type_read_us")
    return {
        "wrong": {name: twin.get(name) for name in STRUCTURE if twin.get(name) != truth[name]},
        "times": {name: (twin.get(name), truth.get(name)) for name in times if name in twin or name in truth},
        "errors": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drives", default=",".join(map(str, range(len(DRIVES)))))
    parser.add_argument("--budget", type=int, default=150, help="seconds of each battery")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        for number in map(int, given.drives.split(",")):
            row = one(number, given.budget, folder)
            print(f"drive {number}, load average {os.getloadavg()[0]:.1f}:", json.dumps(row), flush=True)
            rows.append(row)
    right = sum("failure" not in row and not row["wrong"] for row in rows)
    print(f"structure right: {right} of {len(rows)}")
    for statistic in ("mean", "median"):
        values = [abs(error[statistic]) for row in rows for error in row.get("errors", {}).values()]
        if values:
            middle, high = np.quantile(values, (0.5, 0.9))
            print(f"{statistic} latency: off by {middle:.1%} in the median, {high:.1%} in the 90th percentile", end="")
            print(f", {max(values):.0%} at worst, of {len(values)}")


if __name__ == "__main__":
    main()
