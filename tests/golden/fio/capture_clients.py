"""Captures what `fio --client` writes: `python tests/golden/fio/capture_clients.py FOLDER [FIO]`, as root.

Servers run on loopback addresses and on a Unix socket, under neutral host names of their own (a UTS namespace).
Each case becomes FOLDER/clients/<case>.json or .txt, what `--output` holds. Nothing is edited, but that the working
folder is written as /golden.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

MIX = """\
[global]
ioengine=psync
directory={work}
size=1m
bs=16k

[mix]
rw=randrw
numjobs=2
group_reporting=1
"""
STAGES = """\
[global]
directory={work}
size=512k
filename=data

[first]
rw=read
bs=16k

[second]
stonewall
rw=randread
bs=4k
"""
OTHER = """\
[global]
directory={work}
size=1m
bs=64k

[other]
rw=write
"""
LONG = """\
[global]
ioengine=psync
directory={work}
size=256k
bs=64k

[paced]
rw=read
time_based
runtime=2s
thinktime=50ms
"""


@contextlib.contextmanager
def server(fio: str, address: str, name: str) -> Iterator[int]:
    """A server at an address, on a host of this name; its process group."""
    kind, _, place = address.partition(":")
    where = f"sock:{place}" if kind == "sock" else f"ip:{address}"
    inside = ["sh", "-c", 'hostname "$1"; exec "$2" --server="$3"', "sh", name, fio, where]
    process = subprocess.Popen(
        ["unshare", "--uts", *inside], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        _wait(where)
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(where: str) -> None:
    kind, _, place = where.partition(":")
    family, address = (socket.AF_UNIX, place) if kind == "sock" else (socket.AF_INET, (place, 8765))
    while True:
        with socket.socket(family) as probe, contextlib.suppress(OSError):
            probe.connect(address)
            return
        time.sleep(0.05)


def client(fio: str, words: Sequence[str], to: Path, work: Path, form: str = "json+") -> None:
    """Run one client and keep what it wrote."""
    output = work / "output"
    subprocess.run([fio, f"--output-format={form}", f"--output={output}", *words], cwd=work, check=False)
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(output.read_text().replace(str(work), "/golden"))


def main(folder: Path, fio: str, work: Path) -> None:
    for name, text in {"mix": MIX, "stages": STAGES, "other": OTHER, "long": LONG}.items():
        (work / f"{name}.fio").write_text(text.format(work=work))
    hosts = work / "hosts.list"
    to = folder / "clients"
    path = str(work / "fio.sock")
    with server(fio, "127.0.0.2", "host-a"), server(fio, f"sock:{path}", "host-c"):
        with server(fio, "127.0.0.3", "host-b") as leader:
            hosts.write_text("127.0.0.2\n127.0.0.3\n")
            client(fio, ["--client=hosts.list", "mix.fio"], to / "same-job.json", work)
            client(fio, ["--client=hosts.list", "mix.fio"], to / "without-bins.json", work, "json")
            client(fio, ["--client=hosts.list", "mix.fio"], to / "normal.txt", work, "normal")
            client(fio, ["--client=hosts.list", "mix.fio"], to / "terse.txt", work, "terse")
            client(fio, ["--client=hosts.list", "stages.fio"], to / "stages.json", work)
            two = ["--client=127.0.0.2", "mix.fio", "--client=127.0.0.3", "other.fio"]
            client(fio, two, to / "different-jobs.json", work)
            client(fio, [f"--client=sock:{path}", "mix.fio"], to / "one-socket.json", work)
            ending = threading.Timer(1.0, os.killpg, (leader, signal.SIGKILL))
            ending.start()
            client(fio, ["--client=hosts.list", "long.fio"], to / "lost.json", work)
            ending.join()
        client(fio, ["--client=hosts.list", "mix.fio"], to / "unreached.json", work)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(sys.argv[1]).absolute(), sys.argv[2] if len(sys.argv) > 2 else "fio", Path(place).resolve())
