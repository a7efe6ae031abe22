"""A study's table: what is accepted, and what each mistake is told."""

import datetime
import math
from typing import Any

import pytest

from ioassay.errors import StudyError
from ioassay.study.model import Study, make_study

DAY = datetime.date(1979, 5, 27)


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
        ({"factors": {"x": [1, 1.0]}}, "factors.x: level 1 is listed twice"),
        ({"factors": {"x": [True, "true"]}}, "factors.x: level true is listed twice"),
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
    import json
    from pathlib import Path

    published = json.loads((Path(__file__).parent.parent / "docs" / "study.schema.json").read_text())
    assert published == Study.model_json_schema(), "renew it: ./ioassay studies --schema > docs/study.schema.json"
