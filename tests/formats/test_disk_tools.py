"""ioping, Bonnie++ and hdparm: what is exact in their numbers, what is rounded, and what they leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.records.record import Claim

GOLDEN = Path(__file__).parents[1] / "golden"


def of_ioping(name: str, arguments: str = ".") -> Claim:
    (claim,) = formats.read(["ioping", *arguments.split()], (GOLDEN / f"ioping/1.3/{name}.txt").read_text())
    return claim


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "operations", "volume"),
    [
        ("directory", ".", "read", 5, 5 * 4096),
        ("direct", "-D -s 16k data", "read", 5, 5 * 16384),
        ("quiet-even", "-q -c 3000 .", "read", 3000, 3000 * 4096),
        ("rapid", "-R .", "read", None, 10202644),
        ("interim", "-p 2 .", "read", 6, 6 * 4096),
        ("batch", "-B .", "read", 6, 6 * 4096),
        ("json", "-J .", "read", 4, 4 * 8192),
        ("write", "-W .", "write", 4, 4 * 4096),
        ("write-sync", "-WY .", "write", 4, 4 * 2**20),
        ("ping-pong", "-G .", "mixed", 5, 5 * 1024),
    ],
)
def test_all_requests_of_ioping_are_claimed(
    name: str, arguments: str, kind: str, operations: int | None, volume: int
) -> None:
    claim = of_ioping(name, arguments)
    assert (claim.kind, claim.operations, claim.bytes) == (kind, operations, volume)
    assert claim.seconds and claim.unreported == (() if kind == "read" else ("layout",))


def test_ioping_leaves_the_first_request_out_of_its_mean() -> None:
    assert of_ioping("no-warmup").latency_ns["mean"] == pytest.approx(97300)
    for name in ("directory", "batch", "json"):
        assert of_ioping(name, f"-B {name}").latency_ns.keys() == {"min", "max"}


def test_the_target_of_ioping_is_a_file_and_its_step_that_of_the_print() -> None:
    claim = of_ioping("direct", "-c 5 -D -s 16k data")
    assert (claim.paths, claim.direct, claim.record_bytes) == (("data",), True, 16384)
    assert claim.rate_bytes_per_s == pytest.approx(8.72 * 2**20)
    assert claim.rate_unit_bytes == pytest.approx(2**20 / 100)
    rounded = of_ioping("rapid", "-R .")
    assert (rounded.paths, rounded.direct, rounded.rate_unit_bytes) == ((), False, pytest.approx(2**20 / 10))
    assert of_ioping("batch", "-B -A /data/x").paths == ("/data/x",)
    assert of_ioping("batch", "-B -async -size 8k /data/x").engine == "libaio"
    assert of_ioping("batch", "-B /data/x --size 8k -count 6 -quiet").bytes == 6 * 8192
    assert of_ioping("batch", "/data/x -count 6 -I -qB").paths == ("/data/x",)


def test_ioping_without_statistics() -> None:
    for bad in ("", (GOLDEN / "ioping/1.3/refused.err").read_text(), '[{"stat": {'):
        with pytest.raises(InputError, match="ioping"):
            formats.read(["ioping", "x"], bad)


def of_bonnie(name: str, arguments: str) -> dict[tuple[str, str], Claim]:
    found = formats.read(["bonnie++", *arguments.split()], (GOLDEN / "bonnie/2.00a" / name).read_text())
    return {(claim.test, claim.kind): claim for claim in found}


def test_bonnie_claims_each_test_of_its_data() -> None:
    found = of_bonnie("fast.txt", "-d /data -s 128:16k -f -D -b")
    assert list(found) == [
        ("put_block", "write"),
        ("rewrite", "read"),
        ("rewrite", "write"),
        ("get_block", "read"),
        ("seeks", "read"),
    ]
    for claim in found.values():
        assert (claim.bytes, claim.operations, claim.record_bytes) == (2**27, 8192, 16384)
        assert (claim.paths, claim.direct) == (("/data",), None if claim.test == "seeks" else True)
        assert claim.unreported == (("other-tests",) if claim.kind == "write" else ())  # a tenth of the seeks writes
    write = found["put_block", "write"]
    assert (write.rate_bytes_per_s, write.rate_unit_bytes) == (144419 * 1024, 1024)
    assert write.latency_ns["max"] == pytest.approx(26783e3)
    assert found["get_block", "read"].rate_bytes_per_s is None  # too short for one


def test_the_table_of_bonnie_serves_where_the_line_is_missing() -> None:
    whole = (GOLDEN / "bonnie/2.00a/fast.txt").read_text()
    table = whole[: whole.index("1.98,")]
    claims = formats.read(["./bench.sh"], table)
    assert [claim.bytes for claim in claims] == [2**27] * 4 + [None]
    assert (claims[0].rate_bytes_per_s, claims[0].rate_unit_bytes) == (141 * 2**20, 2**20)
    assert claims[0].latency_ns["max"] == pytest.approx(26783e3)
    quiet = of_bonnie("quiet.err", "-s 32")
    assert quiet["put_block", "write"].operations == 2**25 // 8192


def test_of_several_copies_of_bonnie_the_volume_is_not_known() -> None:
    line = (GOLDEN / "bonnie/2.00a/quiet.txt").read_text().replace("golden,1,", "golden,3,")
    assert {claim.bytes for claim in formats.read(["bonnie++", "-c", "3"], line)} == {None}


@pytest.mark.parametrize("bad", ["", "Writing intelligently...done\n", "1.98,2.00a,x,1,5,128M,,8192\n"])
def test_bonnie_without_results(bad: str) -> None:
    with pytest.raises(InputError, match=r"Bonnie\+\+"):
        formats.read(["bonnie++"], bad)


def of_hdparm(name: str) -> list[Claim]:
    return formats.read(["hdparm", "-tT", "/dev/loop0"], (GOLDEN / f"hdparm/9.65/{name}.txt").read_text())


def test_hdparm_reads_pieces_of_2_mib() -> None:
    cached, disk = of_hdparm("both")
    assert (cached.operations, cached.bytes, cached.primed) == (16530 // 2, 16530 << 20, True)
    assert (cached.rate_bytes_per_s, cached.seconds) == (None, None)  # its clock leaves out what copying takes
    assert (disk.operations, disk.bytes, disk.primed, disk.direct) == (8, 16 << 20, False, False)
    assert disk.rate_bytes_per_s == pytest.approx(607.93 * 2**20)
    assert disk.rate_unit_bytes == pytest.approx(0.01 * 2**20)
    assert {claim.paths for claim in (cached, disk)} == {("/dev/loop0",)}
    (direct,) = of_hdparm("direct")
    assert direct.direct is True


def test_hdparm_without_a_timing() -> None:
    with pytest.raises(InputError, match="no timing"):
        of_hdparm("refused")
    assert formats.read(["hdparm", "-I", "/dev/sda"], "/dev/sda:\n") == []
