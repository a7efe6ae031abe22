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

from ioassay.errors import InputError
from ioassay.formats import command_line
from ioassay.formats.number_parsing import decimal, lines_with, next_lines, parts_from, real, step_of, whole_number
from ioassay.formats.redundancy import quotient
from ioassay.records.record import Claim, Misfit

NAME = "dd"
STREAM = "stderr"

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


def matches(program: str) -> bool:
    """Whether this is dd; gdd is GNU's on other systems."""
    return program in {"dd", "gdd"}


def looks_like(text: str) -> bool:
    """Whether it has a summary: blocks in and out, and the line of bytes, or English words."""
    return any(block.total_bytes is not None or "records in" in text for block in _blocks(text))


def prints(words: Sequence[str]) -> bool:
    """Whether a dd with these arguments prints a summary."""
    return "status=none" not in words and not {"--help", "--version"} & set(words)


def split(text: str) -> list[str]:
    """A part for each summary."""
    return parts_from(text, [start for start, _ in _places(text)])


def without_interim(parts: Sequence[str]) -> list[str]:
    """Of parts for more summaries than runs those that the next one does not include."""
    blocks = [next(_blocks(part)) for part in parts]
    ends = zip(parts, blocks, [*blocks, None][1:], strict=True)
    return [part for part, block, later in ends if later is None or not _includes(_amounts(later), _amounts(block))]


def _includes(later: Sequence[float], amounts: Sequence[float]) -> bool:
    return all(now >= then for now, then in zip(later, amounts, strict=True))


def _amounts(block: _Block) -> tuple[float, ...]:
    return (*block.read, *block.written, block.total_bytes or 0, block.seconds or 0)


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of the last summary of a run; of each where its arguments are not known.

    None where it is silent. InputError when there should be a summary and is none.
    """
    words = command_line.words_of(argv, matches)
    blocks = list(_blocks(text))
    if not blocks:
        if words and not prints(words):
            return []
        raise InputError(
            "dd printed no summary ('1+0 records in'): it failed, was killed, or its standard error went elsewhere"
        )
    call = _operands(words)
    return [claim for block in (blocks[-1:] if words else blocks) for claim in _claims(block, call)]


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


def _blocks(text: str) -> Iterator[_Block]:
    return (block for _, block in _places(text))


def _places(text: str) -> Iterator[tuple[int, _Block]]:
    """Two lines of blocks in a row, and the summary in the two lines after them, where there is one; with its start."""
    last = -1
    for end, line in lines_with(text, _PAIR):
        first = _RECORDS.fullmatch(line.strip())
        if first is None or end <= last:
            continue
        following = next_lines(text, end, 4)
        second = _RECORDS.fullmatch(following[0]) if following else None
        if second is None:
            continue
        last = text.find(following[0], end) + len(following[0])
        sides = [(whole_number(match[1], "records"), whole_number(match[2], "records")) for match in (first, second)]
        yield end - len(line), _summary(sides[0], sides[1], following[1:])


def _summary(read: tuple[int, int], written: tuple[int, int], lines: Sequence[str]) -> _Block:
    for line in lines:
        if _RECORDS.fullmatch(line):  # the next summary begins
            break
        if match := _BSD_SUMMARY.fullmatch(line[:_LONGEST_SUMMARY]):
            return _Block(
                read,
                written,
                whole_number(match[1], "bytes"),
                decimal(match[2], "seconds"),
                float(whole_number(match[3], "rate")),
            )
        if match := _SUMMARY.fullmatch(line[:_LONGEST_SUMMARY]):
            return _of_summary(read, written, match)
    return _Block(read, written)


def _of_summary(read: tuple[int, int], written: tuple[int, int], match: re.Match[str]) -> _Block:
    """Busybox sets no space before its units, which are powers of 1024; GNU's are powers of 1000."""
    base, clock_step_s = (1000, 1e-9) if match[4] else (1024, 1e-6)
    rate, step = None, 1.0
    if match[3]:  # else 'Infinity B/s'
        factor = float(base ** (1 + _UNITS.index(match[5].lower()))) if match[5].lower() in _UNITS and match[5] else 1.0
        rate, step = decimal(match[3], "dd's rate") * factor, step_of(match[3]) * factor
    seconds, total = real(match[2].replace(",", "."), "dd's time"), whole_number(match[1], "dd's bytes")
    digit_s = step_of(match[2].partition("e")[0]) * 10.0 ** int(match[2].partition("e")[2] or 0)
    misfits = quotient("rate", total, seconds, rate, 0.0, digit_s, step) if rate else []
    return _Block(read, written, total, seconds, rate, step, clock_step_s, tuple(misfits))


def _operands(call: Sequence[str]) -> dict[str, str]:
    return {name: value for name, sign, value in (word.partition("=") for word in call[1:]) if sign}


def _claims(block: _Block, call: Mapping[str, str]) -> list[Claim]:
    if not {"if", "of"} & call.keys():
        return [_claim(kind, block, call, ("sides-unknown",)) for kind in ("read", "write")]
    doubts = ("sparse",) if "sparse" in call.get("conv", "").split(",") else ()
    return [
        _claim(kind, block, call, doubts if kind == "write" else ())
        for kind, side in (("read", "if"), ("write", "of"))
        if side in call and not _NO_FILES.fullmatch(call[side])
    ]


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
        source=NAME,
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
