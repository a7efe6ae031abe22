"""Mean response times of MQSim's default drive: the measurements of the drive `mqsim-default`.

    .venv/bin/python benches/mqsim.py [FOLDER] > python/ioassay/simulation/drives/measurements/mqsim-default.csv

FOLDER is where setup/mqsim.sh has built it, by default .setup/mqsim. `ioassay drive check mqsim-default --points`
compares the same loads on the simulated drive here. MQSim's file of the drive is used as it is but for the mapping of
pages, which one table has whole (`Ideal_Mapping_Table`) and the others do not. It prints whole microseconds, and the
same ones for the same seed. The rate at which it simulates goes to standard error.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(__file__).parents[1] / ".setup" / "mqsim"
SECTOR_BYTES = 512
SEED = 798
REQUESTS = 50_000
"""Of a load: without effect of its begin and end."""
_PATTERNS = {"random": "RANDOM_UNIFORM", "sequential": "STREAMING"}
_FLOW = {
    "Priority_Class": "HIGH",
    "Channel_IDs": "0,1,2,3,4,5,6,7",
    "Chip_IDs": "0,1,2,3",
    "Die_IDs": "0,1",
    "Plane_IDs": "0,1",
    "Initial_Occupancy_Percentage": 75,
    "Working_Set_Percentage": 50,
    "Synthetic_Generator_Type": "QUEUE_DEPTH",
    "Percentage_of_Hot_Region": 0,
    "Generated_Aligned_Addresses": "true",
    "Request_Size_Distribution": "FIXED",
    "Variance_Request_Size": 0,
    "Seed": SEED,
    "Intensity": 1,
    "Stop_Time": 0,
}
"""What all loads have in common: a closed loop over half of the drive."""


@dataclass(frozen=True)
class Load:
    engine: str
    """`ideal-mapping`, `mapping-cache`, or `no-write-cache` (and an ideal mapping)."""
    operation: str
    pattern: str
    size_bytes: int
    depth: int


def loads() -> Iterator[Load]:
    for engine in ("ideal-mapping", "mapping-cache"):
        for size in (4096, 8192, 32768):
            yield from (Load(engine, "read", "random", size, depth) for depth in (1, 4, 16, 64, 256))
    yield from (Load("ideal-mapping", "read", "sequential", 131072, depth) for depth in (1, 4, 16, 64))
    yield from (Load("no-write-cache", "write", "random", 8192, depth) for depth in (1, 4, 16, 64))


def response_us(folder: Path, load: Load) -> int:
    """The mean response time that MQSim prints, in whole microseconds. Raises CalledProcessError where it fails."""
    flow = {
        **_FLOW,
        "Device_Level_Data_Caching_Mode": "TURNED_OFF" if load.engine == "no-write-cache" else "WRITE_CACHE",
        "Read_Percentage": 100 if load.operation == "read" else 0,
        "Address_Distribution": _PATTERNS[load.pattern],
        "Address_Alignment_Unit": load.size_bytes // SECTOR_BYTES,
        "Average_Request_Size": load.size_bytes // SECTOR_BYTES,
        "Average_No_of_Reqs_in_Queue": load.depth,
        "Total_Requests_To_Generate": REQUESTS,
    }
    text = "".join(f"<{name}>{value}</{name}>" for name, value in flow.items())
    for tag in ("IO_Flow_Parameter_Set_Synthetic", "IO_Scenario", "MQSim_IO_Scenarios"):
        text = f"<{tag}>{text}</{tag}>"
    ideal = str(load.engine != "mapping-cache").lower()
    drive = re.sub("(?<=<Ideal_Mapping_Table>)[^<]*", ideal, (folder / "ssdconfig.xml").read_text())
    with tempfile.TemporaryDirectory() as place:
        at = Path(place)
        (at / "drive.xml").write_text(drive)
        (at / "load.xml").write_text(text)
        argv = [str(folder / "MQSim"), "-i", "drive.xml", "-w", "load.xml"]
        # It ends when it has read a key.
        subprocess.run(argv, cwd=at, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        found = ElementTree.parse(at / "load_scenario_1.xml").findtext(".//Device_Response_Time")
    if found is None:
        raise ValueError(f"{argv[0]} printed no Device_Response_Time")
    return int(found)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else FOLDER)
    if not (folder / "version").is_file():
        sys.exit(f"{folder} has no MQSim; build it with setup/mqsim.sh, or name its folder")
    commit = (folder / "version").read_text().strip()
    print(f"# MQSim's default drive (ssdconfig.xml), simulated by MQSim; seed {SEED}, fresh drive, half of it in use.")
    print(f"# Source: github.com/CMU-SAFARI/MQSim, commit {commit}, run by benches/mqsim.py. Whole microseconds.")
    print("engine,operation,pattern,size_bytes,depth,mean_us")
    began = time.monotonic()
    loads_of_all = list(loads())
    for load in loads_of_all:
        mean_us = response_us(folder, load)
        print(f"{load.engine},{load.operation},{load.pattern},{load.size_bytes},{load.depth},{mean_us}", flush=True)
    print(f"{len(loads_of_all) * REQUESTS / (time.monotonic() - began):,.0f} requests a second", file=sys.stderr)


if __name__ == "__main__":
    main()
