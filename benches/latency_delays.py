"""Delays that are made on purpose, and what `ioassay witness --explain` names first: 20 runs of each.

    .venv/bin/python benches/latency_delays.py [FOLDER] [--runs 20] [--seconds 1] [DELAY…]

A delay is right where its part is the largest of the mean. Loads are of fio but for the late reaper (late_reaper.c):

    hog        three loops on the one processor that direct reads may use
    throttled  direct reads in a control group that may use 5 % of a processor
    served     reads of a file that the virtual drive serves by FUSE, each 3 ms late
    lock       writes to a file that another process writes to in calls of 64 MiB
    journal    fsync of each appended block beside creations and syncs on the same ext4 (a loop device)
    reaper     eight reads by libaio whose completions are looked for 4 ms later
    none       direct reads with nothing beside them, for comparison

`ratio` is the sum of the measured parts, without the tool's own, over the mean of fio or the reaper. The machine is
best idle: what else runs is a delay as well, and is named. Needs root, fio, cc, /dev/fuse, and a cgroup with cpu.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

from battery.storage import place

import ioassay as ia

HOG = ("taskset", "-c", "1", "sh", "-c", "while :; do :; done")
CONTROL = Path("/sys/fs/cgroup")
SIZE_MIB = 256
REAPED = r"(?P<ops>\d+) (?P<kind>reads), mean (?P<latency>\d+) (?P<latency_unit>ns)"


class PreparedStudy:
    """The files, and one run under each delay: the named part, its share, and the ratio of the sum."""

    def __init__(self, folder: Path, seconds: float, ends: ExitStack) -> None:
        self.folder, self.seconds, self.ends = folder, seconds, ends
        self.data = folder / "data"
        with self.data.open("wb") as file:
            for _ in range(SIZE_MIB):
                file.write(os.urandom(1 << 20))
            os.fsync(file.fileno())

    def fio(self, *options: str, file: Path | None = None) -> list[str]:
        shared = ("--bs=4k", "--output-format=json", "--time_based", f"--runtime={self.seconds * 1000:g}ms")
        return ["fio", "--name=job", f"--filename={file or self.data}", *shared, *options]

    def observed(self, argv: Sequence[str], kind: str = "read", pattern: str | None = None) -> tuple[str, float, float]:
        found = ia.witness(argv, level="explain", claim_regex=pattern)
        (parts,) = [one for one in found.latency_parts() if one.kind == kind][:1]
        kernel = [part for part in parts.parts if part.name not in ("preparation", "tool")]
        return kernel[0].name, kernel[0].share, parts.sum_share

    def reads(self) -> list[str]:
        return self.fio(f"--size={SIZE_MIB}m", "--rw=randread", "--direct=1", "--ioengine=psync")

    def none(self) -> tuple[str, float, float]:
        return self.observed(self.reads())

    def hog(self) -> tuple[str, float, float]:
        with running(*[HOG] * 3):
            return self.observed(["taskset", "-c", "1", *self.reads()])

    def throttled(self) -> tuple[str, float, float]:
        group = control_group()
        self.ends.callback(lambda: group.rmdir() if group.is_dir() else None)
        script = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        return self.observed(["sh", "-c", script, "fio", *self.reads()])

    def served(self) -> tuple[str, float, float]:
        image = self.folder / "served"
        server = (sys.executable, "-m", "ioassay", "device", "serve", "--size=64MiB", "--model=none")
        with running((*server, f"--transport=fuse:{image}", f"--faults={self.faults()}")):
            until(lambda: image.exists() and image.stat().st_size > 0)
            options = ("--size=64m", "--rw=randread", "--ioengine=psync", "--direct=1")
            return self.observed(self.fio(*options, file=image))

    def faults(self) -> Path:
        path = self.folder / "faults.toml"
        path.write_text('[[fault]]\nkind = "latency"\ndelay = "3ms"\nop = ["read"]\n')
        return path

    def lock(self) -> tuple[str, float, float]:
        file = self.folder / "locked"
        writer = f"import os\nfd, data = os.open({str(file)!r}, os.O_RDWR | os.O_CREAT), bytes(64 << 20)\n"
        with running((sys.executable, "-c", f"{writer}while True: os.pwrite(fd, data, 0)")):
            return self.observed(self.fio("--size=64m", "--rw=randwrite", "--ioengine=psync", file=file), "write")

    def journal(self) -> tuple[str, float, float]:
        mounted = self.ext4
        creations = "i=$((i + 1)); for j in 1 2 3 4 5 6 7 8; do echo $i > $((i % 200)).$j; done; sync -f ."
        with running(("sh", "-c", f"cd {mounted}; i=0; while :; do {creations}; done")):
            options = "--size=16m --rw=write --ioengine=sync --fsync=1 --file_append=1 --fallocate=none --unlink=1"
            return self.observed(self.fio(*options.split(), file=mounted / "appended"), "sync")

    @cached_property
    def ext4(self) -> Path:
        """A file system of its own."""
        return self.ends.enter_context(place("ext4", self.folder)).folder

    def reaper(self) -> tuple[str, float, float]:
        program = self.folder / "late_reaper"
        if not program.exists():
            source = Path(__file__).with_name("late_reaper.c")
            subprocess.run(["cc", "-O2", "-o", program, source], check=True)
        return self.observed([str(program), str(self.data), str(self.seconds), "4000"], pattern=REAPED)


DELAYS: dict[str, tuple[Callable[[PreparedStudy], tuple[str, float, float]], str]] = {
    "hog": (PreparedStudy.hog, "processor"),
    "throttled": (PreparedStudy.throttled, "processor"),
    "served": (PreparedStudy.served, "device"),
    "lock": (PreparedStudy.lock, "lock"),
    "journal": (PreparedStudy.journal, "journal"),
    "reaper": (PreparedStudy.reaper, "completion"),
    "none": (PreparedStudy.none, ""),
}


@contextmanager
def running(*commands: Sequence[str]) -> Iterator[None]:
    """Other programs, each in a session of its own, which end with this."""
    started = [
        subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for argv in commands
    ]
    time.sleep(0.2)
    try:
        yield
    finally:
        for one in started:
            os.killpg(one.pid, signal.SIGTERM)
        for one in started:
            one.wait()


def until(condition: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 20
    while not condition():
        if time.monotonic() > give_up_s:
            raise TimeoutError("the drive is not served")
        time.sleep(0.05)


def control_group() -> Path:
    """A group that may use 1 ms in 20 of a processor."""
    old = (CONTROL / "cpu").is_dir()
    group = CONTROL / ("cpu/latency-delays" if old else "latency-delays")
    group.mkdir(exist_ok=True)
    if old:
        (group / "cpu.cfs_period_us").write_text("20000")
        (group / "cpu.cfs_quota_us").write_text("1000")
    else:
        (group / "cpu.max").write_text("1000 20000")
    return group


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the files are made")
    parser.add_argument("delays", nargs="*", metavar="DELAY", help=", ".join(DELAYS))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    os.nice(-20 - os.nice(0))
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(dir=options.folder, prefix="delays-"))).resolve()
        bench = PreparedStudy(folder, options.seconds, ends)
        for delay in options.delays or DELAYS:
            made, wanted = DELAYS[delay]
            found = [made(bench) for _ in range(options.runs)]
            first = Counter(name for name, _, _ in found)
            share = statistics.median(share for _, share, _ in found)
            ratios = sorted(ratio for _, _, ratio in found)
            right = f"{first[wanted]} of {options.runs} right, " if wanted else ""
            print(
                f"{delay:10} {right}named first: {dict(first)}; its share {share:.2f} in the median; "
                f"ratio {ratios[0]:.3f} to {ratios[-1]:.3f}, median {statistics.median(ratios):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
