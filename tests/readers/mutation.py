"""Damaged copies of golden files, and a reader's answers to them: what `tests/readers` is built on.

A copy is drawn from the seed and the copy's number alone, so each one can be made again. There are 70 of each
reader's files, with IOASSAY_THOROUGH=1 2 000 (the same and more), with IOASSAY_EXPLORE=1 20 000 others, with
IOASSAY_FUZZ_SECONDS=600 as many others as ten minutes allow; IOASSAY_SEED names the seed, as the report of a failure
says. Half of the copies of a structured text (JSON, lines of JSON) are
damaged as trees: values of other types, numbers that no tool measures, keys that are missing or doubled, nesting. All
others, and the copies of every other format, are damaged as text or bytes: fields, lines, encodings, bytes, two files
spliced. Nothing here knows a reader."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import resource
import signal
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from operator import eq
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ioassay.errors import UsageError

from ..corpora import CORPUS

FUZZ_S = float(os.environ.get("IOASSAY_FUZZ_SECONDS") or 0)
EXPLORES = bool(os.environ.get("IOASSAY_EXPLORE") or FUZZ_S)
SEED = int(os.environ.get("IOASSAY_SEED") or (random.SystemRandom().randrange(2**32) if EXPLORES else 11))
COPIES = 20_000 if EXPLORES else 2_000 if os.environ.get("IOASSAY_THOROUGH") else 70

MOST_CPU_S = 5.0
"""Processor time of one copy. Golden files are small: reading one takes a thousandth of this."""
MOST_GROWTH_KIB = 512 * 1024
"""What the process may grow by over one copy."""
LONGEST_MESSAGE = 2_500
_SHOWN = 2_000


class Raw(str):
    """A piece of JSON that stands in the document as it is."""


class Hang(BaseException):
    """A copy took longer than `MOST_CPU_S`. No reader may catch it."""


PIECES = tomllib.loads((CORPUS / "readers" / "pieces.toml").read_text())["damage"]
NUMBERS = (*PIECES["numbers"], "9" * 400, "9" * 5000, "0" * 300 + "1")
_DEEP = (opening * depth + closing * depth for opening, closing in ("[]", ('{"a":', "}")) for depth in (60, 5_000))
VALUES = (*NUMBERS, *PIECES["values"], '"' + "l" * 70_000 + '"', *_DEEP)
WORDS = (*NUMBERS, *PIECES["words"], "\ud800", "w" * 70_000)


def copies(goldens: Sequence[bytes], name: str, *, tree: str = "", count: int = COPIES) -> Iterator[tuple[str, bytes]]:
    """Damaged copies, each with its label. `tree` is 'json' or 'jsonl' where the format is structured so."""
    until_s = time.monotonic() + FUZZ_S
    for number in itertools.count() if FUZZ_S else range(count):
        if FUZZ_S and time.monotonic() > until_s:
            return
        label = f"{SEED}/{name}/{number}"
        yield label, _copy(goldens, random.Random(label), tree)


def _copy(goldens: Sequence[bytes], dice: random.Random, tree: str) -> bytes:
    # Damage to small files is the same damage, and cheaper: large ones are drawn less often.
    (golden,) = dice.choices(goldens, [1 / (len(each) + 500) for each in goldens])
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if tree and dice.random() < 0.6:
            golden = _in_tree(golden, dice, tree)
        elif dice.random() < 0.6:
            golden = _in_text(golden, dice)
        else:
            golden = _in_bytes(golden, goldens, dice)
    return golden


# Trees


def _in_tree(golden: bytes, dice: random.Random, tree: str) -> bytes:
    """A JSON document with one value damaged; of lines of JSON one line. What is no JSON any more stays as it is."""
    lines = golden.split(b"\n") if tree == "jsonl" else [golden]
    place = dice.randrange(len(lines))
    try:
        document = json.loads(lines[place], object_pairs_hook=lambda pairs: _Object(pairs))
        lines[place] = _written(_damaged(document, dice)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # Python 3.13 reads deeper nests than it can walk
        return golden
    return b"\n".join(lines)


class _Object(list[Any]):
    """An object as its pairs, so that a key may stand twice."""


def _damaged(document: Any, dice: random.Random) -> Any:
    places = list(_places(document))
    if not places:
        return Raw(dice.choice(VALUES))
    parent, at = dice.choice(places)
    is_pair = isinstance(parent, _Object)
    kind = dice.randrange(7)
    if kind == 0:
        del parent[at]
    elif kind == 1:
        parent.insert(at, parent[at])
    elif kind == 2 and is_pair:
        parent.insert(at, (parent[at][0], Raw(dice.choice(VALUES))))
    elif kind == 3 and is_pair:
        parent[at] = (dice.choice(("", "x", "é", "\0", "read", "-1", "1e999", "k" * 5000)), parent[at][1])
    elif kind == 4:
        other, there = dice.choice(places)
        value = other[there][1] if isinstance(other, _Object) else other[there]
        parent[at] = (parent[at][0], value) if is_pair else value
    else:
        value = Raw(dice.choice(VALUES))
        parent[at] = (parent[at][0], value) if is_pair else value
    return document


def _places(node: Any) -> Iterator[tuple[list[Any], int]]:
    if isinstance(node, list):
        for at, item in enumerate(node):
            yield node, at
            yield from _places(item[1] if isinstance(node, _Object) else item)


def _written(node: Any, depth: int = 0) -> str:
    """As `json.dumps` with an indent of two, which is how most of the golden files are laid out."""
    if isinstance(node, Raw):
        return str(node)
    if isinstance(node, list) and depth < 200:
        pad, end = "\n" + "  " * (depth + 1), "\n" + "  " * depth
        is_object = isinstance(node, _Object)
        items = [
            f"{json.dumps(item[0])} : {_written(item[1], depth + 1)}" if is_object else _written(item, depth + 1)
            for item in node
        ]
        first, last = "{}" if is_object else "[]"
        return f"{first}{pad}{f',{pad}'.join(items)}{end}{last}" if items else first + last
    return json.dumps(node) if not isinstance(node, list) else "0"


# Text and bytes

_FIELD = re.compile(rb"-?[0-9][0-9.]*|[A-Za-z_][\w./-]*")


def _in_text(golden: bytes, dice: random.Random) -> bytes:
    kind = dice.randrange(14)
    if kind < 6:
        return _with_field(golden, dice)
    if kind == 12:
        return golden.replace(b"\n", dice.choice((b"\r\n", b"\r", b"\x0b", b"\x0c", b"\xe2\x80\xa8", b"")))
    if kind == 13:
        return _encoded(golden, dice)
    lines = golden.split(b"\n")
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    fields = re.split(rb"([;,\s])", lines[at])
    if kind == 6:
        del lines[at]
    elif kind == 7:
        lines.insert(at, lines[at])
    elif kind == 8:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 9:
        lines[at] = dice.choice((b"", b" ", b"\0", b"#", b"[", b"{", b"---", b"=", b"x" * 200_000, b";" * 9_000))
    elif kind == 10:
        del fields[dice.randrange(len(fields))]
        lines[at] = b"".join(fields)
    else:
        lines[at] = b"".join(fields * 2)
    return b"\n".join(lines)


def _with_field(golden: bytes, dice: random.Random) -> bytes:
    """One number or word replaced."""
    fields = list(_FIELD.finditer(golden))
    if not fields:
        return dice.choice(WORDS).encode("utf-8", "surrogatepass")
    numbers = [field for field in fields if field[0][-1:].isdigit()]
    field = dice.choice(numbers if numbers and dice.random() < 0.7 else fields)
    word = dice.choice(WORDS).encode("utf-8", "surrogatepass")
    return golden[: field.start()] + word + golden[field.end() :]


def _encoded(golden: bytes, dice: random.Random) -> bytes:
    text = golden.decode("utf-8", "replace")
    encoding = dice.choice(("", "utf-16", "utf-16-be", "utf-32", "latin-1", "wide blanks"))
    if encoding == "wide blanks":
        return golden.replace(b" ", b"\xc2\xa0")
    ending = b"\xe9\xff" if encoding == "latin-1" else b""
    return text.encode(encoding, "replace") + ending if encoding else b"\xef\xbb\xbf" + golden


def _in_bytes(golden: bytes, goldens: Sequence[bytes], dice: random.Random) -> bytes:
    if not golden:
        return dice.randbytes(dice.choice((1, 2, 40)))
    start = dice.randrange(len(golden))
    end = min(len(golden), start + dice.choice((1, 1, 2, 8, 100, 5_000)))
    before, after = golden[:start], golden[end:]
    other = dice.choice(goldens) or b"\n"
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: before + bytes([golden[start] ^ 1 << dice.randrange(8)]) + golden[start + 1 :],
        lambda: before + dice.randbytes(dice.choice((1, 2, 4, 300))) + golden[start:],
        lambda: before + after,
        lambda: golden[:end] + golden[start:],
        lambda: before,
        lambda: before + other[dice.randrange(len(other)) :],
        lambda: before + b"\0" * (end - start) + after,
        lambda: dice.choice((b"", b"\n", b" ", golden * 2, golden[start:], b"\xff" * 40)),
    )
    return dice.choice(kinds)()


# Readers


def withstands(
    read: Callable[[bytes], object],
    goldens: Sequence[bytes],
    name: str,
    *,
    names: str = "",
    tree: str = "",
    count: int = COPIES,
    refuses: bool = True,
) -> None:
    """Fails unless `read` takes each damaged copy, or refuses it in a sentence that has `names` in it.

    A refusal is a UsageError (exit status 2). Anything else is a failure, as are more than `MOST_CPU_S` of processor
    time and `MOST_GROWTH_KIB` of memory. All kinds of failures are reported, each by its first copy. A reader that
    never `refuses` answers with a value of its own, which `read` looks at.
    """
    assert any(_takes(read, golden) for golden in goldens), f"no golden file of {name} is read"
    failures: dict[str, str] = {}
    refused = tried = 0
    for label, copy in copies(goldens, name, tree=tree, count=count):
        tried += 1
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            with cpu_limit():
                read(copy)
        except UsageError as error:
            refused += 1
            problem = _unclear(str(error), names) if refuses else "a refusal, where none is expected"
            if problem:
                failures.setdefault(problem, _report(label, copy, goldens, f"{problem}: {error}"))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # PanicException of the core is none of Exception
            failures.setdefault(_kind(error), _report(label, copy, goldens, "".join(traceback.format_exception(error))))
        growth_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
        if growth_kib > MOST_GROWTH_KIB:
            failures.setdefault("memory", _report(label, copy, goldens, f"the process grew by {growth_kib} KiB"))
    if FUZZ_S:
        print(f"{name}: {tried:,} copies of seed {SEED}, {refused:,} refused")
    if failures:
        head = f"{name}: {len(failures)} kinds of failures; run them again with IOASSAY_SEED={SEED}"
        pytest.fail("\n\n".join([head, *failures.values()]), pytrace=False)
    is_full = bool(FUZZ_S) or count >= COPIES  # a handful may all be read, by the luck of what this machine's files say
    assert refused or not refuses or not is_full, f"no copy of {name} was refused: the damage tries nothing"


def _takes(read: Callable[[bytes], object], golden: bytes) -> bool:
    try:
        read(golden)
    except UsageError:
        return False
    return True


@contextmanager
def cpu_limit(seconds: float = MOST_CPU_S) -> Iterator[None]:
    """Hang when the code within takes more processor time, however busy the machine is."""

    def hang(number: int, frame: FrameType | None) -> None:
        raise Hang(f"took more than {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, hang)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _unclear(message: str, names: str) -> str:
    """What a message lacks."""
    if names not in message:
        return f"a message without '{names}'"
    if len(message) > LONGEST_MESSAGE:
        return f"a message of more than {LONGEST_MESSAGE} characters"
    if "\n" in message or not message.isprintable():
        return "a message of several lines, or of control characters"
    return ""


def _kind(error: BaseException) -> str:
    """Failures with the same exception at the same line are one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/ioassay/" in frame.filename] or frames
    return f"{type(error).__name__} at {Path(own[-1].filename).name}:{own[-1].lineno}"


def _report(label: str, copy: bytes, goldens: Sequence[bytes], what: str) -> str:
    """The failure, and the copy from shortly before it leaves its golden file."""
    same = max(sum(1 for _ in takewhile(bool, map(eq, copy, golden))) for golden in goldens)
    start = max(0, same - _SHOWN // 4)
    shown = what if len(what) <= _SHOWN else f"{what[: _SHOWN // 4]} … {what[-_SHOWN:]}"
    return f"copy {label}: {shown}\nbytes from {start} of {len(copy)}: {copy[start : start + _SHOWN]!r}"
