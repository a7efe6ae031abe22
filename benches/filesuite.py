"""What a call costs in `ioassay filesuite`, beside a C loop of the same calls: interleaved, medians of the rounds.

Usage: .venv/bin/python benches/filesuite.py [folder] [rounds]

Each round takes the least of three passes of both, over a file in memory (/dev/shm without a folder). `bare` is the
engine without content and checks, which is what the loop does; `usual` is the engine as it is by default: a word set in
each page that is written, from a pool that does not compress, and looked at in each page that is read.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PASSES = ("rewrite", "reread", "repwrite", "repread")
SIZES = ((4096, 16384), (512, 65536))
BARE = ("--data", "iozone", "--check", "off", "--plain")
USUAL: tuple[str, ...] = ()


def loop(program: Path, file: Path, record: int, count: int) -> dict[str, float]:
    """Nanoseconds a call of the C loop, by the pass that makes the same calls."""
    command = [str(program), str(file), str(record), str(count), "3"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(PASSES, map(float, lines), strict=True))


def engine(file: Path, record: int, count: int, flags: tuple[str, ...]) -> dict[str, float]:
    """Nanoseconds a call of the engine, the least of three repetitions."""
    sizes = ["-s", f"{record * count}b", "-r", f"{record}b", "-i", "0,1,9,10", "--repetitions", "3"]
    command = [sys.executable, "-m", "ioassay", "filesuite", "-f", str(file), *sizes, *flags, "--json"]
    passes = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["passes"]
    return {
        name: min(one["nanoseconds"] / one["operations"] for one in passes if one["name"] == name) for name in PASSES
    }


def main(folder: Path, rounds: int) -> None:
    """Print a table: median nanoseconds a call, and how much more the engine takes."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        program, file = Path(made) / "file_calls", Path(made) / "file"
        subprocess.run(["cc", "-O2", "-o", str(program), str(HERE / "file_calls.c")], check=True)
        print(f"{'record':>6}  {'calls':10} {'C loop':>8} {'bare':>8} {'ratio':>7} {'usual':>8} {'ratio':>7}")
        for record, count in SIZES:
            seen: dict[str, list[dict[str, float]]] = {"loop": [], "bare": [], "usual": []}
            for _ in range(rounds):
                seen["loop"].append(loop(program, file, record, count))
                seen["bare"].append(engine(file, record, count, BARE))
                seen["usual"].append(engine(file, record, count, USUAL))
            for name in PASSES:
                ns = {who: statistics.median(one[name] for one in those) for who, those in seen.items()}
                ratios = {
                    who: statistics.median(
                        own[name] / peer[name] for own, peer in zip(seen[who], seen["loop"], strict=True)
                    )
                    for who in ("bare", "usual")
                }
                print(
                    f"{record:6}  {name:10} {ns['loop']:8.0f} {ns['bare']:8.0f} {ratios['bare']:6.3f}x "
                    f"{ns['usual']:8.0f} {ratios['usual']:6.3f}x"
                )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "/dev/shm"), int(sys.argv[2]) if len(sys.argv) > 2 else 11)
