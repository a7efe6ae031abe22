"""The table of options: what people write becomes what the core takes, and what cannot be is named."""

from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import UsageError
from ioassay.simulator import NAMES, OPTIONS, check, policies, setup

from ..corpora import cases
from .test_controller_drive import PLAIN
from .test_slc_region import REGION, TLC

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "simulator.md"


def test_without_options_it_is_the_reference_drive() -> None:
    made = setup({})
    assert made["drive"]["elements"] == 48 and made["drive"]["page_bytes"] == 4096
    assert made["feed"]["window"] == 20 and made["feed"]["scheduler"] == "clook"
    assert "buffer" not in made and "precondition" not in made
    # (2048 blocks - 15 % of them) x 8 planes x 63 data pages x 48 elements
    assert check({})["pages"] == (2048 - 307) * 8 * 63 * 48


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_default_can_be_given_as_people_write_it(option: Any) -> None:
    default = option.default
    written = str(default).lower() if isinstance(default, bool) else str(default)
    assert setup({option.name: written}) == setup({})


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_documented(option: Any) -> None:
    assert f"`--{option.name.replace('_', '-')}`" in DOCUMENT.read_text()


def test_a_name_is_there_once() -> None:
    assert len(NAMES) == len(OPTIONS)


@cases("simulator", "options")
def test_values_are_read(case: dict[str, Any]) -> None:
    made = setup(case["given"])
    for group, values in case["becomes"].items():
        assert {key: made[group][key] for key in values} == values


def test_no_window_may_be_none() -> None:
    assert setup({"window": None})["feed"] == setup({"window": "none"})["feed"]


BESIDE: dict[str, dict[str, Any]] = {"default": {}, "plain": PLAIN, "TLC": TLC, "region": {**TLC, **REGION}}


@cases("simulator", "refusals")
def test_a_drive_that_cannot_be_is_refused_before_it_runs(case: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        check({**BESIDE[case.get("of", "default")], **case["given"]})
    assert str(error.value).startswith(case["says"])


def test_a_check_says_what_the_drive_is() -> None:
    drive = check({"elements": 8, "blocks": 256})
    assert drive["pages"] == 878_976 and drive["capacity_bytes"] == 878_976 * 4096
    assert 4 * 878_976 < drive["memory_bytes"] < 12 * 878_976


def test_options_of_policies_are_options_of_a_simulation() -> None:
    assert {name for policy in policies() for name in policy["options"]} <= NAMES.keys()
