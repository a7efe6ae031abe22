"""`ioassay tune` finds what is better, on a simulated drive and by fio. The rest is in tests/corpus/commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Ask

BUFFER = """
title = "The write buffer of a simulated drive"
driver = "simulate"
[params]
window = "none"
driver = "fcfs"
slices = 32
feed = "closed:32"
make = { requests = 5000, arrivals = "bursts:62.8:2.1:inf", addresses = "zipf:0.95", range = "256MiB", seed = 4 }
[factors]
policy = ["none", "lru", "bplru", "epo", "idle-cold"]
buffer = ["1MiB", "2MiB", "4MiB", "8MiB", "16MiB"]
"""
DEPTH = """
title = "Queue depth of random reads"
driver = "fio"
[target]
kind = "file"
path = "data"
size = "64MiB"
[params]
rw = "randread"
bs = "4k"
ioengine = "libaio"
direct = 1
runtime = "500ms"
[factors]
iodepth = [1, 4, 16, 32]
[watch]
monitors = ["cpu"]
"""


def test_a_search_on_the_buffer_of_the_simulated_drive_ends_with_a_confirmed_winner(
    ioassay: Ask, tmp_path: Path
) -> None:
    (tmp_path / "buffer.toml").write_text(BUFFER)
    goal = ["--minimize", "write.lat.mean", "--trials", "14", "--confirm", "2"]
    said = ioassay("tune", "buffer.toml", *goal, "--listed", "--json").json
    assert (said["space"]["points"], said["confirmed"]) == (25, True)
    assert said["best"]["point"]["policy"] != "none"
    assert said["best"]["interval"][0] <= said["best"]["mean"] <= said["best"]["interval"][1]
    assert said["confirmation"]["ratio"] < 0.9


@pytest.mark.fio
def test_a_search_of_the_queue_depth_ends_with_a_confirmed_winner(ioassay: Ask, tmp_path: Path) -> None:
    (tmp_path / "depth.toml").write_text(DEPTH)
    goal = ["--maximize", "read.iops", "--subject-to", "read.lat.p99 < 10s", "--trials", "5", "--confirm", "5"]
    answer = ioassay("tune", "depth.toml", *goal, "--listed", "--json", within_s=300)
    assert answer.code == 0, answer.err
    assert answer.json["best"]["point"]["iodepth"] > 1
    assert answer.json["confirmed"] is True
    assert answer.json["confirmation"]["constraints"][0]["verdict"] == "kept"
