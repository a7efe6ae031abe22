"""Descriptions of drives: what is built in is complete, what a file says is converted, and what is wrong is named."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import ioassay
from ioassay import traces
from ioassay.errors import InputError, UsageError
from ioassay.simulator import NAMES, check, drive_accuracy, drive_files, simulate

from ..corpora import cases

ROOT = Path(__file__).parent.parent.parent
GOOD = """
about = "A drive of a test"
[sources]
sheet = "the data sheet of a test"
[drive]
elements = { value = 8, basis = "data-sheet", source = "sheet" }
blocks = { value = 64, basis = "assumed", source = "sheet" }
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
        assert bool(measurement.fitted) == bool(measurement.limits)


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
    assert {name: drive_files.unit(NAMES[name]) for name in drive.options} == units


def test_measurements_are_selected_and_ordered(write: Write) -> None:
    (measurement,) = drive_files.load(write()).measurements
    assert [(point.size_bytes, point.depth) for point in measurement.points] == [(8192, 1), (8192, 4), (16384, 1)]
    assert measurement.points[2].statistics == {"mean_us": 200, "iops": 5000}
    assert measurement.fitted == measurement.points[::2]
    assert measurement.options["channel_us_per_sector"].value == 0.1


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
    with pytest.raises(UsageError, match=r"no drive is called 'x'; wanted one of .*reference.*, or a file such as"):
        drive_files.load("x")
    with pytest.raises(InputError, match=r"absent\.toml: No such file or directory; wanted the description of a drive"):
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
            assert said == (wanted if measurement.limits else ["–", *wanted[1:]])
