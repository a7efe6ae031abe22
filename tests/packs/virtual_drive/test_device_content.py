"""What programs wrote to a served drive is there: by every path, with its holes, after its end, on a disk that is full.

One drive is reached by NBD, as a file (FUSE) and as a loop device on that, by all of them at the same time. Each job
has a region of its own, with trims between, which another path than the one that wrote it reads again. What a drive
keeps when it is killed at work, and what it refuses: crates/device/tests/it/kill.rs and the rows of served.toml.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import ioassay
from ioassay.packs.virtual_drive import serving
from ioassay.simulation import traces

from ...cli.conftest import ask
from ...conftest import loop_on
from ...patience import until
from .drives import PATIENCE_S, POLICIES, Drive, fio, over_nbd, served, typed
from .nbd import READ, TRIM, WRITE, Client

MIB = 2**20
PAGE = 4096
QUICK = ("--set", "program_us=20", "--set", "erase_us=50", "--no-calibrate")
NBD = ("--transport", "nbd:unix:a", "--no-calibrate")
MODELS = {"model": (), "write buffer": ("--policy", "epo", "--buffer", "1MiB"), "no model": ("--model", "none")}
of_libnbd = pytest.mark.skipif(
    not (shutil.which("nbdinfo") and shutil.which("qemu-img")), reason="needs nbdinfo and qemu-img"
)

# fio verifies

REGION_BYTES = 2 * MIB
JOBS = 2
"""Of each section, beside those of all others."""
MIXED = "bssplit=512/10:4k/50:12k/15:16k/15:64k/10"
BUFFER = ("--buffer", "2MiB")
FILE, LOOP, OVER = "filename=drive", "filename=${LOOP}", "uri=${NBD}"
PATHS = {
    "psync": ("ioengine=psync", FILE),
    "libaio": ("ioengine=libaio", FILE),
    "uring": ("ioengine=io_uring", FILE),
    "fixed": ("ioengine=io_uring", "fixedbufs=1", "registerfiles=1", "end_fsync=0", FILE),  # fio 3.39: EINVAL
    "nbd": ("ioengine=nbd", OVER),
    "loop": ("ioengine=libaio", LOOP),
    "nbd-trim": ("ioengine=nbd", OVER),
    "loop-trim": ("ioengine=psync", LOOP),
}
OTHERS = dict(zip(PATHS, [*list(PATHS.values())[4:], *list(PATHS.values())[:4]], strict=True))
"""Each section's region by another path: the file's by NBD and the loop device, and theirs by the file."""


def section(number: int, name: str, way: tuple[str, ...]) -> str:
    """A trim is followed by a write of the same block: with one request at a time, as fio 3.33 pairs them."""
    trims = name.endswith("-trim")
    pattern = ["rw=trimwrite", "bs=4k", "iodepth=1"] if trims else ["rw=randwrite", MIXED, "iodepth=8"]
    return "\n".join([f"[{name}]", *pattern, *way, f"offset={number * JOBS * REGION_BYTES}"])


def verified(folder: Path, ways: Mapping[str, tuple[str, ...]], drive: Drive, loop: str, *options: str) -> list[Any]:
    """The jobs; the same seeds each time, so that what was written is known to who only verifies."""
    common = [f"numjobs={JOBS}", f"offset_increment={REGION_BYTES}", f"size={REGION_BYTES}", "direct=1"]
    common += ["verify=crc32c", "verify_fatal=1", "randrepeat=1", "allrandrepeat=1", *options]
    sections = [section(at, *one) for at, one in enumerate(ways.items())]
    (folder / "job.fio").write_text("\n".join(["[global]", *common, *sections]) + "\n")
    jobs, said = fio(folder, "job.fio", NBD=drive.told["nbd"], LOOP=loop)
    assert [job["error"] for job in jobs] == [0] * len(jobs), said[:2000]
    return jobs


def volumes(jobs: list[dict[str, Any]], direction: str) -> list[int]:
    return [job[direction]["io_bytes"] for job in jobs]


def looped(file: Path) -> Any:
    """A loop device on a drive's file, without the page cache between."""
    return loop_on(file, "--direct-io=on")


def test_every_policy_is_verified(tmp_path: Path) -> None:
    known = ask("simulate", "--list-policies", "--json", cwd=tmp_path).json["policies"]
    assert {each["name"] for each in known} == set(POLICIES)


@pytest.mark.root
@pytest.mark.fio
@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_written_by_any_path_is_there_by_any_path(tmp_path: Path, policy: str) -> None:
    ways = ("--size", "32MiB", "--transport", "nbd:unix:a,fuse:drive", "--policy", policy)
    ways += () if policy == "none" else BUFFER
    with served(tmp_path, *ways, *QUICK) as drive, looped(tmp_path / "drive") as loop:
        options = ("do_verify=1", "verify_backlog=64", "end_fsync=1")
        written = verified(tmp_path, PATHS, drive, str(loop), *options)
        whole = [REGION_BYTES] * JOBS * len(PATHS)
        assert volumes(written, "write") == volumes(written, "read") == whole
        assert volumes(written, "trim") == [REGION_BYTES * job["jobname"].endswith("-trim") for job in written]
        assert volumes(verified(tmp_path, OTHERS, drive, str(loop), "verify_only=1"), "read") == whole
        counted = drive.stats  # it has seen no write of the second run, which fio 3.33 reports without doing any
        assert [counted[kind]["errors"] for kind in ("reads", "writes", "trims", "flushes")] == [0] * 4
        assert counted["writes"]["bytes"] == sum(whole)
        assert counted["trims"]["bytes"] == sum(volumes(written, "trim"))
        cached = 2 * JOBS * REGION_BYTES  # fio opens what it trims without O_DIRECT, whatever `direct` says
        assert counted["reads"]["bytes"] >= 2 * sum(whole) - cached


@pytest.mark.root
@pytest.mark.fio
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_written_is_there_when_its_backing_file_is_served_again(tmp_path: Path, end: signal.Signals) -> None:
    ways = ("--size", "32MiB", "--transport", "nbd:unix:a,fuse:drive", "--file", "kept", "--policy", "epo", *BUFFER)
    flushed = {name: way for name, way in PATHS.items() if not name.endswith("-trim") and name != "fixed"}
    with served(tmp_path, *ways, *QUICK) as drive:
        with looped(tmp_path / "drive") as loop:
            verified(tmp_path, flushed, drive, str(loop), "do_verify=0", "end_fsync=1")
        assert drive.end(end)[0] == (0 if end == signal.SIGTERM else -end)
    by_another = {name: OTHERS[name] for name in flushed}
    with served(tmp_path, *ways, *QUICK) as drive, looped(tmp_path / "drive") as loop:
        found = verified(tmp_path, by_another, drive, str(loop), "verify_only=1")
        assert volumes(found, "read") == [REGION_BYTES] * JOBS * len(flushed)


@pytest.mark.root
@pytest.mark.fio
def test_a_block_that_is_not_what_was_written_is_told(tmp_path: Path) -> None:
    with served(tmp_path, "--size", "4MiB", "--transport", "nbd:unix:a,fuse:drive", *QUICK) as drive:
        verified(tmp_path, {"psync": PATHS["psync"]}, drive, "", "do_verify=0")
        with (tmp_path / "drive").open("r+b") as file:
            file.seek(MIB + 100)
            file.write(b"something else")
        with pytest.raises(AssertionError, match="verify"):
            verified(tmp_path, {"psync": PATHS["nbd"]}, drive, "", "verify_only=1")


# What is allocated


def run(*argv: object) -> str:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, ""), argv
    return done.stdout


def extents(drive: Drive) -> list[tuple[int, int, int]]:
    """The extents that nbdinfo finds: offset and length in bytes, and type: 0 of data, 3 of a hole of zeroes."""
    told: list[dict[str, Any]] = json.loads(run("nbdinfo", "--map", "--json", drive.told["nbd"]))
    return [(each["offset"], each["length"], each["type"]) for each in told]


@of_libnbd
@pytest.mark.parametrize("model", MODELS)
def test_extents_follow_writes_and_trims(tmp_path: Path, model: str) -> None:
    words = ("--file", "b", *MODELS[model], *NBD)
    with served(tmp_path, "--size", "64MiB", *words) as drive, Client(tmp_path / "a") as client:
        assert extents(drive) == [(0, 64 * MIB, 3)]
        client.write(MIB, bytes(range(256)) * 4096)
        client.write(10 * MIB + 512, b"x" * 512)
        for trim in ((MIB + 3 * PAGE, 2 * PAGE), (MIB + 10 * PAGE + 512, PAGE)):  # the second covers no page entirely
            client.call(TRIM, *trim)
        written = [
            (0, MIB, 3),
            (MIB, 3 * PAGE, 0),
            (MIB + 3 * PAGE, 2 * PAGE, 3),
            (MIB + 5 * PAGE, MIB - 5 * PAGE, 0),
            (2 * MIB, 8 * MIB, 3),
            (10 * MIB, PAGE, 0),
            (10 * MIB + PAGE, 54 * MIB - PAGE, 3),
        ]
        assert extents(drive) == written
        assert drive.end() == (0, "")
    with served(tmp_path, *words) as drive:
        assert extents(drive) == written  # from the holes of the file


@of_libnbd
@pytest.mark.parametrize("model", MODELS)
def test_qemu_and_many_connections_of_nbdcopy_keep_an_image_and_its_holes(tmp_path: Path, model: str) -> None:
    image, chance, many = tmp_path / "image", random.Random(5), ("--connections=32", "--requests=64", "--threads=4")
    with image.open("wb") as file:
        file.truncate(64 * MIB)
        for _ in range(40):
            file.seek(chance.randrange(64 * MIB // PAGE - 64) * PAGE)
            file.write(os.urandom(chance.randrange(1, 64) * PAGE))
    words = ("--file", "kept", *MODELS[model], *NBD)
    with served(tmp_path, "--size", "64MiB", *words) as drive:
        uri = drive.told["nbd"]
        run("nbdcopy", *many, "--flush", image, uri)
        run("nbdcopy", *many, uri, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == image.read_bytes()
        assert 0 < drive.stats["reads"]["bytes"] < 16 * MIB, "what is not allocated is left out"
        assert drive.end(signal.SIGKILL)[0] == -signal.SIGKILL
    with served(tmp_path, *words) as drive:
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", image, uri)  # it was flushed
        run("qemu-io", "-f", "raw", "-c", "write -z 0 64M", uri)
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, uri)
        run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", uri, tmp_path / "qcow2")
        run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", image, tmp_path / "qcow2")
        told: list[dict[str, Any]] = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", uri))
        holes = [(offset, length, kind == 0) for offset, length, kind in extents(drive)]
        assert [(each["start"], each["length"], not each["zero"]) for each in told] == holes


# Disks that are full, or can only be read


@pytest.mark.root
@pytest.mark.fio
@pytest.mark.parametrize("model", ["no model", "write buffer"])
def test_a_full_disk_is_a_full_drive_until_there_is_room(
    tmp_path: Path, model: str, small_disk: Callable[..., Path], more_room: Callable[[Path, int], None]
) -> None:
    disk = small_disk(4096)
    words = ("--size", "16MiB", "--file", str(disk / "kept"), *MODELS[model], *NBD)
    with served(tmp_path, *words) as drive, Client(tmp_path / "a") as client:
        assert [one["kind"] for one in drive.told["warnings"]] == ["disk-may-fill"]
        client.write(0, b"1" * PAGE)
        client.flush()
        write = over_nbd(drive, "--bs=64k", "--rw=write", "--size=8m", "--offset=1m")
        (job,), said = fio(tmp_path, *write, "--fsync=8", "--iodepth=4")
        buffered = model == "write buffer"  # a flush reports it; fio 3.33 ignores errors of a flush, fio 3.39 does not
        assert job["error"] in ({0, errno.ENOSPC} if buffered else {errno.ENOSPC}), said[:500]
        assert drive.stats["flushes" if buffered else "writes"]["errors"] > 0
        # Nobody else is harmed: what is there is read, and written where there is room.
        assert client.read(0, PAGE) == b"1" * PAGE
        assert fio(tmp_path, *over_nbd(drive, "--bs=64k", "--rw=randread", "--size=1m"))[0][0]["error"] == 0
        with pytest.raises(OSError, match="No space left"):
            client.flush()
        more_room(disk, 65536)
        client.write(0, b"2" * PAGE)
        client.flush()
        assert fio(tmp_path, *write, "--verify=crc32c")[0][0]["error"] == 0
        code, said = drive.end()
        assert (code, "the disk is full" in said) == (0, False)
    assert (disk / "kept").read_bytes()[:PAGE] == b"2" * PAGE


@pytest.mark.root
@pytest.mark.fio
def test_a_full_disk_fails_the_file_and_a_read_only_disk_fails_its_writers(
    tmp_path: Path, small_disk: Callable[..., Path]
) -> None:
    disk = small_disk(2048)
    words = ("--no-calibrate", "--transport", "nbd:unix:a,fuse:drive", "--file", str(disk / "kept"))
    over_file = ("--name=job", "--ioengine=psync", "--filename=drive", "--bs=64k")
    with served(tmp_path, *words, "--size", "8MiB") as drive:
        (job,), said = fio(tmp_path, *over_file, "--rw=write", "--size=8m")
        assert (job["error"], drive.stats["writes"]["errors"]) == (errno.ENOSPC, 1), said[:500]
        code, said = drive.end()
        assert code == 1 and "kept: the disk is full: what was written last is not in it" in said
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    refused = typed(tmp_path, "serve", *words)
    assert refused.returncode == 2 and "Read-only file system" in refused.stderr
    assert "expected a file that can be written, or a drive that is read only" in refused.stderr
    with served(tmp_path, *words, "--read-only") as drive:
        for way in (over_file, over_nbd(drive, "--bs=64k")):
            assert fio(tmp_path, *way, "--size=64k", "--rw=read")[0][0]["error"] == 0
            assert fio(tmp_path, *way, "--size=64k", "--rw=write")[0][0]["error"] in (errno.EROFS, errno.EPERM)
        assert drive.end() == (0, "")


# Clients that vanish, and that take and give half of much


@pytest.mark.fio
@pytest.mark.parametrize("policy", ["none", "epo"])
def test_a_client_that_is_killed_with_requests_in_flight_harms_nobody(tmp_path: Path, policy: str) -> None:
    with served(tmp_path, "--size", "64MiB", "--policy", policy, *NBD) as drive:
        verify = ("--rw=randwrite", "--bs=4k", "--size=16m", "--iodepth=8", "--verify=crc32c", "--verify_fatal=1")
        endless = ("--rw=randwrite", "--bs=64k", "--offset=32m", "--size=32m", "--iodepth=64", "--runtime=600")
        begin = ["fio", "--output-format=json", "--eta=never"]
        argv = [*begin, "--output=other.json", *over_nbd(drive, *verify, "--verify_backlog=32")]
        with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL) as other:
            try:
                for _ in range(3):
                    until(lambda: drive.stats["ways"][0]["connections"] <= 1)
                    argv = [*begin, *over_nbd(drive, *endless, "--time_based")]
                    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, process_group=0) as victim:
                        try:
                            until(lambda: drive.stats["depth_now"] > 16)  # the other one has at most 8
                        finally:
                            victim.send_signal(signal.SIGKILL)
                assert other.wait(2 * PATIENCE_S) == 0
            finally:
                other.kill()
        said = (tmp_path / "other.json").read_text()
        (job,) = json.loads(said[said.index("{") :])["jobs"]
        assert (job["error"], job["write"]["io_bytes"], job["read"]["io_bytes"]) == (0, 16 * MIB, 16 * MIB)
        until(lambda: drive.stats["depth_now"] == drive.stats["ways"][0]["connections"] == 0)
        assert drive.stats["reads"]["errors"] == drive.stats["writes"]["errors"] == 0
        assert drive.end() == (0, "")


def test_clients_that_send_or_take_half_of_much_take_no_more_memory_than_was_told(tmp_path: Path) -> None:
    """Writes of 32 MiB without their last byte, and reads of 32 MiB that nobody takes, by as many as there may be."""

    def resident_bytes() -> int:
        return int(Path(f"/proc/{drive.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    clients: list[Client] = []
    with served(tmp_path, "--size", "64MiB", "--model", "none", *NBD) as drive:
        try:
            clients += [Client(tmp_path / "a") for _ in range(64)]
            before_bytes, most_bytes = resident_bytes(), 0
            unfinished = Client.request(WRITE, 0, 32 * MIB) + bytes(32 * MIB - 1)
            for number, client in enumerate(clients[1:]):
                client.send_some(unfinished if number % 2 else Client.request(READ, 0, 32 * MIB))
                clients[0].write(number * PAGE, b"\1" * PAGE)  # who asks for little is not kept waiting
                most_bytes = max(most_bytes, resident_bytes() - before_bytes)
            until(lambda: resident_bytes() - before_bytes > 32 * MIB)  # a busy machine takes its time
            assert max(most_bytes, resident_bytes() - before_bytes) < drive.told["memory_bytes"] < 256 * MIB
            assert drive.stats["ways"][0]["connections"] == 64
            with pytest.raises((EOFError, OSError)):
                Client(tmp_path / "a")
        finally:
            for client in clients:
                client.__exit__()
        assert drive.end() == (0, "")


# What fio sees of described drives is what the simulation says, and never less time


@pytest.mark.fio
@pytest.mark.parametrize("name", ["samsung-980-pro", "nvme-a"])
def test_no_answer_comes_before_the_simulation_has_it(name: str, tmp_path: Path) -> None:
    single = ("--bs=4k", "--iodepth=1", "--size=32m", "--number_ios=200")
    with served(tmp_path, "--size", "64MiB", "--drive", name, *NBD) as drive:
        assert drive.stats["mapping"] is None
        for pattern, kind, reads in (("randread", "read", 1.0), ("randwrite", "write", 0.0)):
            (job,), _ = fio(tmp_path, *over_nbd(drive, f"--rw={pattern}", *single))
            assert (job["error"], job[kind]["total_ios"], drive.stats[f"{kind}s"]["commands"]) == (0, 200, 200)
            recipe = traces.recipe(requests=2000, reads=reads, range="32MiB", arrivals="fixed:100", seed=1)
            least_ns = float(
                ioassay.simulate(recipe, drive=name, feed="closed:1", window=None).response().quantile(0.0)
            )
            assert job[kind]["lat_ns"]["min"] >= 0.999 * least_ns
        assert drive.end() == (0, "")


def test_a_mapping_cache_is_counted(tmp_path: Path) -> None:
    words = ("--size", "64MiB", "--drive", "mqsim-default", "--set", "mapping_cache=16KiB", *NBD)
    with served(tmp_path, *words) as drive, Client(tmp_path / "a") as client:
        for number in range(200):
            client.read(number * 7919 * PAGE % (64 * MIB), PAGE)
        found = drive.stats
        mapping, pages = found["mapping"], found["flash"]["read_pages"]
        assert mapping["hits"] + mapping["misses"] == pages > 0
        assert 0 < mapping["translation_reads"] <= mapping["misses"] and mapping["translation_writes"] == 0
        share = f"mapping   {mapping['hits'] / pages:.1%} of read pages found in the cache; "
        said = typed(tmp_path, "stats", drive.told["stats"]).stdout
        assert f"{share}{mapping['translation_reads']} translation pages read, 0 written" in said
        assert serving.metrics(found)["drive.mapping_hit_ratio"] == mapping["hits"] / pages
