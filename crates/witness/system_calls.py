"""Makes `src/system_calls.rs`, the names of system calls by number, from the kernel's headers for programs.

    python3 crates/witness/system_calls.py [ROOT] > crates/witness/src/system_calls.rs

ROOT is a folder with an unpacked package linux-libc-dev, and / by default. The kernel never gives a number to another
call, newer ones only add: headers newer than those that the table names are the only reason to run this again. The C
preprocessor reads the headers, because arm64 shares a file full of conditions with other architectures.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

# What arch/arm64/include/uapi/asm/unistd.h selected before Linux 6.11, from when on the numbers stand in a file of
# the architecture's own. x86-64 has always had such a file.
ARM64_SELECTS = ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "TIME32_SYSCALLS", "SYS_CLONE3", "MEMFD_SECRET")
HEADERS: dict[str, tuple[str, ...]] = {
    "x86_64": ("lib/linux/uapi/x86/asm/unistd_64.h", "include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": (
        *("lib/linux/uapi/arm64/asm/unistd_64.h", "include/aarch64-linux-gnu/asm/unistd_64.h"),
        "include/asm-generic/unistd.h",
    ),
}
NOT_CALLS = {"syscalls", "arch_specific_syscall"}  # how many there are; where an architecture's own begin


class NoHeaders(Exception):
    """The headers are not there, or hold nothing."""


def version(root: Path) -> str:
    """The kernel that the headers are of, as `6.12.94`."""
    macros = _macros(root, _existing(root, ("include/linux/version.h",)))
    return ".".join(macros[f"LINUX_VERSION_{part}"] for part in ("MAJOR", "PATCHLEVEL", "SUBLEVEL"))


def names(root: Path, architecture: str) -> dict[int, str]:
    """The names of an architecture's calls by number, in the order of the numbers."""
    macros = _macros(root, _existing(root, HEADERS[architecture]))
    calls = {
        _number(macros, macro): macro.removeprefix("__NR_")
        for macro in macros
        if macro.startswith("__NR_") and macro.removeprefix("__NR_") not in NOT_CALLS
    }
    if not calls:
        raise NoHeaders(f"no numbers of system calls for {architecture} below {root}")
    return dict(sorted(calls.items()))


def _existing(root: Path, candidates: Sequence[str]) -> Path:
    paths = [root / "usr" / candidate for candidate in candidates]
    for path in paths:
        if path.exists():
            return path
    raise NoHeaders(f"none of these exists: {', '.join(map(str, paths))} (Debian: linux-libc-dev)")


def _macros(root: Path, header: Path) -> dict[str, str]:
    """What a header defines."""
    include = root / "usr" / "include"
    folders = (include, *(include / f"{architecture}-linux-gnu" for architecture in HEADERS))
    argv = ["cc", "-E", "-dM", "-nostdinc", *(f"-I{folder}" for folder in folders)]
    argv += [f"-D__ARCH_WANT_{name}" for name in ARM64_SELECTS]
    printed = subprocess.run([*argv, "-xc", str(header)], check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"^#define (\w+) (.+)$", printed, re.M))


def _number(macros: Mapping[str, str], macro: str) -> int:
    """Through the names that stand for others (`__NR_lseek` for `__NR3264_lseek`)."""
    value = macros[macro]
    return int(value) if value.isdecimal() else _number(macros, value)


def source(root: Path) -> str:
    """The text of `src/system_calls.rs`."""
    parts = [
        f"//! Names of system calls by number, from the headers of Linux {version(root)}.\n"
        "//!\n//! Made by `system_calls.py`, which says how to make it again: do not edit.\n"
    ]
    for architecture in HEADERS:
        pairs = [f'({number}, "{name}"),' for number, name in names(root, architecture).items()]
        rows = "\n".join(_wrapped(pairs))
        parts.append(
            f'#[cfg(any(test, target_arch = "{architecture}"))]\n'
            f"#[rustfmt::skip]\npub(crate) const {architecture.upper()}: &[(u32, &str)] = &[\n{rows}\n];\n"
        )
    return "\n".join(parts)


def _wrapped(pairs: list[str]) -> list[str]:
    # A pair is one word for textwrap.
    glued = " ".join(pair.replace(" ", "\0") for pair in pairs)
    lines = textwrap.wrap(glued, 116, break_long_words=False, break_on_hyphens=False)
    return [f"    {line}".replace("\0", " ") for line in lines]


if __name__ == "__main__":
    try:
        print(source(Path(*sys.argv[1:2] or ["/"])), end="")
    except NoHeaders as error:
        sys.exit(f"system_calls.py: {error}")
