"""The study `rocksdb`, as a user runs it, on a virtual drive."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli import command_server
from tests.cli.conftest import ask


@pytest.mark.rocksdb
@pytest.mark.root
@pytest.mark.slow
def test_the_four_loads_are_measured_on_a_drive_that_counts(tmp_path: Path) -> None:
    words = ("run", "rocksdb", "--scale", "quick", "--repetitions", "1", "--set", "num=10000", "--json")
    narrowed = ("--factor", "target.policy=none", "--set", "write_buffer_size=131072", "--set", "target.size=128MiB")
    answer = ask(*words, *narrowed, cwd=tmp_path, within_s=600)
    command_server.end()
    assert answer.code == 0, answer.err
    result = answer.json
    findings = [one for one in result["findings"] if one["question"] == "database"]
    assert [one["response"] for one in findings] == ["", "", "drive.write.bytes", "readrandom.found"]
    columns = ["condition", "fillseq", "readseq", "fillrandom", "readrandom"]
    assert findings[0]["tables"][0]["columns"] == columns
    assert findings[3]["severity"] == "info"
    for where, loads in findings[1]["statistics"]["by_load"].items():
        assert list(loads) == columns[1:], where
        whole = findings[0]["statistics"]["points"][where]
        for metric in ("drive.write.bytes", "drive.flash.bytes", "drive.read.bytes", "rocksdb.flush_bytes"):
            assert 0.99 * whole[metric] <= sum(own[metric] for own in loads.values()) <= whole[metric], (where, metric)
        assert loads["readseq"]["rocksdb.user_bytes"] == 0 < loads["fillseq"]["rocksdb.user_bytes"]
        assert loads["readrandom"]["drive.read.bytes"] > 0
    points = findings[0]["statistics"]["points"]
    assert len(points) == 4  # with and without compression, on a drive that is new and on one that is not
    for where, numbers in points.items():
        amplified = numbers["drive.write_amplification"] > 1.2
        assert amplified == ("precondition=steady" in where), where
        assert numbers["drive.flash.bytes"] >= numbers["drive.write.bytes"]
    (verdict,) = (one for one in result["findings"] if one["question"] == "verdict")
    told = [row for row in verdict["statistics"]["rows"] if row["claim"].startswith("RocksDB's")]
    assert len(told) == 8 and verdict["statistics"]["contradicted"] == 0
    for row in told:  # what RocksDB says of itself, what the kernel saw, what the drive counted
        assert row["numbers"]["seen_bytes"] >= row["numbers"]["claimed_bytes"] > 0
        assert row["numbers"]["drive_bytes"] > 0
    (beside,) = (one for one in result["findings"] if one["question"] == "drive")
    assert len(beside["tables"][0]["rows"]) == 8
    codes = [warning["code"] for warning in result["warnings"]]
    assert codes.count("keys-not-found") == 1  # once for all trials
    (run,) = (tmp_path / "runs").iterdir()
    assert (run / "report" / "figures" / "rocksdb_loads.svg").exists()
