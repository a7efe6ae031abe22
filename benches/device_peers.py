"""Servers of storage in memory that device.py compares the drive with: nbdkit, nbdfuse, qemu-storage-daemon, nvmf_tgt.

Each is served with the settings of its own manual, is filled once, and yields ways to it; those that are not installed
yield none, with the reason. nvmf_tgt is SPDK's: `setup/spdk.sh SOURCE` builds it, or IOASSAY_SPDK is its folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from device_ways import PATIENCE_S, Way, ended, fill, free_ports, size_of, tmpfs_file

from ioassay import units

SPDK = Path(os.environ.get("IOASSAY_SPDK") or Path(__file__).parent.parent / ".setup" / "spdk")
NQN = "nqn.2016-06.io.spdk:peer"
SPDK_MEMORY = 512 << 20
"""Beside the content."""


def peers(stack: ExitStack, folder: Path, size: str) -> list[Way]:
    """All that there are on this machine, until the stack is closed."""
    found: list[Way] = []
    for start in (nbdkit_unix, nbdkit_tcp, qemu, nbdfuse, nvmf_tgt):
        missing = missing_program(start)
        if missing:
            print(f"without {missing}")
            continue
        found += stack.enter_context(start(folder, size))
    return found


def missing_program(start: Callable[..., object]) -> str:
    """What is not there of what it starts."""
    if start is nvmf_tgt:
        return "" if (SPDK / "nvmf_tgt").exists() else "SPDK's nvmf_tgt (setup/spdk.sh SOURCE)"
    needed: dict[Callable[..., object], tuple[str, ...]] = {
        qemu: ("qemu-storage-daemon",),
        nbdfuse: ("nbdfuse", "nbdkit", "fusermount3"),
    }
    return ", ".join(program for program in needed.get(start, ("nbdkit",)) if not shutil.which(program))


@contextmanager
def nbdkit_unix(folder: Path, size: str) -> Iterator[list[Way]]:
    path = folder / "nbdkit"
    with nbdkit(folder, size, f"--unix={path}"):
        fill("--ioengine=nbd", f"--uri=nbd+unix:///?socket={path}", f"--{size_of(size)}")
        yield [Way("nbdkit, Unix socket", f"nbd:unix:{path}")]


@contextmanager
def nbdkit_tcp(folder: Path, size: str) -> Iterator[list[Way]]:
    port = free_ports(1)[0]
    with nbdkit(folder, size, "--ipaddr=127.0.0.1", f"--port={port}"):
        fill("--ioengine=nbd", f"--uri=nbd://127.0.0.1:{port}", f"--{size_of(size)}")
        yield [Way("nbdkit, TCP", f"nbd:127.0.0.1:{port}")]


@contextmanager
def nbdkit(folder: Path, size: str, *at: str) -> Iterator[None]:
    """The memory plugin: what was never written it does not copy, so it is to be filled."""
    ready = folder / f"nbdkit{len(at)}.pid"
    argv = ["nbdkit", "--foreground", "--exit-with-parent", f"--pidfile={ready}", *at, "memory", size_of(size)]
    with ended(subprocess.Popen(argv, process_group=0)) as process:
        wait_for(process, ready.exists)  # it is made when clients can connect (nbdkit(1))
        yield


@contextmanager
def nbdfuse(folder: Path, size: str) -> Iterator[list[Way]]:
    """nbdkit's memory plugin, mounted by libnbd's tool: two processes."""
    mount, ready = folder / "nbdfuse", folder / "nbdfuse.pid"
    mount.mkdir()
    argv = ["nbdfuse", "-P", str(ready), str(mount), "--command", "nbdkit", "-s", "memory", size_of(size)]
    with ended(subprocess.Popen(argv, process_group=0)) as process:
        wait_for(process, ready.exists)
        try:
            file = mount / "nbd"
            fill("--ioengine=psync", f"--filename={file}", f"--{size_of(size)}", "--direct=0", "--end_fsync=1")
            yield [Way("nbdfuse", str(file))]
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(mount)], check=False)


@contextmanager
def qemu(folder: Path, size: str) -> Iterator[list[Way]]:
    """A file of a memory file system, exported by NBD and by FUSE from one process each: it has one thread."""
    with ExitStack() as stack:
        file, exported = stack.enter_context(tmpfs_file(size)), folder / "qemu"
        socket, mount = folder / "qemu.sock", folder / "qemu.img"
        mount.touch()
        for name, words in (
            ("nbd", ("--nbd-server", f"addr.type=unix,addr.path={socket}", "--export", f"{export('nbd')},name=")),
            ("fuse", ("--export", f"{export('fuse')},mountpoint={mount}")),
        ):
            ready = exported.with_suffix(f".{name}.pid")
            node = f"driver=file,node-name=memory,filename={file},locking=off"
            argv = ["qemu-storage-daemon", "--pidfile", str(ready), "--blockdev", node, *words]
            process = stack.enter_context(ended(subprocess.Popen(argv, process_group=0)))
            wait_for(process, ready.exists)
        yield [Way("qemu, Unix socket", f"nbd:unix:{socket}"), Way("qemu, FUSE", str(mount))]


def export(kind: str) -> str:
    return f"type={kind},id={kind},node-name=memory,writable=on"


@contextmanager
def nvmf_tgt(folder: Path, size: str) -> Iterator[list[Way]]:
    """SPDK's target with a malloc bdev, without huge pages, on one processor."""
    port, config, log = free_ports(1)[0], folder / "nvmf.json", folder / "nvmf.log"
    size_bytes = units.parse_size(size)
    config.write_text(json.dumps(nvmf_config(port, size_bytes)))
    memory = str((size_bytes + SPDK_MEMORY) >> 20)
    argv = [str(SPDK / "nvmf_tgt"), "--no-huge", "--iova-mode", "va", "-s", memory, "-m", "0x1", "-r",
            str(folder / "nvmf.sock"), "--json", str(config)]  # fmt: skip
    with log.open("w") as out, ended(subprocess.Popen(argv, process_group=0, stdout=out, stderr=out)) as process:
        wait_for(process, lambda: "NVMe/TCP Target Listening" in log.read_text())
        os.kill(process.pid, signal.SIGSTOP)  # it polls, and others are measured, too
        try:
            yield [Way("nvmf_tgt, TCP", f"nvme-tcp:127.0.0.1:{port},nqn={NQN}", stopped=process.pid)]
        finally:
            os.kill(process.pid, signal.SIGCONT)


def nvmf_config(port: int, size_bytes: int) -> dict[str, object]:
    """What its JSON-RPC is called with at the start."""
    address = {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": str(port)}
    disk = {"name": "memory", "num_blocks": size_bytes // 512, "block_size": 512}
    calls: list[tuple[str, str, dict[str, object]]] = [
        ("bdev", "bdev_malloc_create", dict(disk)),
        ("nvmf", "nvmf_create_transport", {"trtype": "TCP"}),
        ("nvmf", "nvmf_create_subsystem", {"nqn": NQN, "allow_any_host": True, "serial_number": "peer"}),
        ("nvmf", "nvmf_subsystem_add_ns", {"nqn": NQN, "namespace": {"bdev_name": "memory", "nsid": 1}}),
        ("nvmf", "nvmf_subsystem_add_listener", {"nqn": NQN, "listen_address": address}),
    ]
    of = {name: [{"method": method, "params": params} for at, method, params in calls if at == name]
          for name in ("bdev", "nvmf")}  # fmt: skip
    return {"subsystems": [{"subsystem": name, "config": config} for name, config in of.items()]}


def wait_for(process: subprocess.Popen[bytes], is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.args!r} does not serve")
        time.sleep(0.02)
