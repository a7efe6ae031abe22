"""Descriptions of drives: what is built in is complete and obeys laws, what a file says is converted, and mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd.simulator import NAMES, Simulation, check, drive_accuracy, simulate
from ioassay.simulation import drive_files, traces
from ioassay.simulation.options import CONTROLLER

from ...corpora import cases

ROOT = Path(__file__).parents[3]
GOOD = """
about = "A drive of a test"
[sources]
sheet = "the data sheet of a test"
[drive]
elements = { value = 8, basis = "data-sheet", source = "sheet" }
blocks = { value = 64, basis = "fitted", source = "sheet" }
read_us = { value = 0.05, unit = "ms", basis = "measured", source = "sheet" }
page = { value = 8, unit = "KiB", basis = "assumed", source = "sheet" }
reserve = { value = 20, unit = "%", basis = "assumed", source = "sheet" }
copy_back = { value = false, basis = "assumed", source = "sheet" }
[measurements.reads]
about = "reads of a test"
data = "points.csv"
source = "sheet"
engine = "spdk"
sizes = ["8KiB", "16KiB"]
limits = { mean_us = 0.05 }
[measurements.reads.options]
channel_us_per_sector = { value = 0.1, unit = "us/sector", basis = "assumed", source = "sheet" }
"""
POINTS = """# of a test
engine,operation,pattern,size_bytes,depth,iops,mean_us,p50_us,p99_us
spdk,read,random,16384,1,5000,200,,
spdk,read,random,8192,4,20000,200,190,400
spdk,read,random,8192,1,5000,200,190,400
io_uring,read,random,8192,1,4000,250,240,450
spdk,read,random,4096,1,5000,200,190,400
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the drive of this test, with changes, and its points; returns the file."""

    def written(*changes: tuple[str, str], points: str = POINTS) -> Path:
        text = GOOD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "points.csv").write_text(points)
        (tmp_path / "mine.toml").write_text(text)
        return tmp_path / "mine.toml"

    return written


@pytest.mark.parametrize("name", drive_files.builtin())
def test_built_in_drives_are_complete(name: str) -> None:
    drive = drive_files.load(name)
    assert drive.name == name and drive.entries
    assert all(entry.basis in drive_files.BASES and drive.sources[entry.source] for entry in drive.entries.values())
    used = {entry.source for entry in drive.entries.values()}
    used |= {each.source for each in drive.measurements}
    used |= {entry.source for each in drive.measurements for entry in each.options.values()}
    assert used == set(drive.sources), "every source is used"
    assert check(drive.options)["capacity_bytes"] > 2**30
    for measurement in drive.measurements:
        assert measurement.points and (ROOT / "docs" / "real-drives.md").read_text().count(f"`{measurement.name}`")
        assert bool(measurement.fitted) == (bool(measurement.limits) and measurement.has_fit)


def test_the_reference_drive_is_the_default() -> None:
    options = drive_files.load("reference").options
    assert check(options) == check({})
    for name, value in options.items():
        default = NAMES[name].default
        assert value == (4096 if name == "page" else default), name


def test_numbers_are_converted_to_the_units_of_the_options(write: Write) -> None:
    drive = drive_files.load(write())
    exact = {"elements": 8, "blocks": 64, "page": 8192, "copy_back": False}
    assert drive.options == {**exact, "read_us": pytest.approx(50), "reserve": pytest.approx(0.2)}
    units = {"elements": "", "blocks": "", "page": "B", "copy_back": "", "read_us": "us", "reserve": "share"}
    assert {name: NAMES[name].unit for name in drive.options} == units


def test_measurements_are_selected_and_ordered(write: Write) -> None:
    (measurement,) = drive_files.load(write()).measurements
    assert [(point.size_bytes, point.depth) for point in measurement.points] == [(8192, 1), (8192, 4), (16384, 1)]
    assert measurement.points[2].statistics == {"mean_us": 200, "iops": 5000}
    assert measurement.fitted == measurement.points[::2]
    (held_out,) = drive_files.load(write(('basis = "fitted"', 'basis = "assumed"'))).measurements
    assert held_out.fitted == (), "nothing was fitted"
    assert measurement.options["channel_us_per_sector"].value == 0.1


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_measurement_selects_its_operation(write: Write, operation: str) -> None:
    points = POINTS + "spdk,write,random,8192,2,9000,110,100,200\n"
    (measurement,) = drive_files.load(
        write(("[measurements.reads]", f'[measurements.reads]\noperation = "{operation}"'), points=points)
    ).measurements
    assert [point.depth for point in measurement.points] == ([1, 4, 1] if operation == "read" else [2])


@cases("simulator", "drive_files")
def test_what_is_wrong_in_a_file_is_named_with_its_key_or_row(write: Write, case: dict[str, str]) -> None:
    changes, points = [(case["replace"], case["by"])], POINTS
    if case["in"] == "points":
        changes, points = [], POINTS.replace(*changes[0])
        assert points != POINTS
    with pytest.raises(InputError) as error:
        drive_files.load(write(*changes, points=points))
    said = str(error.value)
    assert "mine.toml: " in said and case["says"] in said
    assert case["in"] == "description" or re.search("measurements.reads.data: .*points.csv", said)


def test_unknown_drives_and_absent_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no drive is called 'referenc'; did you mean 'reference'"):
        drive_files.load("referenc")
    with pytest.raises(UsageError, match=r"no drive is called 'x'; expected one of .*reference.*, or a file such as"):
        drive_files.load("x")
    with pytest.raises(
        InputError, match=r"absent\.toml: No such file or directory; expected the description of a drive"
    ):
        drive_files.load(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"about = '\xff'")
    with pytest.raises(InputError, match=r"bytes\.toml: line 1 is no UTF-8"):
        drive_files.load(tmp_path / "bytes.toml")


def test_simulate_takes_a_name_a_file_and_options_that_override(write: Write) -> None:
    recipe = traces.recipe(requests=500, arrivals="poisson:5000", reads=0.5, range="16MiB")
    path = write()

    def mean(**options: object) -> float:
        found: float = ioassay.simulate(recipe, **options).summary["mean_response_ms"]  # type: ignore[arg-type]
        return found

    options = drive_files.load(path).options
    assert mean(drive=path) == mean(drive=str(path)) == mean(drive=options) == mean(**options)
    assert mean(drive="reference") == mean() != mean(drive=path)
    assert mean(drive=path, read_us=500) == mean(**{**options, "read_us": 500}) > mean(drive=path)


def test_errors_are_those_of_the_model_beside_the_measured_points(write: Write) -> None:
    """Points that the simulator itself made have no error; points that are 10 % slower have 1 - 1/1.1."""
    measured = drive_files.load(write()).measurements[0]
    model = {**drive_files.load(write()).options, "channel_us_per_sector": 0.1}
    rows = []
    for point, factor in zip(measured.points, (1.0, 1.1, 1.0), strict=True):
        size = point.size_bytes
        reach = check(model)["capacity_bytes"] // size * size
        recipe = traces.recipe(
            requests=80 * 2**20 // size, arrivals="none", sizes=size, reads=1.0, range=reach, align=size
        )
        loop = {"feed": f"closed:{point.depth}", "window": None, "driver": "fcfs"}
        mean_us = simulate(recipe, **{**model, **loop}).summary["mean_response_ms"] * 1e3 * factor
        rows.append(f"spdk,read,random,{point.size_bytes},{point.depth},,{mean_us!r},,")
    drive = drive_files.load(write(points="\n".join([POINTS.splitlines()[1], *rows])))
    found = drive_accuracy.accuracy(drive, drive.measurements[0])
    assert found.errors("mean_us", fitted=True) == pytest.approx([0, 0], abs=1e-9)
    assert found.errors("mean_us", fitted=False) == pytest.approx([1 - 1 / 1.1], abs=1e-9)
    assert found.mean_error("mean_us") == pytest.approx((1 - 1 / 1.1) / 3) and not found.excesses
    slower = drive_accuracy.accuracy(drive, drive.measurements[0], {"read_us": 100})
    assert slower.excesses["mean_us"] == slower.mean_error("mean_us") > 0.05


def test_a_point_with_flows_is_simulated_with_them(write: Write) -> None:
    points = "engine,operation,pattern,size_bytes,depth,flows,p99_us\n"
    points += 'spdk,read,random,8192,1,"write,rate=2000,size=8KiB",900\nspdk,read,random,8192,1,,900\n'
    drive = drive_files.load(write(points=points))
    (measurement,) = drive.measurements
    assert [point.flows for point in measurement.points] == ["write,rate=2000,size=8KiB", ""]
    loaded, alone = (each.simulated for each in drive_accuracy.accuracy(drive, measurement).comparisons)
    # Alone no read waits; with writes that keep an element busy for 0.1 of the time, some do.
    assert alone["p99_us"] == alone["p50_us"] == loaded["p50_us"] < loaded["p99_us"] - 100
    wrong = drive_files.load(write(points=points.replace("write,rate", "wrote,rate")))
    with pytest.raises(InputError, match=r"mine\.toml: measurements\.reads: flow 'wrote,.*did you mean 'write'"):
        drive_accuracy.accuracy(wrong, wrong.measurements[0])


def test_figures_are_those_of_the_drive(write: Write) -> None:
    found = drive_accuracy.figures(drive_files.load(write()).options)
    read = found["read at depth 1"]
    assert read["mean_us"] == pytest.approx(50 + 8 * 528 * 0.025 + 8 * 0.2384) and read["size_bytes"] == 4096
    assert found["random reads"]["iops"] > 6 * read["iops"]
    assert found["sequential reads"]["mb_s"] == pytest.approx(found["sequential reads"]["iops"] * 0.131072)


DOCUMENTED = re.compile(r"^\| `([\w-]+)` \| `([\w-]+)` \| ([\w ]+) \| (.*) \|$", re.MULTILINE)
"""Drive, measurement, statistic, and the rest of a row."""
STATISTICS = {"mean latency": "mean_us", "IOPS": "iops", "p50": "p50_us", "p99": "p99_us"}


@pytest.mark.parametrize("name", [name for name in drive_files.builtin() if drive_files.load(name).measurements])
def test_the_documented_errors_are_those_of_drive_check(name: str) -> None:
    """Each row of the table of docs/real-drives.md: fitted, held out, worst, in percent to the digit printed there."""
    drive = drive_files.load(name)
    rows = DOCUMENTED.findall((ROOT / "docs" / "real-drives.md").read_text())
    documented = {(of, STATISTICS[statistic]): rest for which, of, statistic, rest in rows if which == name}
    assert {key for key, _ in documented} == {each.name for each in drive.measurements}
    for measurement in drive.measurements:
        found = drive_accuracy.accuracy(drive, measurement)
        assert not found.excesses
        for statistic in measurement.limits or ("mean_us",):
            shares = [found.mean_error(statistic, fitted=True), found.mean_error(statistic, fitted=False)]
            said = documented[measurement.name, statistic].split(" | ")[:3]
            wanted = [f"{share:.1%}" for share in (*shares, max(found.errors(statistic)))]
            assert said == (wanted if measurement.fitted else ["–", *wanted[1:]])


# Laws that every described drive obeys, whatever its numbers are: queueing, conservation, and sums of its parts.
#
# A file in `ioassay/drives` is under these laws as soon as it is there. Their numbers come from docs/simulator.md,
# "Drives of today" and "The cost of a page", and share nothing with the simulator


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
    busy_ps = done.raw["tally"]["last_completion_ps"] * depth
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
    """Command, flash command, read of the page's type, flash channel, link: to the picosecond, over all of a trace.

    The drive's memory has the whole mapping: a miss in a mapping cache takes a read of its own.
    """
    options = {**small(name), "mapping_cache": 0, "mapping_entry_bytes": 8, "translation_read": 0}
    requests = 400
    page_bytes = check(options)["capacity_bytes"] // check(options)["pages"]
    size = max(page_bytes, 4096)
    first_pages = range(0, requests * 7, 7)
    flash_pages = max(int(value_bytes(options, "flash_page")) // page_bytes, 1)
    unit_pages = max(int(value_bytes(options, "program_unit")) // page_bytes, 1)
    slow = times_ps(options, "page_type_read_us") or [round(value(options, "read_us") * PS_PER_US)]
    quick = times_ps(options, "small_read_us") if size <= 4096 else []
    by_unit = "page_type_program_us" in options
    expected_ps = 0
    for page in first_pages:
        # A new drive is written once from end to end: unit u on element u mod elements, in order.
        unit, place = divmod(page, unit_pages)
        row = unit // value(options, "elements")
        flash_page = row if by_unit else (row * unit_pages + place) // flash_pages
        flash_page %= value(options, "pages_per_block") * value(options, "planes") // flash_pages
        times = quick or slow
        kind = flash_page % len(slow)
        expected_ps += times[kind % len(times)] + command_ps(options, "read")
        expected_ps += round(value(options, "flash_command_us") * PS_PER_US)
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
    from ioassay.simulation.options import known, read

    return int(read(known(name), value(options, name)))


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
    assert done.raw["tally"]["unfinished"] == done.raw["tally"]["buffered_at_end"] == 0
    assert done.raw["drive"]["written_pages"] == requests - done.raw["tally"]["write_hits"]
    if value(options, "write_cache"):
        assert done.raw["tally"]["buffered_writes"] == requests
        # Where a page is a unit of its own, it does not wait for others.
        alone = value_bytes(options, "program_unit") in (0, page_bytes)
        assert done.raw["tally"]["write_hits"] or addresses == "uniform" or alone
