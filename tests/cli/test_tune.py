"""The command `tune` as users meet it: what it says at its end, what it refuses, and how a stopped search goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ioassay.store import packed_page

SURFACE = """
title = "Surface"
driver = "null_pure"
seed = 3
[params]
noise = 0.02
fail_share = 0
[params.effects]
x = { "1" = 1.0, "2" = 1.1, "3" = 1.3, "4" = 1.2, "5" = 0.9 }
y = { "a" = 1.0, "b" = 1.2, "c" = 0.7 }
[factors]
x = [1, 2, 3, 4, 5]
y = ["a", "b", "c"]
"""
GOAL = ("--maximize", "value", "--trials", "16", "--confirm", "3", "--workers", "2")


@pytest.fixture
def surface(tmp_path: Path) -> str:
    """A study of 15 points, of which x = 3, y = b is the best by 30 %."""
    (tmp_path / "surface.toml").write_text(SURFACE)
    return "surface.toml"


ASKED = ("--subject-to", "value < 170", "--seed", "9", "--no-pruning", "--budget", "1h", "--range", "x=1..4")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A whole search, and what it said."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "surface.toml").write_text(SURFACE)
    argv = [sys.executable, "-I", "-m", "ioassay", "tune", "surface.toml", *GOAL, *ASKED, "--output", "run"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_people_read_the_winner_as_pairs_with_the_gain_and_the_way_to_use_it(searched: tuple[Path, str]) -> None:
    folder, out = searched
    assert "x=3 y=b\n" in out
    assert "to use it: ioassay run surface.toml --factor x=3 --factor y=b" in out
    assert "of 12 points were tried" in out
    assert "The gain is confirmed" in out
    page = packed_page.unpacked((folder / "run" / "report" / "index.html").read_text())
    assert "What did the search find?" in page
    assert "Do the factors matter?" not in page
    assert "ioassay tune study.toml --maximize value" in page


def test_a_search_that_has_ended_says_everything_again_as_one_object(ioassay: Any, searched: tuple[Path, str]) -> None:
    answer = ioassay("tune", "--resume", "run", "--json", cwd=searched[0])
    assert answer.code == 0
    said = answer.json
    assert said["goal"] == {"metric": "value", "maximize": True, "constraints": ["value < 170"]}
    assert said["space"]["points"] == 12
    assert [axis["name"] for axis in said["space"]["axes"]] == ["x", "y"]
    assert said["best"]["point"] == {"x": 3, "y": "b"}
    assert said["default"]["point"] == {"x": 1, "y": "a"}
    assert said["best"]["interval"][0] < said["best"]["mean"] < said["best"]["interval"][1]
    assert said["confirmed"] is True
    assert said["confirmation"]["verdict"] == "improved"
    assert said["confirmation"]["ratio"] == pytest.approx(1.56, rel=0.1)
    assert said["trials"]["default"] == 1 and said["trials"]["confirm"] == 6
    assert len(said["history"]) == 22
    assert said["ended"] == "trials"
    assert "confirm" in ioassay("sql", "run", "SELECT DISTINCT search FROM trials", cwd=searched[0]).out


def test_the_options_of_a_search_are_kept_in_its_run(searched: tuple[Path, str]) -> None:
    kept = json.loads((searched[0] / "run" / "tune.json").read_text())
    assert (kept["metric"], kept["maximize"], kept["seed"], kept["pruning"]) == ("value", True, 9, False)
    assert (kept["budget_s"], kept["batch"], kept["trials"], kept["confirm"]) == (3600.0, 2, 16, 3)
    assert kept["constraints"][0]["text"] == "value < 170"
    assert kept["axes"][0]["levels"] == [1, 2, 3, 4]
    assert kept["default"] == {"x": 1, "y": "a"}


def test_a_gain_that_is_not_proved_is_not_claimed_and_is_no_failure(ioassay: Any, tmp_path: Path) -> None:
    """One per cent is real here, and less than what counts as a difference."""
    small = 'title = "Small"\ndriver = "null_pure"\n[params]\nnoise = 0\neffects = { x = { "2" = 1.01 } }\n[factors]\n'
    (tmp_path / "small.toml").write_text(f"{small}x = [1, 2]\n")
    answer = ioassay("tune", "small.toml", *GOAL, "--output", "run", "--json")
    assert answer.code == 0
    said = answer.json
    assert said["best"]["point"] == {"x": 2}
    assert said["confirmation"]["verdict"] == "no difference"
    assert said["confirmed"] is False and said["use"] is None


def test_a_default_that_is_the_best_stays(ioassay: Any, surface: str) -> None:
    answer = ioassay("tune", surface, *GOAL, "--output", "run", "--default", "x=3", "--default", "y=b", "--json")
    assert answer.code == 0
    assert answer.json["best"]["point"] == answer.json["default"]["point"] == {"x": 3, "y": "b"}
    assert answer.json["confirmation"] is None
    assert answer.json["confirmed"] is False


def test_constraints_that_no_point_keeps_are_a_failure_that_names_the_nearest(ioassay: Any, surface: str) -> None:
    answer = ioassay("tune", surface, *GOAL, "--subject-to", "value < 10", "--output", "run")
    assert answer.code == 1
    assert "No tried point satisfies the constraints.\nThe nearest is" in answer.out
    assert "y=c" in answer.out


def test_a_search_of_which_every_trial_fails_says_why(ioassay: Any, surface: str) -> None:
    answer = ioassay("tune", surface, *GOAL, "--set", "fail_share=1.0", "--output", "run")
    assert answer.code == 1
    assert "nothing to recommend" in answer.out
    assert "failed: surface at" in answer.err and "the study asked for this failure" in answer.err


def test_a_metric_that_the_load_does_not_give_ends_the_search_at_once(ioassay: Any, surface: str) -> None:
    answer = ioassay("tune", surface, "--maximize", "read.bw", "--trials", "9", "--workers", "1", "--output", "run")
    assert answer.code == 2
    assert "has no metric read.bw" in answer.err and "value" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["surface.toml", "--maximize", "value"], "--trials: none given; wanted 2 or more"),
        (["surface.toml", "--maximize", "value", "--trials", "1"], "--trials: is 1; wanted 2 or more"),
        (["surface.toml", "--trials", "9"], "neither of --maximize and --minimize"),
        (["surface.toml", "--maximize", "value", "--minimize", "value", "--trials", "9"], "both of --maximize"),
        (["surface.toml", "--maximize", "read.iosp", "--trials", "9"], "did you mean 'read.iops'?"),
        (["surface.toml", *GOAL, "--subject-to", "write.lat.p99 = 5"], "wanted METRIC < VALUE"),
        (["surface.toml", *GOAL, "--subject-to", "write.lat.p99 < 5"], "a time with its unit"),
        (["surface.toml", *GOAL, "--range", "x=7"], "wanted LOW..HIGH"),
        (["surface.toml", *GOAL, "--range", "x"], "--range x: wanted NAME=VALUE"),
        (["surface.toml", *GOAL, "--range", "x=1,2", "--range", "x=3,4"], "'x' is named twice"),
        (["surface.toml", *GOAL, "--default", "z=1"], "'z' is not searched"),
        (["surface.toml", *GOAL, "--budget", "soon"], "--budget soon: wanted a time"),
        (["surface.toml", *GOAL, "--margin", "2"], "--margin 2: wanted a share"),
        (["surface.toml", *GOAL, "--factor", "x=1", "--factor", "y=a"], "nothing to search"),
        (["surface.toml", *GOAL, "--output", "."], "exists already"),
        (["block-io", *GOAL], "is a suite of"),
        ([*GOAL], "no study given"),
        (["nothing.toml", *GOAL], "no such study file"),
        (["--resume", "nowhere"], "no such folder"),
        (["surface.toml", "--resume", "nowhere"], "wanted no study and no other change"),
        (["--resume", "nowhere", "--listed"], "wanted no study and no other change"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_is_written(
    ioassay: Any, surface: str, tmp_path: Path, words: list[str], message: str
) -> None:
    answer = ioassay("tune", *words)
    assert answer.code == 2
    assert message in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["surface.toml"]


def test_runs_and_searches_are_each_gone_on_with_by_their_own_command(
    ioassay: Any, searched: tuple[Path, str], a_run: Path
) -> None:
    folder = searched[0]
    answer = ioassay("run", "--resume", "run", cwd=folder)
    assert answer.code == 2
    assert "ioassay tune --resume run" in answer.err
    answer = ioassay("tune", "--resume", a_run)
    assert answer.code == 2
    assert f"ioassay run --resume {a_run}" in answer.err
    answer = ioassay("tune", "surface.toml", *GOAL, "--output", "run", cwd=folder)
    assert answer.code == 2
    assert "to go on with it: ioassay tune --resume run" in answer.err


def test_an_interrupted_search_says_how_to_go_on_and_does(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SURFACE.replace("null_pure", "null").replace("noise", 'sleep = "50ms"\nnoise'))
    argv = [sys.executable, "-I", "-m", "ioassay", "tune", "slow.toml", *GOAL, "--output", "run"]
    running = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(3000):
        if len(list(tmp_path.glob("run/trials/*/record.json"))) >= 3 or running.poll() is not None:
            break
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Go on with: ioassay tune --resume run" in err
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("run/trials/*/record.json")}
    answer = ioassay("tune", "--resume", "run", "--json")
    assert answer.code == 0
    assert len(answer.json["history"]) == len(list(tmp_path.glob("run/trials/*/record.json")))
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_search_on_the_buffer_of_the_simulated_drive_ends_with_a_confirmed_winner(
    ioassay: Any, tmp_path: Path
) -> None:
    (tmp_path / "buffer.toml").write_text(
        """
title = "The write buffer of a simulated drive"
driver = "simulate"
[params]
window = "none"
driver = "fcfs"
slices = 32
feed = "closed:32"
make = { requests = 20000, arrivals = "bursts:62.8:2.1:inf", addresses = "zipf:0.95", range = "256MiB", seed = 4 }
[factors]
policy = ["none", "lru", "bplru", "epo", "idle-cold"]
buffer = ["1MiB", "2MiB", "4MiB", "8MiB", "16MiB"]
"""
    )
    answer = ioassay(
        "tune", "buffer.toml", "--minimize", "write.lat.mean", "--trials", "14", "--confirm", "2", "--listed", "--json"
    )
    assert answer.code == 0
    assert answer.json["space"]["points"] == 25
    assert answer.json["confirmed"] is True
    assert answer.json["best"]["point"]["policy"] != "none"
    assert answer.json["confirmation"]["ratio"] < 0.9


DEPTH = """
title = "Queue depth of random reads"
driver = "fio"
[target]
kind = "file"
path = "data"
size = "64MiB"
[params]
rw = "randread"
bs = "4k"
ioengine = "libaio"
direct = 1
runtime = "500ms"
[factors]
iodepth = [1, 4, 16, 32]
[watch]
monitors = ["cpu"]
"""


@pytest.mark.fio
def test_a_search_of_the_queue_depth_ends_with_a_confirmed_winner(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "depth.toml").write_text(DEPTH)
    words = ["--maximize", "read.iops", "--subject-to", "read.lat.p99 < 10s", "--trials", "5", "--confirm", "5"]
    answer = ioassay("tune", "depth.toml", *words, "--listed", "--json", within_s=300)
    assert answer.code == 0, answer.err
    assert answer.json["best"]["point"]["iodepth"] > 1
    assert answer.json["confirmed"] is True
    assert answer.json["confirmation"]["constraints"][0]["verdict"] == "kept"


@pytest.mark.fio
def test_a_target_that_holds_data_of_others_is_refused_before_anything_is_made(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "depth.toml").write_text(DEPTH.replace('"randread"', '"randwrite"'))
    (tmp_path / "data").write_bytes(b"precious" * 1000)
    answer = ioassay("tune", "depth.toml", "--maximize", "write.iops", "--trials", "4", "--output", "run")
    assert answer.code == 3
    assert "data" in answer.err
    assert (tmp_path / "data").read_bytes() == b"precious" * 1000
    assert not (tmp_path / "run").exists()


METHODS = """
title = "Methods"
driver = "stress_ng"
[params]
stressor = "cpu"
timeout = "1s"
[factors]
cpu-method = ["int16", "int64"]
[watch]
monitors = ["cpu"]
"""


@pytest.mark.stress
def test_a_search_over_what_an_operation_is_says_that_these_are_different_work(ioassay: Any, tmp_path: Path) -> None:
    (tmp_path / "methods.toml").write_text(METHODS)
    goal = ["--maximize", "bogo_ops_real_rate", "--trials", "2", "--confirm", "2"]
    answer = ioassay("tune", "methods.toml", *goal, "--json", within_s=120)
    assert answer.code == 0, answer.err
    (told,) = [item for item in answer.json["warnings"] if item["code"] == "different-work"]
    assert "different work for each CPU method" in told["text"]
    assert told["remedy"] == "--range cpu-method=NAME keeps to one"
