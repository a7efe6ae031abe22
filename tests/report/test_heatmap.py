"""Figures of the kind `heatmap`: cells and numbers, colours, empty and failed cells, panels, sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic
from charts import check_files, layers, mark, rows, styled, subtitle

from ioassay.errors import StudyError
from ioassay.records.record import Claim
from ioassay.report import figures, page
from ioassay.store.dataset import Dataset

METRIC = "write.bw"
TABLE = {"kind": "heatmap", "name": "a", "x": "record_size", "y": "file_size", "value": METRIC}
FILES = [64 * 1024, 2**20, 32 * 2**20]
RECORDS = [4096, 64 * 1024, 2**20]
Measure = Callable[[Mapping[str, Any]], float | str | None]


def matrix(measure: Measure, repetitions: int = 2, **factors: list[Any]) -> Dataset:
    """A study over file and record sizes; `measure` gives bytes/s, the reason of a failure, or None: not run."""
    import polars as pl

    axes = {"file_size": FILES, "record_size": RECORDS, **factors}
    study = synthetic.study("s", "S", axes, [])
    found = []
    for number, (repetition, *levels) in enumerate(itertools.product(range(repetitions), *axes.values())):
        point = dict(zip(axes, levels, strict=True))
        given = measure(point)
        if given is not None:
            row = {"study": "s", "trial": f"t{number}", "repetition": repetition, "order": number}
            row |= {"started_unix_s": 1.7e9, "duration_s": 1.0, **point}
            failed = isinstance(given, str)
            row |= {"status": "failed" if failed else "ok", "reason": given if failed else ""}
            found.append({**row, METRIC: None if failed else float(given)})
    base = synthetic.run(Path(), [study], 1)
    return replace(base, trials=pl.DataFrame(found, infer_schema_length=None))


def crossed(point: Mapping[str, Any]) -> float | None:
    """As IOzone runs it: records up to the file's size, none below 64 KiB from 32 MiB on."""
    if point["record_size"] > point["file_size"] or (point["file_size"] >= 2**25 and point["record_size"] < 2**16):
        return None
    return float(1e6 * (point["record_size"] / 4096))


def draw(records: Dataset, **keys: Any) -> figures.Drawn:
    return synthetic.draw(records, records.studies[0], {**TABLE, **keys})


def cells(drawn: figures.Drawn) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["group"], row["level"]): row for layer in styled(drawn.spec, "cell") for row in rows(layer)}


def test_each_combination_is_a_cell_with_the_mean_of_its_repetitions() -> None:
    values = itertools.cycle([1e6] * 9 + [3e6] * 9)
    drawn = draw(matrix(lambda _: next(values)))
    assert drawn.problem == ""
    found = cells(drawn)
    assert len(found) == 9
    assert found["1024 KiB", "64 KiB"]["value"] == pytest.approx(2)
    assert found["1024 KiB", "64 KiB"]["n"] == 2
    assert "MB/s" in found["1024 KiB", "64 KiB"]["mean_text"]


def test_what_was_not_run_is_empty_with_a_dashed_edge_and_no_colour() -> None:
    drawn = draw(matrix(crossed))
    (empty,) = [layer for layer in styled(drawn.spec, "empty") if "strokeDash" in mark(layer)]
    assert {(row["group"], row["level"]) for row in rows(empty)} == {
        ("64 KiB", "1024 KiB"), ("32 MiB", "4 KiB"),
    }  # fmt: skip
    assert mark(empty)["filled"] is False
    assert "color" not in empty["encoding"]
    assert "dashed: not run" in subtitle(drawn.spec)
    assert "dashed" not in subtitle(draw(matrix(lambda _: 1e6)).spec)


def test_a_cell_whose_trials_all_failed_has_a_cross_and_one_that_went_well_once_has_none() -> None:
    def failing(point: Mapping[str, Any]) -> float | str:
        return "no room left" if (point["file_size"], point["record_size"]) == (FILES[1], RECORDS[0]) else 1e6

    drawn = draw(matrix(failing))
    (cross,) = styled(drawn.spec, "failed")
    assert [(row["group"], row["level"]) for row in rows(cross)] == [("1024 KiB", "4 KiB")]
    assert "× failed" in subtitle(drawn.spec)
    assert "failed" in drawn.description
    seen: dict[str, int] = {}

    def once(point: Mapping[str, Any]) -> float | str:
        seen[str(point)] = seen.get(str(point), 0) + 1
        return "no room left" if seen[str(point)] == 1 else 1e6

    assert styled(draw(matrix(once)).spec, "failed") == []


def test_sizes_ascend_to_the_right_and_upwards_with_their_unit() -> None:
    drawn = draw(matrix(lambda _: 1e6, record_size=RECORDS[::-1]))
    (layer,) = styled(drawn.spec, "cell")
    x, y = layer["encoding"]["x"], layer["encoding"]["y"]
    assert x["sort"] == ["4 KiB", "64 KiB", "1024 KiB"] and y["sort"] == ["32 MiB", "1024 KiB", "64 KiB"]
    assert x["title"] == "Record size"


def test_words_are_categories_of_one_width_in_the_studys_order() -> None:
    drawn = draw(matrix(lambda _: 1e6, test=["write", "read"]), x="test", where={"record_size": 4096})
    x = styled(drawn.spec, "cell")[0]["encoding"]["x"]
    assert x["type"] == "nominal"
    assert x["sort"] == ["write", "read"]


def test_numbers_stand_where_there_is_room_and_can_be_read_on_their_colour() -> None:
    drawn = draw(matrix(crossed))
    dark, bright = ([row["text"] for layer in styled(drawn.spec, style) for row in rows(layer)]
                    for style in ("on-dark", "on-bright"))  # fmt: skip
    assert "1.00" in dark
    assert "256" in bright
    assert len(dark) + len(bright) == len(cells(drawn))
    assert styled(draw(matrix(crossed), numbers=False).spec, "on-dark") == []
    assert styled(draw(matrix(crossed), width=100, height=80, x="file_size", y="record_size").spec, "on-bright")
    many = matrix(lambda _: 123e6, test=[f"t{number}" for number in range(12)])
    assert styled(draw(many, x="test", width=100).spec, "on-bright") == []


@pytest.mark.parametrize("dark", [True, False])
def test_colours_are_the_same_on_both_papers_since_the_numbers_on_them_are(dark: bool) -> None:
    assert page.config(dark)["range"]["heatmap"] == page.config(not dark)["range"]["heatmap"]
    assert page.config(dark)["style"]["on-dark"] == page.config(not dark)["style"]["on-dark"]


def test_colours_are_logarithmic_where_asked_and_possible() -> None:
    def scale(records: Dataset) -> tuple[str, str]:
        drawn = draw(records, log=True)
        return styled(drawn.spec, "cell")[0]["encoding"]["color"]["scale"]["type"], subtitle(drawn.spec)

    assert scale(matrix(crossed))[0] == "log"
    kind, said = scale(matrix(lambda point: 0.0 if point["record_size"] == 4096 else 1e6))
    assert kind == "linear"
    assert "a value is zero or less" in said


def test_panels_share_their_colours_and_name_their_levels() -> None:
    records = matrix(crossed, test=["write", "read", "reread"], folder=[".", "/dev/shm"])
    drawn = draw(records, panel="test", row="folder")
    titles = [[panel["title"]["text"] for panel in row["hconcat"]] for row in drawn.spec["vconcat"]]
    assert titles == [
        [f"{test}, {folder}" for test in ("write", "read", "reread")] for folder in (".", "/dev/shm")
    ]  # fmt: skip
    domains = {tuple(layer["encoding"]["color"]["scale"]["domain"]) for layer in styled(drawn.spec, "cell")}
    assert len(domains) == 1
    alone = draw(records, panel="test", where={"folder": "."}, columns=2)
    assert [len(row["hconcat"]) for row in alone.spec["vconcat"]] == [2, 1]
    assert "all levels of" in subtitle(draw(records, panel="test").spec)


@pytest.mark.parametrize(
    "keys", [{}, {"panel": "test"}, {"x": "test"}, {"log": True}, {"where": {"file_size": "1MiB"}}]
)
def test_it_is_rendered(tmp_path: Path, keys: dict[str, Any]) -> None:
    def measure(point: Mapping[str, Any]) -> float | str | None:
        return "broken" if point["record_size"] == RECORDS[1] else crossed(point)

    check_files(draw(matrix(measure, test=["write", "read"]), **keys), tmp_path)


@pytest.mark.parametrize("value", [0.0, 5e6])
def test_a_single_value_is_drawn(tmp_path: Path, value: float) -> None:
    drawn = draw(matrix(lambda _: value, 1), log=True, where={"file_size": FILES[0], "record_size": 4096})
    assert len(list(layers(drawn.spec))) > 1
    assert "NaN" not in page.svg(drawn.spec)


@pytest.mark.parametrize(
    ("keys", "why"),
    [({"value": "read.bw"}, "read.bw"), ({"panel": "colour"}, "colour"), ({"where": {"file_size": 7}}, "file_size")],
)
def test_what_cannot_be_drawn_says_why(keys: dict[str, Any], why: str) -> None:
    assert why in draw(matrix(crossed), **keys).problem


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"color": "test"}, r"unknown key of a figure of kind 'heatmap'; known: .*panel"),
        ({"columns": 9}, "columns"),
        ({"height": 79}, "height"),
        ({"log": "perhaps"}, "log"),
    ],
)
def test_a_bad_key_is_refused_by_name(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        figures.check(synthetic.study("s", "S", {}, [{**TABLE, **keys}]))


@pytest.mark.parametrize("key", ["x", "y", "value"])
def test_a_key_that_it_needs_is_asked_for(key: str) -> None:
    table = {name: value for name, value in TABLE.items() if name != key}
    with pytest.raises(StudyError, match=rf"figures\.a\.{key}: is missing"):
        figures.check(synthetic.study("s", "S", {}, [table]))


def timed(tests: Mapping[str, float]) -> Dataset:
    """One trial whose tool timed each test over two sizes, at so many bytes/s times the records of 4 KiB."""
    import polars as pl

    base = matrix(lambda _: None if _["record_size"] > 4096 or _["file_size"] > FILES[0] else 1e6, 1)
    study = base.studies[0].model_copy(update={"factors": {}})
    trials = base.trials.drop("file_size", "record_size").head(1)
    claims = [
        Claim("filesuite", "write", test=test, bytes=size, rate_bytes_per_s=rate * size / 4096, file_bytes=size,
              record_bytes=4096)
        for test, rate in tests.items() for size in FILES[:2]
    ]  # fmt: skip
    assert isinstance(trials, pl.DataFrame)
    return replace(base, studies=[study], trials=trials, claims={trials["trial"][0]: claims})


def test_passes_are_drawn_as_if_each_were_a_trial(tmp_path: Path) -> None:
    records = timed({"write": 1e6, "rewrite": 2e6})
    drawn = draw(records, of="passes", value="pass.bw", panel="test")
    assert drawn.problem == ""
    assert {key: row["n"] for key, row in cells(drawn).items()} == {("64 KiB", "4 KiB"): 1, ("1024 KiB", "4 KiB"): 1}
    assert "Bandwidth over record size and file size" in drawn.title
    bar = {"kind": "bar", "name": "b", "of": "passes", "x": "test", "y": "pass.bw", "where": {"file_size": "64KiB"}}
    shown = synthetic.draw(records, records.studies[0], bar)
    assert [row["mean_text"] for layer in styled(shown.spec, "bar") for row in rows(layer)] == ["16 MB/s", "32 MB/s"]


def test_a_study_whose_tool_times_no_passes_says_so() -> None:
    assert "timed passes of its own" in draw(matrix(crossed), of="passes", value="pass.bw").problem
