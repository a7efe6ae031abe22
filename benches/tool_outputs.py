"""Runs tools that are here, each with parameters that are drawn: the outputs that `real_outputs.py` examines.

Everything is small and fast. A tool that does not end by itself is ended, and has then still said something.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import plain_readings as plain
from plain_readings import Load

LONGEST_S = 5.0
"""Of one run of a tool, which is then ended."""


@dataclass
class Output:
    """What a tool wrote: its files, and how they are read."""

    tool: str
    form: str
    command: str
    text: str
    read: Callable[[str], Any]
    name: str = "output.txt"
    beside: Mapping[str, str] = field(default_factory=dict)
    """Other files of the same folder: name -> text."""
    in_any_trial: bool = False
    """Its numbers are looked for in all trials together."""
    is_trace: bool = False


def run(command: Sequence[str], folder: Path, *, both: bool = False) -> str:
    """Standard output, and with `both` what it says beside; a tool that fails has still said something."""
    beside = subprocess.STDOUT if both else subprocess.DEVNULL
    started = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=beside,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    )
    try:
        return started.communicate(timeout=LONGEST_S)[0]
    except subprocess.TimeoutExpired:  # fio then writes what it has
        started.terminate()
        return started.communicate(timeout=60)[0]


FIO_FORMS: dict[str, tuple[list[str], Callable[..., list[Load]]]] = {
    "json": (["json"], plain.fio_json),
    "json+": (["json+"], plain.fio_json),
    "terse 2": (["terse", "--terse-version=2"], plain.fio_terse),
    "terse 3": (["terse", "--terse-version=3"], plain.fio_terse),
    "terse 4": (["terse", "--terse-version=4"], plain.fio_terse),
    "terse 5": (["terse", "--terse-version=5"], plain.fio_terse),
    "normal": (["normal"], plain.fio_text),
    "normal,json": (["normal,json"], plain.fio_json),
    "json+,terse,normal": (["json+,terse,normal"], plain.fio_json),
}


def fio(dice: random.Random, folder: Path, program: str, forms: Sequence[str] = [*FIO_FORMS]) -> Output:
    """One run of fio of random options, in one of the `forms`."""
    form = dice.choice(forms)
    words, read = FIO_FORMS[form]
    options = [
        f"--output-format={words[0]}",
        *words[1:],
        "--filename=data",
        f"--size={dice.choice((256, 1024, 4096))}k",
    ]
    engine = dice.choice(("psync", "sync", "pvsync2", "libaio", "io_uring", "mmap", "posixaio", "null"))
    options += [f"--ioengine={engine}", f"--bs={dice.choice(('4k', '512', '16k', '7k', '64k'))}"]
    options += [f"--numjobs={dice.choice((1, 1, 1, 2, 3))}", f"--iodepth={dice.choice((1, 4))}"]

    def maybe(chance: float, *given: str) -> None:
        options.extend(given if dice.random() < chance else ())

    maybe(0.3, "--group_reporting=1")
    maybe(0.25, f"--fsync={dice.choice((1, 4, 32))}")
    maybe(0.2, f"--fdatasync={dice.choice((1, 8))}")
    maybe(0.1, "--sync_file_range=write:8")
    maybe(0.15, f"--unified_rw_reporting={dice.choice(('mixed', 'both'))}")
    maybe(0.3, f"--percentile_list={dice.choice(('50:99.9', '1:25:75:99.9999', '0.1:50', '99.999:100'))}")
    maybe(0.2, "--lat_percentiles=1", f"--clat_percentiles={dice.randrange(2)}")
    maybe(0.15, "--slat_percentiles=1")
    maybe(0.1, "--ramp_time=50ms", "--time_based=1", "--runtime=200ms")
    maybe(0.15, "--time_based=1", "--runtime=300ms")
    maybe(0.15, "--loops=3")
    maybe(0.1, "--bssplit=4k/50:8k/50")
    maybe(0.1, "--disable_slat=1")
    maybe(0.05, "--disable_clat=1")
    maybe(0.05, "--gtod_reduce=1")
    maybe(0.1, "--thread=1")
    maybe(0.1, "--rate_iops=2000")
    maybe(0.1, "--end_fsync=1")
    maybe(0.05, "--latency_target=2ms", "--latency_window=50ms", "--latency_percentile=95")
    maybe(0.05, "--kb_base=1000")
    maybe(0.05, "--unit_base=1")
    status = form != "json+,terse,normal" and dice.random() < 0.12
    if status:
        options += ["--status-interval=250ms", "--time_based=1", "--runtime=700ms", "--rate_iops=500", "--numjobs=1"]
        if read is not plain.fio_json:
            read = functools.partial(read, status=True)
    ways = ("read", "write", "randread", "randwrite", "rw", "randrw", "randtrim", "trimwrite")
    loop = LOOP and dice.random() < 0.15
    sections = []
    for number in range(dice.choice((1, 1, 1, 2, 3))):
        way = dice.choice(ways if loop else ways[:6])
        sections += [f"--name={dice.choice(('job', 'a b', 'r;w', 'x', 'job'))}{number or ''}", f"--rw={way}"]
        if number and dice.random() < 0.4:
            sections += [dice.choice(("--stonewall", "--new_group"))]
    if loop:
        options = [f"--filename={LOOP}" if one.startswith("--filename") else one for one in options]
    command = [program, *options, *sections]
    text = run(command, folder)
    version = re.search(r"[\d.]+", run([program, "--version"], folder))
    return Output(f"fio {version[0] if version else '?'}", form, " ".join(command), text, read)


Make = Callable[[random.Random, Path], Output]
LOOP = ""
"""A loop device of our own, for trims."""


@contextmanager
def loop_device(folder: Path) -> Iterator[None]:
    """`LOOP`, where this machine lets us have one."""
    global LOOP
    image = folder / "image"
    image.write_bytes(b"")
    os.truncate(image, 2**25)
    attach = ["losetup", "--find", "--show", str(image)]
    made = subprocess.run(attach, capture_output=True, text=True, check=False) if shutil.which("losetup") else None
    LOOP = made.stdout.strip() if made else ""
    try:
        yield
    finally:
        if LOOP:
            subprocess.run(["losetup", "-d", LOOP], check=False)


def again(make: Make, dice: random.Random, folder: Path) -> Output:
    """The same command twice, its outputs in one file."""
    state = dice.getstate()
    first = make(dice, folder)
    dice.setstate(state)
    second = make(dice, folder)
    if first.is_trace or first.beside or "--status" in first.command:
        return first
    texts, read = (first.text, second.text), first.read
    return replace(
        first,
        form=f"{first.form} twice",
        text="".join(texts),
        read=lambda text: [one for each in texts for one in read(each)],
    )


def fio_logs(dice: random.Random, folder: Path, program: str) -> Output:
    """Logs of one job with a line for each request, or a folder of them next to the results."""
    for old in folder.glob("log_*"):
        old.unlink()
    form = dice.choice(("logs", "logs next to json+"))
    command = [
        program,
        "--name=log",
        "--size=512k",
        f"--rw={dice.choice(('randrw', 'read', 'randwrite'))}",
        "--filename=data",
    ]
    command += [
        f"--bs={dice.choice(('4k', '16k'))}",
        "--write_lat_log=log",
        "--write_bw_log=log",
        "--write_iops_log=log",
    ]
    command += [f"--log_offset={dice.randrange(2)}", "--output-format=json+"]
    text = run(command, folder)
    logs = {path.name: path.read_text() for path in sorted(folder.glob("log_*.log"))}
    if form == "logs":
        name, *others = logs
        beside = {other: logs[other] for other in others}
        return Output("fio", form, " ".join(command), logs[name], lambda text: [plain.fio_logs(logs)], name, beside)
    return Output(
        "fio", form, " ".join(command), text, lambda text: plain.fio_json_with_logs(text, logs), "log.json", logs
    )


def _bag(
    tool: str, form: str, command: str, text: str, read: Callable[[str], list[tuple[str, plain.Number]]]
) -> Output:
    return Output(tool, form, command, text, read, in_any_trial=True)


SYSBENCH_TESTS = ("fileio", "fileio", "fileio", "cpu", "memory", "threads", "mutex")


def sysbench(dice: random.Random, folder: Path, tests: Sequence[str] = SYSBENCH_TESTS) -> Output:
    """One of the `tests`."""
    shared = [f"--threads={dice.choice((1, 1, 3))}", f"--percentile={dice.choice((95, 99, 50))}"]
    shared += dice.choice(([], [], ["--histogram"], ["--report-interval=1"]))
    kind = dice.choice(tests)
    options = {
        "fileio": [
            f"--file-total-size={dice.choice((1, 4))}M",
            "--file-num=2",
            f"--file-test-mode={dice.choice(SYSBENCH_MODES)}",
            f"--file-io-mode={dice.choice(('sync', 'async', 'mmap'))}",
            f"--file-fsync-freq={dice.choice((0, 1, 100))}",
            f"--file-block-size={dice.choice(('4K', '16384', '32K'))}",
            f"--events={dice.choice((50, 500))}",
            "--time=1",
            f"--file-extra-flags={dice.choice(('', 'direct', 'dsync'))}",
            f"--file-fsync-mode={dice.choice(('fsync', 'fdatasync'))}",
        ],
        "cpu": ["--time=1", f"--cpu-max-prime={dice.choice((1000, 20000))}"],
        "memory": [
            f"--memory-total-size={dice.choice(('8M', '1G'))}",
            f"--memory-oper={dice.choice(('read', 'write'))}",
            f"--memory-access-mode={dice.choice(('seq', 'rnd'))}",
            "--time=1",
        ],
        "threads": ["--events=100"],
        "mutex": ["--mutex-num=10", "--mutex-locks=100"],
    }[kind]
    if kind == "fileio":
        run(["sysbench", "fileio", "prepare", *options], folder)
    command = ["sysbench", kind, *shared, *options, "run"]
    return _bag("sysbench", kind, " ".join(command), run(command, folder), plain.sysbench)


SYSBENCH_MODES = ("seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw")


def stress_ng(dice: random.Random, folder: Path) -> Output:
    """Two stressors, as text or YAML."""
    stressors = dice.sample(
        ("cpu", "hdd", "seek", "pipe", "malloc", "switch", "iomix", "sync-file", "fallocate", "matrix"), 2
    )
    form = dice.choice(("yaml", "--metrics", "--metrics-brief"))
    options = [word for name in stressors for word in (f"--{name}", str(dice.choice((1, 2))), f"--{name}-ops", "40")]
    command = ["stress-ng", *options, "-t", "1", *(["--metrics", "--yaml", "s.yaml"] if form == "yaml" else [form])]
    text = run(command, folder, both=True)
    if form == "yaml":
        return _bag("stress-ng", form, " ".join(command), (folder / "s.yaml").read_text(), plain.stress_ng_yaml)
    return _bag("stress-ng", form, " ".join(command), text, plain.stress_ng_text)


def db_bench(dice: random.Random, folder: Path) -> Output:
    """A few benchmarks in one output."""
    several = ",".join(
        ["fillseq", *dice.sample(("readrandom", "seekrandom", "overwrite", "readseq", "deleterandom"), 2)]
    )
    command = ["db_bench", f"--db={folder}/db", f"--num={dice.choice((500, 3000))}", f"--benchmarks={several}"]
    command += dice.choice(([], ["--histogram"], ["--histogram", "--statistics"], ["--sync=true"], ["--threads=2"]))
    return _bag("db_bench", "text", " ".join(command), run(command, folder), plain.db_bench)


def ioping(dice: random.Random, folder: Path) -> Output:
    """Reads or writes of a file system."""
    command = ["ioping", "-c", str(dice.choice((3, 8))), "-i", "0.01", f"-s{dice.choice(('4k', '64k'))}"]
    command += dice.choice(([], ["-WWW"], ["-D"], ["-C"], ["-q"], ["-p", "2"]))
    command.append(".")
    return _bag("ioping", "text", " ".join(command), run(command, folder), plain.ioping)


def dd(dice: random.Random, folder: Path) -> Output:
    """Writes of a file."""
    command = [
        "dd",
        "if=/dev/zero",
        "of=dd",
        f"bs={dice.choice(('4k', '1M', '7777'))}",
        f"count={dice.randrange(1, 90)}",
    ]
    command += dice.choice(([], ["conv=fsync"], ["oflag=direct,dsync"]))
    return _bag("dd", "text", " ".join(command), run(command, folder, both=True), plain.dd)


def bonnie(dice: random.Random, folder: Path) -> Output:
    """Files of a few MiB."""
    command = [
        "bonnie++",
        "-d",
        str(folder),
        "-s",
        dice.choice(("4M", "16M")),
        "-r",
        "1",
        "-n",
        "0",
        "-u",
        "root",
        "-x",
        "1",
    ]
    command += dice.choice((["-f"], ["-f", "-b"]))
    return _bag("bonnie++", "csv", " ".join(command), run(command, folder, both=True), plain.bonnie)


def iozone(dice: random.Random, folder: Path) -> Output:
    """Some of its tests."""
    command = ["iozone", "-s", dice.choice(("256k", "1m")), "-r", dice.choice(("4k", "64k")), "-i", "0"]
    command += dice.choice(([], ["-i", "1"], ["-i", "1", "-i", "2"], ["-e", "-c"]))
    return _bag("iozone", "text", " ".join(command), run(command, folder), plain.iozone)


# Traces: fio's own, blkparse's of a binary trace that is written here, and those of published layouts


def requests(dice: random.Random) -> plain.Trace:
    """Requests whose numbers every layout can hold: whole sectors, times in whole seconds or µs."""
    time_ns, found = 10**9 * dice.randrange(1, 1000), []
    for _ in range(dice.choice((1, 20, 400))):
        time_ns += dice.choice((0, 1000, 5000, 10**6, 10**9))
        size = 512 * dice.choice((1, 8, 8, 8, 16, 129))
        found.append((time_ns, dice.choice(("read", "write")), 512 * dice.randrange(2 ** dice.choice((10, 30))), size))
    return plain.Trace(found)


def _lines(trace: plain.Trace, line: Callable[[int, str, int, int], str]) -> str:
    return "".join(f"{line(*one)}\n" for one in trace.requests)


LAYOUTS: dict[str, Callable[[int, str, int, int], str]] = {
    "spc": lambda t, k, at, n: f"0,{at // 512},{n},{k[0].upper()},{t / 1e9:.6f}",
    "msr": lambda t, k, at, n: f"{128166372003061629 + t // 100},usr,0,{k.capitalize()},{at},{n},41286",
    "alibaba": lambda t, k, at, n: f"419,{k[0].upper()},{at},{n},{1577808144360767 + t // 1000}",
    "tencent": lambda t, k, at, n: f"{1538323200 + t // 10**9},{at // 512},{n // 512},{int(k == 'write')},1283",
    "systor": lambda t, k, at, n: (
        f"{1455592199 + t // 10**9}.{t % 10**9 // 1000:06d},0.000316,{k[0].upper()},0,{at},{n}"
    ),
    "fiu": lambda t, k, at, n: f"{t} 4892 syslogd {at // 512} {n // 512} {k[0].upper()} 6 0 531e779d38042ae66c8d",
    "biosnoop": lambda t, k, at, n: (
        f"{t / 1e9:<11.6f} dd             1950   xvda1     {k[0].upper()}  {at // 512:<10} {n:<6} {0.74:7.2f}"
    ),
    "disksim": lambda t, k, at, n: f"{t // 10**6}.{t % 10**6:06d} 0 {at // 512} {n // 512} {int(k == 'read')}",
    "ssdsim": lambda t, k, at, n: f"{t} 0 {at // 512} {n // 512} {int(k == 'read')}",
    "csv": lambda t, k, at, n: f"{t / 1e9:.9f},{k},{at},{n}",
}
HEADS = {"csv": "time_s,kind,offset_bytes,length_bytes\n"}


def layout(dice: random.Random, folder: Path) -> Output:
    """A published layout, written here."""
    name, trace = dice.choice([*LAYOUTS]), requests(dice)
    if name == "biosnoop":  # times of completion, from which the latency is taken
        trace = plain.Trace([(t + 740_000, *rest) for t, *rest in trace.requests])  # type: ignore[misc]
        read = plain.Trace([(t - 740_000, *rest) for t, *rest in trace.requests])  # type: ignore[misc]
    else:
        read = trace
    return Output(
        "traces",
        name,
        f"written here as {name}",
        HEADS.get(name, "") + _lines(trace, LAYOUTS[name]),
        lambda text: read,
        f"t.{name}",
        is_trace=True,
    )


def iolog(dice: random.Random, folder: Path, program: str) -> Output:
    """What fio logs of its own requests."""
    command = [
        program,
        "--name=a",
        "--size=1m",
        f"--rw={dice.choice(('randrw', 'read', 'write'))}",
        "--filename=data",
        f"--bs={dice.choice(('4k', '16k', '3k'))}",
        "--write_iolog=io.log",
    ]
    (folder / "io.log").unlink(missing_ok=True)
    run(command, folder)
    return Output(
        "traces", "iolog", " ".join(command), (folder / "io.log").read_text(), plain.iolog, "io.log", is_trace=True
    )


def blktrace_binary(trace: plain.Trace, cpu: int = 0) -> bytes:
    """As blktrace writes a processor's file: queued, issued and completed."""
    out = bytearray()
    for number, (time_ns, kind, at, size) in enumerate(trace.requests):
        for late, (action, category) in enumerate(((1, 0x10), (7, 0x40), (8, 0x80))):
            code = action | (category | (1 if kind == "read" else 2)) << 16
            out += struct.pack(
                "<IIQQIIIIIHH",
                0x65617407,
                3 * number + late + 1,
                time_ns + late * 100,
                at // 512,
                size,
                code,
                77,
                8 << 20,
                cpu,
                0,
                0,
            )
    return bytes(out)


def blkparse(dice: random.Random, folder: Path) -> Output:
    """The real blkparse over a binary trace."""
    own = requests(dice).requests
    start = own[0][0]
    # blkparse counts from the first event, and a request waits for the one before at the same sector.
    trace = plain.Trace(
        [(t - start + 1000 * place, kind, at // 512 * 512, size) for place, (t, kind, at, size) in enumerate(own)]
    )
    (folder / "sda.blktrace.0").write_bytes(blktrace_binary(trace))
    text = run(["blkparse", "-i", "sda"], folder)
    return Output("traces", "blkparse", "blkparse -i sda", text, lambda text: trace, "sda.txt", is_trace=True)


def makers(programs: Sequence[str]) -> list[Make]:
    """One for each tool that is here."""
    of_fio: list[Make] = [functools.partial(fio, program=program) for program in programs]
    logged = [functools.partial(fio_logs, program=program) for program in programs]
    traced = [functools.partial(iolog, program=program) for program in programs]
    others: dict[str, Make] = {
        "sysbench": sysbench,
        "stress-ng": stress_ng,
        "db_bench": db_bench,
        "ioping": ioping,
        "dd": dd,
        "bonnie++": bonnie,
        "iozone": iozone,
        "blkparse": blkparse,
    }
    here = [make for name, make in others.items() if shutil.which(name)]
    twice = [functools.partial(again, one) for one in [*of_fio, *(make for make in here if make is sysbench)]]
    return [*of_fio * 3, *logged, *twice, *here, layout, layout, *traced]
