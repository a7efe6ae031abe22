"""What dd claims: GNU's, busybox's and BSD's summaries, in any language, as a read and a write.

The summary goes to standard error. It counts blocks and bytes of both sides in one interval, from before the first
read to after both files are closed, so conv=fsync and conv=fdatasync are inside (coreutils dd.c, main and finish_up).
The read that finds the end of the file is no block.
Sides that are no files (/dev/zero, pipes) claim nothing. Without its arguments the sides are not known, nor where a
shell has redirected both. SIGUSR1 makes dd print summaries while it runs; the last one includes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from operator import ge
from typing import Any

from ioassay.formats.number_parsing import decimal, lines_with, next_lines, parts_from, real, step_of, whole_number
from ioassay.formats.redundancy import quotient
from ioassay.formats.text_rules import Tool
from ioassay.records.record import Claim, Misfit

_RECORDS = re.compile(r"[^\d+]{0,60}(\d{1,19})\+(\d{1,19})(?![\d+])[^\d+]{0,60}")
_PAIR = re.compile(r"[0-9]\+[0-9]")
_COMMA = r"[,，、]\s*"
_SUMMARY = re.compile(
    rf"(\d{{1,19}})\D.*?{_COMMA}([\d.,]+(?:e[-+]?\d+)?)\s*[^\d\s,，、]{{1,12}}{_COMMA}"
    r"(?:([\d.,]+)( ?)([kKMGTPEZYRQ]?)i?B|\D+)/\S{1,4}"
)
_BSD_SUMMARY = re.compile(r"(\d{1,19}) bytes transferred in ([\d.,]+) secs? \((\d{1,19}) bytes/sec\)")
_LONGEST_SUMMARY = 300

_UNITS = "kmgtpe"
_NO_FILES = re.compile(r"/dev/(zero|null|full|u?random|tty|std(in|out|err)|fd/.*)|/proc/self/fd/.*|-")
_CHANGES_LENGTH = {"sync", "block", "unblock"}
_DEFAULT_BLOCK_BYTES = 512


@dataclass(frozen=True)
class _Block:
    """One summary: full and partial blocks of each side, and what the line below says."""

    read: tuple[int, int]
    written: tuple[int, int]
    total_bytes: int | None = None
    seconds: float | None = None
    rate: float | None = None
    rate_step: float = 1.0
    clock_step_s: float = 0.0
    misfits: Sequence[Misfit] = ()


def _places(text: str) -> Iterator[tuple[int, list[str]]]:
    """Two lines of blocks in a row and up to three after them, before the next such lines, with their place."""
    last = -1
    for end, line in lines_with(text, _PAIR):
        if end > last and _RECORDS.fullmatch(line.strip()):
            following = next_lines(text, end, 4)
            if following and _RECORDS.fullmatch(following[0]):
                last = text.find(following[0], end) + len(following[0])
                rest = takewhile(lambda each: not _RECORDS.fullmatch(each), following[1:])
                yield end - len(line), [line.strip(), following[0], *rest]


def _blocks(text: str) -> Iterator[_Block]:
    """The summaries: the line of bytes is one of the two lines after the blocks, if it is there."""
    for _, (first, second, *lines) in _places(text):
        matches = (_RECORDS.fullmatch(line) for line in (first, second))
        read, written = [
            (whole_number(match[1], "records"), whole_number(match[2], "records")) for match in matches if match
        ]
        amounts = (_amounts(line[:_LONGEST_SUMMARY]) for line in lines)
        yield _Block(read, written, **next(filter(None, amounts), {}))


def _amounts(line: str) -> dict[str, Any]:
    """What a line of bytes says; nothing of another line.

    Busybox sets no space before its units, which are powers of 1024; GNU's are powers of 1000.
    """
    if match := _BSD_SUMMARY.fullmatch(line):
        rate = float(whole_number(match[3], "rate"))
        return {"total_bytes": whole_number(match[1], "bytes"), "seconds": decimal(match[2], "seconds"), "rate": rate}
    match = _SUMMARY.fullmatch(line)
    if match is None:
        return {}
    base, clock_step_s = (1000, 1e-9) if match[4] else (1024, 1e-6)
    rated: dict[str, Any] = {}
    seconds, total = real(match[2].replace(",", "."), "dd's time"), whole_number(match[1], "dd's bytes")
    if match[3]:  # else 'Infinity B/s'
        factor = float(base ** (1 + _UNITS.index(match[5].lower()))) if match[5].lower() in _UNITS and match[5] else 1.0
        rate, step = decimal(match[3], "dd's rate") * factor, step_of(match[3]) * factor
        digits, _, power = match[2].partition("e")
        digit_s = step_of(digits) * 10.0 ** int(power or 0)
        misfits = tuple(quotient("rate", total, seconds, rate, 0.0, digit_s, step)) if rate else ()
        rated = {"rate": rate, "rate_step": step, "misfits": misfits}
    return {"total_bytes": total, "seconds": seconds, "clock_step_s": clock_step_s, **rated}


def _is_summary(text: str) -> bool:
    """Whether it has blocks in and out, and the line of bytes or English words."""
    return any(
        "records in" in text or any(_SUMMARY.fullmatch(line) or _BSD_SUMMARY.fullmatch(line) for line in lines[2:])
        for _, lines in _places(text)
    )


def _prints(words: Sequence[str]) -> bool:
    """Whether a dd with these arguments prints a summary."""
    return "status=none" not in words and not {"--help", "--version"} & set(words)


def _without_interim(parts: Sequence[str]) -> list[str]:
    """Of parts for more summaries than runs those that the next one does not include."""
    blocks = [next(_blocks(part)) for part in parts]
    amounts = [(*block.read, *block.written, block.total_bytes or 0, block.seconds or 0) for block in blocks]
    followed = [all(map(ge, later, one)) for one, later in pairwise(amounts)]
    return [part for part, included in zip(parts, [*followed, False], strict=False) if not included]


def _claims(text: str, words: Sequence[str]) -> Iterator[Claim]:
    """Those of the last summary of a run; of each where its arguments are not known."""
    blocks = list(_blocks(text))
    call = {name: value for name, sign, value in (word.partition("=") for word in words[1:]) if sign}
    sparse = ("sparse",) if "sparse" in call.get("conv", "").split(",") else ()
    for block in blocks[-1:] if words else blocks:
        if not {"if", "of"} & call.keys():
            yield from (_claim(kind, block, call, ("sides-unknown",)) for kind in ("read", "write"))
            continue
        for kind, side, doubts in (("read", "if", ()), ("write", "of", sparse)):
            if side in call and not _NO_FILES.fullmatch(call[side]):
                yield _claim(kind, block, call, doubts)


def _claim(kind: str, block: _Block, call: Mapping[str, str], doubts: Sequence[str]) -> Claim:
    reads = kind == "read"
    side, size, flags = ("if", "ibs", "iflag") if reads else ("of", "obs", "oflag")
    converts = set(call.get("conv", "").split(","))
    synced = not reads and bool(converts & {"fsync", "fdatasync"})
    full, partial = block.read if reads else block.written
    record_bytes = _size(call.get("bs", call.get(size, ""))) if call else None
    moved = block.total_bytes if not reads or not converts & _CHANGES_LENGTH else None
    if record_bytes and not partial and (reads or moved is None):
        moved = full * record_bytes
    return Claim(
        source="dd",
        kind=kind,
        operations=full + partial,
        bytes=moved,
        seconds=block.seconds,
        rate_bytes_per_s=block.rate if moved in (None, block.total_bytes) else None,  # it is that of the bytes printed
        rate_unit_bytes=block.rate_step,
        clock_step_s=block.clock_step_s,
        syncs=int(synced) if call and not reads else None,
        engine="sync",
        direct="direct" in call.get(flags, "").split(",") if call else None,
        paths=(call[side],) if side in call else (),
        paths_stated=side in call,
        record_bytes=record_bytes,
        includes=(
            *(("fsync",) if converts & {"fsync", "fdatasync"} else ()),
            *(("osync",) if not reads and {"sync", "dsync"} & set(call.get(flags, "").split(",")) else ()),
            "close",
        ),
        unreported=("end-of-file",) if reads and "count" not in call else (),
        doubts=tuple(doubts),
        misfits=block.misfits,
    )


def _size(text: str) -> int | None:
    """A size in dd's own units: c, w, b (512), kB (1000), K and KiB (1024), factors with x; None for another."""
    if not text:
        return _DEFAULT_BLOCK_BYTES
    product = 1
    for factor in text.split("x"):
        match = re.fullmatch(r"(\d{1,15})(c|w|b|([kKMGTPE])(i?B)?)?", factor)
        if match is None:
            return None
        unit = {"c": 1, "w": 2, "b": 512, None: 1}.get(match[2])
        if unit is None:
            unit = (1000 if match[4] == "B" else 1024) ** (1 + _UNITS.index(match[3].lower()))
        product *= int(match[1]) * unit
    return product


CLAIMS = Tool(
    "dd",
    *("dd", "gdd"),  # gdd is GNU's on other systems
    sign=_is_summary,
    claims=_claims,
    missing="dd printed no summary ('1+0 records in'): it failed, was killed, or its standard error went elsewhere",
    silent=lambda text, words: (bool(words) and not _prints(words)) or any(_places(text)),
    stream="stderr",
    prints=_prints,
    split=lambda text: parts_from(text, [start for start, _ in _places(text)]),
    without_interim=_without_interim,
)
