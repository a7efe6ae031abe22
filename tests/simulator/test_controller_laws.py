"""Laws that every described drive obeys, whatever its numbers are: queueing, conservation, and sums of its parts.

A file in `ioassay/drives` is under these laws as soon as it is there. Their numbers come from docs/simulator.md,
"Drives of today" and "The cost of a page", and share nothing with the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay import traces
from ioassay.errors import UsageError
from ioassay.simulator import Simulation, check, drive_files
from ioassay.simulator.simulation_options import CONTROLLER, NAMES

PS_PER_US = 10**6
SECTORS = 8
"""Of 4 KiB."""
MOST_PAGES = 2_000_000
DRIVES = sorted(drive_files.builtin())
CONTROLLERS = [
    name for name in DRIVES if any(NAMES[option].group == CONTROLLER for option in drive_files.load(name).entries)
]


def small(name: str) -> dict[str, Any]:
    """The options of a drive with as few blocks as keep its shares, so that a test fills it."""
    options: dict[str, Any] = {**drive_files.load(name).options, "endurance": 0}
    while check(options)["pages"] > MOST_PAGES:
        smaller = {**options, "blocks": value(options, "blocks") // 2}
        try:
            check(smaller)
        except UsageError:
            break
        options = smaller
    return options


def value(options: Mapping[str, Any], name: str) -> Any:
    return options.get(name, NAMES[name].default)


def load(options: Mapping[str, Any], requests: int, *, reads: float, size: str = "4KiB", **more: Any) -> dict[str, Any]:
    """Requests anywhere on the drive, in whole pages of it."""
    page_bytes = int(check(options)["capacity_bytes"] // check(options)["pages"])
    reach = check(options)["pages"] // 256 * 256 * page_bytes
    return traces.recipe(requests=requests, reads=reads, sizes=size, range=reach, arrivals="poisson:20000", **more)


def run(options: Mapping[str, Any], recipe: Mapping[str, Any], depth: int, **more: Any) -> Simulation:
    chosen = {**options, "feed": f"closed:{depth}", "window": None, "max_outstanding": 10**6, **more}
    return ioassay.simulate(recipe, **chosen)


@pytest.mark.parametrize("depth", [1, 7, 64])
@pytest.mark.parametrize("name", DRIVES)
def test_littles_law_holds_in_closed_loops(name: str, depth: int) -> None:
    """J. D. C. Little, Operations Research 9(3), 1961: requests in the drive are their rate times their time."""
    options, requests = small(name), 10_000
    done = run(options, load(options, requests, reads=0.5), depth)
    total_ps = done.raw["all"]["mean_response_ps"] * requests
    busy_ps = done.raw["requests"]["last_completion_ps"] * depth
    # Only at the end, when nothing more is issued, are fewer outstanding: for the longest response at most.
    slack_ps = depth * done.summary["max_ms"] * 1e9 * 1.001
    assert busy_ps - slack_ps <= total_ps <= busy_ps * (1 + 1e-9)


@pytest.mark.parametrize("name", DRIVES)
def test_twice_the_elements_never_read_slower(name: str) -> None:
    options = small(name)
    recipe = load(options, 10_000, reads=1.0)
    one, two = (run({**options, "elements": n * value(options, "elements")}, recipe, 256) for n in (1, 2))
    assert two.summary["iops"] >= one.summary["iops"] * (1 - 1e-3)


@pytest.mark.parametrize("reads", [0.0, 1.0])
@pytest.mark.parametrize("name", CONTROLLERS)
@pytest.mark.parametrize("size", ["4KiB", "128KiB"])
def test_no_bandwidth_is_above_that_of_the_link_and_of_the_channels(name: str, size: str, reads: float) -> None:
    options = small(name)
    done = run(options, load(options, 5000, reads=reads, size=size), 256, end="drained")
    found_mb_s = done.summary["throughput_mb_s"]
    assert found_mb_s * link_sector_ps(options) <= 512 * PS_PER_US * (1 + 1e-9)
    if reads or not value(options, "write_cache"):
        channels = value(options, "flash_channels") or value(options, "elements")
        assert found_mb_s * flash_sector_ps(options) <= channels * 512 * PS_PER_US * (1 + 1e-9)
    if rate := value(options, "command_rate"):
        assert done.summary["iops"] <= rate * (1 + 1e-3)


def link_sector_ps(options: Mapping[str, Any]) -> int:
    mb_s = value(options, "link_mb_s")
    return round(512 / mb_s * PS_PER_US) if mb_s else round(value(options, "channel_us_per_sector") * PS_PER_US)


def flash_sector_ps(options: Mapping[str, Any]) -> int:
    if mb_s := value(options, "flash_channel_mb_s"):
        return round(512 / mb_s * PS_PER_US)
    return (512 + value(options, "spare_bytes")) * round(value(options, "transfer_us_per_byte") * PS_PER_US)


def command_ps(options: Mapping[str, Any], kind: str) -> int:
    parts = (value(options, f"command_{kind}_us"), value(options, f"command_{kind}_us_per_4k"))
    return sum(round(part * PS_PER_US) for part in parts)


def times_ps(options: Mapping[str, Any], name: str) -> list[int]:
    times = value(options, name)
    if isinstance(times, str):
        times = [] if times == "none" else [float(part) for part in times.split("/")]
    return [round(time * PS_PER_US) for time in times]


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_read_alone_takes_the_sum_of_its_parts(name: str) -> None:
    """Command, read of the page's type, flash channel, link: to the picosecond, over all of a trace.

    The drive's memory has the whole mapping: a miss in a mapping cache takes a read of its own.
    """
    options = {**small(name), "mapping_cache": 0, "mapping_entry_bytes": 8}
    requests = 400
    page_bytes = check(options)["capacity_bytes"] // check(options)["pages"]
    size = max(page_bytes, 4096)
    first_pages = range(0, requests * 7, 7)
    flash_pages = max(int(value_bytes(options, "flash_page")) // page_bytes, 1)
    unit_pages = max(int(value_bytes(options, "program_unit")) // page_bytes, 1)
    slow = times_ps(options, "page_type_read_us") or [round(value(options, "read_us") * PS_PER_US)]
    quick = times_ps(options, "small_read_us") if size <= 4096 else []
    expected_ps = 0
    for page in first_pages:
        # A new drive is written once from end to end: unit u on element u mod elements, in order.
        unit, place = divmod(page, unit_pages)
        row = unit // value(options, "elements")
        flash_page = (row * unit_pages + place) // flash_pages
        flash_page %= value(options, "pages_per_block") * value(options, "planes") // flash_pages
        times = quick or slow
        kind = flash_page % len(slow)
        expected_ps += times[kind % len(times)] + command_ps(options, "read")
        expected_ps += size // 512 * (flash_sector_ps(options) + link_sector_ps(options))
    rows = [
        {"at_ns": number * 10**7, "offset_bytes": page * page_bytes, "length_bytes": size}
        for number, page in enumerate(first_pages)
    ]
    assert total_ps(options, rows, "read") == expected_ps


@pytest.mark.parametrize("name", CONTROLLERS)
def test_a_write_alone_takes_command_and_link_if_a_cache_answers(name: str) -> None:
    options = small(name)
    if not value(options, "write_cache"):
        pytest.skip("this drive has no write cache")
    page_bytes = check(options)["capacity_bytes"] // check(options)["pages"]
    size = max(page_bytes, 4096)
    rows = [
        {"at_ns": number * 10**8, "offset_bytes": number * 9 * page_bytes, "length_bytes": size}
        for number in range(300)
    ]
    expected_ps = 300 * (command_ps(options, "write") + size // 512 * link_sector_ps(options))
    assert total_ps(options, rows, "write") == expected_ps


def value_bytes(options: Mapping[str, Any], name: str) -> int:
    from ioassay.simulator.simulation_options import known, read

    (found,) = read(known(name), value(options, name))
    return int(found)


def total_ps(options: Mapping[str, Any], rows: list[dict[str, int]], kind: str) -> int:
    """The sum of the response times of requests so far apart that each is alone."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "alone.disksim"
        sectors = [(row["at_ns"], row["offset_bytes"] // 512, row["length_bytes"] // 512) for row in rows]
        lines = [f"{at_ns / 1e6:.6f} 0 {first} {count} {int(kind == 'read')}" for at_ns, first, count in sectors]
        path.write_text("\n".join(lines) + "\n")
        done = ioassay.simulate(path, format="disksim", cache=False, **{**options, "window": None})
    assert done.raw[kind]["count"] == len(rows)
    return round(done.raw[kind]["mean_response_ps"] * len(rows))


@pytest.mark.parametrize("name", CONTROLLERS)
@pytest.mark.parametrize("addresses", ["uniform", "zipf:1.1"])
def test_the_write_cache_neither_loses_nor_duplicates_a_page(name: str, addresses: str, tmp_path: Path) -> None:
    """Behind a flush, each page that was written was replaced in the cache by a later one, or is in flash: once."""
    options, requests = small(name), 10_000
    page_bytes = check(options)["capacity_bytes"] // check(options)["pages"]
    path = tmp_path / "flushed.csv"
    traces.convert(
        load(options, requests, reads=0.0, addresses=addresses, size=str(page_bytes), align=str(page_bytes)), path
    )
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{10**13},flush,0,0,0\n")
    done = ioassay.simulate(path, cache=False, **{**options, "window": None, "max_outstanding": 10**6})
    assert done.raw["requests"]["unfinished"] == done.raw["buffer"]["left"] == 0
    assert done.raw["drive"]["written_pages"] == requests - done.raw["buffer"]["write_hits"]
    if value(options, "write_cache"):
        assert done.raw["buffer"]["written_pages"] == requests
        assert done.raw["buffer"]["write_hits"] or addresses == "uniform"
