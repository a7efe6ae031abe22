"""Finding and reading studies: built-in names, files, suites; and the near names that refusals suggest."""

import tomllib
from pathlib import Path

import pytest
import tomli_w

from ioassay import hints
from ioassay.api.study import Study
from ioassay.errors import IoassayError, StudyError
from ioassay.study import catalog, plan

from .corpora import CORPUS, cases

STUDY = 'title = "T"\ndriver = "null"\nrepetitions = 2\n'


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_the_suite_of_study_a_has_its_trials() -> None:
    counts = plan.count(catalog.load("block-io"))
    assert counts == {"write-share": 180, "block-size": 110, "mixed-sizes": 80, "jobs": 50}


@pytest.mark.parametrize("name", list(catalog.builtin()))
def test_a_resolved_suite_reads_back_as_itself(name: str) -> None:
    suite = catalog.load(name, lambda table: catalog.scaled(table, "quick"))
    table = tomllib.loads(tomli_w.dumps(catalog.to_table(suite)))
    assert catalog.from_table(table, Path("study.toml")) == suite


@cases("studies", "names")
def test_any_file_name_gives_a_study_its_name(tmp_path: Path, case: dict[str, str]) -> None:
    suite = catalog.load(write(tmp_path / case["file"], STUDY))
    assert (suite.name, [study.name for study in suite.studies]) == (case["name"], [case["name"]])


def test_a_suite_takes_names_files_beside_it_and_inline_studies(tmp_path: Path) -> None:
    write(tmp_path / "mine.toml", STUDY)
    text = 'title = "All"\nsuite = ["mine.toml", "jobs"]\n[[study]]\nname = "inline"\n' + STUDY
    suite = catalog.load(write(tmp_path / "all.toml", text))
    assert [study.name for study in suite.studies] == ["mine", "jobs", "inline"]


def test_changes_reach_every_study_of_a_suite() -> None:
    suite = catalog.load("block-io", lambda table: {**table, "repetitions": 2})
    assert {study.repetitions for study in suite.studies} == {2}


@cases("studies", "bad_files")
def test_a_mistake_is_named(tmp_path: Path, case: dict[str, str]) -> None:
    write(tmp_path / "mine.toml", STUDY)
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    write(tmp_path / "brackets.toml", "x = " + "[" * 2000 + "]" * 2000)
    write(tmp_path / "bad.toml", case.get("text", ""))
    with pytest.raises(StudyError, match=case["says"].replace("{here}", str(tmp_path))):
        catalog.load(case.get("load", "{here}/bad.toml").replace("{here}", str(tmp_path)))


# What is suggested


STUDIES: dict[str, str] = tomllib.loads((CORPUS / "studies" / "near_names.toml").read_text())["studies"]


def test_the_nearest_name_is_suggested_or_all_are_named() -> None:
    assert hints.suggestion("lur", ["lru", "epo"]) == "did you mean 'lru'?"
    assert hints.suggestion("what", ["lru", "epo"]) == "known here: epo, lru"
    assert hints.suggestion("what", ["lru", "epo"], "see docs") == "see docs"


def test_a_message_that_named_all_ends_with_the_nearest_where_there_is_one() -> None:
    assert hints.nearest("lur", ["lru", "epo"]) == "; did you mean 'lru'?"
    assert hints.nearest("what", ["lru", "epo"]) == ""
    assert hints.nearest("lru", ["lru", "epo"]) == ""  # something else is wrong


@cases("studies", "near_names")
def test_a_study_is_refused_with_the_nearest_name(case: dict[str, str], tmp_path: Path) -> None:
    table = STUDIES.get(case.get("of", ""), "") + case["lines"]
    (tmp_path / "t.disksim").write_text("0.0 0 8 8 0\n")
    (tmp_path / "s.toml").write_text(table.replace("t.disksim", str(tmp_path / "t.disksim")))
    with pytest.raises(IoassayError, match=f"did you mean '{case['near']}'"):
        Study.read(tmp_path / "s.toml").plan()
