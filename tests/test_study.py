"""A study's table: what is accepted, what each mistake is told, and what options of a run change in it."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ioassay.errors import StudyError, UsageError
from ioassay.study import catalog
from ioassay.study.model import Study, check_scales, make_study

from .corpora import cases, has

PUBLISHED = json.loads((Path(__file__).parent.parent / "docs" / "study.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(PUBLISHED)


def make(without: tuple[str, ...] = (), stored: bool = False, **changes: Any) -> Study:
    table = {"name": "s", "title": "S", "driver": "null", "repetitions": 2, **changes}
    return make_study({key: value for key, value in table.items() if key not in without}, "s.toml", stored=stored)


@cases("studies", "mistakes")
def test_a_mistake_is_named_with_file_key_and_value(case: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=case["message"]):
        make(case.get("without", ()), case.get("stored", False), **case["study"])


def test_units_are_understood() -> None:
    study = make(without=("repetitions",), until={"metric": "read.bw", "ci": "5%"}, run={"timeout": "2m"})
    assert study.until is not None
    assert (study.until.ci, study.until.max, study.max_repetitions) == (0.05, 30, 30)
    assert study.run.timeout == 120


def test_the_published_schema_is_the_models() -> None:
    assert catalog.schema() == PUBLISHED, "renew it: ./ioassay studies --schema > docs/study.schema.json"


@pytest.mark.parametrize("part", ["", *PUBLISHED["$defs"]])
def test_each_key_of_the_schema_says_what_it_means(part: str) -> None:
    """In whole sentences, which editors show next to the key."""
    rules = (PUBLISHED["$defs"][part] if part else PUBLISHED)["properties"]
    assert [key for key, rule in rules.items() if not rule.get("description", "").endswith(".")] == []
    sentences = {key: re.split(r"(?<=[.;]) ", " ".join(rule["description"].split())) for key, rule in rules.items()}
    assert {key: one for key, text in sentences.items() for one in text if len(one.split()) > 25} == {}
    assert [key for key, text in sentences.items() if not text[0][0].isupper() and text[0][0] != "`"] == []


@pytest.mark.parametrize("path", catalog.builtin().values(), ids=lambda path: path.stem)
def test_the_schema_accepts_built_in_studies(path: Path) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(tomllib.loads(path.read_text()))] == []


@cases("studies", "schema")
def test_the_schema_accepts_what_a_study_may_have(case: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(case["study"]) is case["accepted"]


@cases("studies", "levels")
def test_one_level_under_two_spellings_is_refused_and_look_alikes_are_levels(case: dict[str, Any]) -> None:
    factors = {case["factor"]: case["levels"]}
    if "same" not in case:
        assert make(factors=factors).factors == factors
        return
    for place, refuse in (
        ("factors", lambda: make(factors=factors)),
        ("scale.quick.factors", lambda: check_scales({"quick": {"factors": factors}}, "s.toml")),
    ):
        with pytest.raises(StudyError) as caught:
            refuse()
        assert str(caught.value).startswith(f"s.toml: {place}.{case['factor']}: ")
        assert case["same"] in str(caught.value)


def test_names_of_cases_are_compared_as_they_are_written() -> None:
    names = [{"name": "1k", "bs": "4k"}, {"name": "1024", "bs": "4kB"}, {"name": "A"}, {"name": "a"}]
    assert [case["name"] for case in make(case=names).case] == ["1k", "1024", "A", "a"]


def test_a_study_that_was_run_before_may_list_a_level_twice() -> None:
    """Runs that older versions made can be reported as long as they are there."""
    levels = ["4k", "4KiB"]
    assert make(factors={"bs": levels}, case=[{"name": "a"}], stored=True).factors == {"bs": levels}


TABLE = {
    "name": "s",
    "until": {"metric": "read.bw"},
    "params": {"bs": "4k", "runtime": "10s"},
    "factors": {"rw": ["read"]},
    "scale": {"quick": {"repetitions": 3, "params": {"runtime": "1s"}, "target": {"size": "1M"}}},
}
SUITE = [
    {"name": "sweep", "factors": {"workers": [1, 2, 4]}},
    {"name": "fixed", "params": {"workers": 3}, "factors": {"method": ["a", "b"]}},
]


@cases("studies", "changes")
def test_options_change_what_they_name_and_nothing_else(case: dict[str, Any]) -> None:
    tables = case.get("studies", SUITE if case.get("suite") else [TABLE])
    before = repr(tables)
    options = {
        "scale": case.get("scale", catalog.FULL),
        "settings": case.get("set", ()),
        "factors": case.get("factor", ()),
        "repetitions": case.get("repetitions"),
    }
    if "refused" in case:
        with pytest.raises(UsageError, match=re.escape(case["refused"])):
            catalog.adjusted_all(tables, **options)
    else:
        found, told = catalog.adjusted_all(tables, **options)
        assert has(list(found), case["becomes"])
        assert [key for key in case.get("lacks", ()) if key in found[0]] == []
        assert [warning.text for warning in told] == case.get("told", [])
    assert repr(tables) == before
