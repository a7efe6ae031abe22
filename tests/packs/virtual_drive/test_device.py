"""`ioassay device` as it is typed: how a drive begins, whom it serves, and all the ways in which it ends.

What its commands say and refuse are rows of tests/corpus/commands (device, served).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from ioassay.packs.virtual_drive.commands import device
from ioassay.simulation import drive_files

from ...cli.command_server import CLOSED, CommandServer
from ...cli.conftest import is_alive, start
from ...patience import until
from .drives import COMMAND, PATIENCE_S, Drive, fio, over_nbd, served, served_all, typed
from .nbd import WRITE, Client

ROOT = Path(__file__).parents[3]
MIB = 2**20
PAGE = 4096
LONGEST = 107
"""Bytes of the path of a Unix socket: unix(7)."""
SMALL = ("--no-calibrate", "--size", "1MiB")
NBD = (*SMALL, "--transport", "nbd:unix:a")
BACKED = ("--transport", "nbd:unix:a,nvme-tcp:127.0.0.1:0", "--size", "4MiB", "--file", "kept", "--no-calibrate")
BACKED += ("--policy", "lru", "--buffer", "1MiB")


def mounts() -> set[Path]:
    return {Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()}


def free_port() -> int:
    """One that nobody has, and that nobody is given who asks for any (ip_local_port_range begins at 32768)."""
    while True:
        port = random.randrange(20000, 32768)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def keys(told: Any) -> Iterator[str]:
    """Those of a JSON value, at any depth."""
    for one in told.values() if isinstance(told, dict) else told if isinstance(told, list) else ():
        yield from keys(one)
    yield from told if isinstance(told, dict) else ()


# How it begins


def test_without_a_transport_it_speaks_nbd_to_its_own_user(tmp_path: Path) -> None:
    with served(tmp_path, *SMALL) as drive:
        path = Path(drive.told["nbd"].partition("socket=")[2])
        assert path.is_socket() and path.parent.stat().st_mode & 0o077 == 0
    assert not path.parent.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_line_of_json_says_that_it_is_ready_and_a_signal_ends_it(tmp_path: Path, number: signal.Signals) -> None:
    """As docs/virtual-drive.md has it; for one of the signals with what is measured at the start."""
    (tmp_path / "d").mkdir()
    port = free_port()
    ways = f"nbd:unix:{tmp_path}/a,nvme-tcp:127.0.0.1:{port},vfio-user:d,nbd:tcp:[::1]:0"
    words = ("--size", "1GiB", "--transport", ways, "--model", "reference", "--policy", "epo")
    words += () if number == signal.SIGTERM else ("--no-calibrate",)
    with served(tmp_path, *words, TMPDIR=str(tmp_path)) as drive:
        told = drive.told
        assert told["nbd"] == f"nbd+unix:///?socket={tmp_path}/a"
        assert (told["nvme_tcp"], told["vfio_user"]) == (f"127.0.0.1:{port}", f"{tmp_path}/d/cntrl")
        assert told["nqn"].startswith("nqn.")
        assert [way["transport"] for way in told["ways"]] == ["nbd", "nvme-tcp", "vfio-user", "nbd"]
        assert (told["size_bytes"], told["model"], told["policy"]) == (2**30, "reference", "epo")
        for name in (f"{tmp_path}/a", f"{tmp_path}/d/cntrl", told["stats"]):
            assert Path(name).is_socket() and Path(name).stat().st_mode & 0o777 == 0o600
        assert listening(drive) == ["127.0.0.1", "::1"], "beyond this machine"
        document = (ROOT / "docs" / "virtual-drive.md").read_text()
        assert {key for said in (told, drive.ask("stats")) for key in keys(said) if f"`{key}`" not in document} == set()
        with Client(tmp_path / "a") as client, socket.create_connection(("127.0.0.1", port)):
            client.write(0, b"x" * PAGE, fua=True)
            code, said = drive.end(number)
    assert code == 0
    assert all(part.startswith("warning: ") for part in said.splitlines()), said  # of a machine that is slow
    assert os.listdir(tmp_path) == ["d"] and os.listdir(tmp_path / "d") == []


def listening(drive: Drive) -> list[str]:
    """The addresses at which it listens."""
    known = psutil.Process(drive.process.pid).net_connections("tcp")
    return sorted({one.laddr.ip for one in known if one.status == psutil.CONN_LISTEN})


def test_a_path_that_a_socket_may_have_is_served_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    longest = "x" * (LONGEST - 1 - len(os.fsencode(tmp_path)))
    with served(tmp_path, *SMALL, "--transport", f"nbd:unix:{longest}"), Client(tmp_path / longest) as client:
        assert client.size_bytes == MIB
    for way in ("nbd:unix:", "vfio-user:", "stats"):
        words = (*NBD, "--stats", f"{longest}x") if way == "stats" else (*SMALL, "--transport", f"{way}{longest}x")
        done = typed(tmp_path, "serve", *words)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert f" has {LONGEST + 1} bytes, expected at most {LONGEST}" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.root
@pytest.mark.alone
def test_a_calibration_on_a_busy_machine_is_uncertain(tmp_path: Path) -> None:
    words = ("--size", "16MiB", "--transport", "nbd:unix:a", "--set", "elements=4")
    with served(tmp_path, *words, "--no-calibrate"):
        pass  # what starts drives has everything imported now
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4 * len(os.sched_getaffinity(0)))]
    try:
        with served(tmp_path, *words) as drive:
            kinds = {one["kind"] for one in drive.told["warnings"]}
    finally:
        for each in hogs:
            each.kill()
            each.wait()
    assert kinds & {"calibration-uncertain", "floor-unknown"}


# In real time


@pytest.mark.root
def test_a_real_time_server_and_its_watchdog_are_the_only_threads_that_run_so(tmp_path: Path) -> None:
    with served(tmp_path, *NBD, "--realtime", "--keep-awake") as drive, Client(tmp_path / "a") as client:
        client.write(0, b"x" * PAGE)
        until(lambda: classes(drive.process.pid).get("ioassay-watchdo") == os.SCHED_FIFO)
        told = classes(drive.process.pid)
        assert {name for name, number in told.items() if number == os.SCHED_FIFO} == {"main", "ioassay-watchdo"}
        assert drive.end() == (0, "")


def classes(process: int) -> dict[str, int]:
    """The scheduling class of each thread, by its name; of the main thread under `main`."""
    found = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        number = int(task.name)
        name = "main" if number == process else (task / "comm").read_text().strip()
        found[name] = os.sched_getscheduler(number) & ~os.SCHED_RESET_ON_FORK
    return found


@pytest.mark.root
@pytest.mark.parametrize(
    ("before", "said"),
    [
        (["taskset", "-c", str(min(os.sched_getaffinity(0)))], "realtime is true, expected two processors or more"),
        (["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"], "expected root, or a limit of at least 11"),
    ],
)
def test_what_does_not_allow_real_time_is_told(tmp_path: Path, before: list[str], said: str) -> None:
    argv = [*before, *COMMAND, "serve", *NBD, "--realtime"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert said in done.stderr and done.stderr.count("\n") == 1
    assert done.returncode > 0
    assert not (tmp_path / "a").exists()


# Users without rights


@pytest.mark.root
@pytest.mark.skipif(shutil.which("fusermount3") is None, reason="fusermount3 is not installed (package fuse3)")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_user_without_rights_has_a_drive_too(
    end: signal.Signals, nobody: list[str], as_nobody: CommandServer, open_folder: Path
) -> None:
    words = ("--size", "16MiB", "--transport", "fuse:drive,nbd:unix:a", "--file", "kept", "--no-calibrate")
    with served(open_folder, *words, "--stats", "st", server=as_nobody) as drive:
        write = ["dd", "if=/dev/zero", "of=drive", "bs=64k", "count=4", "conv=fsync,notrunc", "status=none"]
        subprocess.run([*nobody, *write], cwd=open_folder, check=True)
        assert drive.ask("stats")["writes"]["bytes"] == 2**18
        assert drive.end(end)[0] == (0 if end == signal.SIGTERM else -end)
    until(lambda: open_folder / "drive" not in mounts())


@pytest.mark.root
def test_a_user_without_rights_is_told_what_he_needs(as_nobody: CommandServer, open_folder: Path) -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    (open_folder / "kept").write_bytes(bytes(MIB))
    (open_folder / "kept").chmod(0o444)
    cases = [
        ("fuse:drive", "/nowhere", (), "Debian has it in the package fuse3"),
        ("nbd:unix:/a", os.environ["PATH"], (), "Permission denied"),
        (
            "nbd:unix:a",
            os.environ["PATH"],
            ("--file", "kept"),
            "expected a file that can be written, or a drive that is",
        ),
    ]
    if first > 1:  # or every port is everybody's here
        port = min(first, 1024) - 1
        cases.append((f"nvme-tcp:127.0.0.1:{port}", "", (), f"127.0.0.1:{port} is a port at which only root"))
    for way, path, more, said in cases:
        done = typed(open_folder, "serve", *SMALL, "--transport", way, *more, server=as_nobody, PATH=path)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert os.listdir(open_folder) == ["kept"]


# How it ends


def test_a_drive_ends_with_its_parent_and_keeps_what_it_has(tmp_path: Path) -> None:
    script = """sh -c 'echo $$ > pid; exec "$@"' sh "$@" --with-parent $$ & wait"""
    argv = ["sh", "-c", script, "sh", *COMMAND, "serve", *BACKED, "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and json.loads(parent.stdout.readline())["nbd"]
        with Client(tmp_path / "a") as client:
            client.write(8192, b"k" * PAGE)  # in the buffer
            parent.kill()
    until(lambda: not is_alive(int((tmp_path / "pid").read_text())))
    assert sorted(os.listdir(tmp_path)) == ["kept", "pid"]
    assert (tmp_path / "kept").read_bytes()[8192:12288] == b"k" * PAGE
    done = typed(tmp_path, "serve", *NBD, "--with-parent", str(os.getpid()))
    assert done.returncode != 0 and done.stdout == "", "its parent is another, as if that were gone"


@pytest.mark.parametrize("form", [("--json",), ()], ids=["json", "text"])
def test_a_drive_that_cannot_report_that_it_is_ready_ends(tmp_path: Path, form: tuple[str, ...]) -> None:
    """Whoever was to read that it is ready is gone: without its address nobody would find it, or end it."""
    out, into = os.pipe()
    os.close(out)
    gone = "ioassay: the reader of the output is gone, and the rest of it is lost\n"
    with start("device", "serve", *BACKED, *form, cwd=tmp_path, streams=(None, into), TMPDIR=str(tmp_path)) as drive:
        os.close(into)
        assert (drive.wait(), drive.err) == (1, gone)
    assert os.listdir(tmp_path) == ["kept"]


def test_a_drive_serves_on_when_nobody_reads_on(tmp_path: Path) -> None:
    out, into = os.pipe()
    words = ("device", "serve", *BACKED, "--json")
    with start(*words, cwd=tmp_path, streams=(None, into), TMPDIR=str(tmp_path)) as drive:
        os.close(into)
        with os.fdopen(out) as lines:
            lines.readline()
        with Client(tmp_path / "a") as client:
            client.write(0, b"y" * PAGE)
            assert client.read(0, PAGE) == b"y" * PAGE
        drive.send_signal(signal.SIGTERM)
        assert (drive.wait(), drive.err) == (0, "")
    assert os.listdir(tmp_path) == ["kept"]


def test_a_drive_without_any_output_is_served(tmp_path: Path) -> None:
    words = ("device", "serve", *BACKED, "--json")
    with start(*words, cwd=tmp_path, streams=(None, CLOSED), TMPDIR=str(tmp_path)) as drive:
        until(lambda: drive.has_ended() or list(tmp_path.glob("ioassay-device-*/stats")))
        drive.send_signal(signal.SIGTERM)
        assert drive.wait() in (1, 130) and "Traceback" not in drive.err  # 1, since nobody was told where
    assert os.listdir(tmp_path) == ["kept"]


def test_nohup_keeps_a_drive(tmp_path: Path) -> None:
    if shutil.which("nohup") is None:
        pytest.skip("needs nohup (package coreutils)")
    with served(tmp_path, *BACKED, before=["nohup"]) as drive:
        drive.process.send_signal(signal.SIGHUP)
        with Client(tmp_path / "a") as client:
            client.submit(WRITE, 0, data=b"z" * PAGE)
            assert client.reply()[1] == 0
        code, said = drive.end()
    assert (code, "Traceback" in said) == (0, False)


def test_the_next_drive_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    for way in ("a", "b"):
        with served(tmp_path, *SMALL, "--transport", f"nbd:unix:{way}", TMPDIR=str(tmp_path)) as drive:
            assert list(tmp_path.glob("ioassay-device-*")) == [Path(drive.told["stats"]).parent]
            drive.end(signal.SIGKILL)
    with start("doctor", "--restore", "--json", cwd=tmp_path, TMPDIR=str(tmp_path)) as doctor:
        assert doctor.wait() == 0
        restored = json.loads(doctor.out)["restored"]
    assert [text for text in restored if str(Path(drive.told["stats"]).parent) in text]
    assert not list(tmp_path.glob("ioassay-device-*"))


# Several drives of one process, and several namespaces of one drive


def config(folder: Path, *tables: str) -> tuple[str, ...]:
    (folder / "drives.toml").write_text("".join(f"[[drive]]\ncalibrate = false\n{table}\n" for table in tables))
    return "--config", "drives.toml"


@pytest.mark.root
@pytest.mark.fio
def test_two_drives_are_loaded_at_once_one_stops_and_a_signal_ends_the_other(tmp_path: Path) -> None:
    first = 'transport = "nbd:unix:a.sock,fuse:a"\nnamespaces = "16MiB,8MiB"\nmodel = "none"\nstats = "a.stats"'
    second = 'transport = "nbd:unix:b.sock,fuse:b"\nsize = "32MiB"\ndrive = "qlc-client"'
    verify = ("--rw=randwrite", "--size=8m", "--bs=4k", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1")
    with served_all(tmp_path, *config(tmp_path, first, second), drives=2) as (one, two):
        assert [drive.told["drive"] for drive in (one, two)] == [0, 1] and two.told["profile"] == "qlc-client"
        endless = ("--rw=randread", "--size=8m", "--bs=4k", "--iodepth=8", "--time_based", "--runtime=600")
        with subprocess.Popen(["fio", *over_nbd(one, *endless)], stdout=subprocess.DEVNULL) as victim:
            try:
                assert fio(tmp_path, *over_nbd(two, *verify))[0][0]["error"] == 0
                until(lambda: victim.poll() is not None or one.stats["reads"]["commands"])
                assert victim.poll() is None
            finally:
                victim.kill()
        (tmp_path / "a").open("r+b", buffering=0).write(b"a" * PAGE)
        (tmp_path / "b").open("r+b", buffering=0).write(b"b" * PAGE)
        assert [(tmp_path / name).open("rb").read(PAGE)[:1] for name in "ab"] == [b"a", b"b"]
        assert one.ask("stop") == {"stopped": str(tmp_path / "a.stats")}
        assert sorted(os.listdir(tmp_path)) == ["b", "b.sock", "drives.toml"]
        assert fio(tmp_path, *over_nbd(two, *verify))[0][0]["error"] == two.stats["writes"]["errors"] == 0
        assert two.end(signal.SIGINT) == (0, "")
    assert os.listdir(tmp_path) == ["drives.toml"]


@pytest.mark.fio
@pytest.mark.slow
def test_each_description_is_served_by_its_name_several_at_once(tmp_path: Path) -> None:
    names = list(drive_files.builtin())
    tables = [f'size = "64MiB"\ndrive = "{name}"\ntransport = "nbd:unix:{name}"' for name in names]
    with served_all(tmp_path, *config(tmp_path, *tables), drives=len(names)) as drives:
        for name, drive in zip(names, drives, strict=True):
            assert drive.told["profile"] == name and drive.told["model_bytes"] >= 64 * MIB
            (job,), _ = fio(tmp_path, *over_nbd(drive, "--rw=randrw", "--size=256k", "--bs=4k"))
            assert (job["error"], job["read"]["total_ios"] + job["write"]["total_ios"]) == (0, 64)
            assert drive.stats["reads"]["errors"] == 0
            if shutil.which("nbdinfo"):
                argv = ["nbdinfo", "--json", drive.told["nbd"]]
                info = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
                assert info["exports"][0]["description"] == f"ioassay {name}"


@pytest.mark.root
@pytest.mark.fio
def test_namespaces_are_exports_and_mounted_files_with_content_of_their_own(tmp_path: Path) -> None:
    ways = ("--transport", "fuse:one,nbd:unix:a", "--transport", "fuse:two,namespace=2")
    verify = ("--rw=randwrite", "--size=100%", "--bs=4k", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1")
    with served(tmp_path, "--namespaces", "8MiB,4MiB", *ways, "--model", "none", "--no-calibrate") as drive:
        assert [one["size_bytes"] for one in drive.told["namespaces"]] == [8 * MIB, 4 * MIB]
        exports = [f"--uri=nbd+unix:///{name}?socket={tmp_path}/a" for name in ("drive", "drive-2")]
        shared = ("--ioengine=nbd", "--thread", *verify)
        both, said = fio(tmp_path, *(word for uri in exports for word in ("--name=job", *shared, uri)))
        assert [job["error"] for job in both] == [0, 0], said
        for kind in ("writes", "reads"):
            assert [one[kind]["bytes"] for one in drive.stats["namespaces"]] == [8 * MIB, 4 * MIB]
        if shutil.which("nbdinfo"):
            argv = ["nbdinfo", "--list", "--json", drive.told["nbd"]]
            found = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)["exports"]
            sizes = {one["export-name"]: one["export-size"] for one in found}
            assert sizes == {"drive": 8 * MIB, "drive-2": 4 * MIB}
        one, two = tmp_path / "one", tmp_path / "two"
        one.open("r+b", buffering=0).write(b"1" * MIB)
        with two.open("r+b", buffering=0) as file:
            os.lseek(file.fileno(), 4 * MIB - PAGE, os.SEEK_SET)
            assert os.write(file.fileno(), b"2" * 8192) == PAGE, "no byte beyond the end"
        assert one.read_bytes()[:MIB] == b"1" * MIB and one.stat().st_size == 8 * MIB
        assert two.read_bytes()[-PAGE:] == b"2" * PAGE and two.stat().st_size == 4 * MIB
        # Through the page cache, after a change over another way: it is dropped in the right file.
        with one.open("rb") as source, (tmp_path / "copy").open("wb") as copy:
            os.sendfile(copy.fileno(), source.fileno(), 0, PAGE)
            one.open("r+b", buffering=0).write(b"3" * PAGE)
            os.sendfile(copy.fileno(), source.fileno(), 0, PAGE)
        assert (tmp_path / "copy").read_bytes() == b"1" * PAGE + b"3" * PAGE
        assert drive.end() == (0, "")


# Watching


def test_a_row_tells_of_its_interval_alone() -> None:
    def seen(served_s: float, reads: int, late: list[list[int]], **more: Any) -> dict[str, Any]:
        one = {"commands": 0, "bytes": 0, "latency_ns": {"buckets": []}}
        read = {"commands": reads, "bytes": 4096 * reads, "latency_ns": {"buckets": late}}
        told = {"served_s": served_s, "counted_s": served_s, "reads": read, "writes": one, "late_ns": {"buckets": late}}
        return {**told, "depth_now": 3, "buffer": {"held_pages": 12_345, "capacity_pages": 20_000}, **more}

    first, second = seen(1, 100, [[50_000, 100]]), seen(3, 102, [[50_000, 100], [900_000, 2]])
    gaps = {4: "900 µs", 5: "-", 6: "3", 7: "12.3 k", 8: "900 µs"}
    assert device.interval_row(first, second) == ["1", "0", "4.1 kB/s", "0 B/s", *gaps.values()]
    assert device.interval_row(second, seen(5, 102, second["late_ns"]["buckets"]))[4] == "-"
    assert device.interval_row(first, seen(5, 102, [], buffer={"held_pages": 0, "capacity_pages": 0}))[7] == "-"
    anew = seen(9, 4, [[10_000, 4]], counted_s=2)
    assert device.interval_row(second, anew)[:5] == ["2", "0", "8.19 kB/s", "0 B/s", "10 µs"], "counting began anew"
