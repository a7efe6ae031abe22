"""A whole qualification at small scale, of a block device over a drive that is served here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ioassay as ia
from ioassay.packs.qualify.qualification_study import Qualification
from ioassay.packs.qualify.questions.qualification import departures_of
from ioassay.packs.qualify.rounds import rounds
from ioassay.study.model import make_study

pytestmark = [pytest.mark.root, pytest.mark.fio, pytest.mark.slow]
SIZES, MIXES = ["1MiB", "4KiB"], [100, 65, 0]


def small(study: Qualification) -> Qualification:
    """Every test and every table, with fewer sizes and mixes, in rounds of 100 ms and five of them."""
    made = []
    for one in study.suite.studies:
        table = one.model_dump(exclude_none=True)
        bs = SIZES if one.name == "iops" else ["4KiB"]
        varied = {"rwmixread": MIXES, "bs": bs} if "bs" in one.factors else one.factors
        until = {**table["until"], "max": 5, "metric": table["until"]["metric"]}
        until |= {"steady": [{"bs": "4KiB", "rwmixread": 0}]} if "bs" in one.factors else {}
        params = {**one.params, "runtime": "100ms", "iodepth": 4}
        made.append(make_study({**table, "params": params, "factors": varied, "until": until}, one.name))
    study.suite = study.suite.model_copy(update={"studies": made})
    return study


def test_a_served_drive_is_qualified_and_every_table_is_filled(
    loop_device: Callable[..., Path], tmp_path: Path
) -> None:
    with ia.serve("16MiB", [f"fuse:{tmp_path}/drive"]) as drive:
        device = loop_device(backing=Path(drive.addresses["fuse"]))
        study = small(Qualification.of(device, scale="quick"))
        run = study.run(tmp_path / "run", destroy_data=[str(device)])
        counted = drive.stats()
    assert counted["writes"]["bytes"] > 4 * 2 * 16 << 20, "four tests precondition with twice the capacity"
    assert {study.target.purge for study in run.records.studies} == {"discard"}
    assert run.tally.ok == run.tally.planned - run.tally.unneeded and run.tally.ok >= 5 * (1 + 6 + 2 + 2 + 3)
    for one in run.records.studies:
        found = rounds(run.records, one)
        assert found is not None and found.last >= 4 and found.tracked
        for metric in ("total.iops", "total.bw", "total.lat.mean", "total.lat.max"):
            assert all(point.average(metric, found.last) for point in found.points), (one.name, metric)
    departures = {str(one.what): one.tests for one in departures_of(run.records)}
    assert "rounds of 100 ms in place of 1 min 0 s" in departures and "a discard in place of a purge" in departures
    assert "a file in place of a device" not in departures
    tables = [table for finding in run.findings if finding.question == "qualification" for table in finding.tables]
    assert not [row for table in tables for row in table.rows if None in row]
    assert run.report().is_file() and not run.failed
