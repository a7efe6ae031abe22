"""What the command line changes in a study."""

import pytest

from ioassay.errors import UsageError
from ioassay.study import overrides

TABLE = {
    "name": "s",
    "until": {"metric": "read.bw"},
    "params": {"bs": "4k", "runtime": "10s"},
    "factors": {"rw": ["read"]},
    "scale": {"quick": {"repetitions": 3, "params": {"runtime": "1s"}, "target": {"size": "1M"}}},
}


def test_a_scale_changes_what_it_names_and_keeps_the_rest() -> None:
    quick = overrides.scaled(TABLE, "quick")
    assert quick["params"] == {"bs": "4k", "runtime": "1s"}
    assert quick["target"] == {"size": "1M"}
    assert quick["repetitions"] == 3
    assert "until" not in quick
    assert "scale" not in quick


def test_full_and_unknown_scales_leave_a_study_as_it_is() -> None:
    for scale in ("full", "huge"):
        assert overrides.scaled(TABLE, scale) == {key: value for key, value in TABLE.items() if key != "scale"}


def test_settings_reach_their_part() -> None:
    for assignment in ("runtime=5s", "params.runtime=5s"):
        assert overrides.with_setting(TABLE, assignment)["params"] == {"bs": "4k", "runtime": "5s"}
    assert overrides.with_setting(TABLE, "target.size=2M")["target"] == {"size": "2M"}
    assert overrides.with_setting(TABLE, "seed=7")["seed"] == 7
    assert overrides.with_setting(TABLE, "direct=0")["params"]["direct"] == 0
    assert overrides.with_setting(TABLE, "bs=4096")["params"]["bs"] == 4096


@pytest.mark.parametrize("assignment", ["bs", "=4k", "machine.bs=4k"])
def test_a_setting_that_is_none_is_told_so(assignment: str) -> None:
    with pytest.raises(UsageError, match=f"--set {assignment}"):
        overrides.with_setting(TABLE, assignment)


@pytest.mark.parametrize(
    ("table", "assignment", "message"),
    [
        (TABLE, "rw=write", "'rw' is a factor of s; wanted --factor rw=write"),
        ({"name": "s", "factors": {"target.path": ["a", "b"]}}, "target.path=c", "wanted --factor target.path=c"),
        ({"name": "s", "case": [{"name": "a", "bs": "4k"}]}, "bs=8k", "the cases of s set 'bs' themselves"),
    ],
)
def test_a_setting_that_every_point_would_undo_is_refused(table: dict, assignment: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        overrides.with_setting(table, assignment)


def test_a_title_is_text_whatever_it_looks_like() -> None:
    assert overrides.with_setting(TABLE, "title=2024")["title"] == "2024"


def test_a_factor_is_added_or_replaced() -> None:
    table = overrides.with_factor(overrides.with_factor(TABLE, "bs=4k,16k"), "rw=write,read")
    assert table["factors"] == {"rw": ["write", "read"], "bs": ["4k", "16k"]}
    assert overrides.with_factor(TABLE, "iodepth=1,32")["factors"]["iodepth"] == [1, 32]
    with pytest.raises(UsageError, match="has no levels"):
        overrides.with_factor(TABLE, "bs=")


def test_what_the_user_names_wins_over_the_scale() -> None:
    table = overrides.adjusted(TABLE, scale="quick", settings=["runtime=2s"], repetitions=7)
    assert (table["params"]["runtime"], table["repetitions"]) == ("2s", 7)
    assert "until" not in table


def test_the_table_itself_is_not_changed() -> None:
    before = repr(TABLE)
    overrides.adjusted(TABLE, scale="quick", settings=["runtime=2s"], factors=["bs=1,2"], repetitions=7)
    assert repr(TABLE) == before


SUITE = [
    {"name": "sweep", "factors": {"workers": [1, 2, 4]}},
    {"name": "fixed", "params": {"workers": 3}, "factors": {"method": ["a", "b"]}},
]


def test_a_factor_is_given_to_the_studies_of_a_suite_that_have_it_and_the_others_are_named() -> None:
    (sweep, fixed), (told,) = overrides.adjusted_all(SUITE, factors=["workers=1,8"])
    assert sweep["factors"] == {"workers": [1, 8]}
    assert fixed == SUITE[1]
    assert told.text == "--factor workers=1,8: changes nothing in fixed: no such factor there"


def test_a_factor_that_no_study_of_a_suite_has_is_an_error_and_one_study_alone_is_given_it() -> None:
    wanted = "none of the 2 studies has a factor 'wrokers'; they have: workers, method. To add"
    with pytest.raises(UsageError, match=wanted):
        overrides.adjusted_all(SUITE, factors=["wrokers=1,8"])
    (alone,), told = overrides.adjusted_all(SUITE[:1], factors=["method=a,b"])
    assert alone["factors"] == {"workers": [1, 2, 4], "method": ["a", "b"]}
    assert not told


def test_a_setting_reaches_the_studies_of_a_suite_that_do_not_vary_it() -> None:
    (sweep, fixed), (told,) = overrides.adjusted_all(SUITE, settings=["workers=5"])
    assert sweep == SUITE[0]
    assert fixed["params"] == {"workers": 5}
    assert told.text == "--set workers=5: changes nothing in sweep: it is varied there"
    both, nothing = overrides.adjusted_all(SUITE, settings=["timeout=2s"])
    assert [table["params"]["timeout"] for table in both] == ["2s", "2s"]
    assert not nothing


def test_a_setting_that_every_study_varies_is_an_error() -> None:
    with pytest.raises(UsageError, match="'workers' is a factor of sweep; wanted --factor workers=5"):
        overrides.adjusted_all([SUITE[0], SUITE[0]], settings=["workers=5"])


def test_a_factor_of_the_scale_counts_as_the_study_has_it_there() -> None:
    scaled = {"name": "x", "scale": {"quick": {"factors": {"workers": [1, 2]}}}}
    (found, _), _ = overrides.adjusted_all([scaled, SUITE[1]], scale="quick", factors=["workers=4,8"])
    assert found["factors"] == {"workers": [4, 8]}
