"""How long a person waits for the commands that measure nothing, beside Python's own start.

    .venv/bin/python benches/commands.py

Prints medians and ratios of: python -c pass; the launcher's own overhead; --help; plan block-io.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TURNS = 15
COMMANDS = {
    "python -c pass": [sys.executable, "-I", "-c", "pass"],
    "python -m ioassay --help": [sys.executable, "-I", "-m", "ioassay", "--help"],
    "./ioassay --help": [str(ROOT / "ioassay"), "--help"],
    "./ioassay plan block-io": [str(ROOT / "ioassay"), "plan", "block-io"],
}


def main() -> None:
    """Run the commands in turn and print a table."""
    found: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(TURNS):
        for name, argv in COMMANDS.items():
            began_s = time.monotonic()
            subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            found[name].append((time.monotonic() - began_s) * 1000)
    base_ms = statistics.median(found["python -c pass"])
    print(f"{'command':28} {'median ms':>10} {'min':>7} {'max':>7} {'of python':>10}   ({TURNS} turns)")
    for name, times_ms in found.items():
        middle_ms = statistics.median(times_ms)
        print(f"{name:28} {middle_ms:10.0f} {min(times_ms):7.0f} {max(times_ms):7.0f} {middle_ms / base_ms:9.1f}x")
    overhead_ms = statistics.median(found["./ioassay --help"]) - statistics.median(found["python -m ioassay --help"])
    print(f"launcher's overhead: {overhead_ms:.0f} ms")


if __name__ == "__main__":
    main()
