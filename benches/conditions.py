"""Does the grade of a trial's conditions say whether its number can be used? Real tools, beside loads of six strengths.

    .venv/bin/python benches/conditions.py [--rounds 6] [--seconds 2] [--only NAME…]

stress-ng keeps every processor busy for 2 to 100 % of the time, or another fio writes to the same disk. Each loaded
trial stands between two quiet ones of the same tool, whose mean is what it is compared with; so is each quiet one with
those before and after it, and that is the machine's noise: what 95 % of them differ by. Grades are those of
`analysis.machine_conditions`, from what `host.interference` measured. Promised: at least 95 % of the trials that are
called fit are within 5 % of the quiet result, or within the quiet machine's own noise where that is larger; and those
that are called unfit differ.
Needs fio, stress-ng and db_bench, and a machine that is quiet otherwise: quiet trials that are not fit are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ioassay.analysis import machine_conditions
from ioassay.analysis.machine_conditions import Grade
from ioassay.host import interference
from ioassay.host.interference import Meter
from ioassay.records.record import Environment

STRENGTHS = (2, 5, 10, 25, 50, 100)
NEAR = 0.05
SETTLE_S = 0.3


@dataclass(frozen=True)
class Trial:
    """One run of a tool: its result, a rate; what else used the machine."""

    load: str
    rate: float
    environment: Environment

    @property
    def grade(self) -> Grade:
        return machine_conditions.grade(self.environment)


def fio(*options: str) -> Callable[[float], tuple[list[str], Callable[[str], float]]]:
    def command(seconds: float) -> tuple[list[str], Callable[[str], float]]:
        argv = ["fio", "--name=load", "--filename=data", "--size=256m", "--bs=4k", "--rw=randread", "--time_based",
                f"--runtime={seconds:g}", "--output-format=json", *options]  # fmt: skip
        return argv, lambda text: float(json.loads(text[text.index("{") :])["jobs"][0]["read"]["iops"])

    return command


def filesuite(seconds: float) -> tuple[list[str], Callable[[str], float]]:
    argv = [sys.executable, "-m", "ioassay", "filesuite", "-i", "0", "-i", "1", "-s", "256m", "-r", "64k", "--json"]
    return argv, lambda text: statistics.fmean(_rates(json.loads(text)))


def _rates(found: object) -> Iterator[float]:
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "bytes_per_s" and isinstance(value, int | float):
                yield float(value)
            yield from _rates(value)
    elif isinstance(found, list):
        for value in found:
            yield from _rates(value)


def db_bench(seconds: float) -> tuple[list[str], Callable[[str], float]]:
    argv = ["db_bench", "--db=db", "--use_existing_db=1", "--benchmarks=readrandom", "--num=200000",
            f"--duration={max(round(seconds), 1)}", "--value_size=100", "--threads=1"]  # fmt: skip

    def rate(text: str) -> float:
        found = re.search(r"readrandom\s*:.*?(\d+) ops/sec", text)
        assert found, text
        return float(found[1])

    return argv, rate


TOOLS = {
    "fio, cached": fio("--ioengine=psync", "--invalidate=0"),
    "fio, direct": fio("--ioengine=libaio", "--iodepth=4", "--direct=1"),
    "filesuite": filesuite,
    "db_bench": db_bench,
}


@contextmanager
def load(name: str) -> Iterator[None]:
    """'' is none, a number the percentage of each processor, 'disk' another writer."""
    argv = ["stress-ng", "--quiet", "--cpu", "0", "--cpu-method", "int64", "--cpu-load", name]
    if name == "disk":
        argv = ["fio", "--name=other", "--filename=other", "--size=256m", "--bs=64k", "--rw=randwrite", "--direct=1",
                "--ioengine=libaio", "--iodepth=16", "--time_based", "--runtime=60"]  # fmt: skip
    if not name:
        yield
        return
    # Not our child, else it would be taken for a server of the lab.
    detached = ["sh", "-c", 'setsid "$@" >/dev/null 2>&1 & echo $!', "sh", *argv]
    group = int(subprocess.run(detached, capture_output=True, text=True, check=True).stdout)
    try:
        time.sleep(SETTLE_S)
        yield
    finally:
        os.killpg(group, signal.SIGTERM)


def measure(tool: str, under: str, seconds: float, meter: Meter) -> Trial:
    argv, rate = TOOLS[tool](seconds)
    with load(under), tempfile.TemporaryFile("w+") as output:
        meter.begin()
        child = subprocess.Popen(argv, stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        environment = meter.end(interference.cpu_time(usage))
        output.seek(0)
        text = output.read()
    assert child.returncode == 0 and environment is not None, (argv, child.returncode, text[-500:])
    return Trial(under, rate(text), environment)


def prepare() -> None:
    subprocess.run([*fio()(0.1)[0], "--runtime=1"], check=True, stdout=subprocess.DEVNULL)
    fill = ["db_bench", "--db=db", "--benchmarks=fillrandom,compact", "--num=200000", "--value_size=100"]
    subprocess.run(fill, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


Found = tuple[Trial, float]
"""A trial, and its difference from the quiet ones around it."""


def rounds(tool: str, number: int, seconds: float, order: random.Random) -> tuple[list[Found], float]:
    """Loaded trials, and the noise: how much 95 % of the quiet ones between them differ from their neighbours."""
    meter, found = Meter(), []
    measure(tool, "", seconds, meter)
    quiet = [measure(tool, "", seconds, meter).rate]
    for _ in range(number):
        loads = ["", *map(str, STRENGTHS), *(["disk"] if "direct" in tool else [])]
        order.shuffle(loads)
        for name in loads:
            loaded = measure(tool, name, seconds, meter)
            quiet.append(measure(tool, "", seconds, meter).rate)
            found.append((loaded, loaded.rate / statistics.fmean(quiet[-2:]) - 1))
    neighbours = zip(quiet, quiet[1:], quiet[2:], strict=False)
    noise = sorted(abs(rate / statistics.fmean((before, after)) - 1) for before, rate, after in neighbours)
    return found, noise[int(0.95 * len(noise))]


def table(found: Sequence[Found], noise: float) -> None:
    heads = f"{'fit':>4} {'doubt':>5} {'unfit':>5}"
    print(f"    {'load':>6} {'trials':>6} {heads} {'others':>7} {'idle':>6} {'difference':>10}")
    for name in ["", *map(str, STRENGTHS), "disk"]:
        part = [(trial, difference) for trial, difference in found if trial.load == name]
        if part:
            grades = [sum(trial.grade == grade for trial, _ in part) for grade in Grade]
            others = statistics.median(trial.environment.others_share for trial, _ in part)
            idle = statistics.median(trial.environment.idle_share or 0.0 for trial, _ in part)
            middle = statistics.median(difference for _, difference in part)
            counts = f"{grades[0]:4} {grades[1]:5} {grades[2]:5}"
            print(f"    {name or 'none':>6} {len(part):6} {counts} {others:7.1%} {idle:6.1%} {middle:10.1%}")
    summary(found, noise, "    ")


def summary(found: Sequence[Found], noise: float, indent: str = "") -> None:
    for grade in Grade:
        part = [difference for trial, difference in found if trial.grade == grade]
        if part:
            near = sum(abs(difference) <= max(NEAR, noise) for difference in part) / len(part)
            middle, limit = statistics.median(part), max(NEAR, noise)
            number = f"{indent}{grade.name.lower():>8}: {len(part):3} trials"
            print(f"{number}, median difference {middle:+.1%}, within {limit:.0%} of quiet: {near:.0%}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--only", nargs="*", default=list(TOOLS))
    asked = arguments.parse_args()
    order, everything = random.Random(1), []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        os.chdir(folder)
        prepare()
        for tool in asked.only:
            found, noise = rounds(tool, asked.rounds, asked.seconds, order)
            print(f"{tool}: 95 % of the quiet trials differ from their neighbours by at most {noise:.1%}", flush=True)
            table(found, noise)
            everything += [(trial, difference / max(noise / NEAR, 1)) for trial, difference in found]
        os.chdir("..")
    print("all tools, differences in units of 5 % or of the tool's noise, the larger:")
    summary(everything, NEAR)


if __name__ == "__main__":
    main()
