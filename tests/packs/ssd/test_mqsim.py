"""MQSim, where it was built (setup/mqsim.sh), gives the results that the drive `mqsim-default` is compared with."""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path

import pytest

from ioassay.simulation import drive_files

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benches"))

import mqsim  # noqa: E402

FOLDER = Path(os.environ.get("IOASSAY_MQSIM") or mqsim.FOLDER)
RECORDED = Path(drive_files.__file__).parent / "drives" / "measurements" / "mqsim-default.csv"


def recorded() -> dict[mqsim.Load, int]:
    lines = [line for line in RECORDED.read_text().splitlines() if not line.startswith("#")]
    return {
        mqsim.Load(row["engine"], row["operation"], row["pattern"], int(row["size_bytes"]), int(row["depth"])): int(
            row["mean_us"]
        )
        for row in csv.DictReader(lines)
    }


def test_all_loads_of_the_benchmark_are_recorded() -> None:
    assert list(recorded()) == list(mqsim.loads())


@pytest.mark.foreign
@pytest.mark.skipif(not (FOLDER / "version").exists(), reason="needs MQSim: setup/mqsim.sh, or IOASSAY_MQSIM with it")
@pytest.mark.parametrize(
    "load", [load for load in mqsim.loads() if load.size_bytes == 8192 and load.depth <= 64], ids=str
)
def test_mqsim_gives_what_is_recorded(load: mqsim.Load) -> None:
    assert mqsim.response_us(FOLDER, load) == recorded()[load]
