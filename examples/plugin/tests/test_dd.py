"""The driver: its command, and what it reads in real outputs of dd."""

from pathlib import Path

import pytest
from ioassay_dd.driver import Dd
from ioassay_dd.softirqs import make

from ioassay.errors import StudyError
from ioassay.roles import READ, WRITE, Load
from ioassay.testing import outcome, trial

GOLDEN = Path(__file__).parent / "golden"
FILE = {"kind": "file", "path": "f", "size": "1MiB"}


def test_it_copies_whole_blocks_past_the_page_cache(tmp_path: Path) -> None:
    load = Load("file", Path("/data/f"), (1 << 20) + 5, read_only=True)
    read = Dd().command(trial({"bs": "64KiB"}), load, tmp_path)
    assert read.argv == ["dd", "if=/data/f", "of=/dev/null", "bs=65536", "count=16", "conv=notrunc", "iflag=direct"]
    written = Dd().command(trial({"bs": 4096, "rw": "write", "direct": False}), load, tmp_path)
    assert written.argv == ["dd", "if=/dev/zero", "of=/data/f", "bs=4096", "count=256", "conv=notrunc"]


def test_it_says_what_it_does_to_the_target() -> None:
    assert Dd().access({}) == READ
    assert Dd().access({"rw": "write"}) == WRITE


def test_a_real_output_is_read(tmp_path: Path) -> None:
    said = (GOLDEN / "9.1" / "read.txt").read_text()
    parsed = Dd().parse(trial({"bs": "64k"}), outcome(tmp_path, stderr=said), tmp_path)
    assert parsed.status == "ok"
    (claim,) = parsed.claims
    assert parsed.metrics["read.bw"] == pytest.approx(claim.bytes / claim.seconds)
    assert parsed.metrics["dd.block_time"] == pytest.approx(claim.seconds * 1e9 / (claim.bytes / 65536))


def test_a_failure_is_reported(tmp_path: Path) -> None:
    parsed = Dd().parse(trial({}), outcome(tmp_path, stderr="dd: error reading 'x'\n", exit_code=1), tmp_path)
    assert (parsed.status, parsed.reason) == ("failed", "dd ended with status 1: dd: error reading 'x'")


@pytest.mark.parametrize(
    ("params", "target", "key"),
    [
        ({"block": 1}, FILE, "params.block"),
        ({"rw": "trim"}, FILE, "params.rw"),
        ({"bs": "4Q"}, FILE, "params.bs"),
        ({"bs": 0}, FILE, "params.bs"),
        ({}, {"kind": "folder", "path": "."}, "target.kind"),
    ],
)
def test_a_wrong_parameter_is_refused(params: dict, target: dict, key: str) -> None:
    with pytest.raises(StudyError) as refused:
        Dd().validate(params, target)
    assert refused.value.key == key


def test_soft_interrupts_are_summed_over_processors(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "softirqs").write_text(
        "          CPU0  CPU1\n   BLOCK:   3   4\n   TIMER:  10  0\n NEW:  1  1\n"
    )
    assert make(tmp_path, ()).read() == {"block": 7.0, "timer": 10.0}
