"""What confinement costs: calls of a process that Landlock holds to what it may write, beside one that it does not.

    .venv/bin/python benches/confinement.py [--rounds 15] [--window 0.4] [--depth 4]

Each round runs a C loop (call_loop.c) of a kind of call free and confined, in random order, so that all see the same
machine; a round gives one ratio of processor times. The confined ones have the rules of a trial: its raw folder, the
sinks, and the file itself, or the folder so many levels above it. Last, what a trial pays once: making a ruleset and
entering it. Needs cc and Landlock.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ioassay.process import landlock, supervisor
from ioassay.process.landlock import FILE, FOLDER, Rule, Ruleset
from ioassay.runner.confinement import SINKS

KINDS = ("read", "write", "open-read", "open-write", "truncate", "create")
FREE, OWN, ABOVE = "free", "rule on the file", "rule above it"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--window", type=float, default=0.4, help="seconds of one loop")
    parser.add_argument("--depth", type=int, default=4, help="folders between the rule and the file")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loop, file = folder / "call_loop", folder.joinpath("root", *"abcdefgh"[: options.depth], "file")
        subprocess.run(["cc", "-O2", "-o", loop, Path(__file__).with_name("call_loop.c")], check=True)
        file.parent.mkdir(parents=True)
        file.write_bytes(bytes(512))
        rounds = f"{options.rounds} rounds of {options.window:g} s"
        print(f"Landlock ABI {landlock.support().abi}, {rounds}, processor time of a call in ns")
        print(f"  {'':12s}{FREE:>8s}   {OWN:26s}   {ABOVE}, {options.depth} levels")
        for kind in KINDS:
            print(f"  {kind:12s}{'   '.join(rows(folder, loop, file, kind, options, chance))}", flush=True)
        print(f"  once a trial: {once(folder, file, False):.2f} ms free, {once(folder, file, True):.2f} ms confined")


def rows(
    folder: Path, loop: Path, file: Path, kind: str, options: argparse.Namespace, chance: random.Random
) -> Iterator[str]:
    arms = [FREE, ABOVE] if kind == "create" else [FREE, OWN, ABOVE]
    argv = [str(loop), kind, str(file), str(options.window)]
    rounds = [
        {arm: call_ns(folder, file, argv, arm) for arm in chance.sample(arms, len(arms))} for _ in range(options.rounds)
    ]
    free_ns = statistics.median(found[FREE] for found in rounds)
    yield f"{free_ns:8.1f}"
    for arm in (OWN, ABOVE):
        if arm not in arms:
            yield f"{'(needs the folder)':26s}"
            continue
        ratios = sorted(found[arm] / found[FREE] for found in rounds)
        quarter = len(ratios) // 4
        added_ns = statistics.median(found[arm] - found[FREE] for found in rounds)
        middle = f"({ratios[quarter]:.2f}-{ratios[-quarter - 1]:.2f})"
        yield f"{statistics.median(ratios):.3f} {middle} {added_ns:+7.0f}".ljust(26)


def call_ns(folder: Path, file: Path, argv: list[str], arm: str) -> float:
    ruleset = None if arm == FREE else Ruleset(rules(folder, file, arm))
    try:
        outcome = supervisor.run(
            argv, stdout=folder / "stdout", stderr=folder / "stderr", timeout_s=60, confine=ruleset
        )
    finally:
        if ruleset is not None:
            ruleset.close()
    calls, took_ns = map(int, outcome.stdout.read_text().split())
    return took_ns / calls


def rules(folder: Path, file: Path, arm: str) -> list[Rule]:
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    own = Rule(folder / "root", FOLDER) if arm == ABOVE else Rule(file, FILE)
    return [Rule(raw, FOLDER), *(Rule(path, FILE) for path in SINKS), own]


def once(folder: Path, file: Path, confined: bool, times: int = 30) -> float:
    """Starting `true` and waiting for its end, in ms."""
    took_s = []
    for _ in range(times):
        began_s = time.monotonic()
        ruleset = Ruleset(rules(folder, file, OWN)) if confined else None
        supervisor.run(["true"], stdout=folder / "stdout", stderr=folder / "stderr", timeout_s=60, confine=ruleset)
        if ruleset is not None:
            ruleset.close()
        took_s.append(time.monotonic() - began_s)
    return statistics.median(took_s) * 1e3


if __name__ == "__main__":
    main()
