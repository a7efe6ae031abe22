"""Which run of a tool printed which part of an output.

A claim belongs to the process that printed it: its arguments and no words of a script say what it did. An output is
split by the tool's parser (`split`), one part a summary; parts and processes are paired in the order in which they end.
Where that is not certain, claims say so (`UNKNOWN`), and are never contradicted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath

from ioassay.records.observation import Program
from ioassay.registry import stated

UNKNOWN, _UNKNOWN_PROGRAM = "printer-unknown", Program(0, ())
_CLOSE_NS = 50_000_000
"""Processes that run side by side and end so soon after one another may have printed in either order."""


@lru_cache(1024)
def is_program_of(tool: str, program: str) -> bool:
    """Whether a program of this name is the tool: by the pattern that its pack says, else of the tool's own name."""
    return re.fullmatch(stated("programs").get(tool, re.escape(tool)), program) is not None


@dataclass(frozen=True)
class Part:
    """A part of the output, and the process that printed it with its arguments, as far as they are known."""

    text: str
    words: Sequence[str]
    sure: bool = True
    program: Program = _UNKNOWN_PROGRAM


def pair(parts: Mapping[str, Sequence[str]], found: Sequence[Program], stream: int) -> list[Part] | None:
    """Each part with its process: `parts` are those of each output, by its identity. None where that is open.

    Of one process the last part has all before it. Of several only those are sure that printed to the output itself:
    what went through a pipe or a file may have come in any order.
    """
    everything = [text for texts in parts.values() for text in texts]
    if len(found) == 1:
        return [Part(everything[-1], found[0].words, program=found[0])] if everything else []
    direct = {output: [one for one in found if one.outputs[stream] == output] for output in parts}
    if all(len(texts) == len(direct[output]) for output, texts in parts.items()):
        return [part for output, texts in parts.items() for part in _in_order(texts, direct[output])]
    rest = [one for one in found if one.outputs[stream] not in parts]
    for output, texts in parts.items():  # the others print to one of them by way of a pipe or a file
        if len(texts) == len(rest) and all(len(parts[each]) == len(direct[each]) for each in parts if each != output):
            own = [part for each in parts if each != output for part in _in_order(parts[each], direct[each])]
            return [*own, *_in_order(texts, rest, sure=False)] if not direct[output] else None
    return list(_in_order(everything, found, sure=False)) if len(everything) == len(found) else None


def _in_order(texts: Sequence[str], found: Sequence[Program], *, sure: bool = True) -> Iterator[Part]:
    close = {
        id(each)
        for one, other in pairwise(found)
        if one.words != other.words and other.began_ns < one.ended_ns and other.ended_ns - one.ended_ns < _CLOSE_NS
        for each in (one, other)
    }
    for text, one in zip(texts, found, strict=True):
        yield Part(text, one.words, sure and id(one) not in close, one)


def of_files(
    found: Sequence[Program], files: Mapping[str, str], outputs: Callable[[Sequence[str]], Sequence[str]]
) -> dict[int, str]:
    """The results that one run alone wrote to files of its own: its place among `found` -> their text."""
    named = [list(outputs(program.words)) for program in found]
    every = [name for names in named for name in names]
    return {
        place: "\n".join(files[name] for name in names)
        for place, names in enumerate(named)
        if names and all(name in files and every.count(name) == 1 for name in names)
    }


# Where a tool stands in a command line, behind whatever starts it. No text of a shell is read.


def program_name(argv: Sequence[str]) -> str:
    """The bare name of a command's program, of busybox that of its applet; '' for none."""
    names = [PurePath(word).name for word in argv[:2]]
    return names[1] if names[:1] == ["busybox"] and names[1:] else "".join(names[:1])


def words_of(argv: Sequence[str], matches: Callable[[str], bool]) -> Sequence[str]:
    """The tool and its arguments, from the first word on that names it; none where no word does."""
    first = next((place for place, word in enumerate(argv) if matches(PurePath(word).name)), len(argv))
    return argv[first:]
