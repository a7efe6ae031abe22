"""IOzone's table by width, its matrices, its throughput mode, and what its command line changes in the meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.formats import iozone_claims, iozone_table
from ioassay.formats.iozone_command import parse_invocation
from ioassay.records.record import Claim

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
SAMPLES = sorted(ROOT.parent.glob("*/data/iozone-samples"))


def kib_s(text: str, argv: tuple[str, ...] = ()) -> list[tuple[str, float]]:
    return [(claim.test, (claim.rate_bytes_per_s or 0) / 1024) for claim in iozone_claims.read(text, argv)]


def golden(name: str) -> list[Claim]:
    return iozone_claims.read((GOLDEN / f"iozone-{name}.txt").read_text())


def test_numbers_without_a_space_between_them_are_told_apart() -> None:
    found = {claim.test: claim.rate_bytes_per_s for claim in golden("every-test")}
    wanted = {"pwrite": 8525047, "repwrite": 10906310, "pread": 21388672, "repread": 16468073, "fread": 34567890}
    assert {name: (found[name] or 0) / 1024 for name in wanted} == wanted
    assert len(found) == 17


def test_claims_come_in_the_order_in_which_the_passes_ran() -> None:
    names = [claim.test for claim in golden("every-test")]
    assert names[:6] == ["write", "rewrite", "read", "reread", "random-read", "random-write"]
    assert names[6:9] == ["backward-read", "record-rewrite", "stride-read"]


def test_the_echoed_command_line_says_what_the_interval_includes() -> None:
    by_name = {claim.test: claim for claim in golden("every-test")}
    assert all(claim.includes == ("fsync",) and claim.paths == ("/data/one",) for claim in by_name.values())
    assert by_name["write"].direct and not by_name["fwrite"].direct  # the stdio tests ignore -I
    assert [name for name, claim in by_name.items() if claim.primed] == ["read", "reread"]
    assert [name for name, claim in by_name.items() if claim.silent_passes] == ["backward-read"]


@pytest.mark.parametrize(
    ("flags", "synchronous"),
    [
        ("-o", {"write", "rewrite", "random-write"}),
        ("-+D", {"write", "rewrite", "random-write"}),
        ("-o -B", set()),
        ("", set()),
    ],
)
def test_synchronous_writes_are_those_of_write_calls(flags: str, synchronous: set[str]) -> None:
    text = (
        (GOLDEN / "iozone-every-test.txt")
        .read_text()
        .replace("Command line used: iozone", f"Command line used: iozone {flags}", 1)
    )
    found = {claim.test for claim in iozone_claims.read(text) if "osync" in claim.includes}
    assert found - {"record-rewrite"} == synchronous
    assert all(claim.paths_stated for claim in iozone_claims.read(text))


def test_bytes_are_whole_records() -> None:
    text = (GOLDEN / "iozone-ops.txt").read_text().replace("            1024       4", "            1023       4")
    claim = iozone_claims.read(text)[0]
    assert (claim.operations, claim.bytes, claim.file_bytes) == (255, 255 * 4096, 1023 * 1024)


def test_a_number_wider_than_its_column_moves_the_others() -> None:
    first, clamped, backward, *_ = golden("wide-numbers")
    assert (first.rate_bytes_per_s, backward.rate_bytes_per_s) == (123456789 * 1024, 1234567890 * 1024)
    assert backward.silent_passes == 0  # -+n
    assert set(clamped.doubts) == {"clock-clamp", "poor-timer"}
    assert [claim.doubts for claim in golden("wide-numbers") if claim.file_bytes == 128 * 1024] == [()] * 3


def test_operations_and_microseconds_are_no_rates_of_kib() -> None:
    write = golden("ops")[0]
    assert (write.rate_bytes_per_s, write.rate_unit_bytes, write.seconds) == (253000 * 4096, 4096, None)
    assert write.includes == ("close",)
    slow, fast = golden("microseconds")
    assert (slow.latency_ns, fast.latency_ns) == ({"mean": 3000}, {"mean": 1000})
    assert slow.rate_bytes_per_s is None and slow.doubts == ("whole-microseconds",)


def test_matrices_stand_in_for_a_table_that_is_missing() -> None:
    cells = [(c.test, c.file_bytes, c.record_bytes, (c.rate_bytes_per_s or 0) / 1024) for c in golden("matrices")]
    assert ("write", 32768 * 1024, 64 * 1024, 300) in cells and ("reread", 65536, 65536, 600) in cells
    assert len(cells) == 8  # the crossover's zeros and processor use are none


def test_of_several_processes_the_bytes_are_not_told() -> None:
    writers, rereaders, mixed = golden("throughput")
    assert (writers.kind, rereaders.kind, mixed.kind) == ("write", "read", "mixed")
    assert (writers.bytes, writers.unreported, writers.paths) == (None, ("stonewalled",), ("a", "b"))
    assert writers.rate_bytes_per_s == pytest.approx(3000000.5 * 1024)
    text = (GOLDEN / "iozone-throughput.txt").read_text().replace("-t 2", "-x -t 2")
    assert iozone_claims.read(text)[0].bytes == 2 * 4096 * 1024


def test_a_row_that_was_cut_off_claims_what_is_whole_of_it() -> None:
    text = (GOLDEN / "iozone-every-test.txt").read_text()
    for place in range(text.index("1111111"), text.index("test complete")):
        found = kib_s(text[:place]) if "1111111" in text[:place] else []
        assert found == kib_s(text)[: len(found)]


def test_each_pass_is_of_the_test_that_iozone_s_usage_names() -> None:
    """`iozone -h`: -i # (0=write/rewrite, 1=read/re-read, 2=random-read/write, 3=Read-backwards, …)."""
    tests: dict[int, list[str]] = {}
    for name, made in iozone_table.PASSES.items():
        tests.setdefault(made.test, []).append(name)
    assert tests == {
        0: ["write", "rewrite"],
        1: ["read", "reread"],
        2: ["random-read", "random-write"],
        3: ["backward-read"],
        4: ["record-rewrite"],
        5: ["stride-read"],
        6: ["fwrite", "frewrite"],
        7: ["fread", "freread"],
        9: ["pwrite", "repwrite"],
        10: ["pread", "repread"],
        11: ["pwritev", "repwritev"],
        12: ["preadv", "repreadv"],
    }
    assert {name for name, made in iozone_table.PASSES.items() if made.kind == "read"} == {
        "read", "reread", "random-read", "backward-read", "stride-read", "fread", "freread", "pread", "repread",
        "preadv", "repreadv",
    }  # fmt: skip
    engines = {made.test: made.engine for made in iozone_table.PASSES.values()}
    assert engines == {
        **dict.fromkeys(range(6), "sync"), 6: "stdio", 7: "stdio", 9: "psync", 10: "psync", 11: "pvsync", 12: "pvsync",
    }  # fmt: skip


HEADER = "              kB  reclen    write  rewrite    read    reread"


def table(row: str, options: str, header: str = HEADER) -> list[tuple[str, int, int, float]]:
    text = f"\tCommand line used: iozone {options}\n{header}\n{row}\n\niozone test complete.\n"
    return [
        (c.test, (c.file_bytes or 0) // 1024, (c.record_bytes or 0) // 1024, (c.rate_bytes_per_s or 0) / 1024)
        for c in iozone_claims.read(text)
    ]


def test_jitter_adds_single_bytes_to_sequential_reads() -> None:
    row = "            1024       4      100      200      300      400"
    text = f"\tCommand line used: iozone -K -i0 -i1 -s1m\n{HEADER}\n{row}\n\niozone test complete.\n"
    claims = {claim.test: claim for claim in iozone_claims.read(text)}
    assert (claims["rewrite"].operations, claims["rewrite"].bytes) == (256, 1 << 20)
    assert (claims["read"].operations, claims["read"].bytes) == (256 + 6, (1 << 20) + 6)
    assert claims["read"].rate_bytes_per_s == 300 * 1024
    assert claims["read"].seconds == pytest.approx(1024 / 300)


def test_columns_have_the_widths_that_iozone_prints() -> None:
    """16 and 8 for the sizes; then 9 for a number, 10 for the record rewrite and strides, 8 for the first of fread."""
    row = f"{2**30:>16}{2**20:>8}{1:>9}{2:>9}"
    assert table(row, "-i 0") == [("write", 2**30, 2**20, 1), ("rewrite", 2**30, 2**20, 2)]
    numbers = "".join(f"{n:>{w}}" for n, w in zip(range(11, 22), (9, 9, 9, 9, 9, 9, 9, 10, 10, 9, 9), strict=True))
    rates = [rate for *_, rate in table(f"{1024:>16}{4:>8}{numbers}{22:>8}{23:>9}", "-a")]
    assert rates == list(range(11, 24))
    wide = f"{1024:>16}{4:>8}{123456789}{1234567890}"
    assert [rate for *_, rate in table(wide, "-i 0")] == [123456789, 1234567890]


@pytest.mark.parametrize(
    ("options", "blank", "numbers", "names"),
    [
        ("-i 0", 0, (9, 9), ["write", "rewrite"]),
        ("-i 1", 18, (9, 9), ["read", "reread"]),
        ("-i 2", 36, (9, 9), ["random-read", "random-write"]),
        ("-i 3", 54, (9,), ["backward-read"]),
        ("-i 4", 63, (10,), ["record-rewrite"]),
        ("-i 5", 73, (10,), ["stride-read"]),
        ("-i 6", 83, (9, 9), ["fwrite", "frewrite"]),
        ("-i 7", 101, (8, 9), ["fread", "freread"]),
        ("-i 9 -E", 118, (9, 9), ["pwrite", "repwrite"]),
        ("-i 10 -E", 136, (8, 9), ["pread", "repread"]),
        ("-i 11 -E", 153, (9, 9), ["pwritev", "repwritev"]),
        ("-i 12 -E", 171, (8, 9), ["preadv", "repreadv"]),
    ],
)
def test_tests_that_were_not_asked_for_are_blanks_of_their_width(
    options: str, blank: int, numbers: tuple[int, ...], names: list[str]
) -> None:
    header = f"{HEADER} pwrite repwrite pread repread pwritev repwritev preadv repreadv"
    row = f"{1024:>16}{4:>8}{' ' * blank}" + "".join(f"{10 + n:>{w}}" for n, w in enumerate(numbers))
    assert table(row, options, header) == [(name, 1024, 4, 10 + n) for n, name in enumerate(names)]


def test_a_row_that_does_not_fit_is_named() -> None:
    text = (GOLDEN / "iozone-ops.txt").read_text().replace("   253000", " 25x3000")
    with pytest.raises(InputError, match="25x3000"):
        iozone_claims.read(text)


def test_options_are_read_as_getopt_reads_them() -> None:
    found = parse_invocation(["-Rab", "x.xls", "-i0", "-i", "12", "-+n", "-F", "a", "b", "-I", "-Uec"])
    assert found.tests == {0, 12} and found.no_retest and found.files == ["a", "b"]
    assert {"R", "a", "I"} <= found.flags and found.values["b"] == ["x.xls"] and found.includes == ()


# The outputs of version 3.471 that lie beside some checkouts; numbers are those printed in them.


@pytest.fixture
def sample() -> Path:
    if not SAMPLES:
        pytest.skip("no folder iozone-samples lies beside this checkout")
    return SAMPLES[0]


COUNTS = {"E": 8, "N": 4, "O": 4, "Q": 2, "Rbu": 6, "a_i0123_R": 56, "a_i0123_r4k": 63, "crossover": 43, "t2": 4}


@pytest.mark.parametrize("name", COUNTS)
def test_every_number_of_a_sample_is_read(sample: Path, name: str) -> None:
    text = (sample / f"{name}.txt").read_text()
    assert formats.recognise([], text) == "iozone"
    assert len(iozone_claims.read(text)) == COUNTS[name]


def test_a_sample_says_the_same_in_its_table_and_its_matrices(sample: Path) -> None:
    text = (sample / "a_i0123_R.txt").read_text()
    table = {(c.test, c.file_bytes, c.record_bytes): c.rate_bytes_per_s for c in iozone_claims.read(text)}
    matrices = iozone_claims.read(text[text.index("Excel") :])
    assert {(c.test, c.file_bytes, c.record_bytes): c.rate_bytes_per_s for c in matrices} == table


def test_a_sample_with_numbers_run_together(sample: Path) -> None:
    found = kib_s((sample / "E.txt").read_text())
    assert found[4:] == [("pwrite", 8525047), ("repwrite", 10906310), ("pread", 21388672), ("repread", 16468073)]


def test_a_report_with_records_of_nothing_is_refused() -> None:
    text = '"Writer report"\n        "4"  "0"\n"64"   100   200\n'
    with pytest.raises(InputError, match="Writer|write.*records of 0 kB"):
        iozone_claims.read(text)
