"""Rulesets of the kernel's Landlock: what a process and all that it starts may still change in the file system.

    with landlock.Ruleset(rules) as ruleset:
        process.run(…, confine=ruleset)

A ruleset is made by the runner; the held child enters it, right before it becomes its program. Only changes are
handled: reading, executing and sockets stay as they are. A right on a folder holds for all that lies below it, and no
rule takes one away again. Older kernels know fewer rights; `restrictable` says which.
Deliberately not here: what a trial may write (`confinement`), and the processes (`process`).
Sources: Documentation/userspace-api/landlock.rst, include/uapi/linux/landlock.h, landlock(7).
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

# include/uapi/linux/landlock.h, LANDLOCK_ACCESS_FS_*
WRITE_FILE, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_MAKING = MAKE_CHAR | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_BLOCK | MAKE_SYM
_HANDLED = {1: WRITE_FILE | REMOVE_DIR | REMOVE_FILE | _MAKING, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
"""ABI -> the rights that came with it and restrict changes; 4, 6 and 7 brought none."""
_OF_FILES = WRITE_FILE | TRUNCATE | IOCTL_DEV
"""A rule on anything that is no folder takes no others (EINVAL)."""
_GAPS = {TRUNCATE: "truncation of files that may not be written", IOCTL_DEV: "ioctl calls on devices"}

FILE = _OF_FILES
"""To write a file or a device, and no more."""
FOLDER = WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | REFER | (_MAKING & ~(MAKE_CHAR | MAKE_BLOCK))
"""To do anything below a folder but to make device nodes: through one, any disk could be written."""
LAYOUT = WRITE_FILE | TRUNCATE | MAKE_REG | REMOVE_FILE | MAKE_DIR | REMOVE_DIR
"""On a folder: to make, replace and remove files and folders in it."""

_NUMBERS = {"create": 444, "add": 445, "restrict": 446}
"""The same on every architecture (include/uapi/asm-generic/unistd.h)."""
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS
_SYS_ADMIN = 21  # CAP_SYS_ADMIN
_CAPABILITIES = "security.capability"
_REASONS = {
    errno.ENOSYS: "this kernel has no Landlock; Linux 5.13 and newer have it where CONFIG_SECURITY_LANDLOCK is set",
    errno.EOPNOTSUPP: "Landlock is off on this host; boot with landlock first in lsm=, as in lsm=landlock,yama,bpf",
    errno.EPERM: "a seccomp filter forbids Landlock here; a container may allow it by its seccomp profile",
}


class Linux:
    """The system calls of this machine's kernel. Each raises OSError with the kernel's reason."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._syscall, self._prctl = libc.syscall, libc.prctl
        self._syscall.restype = ctypes.c_long

    def abi(self) -> int:
        """The newest version of Landlock's interface that the kernel has."""
        return self._call(_NUMBERS["create"], None, ctypes.c_size_t(0), _VERSION)

    def create(self, handled: int) -> int:
        """A descriptor of a new ruleset, under which the rights in `handled` are only had by a rule."""
        attributes = struct.pack("=Q", handled)  # the first member; what is left out counts as 0
        return self._call(_NUMBERS["create"], attributes, ctypes.c_size_t(len(attributes)), 0)

    def add(self, ruleset: int, rights: int, parent: int) -> None:
        """Grant rights on what the descriptor `parent` is open to, and below it."""
        self._call(_NUMBERS["add"], ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, parent), 0)

    def restrict(self, ruleset: int, no_new_privs: bool) -> int:
        """Enter the ruleset with this process, for good: 0, or the number of the error. Allocates nothing new."""
        if no_new_privs and self._prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
            return ctypes.get_errno()
        return ctypes.get_errno() if self._syscall(_NUMBERS["restrict"], ruleset, 0) else 0

    def _call(self, *arguments: object) -> int:
        answer: int = self._syscall(*arguments)
        if answer < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return answer


@dataclass(frozen=True)
class Support:
    """What a host's Landlock can do. `abi` is 0 where it cannot be used, and `why` says why."""

    abi: int
    why: str = ""

    @property
    def gaps(self) -> tuple[str, ...]:
        """What it cannot keep a process from; for an older kernel's rulesets leave it as it is."""
        return tuple(text for right, text in _GAPS.items() if self.abi and not restrictable(self.abi) & right)


def support(kernel: Linux | None = None) -> Support:
    try:
        return Support((kernel or Linux()).abi())
    except OSError as error:
        return Support(0, reason(error))


def reason(error: OSError) -> str:
    """Why Landlock could not be used, with the remedy."""
    return _REASONS.get(error.errno or 0, f"the kernel refuses it: {error.strerror}")


def restrictable(abi: int) -> int:
    """The rights to change something that this version of the interface knows; newer ones have those that we know."""
    return sum(rights for since, rights in _HANDLED.items() if abi >= since)


@dataclass(frozen=True)
class Rule:
    """Rights on a path: a file, a device or a folder with all below it."""

    path: Path
    rights: int


class Ruleset:
    """A ruleset with its rules, ready to be entered; a context manager. OSError where the kernel has no Landlock.

    A rule whose path is not there, or cannot be reached by this user, grants nothing and is left out of `granted`.
    """

    def __init__(self, rules: Iterable[Rule], kernel: Linux | None = None) -> None:
        self._kernel = kernel or Linux()
        self.abi = self._kernel.abi()
        self.granted: list[Rule] = []
        known = restrictable(self.abi)
        self._no_new_privs = needs_no_new_privs()
        self._descriptor = self._kernel.create(known)
        try:
            for rule in rules:
                try:
                    place = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
                except OSError:
                    continue
                try:
                    is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
                    if rights := rule.rights & known & (~0 if is_folder else _OF_FILES):
                        self._kernel.add(self._descriptor, rights, place)
                        self.granted.append(Rule(rule.path, rights))
                finally:
                    os.close(place)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enter(self) -> int:
        """Confine this process, for good: 0, or the number of the error. Fit for a forked child."""
        return self._kernel.restrict(self._descriptor, self._no_new_privs)

    def close(self) -> None:
        """Give back the descriptor; who has entered stays confined."""
        os.close(self._descriptor)


def needs_no_new_privs(status: Path = Path("/proc/self/status")) -> bool:
    """Whether a process like this one has to give up privileges that programs could gain, to confine itself.

    Who has CAP_SYS_ADMIN need not, so that under root a tool's own sudo or setuid programs work as ever.
    """
    with suppress(OSError, ValueError):
        for line in status.read_text().splitlines():
            if line.startswith("CapEff:"):
                return not int(line.split()[1], 16) >> _SYS_ADMIN & 1
    return True


def gains_privileges(program: str) -> bool:
    """Whether a program is setuid, setgid or has capabilities of its own, which it would lose."""
    found = shutil.which(program)
    if found is None:
        return False
    with suppress(OSError):
        return bool(Path(found).stat().st_mode & (stat.S_ISUID | stat.S_ISGID)) or bool(
            os.getxattr(found, _CAPABILITIES)
        )
    return False
