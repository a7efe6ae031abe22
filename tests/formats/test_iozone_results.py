"""What `ioassay import` takes from IOzone: the cells of its table, or of the report for Excel, and throughput mode."""

from pathlib import Path

from ioassay.formats import iozone_results
from ioassay.store import frames, importer

GOLDEN = Path(__file__).parents[1] / "golden" / "iozone" / "3.471"
THROUGHPUT = """
	Throughput test with 2 processes
	Each process writes a 4096 kByte file in 64 kByte records

	Children see throughput for  2 initial writers 	=  300000.50 kB/sec
	Children see throughput for  2 random readers 	= 2000000.25 kB/sec
"""


def test_the_report_for_excel_alone_has_the_cells_of_the_table() -> None:
    text = (GOLDEN / "matrix.txt").read_text()
    table = iozone_results.read(text, "x")
    report = iozone_results.read(text[text.index('"Writer report"') :], "x")
    assert [(one.options, one.metrics) for one in report] == [(one.options, one.metrics) for one in table]
    assert len(table) == 18
    assert table[0].options == {"file_size": "64KiB", "record_size": "4KiB"}
    assert table[0].metrics == {
        "write.bw": 1125294 * 1024,
        "rewrite.bw": 3304249 * 1024,
        "read.bw": 7831620 * 1024,
        "reread.bw": 7783994 * 1024,
    }


def test_every_pass_has_its_metric() -> None:
    text = (GOLDEN / "every-test.txt").read_text()
    (cell,) = iozone_results.read(text, "x")
    assert iozone_results.read(text * 2, "x") == [cell, cell]
    assert {"random_read.bw", "backward_read.bw", "stride_read.bw", "frewrite.bw"} <= set(cell.metrics)


def test_processes_are_a_level_of_throughput_mode() -> None:
    (run,) = iozone_results.read(THROUGHPUT, "x")
    assert run.options == {"file_size": "4MiB", "record_size": "64KiB", "workers": "2"}
    assert run.metrics == {"write.bw": 300000.5 * 1024, "random_read.bw": 2000000.25 * 1024}


def test_the_number_of_a_clock_is_doubted() -> None:
    text = (GOLDEN / "matrix.txt").read_text().replace("0.000000001 seconds", "0.000001 seconds")
    first, second, *_ = iozone_results.read(text.replace("  1125294  3304249", " 64000000  3304249"), "x")
    assert [warning.code for warning in first.warnings] == ["clock-clamp"]
    assert not second.warnings


def test_sizes_are_factors_and_the_output_again_is_a_repetition(tmp_path: Path) -> None:
    twice = tmp_path / "twice.txt"
    twice.write_text((GOLDEN / "matrix.txt").read_text() * 2)
    found = frames.load(importer.take_in([twice], tmp_path / "run"))
    assert found.studies[0].driver == "iozone"
    assert found.studies[0].factors["file_size"] == ["64KiB", "128KiB", "256KiB"]
    assert found.trials.filter(file_size="64KiB", record_size="4KiB")["repetition"].to_list() == [0, 1]
