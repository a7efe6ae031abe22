"""What `ioassay import` takes from the Phoronix Test Suite's composite.xml: the runs of each test on each system."""

from pathlib import Path

import pytest

from ioassay import metrics
from ioassay.errors import InputError
from ioassay.formats import phoronix_xml
from ioassay.store import frames, importer

FILE = Path(__file__).parents[1] / "golden" / "phoronix" / "documented" / "composite.xml"
READS = "Flexible IO Tester 3.36: Type: Random Read - Block Size: 4KB"


def test_each_run_is_a_repetition_and_several_scales_are_metrics_of_it(tmp_path: Path) -> None:
    found = frames.load(importer.take_in([FILE], tmp_path / "run"))
    assert found.studies[0].driver == "phoronix"
    reads = found.trials.filter(test=READS).sort("system", "repetition")
    assert reads.select("system", "repetition", "score.bw", "score.iops").rows() == [
        *(("new drive", number, value, None) for number, value in enumerate((400e6, 404e6, 408e6))),
        ("old drive", 0, 200e6, 51200.0),
        ("old drive", 1, 202e6, 51700.0),
        ("old drive", 2, 204e6, 52200.0),
    ]


def test_scales_become_si_units_or_names_with_their_direction() -> None:
    named = {name: value for entry in phoronix_xml.read(FILE.read_text(), "x") for name, value in entry.metrics.items()}
    assert named["cost.time"] == 7.5
    assert named["cost.microseconds_per_op"] == 4.3
    assert (metrics.metric("cost.time").unit, metrics.metric("cost.time").better) == ("s", "lower")
    assert (metrics.metric("score.bw").unit, metrics.metric("score.bw").better) == ("bytes/s", "higher")
    assert metrics.metric("cost.microseconds_per_op").better == "lower"


def test_no_value_and_graphs_are_failed_trials() -> None:
    problems = [entry.problem for entry in phoronix_xml.read(FILE.read_text(), "x") if entry.problem]
    assert problems == ["has no value: the test failed on this system", "has 3 values of a graph; wanted one"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<!DOCTYPE x [<!ENTITY a "b">]><PhoronixTestSuite>&a;</PhoronixTestSuite>', "x: declares entities"),
        ("<PhoronixTestSuite><Result>", "x: is no XML that the Phoronix Test Suite wrote"),
        (FILE.read_text().replace("200:202:204", "200:fast:204"), "x: the value of 'Flexible IO Tester.*'fast'"),
    ],
)
def test_what_is_no_result_file_is_named(text: str, message: str) -> None:
    assert phoronix_xml.looks_like(text)
    with pytest.raises(InputError, match=message):
        phoronix_xml.read(text, "x")
