"""What a study wants of stress-ng: its parameters read and checked against the offer, and the arguments made of them.

Parameters are stress-ng's own options without their dashes. `stressor`, `workers` and `timeout` are the lab's; options
that would take the output, the choice of stressors or the place of files out of its hands are refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ioassay import units
from ioassay.errors import StudyError
from ioassay.packs.stress_ng.driver.stressors import Capabilities

DEFAULT_S = 10
"""Without a timeout stress-ng runs for a day."""
LONGEST_S = 3600
"""Of a trial that ends after a number of operations and has no timeout."""
MOST_WORKERS = 4096
"""stress-ng's own limit (STRESS_PROCS_MAX)."""
DANGEROUS = {
    "bad-altstack": "may crash kernels",
    "bind-mount": "mounts without end",
    "binderfs": "mounts file systems",
    "cpu-online": "takes processors away",
    "dev": "opens and controls every device in /dev",
    "loop": "makes and removes loop devices, and may remove yours",
    "memhotplug": "takes memory away",
    "mlockmany": "locks all memory",
    "opcode": "runs random machine code",
    "module": "loads and removes modules of the kernel",
    "physpage": "writes to the memory type registers (MTRR)",
    "pci": "reads registers of all PCI devices",
    "reboot": "calls reboot",
    "resources": "takes all resources of the machine",
    "smi": "interrupts the whole machine below the kernel",
    "softlockup": "keeps all processors from the kernel",
    "swap": "adds swap space, which stays when it is killed",
    "sysbadaddr": "makes system calls with bad addresses",
    "sysfs": "reads and writes every file in /sys",
    "sysinval": "makes system calls with random arguments",
    "umount": "mounts and unmounts in races",
    "watchdog": "arms the watchdog, which resets the machine",
}
"""Beside those that stress-ng disables itself: what can harm a host that does other work, above all as root.

Those that only take much of something are in `appetite`: whether it is too much depends on the host.
"""
_OURS = ("stressor", "workers", "timeout")
_OUTPUT = "the lab reads stress-ng's output and asks for what it needs"
_CHOICE = "one stressor a trial: use stressor and workers, and a suite or a factor for several"
_PLACE = "files go to the study's target: use [target] kind = 'folder'"
_REFUSED = {
    **dict.fromkeys(
        ("yaml", "metrics", "metrics-brief", "times", "verbose", "quiet", "log-brief", "log-file"), _OUTPUT
    ),
    **dict.fromkeys(("log-lockless", "stdout", "syslog", "timestamp", "sn", "skip-silent", "dry-run"), _OUTPUT),
    **dict.fromkeys(("help", "version", "stressors", "verifiable", "job"), _OUTPUT),
    **dict.fromkeys(("all", "parallel", "random", "sequential", "class", "exclude", "with", "permute"), _CHOICE),
    **dict.fromkeys(("temp-path", "keep-files"), _PLACE),
    "ignite-cpu": "it changes the kernel's controls and the lab could not put them back",
}
_COUNTS = ("N", "P", "L", "Q", "W", "X", "Y")
"""What the help calls a value that is a number; other letters are words too."""
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?[A-Za-z%]{0,2}")
_REAL_TIME = ("fifo", "rr")
"""Policies whose threads nothing ordinary interrupts (sched(7)); the kernel itself bounds 'deadline'."""
_BINARY_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPkmgtp])iB")


@dataclass(frozen=True)
class Settings:
    """One point as stress-ng will see it."""

    stressor: str
    workers: int
    timeout_s: int | None
    """None: it ends after its operations."""
    options: Mapping[str, str | bool]
    """Option -> its value; True for a flag."""

    @property
    def expected_s(self) -> float:
        """How long a trial is expected to last."""
        return float(self.timeout_s or DEFAULT_S)

    @property
    def longest_s(self) -> float:
        """After this the lab ends it: stress-ng waits for its workers, which may be slow to stop."""
        return LONGEST_S if self.timeout_s is None else 2 * self.timeout_s + 60

    @property
    def counted(self) -> bool:
        """Whether the load ends after a number of operations."""
        return f"{self.stressor}-ops" in self.options

    @property
    def forced(self) -> bool:
        """Whether the study says that harm is accepted."""
        return self.options.get("pathological") is True

    def no_room(self, processors: int) -> str:
        """Why its real-time workers would keep all processors from the lab; '' where one is left."""
        if self.options.get("sched") not in _REAL_TIME:
            return ""
        if 0 < _listed(str(self.options.get("taskset", ""))) < processors:
            return ""
        if 0 < self.workers < processors:
            return ""
        many = f"{self.workers} workers" if self.workers else "a worker on each processor"
        return f"{many} under sched = '{self.options['sched']}' would leave none of {processors} processors to the lab"

    def argv(self) -> list[str]:
        """The arguments of the load."""
        made = [f"--{self.stressor}", str(self.workers)]
        made += [f"--{name}" if value is True else f"--{name}={value}" for name, value in self.options.items()]
        return made + ([f"--timeout={self.timeout_s}"] if self.timeout_s is not None else [])


def read(params: Mapping[str, Any], offer: Capabilities) -> Settings:
    """The settings in `params`; StudyError names the key that is wrong. An offer that was not asked checks less."""
    stressor = _stressor(params, offer)
    options: dict[str, str | bool] = {}
    for key, value in params.items():
        if key not in _OURS:
            name = key.replace("_", "-")
            options[name] = _option(name, key, value, offer)
    options = {name: value for name, value in options.items() if value is not False}
    counted = f"{stressor}-ops" in options
    found = Settings(stressor, _workers(params), _timeout_s(params, counted), options)
    _harmless(found, offer)
    return found


def _listed(processors: str) -> int:
    """How many processors a list such as `0,2-3` names; 0 where it is another word of taskset."""
    if not re.fullmatch(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", processors):
        return 0
    ends = (part.partition("-") for part in processors.split(","))
    return len({number for low, _, high in ends for number in range(int(low), int(high or low) + 1)})


def _wrong(key: str, message: str) -> StudyError:
    return StudyError(message, key=f"params.{key}")


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean '{close[0]}'?" if close else ""


def _stressor(params: Mapping[str, Any], offer: Capabilities) -> str:
    name = params.get("stressor")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise _wrong("stressor", f"is {name!r}; expected the name of one stressor, such as 'cpu'; {_CHOICE}")
    if offer.stressors and name not in offer.stressors:
        hint = _nearest(name, offer.stressors) or "'stress-ng --stressors' lists them"
        raise _wrong("stressor", f"this stress-ng has no stressor '{name}'; {hint}")
    return name


def _workers(params: Mapping[str, Any]) -> int:
    """0 is stress-ng's word for one on each processor."""
    value = params.get("workers", 1)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_WORKERS:
        raise _wrong(
            "workers", f"is {value!r}; expected a whole number from 0 (one on each processor) to {MOST_WORKERS}"
        )
    return value


def _timeout_s(params: Mapping[str, Any], counted: bool) -> int | None:
    if "timeout" not in params:
        return None if counted else DEFAULT_S
    value = params["timeout"]
    try:
        seconds = units.parse_duration_s(value) if isinstance(value, int | float | str) else -1.0
    except ValueError as error:
        raise _wrong("timeout", str(error)) from None
    if seconds < 1 or seconds != int(seconds) or isinstance(value, bool):
        raise _wrong("timeout", f"is {value!r}; stress-ng takes whole seconds, 1 or more")
    return int(seconds)


def _option(name: str, key: str, value: Any, offer: Capabilities) -> str | bool:
    """The value as stress-ng takes it; False where it is not to be given."""
    if name in _REFUSED:
        raise _wrong(key, f"cannot be set: {_REFUSED[name]}")
    if name in offer.stressors:
        raise _wrong(key, f"is a stressor; {_CHOICE}")
    if offer.options and name not in offer.options:
        hint = _nearest(name, list(offer.options)) or "'stress-ng --help' lists them"
        raise _wrong(key, f"this stress-ng has no option '{name}'; {hint}")
    placeholder = offer.options.get(name, "")
    if isinstance(value, bool):
        if value and (placeholder or name in offer.choices):
            raise _wrong(key, f"is true; expected a value ('stress-ng --help' calls it {placeholder or 'a word'})")
        return value
    if not isinstance(value, int | float | str):
        raise _wrong(key, f"is {value!r}; expected a number, a word, or true for a flag")
    text = _BINARY_SIZE.sub(r"\1\2", str(value))
    if placeholder in _COUNTS and name not in offer.choices and not _NUMBER.fullmatch(text):
        raise _wrong(key, f"is '{value}'; expected a number")
    _chosen(name, key, text, offer)
    return text


def _chosen(name: str, key: str, text: str, offer: Capabilities) -> None:
    words = offer.choices.get(name, ())
    for word in text.split(",") if words else ():
        if word not in words:
            hint = _nearest(word, words)
            raise _wrong(key, f"is '{text}'; {hint + ' ' if hint else ''}this stress-ng takes: {', '.join(words)}")


def _harmless(found: Settings, offer: Capabilities) -> None:
    if found.forced:
        return
    name = found.stressor
    why = DANGEROUS.get(name) or ("may hang or reboot the machine" if name in offer.pathological else "")
    if why:
        remedy = "where that is acceptable, add stress-ng's own flag: pathological = true"
        raise _wrong("stressor", f"'{name}' {why}; {remedy}")
