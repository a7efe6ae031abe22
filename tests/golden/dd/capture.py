"""Captures the golden outputs of the installed dd: `python tests/golden/dd/capture.py FOLDER`.

Standard error of each case, unedited. Locales are compiled into a temporary folder (needs Debian's `locales`); busybox
goes to ../busybox/<version>. The folder is to be named after the version of coreutils.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAIN = {"LC_ALL": "C"}
CASES: dict[str, list[str]] = {
    "plain": ["bs=64k"],
    "default-block": [],
    "partial": ["bs=1000000"],
    "one-byte": ["bs=1", "count=1"],
    "nothing": ["count=0"],
    "fdatasync": ["bs=64k", "conv=fdatasync"],
    "noxfer": ["bs=64k", "status=noxfer"],
    "none": ["bs=64k", "status=none"],
    "progress": ["bs=4k", "status=progress", "oflag=dsync", "count=3000"],
}
LOCALES = ("de_DE", "fr_FR", "pt_BR", "ru_RU", "zh_CN")


def dd(program: list[str], work: Path, operands: list[str], environment: dict[str, str]) -> bytes:
    files = [f"if={work / 'from'}", f"of={work / 'to'}"]
    done = subprocess.run([*program, *files, *operands], capture_output=True, env={**os.environ, **environment})
    return done.stderr


def interrupted(*signals: int) -> bytes:
    """An endless copy that gets these signals, 0.2 s apart; SIGINT may be ignored where this runs, and is not in it."""
    command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"]
    restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    child = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **PLAIN}, preexec_fn=restore)
    try:
        for number in signals:
            time.sleep(0.2)
            child.send_signal(number)
        return child.communicate(timeout=5)[1]
    finally:
        child.kill()


def main(folder: Path, work: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (work / "from").write_bytes(os.urandom(2**24 - 5))
    for name, operands in CASES.items():
        (folder / f"{name}.txt").write_bytes(dd(["dd"], work, operands, PLAIN))
    for locale in LOCALES:
        subprocess.run(["localedef", "-i", locale, "-f", "UTF-8", str(work / f"{locale}.UTF-8")], check=True)
        environment = {"LOCPATH": str(work), "LC_ALL": f"{locale}.UTF-8"}
        (folder / f"{locale}.txt").write_bytes(dd(["dd"], work, ["bs=64k"], environment))
    (folder / "interrupted.txt").write_bytes(interrupted(signal.SIGINT))
    (folder / "asked-while-running.txt").write_bytes(interrupted(signal.SIGUSR1, signal.SIGUSR1, signal.SIGINT))
    head = subprocess.run(["busybox"], capture_output=True, text=True).stdout
    busybox = folder.parents[1] / "busybox" / head.split()[1].lstrip("v")
    busybox.mkdir(parents=True, exist_ok=True)
    (busybox / "dd.txt").write_bytes(dd(["busybox", "dd"], work, ["bs=64k"], PLAIN))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(sys.argv[1]).absolute(), Path(place).resolve())
