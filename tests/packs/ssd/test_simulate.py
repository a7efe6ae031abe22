"""`ioassay.simulate`: its options, what it takes and refuses, and that others can work, stop it and pay no memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import ioassay
from ioassay.errors import InputError, UsageError
from ioassay.packs.ssd import simulator
from ioassay.packs.ssd.simulator import NAMES, OPTIONS, check, policies, setup, simulate
from ioassay.simulation import traces

from ...corpora import cases
from ...patience import PATIENCE_S, until
from .test_controller_drive import PLAIN, REGION, TLC

CSV = {"time_unit": "s", "offset_unit_bytes": 1, "length_unit_bytes": 1}
"""How a CSV trace in bytes is read."""


def test_it_takes_a_file_a_recipe_and_a_shipped_trace(lines: Any) -> None:
    assert ioassay.simulate is simulate
    assert simulate(lines((0, 0, 8)), format="disksim").summary["requests"] == 1
    made = simulate(traces.recipe(requests=100), drive={"elements": 8}, policy="lru", buffer="4KiB", window=None)
    assert made.summary["requests"] > 90 and made.elements.height == 8 and made.raw["format"] is None
    assert simulate("oltp").raw["format"] == "spc"


def test_a_trace_is_prepared_on_the_way(lines: Any) -> None:
    trace = lines((0, 0, 8), (1, 8, 8, 1), (2, 16, 64))
    prepare = traces.preparation(keep="writes", sizes="split")
    assert simulate(trace, format="disksim", prepare=prepare).summary["requests"] == 9


def test_a_drive_that_does_not_fit_into_memory_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """2448 elements export 2,148,031,872 pages, just over 2^31."""
    monkeypatch.setattr(simulator, "available_bytes", lambda: 1 << 30)
    needed = simulator.check({"elements": 2448})["memory_bytes"]
    with pytest.raises(UsageError) as error:
        simulate(traces.recipe(requests=1), elements=2448)
    assert f"a drive of 2148031872 pages takes {needed} bytes of memory and 858993459 are available" in str(error.value)
    simulate(traces.recipe(requests=1), elements=48)


@cases("simulator", "bad_traces")
def test_a_trace_that_cannot_be_used_is_named_with_the_place(tmp_path: Path, case: dict[str, str]) -> None:
    path = tmp_path / "bad.disksim"
    path.write_text(case["trace"])
    with pytest.raises(InputError) as error:
        simulate(path, format="disksim")
    assert str(error.value).startswith(f"{path}: {case['says']}")


def test_reads_and_writes_are_below_4_gib_and_trims_are_not(tmp_path: Path) -> None:
    """4 GiB in sectors is 8,388,608. A longer one is a wrong unit; a trim may be of the whole drive."""
    path = tmp_path / "long.csv"
    for kind in ("R", "W"):
        path.write_text(f"time,offset,length,kind\n0,0,{2**32 - 512},{kind}\n")
        assert simulate(path, format="csv", read=CSV).summary["requests"] == 1
        path.write_text(f"time,offset,length,kind\n0,0,512,{kind}\n1,0,{2**32},{kind}\n")
        with pytest.raises(InputError, match="line 3: length `4294967296 bytes` .* has less than 4 GiB"):
            simulate(path, format="csv", read=CSV)
    path.write_text(f"time,offset,length,kind\n0,0,{check({})['capacity_bytes']},D\n1,0,512,W\n")
    assert simulate(path, format="csv", read=CSV).summary["requests"] == 1


def test_ranges_that_are_no_whole_sectors_are_rounded_or_refused() -> None:
    trace = traces.recipe(requests=10, sizes="1000", align="100", range="1MiB")
    assert simulate(trace).summary["requests"] == 10
    with pytest.raises(UsageError, match="request 1 .*sectors"):
        simulate(trace, unaligned="refuse")


def test_a_worn_out_drive_ends_the_run_with_the_reason() -> None:
    tiny = {"elements": 1, "dies": 1, "planes": 1, "blocks": 32, "reserve": 0.5, "min_free": 0.05}
    with pytest.raises(UsageError, match="element 0 has no free block left .*dead.*expected a higher endurance"):
        simulate(traces.recipe(requests=10_000, range="2MiB"), endurance=1, **tiny)


def test_other_threads_run_meanwhile(tmp_path: Path) -> None:
    """One of them writes the trace that is read, which is longer than a pipe holds."""
    os.mkfifo(tmp_path / "pipe")
    text = "".join(f"{number} 0 {number % 4096 * 8} 8 0\n" for number in range(50_000))
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit((tmp_path / "pipe").write_text, text)
        assert simulate(tmp_path / "pipe", format="disksim", cache=False).summary["requests"] == 50_000
        assert writer.result() == len(text)


CALLS = {
    "writes": "simulator.simulate(traces.recipe(requests=4_000_000_000))",
    "reads": "simulator.simulate(traces.recipe(requests=4_000_000_000, reads=0.5))",
    "preconditioning": "simulator.simulate(traces.recipe(requests=1), elements=100, precondition=1)",
    "sweep": "simulator.sweep(traces.recipe(requests=4_000_000_000), [{'elements': 4}, {'elements': 8}])",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_ctrl_c_ends_long_work(call: str) -> None:
    code = f"from ioassay import simulator, traces\nprint('begun', flush=True)\n{call}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout and running.stderr
        try:
            assert running.stdout.readline() == b"begun\n"
            used_s = psutil.Process(running.pid).cpu_times().user
            until(lambda: psutil.Process(running.pid).cpu_times().user > used_s + 0.1)  # it is at work
            running.send_signal(signal.SIGINT)
            running.wait(timeout=PATIENCE_S)
        finally:
            running.kill()
        assert running.stderr.read().rstrip().endswith(b"KeyboardInterrupt")


# Options: what people write becomes what the core takes, and what cannot be is named


DOCUMENT = Path(__file__).parents[3] / "docs" / "simulator.md"


def test_without_options_it_is_the_reference_drive() -> None:
    made = setup({})
    assert made["drive"]["elements"] == 48 and made["drive"]["page"] == 4096
    assert made["feed"]["window"] == 20 and made["feed"]["driver"] == "clook"
    assert "buffer" not in made and "precondition" not in made
    # (2048 blocks - 15 % of them) x 8 planes x 63 data pages x 48 elements
    assert check({})["pages"] == (2048 - 307) * 8 * 63 * 48


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_default_can_be_given_as_people_write_it(option: Any) -> None:
    default = option.default
    written = str(default).lower() if isinstance(default, bool) else str(default)
    assert setup({option.name: written}) == setup({})


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_documented(option: Any) -> None:
    assert f"`--{option.name.replace('_', '-')}`" in DOCUMENT.read_text()


@cases("simulator", "options")
def test_values_are_read(case: dict[str, Any]) -> None:
    made = setup(case["given"])
    for group, values in case["becomes"].items():
        assert {key: made[group][key] for key in values} == values


BESIDE: dict[str, dict[str, Any]] = {"default": {}, "plain": PLAIN, "TLC": TLC, "region": {**TLC, **REGION}}


@cases("simulator", "refusals")
def test_a_drive_that_cannot_be_is_refused_before_it_runs(case: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        check({**BESIDE[case.get("of", "default")], **case["given"]})
    assert str(error.value).startswith(case["says"])


def test_a_check_says_what_the_drive_is() -> None:
    drive = check({"elements": 8, "blocks": 256})
    assert drive["pages"] == 878_976 and drive["capacity_bytes"] == 878_976 * 4096
    assert 4 * 878_976 < drive["memory_bytes"] < 12 * 878_976


def test_options_of_policies_are_options_of_a_simulation() -> None:
    assert len(NAMES) == len(OPTIONS)
    assert {name for policy in policies() for name in policy["options"]} <= NAMES.keys()


# Memory does not grow with the length of a trace


SHORT, LONG = 200_000, 1_400_000
ALLOWED_BYTES = 12 << 20
"""Far less than the requests between the two: 40 bytes each, 48 MB."""
CODE = """
import sys, ioassay
from ioassay.packs.ssd import simulator
from ioassay.simulation import traces
how, requests, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
recipe = traces.recipe(requests=requests, reads=0.2, arrivals="poisson:5000", range="32MiB")
options = {"elements": 8, "blocks": 64, "endurance": 0, "policy": "lru", "buffer": "1MiB", "window": None}
if how == "made":
    ioassay.simulate(recipe, **options)
elif how == "sweep":
    simulator.sweep(path, [options, {**options, "buffer": "2MiB"}])
elif how == "sample":
    traces.mrc(path, sample_pages=512)
else:
    ioassay.simulate(path, **options)
print(next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


def peak_bytes(how: str, requests: int, path: Path) -> int:
    """The largest resident set of a process that does it; in getrusage(2) is what it was started from, too."""
    words = [sys.executable, "-c", CODE, how, str(requests), str(path)]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_the_resident_set_does_not_grow_with_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    paths = {}
    for requests in (SHORT, LONG):
        paths[requests] = tmp_path / f"{requests}.vscsi.zst"
        made = {"requests": requests, "reads": 0.2, "arrivals": "poisson:5000", "range": "32MiB"}
        traces.make(paths[requests], to="vscsi", **made)
    for how in ("made", "file", "cache", "sweep", "sample"):
        # The first has fewer pages of its libraries where these are not in memory yet.
        long, short = (peak_bytes(how, requests, paths[requests]) for requests in (LONG, SHORT))
        assert long - short < ALLOWED_BYTES, how
