"""dd's summaries: GNU's in several languages, busybox's, and what the arguments change in their meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.formats import dd
from ioassay.records.record import Claim

GOLDEN = Path(__file__).parents[1] / "golden" / "dd" / "9.1"
BUSYBOX = Path(__file__).parents[1] / "golden" / "busybox" / "1.35.0"
COPY = ["dd", "if=/a/from", "of=/a/to", "bs=64k"]
SIZE_BYTES = 2**24 - 5


def text(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", ["plain", "de_DE", "fr_FR", "pt_BR", "ru_RU", "zh_CN"])
def test_a_copy_is_a_read_and_a_write_in_any_language(name: str) -> None:
    read, write = formats.read(COPY, "", text(name))
    assert (read.kind, read.paths, write.kind, write.paths) == ("read", ("/a/from",), "write", ("/a/to",))
    for claim in (read, write):
        assert (claim.operations, claim.bytes, claim.record_bytes) == (256, SIZE_BYTES, 65536)
        assert claim.seconds and claim.rate_bytes_per_s
        assert claim.rate_bytes_per_s == pytest.approx(SIZE_BYTES / claim.seconds, abs=claim.rate_unit_bytes)
    assert formats.recognise(["./copy.sh"], "", text(name)) == "dd"


def test_arguments_say_what_was_direct_and_what_was_synced() -> None:
    argv = [*COPY, "conv=notrunc,fdatasync", "oflag=direct", "iflag=fullblock"]
    read, write = formats.read(["nice", *argv], "", text("fdatasync"))
    assert (read.direct, write.direct, read.syncs, write.syncs) == (False, True, None, 1)
    assert write.includes == ("fsync", "close")
    assert read.unreported == ("end-of-file",)


def test_sides_that_are_no_files_claim_nothing() -> None:
    assert [c.kind for c in formats.read(["dd", "if=/dev/zero", "of=f"], "", text("plain"))] == ["write"]
    assert formats.read(["dd", "if=/dev/zero", "of=/dev/null"], "", text("plain")) == []
    assert formats.read(["dd", "of=f"], "", text("plain"))[0].kind == "write"


def test_without_arguments_nobody_knows_the_sides() -> None:
    assert {claim.doubts for claim in formats.read(["./copy.sh"], "", text("plain"))} == {
        ("sides-unknown", "among-others")
    }


def test_of_a_dd_that_was_asked_while_running_the_last_summary_counts() -> None:
    (write,) = formats.read(["dd", "if=/dev/zero", "of=f", "bs=1M"], "", text("asked-while-running"))
    assert write.bytes == int(text("asked-while-running").splitlines()[-1].split()[0])


def test_each_dd_of_a_script_claims() -> None:
    both = text("plain") + text("one-byte")
    script = ["sh", "-c", "dd if=a of=b bs=64k; dd if=c of=d bs=1 count=1 2>&1"]
    assert [claim.paths[0] for claim in formats.read(script, "", both)] == ["a", "b", "c", "d"]


def test_no_summary_was_asked_for() -> None:
    assert formats.read([*COPY, "status=none"], "", text("none")) == []
    read, write = formats.read([*COPY, "status=noxfer", "bs=1000000"], "", text("noxfer"))
    assert (read.operations, write.seconds, write.bytes) == (256, None, None)


def test_busybox_tells_blocks() -> None:
    read, _ = formats.read(["busybox", *COPY], "", (BUSYBOX / "dd.txt").read_text())
    assert (read.operations, read.bytes) == (256, None)


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("16777216 bytes (16.0MB) copied, 0.010000 seconds, 1.5GB/s", 1.5 * 2**30),
        ("16777216 bytes (17 MB) copied, 0.01 s, 1.7 GB/s", 1.7e9),
        ("16777216 bytes transferred in 0.010 secs (1677721600 bytes/sec)", 1677721600.0),
        ("16777216 bytes (17 MB, 16 MiB) copied, 1.2e-05 s, Infinity B/s", None),
    ],
)
def test_summaries_of_other_builds(line: str, rate: float | None) -> None:
    _, write = formats.read(COPY, "", f"256+0 records in\n256+0 records out\n{line}\n")
    assert (write.bytes, write.rate_bytes_per_s) == (2**24, rate)


@pytest.mark.parametrize(
    ("line", "rate", "step", "clock_step_s"),
    [
        ("999 bytes (999.0B) copied, 0.010000 seconds, 97.6KB/s", 97.6 * 1024, 0.1 * 1024, 1e-6),  # busybox
        ("999 bytes copied, 0.01 s, 99.9 kB/s", 99.9e3, 100.0, 1e-9),
        ("999 bytes copied, 0,01 s, 99,9 kB/s", 99.9e3, 100.0, 1e-9),
        ("999 bytes copied, 2 s, 499 B/s", 499.0, 1.0, 1e-9),
        ("999 bytes copied, 0.01 s, 1.2 MB/s", 1.2e6, 1e5, 1e-9),
        ("999 bytes transferred in 0.010 secs (99900 bytes/sec)", 99900.0, 1.0, 0.0),
    ],
)
def test_rates_have_the_step_of_their_last_digit(line: str, rate: float, step: float, clock_step_s: float) -> None:
    _, write = formats.read(COPY, "", f"1+1 records in\n1+1 records out\n{line}\n")
    assert (write.rate_bytes_per_s, write.rate_unit_bytes) == pytest.approx((rate, step))
    assert (write.bytes, write.operations, write.clock_step_s) == (999, 2, clock_step_s)


SUMMARY = "3+1 records in\n2+0 records out\n{} bytes copied, 1 s, 1 kB/s\n"


@pytest.mark.parametrize(
    ("arguments", "volume", "read_bytes", "written_bytes"),
    [
        ("ibs=512 obs=1k", 2048, 2048, 2048),
        ("ibs=512 obs=1k conv=notrunc", 2048, 2048, 2048),
        ("ibs=512 obs=1k conv=sync", 2048, None, 2048),  # partial blocks were filled up
        ("bs=1k conv=block", 2048, None, 2048),
    ],
)
def test_bytes_are_those_of_whole_blocks_or_of_the_summary(
    arguments: str, volume: int, read_bytes: int | None, written_bytes: int
) -> None:
    read, write = dd.read(SUMMARY.format(volume), ["dd", "if=a", "of=b", *arguments.split()])
    assert (read.bytes, write.bytes, read.operations, write.operations) == (read_bytes, written_bytes, 4, 2)
    assert read.rate_bytes_per_s == write.rate_bytes_per_s == 1000
    full = SUMMARY.replace("3+1", "3+0").format(2048)
    read, _ = dd.read(full, ["dd", "if=a", "of=b", "ibs=512"])
    assert (read.bytes, read.rate_bytes_per_s) == (3 * 512, None)


def test_what_arguments_say_of_each_side() -> None:
    def sides(*arguments: str) -> tuple[Claim, Claim]:
        read, write = dd.read(SUMMARY.format(2048), ["dd", "if=a", "of=b", *arguments])
        return read, write

    read, write = sides("count=4", "iflag=direct,fullblock", "conv=sparse,fsync")
    assert (read.unreported, read.direct, write.direct, read.syncs, write.syncs) == ((), True, False, None, 1)
    assert (read.doubts, write.doubts, read.includes) == ((), ("sparse",), ("fsync", "close"))
    read, write = sides("ibs=1k", "obs=2k")
    assert (read.record_bytes, write.record_bytes, write.syncs, write.includes) == (1024, 2048, 0, ("close",))
    read, write = sides("bs=4k", "ibs=1k")
    assert (read.record_bytes, write.record_bytes, write.unreported) == (4096, 4096, ())
    assert [claim.record_bytes for claim in sides()] == [512, 512]


@pytest.mark.parametrize("bad", ["", "dd: failed to open 'x': No such file or directory\n", "1+0 records in\n"])
def test_no_summary_where_there_should_be_one(bad: str) -> None:
    with pytest.raises(InputError, match="no summary"):
        formats.read(COPY, "", bad)


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("4k", 4096),
        ("2x1kB", 2000),
        ("b", None),
        ("1b", 512),
        ("", 512),
        ("3c", 3),
        ("7", 7),
        ("2w", 4),
        ("1M", 2**20),
        ("1MiB", 2**20),
        ("1MB", 10**6),
        ("3GB", 3 * 10**9),
        ("2x3x4b", 12288),
        ("x", None),
        ("1Q", None),
    ],
)
def test_sizes_are_in_dds_own_units(size: str, found: int | None) -> None:
    assert dd._size(size) == found


def test_the_rate_belongs_to_the_bytes_that_are_printed() -> None:
    """A full disk: six blocks were read, and five of them written; the rate is that of the five."""
    printed = "6+0 records in\n5+0 records out\n5242880 bytes (5.2 MB, 5.0 MiB) copied, 0.0396 s, 132 MB/s\n"
    read, write = formats.read(["dd", "if=a", "of=b", "bs=1M"], "", printed)
    assert (read.bytes, read.rate_bytes_per_s) == (6 << 20, None)
    assert (write.bytes, write.rate_bytes_per_s) == (5 << 20, 132e6)


def test_a_script_may_do_more_than_the_tool_in_it() -> None:
    printed = "1+0 records in\n1+0 records out\n4096 bytes (4.1 kB, 4.0 KiB) copied, 0.001 s, 4.1 MB/s\n"
    alone = (["dd", "if=a", "of=b"], ["nice", "dd", "if=a", "of=b"], ["sh", "-c", "exec dd if=a of=b"])
    among = (["sh", "-c", "cat a; dd if=a of=b"], ["./bench.sh"])
    for argv, doubted in [*((one, False) for one in alone), *((one, True) for one in among)]:
        claims_ = formats.read(argv, "", printed)
        assert claims_ and all(("among-others" in one.doubts) == doubted for one in claims_), argv


INTERIM = text("asked-while-running")


@pytest.mark.parametrize(
    ("script", "operations"),
    [
        ("dd if=/dev/zero of=f bs=1M & sleep 1; kill -USR1 $!; wait", [23104]),
        ("dd if=/dev/zero of=f bs=1M status=progress", [23104]),
        ("for n in 1 2 3; do dd if=/dev/zero of=f bs=1M; done", [8412, 15954, 23104]),  # runs or interim summaries
    ],
)
def test_interim_summaries_in_a_script_are_left_out_or_marked(script: str, operations: list[int]) -> None:
    claims = formats.read(["sh", "-c", script], "", INTERIM)
    assert [claim.operations for claim in claims] == operations
    assert ["interim" in claim.doubts for claim in claims] == [True] * (len(claims) - 1) + [False]


def test_smaller_summaries_are_of_another_run() -> None:
    claims = formats.read(["sh", "-c", "for n in 1 2; do dd if=/dev/zero of=f; done"], "", INTERIM + text("one-byte"))
    assert ["interim" in claim.doubts for claim in claims] == [True, True, False, False]
    unknown = formats.read(["./script"], "", INTERIM)
    assert sum("interim" in claim.doubts for claim in unknown) == 4


def test_a_progress_line_is_no_summary() -> None:
    progress = "\r12582912 bytes (13 MB, 12 MiB) copied, 1 s, 12.6 MB/s\n" + text("plain")
    assert [claim.bytes for claim in formats.read(COPY, "", progress)] == [SIZE_BYTES, SIZE_BYTES]


@pytest.mark.parametrize(
    "script",
    [
        "dd if=a bs=64k 2>/dev/null | dd of=b bs=64k",
        "dd if=a bs=64k status=none | dd of=b bs=64k",
        "dd if=a of=c 2> log; dd of=b bs=64k",
    ],
)
def test_a_silent_dd_claims_nothing(script: str) -> None:
    (claim,) = formats.read(["sh", "-c", script], "", text("plain"))
    assert (claim.kind, claim.paths, claim.paths_stated, "sides-unknown" in claim.doubts) == (
        "write",
        ("b",),
        True,
        False,
    )
    assert formats.read(["sh", "-c", "dd if=a of=b 2>/dev/null"], "", "") == []


@pytest.mark.parametrize(
    ("script", "known"),
    [
        ("dd if=a of=b; dd if=c of=d", True),
        ("dd if=a of=b 2>&1; dd if=c of=d 2>&1", True),
        ("dd if=a of=b\ndd if=c of=d", True),
        ("dd if=a | dd of=b", False),
        ("dd if=a of=b & dd if=c of=d; wait", False),
        ("dd if=a of=b || dd if=c of=d", False),
        ("if true; then dd if=a of=b; fi; dd if=c of=d", False),
    ],
)
def test_summaries_of_commands_side_by_side_have_no_order(script: str, known: bool) -> None:
    claims = formats.read(["sh", "-c", script], "", text("plain") * 2)
    assert claims and all(
        ("sides-unknown" not in claim.doubts, claim.paths_stated) == (known, known) for claim in claims
    )


def test_which_words_are_files_and_which_writes_are_synchronous() -> None:
    def stated(*argv: str) -> list[bool]:
        return [claim.paths_stated for claim in formats.read(argv, "", text("plain"))]

    assert stated(*COPY) == [True, True] and stated("./copy.sh") == [False, False]
    assert stated("sh", "-c", "dd if=$F of=/a/to") == [False, True]
    assert stated("dd", "if=$F", "of=/a/to") == [True, True]  # no shell has seen it
    for flag, synchronous in (("sync", True), ("direct,dsync", True), ("direct", False)):
        read, write = formats.read([*COPY, f"oflag={flag}", f"iflag={flag}"], "", text("plain"))
        assert ("osync" in read.includes, "osync" in write.includes) == (False, synchronous)
