"""The tables of a run as files, and its summary in Markdown: what is in them, and what is not once redacted."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import ioassay as ia
from ioassay.analysis.headline import ConditionMean
from ioassay.narrative.answers import Answer
from ioassay.report import markdown_summary
from ioassay.store.table_files import TABLES

SECRET = "/srv/hidden-customer/data"
STUDY = {
    "driver": "null",
    "title": "A | study",
    "repetitions": 3,
    "params": {"noise": 0.01},
    "factors": {"x": [1, 2], "place": [f"{SECRET}/a", "b"]},
    "watch": {"monitors": []},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ia.Run:
    study = ia.Study(**STUDY)
    return study.run(tmp_path_factory.mktemp("tabular") / "run")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_parquet_has_every_table_as_it_is_in_python(run: ia.Run) -> None:
    files = run.export_tables()
    assert files.path == Path("run-parquet")
    assert files.rows == {**dict.fromkeys(TABLES, 0), "trials": 12}
    assert sorted(path.name for path in files.path.iterdir()) == sorted(
        ["schema.json", *(f"{name}.parquet" for name in TABLES)]
    )
    assert pl.read_parquet(files.path / "trials.parquet").equals(run.trials)


def test_the_schema_has_units_of_columns_and_directions_of_metrics(run: ia.Run) -> None:
    schema = json.loads((run.export_tables().path / "schema.json").read_text())
    columns = {column["name"]: column for column in schema["tables"]["trials"]["columns"]}
    assert columns["duration_s"] == {"name": "duration_s", "type": "Float64", "unit": "s"}
    assert schema["metrics"]["value"] == {"label": "Value", "unit": "", "better": "higher"}
    assert set(schema["factors"]) == {"x", "place"}
    assert {column["unit"] for column in schema["tables"]["hist"]["columns"] if column["name"] == "value_ns"} == {"ns"}


def test_csv_is_a_folder_or_the_trials_alone(run: ia.Run) -> None:
    assert (run.export_tables(format="csv").path / "warnings.csv").read_text().startswith("study,trial,code")
    alone = run.export_tables("trials.csv", format="csv")
    assert (alone.path, dict(alone.rows)) == (Path("trials.csv"), {"trials": 12})
    assert pl.read_csv("trials.csv")["value"].to_list() == run.trials["value"].to_list()
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_nothing_of_a_secret_is_left_where_tables_and_summary_are_redacted(run: ia.Run) -> None:
    open_tables = run.export_tables("open.csv", format="csv")
    assert SECRET in open_tables.path.read_text()
    for name, format in (("hidden.csv", "csv"), ("hidden", "parquet")):
        files = run.export_tables(name, format=format, redact=True)
        assert files.redacted and sum(files.replaced.values()) > 0
    text = Path("hidden.csv").read_text() + str(pl.read_parquet("hidden/trials.parquet").to_dicts())
    assert "hidden-customer" not in text
    assert "redacted-folder" in text
    assert "hidden-customer" in run.markdown()
    assert "hidden-customer" not in run.markdown(redact=True)


def test_the_summary_has_a_row_for_each_condition_with_intervals(run: ia.Run) -> None:
    title, *_ = lines = run.markdown().splitlines()
    assert title == "## A \\| study"
    assert "12 trials: 12 ok." in lines
    head = lines.index("| x | place | Value | n |")
    rows = lines[head + 2 : head + 6]
    assert all(row.startswith("| ") and " to " in row and row.endswith(" | 3 |") for row in rows)
    assert lines[-1] == "Means with 95 % intervals (Student's t)."


def test_text_of_files_does_not_format_the_summary() -> None:
    mean = ConditionMean("s", "x", {"x": "a|b\n<img>"}, "read.bw", "bytes/s", 1e6, 1e6, None, 1)
    text = markdown_summary.summary("*t* @someone", ["one", ""], [Answer("s", "", ["[l](u)"])], [mean])
    assert text == (
        "## \\*t\\* @\u2060someone\n\none\n\n- \\[l\\](u)\n\n"
        "| x | Read bandwidth | n |\n|---|---|---:|\n| a\\|b \\<img\\> | 1 MB/s | 1 |\n"
    )


def test_what_is_there_is_kept_and_other_formats_are_refused(run: ia.Run) -> None:
    Path("there").write_text("precious")
    with pytest.raises(ia.UsageError, match="there: exists already"):
        run.export_tables("there")
    with pytest.raises(ia.UsageError, match="--format xml: wanted parquet, csv"):
        run.export_tables(format="xml")
    with pytest.raises(ia.UsageError, match="own folder"):
        run.export_tables(run.root / "tables")
    assert Path("there").read_text() == "precious"
