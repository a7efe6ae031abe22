"""Tools that lie about how they did it, and honest tools in odd places: what `ioassay witness` says of each."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.root, pytest.mark.bpf]

MIB = 1 << 20
SIZE = 16 * MIB
FIO = ["fio", "--name=job", "--filename=data", "--bs=64k", "--size=16M", "--ioengine=psync", "--output-format=json"]


def witness(folder: Path, *argv: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """The result as JSON, whatever the exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "ioassay", "witness", "--json", *argv],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})},
    )  # fmt: skip
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert "verdict" in result, result
    return result


def judged(result: dict[str, Any], name: str) -> set[tuple[str, str]]:
    """Category and reason of one property, of every claim that states it."""
    listed = [each for verdict in result["verdicts"] for each in verdict["properties"]]
    return {(each["category"], each["reason"]) for each in listed if each["name"] == name}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `data` and `data2`, 16 MiB each, on the disk and not in the cache."""
    for name in ("data", "data2"):
        with (tmp_path / name).open("wb") as file:
            file.write(os.urandom(MIB) * 16)
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return tmp_path


def program(path: Path, script: str) -> None:
    """Make `path` a program of Python."""
    source = path.with_suffix(".py")
    source.write_text(script)
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(source.resolve()))} "$@"\n')
    path.chmod(0o755)


@pytest.fixture
def library(built: Callable[..., str]) -> Callable[[str], str]:
    """`library(source)`: an `env` word that preloads what the C source defines."""
    return lambda source: f"LD_PRELOAD={built(source, '-D_GNU_SOURCE', '-shared', '-fPIC', '-ldl')}"


# Synchronisation

NO_SYNC = "int fsync(int fd) { return 0; } int fdatasync(int fd) { return 0; }"
OTHER_FILE = """
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
static int other(void) { return syscall(SYS_fsync, syscall(SYS_openat, AT_FDCWD, "data2", O_RDONLY)); }
int fsync(int fd) { return other(); }
int fdatasync(int fd) { return other(); }
"""
WRITE_BACK = """
#include <fcntl.h>
int fsync(int fd) { return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }
int fdatasync(int fd) { return fsync(fd); }
"""
DD = ["dd", "if=/dev/zero", "of=data", "bs=1M", "count=16"]
IOZONE = """
import os, sys, time
size, record = 16384 * 1024, 64 * 1024
block, data = os.urandom(record), os.open("iozone.tmp", os.O_RDWR | os.O_CREAT)
begin = time.perf_counter()
for _ in range(size // record):
    os.write(data, block)
if "--early" in sys.argv:
    os.fsync(data)
    os.pwrite(data, block, 0)
else:
    os.fsync(data)
seconds = time.perf_counter() - begin
os.close(data)
rate = int(size / seconds / 1024)
print("\\tInclude fsync in write timing")
print(f"\\tCommand line used: iozone -e -i0 -s16m -r64k -f iozone.tmp\\n\\tTime Resolution = 0.000001 seconds.")
print("              kB  reclen    write  rewrite")
print(f"{size // 1024:16d}{record // 1024:8d}{rate:9d}{0:9d}")
"""
SYNCING: dict[str, Sequence[str]] = {
    "dd-fsync": [*DD, "conv=fsync"],
    "dd-fdatasync": [*DD, "conv=fdatasync"],
    "fio-end_fsync": [*FIO, "--rw=write", "--end_fsync=1"],
    "fio-fsync-each": [*FIO, "--rw=randwrite", "--fsync=1"],
    "fio-fdatasync": [*FIO, "--rw=write", "--fdatasync=8"],
    "iozone-e": ["./iozone", "-e", "-i0", "-s16m", "-r64k", "-f", "iozone.tmp"],
}


@pytest.mark.fio
@pytest.mark.parametrize("tool", SYNCING)
def test_a_synchronisation_that_no_kernel_saw_is_contradicted(
    tool: str, folder: Path, library: Callable[[str], str]
) -> None:
    program(folder / "iozone", IOZONE)
    honest = witness(folder, "--", *SYNCING[tool])
    assert honest["verdict"].split("-")[0] in ("CONFIRMED", "AMPLIFIED"), honest["explanation"]
    assert judged(honest, "sync") == {("CONFIRMED", "")}
    lying = witness(folder, "--", "env", library(NO_SYNC), *SYNCING[tool])
    assert lying["verdict"] == "CONTRADICTED", lying["explanation"]
    assert {category for category, _ in judged(lying, "sync")} == {"CONTRADICTED"}


@pytest.mark.parametrize("stub", [OTHER_FILE, WRITE_BACK], ids=["another-file", "write-back-alone"])
def test_a_synchronisation_of_another_file_or_of_a_range_is_none(
    stub: str, folder: Path, library: Callable[[str], str]
) -> None:
    lying = witness(folder, "--", "env", library(stub), *SYNCING["dd-fsync"])
    assert lying["verdict"] == "CONTRADICTED" and judged(lying, "sync") <= {
        ("CONTRADICTED", "FEWER-SEEN"), ("CONTRADICTED", "NOT-SYNCED"),
    }  # fmt: skip


@pytest.mark.fio
@pytest.mark.parametrize("engine", ["libaio", "io_uring", "posixaio", "mmap", "splice"])
@pytest.mark.parametrize("option", ["--end_fsync=1", "--fsync=16", "--fdatasync=16"])
def test_however_an_engine_synchronises_it_is_no_lie(engine: str, option: str, folder: Path) -> None:
    result = witness(folder, "--", *FIO, "--rw=write", f"--ioengine={engine}", option)
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]
    if engine not in ("mmap", "splice"):
        assert judged(result, "sync") == {("CONFIRMED", "")}


OPENS = """
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#define STRIPPED(name, has_folder) \\
    int name(FOLDER_##has_folder const char *path, int flags, ...) { \\
        va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \\
        int (*real)(FOLDER_##has_folder const char *, int, ...) = dlsym(RTLD_NEXT, #name); \\
        return real(NUMBER_##has_folder path, flags & ~(O_DIRECT | O_SYNC | O_DSYNC), mode); \\
    }
#define FOLDER_0
#define NUMBER_0
#define FOLDER_1 int folder,
#define NUMBER_1 folder,
STRIPPED(open, 0) STRIPPED(open64, 0) STRIPPED(openat, 1) STRIPPED(openat64, 1)
"""
FLAGGED: dict[str, tuple[str, Sequence[str]]] = {
    "dd-direct-read": ("direct", ["dd", "if=data", "of=/dev/null", "bs=64k", "iflag=direct"]),
    "dd-direct-write": ("direct", ["dd", "if=/dev/zero", "of=data", "bs=64k", "count=256", "oflag=direct"]),
    "dd-dsync": ("sync", ["dd", "if=/dev/zero", "of=data", "bs=1M", "count=16", "oflag=dsync"]),
    "fio-direct-read": ("direct", [*FIO, "--rw=randread", "--direct=1"]),
    "fio-direct-write": ("direct", [*FIO, "--rw=write", "--direct=1", "--end_fsync=1"]),
    "fio-sync": ("sync", [*FIO, "--rw=write", "--sync=1"]),
}


@pytest.mark.fio
@pytest.mark.parametrize("tool", FLAGGED)
def test_flags_that_no_open_file_has_are_contradicted(tool: str, folder: Path, library: Callable[[str], str]) -> None:
    name, argv = FLAGGED[tool]
    honest = witness(folder, "--", *argv)
    assert honest["verdict"] in ("CONFIRMED", "AMPLIFIED") and judged(honest, name) == {("CONFIRMED", "")}
    lying = witness(folder, "--", "env", library(OPENS), *argv)
    assert lying["verdict"] == "CONTRADICTED", (lying["verdict"], lying["verdicts"])
    assert {category for category, _ in judged(lying, name)} == {"CONTRADICTED"}


SET_LATER = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    void *memory;
    int file = open("data", O_RDONLY), through = atoi(words[1]);
    if (count < 2 || posix_memalign(&memory, 4096, 65536)) return 1;
    for (int call = 0; call < 256; call++) {
        if (!call || call == through) fcntl(file, F_SETFL, call == through ? 0 : O_DIRECT);
        if (pread(file, memory, 65536, call * 65536L) != 65536) return 2;
    }
    return 0;
}
"""


@pytest.mark.parametrize("backend", ["bpf", "strace"])
@pytest.mark.parametrize("through", [0, 1, 128, 254, 255])
def test_direct_is_what_each_call_was(backend: str, through: int, folder: Path, built: Callable[..., str]) -> None:
    tool = built(SET_LATER)
    claim = ["--backend", backend, "--claim", "direct=yes,bytes=16MiB,path=data"]
    honest = witness(folder, *claim, "--", tool, "999")
    assert judged(honest, "direct") == {("CONFIRMED", "")}
    lying = witness(folder, *claim, "--", tool, str(through))
    assert lying["verdict"] == "CONTRADICTED" and judged(lying, "direct") == {("CONTRADICTED", "NOT-DIRECT")}


IN_TURNS = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    void *memory;
    int file = open("data", O_RDONLY);
    if (posix_memalign(&memory, 4096, 65536)) return 1;
    for (long offset = 0, call = 0; offset < 16 << 20; call++) {
        fcntl(file, F_SETFL, call % 2 ? 0 : O_DIRECT);
        long moved = pread(file, memory, call % 2 ? 61440 : 65536, offset);
        if (moved <= 0) return 2;
        offset += moved;
    }
    return 0;
}
"""


@pytest.mark.parametrize("backend", ["bpf", "strace"])
def test_every_second_call_is_not_the_last_part_of_a_block(
    backend: str, folder: Path, built: Callable[..., str]
) -> None:
    claim = ["--backend", backend, "--claim", "direct=yes,bytes=16MiB,path=data"]
    lying = witness(folder, *claim, "--", built(IN_TURNS))
    assert lying["verdict"] == "CONTRADICTED" and judged(lying, "direct") == {("CONTRADICTED", "NOT-DIRECT")}


@pytest.mark.parametrize("size", [100_001, 1_000_448, 65536 * 9 + 4096])
def test_the_last_block_of_dd_may_be_a_part_of_one(size: int, folder: Path) -> None:
    """dd clears O_DIRECT for it."""
    argv = ["dd", "if=/dev/zero", "of=data", "bs=64k", f"count={size}", "iflag=count_bytes", "oflag=direct"]
    result = witness(folder, "--", *argv, "conv=fsync")
    assert result["verdict"] in ("CONFIRMED", "AMPLIFIED"), result["verdicts"]
    assert judged(result, "direct") == judged(result, "sync") == {("CONFIRMED", "")}


# Engines and files

FAKE_FIO = """
import json, os, subprocess, sys, time
begin = time.perf_counter()
{action}
seconds = time.perf_counter() - begin
runtime = int(seconds * 1000) + 1
part = {{"io_bytes": {size}, "io_kbytes": {size} // 1024, "total_ios": {operations}, "runtime": runtime}}
options = {{"rw": "read", "bs": "64k", **{options!r}}}
print(json.dumps({{"fio version": "fio-3.33", "jobs": [{{"jobname": "job", "job options": options, "read": part}}]}}))
"""
BY_READ = """
def read(name, first=0):
    data = os.open(name, os.O_RDONLY)
    for at in range({operations}):
        os.{call}
    os.close(data)
read({name!r})
"""


def fake_fio(folder: Path, action: str, operations: int = 256, **options: str) -> list[str]:
    program(folder / "fio", FAKE_FIO.format(action=action, size=SIZE, operations=operations, options=options))
    return ["./fio", "--output-format=json"]


def reads(name: str, call: str = "read(data, 65536)") -> str:
    return BY_READ.format(name=name, call=call, operations=256)


PREAD = "pread(data, 65536, at * 65536)"


@pytest.mark.parametrize(
    ("engine", "call", "verdict"),
    [
        ("io_uring", PREAD, "CONTRADICTED"),
        ("libaio", PREAD, "CONTRADICTED"),
        ("mmap", PREAD, "CONTRADICTED"),
        ("psync", "read(data, 65536)", "CONTRADICTED"),
        ("psync", PREAD, "CONFIRMED"),
        ("vsync", "readv(data, [bytearray(65536)])", "CONFIRMED"),
    ],
)
def test_engines_are_known_by_their_way_into_the_kernel(engine: str, call: str, verdict: str, folder: Path) -> None:
    result = witness(folder, "--", *fake_fio(folder, reads("data", call), ioengine=engine, filename="data"))
    assert result["verdict"].startswith(verdict), result["verdicts"]
    assert {category for category, _ in judged(result, "engine")} == {verdict}


@pytest.mark.parametrize("engine", ["io_uring", "libaio"])
def test_a_ring_is_not_claimed_by_cat(engine: str, folder: Path) -> None:
    result = witness(
        folder, "--claim", f"bytes=16MiB,path=data,engine={engine}", "--", "sh", "-c", "cat data > /dev/null"
    )
    assert (result["verdict"], result["reason"]) == ("CONTRADICTED", "OTHER-ENGINE"), result["explanation"]


@pytest.mark.fio
def test_fio_reads_every_file_that_it_was_given(folder: Path) -> None:
    argv = [*FIO, "--filename=data2", "--size=32M", "--rw=read", "--direct=1"]
    result = witness(folder, "--", *argv)
    assert result["verdict"] == "CONFIRMED" and judged(result, "files") == {("CONFIRMED", "")}, result["verdicts"]
    assert result["claims"][0]["paths"] == ["data", "data2"]


@pytest.mark.fio
@pytest.mark.parametrize("engine", ["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio"])
@pytest.mark.parametrize("rw", ["randread", "write"])
def test_fio_s_engines_are_what_they_say(engine: str, rw: str, folder: Path) -> None:
    result = witness(folder, "--", *FIO, f"--rw={rw}", f"--ioengine={engine}", "--direct=1")
    assert result["verdict"] in ("CONFIRMED", "AMPLIFIED"), result["verdicts"]
    assert judged(result, "engine") == judged(result, "direct") == {("CONFIRMED", "")}


def test_another_file_than_the_one_that_is_named_is_contradicted(folder: Path) -> None:
    lying = witness(folder, "--", *fake_fio(folder, reads("data2", PREAD), ioengine="psync", filename="data"))
    assert (lying["verdict"], judged(lying, "files")) == ("CONTRADICTED", {("CONTRADICTED", "OTHER-FILES")})
    derived = witness(folder, "--", *fake_fio(folder, reads("data2", PREAD), ioengine="psync"))
    assert (derived["verdict"], derived["reason"]) == ("INCOMPLETE", "OTHER-FILES")
    (folder / "link").symlink_to("data2")
    honest = witness(folder, "--", *fake_fio(folder, reads("link", PREAD), ioengine="psync", filename="link"))
    assert honest["verdict"].startswith("CONFIRMED"), honest["explanation"]


FAKE_DD = """
import os, sys, time
begin = time.perf_counter()
{action}
seconds = time.perf_counter() - begin
sys.stderr.write(f"256+0 records in\\n256+0 records out\\n16777216 bytes (17 MB, 16 MiB) copied, {{seconds:.6f}} s, ")
sys.stderr.write(f"{{16.777216 / seconds:.1f}} MB/s\\n")
"""


@pytest.mark.parametrize(("opened", "verdict"), [("data2", "CONTRADICTED"), ("data", "CONFIRMED")])
def test_a_dd_that_reads_another_file(opened: str, verdict: str, folder: Path) -> None:
    program(folder / "dd", FAKE_DD.format(action=reads(opened)))
    result = witness(folder, "--", "./dd", "if=data", "of=/dev/null", "bs=64k")
    assert result["verdict"].split("-")[0] == verdict, result["verdicts"]
    assert {category for category, _ in judged(result, "files")} == {verdict}


def test_a_device_that_read_for_another_file_does_not_stand_for_the_named_one(folder: Path) -> None:
    script = f"import os\nos.close(os.open('data', os.O_RDONLY))\n{reads('data2')}"
    result = witness(folder, "--claim", "bytes=16MiB,path=data", "--", sys.executable, "-c", script)
    assert result["verdict"] == "UNSUBSTANTIATED" and result["explanation"].endswith("supports this claim.")
    write = "import os\nos.open('data', os.O_WRONLY)\nother = os.open('data2', os.O_WRONLY)\n"
    write += "os.write(other, bytes(1 << 24))\nos.fsync(other)"
    result = witness(folder, "--claim", "bytes=16MiB,path=data,kind=write", "--", sys.executable, "-c", write)
    assert result["verdict"] in ("INCOMPLETE", "UNSUBSTANTIATED"), result["explanation"]


# Intervals and devices

REOPENED = """
import os, time
for part in range(4):
    data = os.open("data", os.O_RDONLY)
    for at in range(64):
        os.pread(data, 65536, (64 * part + at) * 65536)
    os.close(data)
    time.sleep({pause})
"""


PAUSED = {("CONTRADICTED", "OTHER-TIME"), ("INCOMPLETE", "HELD-UP")}  # the second on a contended machine


def test_pauses_between_sessions_belong_to_the_interval(folder: Path) -> None:
    pausing = REOPENED.format(pause=0.2)
    stated = witness(folder, "--claim", "bytes=16MiB,seconds=0.3,path=data", "--", sys.executable, "-c", pausing)
    assert (stated["verdict"], stated["reason"]) in PAUSED
    honest = fake_fio(folder, pausing, ioengine="psync", filename="data")
    assert witness(folder, "--", *honest)["verdict"].split("-")[0] in ("CONFIRMED", "AMPLIFIED")
    paused = fake_fio(folder, f"{pausing}\nbegin += 0.8\n", ioengine="psync", filename="data")
    result = witness(folder, "--", *paused)
    assert (result["verdict"], result["reason"]) in PAUSED


@pytest.mark.fio
@pytest.mark.parametrize("kept", [8, 12, 15])
def test_a_file_with_holes_has_fewer_bytes_on_its_device(kept: int, folder: Path) -> None:
    """What others read meanwhile may have been the rest, if it is as much: then nothing is decided."""
    with (folder / "data").open("r+b") as file:
        file.truncate(kept * MIB)
        file.truncate(SIZE)
    for argv in ([*FIO, "--rw=randread", "--direct=1"], FLAGGED["dd-direct-read"][1]):
        result = witness(folder, "--", *argv)
        others = re.search(r"up to ([\d.]+) MiB were read for other files", result["explanation"])
        is_open = others is not None and float(others[1]) * MIB >= SIZE - kept * MIB
        expected = "INCOMPLETE" if is_open else "UNSUBSTANTIATED"
        assert (result["verdict"], result["reason"]) == (expected, "NO-DEVICE-IO"), result["explanation"]
        assert not any("merged" in note for verdict in result["verdicts"] for note in verdict["notes"])


def test_nothing_at_all_supports_a_claim(folder: Path) -> None:
    result = witness(folder, "--claim", "bytes=16MiB", "--", "true")
    assert result["verdict"] == "UNSUBSTANTIATED"
    assert result["explanation"].endswith("Nothing that was seen supports this claim.")


# Honest tools in odd places


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 1 MiB in memory."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.fio
@pytest.mark.parametrize(
    "argv",
    [
        ["dd", "if=/dev/zero", "of=small/full", "bs=300k"],
        ["dd", "if=/dev/zero", "of=small/full", "bs=300k", "conv=fsync"],
        ["dd", "if=data", "of=small/full", "bs=1000000", "oflag=dsync"],
        ["dd", "if=/dev/zero", "of=small/full", "bs=4k"],
        ["fio", "--name=job", "--filename=small/full", "--rw=write", "--bs=60k", "--size=900k", "--loops=2",
         "--file_append=1", "--fallocate=none", "--end_fsync=1", "--output-format=json"],
        ["fio", "--name=job", "--filename=small/full", "--rw=write", "--bs=60k", "--size=2m", "--fill_fs=1",
         "--fallocate=none", "--end_fsync=1", "--output-format=json"],
    ],
    ids=["dd", "dd-fsync", "dd-dsync", "dd-4k", "fio-append", "fio-fill"],
)  # fmt: skip
def test_a_full_disk_makes_no_liar(argv: Sequence[str], folder: Path, small_disk: Path) -> None:
    assert small_disk.is_dir()
    result = witness(folder, "--", *argv)
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]


DEEP = "/".join(["d" * 60] * 6)
READ = "fio --name=job --rw=randread --bs=64k --direct=1"
LAYERS = "mount -t overlay none -o lowerdir=t/l,upperdir=t/u,workdir=t/w m"
ODD = {
    "deep": f"mkdir -p {DEEP} && ln data {DEEP}/data && {READ} --filename={DEEP}/data",
    "xargs": "printf 'data data2' | xargs -n1 sh -c 'dd if=$0 of=/dev/null bs=64k'",
    "sparse": "truncate -s 16M hole; dd if=hole of=copy bs=64k conv=sparse",
    "overlay": f"mkdir -p t m && mount -t tmpfs none t && mkdir t/l t/u t/w && cp data t/l && {LAYERS} && "
    "fio --name=job --filename=m/data --rw=write --bs=64k --end_fsync=1",
    "other-processes": f"unshare --pid --fork --mount-proc {READ} --filename=data",
    "deleted": "exec 3< data; rm data; dd if=/proc/self/fd/3 of=/dev/null bs=64k",
    "bound": f"mkdir m; mount --bind . m; cd m; {READ} --filename=data",
    "nobody": "chmod 777 .; chmod 666 data; setpriv --reuid=65534 --clear-groups dd if=data of=/dev/null bs=64k",
}


@pytest.mark.fio
@pytest.mark.parametrize("place", ODD)
def test_no_place_makes_a_liar(place: str, folder: Path) -> None:
    result = witness(folder, "--", "unshare", "--mount", "sh", "-c", ODD[place])
    assert result["exit_code"] == 0, result
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]


ASKED = "dd if=/dev/zero of=big bs=64k count=3000 oflag=dsync"


@pytest.mark.parametrize(
    "script",
    [
        f"{ASKED} & sleep 0.2; kill -USR1 $!; sleep 0.2; kill -USR1 $!; wait $!",
        f"{ASKED} status=progress",
        f"{ASKED} status=progress & sleep 0.2; kill -USR1 $!; wait $!",
        f"for n in 1 2; do {ASKED} conv=notrunc & sleep 0.2; kill -USR1 $!; wait $!; done",
        f"dd if=data of=/dev/null bs=64k; {ASKED} & sleep 0.2; kill -USR1 $!; wait $!",
        "./script",
    ],
    ids=["asked-twice", "progress", "both", "loop", "second-of-two", "script-in-a-file"],
)
def test_interim_summaries_are_not_added(script: str, folder: Path) -> None:
    (folder / "script").write_text(f"#!/bin/sh\n{ASKED} & sleep 0.2; kill -USR1 $!; wait $!\n")
    (folder / "script").chmod(0o755)
    result = witness(folder, "--", *(["./script"] if script == "./script" else ["sh", "-c", script]))
    allowed = {"CONFIRMED", "AMPLIFIED"} | ({"INCOMPLETE"} if "data" in script or script == "./script" else set())
    assert result["verdict"].split("-")[0] in allowed, [(v["explanation"], v["claim"]) for v in result["verdicts"]]


@pytest.mark.parametrize(
    "script",
    [
        "dd if=data bs=64k 2>/dev/null | dd of=copy bs=64k",
        "dd if=data bs=64k status=none | (sleep 0.3; dd of=copy bs=64k iflag=fullblock)",
        "dd if=data bs=1M | dd of=copy bs=64k",
        "dd if=data bs=64k | (sleep 0.3; dd of=copy bs=64k) 2>/dev/null",
    ],
)
def test_a_pipe_whose_ends_have_their_own_clocks_is_not_mixed_up(script: str, folder: Path) -> None:
    result = witness(folder, "--", "sh", "-c", script)
    assert result["verdict"] not in ("CONTRADICTED", "UNSUBSTANTIATED"), result["verdicts"]
