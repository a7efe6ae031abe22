"""Captures the golden outputs of installed benchmarks: `python tests/golden/capture_benchmarks.py [TOOL…]`.

Output of each case, unedited, in `tests/golden/<tool>/<version>/` (standard error of those that report there, `*.err`).
Needs Debian's sysbench, ioping, bonnie++, hdparm (and root, for a loop device), postgresql and redis-server. No tests
need these: they read the files. Outputs of elbencho and vdbench, which Debian does not have, are written after their
sources, in the folder `documented` of each.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE_S = 30

SYSBENCH = "sysbench fileio --file-total-size=8M --file-num=4 --time=0"
BONNIE = "bonnie++ -d . -m golden -u nobody"
CASES: dict[str, dict[str, str]] = {
    "sysbench": {
        "prepare": f"{SYSBENCH} prepare",
        "seqrd": f"{SYSBENCH} --file-test-mode=seqrd --events=512 run",
        "rndrd-direct": f"{SYSBENCH} --file-test-mode=rndrd --file-extra-flags=direct --file-block-size=4K --events=300"
        " --threads=2 --percentile=99 --histogram run",
        "rndrd-async": f"{SYSBENCH} --file-test-mode=rndrd --file-io-mode=async --events=300 run",
        "rndrd-mmap": f"{SYSBENCH} --file-test-mode=rndrd --file-io-mode=mmap --events=300 run",
        "rndrw": f"{SYSBENCH} --file-test-mode=rndrw --events=1000 run",
        "rndrw-reads": f"{SYSBENCH} --file-test-mode=rndrw --file-io-mode=async --events=100 run",
        "rndrw-timed": "sysbench fileio --file-total-size=8M --file-num=4 --file-test-mode=rndrw --time=2"
        " --report-interval=1 --rate=500 run",
        "rndwr-fsync-all": f"{SYSBENCH} --file-test-mode=rndwr --file-fsync-all=on --events=100 run",
        "seqrewr": f"{SYSBENCH} --file-test-mode=seqrewr --events=512 run",
        "seqwr": f"{SYSBENCH} --file-test-mode=seqwr --events=500 --file-fsync-freq=0 run",
        "cut-file": f"{SYSBENCH} --file-test-mode=rndrd --events=10 run",
        "cpu": "sysbench cpu --time=0 --events=20 run",
        "memory-read": "sysbench memory --memory-block-size=4K --memory-total-size=64M --memory-oper=read --threads=2"
        " run",
        "memory-random": "sysbench memory --memory-block-size=1K --memory-total-size=16M --memory-access-mode=rnd run",
        "threads": "sysbench threads --time=0 --events=20 run",
    },
    "ioping": {
        "directory": "ioping -c 5 -i 0.05 .",
        "no-warmup": "ioping -c 4 -i 0 -a 0 .",
        "direct": "ioping -c 5 -i 0 -D -s 16k data",
        "rapid": "ioping -R -w 0.4 .",
        "quiet-even": "ioping -q -i 0 -c 3000 -C .",
        "batch": "ioping -c 6 -i 0 -B .",
        "interim": "ioping -c 6 -i 0 -p 2 .",
        "write": "ioping -c 4 -i 0 -W .",
        "write-sync": "ioping -c 4 -i 0 -W -Y -s 1m .",
        "ping-pong": "ioping -c 5 -i 0 -G -C -s 1k .",
        "json": "ioping -c 4 -i 0 -J -s 8k .",
        "refused": "ioping -c 3 -W data",
    },
    "bonnie": {
        "small": f"{BONNIE} -s 16 -r 8 -n 1",
        "fast": f"{BONNIE} -s 128:16k -r 64 -n 0 -f -D -b",
        "quiet": f"{BONNIE} -s 32 -r 16 -n 1 -f -q",
    },
    "hdparm": {
        "both": "hdparm -t -T {device}",
        "direct": "hdparm -t --direct {device}",
        "refused": "hdparm -t data",
    },
    "pgbench": {
        "initialise": "pgbench -i -s 1 -q",
        "transactions": "pgbench -c 2 -j 2 -t 50",
        "timed": "pgbench -S -c 1 -T 1 -M prepared -P 1",
        "scripts": "pgbench -n -c 1 -t 60 -r -b tpcb-like@1 -b select-only@2 -L 100",
        "no-database": "pgbench -n -t 1 nonsense",
    },
    "redis_benchmark": {
        "plain": "redis-benchmark -p {port} -n 2000 -c 5 -t set,get",
        "quiet": "redis-benchmark -p {port} -n 2000 -c 5 -t set,lpush,mset -q",
        "csv": "redis-benchmark -p {port} -n 2000 -c 5 -t ping,set,get --csv",
        "precision": "redis-benchmark -p {port} -n 500 -c 2 -P 8 -d 100 -t incr --precision 3",
    },
}
VERSIONS = {
    "sysbench": "sysbench --version",
    "ioping": "ioping -v",
    "bonnie": "bonnie++ -h",
    "hdparm": "hdparm -V",
    "pgbench": "pgbench --version",
    "redis_benchmark": "redis-benchmark --version",
}


def run(command: str, work: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        shlex.split(command),
        cwd=work,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "LC_ALL": "C", **environment},
    )


def capture(tool: str, work: Path, words: dict[str, str], environment: dict[str, str]) -> None:
    """Every case of a tool; of what goes to standard error a file of its own."""
    printed = run(VERSIONS[tool], work, environment)
    version = re.search(r"\d+(\.\d+)+\w*", printed.stdout + printed.stderr)
    assert version, f"{tool} does not say its version"
    folder = HERE / tool / version[0]
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in CASES[tool].items():
        if name == "cut-file":
            os.truncate(work / "test_file.3", 2**20)
        done = run(command.format(**words), work, environment)
        for suffix, text in (("txt", done.stdout), ("err", done.stderr)):
            if text:
                (folder / f"{name}.{suffix}").write_text(text)


def with_device(work: Path, act: Callable[[dict[str, str]], None]) -> None:
    backing = work / "backing"
    backing.write_bytes(os.urandom(2**24))
    losetup = ["losetup", "--show", "-f", str(backing)]
    device = subprocess.run(losetup, capture_output=True, text=True, check=True).stdout.strip()
    try:
        act({"device": device})
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def with_postgres(work: Path, act: Callable[[dict[str, str]], None]) -> None:
    """A cluster of its own, which answers on a socket in its folder, as the user postgres."""
    (programs,) = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
    cluster = work / "cluster"
    subprocess.run(["chown", "-R", "postgres", str(work)], check=True)
    as_postgres = ["runuser", "-u", "postgres", "--"]
    initialise = [*as_postgres, str(programs / "initdb"), "-A", "trust", "-D", str(cluster)]
    subprocess.run(initialise, check=True, capture_output=True)
    control = [*as_postgres, str(programs / "pg_ctl"), "-w", "-D", str(cluster)]
    options = f"-k {work} -c listen_addresses= -c fsync=off"
    subprocess.run([*control, "-l", str(work / "log"), "-o", options, "start"], check=True, stdout=subprocess.DEVNULL)
    try:
        act({"PGHOST": str(work), "PGUSER": "postgres", "PGDATABASE": "postgres"})
    finally:
        subprocess.run([*control, "stop"], check=True, stdout=subprocess.DEVNULL)


def with_redis(work: Path, act: Callable[[dict[str, str]], None]) -> None:
    port = "16399"
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(work)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(1)
        act({"port": port})
    finally:
        server.terminate()
        server.wait()


def main(tools: list[str]) -> None:
    for tool in tools or list(CASES):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            work = Path(place).resolve()
            work.chmod(0o777)
            (work / "data").write_bytes(os.urandom(2**20))
            if tool == "hdparm":
                with_device(work, lambda words: capture("hdparm", work, words, {}))  # noqa: B023
            elif tool == "pgbench":
                with_postgres(work, lambda words: capture("pgbench", work, {}, words))  # noqa: B023
            elif tool == "redis_benchmark":
                with_redis(work, lambda words: capture("redis_benchmark", work, words, {}))  # noqa: B023
            else:
                capture(tool, work, {}, {})


if __name__ == "__main__":
    main(sys.argv[1:])
