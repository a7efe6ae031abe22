"""The file that describes a learned drive: read back it has the fit's values, intervals and points; and the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay.errors import UsageError
from ioassay.packs.ssd.questions import twin
from ioassay.packs.ssd.simulator import check
from ioassay.packs.ssd.twin import description
from ioassay.packs.ssd.twin.loads import Fit, Load, Parameter, Reading, Residual
from ioassay.simulation import drive_files

OPTIONS = {
    "elements": 16,
    "program_unit": 65536,
    "page": 4096,
    "blocks": 64,
    "pages_per_block": 256,
    "reserve": 0.2,
    "min_free": 0.02,
    "copy_back": False,
    "page_type_read_us": [50.0, 71.25],
    "command_read_us": 7.123456,
    "link_mb_s": 3210.0,
}
PARAMETERS = (
    Parameter("elements", 16, "", "yes"),
    Parameter("command_read_us", 7.123456, "us", "yes", 6.5, 7.75),
    Parameter("4 KiB read", 61.0, "us", "combination", 60.0, 62.0, options=("page_type_read_us",)),
    Parameter("link_mb_s", 3210.0, "MB/s", "no", 1000.0, 9000.0, needs="large reads with a queue"),
)
WHOLE = 2**28
LOADS = [
    Load("read-4KiB-depth-1", "depths", "read", 4096, span_bytes=WHOLE),
    Load("read-4KiB-depth-8", "depths", "read", 4096, 8, align_bytes=4096, span_bytes=WHOLE - 4096),
]
PAIR = Load("pair-64KiB", "unit", "read", 512, align_bytes=65536, span_bytes=66048)


def reading(load: Load, mean_us: float) -> Reading:
    return Reading(load, 1000, 1.0, {"mean_us": mean_us, "p99_us": 2 * mean_us, "iops": 1e6 * load.depth / mean_us})


def fitted(misfit: str = "", *, held_out: bool = False) -> Fit:
    residuals = tuple(Residual(load, "mean_us", 60.0, 61.2, is_fitted=not held_out) for load in LOADS)
    return Fit(OPTIONS, PARAMETERS, residuals, misfit)


READINGS = [reading(LOADS[0], 60.0), reading(LOADS[1], 65.0), reading(PAIR, 80.0)]


@pytest.fixture
def written(tmp_path: Path) -> drive_files.DriveFile:
    description.write(fitted(), READINGS, tmp_path / "mine.toml", about='A "twin" of mine', source="three loads")
    return drive_files.load(tmp_path / "mine.toml")


def test_a_description_read_back_has_the_values_of_the_fit(written: drive_files.DriveFile) -> None:
    assert written.about == 'A "twin" of mine' and written.options.keys() == OPTIONS.keys()
    for name, value in OPTIONS.items():
        assert written.options[name] == pytest.approx(value, rel=1e-4), name
    assert check(written.options)["capacity_bytes"] > 0


def test_it_says_of_each_option_whether_the_readings_tell_it_with_the_interval(written: drive_files.DriveFile) -> None:
    command, link, types = (written.entries[name] for name in ("command_read_us", "link_mb_s", "page_type_read_us"))
    assert (command.basis, command.low, command.high, command.identified) == ("fitted", 6.5, 7.75, "yes")
    assert (link.basis, link.identified, types.identified) == ("assumed", "no", "combination")
    assert types.low is None, "the interval of a combination is not one of its parts"
    assert written.entries["reserve"].identified == "assumed"


def test_its_points_are_the_plain_loads_with_twice_the_error_that_the_fit_left_as_limit(
    written: drive_files.DriveFile,
) -> None:
    (measurement,) = written.measurements
    assert [(point.size_bytes, point.depth) for point in measurement.points] == [(4096, 1), (4096, 8)]
    assert measurement.points[0].statistics["mean_us"] == 60.0
    assert measurement.limits == {"mean_us": pytest.approx(0.04)}


def test_a_description_that_cannot_be_written_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no/mine\.csv.*|no/mine\.toml: cannot be written"):
        description.write(fitted(), READINGS, tmp_path / "no" / "mine.toml", about="x", source="y")


def test_the_answer_says_how_good_the_twin_is_and_what_is_identified() -> None:
    said = [str(each) for each in twin.statements(fitted(held_out=True), is_laid_out=True)]
    assert said == [
        "The twin's mean latency is 2 % off on 2 loads that the fit did not see.",
        "Of 4 parameters the readings identify 2 alone and 1 in combination.",
        "Reads alone are fitted: what writes cost is assumed.",
    ]
    assert "the drive was not written" in str([*twin.statements(fitted(), is_laid_out=False)][-1])


def test_a_misfit_has_one_sentence_and_no_numbers() -> None:
    (said,) = twin.statements(fitted("its reads depend on the address"), is_laid_out=True)
    assert str(said) == (
        "This drive is of another kind than the model, so it has no twin: its reads depend on the address."
    )


def test_the_table_of_parameters_has_values_with_units_and_intervals() -> None:
    assert twin.parameters(PARAMETERS).rows[1] == ["command_read_us", "7.123 us", "6.5 to 7.75 us", "yes"]
    assert twin.parameters(PARAMETERS).rows[2][-1] == "combination of page_type_read_us"
