"""A study's table: what is accepted, and what each mistake is told."""

import datetime
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ioassay.errors import StudyError
from ioassay.study import catalog
from ioassay.study.model import Study, check_scales, make_study

DAY = datetime.date(1979, 5, 27)
PUBLISHED = json.loads((Path(__file__).parent.parent / "docs" / "study.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(PUBLISHED)


def table(**changes: Any) -> dict[str, Any]:
    return {"name": "s", "title": "S", "driver": "null", "repetitions": 2, **changes}


def make(**changes: Any) -> Study:
    return make_study(table(**changes), "s.toml")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repetition": 3}, "s.toml: repetition: unknown key; did you mean 'repetitions'?"),
        ({"watch": {"monitor": ["cpu"]}}, "s.toml: watch.monitor: unknown key; did you mean 'monitors'?"),
        ({"repetitions": "many"}, "repetitions: .*found 'many'"),
        ({"repetitions": 0}, "repetitions: .*greater than 0; found 0"),
        ({"factors": {"bs": []}}, "factors.bs: has no levels"),
        ({"factors": {"bs": ["4k", "4k"]}}, "factors.bs: level '4k' is listed twice"),
        ({"factors": {"host.x": [1]}}, "a dotted factor starts with target or run"),
        ({"factors": {"b s": [1]}}, "factors.b s: not a factor name"),
        ({"factors": {"bs": 4}}, "factors.bs: .*list"),
        ({"factors": {"case": [1]}}, "'case' is the factor made by"),
        ({"case": [{"bs": 1}]}, "case 1: has no 'name'"),
        ({"case": [{"name": "a"}, {"name": "a"}]}, "name 'a' is used twice"),
        ({"case": [{"name": "a", "bs": 1}], "factors": {"bs": [1]}}, "case 'a': 'bs' is also a factor"),
        ({"until": {"metric": "read.bw"}}, "has both 'repetitions' and 'until'"),
        ({"repetitions": None, "until": {"metric": "x", "min": 9, "max": 3}}, "min is 9, which is more than max = 3"),
        ({"repetitions": None, "until": {"metric": "x", "ci": "500%"}}, "until.ci: .*less than 1; found '500%'"),
        ({"run": {"timeout": "soon"}}, "run.timeout: 'soon' is not a duration"),
        ({"run": {"timeout": True}}, "run.timeout: not a duration"),
        ({"name": "a b"}, "name: .*pattern.*found 'a b'"),
        ({"figures": [{"kind": "bar", "name": "f"}, {"kind": "cdf", "name": "f"}]}, "name 'f' is used twice"),
        ({"seed": -1}, "seed: wanted a number greater than or equal to 0; found -1"),
        ({"title": 1}, "title: wanted text; found 1"),
        ({"watch": {"monitors": "cpu"}}, "watch.monitors: wanted a list; found 'cpu'"),
        ({"params": 1}, "params: wanted a table; found 1"),
        ({"params": {"day": DAY}}, "params: day = 1979-05-27: wanted text, a number, .*; found 1979-05-27"),
        ({"params": {"deep": [{"value": math.nan}]}}, "wanted a finite number"),
        ({"target": {"kind": "null", "day": DAY}}, "target: day = 1979-05-27: wanted text"),
        ({"factors": {"x": [DAY]}}, "factors.x.0: wanted a number, text, true or false; found 1979-05-27"),
        ({"factors": {"x": [1, math.nan]}}, "factors.x.1: wanted a finite number; found nan"),
        ({"factors": {"x": [2**64]}}, "factors.x.0: wanted a number that fits into 64 bits"),
        ({"factors": {"x": [1, 1.0]}}, "factors.x: levels 1 and 1.0 are the same, both mean 1; wanted one of them"),
        ({"factors": {"x": [True, "true"]}}, "factors.x: levels true and 'true' are the same"),
        ({"factors": {"status": [1, 2]}}, "factors.status: 'status' is a column of every table"),
        ({"factors": {"value": [1, 2]}}, "factors.value: 'value' is a metric"),
        ({"factors": {"run.bogus": [1]}}, "factors.run.bogus: known here: affinity, cooldown"),
        ({"factors": {"run.timeout": ["soon"]}}, "factors.run.timeout: 'soon' is not a duration"),
        ({"factors": {"run.governor": ["keep"]}}, "factors.run.governor: the governor holds for a whole run"),
        ({"case": [{"name": "a", "host.x": 1}]}, "case 'a': 'host.x': a dotted factor starts with target or run"),
        ({"case": [{"name": "a", "run.cooldown": "x"}]}, "case 'a': run.cooldown: 'x' is not a duration"),
        ({"run": {"cooldown": math.nan}}, "run.cooldown: 'nan' is not a duration"),
        ({"run": {"cooldown": math.inf}}, "run.cooldown: 'inf' is not a duration"),
        (
            {"repetitions": None, "until": {"metric": "x", "ci": "wide"}},
            "until.ci: not a share; wanted for example '5%'",
        ),
        ({"repetitions": 10**9}, "has 1000000000 trials; wanted 1000000 or fewer"),
        ({"factors": {f"f{n}": list(range(10)) for n in range(12)}}, "wanted 1000000 or fewer"),
    ],
)
def test_a_mistake_is_named_with_file_key_and_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        make(**changes)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(StudyError, match="s.toml: title: is missing"):
        make_study({"name": "s", "driver": "null"}, "s.toml")


def test_units_are_understood() -> None:
    study = make(repetitions=None, until={"metric": "read.bw", "ci": "5%"}, run={"timeout": "2m"})
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


@pytest.mark.parametrize(
    ("line", "accepted"),
    [
        ("run.timeout = '5m'", True),
        ("run.timeout = true", False),
        ("run.hosts = 'all'", True),
        ("until = { metric = 'read.bw', ci = '5%' }", True),
        ("until = { metric = 'read.bw', width = '5%' }", False),
        ("suite = ['jobs']", True),
        ("study = [{ title = 'x', driver = 'null', repetition = 3 }]", False),
        ("repetition = 3", False),
    ],
)
def test_the_schema_accepts_what_a_study_may_have(line: str, accepted: bool) -> None:
    assert VALIDATOR.is_valid(tomllib.loads(f"title = 't'\ndriver = 'null'\n{line}")) is accepted


@pytest.mark.parametrize("table", [{"title": "t"}, {"driver": "null"}, {}])
def test_the_schema_wants_a_title_and_a_driver(table: dict[str, str]) -> None:
    assert not VALIDATOR.is_valid(table)


@pytest.mark.parametrize(
    ("factor", "levels", "both_mean"),
    [
        ("bs", ["4k", "4KiB"], "levels '4k' and '4KiB' are the same, both mean 4096 bytes"),
        ("bs", ["64k", "4k", 4096], "levels '4k' and 4096 are the same, both mean 4096 bytes"),
        ("target.size", ["1GiB", "1024M"], "levels '1GiB' and '1024M' are the same, both mean 1073741824 bytes"),
        ("x", [1, "1"], "levels 1 and '1' are the same, both mean 1;"),
        ("iodepth", ["1k", 1024], "levels '1k' and 1024 are the same, both mean 1024;"),
        ("runtime", ["1s", "1000ms"], "levels '1s' and '1000ms' are the same, both mean 1 s;"),
        ("run.cooldown", [1, "1s"], "levels 1 and '1s' are the same, both mean 1 s;"),
        ("run.cpu_limit", ["50%", 0.5], "levels '50%' and 0.5 are the same, both mean 0.5;"),
        ("run.affinity", ["0-2", "0,1,2"], "levels '0-2' and '0,1,2' are the same, both mean processors 0-2;"),
        ("run.scheduler", ["fifo:1", "FIFO:01"], "levels 'fifo:1' and 'FIFO:01' are the same, both mean fifo:1;"),
        ("direct", [True, 1], "levels true and 1 are the same, both mean yes;"),
        ("rw", ["rw", "readwrite"], "levels 'rw' and 'readwrite' are the same, both mean rw;"),
        ("bssplit", ["4k/50:8k/50", "4KiB/50:8KiB/50"], "'4k/50:8k/50' and '4KiB/50:8KiB/50' are the same"),
    ],
)
def test_one_level_under_two_spellings_is_refused(factor: str, levels: list[Any], both_mean: str) -> None:
    with pytest.raises(StudyError) as caught:
        make(factors={factor: levels})
    assert str(caught.value).startswith(f"s.toml: factors.{factor}: ") and both_mean in str(caught.value)
    with pytest.raises(StudyError) as caught:
        check_scales({"quick": {"factors": {factor: levels}}}, "s.toml")
    assert str(caught.value).startswith(f"s.toml: scale.quick.factors.{factor}: ") and both_mean in str(caught.value)


@pytest.mark.parametrize(
    ("factor", "levels"),
    [
        ("target.path", ["/mnt/a", "/mnt/A"]),
        ("filename", ["1k", "1024"]),
        ("bs", ["4k", "4kB", "4k,8k"]),
        ("size", ["50%", 50]),
        ("x", ["Fast", "fast", "007", "7", "1.1", "1.10"]),
        ("x", [1, True]),
        ("target.precondition", ["none", "full", "steady"]),
    ],
)
def test_levels_that_only_look_alike_are_two_levels(factor: str, levels: list[Any]) -> None:
    assert make(factors={factor: levels}).factors[factor] == levels


def test_two_cases_that_set_the_same_are_refused_however_it_is_spelled() -> None:
    with pytest.raises(StudyError, match=r"s.toml: case 'b': sets the same as case 'a' \(direct = true, bs = '4KiB'\)"):
        make(case=[{"name": "a", "bs": "4k", "direct": 1}, {"name": "b", "direct": True, "bs": "4KiB"}])
    nested = [
        {"name": "a", "make": {"requests": 5, "sizes": ["4k"]}},
        {"name": "b", "make": {"sizes": ["4KiB"], "requests": 5}},
    ]
    with pytest.raises(StudyError, match="case 'b': sets the same as case 'a'"):
        make(case=nested)
    names = [{"name": "1k", "bs": "4k"}, {"name": "1024", "bs": "4kB"}, {"name": "A"}, {"name": "a"}]
    assert [case["name"] for case in make(case=names).case] == ["1k", "1024", "A", "a"]


def test_a_study_that_was_run_before_may_list_a_level_twice() -> None:
    """Runs that older versions made can be reported as long as they are there."""
    levels = ["4k", "4KiB"]
    stored = make_study(table(factors={"bs": levels}, case=[{"name": "a"}]), "study.toml", stored=True)
    assert stored.factors == {"bs": levels}
    with pytest.raises(StudyError, match="has no levels"):
        make_study(table(factors={"bs": []}), "study.toml", stored=True)
