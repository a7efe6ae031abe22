"""`ioassay simulate`: options, answers, streams, files. What it refuses, and what it says to people, are rows of
tests/corpus/commands/simulate.toml.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ioassay.simulator import OPTIONS

from ..patience import until
from .command_server import Running
from .conftest import Ask, start

DEMANDED = {
    *("requests", "mean_response_ms", "p50_ms", "p99_ms", "p999_ms", "throughput_mb_s", "hit_ratio"),
    *("write_amplification", "erases", "cleanings", "moved_pages", "saturated", "unfinished", "wall_s", "warnings"),
}
NUMBERS = DEMANDED - {"saturated", "warnings"}


@pytest.fixture
def trace(ioassay: Ask, tmp_path: Path) -> Path:
    """Ten thousand writes at 20,000 a second, in DiskSim's format."""
    assert ioassay("trace", "make", "t.disksim", "--requests", 10_000).code == 0
    return tmp_path / "t.disksim"


def test_every_option_of_a_simulation_is_on_the_command_line_and_no_other(ioassay: Ask) -> None:
    said = ioassay("simulate", "--help").out
    headings = ("The drive:", "The write buffer:", "Feeding:", "Before the measurement:")
    drive, _, rest = said.partition("Reading the trace:")
    assert all(heading in drive for heading in headings) and "Preparing the trace" in rest
    shown = {word.strip(",") for word in drive.split() if word.startswith("--")}
    wanted = {f"--{option.name.replace('_', '-')}" for option in OPTIONS}
    negated = {f"--no-{option.name.replace('_', '-')}" for option in OPTIONS if option.kind == "flag"}
    assert shown == {"--drive"} | wanted | negated


def test_options_of_preparation_are_those_of_convert(ioassay: Ask) -> None:
    def options(*argv: str) -> set[str]:
        return {word for word in ioassay(*argv, "--help").out.split() if word.startswith("--")}

    assert options("trace", "convert") - options("simulate") == {"--from", "--to", "--lose"}


def test_json_has_what_programs_ask_for(ioassay: Ask, trace: Path) -> None:
    drive = ["--window", 20, "--driver", "clook", "--elements", 48]
    said = ioassay("simulate", trace, "--format", "disksim", "--policy", "none", *drive, "--json")
    assert said.code == 0, said.err
    found = said.json
    assert found.keys() >= DEMANDED and found["requests"] == 10_000
    assert all(isinstance(found[name], int | float) for name in NUMBERS)
    assert 0.3 < found["mean_response_ms"] < 0.4 and found["saturated"] is False
    assert found["policy"] == "none" and found["format"] == "disksim" and found["hit_ratio"] == 0
    assert [warning["code"] for warning in found["warnings"]] == ["never-cleaned"]
    assert "[never-cleaned]" in said.err


def test_options_reach_the_simulation(ioassay: Ask, trace: Path) -> None:
    options = ["--window", "none", "--feed", "closed:32", "--buffer", "1MiB", "--page", "4KiB", "--policy", "lru"]
    geometry = ["--elements", 8, "--blocks", 256, "--reserve", 0.2, "--min-free", 0.1, "--no-copy-back"]
    found = ioassay("simulate", trace, *options, *geometry, "--output", "out", "--json").json
    assert found["left_in_buffer"] == 256
    kept = json.loads((trace.parent / "out" / "summary.json").read_text())
    assert kept["options"]["feed"] == "closed:32" and kept["options"]["copy_back"] is False
    assert kept["mean_response_ms"] == found["mean_response_ms"]


def test_policies_are_compared(ioassay: Ask, trace: Path) -> None:
    policies = ["--policy", "none,lru,bplru-padded,bplru,epo", "--buffer", "1MiB", "--feed", "closed:48"]
    said = ioassay("simulate", trace, *policies, "--window", "none")
    assert said.code == 0
    rows = said.out.splitlines()
    assert [row.split()[0] for row in rows] == ["policy", "none", "lru", "bplru-padded", "bplru", "epo", "offline"]
    assert said.err.count("[never-cleaned]") == 1 and "none, lru, bplru-padded, bplru, epo: the drive never" in said.err
    found = ioassay("simulate", trace, "--policy", "none,epo", "--output", "both", "--csv", "--json").json
    both, optimum = found["simulations"], found["offline_optimum"]
    assert [each["policy"] for each in both] == ["none", "epo"]
    assert optimum["written_pages"] == 10_000 and optimum["hit_ratio"] == optimum["hits"] / 10_000
    assert both[0]["gain_share"] == 0 < both[1]["gain_share"] <= 1
    assert both[1]["gain_share"] == both[1]["hit_ratio"] / optimum["hit_ratio"]
    assert (trace.parent / "both" / "epo" / "series.csv").exists()


def test_a_sweep_is_the_cross_product(ioassay: Ask, trace: Path) -> None:
    sweep = ["--policy", "lru,epo", "--set", "buffer=256KiB,1MiB", "--set", "elements=4,8", "--window", "none"]
    said = ioassay("simulate", trace, *sweep)
    assert said.code == 0, said.err
    rows = [row.split() for row in said.out.splitlines()]
    assert rows[0][:3] == ["policy", "buffer", "elements"]
    expected = [[p, b, e] for p in ("lru", "epo") for b in ("256KiB", "1MiB") for e in ("4", "8")]
    assert [row[:3] for row in rows[1:9]] == expected
    assert [row[:4] for row in rows[9:]] == [
        ["offline", "optimum", b, e] for b in ("256KiB", "1MiB") for e in ("4", "8")
    ]
    found = ioassay("simulate", trace, *sweep, "--output", "many", "--json").json["simulations"]
    assert [[each["policy"], *each["set"].values()] for each in found] == expected
    alone = ["--policy", "epo", "--buffer", "256KiB", "--elements", 8, "--window", "none", "--json"]
    single = ioassay("simulate", trace, *alone).json
    assert single == {name: found[5][name] for name in single} | {"wall_s": single["wall_s"]}
    assert found[5]["offline_optimum"]["hit_ratio"] >= max(single["hit_ratio"], found[1]["hit_ratio"])
    kept = json.loads((trace.parent / "many" / "epo,buffer=256KiB,elements=8" / "summary.json").read_text())
    assert kept["mean_response_ms"] == single["mean_response_ms"] and kept["options"]["elements"] == "8"


def test_threads_do_not_change_results(ioassay: Ask, trace: Path) -> None:
    options = ["--window", "none", "--policy", "lru", "--buffer", "64KiB", "--json"]
    alone = ioassay("simulate", trace, *options).json
    several = ioassay("simulate", trace, *options, "--threads", 3).json
    assert several == {**alone, "wall_s": several["wall_s"]} and alone["written_pages"] > 9000


def test_a_sample_has_hit_ratios_and_nothing_else(ioassay: Ask, trace: Path) -> None:
    sweep = ["--policy", "lru,epo", "--set", "buffer=4MiB,8MiB", "--sample", 0.25]
    said = ioassay("simulate", trace, *sweep, "--output", "sampled", "--json")
    assert said.code == 0, said.err
    found = said.json["samples"]
    assert [(each["policy"], each["set"]["buffer"]) for each in found] == [
        *(("lru", "4MiB"), ("lru", "8MiB"), ("epo", "4MiB"), ("epo", "8MiB"))
    ]
    for each in found:
        assert not each.keys() & {"mean_response_ms", "throughput_mb_s", "iops", "write_amplification", "wall_s"}
        assert each["sample_rate"] == 0.25 and 0 <= each["hit_ratio"] <= each["optimum_hit_ratio"] + 0.01
    kept = trace.parent / "sampled" / "lru,buffer=4MiB"
    assert [path.name for path in kept.iterdir()] == ["summary.json"]
    assert json.loads((kept / "summary.json").read_text())["hit_ratio"] == found[0]["hit_ratio"]
    assert ioassay("simulate", trace, *sweep, "--output", "sampled").code == 2
    rows = ioassay("simulate", trace, *sweep).out.splitlines()
    assert "95 % confidence" in rows[1] and [row.split()[:2] for row in rows[3:]] == [
        *(["lru", "4MiB"], ["lru", "8MiB"], ["epo", "4MiB"], ["epo", "8MiB"])
    ]
    one = ioassay("simulate", trace, "--policy", "lru", "--sample", 0.25, "--json").json
    assert one["hit_ratio"] == found[1]["hit_ratio"]


def test_an_option_of_some_policies_multiplies_only_those(ioassay: Ask, trace: Path) -> None:
    said = ioassay("simulate", trace, "--policy", "lru,bplru", "--set", "padding=yes,no", "--json")
    assert said.code == 0, said.err
    runs = [(each["policy"], each.get("set")) for each in said.json["simulations"]]
    assert runs == [("lru", None), ("bplru", {"padding": "yes"}), ("bplru", {"padding": "no"})]


def test_a_made_trace_comes_through_a_pipe(ioassay: Ask, trace: Path) -> None:
    reading, writing = os.pipe()
    with start("trace", "make", "-", "--requests", 10_000, cwd=trace.parent, streams=(None, writing)) as make:
        os.close(writing)
        with start("simulate", "-", "--json", cwd=trace.parent, streams=(reading,)) as simulate:
            os.close(reading)
            assert (simulate.wait(), make.wait()) == (0, 0)
            said = simulate.out
    found, from_file = json.loads(said), ioassay("simulate", trace, "--json").json
    assert found["mean_response_ms"] == from_file["mean_response_ms"] and found["trace"] == "-"


def test_a_trace_that_ends_within_a_record_is_named_with_the_place(ioassay: Ask, tmp_path: Path) -> None:
    assert ioassay("trace", "make", "cut.vscsi", "--requests", 100).code == 0
    os.truncate(tmp_path / "cut.vscsi", 1000)
    said = ioassay("simulate", "cut.vscsi", "--format", "vscsi", "--json")
    assert said.code == 2 and "cut.vscsi: byte 992: the trace ends 8 bytes into a record of 32" in said.json["error"]


@pytest.mark.root
def test_a_full_disk_ends_with_1_and_leaves_no_half_file(
    ioassay: Ask, trace: Path, small_disk: Callable[..., Path]
) -> None:
    folder = small_disk(16)
    said = ioassay("simulate", trace, "--output", folder, "--csv")
    assert said.code == 1 and "No space left" in said.err
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def is_at_work(running: Running) -> bool:
    """Whether it has computed for a while, or has ended."""
    return running.has_ended() or psutil.Process(running.pid).cpu_times().user > 0.2


def test_ctrl_c_ends_it_with_130(trace: Path) -> None:
    with start("simulate", trace, "--elements", 400, "--precondition", 1, cwd=trace.parent) as running:
        until(lambda: is_at_work(running))
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130 and "Traceback" not in running.err and running.out == ""


SMALL = ["--elements", 8, "--blocks", 128, "--endurance", 0]


def test_a_run_is_saved_and_resumed(ioassay: Ask, trace: Path) -> None:
    whole = ioassay("simulate", trace, *SMALL, "--policy", "lru", "--json").json
    said = ioassay("simulate", trace, *SMALL, "--policy", "lru", "--first", 3000, "--save-state", "s")
    assert said.code == 0, said.err
    again = ioassay("simulate", trace, "--save-state", "s", "--first", 10)
    assert again.code == 2 and "s exists; --force replaces it" in again.err
    done = ioassay("simulate", trace, "--state", "s", "--resume", "--json").json
    assert done == {**whole, "wall_s": done["wall_s"]}


def test_a_preconditioned_drive_is_saved_without_a_trace(ioassay: Ask, trace: Path) -> None:
    said = ioassay("simulate", *SMALL, "--precondition", 1, "--save-state", "worn")
    assert said.code == 0, said.err
    found = ioassay("simulate", trace, "--state", "worn", "--policy", "none,lru", "--json").json["simulations"]
    at_once = ioassay("simulate", trace, *SMALL, "--precondition", 1, "--policy", "none,lru", "--json").json[
        "simulations"
    ]
    assert [{**each, "wall_s": 0} for each in found] == [{**each, "wall_s": 0} for each in at_once]


def test_ctrl_c_gives_what_was_measured_and_the_run_goes_on(ioassay: Ask, tmp_path: Path) -> None:
    assert ioassay("trace", "make", "long.vscsi", "--requests", 4_000_000).code == 0
    options = ["--elements", "4", "--policy", "lru", "--feed", "closed:32", "--no-cache"]
    with start("simulate", "long.vscsi", *options, "--json", "--save-state", "s", cwd=tmp_path) as running:
        until(lambda: (tmp_path / ".s.tmp").exists() or running.has_ended())  # the simulation begins with it
        until(lambda: is_at_work(running))
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130, running.err
        part, said = json.loads(running.out), running.err
    assert 0 < part["issued"] < 4_000_000 and "interrupted after" in said
    done = ioassay("simulate", "long.vscsi", "--state", "s", "--resume", "--json").json
    whole = ioassay("simulate", "long.vscsi", *options, "--json").json
    assert {**done, "wall_s": 0} == {**whole, "wall_s": 0}
