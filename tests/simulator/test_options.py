"""The table of options: what people write becomes what the core takes, and what cannot be is named."""

from pathlib import Path
from typing import Any

import pytest

from ioassay.errors import UsageError
from ioassay.simulator import NAMES, OPTIONS, check, policies, setup
from ioassay.simulator.simulation_options import feeding

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "simulator.md"


def test_without_options_it_is_the_reference_drive() -> None:
    made = setup({})
    assert made["drive"]["elements"] == 48 and made["drive"]["page_bytes"] == 4096
    assert made["feed"]["window"] == 20 and made["feed"]["scheduler"] == "clook"
    assert "buffer" not in made and "precondition" not in made
    # (2048 blocks - 15 % of them) x 8 planes x 63 data pages x 48 elements
    assert check({})["pages"] == (2048 - 307) * 8 * 63 * 48


INLINE = {"policy": "lru", "mode": "inline"}


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


@pytest.mark.parametrize(
    ("given", "group", "key", "wanted"),
    [
        ({"elements": "8"}, "drive", "elements", 8),
        ({"elements": 8}, "drive", "elements", 8),
        ({"reserve": "0.2"}, "drive", "reserve", 0.2),
        ({"page": "8KiB"}, "drive", "page_bytes", 8192),
        ({"page": 8192}, "drive", "page_bytes", 8192),
        ({"copy_back": False}, "drive", "copy_back", False),
        ({"copy_back": "no"}, "drive", "copy_back", False),
        ({"overlap": "dies"}, "drive", "overlap", "dies"),
        ({"window": "none"}, "feed", "window", 0),
        ({"window": None}, "feed", "window", 0),
        ({"window": "7"}, "feed", "window", 7),
        ({"policy": "lru", "buffer": "1MiB"}, "buffer", "pages", 256),
        ({"policy": "lru", "buffer": "1MiB", "page": "8KiB"}, "buffer", "pages", 128),
        ({"precondition": "0.5"}, "precondition", "share", 0.5),
    ],
)
def test_values_are_read(given: dict[str, Any], group: str, key: str, wanted: Any) -> None:
    assert setup(given)[group][key] == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("open", {"feeding": "open"}),
        ("scaled:0.5", {"feeding": "scaled", "factor": 0.5}),
        ("closed:32", {"feeding": "closed", "outstanding": 32}),
        ("batch:48@5ms", {"feeding": "batches", "size": 48, "gap_us": 5000.0}),
    ],
)
def test_feeding_is_read(text: str, wanted: dict[str, Any]) -> None:
    assert feeding(text) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"elements": "many"}, "elements is 'many', wanted a whole number"),
        ({"elements": -1}, "elements is '-1', wanted a whole number"),
        ({"elements": True}, "elements is 'True', wanted a whole number"),
        ({"elements": 2.5}, "elements is '2.5', wanted a whole number"),
        ({"window": "wide"}, "window is 'wide', wanted a whole number or none"),
        ({"reserve": "some"}, "reserve is 'some', wanted a number"),
        ({"page": "4 pages"}, "page: '4 pages' is not a size"),
        ({"page": 4.5}, "page is '4.5', wanted a size such as 8MiB"),
        ({"padding": "maybe"}, "padding is 'maybe', wanted true or false"),
        ({"pool": "die"}, "pool is 'die', wanted element or plane"),
        ({"windw": 3}, "no option of a simulation is called 'windw'; did you mean 'window'?"),
        ({"xyz": 3}, "no option of a simulation is called 'xyz'; wanted one of elements, "),
        *[
            ({"feed": text}, f"feed is '{text}', wanted open, scaled:FACTOR")
            for text in (
                "",
                "open:1",
                "closed",
                "closed:0",
                "closed:-1",
                "scaled:0",
                "scaled:inf",
                "batch:3",
                "batch:0@1s",
            )
        ],
        ({"feed": "batch:3@1week"}, "feed: '1week' is not a duration"),
    ],
)
def test_what_cannot_be_read_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        setup(given)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"elements": 0}, "elements is 0, wanted 1 to 4096"),
        ({"page": 1000}, "page is 1000, wanted a multiple of 512"),
        ({"dies": 3}, "dies is 3, wanted a divisor of the 8 planes"),
        ({"reserve": 0}, "reserve is 0, wanted at least 104 of the 2048 blocks"),
        ({"reserve": 1}, "reserve is 1, wanted a share from 0 up to 1"),
        ({"blocks": 4}, "min_free is 0.05, wanted at least 0.2500, one of the 4 blocks"),
        ({"min_free": 0.2}, "reserve is 0.15, wanted at least 411 of the 2048 blocks"),
        ({"elements": 4096, "blocks": 4096}, "blocks is 4096, wanted"),
        ({"precondition": 2}, "precondition is 2, wanted a share above 0, at most 1"),
        ({"policy": "lur"}, "no policy is called 'lur'; did you mean 'lru'?"),
        ({"policy": "lru", "padding": True}, "policy `lru` knows no option `padding`"),
        ({"policy": "lru", "buffer": 4095}, "policy `lru` needs a buffer of at least 1 page"),
        ({"policy": "bplru", "buffer": "64KiB"}, "policy `bplru` needs a buffer of at least 64 pages"),
        ({"policy": "epo-all", "buffer": "64KiB"}, "policy `epo-all` needs a buffer of at least 48 pages"),
        ({"policy": "lru", "write_behind": "idle"}, "write_behind is idle, wanted off in front of the drive"),
        ({**INLINE, "write_behind": "idle", "high_watermark": 1}, "high_watermark is 1, wanted a share from 0 up to"),
        ({**INLINE, "write_behind": "any", "destage_depth": 0}, "destage_depth is 0, wanted at least 1"),
        ({**INLINE, "write_behind": "idle", "destage_depth": 2}, "destage_depth is 2, wanted write_behind any"),
        ({**INLINE, "high_watermark": 0.5}, "high_watermark is 0.5, wanted write_behind idle or any, for it is off"),
        (
            {**INLINE, "write_behind": "idle", "high_watermark": 0.5, "low_watermark": 0.75},
            "low_watermark is 0.75, wanted at most the high one, 1024 of 2048 pages",
        ),
    ],
)
def test_a_drive_that_cannot_be_is_refused_before_it_runs(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        check(given)
    assert str(error.value).startswith(said)


def test_a_check_says_what_the_drive_is() -> None:
    drive = check({"elements": 8, "blocks": 256})
    assert drive["pages"] == 878_976 and drive["capacity_bytes"] == 878_976 * 4096
    assert 4 * 878_976 < drive["memory_bytes"] < 12 * 878_976


def test_options_of_policies_are_options_of_a_simulation() -> None:
    assert {name for policy in policies() for name in policy["options"]} <= NAMES.keys()
