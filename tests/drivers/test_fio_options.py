"""Names and values of fio's options: sizes leave as bytes, durations in the option's unit."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioassay import units
from ioassay.drivers.fio.fio_options import Names, canonical, write
from ioassay.drivers.fio.section import fio_bytes, fio_seconds
from ioassay.errors import StudyError

SUFFIXES = ["", "k", "K", "KiB", "kB", "KB", "m", "M", "MiB", "MB", "g", "GiB", "GB", "TiB"]
spelled_sizes = st.builds(lambda number, suffix: f"{number}{suffix}", st.integers(1, 9999), st.sampled_from(SUFFIXES))


@given(text=spelled_sizes, kb_base=st.sampled_from([1024, 1000]))
def test_fio_reads_a_written_size_as_the_bytes_that_were_meant(text: str, kb_base: int) -> None:
    assert fio_bytes(write("bs", text), kb_base) == units.parse_size(text)


@given(sizes=st.lists(spelled_sizes, min_size=1, max_size=3))
def test_sizes_of_each_direction_keep_their_places(sizes: list[str]) -> None:
    assert write("bs", ",".join(sizes)) == ",".join(str(units.parse_size(size)) for size in sizes)
    assert write("bs", sizes) == write("bs", ",".join(sizes))


@given(parts=st.lists(st.tuples(spelled_sizes, st.integers(0, 100)), min_size=1, max_size=4))
def test_a_split_keeps_its_shares(parts: list[tuple[str, int]]) -> None:
    written = write("bssplit", ":".join(f"{size}/{share}" for size, share in parts))
    assert written == ":".join(f"{units.parse_size(size)}/{share}" for size, share in parts)


@given(milliseconds=st.integers(1, 10**7))
def test_fio_reads_a_written_run_time_as_the_time_that_was_meant(milliseconds: int) -> None:
    assert fio_seconds(write("runtime", f"{milliseconds}ms")) == pytest.approx(milliseconds / 1e3)


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("bs", "4KiB", "4096"),
        ("bs", 4096, "4096"),
        ("bs", ",8k", ",8192"),
        ("bsrange", "4k-64k,1M-2M", "4096-65536,1048576-2097152"),
        ("bssplit", "4KiB/30:16KiB/60:64KiB/10,4k/,1k", "4096/30:16384/60:65536/10,4096/,1024"),
        ("size", "50%", "50%"),
        ("io_size", "1.5GiB", "1610612736"),
        ("zonesize", "4z", "4z"),
        ("filesize", "1m-2m", "1048576-2097152"),
        ("rate", "1MB,500kB", "1000000,500000"),
        ("rw", "write:16k", "write:16384"),
        ("rw", "randrw:8", "randrw:8"),
        ("random_distribution", "zoned_abs:60/20G:40/100G", "zoned_abs:60/21474836480:40/107374182400"),
        ("random_distribution", "zipf:1.2", "zipf:1.2"),
        ("runtime", 10, "10"),
        ("runtime", "2m", "120"),
        ("runtime", 0.5, "500000us"),
        ("startdelay", "1s-1500ms", "1-1500000us"),
        ("thinktime", 100, "100"),
        ("thinktime", "1ms", "1000"),
        ("log_avg_msec", "100ms", "100"),
        ("direct", True, "1"),
        ("percentile_list", [50, 99.5], "50:99.5"),
        ("cpus_allowed", [0, 2], "0,2"),
        ("ioengine", " libaio ", "libaio"),
    ],
)
def test_values_are_written_as_fio_reads_them(name: str, value: Any, written: str) -> None:
    assert write(name, value) == written


@pytest.mark.parametrize(
    ("given_name", "wanted"),
    [
        ("blocksize", "bs"),
        ("readwrite", "rw"),
        ("timeout", "runtime"),
        ("time-based", "time_based"),
        ("ss_dur", "steadystate_duration"),
        ("hugepage-size", "hugepage-size"),
        ("numjobs", "numjobs"),
    ],
)
def test_aliases_and_dashes_lead_to_fios_first_name(given_name: str, wanted: str) -> None:
    assert canonical(given_name) == wanted


@pytest.mark.parametrize(
    ("text", "kb_base", "wanted"),
    [
        ("4k", 1024, 4096),
        ("4KiB", 1024, 4000),
        ("4KiB", 1000, 4096),
        ("4k", 1000, 4000),
        ("1mb", 1024, 2**20),
        ("1mi", 1024, 2**20),
        ("0x1000", 1024, 4096),
        ("512b", 1024, 512),
        ("50%", 1024, None),
        ("4z", 1024, None),
        ("1.5k", 1024, None),
    ],
)
def test_sizes_in_job_files_are_read_as_fio_reads_them(text: str, kb_base: int, wanted: int | None) -> None:
    assert fio_bytes(text, kb_base) == wanted


def learned() -> Names:
    names = Names()
    names.learn(
        {
            "engines": "Available IO engines:\n\tpsync\n\tlibaio\n",
            "options": "rw                      : IO direction\n  bs                    : Block size unit\n",
            "engine:libaio": "brand_new               : Came with a newer fio\n",
        }
    )
    return names


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(StudyError, match="did you mean 'bs'") as caught:
        learned().check(["rw", "bss"], {"psync"})
    assert caught.value.key == "params.bss"


def test_options_of_the_engine_are_known_and_those_of_another_are_named() -> None:
    names = learned()
    names.check(["bs", "userspace_reap", "brand_new", "bs_is_seq_rand"], {"libaio", "psync"})
    with pytest.raises(StudyError, match="option of ioengine libaio; used here: psync"):
        names.check(["userspace_reap"], {"psync"})


def test_nothing_is_refused_before_fio_was_asked_nor_for_an_engine_that_is_not_known() -> None:
    Names().check(["nonsense"], {"psync"})
    learned().check(["nonsense"], {"my_own_engine"})
