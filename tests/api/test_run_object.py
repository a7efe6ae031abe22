"""Runs as objects: frames, findings, figures, SQL, the page, comparison; and their tables and summary as files."""

import json
import os
import tarfile
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ioassay as ia
from ioassay.analysis.descriptive import ConditionMean
from ioassay.api.publication import TABLES
from ioassay.narrative.finding import Answer
from ioassay.report import tables
from ioassay.roles import Trial
from ioassay.study.model import Suite

from .conftest import HOSTILE, computed


class Watching(ia.Progress):
    """Remembers what it was told, and raises an error when so many trials have ended."""

    def __init__(self, error: type[BaseException] = KeyboardInterrupt, after: int = 100) -> None:
        self.error, self.after = error, after
        self.told: list[tuple[str, object]] = []

    def opened(self, folder: Path, suite: Suite, trials: Iterable[Trial]) -> None:
        self.told += [("folder", folder), ("title", suite.title), ("plan", len(list(trials)))]

    def planned(self, trials: int, seconds: float) -> None:
        self.told.append(("planned", trials))
        assert seconds >= 0

    def started(self, trial: Trial) -> None:
        self.told.append(("started", trial.study))

    def ended(self, trial: Trial, status: str) -> None:
        self.told.append(("ended", status))
        if len(self.of("ended")) == self.after:
            raise self.error("mine")

    def of(self, kind: str) -> list[object]:
        return [value for name, value in self.told if name == kind]


def test_frames_have_every_trial_and_the_run_says_how_they_ended(run: ia.Run) -> None:
    assert run.trials.height == 6 and set(run.trials["status"]) == {"ok"}
    assert {"study", "trial", "x", "value"} <= set(run.trials.columns)
    assert (run.failed, run.contradicted, run.tally.ok) == (0, 0, 6)
    assert run.claims.columns[:3] == ["study", "trial", "condition"] and run.claims.is_empty()
    assert repr(run) == f"<Run {run.root}: 6 trials: 6 ok>"


def test_a_folder_gives_the_run_again(run: ia.Run) -> None:
    again = ia.open(run.root)
    assert again.trials.equals(run.trials) and again.findings == run.findings
    assert again.tally == run.tally and type(again) is ia.Run


def test_a_figure_is_a_chart_that_altair_accepts(run: ia.Run) -> None:
    assert run.figures == ["value_by_x"]
    assert run.figure("value_by_x").to_dict()["config"]["font"]


def test_sql_answers_with_a_frame(run: ia.Run) -> None:
    found = run.sql("SELECT x, count(*) AS n FROM trials GROUP BY x ORDER BY x")
    assert found.to_dicts() == [{"x": 1, "n": 3}, {"x": 2, "n": 3}]


def test_the_page_is_written_and_the_findings_stay_and_nothing_is_printed(
    run: ia.Run, capfd: pytest.CaptureFixture[str]
) -> None:
    before = run.findings
    page = run.report()
    assert page == run.root / "report" / "index.html" and page.is_file()
    assert (page.parent / "figures" / "value_by_x.svg").is_file()
    assert run.findings == before and run.as_dict()["trials"]["ok"] == 6
    assert capfd.readouterr() == ("", "")


def test_text_of_a_study_never_becomes_html(run: ia.Run) -> None:
    for shown in (run._repr_html_(), *(finding._repr_html_() for finding in run.findings)):
        assert "<script>" not in shown
    assert run.title == HOSTILE and "&lt;script&gt;" in run._repr_html_()


def test_who_looks_on_is_told_first_of_folder_and_plan_and_an_interrupted_run_goes_on_where_it_stopped() -> None:
    watching, rest = Watching(after=2), Watching()
    with pytest.raises(ia.Interrupted, match="ioassay run --resume out"):
        computed().run("out", progress=watching, workers=1)
    wanted = [("folder", Path("out")), ("title", HOSTILE), ("plan", 6), ("planned", 6), ("started", "study")]
    assert watching.told[:5] == wanted
    stopped = ia.open("out")
    assert stopped.trials.height < 6 and "without a record" in repr(stopped)
    assert stopped.resume(progress=rest).tally.ok == 6
    assert rest.of("ended").count("kept") == stopped.trials.height


def test_an_exception_of_a_progress_ends_the_run_with_itself() -> None:
    with pytest.raises(ValueError, match="mine"):
        computed().run("out", progress=Watching(ValueError, 1))
    assert ia.open("out").resume().failed == 0


def test_trials_are_computed_by_any_executor_which_is_left_open(run: ia.Run) -> None:
    with ThreadPoolExecutor(2) as executor:
        elsewhere = computed().run("out", executor=executor)
        assert executor.submit(os.getpid).result() > 0
    assert elsewhere.trials.select("trial", "x", "value").equals(run.trials.select("trial", "x", "value"))


def test_a_call_that_an_executor_gives_up_ends_the_run() -> None:
    class Lazy(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with pytest.raises(ia.RunError, match="the executor cancelled a trial; everything recorded before is kept"):
        computed().run("out", executor=Lazy())


def test_a_comparison_has_a_row_for_each_condition_and_one_sentence_and_prints_nothing(
    run: ia.Run, capfd: pytest.CaptureFixture[str]
) -> None:
    slower = computed(params={"noise": 0.01, "value": 50}).run("slower")
    found = ia.compare(run, slower, margin=0.1)
    assert found.rows.height == 2 and found.rows["ratio"].to_list() == pytest.approx([0.5, 0.5], rel=0.05)
    assert found.verdict.startswith("The two runs differ")
    assert ia.compare(run.root, str(run.root)).verdict.startswith("The two runs are the same")
    assert found.report("page").is_file() and "<testsuite" in found.junit()
    assert "<script>" not in found._repr_html_()
    assert capfd.readouterr() == ("", "")


def test_a_search_has_its_best_point_and_can_be_opened_again() -> None:
    study = computed(factors={"x": [1, 2, 3]}, params={"noise": 0.001, "effects": {"x": {"3": 2.0}}}, repetitions=2)
    found = ia.tune(study, maximize="value", listed=True, trials=3, confirm=2, output="search", seed=1)
    assert found.history.height >= 3 and set(found.best or {}) == {"x"}
    again = ia.open("search")
    assert isinstance(again, ia.Search) and again.best == found.best and again.request.seed == 1
    assert again.resume().best == found.best


def test_an_exported_run_is_a_run_for_its_reader_and_names_nobody_where_it_is_redacted(
    run: ia.Run, capfd: pytest.CaptureFixture[str]
) -> None:
    bundle, redacted = run.export(), run.export("shared.tgz", redact=True)
    assert capfd.readouterr() == ("", "")
    assert bundle.path == Path("run.tar.gz") and bundle.bytes == bundle.path.stat().st_size > 1000
    for each, folder in ((bundle, "reader"), (redacted, "shared")):
        with tarfile.open(each.path) as archive:
            assert len(archive.getnames()) == each.manifest.files
            archive.extractall(folder)
    assert ia.open("reader/run").trials.equals(run.trials) and not bundle.manifest.redacted
    (reader,) = Path("shared").iterdir()
    texts = [path.read_text() for path in reader.rglob("*") if path.suffix in (".json", ".jsonl", ".toml")]
    assert redacted.manifest.redacted and sum(redacted.manifest.replaced.values()) > 0
    assert texts and not any(str(run.root.parent) in text for text in texts)
    assert (reader / "report" / "index.html").is_file()


def test_ctrl_c_while_a_study_is_examined_is_no_bare_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    from ioassay.runner import preflight

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(preflight, "examine", interrupted)
    for run in (lambda: computed().run("out"), lambda: ia.tune(computed(), maximize="value", trials=3)):
        with pytest.raises(ia.Interrupted, match="before the first trial"):
            run()
    assert not Path("out").exists()


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
def hidden(tmp_path_factory: pytest.TempPathFactory) -> ia.Run:
    """A run with a secret in a factor."""
    return ia.Study(**STUDY).run(tmp_path_factory.mktemp("tabular") / "run")


def test_parquet_has_every_table_as_it_is_in_python_and_a_schema_of_units_and_directions(hidden: ia.Run) -> None:
    files = hidden.export_tables()
    assert files.path == Path("run-parquet")
    assert files.rows == {**dict.fromkeys(TABLES, 0), "trials": 12}
    assert sorted(path.name for path in files.path.iterdir()) == sorted(
        ["schema.json", *(f"{name}.parquet" for name in TABLES)]
    )
    assert pl.read_parquet(files.path / "trials.parquet").equals(hidden.trials)
    schema = json.loads((files.path / "schema.json").read_text())
    columns = {column["name"]: column for column in schema["tables"]["trials"]["columns"]}
    assert columns["duration_s"] == {"name": "duration_s", "type": "Float64", "unit": "s"}
    assert schema["metrics"]["value"] == {"label": "Value", "unit": "", "better": "higher"}
    assert set(schema["factors"]) == {"x", "place"}
    assert {column["unit"] for column in schema["tables"]["hist"]["columns"] if column["name"] == "value_ns"} == {"ns"}


def test_csv_is_a_folder_or_the_trials_alone(hidden: ia.Run) -> None:
    assert (hidden.export_tables(format="csv").path / "warnings.csv").read_text().startswith("study,trial,code")
    alone = hidden.export_tables("trials.csv", format="csv")
    assert (alone.path, dict(alone.rows)) == (Path("trials.csv"), {"trials": 12})
    assert pl.read_csv("trials.csv")["value"].to_list() == hidden.trials["value"].to_list()
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_nothing_of_a_secret_is_left_where_tables_and_summary_are_redacted(hidden: ia.Run) -> None:
    open_tables = hidden.export_tables("open.csv", format="csv")
    assert SECRET in open_tables.path.read_text()
    for name, format in (("hidden.csv", "csv"), ("hidden", "parquet")):
        files = hidden.export_tables(name, format=format, redact=True)
        assert files.redacted and sum(files.replaced.values()) > 0
    text = Path("hidden.csv").read_text() + str(pl.read_parquet("hidden/trials.parquet").to_dicts())
    assert "hidden-customer" not in text
    assert "redacted-folder" in text
    assert "hidden-customer" in hidden.markdown()
    assert "hidden-customer" not in hidden.markdown(redact=True)


def test_the_summary_has_a_row_for_each_condition_with_intervals(hidden: ia.Run) -> None:
    title, *_ = lines = hidden.markdown().splitlines()
    assert title == "## A \\| study"
    assert "12 trials: 12 ok." in lines
    head = lines.index("| Condition | n | Value |")
    rows = lines[head + 2 : head + 6]
    assert all(row.startswith("| ") and " | 3 | " in row and " to " in row for row in rows)
    assert lines[-1] == "Means with 95 % intervals."


def test_text_of_files_does_not_format_the_summary() -> None:
    mean = ConditionMean("s", "a|b\n<img>", {"x": "a|b\n<img>"}, "read.bw", "bytes/s", 1e6, 1e6, None, 1)
    text = tables.markdown("*t* @someone", ["one", ""], [Answer("s", "", ["[l](u)"])], [mean])
    assert text == (
        "## \\*t\\* @\u2060someone\n\none\n\n- \\[l\\](u)\n\n"
        "| Condition | n | Read bandwidth |\n|---|---:|---:|\n| a\\|b \\<img\\> | 1 | 1 MB/s |\n"
    )
