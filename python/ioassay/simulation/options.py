"""The options of a simulation: one table for the Python function, the command line and the driver's parameters.

Everything here is a name, a default and a way to read what people write; what numbers may be, the core knows.
Names are snake case; the command line writes them with dashes. Defaults are those of the reference drive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ioassay import _core, units
from ioassay.errors import UsageError
from ioassay.hints import nearest, suggestion

DRIVE, CONTROLLER, BUFFER, FEED, PRECONDITION = "drive", "controller", "buffer", "feed", "precondition"
COUNT, NUMBER, NUMBERS, SHARE, SIZE, FLAG, CHOICE = "count", "number", "numbers", "share", "size", "flag", "choice"
WINDOW, FEEDING, POLICY, AUTO_SHARE, AUTO_COUNT = "window", "feeding", "name", "share or auto", "count or auto"
NONE, AUTO = "none", "auto"
PADDED = "bplru-padded"
"""BPLRU as its authors describe it: a name of its own, so that it stands next to the one without padding."""
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    PADDED: {"policy": "bplru", "padding": True, "compensation": True, "block_requests": True}
}
"""Names of policies with fixed options, and those options."""


@dataclass(frozen=True)
class Option:
    """One option. `key` is its name in the core's dictionary of its group."""

    name: str
    group: str
    kind: str
    default: Any
    key: str
    about: str
    choices: tuple[str, ...] = ()


def _option(group: str, name: str, kind: str, default: Any, about: str, *choices: str, key: str = "") -> Option:
    return Option(name, group, kind, default, key or name, about, choices)


_drive, _controller, _buffer, _feed, _precondition = (
    partial(_option, group) for group in (DRIVE, CONTROLLER, BUFFER, FEED, PRECONDITION)
)
OPTIONS: tuple[Option, ...] = (
    _drive("elements", COUNT, 48, "Flash elements (packages)."),
    _drive("dies", COUNT, 2, "Dies per element."),
    _drive("planes", COUNT, 8, "Planes per element, over all its dies."),
    _drive("blocks", COUNT, 2048, "Blocks per plane."),
    _drive("pages_per_block", COUNT, 64, "Pages per block, one of them for metadata."),
    _drive("page", SIZE, "4KiB", "Page size in bytes.", key="page_bytes"),
    _drive("reserve", SHARE, 0.15, "Over-provisioning: share of a plane's blocks that is not exported."),
    _drive("min_free", SHARE, 0.05, "Share of free blocks in a plane at which garbage collection begins."),
    _drive("read_us", NUMBER, 25.0, "Time to read a page, microseconds."),
    _drive("program_us", NUMBER, 200.0, "Time to program a page, microseconds."),
    _drive("erase_us", NUMBER, 1500.0, "Time to erase a block, microseconds."),
    _drive("transfer_us_per_byte", NUMBER, 0.025, "Time per byte over an element's pins, microseconds."),
    _drive("spare_bytes", COUNT, 16, "Spare bytes transferred with each sector."),
    _drive("channels", COUNT, 1, "Host channels."),
    _drive("channel_us_per_sector", NUMBER, 0.2384, "Time per sector on a host channel, microseconds."),
    _drive("copy_back", FLAG, True, "Move pages within a plane without crossing the pins."),
    _drive("pool", CHOICE, "element", "Scope of page allocation.", "element", "plane"),
    _drive("cleaning", CHOICE, "greedy", "Victim selection of garbage collection.", "greedy", "cost-benefit"),
    _drive("wear_levelling", CHOICE, "off", "How erasures are distributed.", "off", "dynamic", "static"),
    _drive("wear_spread", COUNT, 8, "Difference of erasures in a plane that static wear levelling allows."),
    _drive("overlap", CHOICE, "off", "Parts of an element that work in parallel.", "off", "dies", "planes"),
    _drive("read_priority", FLAG, False, "Serve waiting reads of an element before its writes."),
    _drive("endurance", COUNT, 50, "Erasures that a block survives; 0: unlimited."),
    _controller("write_cache", SIZE, 0, "Write cache, in which writes complete; 0: none."),
    _controller("program_unit", SIZE, 0, "Bytes that a program operation writes; 0: a page."),
    _controller("flash_page", SIZE, 0, "Bytes that a read operation reads at most; 0: a page."),
    _controller("page_type_read_us", NUMBERS, NONE, "Read times by page type, microseconds: 40/60/80."),
    _controller("small_read_us", NUMBERS, NONE, "The same for reads of at most 4 KiB."),
    _controller("command_read_us", NUMBER, 0.0, "Fixed time of a read command, microseconds."),
    _controller("command_write_us", NUMBER, 0.0, "Fixed time of a write command, microseconds."),
    _controller("command_read_us_per_4k", NUMBER, 0.0, "Time of a read command for each 4 KiB, microseconds."),
    _controller("command_write_us_per_4k", NUMBER, 0.0, "Time of a write command for each 4 KiB, microseconds."),
    _controller("command_rate", NUMBER, 0.0, "Commands a second at most; 0: no limit."),
    _controller("flash_channels", COUNT, 0, "Flash channels that the elements share; 0: one each."),
    _controller("flash_channel_mb_s", NUMBER, 0.0, "Bandwidth of a flash channel, MB/s; 0: that of the pins."),
    _controller("link_mb_s", NUMBER, 0.0, "Bandwidth of the link to the host, MB/s; 0: that of the host channel."),
    _controller("link_duplex", FLAG, False, "The link carries both directions at once."),
    _controller("program_suspensions", COUNT, 0, "Times that reads may suspend a program operation."),
    _controller("erase_suspensions", COUNT, 0, "Times that reads may suspend an erase operation."),
    _controller("suspend_us", NUMBER, 0.0, "Time until a suspended operation lets a read begin, microseconds."),
    _controller(
        "background_free", SHARE, 0.0, "Share of free superblocks at which garbage collection begins; 0: min_free."
    ),
    _controller("hot_cold", FLAG, False, "Write moved pages to superblocks of their own."),
    _controller("superblock", COUNT, 0, "Elements that a superblock spans; 0: all."),
    _controller("page_type_program_us", NUMBERS, NONE, "Program times by page type, microseconds: 300/700/1100."),
    _controller("fill", SHARE, 1.0, "Share of the logical pages that are mapped at first."),
    _controller("slc_region", SIZE, 0, "Capacity of the region that is written in SLC mode; 0: none."),
    _controller("slc_dynamic", FLAG, False, "The SLC region takes free superblocks, as far as there are some."),
    _controller("bits_per_cell", COUNT, 0, "Bits of a cell outside the SLC region: 3 for TLC, 4 for QLC."),
    _controller("slc_program_unit", SIZE, 0, "Bytes of a program operation in SLC mode; 0: as in others."),
    _controller(
        "slc_program_us", NUMBERS, NONE, "Time of a program operation in SLC mode, microseconds; none: as in others."
    ),
    _controller("slc_read_us", NUMBERS, NONE, "Time of a read in SLC mode, microseconds; none: as of others."),
    _controller(
        *("slc_folding", CHOICE, "both"),
        "When pages of the SLC region are folded: the host is idle, the region is full, or both.",
        *("both", "idle", "full"),
    ),
    _controller("slc_idle_us", NUMBER, 0.0, "Time without a request after which the host is idle, microseconds."),
    _controller("mapping_cache", SIZE, 0, "Mapping cache; 0: the drive's memory has the whole mapping."),
    _controller("mapping_entry_bytes", COUNT, 8, "Bytes of an entry of the mapping."),
    _buffer("policy", POLICY, NONE, "Policy of the write buffer."),
    _buffer("buffer", SIZE, "8MiB", "Size of the write buffer.", key="pages"),
    _buffer("mode", CHOICE, "reshape", "Place of the buffer: before the drive, or in it.", "reshape", "inline"),
    _buffer("block_by", CHOICE, "lba", "How pages are grouped into blocks.", "lba", "element"),
    _buffer("padding", FLAG, False, "Read missing pages and write whole blocks."),
    _buffer("pad_reads", FLAG, True, "Send the reads of padding to the drive, instead of only counting them."),
    _buffer("compensation", FLAG, False, "Evict blocks first that were written in order."),
    _buffer("block_requests", FLAG, False, "Write a block as one request, not page by page."),
    _buffer(
        *("write_behind", CHOICE, AUTO),
        "Elements of an inline buffer that get pages ahead of need; auto: as the policy has it.",
        *(AUTO, "off", "idle", "any"),
    ),
    _buffer("high_watermark", AUTO_SHARE, AUTO, "Share of the buffer's slots above which write-behind begins."),
    _buffer("low_watermark", AUTO_SHARE, AUTO, "Share of the buffer's slots at which write-behind ends."),
    _buffer(
        *("destage_depth", AUTO_COUNT, AUTO),
        "Pages of the buffer that an element has to program at most, for --write-behind any.",
    ),
    _feed("feed", FEEDING, "open", "open, scaled:FACTOR, closed:OUTSTANDING or batch:SIZE@GAP.", key="feeding"),
    _feed("window", WINDOW, 20, "Requests outstanding at the drive at once, or none for no limit."),
    _feed("driver", CHOICE, "clook", "Scheduling of the host's queue.", "clook", "fcfs", key="scheduler"),
    _feed(
        *("end", CHOICE, "drained"),
        "End of the run: all requests complete, or the last request issued.",
        *("drained", "last-issued"),
    ),
    _feed("max_outstanding", COUNT, 1_000_000, "Outstanding requests at which the simulation stops."),
    _feed("unaligned", CHOICE, "round", "Requests that are not whole sectors.", "round", "refuse"),
    _feed("slices", COUNT, 256, "Maximum number of rows of the time series."),
    _precondition("precondition", SHARE, 0.0, "Share of the drive to overwrite at random first.", key="share"),
)
NAMES = {option.name: option for option in OPTIONS}


def policy_meanings() -> dict[str, str]:
    """What each write buffer does, by name, and none."""
    known = {each["name"]: each["about"] for each in _core.policies()}
    for name, fixed in VARIANTS.items():
        words = ", ".join(option.replace("_", " ") for option in fixed if option != "policy")
        known[name] = f"{fixed['policy']} with {words}"
    return known


def known(name: str) -> Option:
    """The option called `name`; UsageError with the nearest names otherwise."""
    if name in NAMES:
        return NAMES[name]
    hint = suggestion(name, NAMES, f"expected one of {', '.join(NAMES)}")
    raise UsageError(f"no option of a simulation is called '{name}'; {hint}")


def setup(options: Mapping[str, Any]) -> dict[str, Any]:
    """The core's description of drive, buffer, feeding and preconditioning. Raises UsageError."""
    values = {name: read(known(name), value) for name, value in expanded(options).items()}
    groups: dict[str, Any] = {DRIVE: {}, CONTROLLER: {}, BUFFER: {}, FEED: {}}
    for option in OPTIONS:
        if option.group == PRECONDITION:
            continue
        value = values[option.name] if option.name in values else read(option, option.default)
        groups[option.group].update(value if isinstance(value, dict) else {option.key: value})
    groups[DRIVE][CONTROLLER] = groups.pop(CONTROLLER)
    page_bytes = groups[DRIVE]["page_bytes"]
    groups[BUFFER]["pages"] = int(groups[BUFFER]["pages"] // page_bytes) if page_bytes else 0
    if groups[BUFFER]["policy"] == NONE:
        del groups[BUFFER]
    if share := values.get("precondition"):
        groups[PRECONDITION] = {"share": share}
    return groups


def expanded(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with those that the name of the policy fixes; UsageError for one that contradicts them."""
    variant = VARIANTS.get(str(options.get("policy")), {})
    for name in variant.keys() & options.keys() - {"policy"}:
        if read(known(name), options[name]) != variant[name]:
            raise UsageError(
                f"{name} is {options[name]!r}, and '{options['policy']}' fixes it to {variant[name]!r}; "
                f"expected policy = '{variant['policy']}'"
            )
    return {**options, **variant}


def read(option: Option, value: Any) -> Any:
    """What the core takes for it: a dictionary where that is more than one thing, or nothing; of an option of the
    controller its numbers, of which a flag has 0 or 1, and a choice its place. Raises UsageError."""
    found = _plain(option, value)
    if option.group != CONTROLLER or option.kind == NUMBERS:
        return found
    return [float(option.choices.index(found) if option.kind == CHOICE else found)]


def _plain(option: Option, value: Any) -> Any:
    kind = option.kind
    if kind in (AUTO_SHARE, AUTO_COUNT) and value in (AUTO, None):
        return {}
    if kind == WINDOW and value in (NONE, None, 0):
        return 0
    if kind == POLICY and not isinstance(value, str):
        raise UsageError(f"policy is {value!r}, expected the name of one; several are runs of sweep(trace, runs)")
    if kind == POLICY and value not in (known := policy_meanings()):
        raise UsageError(f"no policy is called '{value}'; {suggestion(str(value), known)}")
    if kind == CHOICE and value not in option.choices:
        raise _wrong(option, value, " or ".join(option.choices))
    if kind == NUMBERS:
        if isinstance(value, str):
            value = [] if value == NONE else value.split("/")
        return [_number(option, part) for part in (value if isinstance(value, list | tuple) else [value])]
    return _READERS[kind](option, value) if kind in _READERS else value


def _wrong(option: Option, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{option.name} is '{value}', expected {wanted}{nearest(value, option.choices)}")


def _size(option: Option, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(option, value, "a size such as 8MiB")
    try:
        return units.parse_size(value)
    except ValueError as error:
        raise UsageError(f"{option.name}: {error}") from None


def _whole(option: Option, value: Any) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _wrong(option, value, "a whole number" + (" or none" if option.kind == WINDOW else ""))
    return value


def _number(option: Option, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError):
        raise _wrong(option, value, "a number") from None


def _flag(option: Option, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "yes", "on", 1):
        return True
    if value in ("false", "no", "off", 0):
        return False
    raise _wrong(option, value, "true or false")


_READERS: Mapping[str, Callable[[Option, Any], Any]] = {
    SIZE: _size,
    FLAG: _flag,
    FEEDING: lambda option, value: feeding(value),
    **dict.fromkeys((COUNT, AUTO_COUNT, WINDOW), _whole),
    **dict.fromkeys((NUMBER, SHARE, AUTO_SHARE), _number),
}
"""Kind of an option -> what reads a value of it."""


def feeding(text: Any) -> dict[str, Any]:
    """`open`, `scaled:0.5`, `closed:32` or `batch:48@5ms` as the core takes it. Raises UsageError."""
    name, _, rest = str(text).partition(":")
    if name == "open" and not rest:
        return {"feeding": "open"}
    if name == "scaled":
        with suppress(ValueError):
            if 0 < (factor := float(rest)) < float("inf"):
                return {"feeding": "scaled", "factor": factor}
    if name == "closed" and rest.isdecimal() and int(rest) > 0:
        return {"feeding": "closed", "outstanding": int(rest)}
    if name == "batch" and (match := re.fullmatch(r"([1-9]\d*)@(.+)", rest)):
        try:
            gap_s = units.parse_duration_s(match[2])
        except ValueError as error:
            raise UsageError(f"feed: {error}") from None
        return {"feeding": "batches", "size": int(match[1]), "gap_us": gap_s * 1e6}
    wanted = "expected open, scaled:FACTOR, closed:OUTSTANDING or batch:SIZE@GAP (batch:48@5ms)"
    raise UsageError(f"feed is '{text}', {wanted}{nearest(name, ('open', 'scaled', 'closed', 'batch'))}")
