"""Whether filesuite's rates are those of the calls it made: each pass's interval beside the kernel's first-to-last one.

    .venv/bin/python benches/filesuite_rates.py [FOLDER] [--size 15m] [--records 4k,64k,1m] [--repetitions 5] [--direct]

`ioassay filesuite` runs under the witness at level syscalls. A pass is matched with the open file whose reads or writes
it spans; the kernel's interval goes from the entry of its first call (after a priming read: the second) to the exit of
its last. The share is filesuite's interval by the kernel's: above 1, as what is done to the data between the clock and
the first call, or the last call and the clock, belongs to IOzone's interval.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.records.observation import SYSCALLS, Observation, Session
from ioassay.verify.witness import watch

TESTS = (0, 1, 2, 3, 5)
Share = tuple[float, float, float]
"""Of a pass: filesuite's interval and the kernel's, in µs, and their ratio."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where the file is made")
    parser.add_argument("--size", default="15m")
    parser.add_argument("--records", default="4k,64k,1m")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--direct", action="store_true")
    options = parser.parse_args()
    found: dict[tuple[int, str], list[Share]] = defaultdict(list)
    unmatched = 0
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="filesuite-") as folder:
        watched = watch(argv(options, Path(folder) / "file"), SYSCALLS, Path(folder))
        if watched.outcome.exit_code != 0 or watched.seen is None:
            raise SystemExit((Path(folder) / "stderr").read_text()[:2000])
        passes = json.loads((Path(folder) / "stdout").read_text())["passes"]
    for one in passes:
        kernel_us = interval_us(one, watched.seen)
        if kernel_us is None:
            unmatched += 1
            continue
        own_us = one["nanoseconds"] / 1e3
        found[one["record_bytes"], one["name"]].append((own_us, kernel_us, own_us / kernel_us))
    say(found, unmatched, options)


def argv(options: argparse.Namespace, file: Path) -> Sequence[str]:
    tests = [word for test in TESTS for word in ("-i", str(test))]
    records = [word for record in options.records.split(",") for word in ("-r", record)]
    direct = ["-I"] if options.direct else []
    return (sys.executable, "-m", "ioassay", "filesuite", *tests, "-s", options.size, *records, *direct,
            "--repetitions", str(options.repetitions), "-f", str(file.resolve()), "--json")  # fmt: skip


def interval_us(one: Mapping[str, Any], seen: Observation) -> float | None:
    """From the first call of a pass to its last, by the kernel; None when no session, or more than one, is it."""
    fits = [session for session in seen.sessions if is_of(one, session)]
    if len(fits) != 1:
        return None
    session = fits[0]
    calls = getattr(session, one["kind"])
    primed = calls.calls == one["operations"] + 1
    return float(calls.last_ns - (session.second_ns if primed else calls.first_ns)) / 1e3


def is_of(one: Mapping[str, Any], session: Session) -> bool:
    """Whether a session's calls are those of a pass: as many, or one to prime with besides, and within its time."""
    calls = getattr(session, one["kind"])
    begins_before_end = calls.first_ns <= one["end_ns"] and calls.last_ns >= one["start_ns"]
    return begins_before_end and calls.calls - one["operations"] in (0, 1)


def say(found: Mapping[tuple[int, str], Sequence[Share]], unmatched: int, options: argparse.Namespace) -> None:
    shares = [share for many in found.values() for _, _, share in many]
    print(f"file of {options.size}, {options.repetitions} repetitions, {'direct' if options.direct else 'buffered'}; "
          f"{len(shares)} passes, {unmatched} without a session of theirs")  # fmt: skip
    print(f"{'record':>8s}  {'pass':16s}{'filesuite µs':>13s}{'kernel µs':>12s}   share   least    most")
    for (record, name), many in sorted(found.items(), key=lambda item: item[0][0]):
        own_us, kernel_us, share = (statistics.median(part) for part in zip(*many, strict=True))
        least, most = min(share for _, _, share in many), max(share for _, _, share in many)
        print(f"{record:8d}  {name:16s}{own_us:13.1f}{kernel_us:12.1f}{share:8.4f}{least:8.4f}{most:8.4f}")
    within = sum(abs(share - 1) <= 0.02 for share in shares)
    print(f"within 2 %: {within} of {len(shares)}; median {statistics.median(shares):.4f}")


if __name__ == "__main__":
    main()
