"""A tool that does one thing and says another: it is started as `fio`, `dd` or `iozone`, and prints what these print.

DOES is what it does, as in `pread data`; SAYS are the options of the job that a fio states.
"""

from __future__ import annotations

import json
import os
import sys
import time

SIZE, RECORD = 1 << 24, 1 << 16


def read(call: str, name: str) -> None:
    data = os.open(name, os.O_RDONLY)
    for number in range(SIZE // RECORD // (2 if call == "half" else 1)):
        if call in ("read", "half"):
            os.read(data, RECORD)
        elif call == "readv":
            os.readv(data, [bytearray(RECORD)])
        else:
            os.pread(data, RECORD, number * RECORD)
    os.close(data)


def pause(name: str) -> None:
    """Four sessions with 0.2 s behind each."""
    for part in range(4):
        data = os.open(name, os.O_RDONLY)
        for number in range(64):
            os.pread(data, RECORD, (64 * part + number) * RECORD)
        os.close(data)
        time.sleep(0.2)


def write(name: str) -> float:
    """Write and synchronise; when the first began, which no slow opening delays."""
    data, begin = os.open(name, os.O_RDWR | os.O_CREAT), time.perf_counter()
    for _ in range(SIZE // RECORD):
        os.write(data, bytes(RECORD))
    os.fsync(data)
    os.close(data)
    return begin


def say_fio(seconds: float) -> None:
    part = {"io_bytes": SIZE, "io_kbytes": SIZE // 1024, "total_ios": 256, "runtime": int(seconds * 1000) + 1}
    said = dict(pair.split("=") for pair in os.environ.get("SAYS", "").split())
    job = {"jobname": "job", "job options": {"rw": "read", "bs": "64k", **said}, "read": part}
    print(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))


def say_dd(seconds: float) -> None:
    sys.stderr.write(f"256+0 records in\n256+0 records out\n{SIZE} bytes (17 MB, 16 MiB) copied, {seconds:.6f} s, ")
    sys.stderr.write(f"{SIZE / 1e6 / seconds:.1f} MB/s\n")


def say_iozone(seconds: float) -> None:
    print("\tInclude fsync in write timing")
    print("\tCommand line used: iozone -e -i0 -s16m -r64k -f iozone.tmp\n\tTime Resolution = 0.000001 seconds.")
    print("              kB  reclen    write  rewrite")
    print(f"{SIZE // 1024:16d}{RECORD // 1024:8d}{int(SIZE / seconds / 1024):9d}{0:9d}")


def main() -> None:
    begin = time.perf_counter()
    for deed in os.environ["DOES"].split(","):
        match deed.split():
            case ["pause", name]:
                pause(name)
            case ["write", name]:
                begin = write(name)
            case ["open", name]:
                os.close(os.open(name, os.O_RDWR))
            case ["begin", earlier]:
                begin -= float(earlier)
            case [call, name]:
                read(call, name)
    seconds = time.perf_counter() - begin
    {"fio": say_fio, "dd": say_dd, "iozone": say_iozone}.get(sys.argv[1], print)(seconds)


if __name__ == "__main__":
    main()
