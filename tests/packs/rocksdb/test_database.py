"""Loads of a database: means, published ones, bytes on their way to the drive, keys that were not found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ioassay.analysis.measurements import passes
from ioassay.analysis.one_factor import Outcome as EffectOutcome
from ioassay.narrative.finding import Finding
from ioassay.packs.rocksdb.questions import database
from ioassay.packs.rocksdb.questions.database import DRIVE, FLASH, Database, Outcome

from ...narrative import golden

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


def answer(lab: Any, study: Mapping[str, Any], measure: Any = measured, repetitions: int = 3) -> Database:
    (one,) = database.measured(lab.records(lab.run(study, measure, repetitions)), study)
    return one


def found(lab: Any, study: Mapping[str, Any], measure: Any = measured) -> list[Finding]:
    return database.analyse(lab.records(lab.run(study, measure, 3)), study)


def test_the_loads_are_means_in_their_order(lab: Any) -> None:
    told = found(lab, asked(lab))[0]
    assert told.tables[0].columns == ["condition", "fillseq", "fillrandom", "readrandom"]
    assert told.tables[0].rows == [
        ["compression_type=none", 102e3, 80e3, 50e3],
        ["compression_type=snappy", 202e3, 80e3, 50e3],
    ]
    assert told.caveats == []
    golden.check("database", found(lab, asked(lab)))


def test_published_loads_stand_with_their_source(lab: Any) -> None:
    told = found(lab, asked(lab, "rocksdb"))[0]
    assert told.tables[0].rows[-1] == ["published", 295222, 181504, 102904]
    assert "632,563" in " ".join(told.caveats)


def test_what_reached_the_drive_is_compared_with_what_users_wrote(lab: Any) -> None:
    shares = answer(lab, asked(lab)).over_user(DRIVE)
    assert shares == {"compression_type=none": 1.5, "compression_type=snappy": 0.5}

    def deeper(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        known = measured(point, repetition)
        return {**known, "rocksdb.write_amplification": 2.0, "drive.flash.bytes": 3 * known["drive.write.bytes"]}

    assert sorted(answer(lab, asked(lab), deeper).over_user(FLASH).values()) == [1.5, 4.5]
    reached = found(lab, asked(lab), deeper)[2]
    golden.check("database_flash", [reached])


def test_a_difference_is_certain_and_none_only_by_equivalence(lab: Any) -> None:
    changes = answer(lab, asked(lab)).changes
    assert [(load, one.outcome) for load, one in changes] == [
        ("fillseq", EffectOutcome.DIFFERENCE),
        ("fillrandom", EffectOutcome.EQUIVALENT),
        ("readrandom", EffectOutcome.EQUIVALENT),
    ]
    assert changes[0][1].ratio.ratio == pytest.approx(1.98, abs=0.01)


def test_noise_leaves_the_rates_undecided(lab: Any) -> None:
    random = np.random.default_rng(8)

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        return {name: value * random.lognormal(0, 0.2) for name, value in measured({"compression_type": ""}, 0).items()}

    changes = [one for _, one in answer(lab, asked(lab), measure).changes]
    assert {one.outcome for one in changes} == {EffectOutcome.UNDECIDED}
    assert all(one.needed is not None and one.needed > 10 for one in changes)
    told = found(lab, asked(lab), measure)[1]
    assert "undecided" in told.statements[0].code


def test_changes_share_the_risk(lab: Any) -> None:
    """Twelve changes of three factors over four loads that nothing changes: a false one in at most 5 % of studies."""
    random, false = np.random.default_rng(8), 0
    factors = {"compression_type": ["none", "snappy"], "fsync": [0, 1], "threads": [1, 2]}
    study = asked(lab).model_copy(update={"factors": factors})
    for _ in range(100):
        rates = [{f"{load}.ops_rate": 1e5 * random.lognormal(0, 0.1) for load in "abcd"} for _ in range(24)]
        values = iter(rates)
        changes = answer(lab, study, lambda *_, values=values: next(values)).changes
        assert len(changes) == 12
        false += any(one.outcome == EffectOutcome.DIFFERENCE for _, one in changes)
    assert false <= 9


def test_a_pass_that_was_slow_as_a_whole_hides_no_difference(lab: Any) -> None:
    busy = [1.0, 0.4, 0.7]
    study = asked(lab).model_copy(update={"factors": {"compression_type": ["none", "snappy"], "threads": [1, 2]}})

    def measure(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        noise = 1 + 0.01 * ((repetition + (point["compression_type"] == "none") + point["threads"]) % 2)
        return {name: value * busy[repetition] * noise for name, value in measured(point, 0).items()}

    (load, change), *others = answer(lab, study, measure).changes
    assert (load, change.outcome) == ("fillseq", EffectOutcome.DIFFERENCE)
    assert all(other.outcome != EffectOutcome.DIFFERENCE for _, other in others)


def test_a_factor_of_one_level_is_no_condition(lab: Any) -> None:
    study = asked(lab).model_copy(
        update={"factors": {"compression_type": ["none", "snappy"], "target.policy": ["none"]}}
    )
    told = found(lab, study)[0]
    golden.check(
        "database_once", found(lab, study.model_copy(update={"factors": {"compression_type": ["snappy"]}}))[:1]
    )
    assert [row[0] for row in told.tables[0].rows] == ["compression_type=none", "compression_type=snappy"]


def test_without_repetitions_there_are_no_changes(lab: Any) -> None:
    assert answer(lab, asked(lab), repetitions=1).changes == []


def test_without_a_drive_that_counts_nothing_is_said_of_it(lab: Any) -> None:
    def elsewhere(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
        return {name: value for name, value in measured(point, repetition).items() if not name.startswith("drive.")}

    assert [one.response for one in found(lab, asked(lab), elsewhere)] == ["", "", "readrandom.found"]


@pytest.mark.parametrize(("share", "outcome"), [(0.6325, Outcome.REDRAWN), (0.4, Outcome.MISSING)])
def test_keys_that_are_drawn_again_explain_the_share_that_is_found(lab: Any, share: float, outcome: Outcome) -> None:
    made = answer(lab, asked(lab), lambda point, repetition: {**measured(point, repetition), "readrandom.found": share})
    (keys,) = made.found
    assert keys.outcome == outcome and keys.shares == [pytest.approx(share)] * 2


def test_trials_without_loads_have_no_such_finding(lab: Any) -> None:
    study = asked(lab)
    assert database.measured(lab.records(lab.run(study, lambda *_: {"read.bw": 1e8}, 3)), study) == []


def apart(point: Mapping[str, Any], repetition: int) -> dict[str, float]:
    """Each load with its own counts; readrandom does the compactions that fillrandom left behind."""
    whole = {**measured(point, repetition), "rocksdb.write_amplification": 2.0, "drive.flash.bytes": 300e6}
    counts = {
        "fillseq": {"user_bytes": 50e6, "wal_bytes": 50e6, "flush_bytes": 50e6, "compaction_write_bytes": 0.0},
        "fillrandom": {"user_bytes": 50e6, "wal_bytes": 50e6, "flush_bytes": 40e6, "compaction_write_bytes": 60e6},
        "readrandom": {"user_bytes": 0.0, "wal_bytes": 0.0, "flush_bytes": 0.0, "compaction_write_bytes": 20e6},
    }
    for load, of_database in counts.items():
        written = of_database["flush_bytes"] + of_database["compaction_write_bytes"]
        whole |= {f"{load}.rocksdb.{key}": value for key, value in of_database.items()}
        whole |= {f"{load}.drive.write.bytes": written, f"{load}.drive.flash.bytes": 2 * written}
        whole[f"{load}.drive.read.bytes"] = 5e6
    return whole


def test_each_load_has_its_own_bytes_on_their_way_to_flash(lab: Any) -> None:
    told = found(lab, asked(lab), apart)
    (reached,) = (one for one in told if one.response == DRIVE)
    (table,) = reached.tables
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["load"] for row in rows] == ["fillseq", "fillrandom", "readrandom", "all"] * 2
    assert [row["flash over users"] for row in rows[:4]] == [2.0, 4.0, None, 3.0]
    assert [row["Bytes of reads that the drive counted"] for row in rows] == [5e6, 5e6, 5e6, None] * 2
    assert reached.statistics["by_load"]["compression_type=none"]["fillrandom"]["rocksdb.flush_bytes"] == 40e6
    golden.check("database_loads", [reached])


def test_the_layers_of_each_load_are_trials_for_figures(lab: Any) -> None:
    study = asked(lab)
    records = lab.records(lab.run(study, apart, 2))
    made = passes.layers(records, study)
    assert made is not None and made.studies[0].factors["layer"] == ["users", "RocksDB", "drive", "flash"]
    assert made.trials.height == 2 * 2 * 3 * 4
    one = made.trials.filter(load="fillrandom", compression_type="none", repetition=0)
    assert one["layer.bytes"].to_list() == [50e6, 150e6, 100e6, 200e6]
    expanded = passes.expanded_loads(records, study)
    assert expanded is not None and expanded.trials["load.drive.read.bytes"].unique().to_list() == [5e6]
    assert expanded.studies[0].factors["load"] == ["fillseq", "fillrandom", "readrandom"]
    assert passes.layers(lab.records(lab.run(study, measured, 2)), study) is None
