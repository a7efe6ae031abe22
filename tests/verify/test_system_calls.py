"""The table of names of system calls beside the kernel headers that are installed here, whatever their age."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

CRATE = Path(__file__).parents[2] / "crates/witness"
TABLE = (CRATE / "src/system_calls.rs").read_text()
SCRIPT = runpy.run_path(str(CRATE / "system_calls.py"))
ARCHITECTURES = sorted(SCRIPT["HEADERS"])
EVERY_ARCHITECTURE = pytest.mark.parametrize("architecture", ARCHITECTURES)

OLD_GENERIC = """
#define __NR3264_fcntl 25
#define __NR_read 63
#ifdef __ARCH_WANT_RENAMEAT
#define __NR_renameat 38
#endif
#ifdef __ARCH_WANT_SYNC_FILE_RANGE2
#define __NR_sync_file_range2 84
#else
#define __NR_sync_file_range 84
#endif
#define __NR_arch_specific_syscall 244
#undef __NR_syscalls
#define __NR_syscalls 451
#define __NR_fcntl __NR3264_fcntl
"""


def committed(architecture: str) -> dict[int, str]:
    rows = TABLE.partition(f"const {architecture.upper()}:")[2].partition("];")[0]
    return {int(number): name for number, name in re.findall(r'\((\d+), "(\w+)"\)', rows)}


def committed_version() -> tuple[int, ...]:
    match = re.search(r"headers of Linux ([\d.]+)\.$", TABLE, re.M)
    assert match
    return numbers(match[1])


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def installed(name: str, *arguments: Any) -> Any:
    try:
        return SCRIPT[name](Path("/"), *arguments)
    except SCRIPT["NoHeaders"] as error:
        pytest.skip(str(error))


@EVERY_ARCHITECTURE
def test_the_table_agrees_with_the_headers_of_this_system(architecture: str) -> None:
    table, here = committed(architecture), installed("names", architecture)
    both = table.keys() & here.keys()
    assert len(both) > 250
    assert {number: table[number] for number in both} == {number: here[number] for number in both}
    if numbers(installed("version")) <= committed_version():
        assert here.keys() <= table.keys()
    else:
        assert table.keys() <= here.keys()


def test_the_same_headers_make_the_same_file(tmp_path: Path) -> None:
    """What the script writes is what is committed, spacing included: here from headers that are the table's own."""
    include = tmp_path / "usr/include"
    major, patch, sub = committed_version()
    write(
        include / "linux/version.h",
        f"#define LINUX_VERSION_MAJOR {major}\n#define LINUX_VERSION_PATCHLEVEL {patch}\n"
        f"#define LINUX_VERSION_SUBLEVEL {sub}\n",
    )
    for architecture in ARCHITECTURES:
        lines = [f"#define __NR_{name} {number}" for number, name in committed(architecture).items()]
        write(include / f"{architecture}-linux-gnu/asm/unistd_64.h", "\n".join(lines))
    assert SCRIPT["source"](tmp_path) == TABLE


def test_the_shared_file_is_read_as_arm64_reads_it(tmp_path: Path) -> None:
    write(tmp_path / "usr/include/asm-generic/unistd.h", OLD_GENERIC)
    expected = {25: "fcntl", 38: "renameat", 63: "read", 84: "sync_file_range"}
    assert SCRIPT["names"](tmp_path, "aarch64") == expected


def test_missing_headers_are_named_with_their_package(tmp_path: Path) -> None:
    with pytest.raises(SCRIPT["NoHeaders"], match=r"unistd_64\.h.*linux-libc-dev"):
        SCRIPT["names"](tmp_path, "x86_64")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
