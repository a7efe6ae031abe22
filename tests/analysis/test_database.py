"""Loads of a database: means with published ones beside, bytes on their way to the drive, keys that were not found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ioassay.analysis.measurements import loads
from ioassay.analysis.storage import database
from ioassay.narrative.finding import Finding

LOADS = "fillseq,fillrandom,readrandom[X2]"


def asked(lab: Any, name: str = "mine", driver: str = "db_bench") -> dict[str, Any]:
    factors = {"compression_type": ["none", "snappy"]}
    return lab.study(name, driver=driver, factors=factors, responses=["fillseq.ops_rate"], params={"benchmarks": LOADS})


def measured(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
    packed = point["compression_type"] == "snappy"
    return {
        "readrandom.ops_rate": 50e3,
        "readrandom.found": 0.63 + 0.002 * repetition,
        "fillseq.ops_rate": (200e3 if packed else 100e3) + 2e3 * repetition,
        "fillrandom.ops_rate": 80e3,
        "rocksdb.user_bytes": 100e6,
        "drive.write.bytes": 50e6 if packed else 150e6,
    }


def found(lab: Any, study: Mapping[str, Any], measure: Any = measured) -> list[Finding]:
    return database.analyse(lab.records(lab.run(study, measure, 3)), study)


def test_the_loads_are_told_in_their_order_as_means(lab: Any) -> None:
    told = found(lab, asked(lab))[0]
    assert told.tables[0].columns == ["condition", "fillseq", "fillrandom", "readrandom"]
    assert told.tables[0].rows == [
        ["compression_type=none", 102e3, 80e3, 50e3],
        ["compression_type=snappy", 202e3, 80e3, 50e3],
    ]
    assert "fillseq 102 to 202, fillrandom 80, readrandom 50" in told.statement
    assert told.caveats == []


def test_published_loads_stand_beside_with_their_source(lab: Any) -> None:
    told = found(lab, asked(lab, "rocksdb"))[0]
    assert told.tables[0].rows[-1] == ["published", 295222, 181504, 102904]
    assert "632,563" in " ".join(told.caveats)


def test_what_reached_the_drive_is_set_against_what_users_wrote(lab: Any) -> None:
    told = found(lab, asked(lab))[2]
    assert told.statement == "For each byte that users wrote, the drive was asked to write 0.50 to 1.50."

    def deeper(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        known = measured(point, repetition)
        return {**known, "rocksdb.write_amplification": 2.0, "drive.flash.bytes": 3 * known["drive.write.bytes"]}

    told = found(lab, asked(lab), deeper)[2]
    assert told.statement == (
        "For each byte that users wrote, RocksDB wrote 2.00, the drive was asked to write 0.50 to 1.50 and it wrote "
        "1.50 to 4.50 to its flash: least with compression_type=snappy, most with compression_type=none."
    )
    assert told.statistics["summary"] == [told.statement]


def test_what_a_factor_changes_is_one_sentence_with_its_intervals(lab: Any) -> None:
    told = found(lab, asked(lab))[1]
    assert told.statement.startswith(
        "Rates with compression snappy, as multiples of those with compression none: fillseq 1.98 (95 % interval 1.9"
    )
    assert told.statement.endswith("; no difference can be seen in fillrandom and readrandom.")
    assert [row[2] for row in told.tables[0].rows] == ["fillseq", "fillrandom", "readrandom"]


def test_a_pass_that_was_slow_as_a_whole_hides_no_difference(lab: Any) -> None:
    busy = [1.0, 0.4, 0.7]

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        noise = 1 + 0.01 * ((repetition + (point["compression_type"] == "none")) % 2)
        return {name: value * busy[repetition] * noise for name, value in measured(point, 0).items()}

    (change, *others) = found(lab, asked(lab), measure)[1].statistics["changes"]
    assert change["load"] == "fillseq" and change["p"] < 0.01
    assert all(other["p"] > 0.1 for other in others)


def test_a_factor_of_one_level_is_no_condition(lab: Any) -> None:
    study = asked(lab).model_copy(
        update={"factors": {"compression_type": ["none", "snappy"], "target.policy": ["none"]}}
    )
    told = found(lab, study)[0]
    assert [row[0] for row in told.tables[0].rows] == ["compression_type=none", "compression_type=snappy"]


def test_without_repetitions_nothing_is_said_of_changes(lab: Any) -> None:
    study = asked(lab)
    told = database.analyse(lab.records(lab.run(study, measured, 1)), study)
    assert [one.response for one in told] == ["", "drive.write.bytes", "readrandom.found"]


def test_without_a_drive_that_counts_nothing_is_said_of_it(lab: Any) -> None:
    def elsewhere(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        return {name: value for name, value in measured(point, repetition).items() if not name.startswith("drive.")}

    assert [one.response for one in found(lab, asked(lab), elsewhere)] == ["", "", "readrandom.found"]


@pytest.mark.parametrize(("share", "severity"), [(0.6325, "info"), (0.4, "warning")])
def test_keys_that_are_drawn_again_are_explained_and_others_are_not(lab: Any, share: float, severity: str) -> None:
    told = found(lab, asked(lab), lambda point, repetition: {**measured(point, repetition), "readrandom.found": share})
    assert told[-1].severity == severity
    assert ("Nothing was lost" in told[-1].statement) == (severity == "info")


def test_trials_without_loads_have_no_such_finding(lab: Any) -> None:
    assert found(lab, asked(lab), lambda *_: {"read.bw": 1e8}) == []


def test_each_load_is_a_trial_for_figures(lab: Any) -> None:
    study = asked(lab)
    made = loads.expanded(lab.records(lab.run(study, measured, 3)), study)
    assert made is not None
    assert made.study.factors["load"] == ["fillseq", "fillrandom", "readrandom"]
    assert made.records.trials.height == 2 * 3 * 3
