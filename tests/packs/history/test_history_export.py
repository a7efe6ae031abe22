"""What leaves for dashboards: OpenMetrics by its grammar, and the line protocol read back by its rules."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ioassay.errors import UsageError
from ioassay.packs.history import history_export, history_store
from ioassay.packs.history.history_store import Store
from ioassay.records.record import Environment

ODD = ['a,b c=d "e" \\', "line\nfeed", "µ é", "plain"]
"""Levels with all that needs an escape somewhere."""
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"'
SAMPLE = re.compile(rf"({NAME})\{{((?:{LABEL})(?:,{LABEL})*)\}} (\S+) (\d+\.\d+)")
METADATA = re.compile(rf"# (TYPE|UNIT|HELP) ({NAME}) (.+)")


@pytest.fixture
def store(lab: Any, tmp_path: Path) -> Store:
    found = history_store.open(tmp_path)
    study = lab.study(
        "s",
        factors={"text": ODD, "target.size": [1], "condition": ["own"]},
        responses=["read.bw", "read.lat.p99", "read.iops"],
    )
    for place in (2, 1, 0):
        values = {"read.bw": 1e8 + place, "read.lat.p99": 2e6, "read.iops": 1e4, "_environment": unfit()}
        records = lab.records(lab.run(study, lambda *_, values=values: values, 2))
        times = records.trials.with_columns(started_unix_s=1.75e9 + 0.25 + 60 * place + pl.col("order"))
        found.add(replace(records, trials=times), label='of "x"')
    return found


def unfit() -> Environment:
    return Environment(10.0, processors=2, own_share=0.2, others_share=0.5, kernel_share=0.0, steal_share=0.0)


def families(lines: list[str]) -> dict[str, dict[str, Any]]:
    """OpenMetrics text by its grammar: metadata before samples, a family and a series in one piece, times that rise."""
    assert lines[-1] == "# EOF"
    found: dict[str, dict[str, Any]] = {}
    current, series, last = "", "", 0.0
    for line in lines[:-1]:
        if metadata := METADATA.fullmatch(line):
            kind, name, text = metadata.groups()
            if kind == "TYPE":
                assert name not in found
                found[name] = {"samples": [], "series": []}
                current = name
            assert name == current and not found[name]["samples"] and kind not in found[name]
            found[name][kind] = text
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        name, labels = sample[1], sample[2]
        assert name == current
        of = dict(re.findall(LABEL, labels))
        assert len(of) == len(re.findall(LABEL, labels)), "a label twice"
        if labels != series or not found[name]["samples"]:
            assert labels not in found[name]["series"], "a series in one piece"
            found[name]["series"].append(labels)
            series, last = labels, 0.0
        value, moment = float(sample[sample.lastindex - 1]), float(sample[sample.lastindex])
        assert moment > last
        last = moment
        plain = {key: re.sub(r"\\(.)", lambda hit: {"n": "\n"}.get(hit[1], hit[1]), text) for key, text in of.items()}
        found[name]["samples"].append((plain, value, moment))
    for name, family in found.items():
        assert "UNIT" not in family or name.endswith(f"_{family['UNIT']}")
    return found


def test_openmetrics_text_keeps_to_its_grammar(store: Store) -> None:
    found = families([*history_export.text(store, "openmetrics", None, None, {})])
    named = {"read_bw_bytes_per_second", "read_lat_p99_seconds", "read_iops", "conditions_grade"}
    assert found.keys() == {f"ioassay_{name}" for name in named}
    samples = found["ioassay_read_bw_bytes_per_second"]["samples"]
    assert len(samples) == 3 * len(ODD)
    assert {labels["text"] for labels, *_ in samples} == {*ODD}
    labels, value, moment = next(one for one in samples if one[0]["text"] == "plain")
    assert (labels["study"], labels["factor_condition"], labels["target_size"]) == ("s", "own", "1")
    assert (value, moment) == (1e8, 1.75e9 + 0.25)
    assert {value for _, value, _ in found["ioassay_read_lat_p99_seconds"]["samples"]} == {2e-3}
    grades = found["ioassay_conditions_grade"]
    assert grades["HELP"] == "0 fit, 1 doubtful, 2 unfit"
    assert [value for _, value, _ in grades["samples"]] == [2.0] * 3


def test_values_are_chosen(store: Store) -> None:
    lines = [*history_export.text(store, "openmetrics", "s", "read.iops", {"run": store.runs()["run"][1]})]
    assert len(families(lines)["ioassay_read_iops"]["samples"]) == len(ODD)
    assert [*history_export.text(store, "openmetrics", "another", None, {})] == ["# EOF"]
    assert [*history_export.text(store, "influx", "another", None, {})] == []


def test_two_runs_of_one_series_at_one_instant_are_named(lab: Any, tmp_path: Path) -> None:
    store = history_store.open(tmp_path)
    for value in (1e8, 2e8):
        store.add(lab.records(lab.run(lab.study("s"), lambda *_, value=value: {"read.bw": value}, 2)))
    with pytest.raises(UsageError, match="began at the same instant; choose one with --where run="):
        list(history_export.text(store, "openmetrics", None, None, {}))


def parts(line: str, separator: str) -> list[str]:
    """A line parted where a separator is neither escaped nor in quotes, as InfluxDB reads it."""
    return re.findall(rf'(?:\\.|"(?:\\.|[^"\\])*"|[^\\{separator}])+', line)


def test_the_line_protocol_escapes_what_parts_it(store: Store) -> None:
    lines = [*history_export.text(store, "influx", None, None, {})]
    assert len(lines) == 3 * 3 * len(ODD)
    assert not [line for line in lines if "\n" in line]
    texts = set()
    for line in lines:
        series, fields, moment = parts(line, " ")
        measurement, *tags = parts(series, ",")
        assert measurement in ("read.bw", "read.lat.p99", "read.iops")
        named = dict(parts(tag, "=") for tag in tags)
        texts.add(re.sub(r"\\([,= ])", r"\1", named["text"]))
        assert named.keys() == {"study", "condition", "text", "target_size", "factor_condition"}
        values = dict(parts(field, "=") for field in parts(fields, ","))
        assert values.keys() == {"mean", "n", "run", "grade", "commit"}
        assert (values["n"], values["grade"], values["commit"]) == ("2i", '"unfit"', r'"of \"x\""')
        assert re.fullmatch(r"1750000\d{12}", moment)
        assert int(moment) % 10**9 == 250_000_000
    assert texts == {'a,b c=d "e" /', "line feed", "µ é", "plain"}
