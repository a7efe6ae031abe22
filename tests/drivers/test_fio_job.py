"""From parameters to fio's job file."""

from pathlib import Path
from typing import Any

import pytest

from ioassay.drivers.fio import job
from ioassay.errors import ToolError
from ioassay.roles import Load, Trial

GIB = 2**30


def emitted(params: dict[str, Any], load: Load | None = None, seed: int = 7) -> dict[str, str]:
    """The options of the emitted job."""
    trial = Trial("0123abcd", "study", "fio", {}, params, {}, {}, 0, seed, 0)
    text = job.emit(trial, load or Load("file", Path("/disk/testfile"), GIB, False))
    heading, *lines = text.splitlines()
    assert heading == "[ioassay-0123abcd]"
    return dict(line.split("=", 1) for line in lines)


def test_parameters_the_target_and_the_seed_are_in_the_job() -> None:
    found = emitted({"ioengine": "libaio", "bs": "4KiB", "rw": "randread", "direct": 1})
    assert found["ioengine"] == "libaio"
    assert found["bs"] == "4096"
    assert found["filename"] == "/disk/testfile"
    assert found["size"] == str(GIB)
    assert (found["randseed"], found["randrepeat"]) == ("7", "0")


def test_only_documented_options_are_added() -> None:
    found = emitted({"rw": "read", "runtime": "10s"})
    added = found.keys() - {"rw", "runtime", "filename", "size", "randseed", "randrepeat"}
    assert added == {"fallocate", "clat_percentiles", "lat_percentiles", "slat_percentiles", "time_based"}


def test_data_that_is_written_is_made_afresh_unless_the_study_says_what_it_is() -> None:
    assert emitted({"rw": "randrw"})["refill_buffers"] == "1"
    assert emitted({"rw": "write", "refill_buffers": 0})["refill_buffers"] == "0"
    assert "refill_buffers" not in emitted({"rw": "write", "zero_buffers": 1})
    assert "refill_buffers" not in emitted({"rw": "read"})


def test_a_study_may_turn_a_default_off() -> None:
    found = emitted({"rw": "read", "runtime": "10s", "time_based": 0, "slat_percentiles": 0})
    assert (found["time_based"], found["slat_percentiles"]) == ("0", "0")


def test_a_seed_of_the_study_wins() -> None:
    found = emitted({"rw": "randread", "randseed": 5})
    assert found["randseed"] == "5"
    assert "randrepeat" not in found


def test_a_seed_always_fits_fios_signed_number() -> None:
    assert int(emitted({"rw": "read"}, seed=2**64 - 1)["randseed"]) < 2**63


def test_a_colon_in_the_path_is_escaped() -> None:
    found = emitted({"rw": "read"}, Load("device", Path("/dev/disk/by-path/pci-0000:00:04.0"), GIB, False))
    assert found["filename"] == r"/dev/disk/by-path/pci-0000\:00\:04.0"


@pytest.mark.parametrize("name", ["a#b", "a;b", "a$ncpus", "a\nb", "blank ", "esc\x1b"])
def test_a_path_that_a_job_file_cannot_express_is_refused(name: str) -> None:
    with pytest.raises(ToolError, match="cannot express"):
        emitted({"rw": "read"}, Load("file", Path("/disk") / name, GIB, False))


def test_percentages_are_of_the_target() -> None:
    found = emitted({"rw": "read", "size": "25%", "offset": "50%"})
    assert (found["size"], found["offset"]) == (str(GIB // 4), str(GIB // 2))


def test_an_offset_leaves_the_rest_so_that_the_file_does_not_grow() -> None:
    found = emitted({"rw": "write", "offset": "256MiB", "offset_increment": "128MiB", "numjobs": 3})
    assert int(found["size"]) == GIB - (256 + 2 * 128) * 2**20
    with pytest.raises(ToolError, match=r"reach to 1\.25 GiB of a target of 1 GiB"):
        emitted({"rw": "write", "offset": "256MiB", "size": "1GiB"})


def test_an_engine_without_storage_needs_no_target_and_others_do() -> None:
    nothing = Load("null", None, 0, True)
    found = emitted({"rw": "read", "ioengine": "null"}, nothing)
    assert "filename" not in found
    assert int(found["size"]) > 0
    with pytest.raises(ToolError, match="needs something to load"):
        emitted({"rw": "read", "ioengine": "psync"}, nothing)


def test_logs_are_asked_for_in_the_trials_own_folder() -> None:
    found = emitted({"rw": "randrw", "logs": ["bw", "clat"], "log_interval": "50ms"})
    assert (found["write_bw_log"], found["write_lat_log"]) == ("log", "log")
    assert {found[name] for name in ("log_avg_msec", "bwavgtime", "iopsavgtime")} == {"50"}
    assert "write_iops_log" not in found


def test_latency_logs_of_several_jobs_need_their_iops_as_weights() -> None:
    assert emitted({"rw": "read", "logs": ["lat"], "numjobs": 2})["write_iops_log"] == "log"
