"""The contract tests of ioassay for all that the plugin adds."""

from pathlib import Path

from ioassay_dd import block_cost, block_time, softirqs
from ioassay_dd.driver import Dd

from ioassay.testing import AnalysisContract, DriverContract, FigureContract, MonitorContract

STUDY = {"driver": "null", "repetitions": 3, "factors": {"bs": ["4KiB", "16KiB", "64KiB"]}}
KIB = {"4KiB": 4, "16KiB": 16, "64KiB": 64}


class TestDriver(DriverContract):
    driver = Dd
    params = {"rw": "read"}


class TestMonitor(MonitorContract):
    monitor = softirqs
    name = "softirqs"


class TestAnalysis(AnalysisContract):
    analysis = block_cost
    study = STUDY

    def measure(self, point, repetition):
        return {"dd.block_time": 20_000 + 500 * KIB[point["bs"]] + repetition}

    def test_the_fixed_cost_is_found(self, tmp_path: Path) -> None:
        (finding,) = self.findings(self.records(tmp_path))
        assert round(finding.statistics["fixed_ns"]) == 20_001
        assert finding.statistics["follows_a_line"]
        assert finding.statement.startswith("A block costs 20 µs whatever its size, and more bytes come at 2.05 GB/s")

    def test_what_is_no_line_is_called_so(self, tmp_path: Path) -> None:
        from ioassay.testing import records

        times = {"4KiB": 1e6, "16KiB": 1e3, "64KiB": 1e6}
        (finding,) = self.findings(
            records(tmp_path, self.study, lambda point, _: {"dd.block_time": times[point["bs"]]})
        )
        assert not finding.statistics["follows_a_line"]
        assert "does not follow a line" in finding.statement


class TestFigure(FigureContract):
    figure = block_time
    kind = "block_time"
    study = STUDY
    measure = TestAnalysis.measure
