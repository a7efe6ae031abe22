"""fio's status lines while it runs: made-up ones in its units, those of the real fio, and what is none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ioassay.drivers import driver
from ioassay.drivers.fio import eta_line
from ioassay.roles import Load, Rates, Trial

MIXED = (
    "Jobs: 3 (f=1), 0-1000 IOPS\r"
    "Jobs: 3 (f=3), 0-1000 IOPS: [m(2),D(1)][50.0%][r=3015MiB/s,w=3012MiB/s,t=4004KiB/s][r=772k,w=771k,t=1001 IOPS]"
    "[eta 00m:03s]\r"
)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (MIXED, Rates(1_544_001, (3015 + 3012) * 2**20 + 4004 * 2**10)),
        (
            f"{MIXED}\nJobs: 1 (f=1): [w(1)][99.0%][w=1024B/s][w=1 IOPS][eta 00m:00s]     \r",
            Rates(1, 1024),
        ),
        (f"{MIXED}Jobs: 1 (f=1): [R(1)][66.7%][r=12.3MB/s][r=3005 IOPS][eta 00m:02s]\r", Rates(3005, 12.3e6)),
        (f"{MIXED}Jobs: 1 (f=1): [R(1)][66.7%][r=80Mbit/s][r=12.3k IOPS][eta 00m:02s]\r", Rates(12_300, 1e7)),
        (f"{MIXED}Jobs: 1 (f=1): [/(1)][-.-%][eta 00m:02s]\r", Rates(0, 0)),
        (f"{MIXED}Jobs: 1 (f=1): [R(1)][66.7%][r=1MiB/s][r=2", Rates(1_544_001, (3015 + 3012) * 2**20 + 4004 * 2**10)),
        ("Jobs: 1 (f=0)\rJobs: 1 (f=1)\r", None),
        ("fio: looks like your file system does not support direct=1\n", None),
        ("", None),
    ],
)
def test_the_last_complete_status_gives_the_rates_of_all_directions(output: str, expected: Rates | None) -> None:
    assert eta_line.rates(output) == expected


def command_of(calls: bool, tmp_path: Path) -> list[str]:
    fio = driver("fio")
    trial = Trial("t", "s", "fio", {}, {"ioengine": "null", "rw": "read", "size": "1MiB"}, {}, {}, 0, 1, 0, calls=calls)
    command = fio.command(trial, Load("null", None, 0, read_only=False), tmp_path)
    assert command is not None
    return list(command.argv)


def test_fio_is_asked_for_them_but_where_its_calls_are_counted(tmp_path: Path) -> None:
    assert "--eta=always" in command_of(False, tmp_path)
    assert "--eta=never" in command_of(True, tmp_path)


@pytest.mark.fio
def test_the_real_fio_states_about_what_its_results_say(tmp_path: Path) -> None:
    """A rate limit makes the latest second like the others."""
    argv = ["fio", "--name=j", "--ioengine=null", "--rw=randrw", "--bs=4k", "--size=1G", "--time_based", "--runtime=5"]
    argv += ["--rate_iops=1000", "--eta=always", "--output-format=json", f"--output={tmp_path / 'fio.json'}"]
    output = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    stated = eta_line.rates(output.rpartition("Jobs:")[0])  # at the very end the last interval is cut short
    job = json.loads((tmp_path / "fio.json").read_text())["jobs"][0]
    assert stated is not None
    assert stated.iops == pytest.approx(job["read"]["iops"] + job["write"]["iops"], rel=0.1)
    assert stated.bytes_per_s == pytest.approx(4096 * stated.iops, rel=0.01)
