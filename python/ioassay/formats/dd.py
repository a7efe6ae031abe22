"""What dd claims: GNU's, busybox's and BSD's summaries, in any language, as a read and a write.

The summary goes to standard error. It counts blocks and bytes of both sides in one interval, from before the first
read to after both files are closed, so conv=fsync and conv=fdatasync are inside (coreutils dd.c, main and finish_up).
The read that finds the end of the file is no block.
Sides that are no files (/dev/zero, pipes) claim nothing. Without its arguments the sides are not known.

SIGUSR1 makes dd print summaries while it runs. In a script these look like those of several runs: a summary that the
next one may include is marked 'interim', and the verdict decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

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
_REPEATS = re.compile(r"\b(for|while|until|xargs|parallel|watch|find|eval)\b|\(\)")
"""What makes a shell run a command more than once."""
_UNORDERED = re.compile(r"[|&]|\b(if|case)\s|\(\)")
"""Where commands run side by side, or not at all, summaries need not stand in the order of the commands."""
_EXPANDED = re.compile(r"[$`*?\[~\\{]")
"""What a shell replaces in a word."""
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


def read(text: str, argv: Sequence[str] = ()) -> list[Claim]:
    """The claims of each summary; of one dd that runs once, those of its last.

    None where all are silent. InputError when there should be a summary and is none.
    """
    words = [call for call in command_line.plain(argv) if matches(command_line.program(call))]
    script = " ".join(argv) if command_line.scripted(argv) else ""
    calls = [_operands(call) for call in words if not _is_silent(call, script)]
    blocks = list(_blocks(text))
    if not blocks:
        if words and not calls:
            return []
        raise InputError(
            "dd printed no summary ('1+0 records in'): it failed, was killed, or its standard error went elsewhere"
        )
    interim = [_includes(later, block) for block, later in pairwise(blocks)] + [False]
    if len(calls) == 1 and (not script or (all(interim[:-1]) and not _REPEATS.search(script))):
        blocks, interim = blocks[-1:], [False]
    sides: Sequence[Mapping[str, str] | None] = calls * len(blocks) if len(calls) == 1 else calls
    if len(sides) != len(blocks):
        sides = [None] * len(blocks)
    unordered = len(calls) > 1 and _UNORDERED.search(script.replace("2>&1", "")) is not None
    return [
        replace(
            claim,
            paths_stated=bool(claim.paths) and not unordered and not (script and _EXPANDED.search(claim.paths[0])),
            doubts=(
                *claim.doubts,
                *(("sides-unknown",) if unordered and call is not None else ()),
                *(("interim",) if maybe_interim else ()),
            ),
        )
        for block, call, maybe_interim in zip(blocks, sides, interim, strict=True)
        for claim in _claims(block, call)
    ]


def _is_silent(call: Sequence[str], script: str) -> bool:
    """Whether its summary goes elsewhere: of `2>/dev/null`, the bare 2 is what is left among the words of a script."""
    return "status=none" in call or ("2" in call[1:] and "2>&1" not in script)


def _includes(later: _Block, block: _Block) -> bool:
    """Whether a later summary may be one of the same run."""
    grown = all(
        now >= then for now, then in zip((*later.read, *later.written), (*block.read, *block.written), strict=True)
    )
    return (
        grown and (later.total_bytes or 0) >= (block.total_bytes or 0) and (later.seconds or 0) >= (block.seconds or 0)
    )


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


def _claims(block: _Block, call: Mapping[str, str] | None) -> list[Claim]:
    if call is None:
        return [_claim(kind, block, {}, ("sides-unknown",)) for kind in ("read", "write")]
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
