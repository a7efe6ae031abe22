"""ioassay simulate at the real command line: options, answers, exit codes, streams, files."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioassay.simulator import OPTIONS

Ask = Callable[..., Any]

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


def test_people_get_a_summary(ioassay: Ask, trace: Path) -> None:
    said = ioassay("simulate", trace)
    assert said.code == 0
    assert f"{trace}: disksim, 10,000 requests measured" in said.out
    for part in (
        "48 elements, 161 GiB",
        "open, window 20, driver clook",
        "response   mean 0.3",
        "MB/s",
        "10,000 pages",
    ):
        assert part in said.out
    assert "warning: the drive never cleaned" in said.err and "remedy: precondition it" in said.err


def test_a_saturated_run_has_no_mean_for_people(ioassay: Ask, trace: Path) -> None:
    said = ioassay("simulate", trace, "--elements", 2)
    assert said.code == 0 and "mean" not in said.out
    assert "response   none that is steady" in said.out
    assert "[saturated]" in said.err and "--feed closed:32" in said.err
    assert ioassay("simulate", trace, "--elements", 2, "--json").json["saturated"] is True


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


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "buffer"], "--set is 'buffer', wanted NAME=VALUE"),
        (["--set", "buffer=1MiB,"], "wanted NAME=VALUE"),
        (["--set", "bufer=1MiB"], "did you mean 'buffer'?"),
        (["--set", "buffer=1MiB,much", "--policy", "lru"], "buffer"),
        (["--set", "buffer=1MiB,2MiB", "--buffer", "1MiB"], "buffer is given twice"),
        (["--set", "buffer=1MiB", "--set", "buffer=2MiB"], "buffer is given twice"),
        (["--set", "policy=lru,epo"], "--policy lru,epo"),
        (["--set", "padding=yes,no", "--policy", "lru"], "--padding is an option of bplru"),
        (["--set", "elements=4,0"], "elements is 0"),
    ],
)
def test_a_wrong_sweep_is_refused(ioassay: Ask, trace: Path, options: list[str], expected: str) -> None:
    said = ioassay("simulate", trace, *options)
    assert said.code == 2 and expected in said.err


def test_policies_are_listed(ioassay: Ask) -> None:
    assert "round robin" in ioassay("simulate", "--list-policies").out
    known = ioassay("simulate", "--list-policies", "--json").json["policies"]
    assert {"none", "lru", "epo", "idle-cold"} <= {each["name"] for each in known}


def test_a_made_trace_comes_through_a_pipe(ioassay: Ask, trace: Path) -> None:
    command = [sys.executable, "-I", "-m", "ioassay"]
    make = subprocess.Popen([*command, "trace", "make", "-", "--requests", "10000"], stdout=subprocess.PIPE)
    simulate = [*command, "simulate", "-", "--json"]
    done = subprocess.run(simulate, stdin=make.stdout, capture_output=True, timeout=60)
    assert make.stdout
    make.stdout.close()
    assert (done.returncode, make.wait(timeout=60)) == (0, 0)
    found, from_file = json.loads(done.stdout), ioassay("simulate", trace, "--json").json
    assert found["mean_response_ms"] == from_file["mean_response_ms"] and found["trace"] == "-"


def test_a_trace_is_prepared_on_the_way(ioassay: Ask) -> None:
    found = ioassay("simulate", "oltp", "--keep", "writes", "--first", 100, "--sizes", "cut", "--json").json
    assert found["requests"] == 100 == found["written_pages"]


def test_files_are_not_replaced_unless_told(ioassay: Ask, trace: Path) -> None:
    assert ioassay("simulate", trace, "--output", "out").code == 0
    names = {path.name for path in (trace.parent / "out").iterdir()}
    assert names == {"summary.json", "series.parquet", "elements.parquet", "utilisation.parquet"}
    said = ioassay("simulate", trace, "--output", "out")
    assert said.code == 2 and "summary.json exists; --force replaces it" in said.err and said.out == ""
    assert ioassay("simulate", trace, "--output", "out", "--force").code == 0


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        # the trace
        (["far"], "far: request 2 (counted from 1), 4096 bytes at 511999999995904: to end within the drive's"),
        (["zero"], "zero: line 2: a request of no length (--zero-length skip leaves such out)"),
        (["huge"], "huge: request 1 (counted from 1), 172000000000 bytes at 0: less than 4 GiB in a read or write"),
        (["huge", "--policy", "lru", "--mode", "inline"], "less than 4 GiB in a read or write"),
        (["huge", "--sizes", "split"], "172000000000 bytes are 41992188 pages of 4096, wanted at most"),
        (["t.disksim", "--first", "0"], "--first is 0, wanted 1 or more"),
        (
            ["t.disksim", "--skip", "50000"],
            "requests: skip is 50000 and leaves out 10,000; nothing was simulated",
        ),
        (["t.disksim", "--keep", "reads", "--policy", "none,lru"], "keep is reads and leaves out 10,000; nothing was"),
        (["order"], "order: line 3: "),
        (["odd"], "odd: line 2: "),
        (["odd.csv", "--unaligned", "refuse"], "odd.csv: request 1 (counted from 1), 1000 bytes at 100: "),
        (["cut.vscsi"], "cut.vscsi: byte 992: the trace ends 8 bytes into a record of 32"),
        (["missing"], "missing: No such file"),
        (["."], "Is a directory"),
        (["nothing"], "nothing: the trace parses to nothing"),
        ([], "no trace is given"),
        (["-", "--policy", "none,lru"], "standard input can be read once, 2 simulations and their optimum need more"),
        # the drive
        (["t.disksim", "--reserve", "0"], "reserve is 0, wanted at least 104 of the 2048 blocks"),
        (["t.disksim", "--blocks", "4"], "min_free is 0.05, wanted at least 0.2500"),
        (["t.disksim", "--min-free", "0.2"], "reserve is 0.15, wanted at least 411"),
        (["t.disksim", "--blocks", "few"], "blocks is 'few', wanted a whole number"),
        (["t.disksim", "--elements", "4096", "--planes", "1024", "--dies", "1"], "wanted a drive of less than"),
        (["t.disksim", "--window", "wide"], "window is 'wide', wanted a whole number or none"),
        (["t.disksim", "--feed", "closed"], "feed is 'closed', wanted open, scaled:FACTOR"),
        # the buffer
        (["t.disksim", "--policy", "lur"], "policy is 'lur', wanted none, fifo, lru"),
        (["t.disksim", "--policy", "bplru", "--buffer", "64KiB"], "`bplru` needs a buffer of at least 64 pages"),
        (
            ["t.disksim", "--policy", "none,epo-all", "--buffer", "4KiB"],
            "`epo-all` needs a buffer of at least 48 pages",
        ),
        (["t.disksim", "--policy", "lru", "--write-behind", "idle"], "write_behind is idle, wanted off in front of"),
        (["t.disksim", "--policy", "lru", "--padding"], "--padding is an option of bplru, and the policy is lru"),
        # long traces
        (["t.disksim", "--threads", "0"], "--threads is 0, wanted 1 to 1024"),
        (["t.disksim", "--threads", "many"], "--threads is 'many', wanted a whole number"),
        (["t.disksim", "--threads", "2", "--policy", "none,lru"], "--threads goes with one simulation, and 2 were"),
        (["t.disksim", "--threads", "2", "--policy", "lru", "--sample", "0.5"], "--threads and --sample do not go"),
        (["t.disksim", "--sample", "0.5"], "policy is none, wanted a write buffer"),
        (["t.disksim", "--sample", "50", "--policy", "lru"], "sample is 50, wanted a rate above 0 and at most 1"),
        (["t.disksim", "--sample", "half", "--policy", "lru"], "--sample is 'half', wanted a number"),
        (["t.disksim", "--sample", "0.5", "--policy", "lru", "--csv"], "--csv and --sample do not go together"),
        (["t.disksim", "--sample", "0.5", "--policy", "lru", "--feed", "closed:8"], "feed and sample do not go"),
        (["t.disksim", "--sample", "0.5", "--policy", "lru", "--set", "window=1,2"], "window and sample do not go"),
        (["t.disksim", "--sample", "0.5", "--policy", "lru", "--save-state", "s"], "--save-state and --sample do not"),
        (["t.disksim", "--feed", "batch:1@1d"], "the simulation passes 150 days of simulated time"),
        # the output
        (["t.disksim", "--csv"], "--csv goes with --output DIR"),
        (["t.disksim", "--output", "t.disksim"], "t.disksim is a file, wanted a folder"),
        (["t.disksim", "--polcy", "lru"], "No such option: --polcy"),
    ],
)
def test_bad_input_ends_with_2_and_a_reason(
    argv: list[str], named: str, ioassay: Ask, trace: Path, tmp_path: Path
) -> None:
    write_bad_traces(tmp_path)
    if argv[:1] == ["cut.vscsi"]:
        assert ioassay("trace", "make", "whole.vscsi", "--requests", 100).code == 0
        (tmp_path / "cut.vscsi").write_bytes((tmp_path / "whole.vscsi").read_bytes()[:1000])
    there = set(tmp_path.iterdir())
    formats = {**dict.fromkeys(("far", "huge", "zero", "order", "odd"), "disksim"), "cut.vscsi": "vscsi"}
    told = ["--format", formats[argv[0]]] if argv and argv[0] in formats else []
    if argv and argv[0] == "odd.csv":
        told = ["--format", "csv", "--columns", "time,offset,length,kind", "--skip-header", "--time-unit", "ms"]
        told += ["--offset-unit", "1", "--length-unit", "1"]
    said = ioassay("simulate", *argv, *told, "--json")
    assert said.code == 2 and named in said.err, said.err
    assert said.json["exit_code"] == 2 and named in said.json["error"]
    assert set(tmp_path.iterdir()) == there


def write_bad_traces(folder: Path) -> None:
    (folder / "far").write_text("0 0 8 8 0\n1 0 999999999992 8 0\n")
    (folder / "huge").write_text("0 0 0 335937500 0\n1 0 8 8 0\n")
    (folder / "zero").write_text("0 0 8 8 0\n1 0 8 0 0\n")
    (folder / "order").write_text("0 0 8 8 0\n1 0 8 8 0\n0.5 0 8 8 0\n")
    (folder / "odd").write_text("0 0 8 8 0\n1 0 x 8 0\n")
    (folder / "odd.csv").write_text("time,offset,length,kind\n0,100,1000,write\n1,4096,4096,write\n")
    (folder / "nothing").write_text("")


@pytest.mark.root
def test_a_full_disk_ends_with_1_and_leaves_no_half_file(
    ioassay: Ask, trace: Path, small_disk: Callable[..., Path]
) -> None:
    folder = small_disk(16)
    said = ioassay("simulate", trace, "--output", folder, "--csv")
    assert said.code == 1 and "No space left" in said.err
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_ctrl_c_ends_it_with_130(trace: Path) -> None:
    argv = [sys.executable, "-I", "-m", "ioassay", "simulate", str(trace), "--elements", "400", "--precondition", "1"]
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.0)  # there is no sign of being at work; too early an interruption must end it alike
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130 and "Traceback" not in err and out == ""


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


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--resume"], "--resume goes with --state FILE"),
        (["--save-state", "s", "--policy", "lru,epo"], "--save-state goes with one simulation, and 2"),
        (["--state", "t.disksim"], "t.disksim is not a saved state"),
        (["--state", "nowhere"], "nowhere: No such file"),
        (["--save-state", "no/where"], "no is no folder"),
    ],
)
def test_wrong_options_of_states_are_refused(ioassay: Ask, trace: Path, options: list[str], expected: str) -> None:
    said = ioassay("simulate", trace, *options)
    assert said.code == 2 and expected in said.err


def test_ctrl_c_gives_what_was_measured_and_the_run_goes_on(ioassay: Ask, tmp_path: Path) -> None:
    assert ioassay("trace", "make", "long.vscsi", "--requests", 4_000_000).code == 0
    options = ["--elements", "4", "--policy", "lru", "--feed", "closed:32", "--no-cache"]
    argv = [sys.executable, "-I", "-m", "ioassay", "simulate", "long.vscsi", *options, "--json"]
    running = subprocess.Popen(
        [*argv, "--save-state", "s"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / ".s.tmp").exists():  # the simulation begins with it
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    part = json.loads(out)
    if "error" in part:
        pytest.skip("interrupted before the first request: nothing to go on with")
    assert 0 < part["issued"] < 4_000_000 and "interrupted after" in err
    done = ioassay("simulate", "long.vscsi", "--state", "s", "--resume", "--json").json
    whole = ioassay("simulate", "long.vscsi", *options, "--json").json
    assert {**done, "wall_s": 0} == {**whole, "wall_s": 0}
