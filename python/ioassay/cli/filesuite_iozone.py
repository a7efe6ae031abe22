"""Every option of IOzone 3.489, what it means, and what `ioassay filesuite` makes of it: built, always so, or refused.

The table of docs/filesuite.md is made of this list. A refused option ends with a usage error that says what to use
instead. `Command` reads IOzone's command lines: -+d, and -F with several names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ioassay.cli import syntax
from ioassay.errors import UsageError

BUILT, ALWAYS, REFUSED = "built", "always so", "refused"


@dataclass(frozen=True)
class IozoneOption:
    """One option as IOzone spells it."""

    name: str
    meaning: str
    treatment: str
    here: str
    """What ioassay does, or what to use instead."""


def _built(name: str, meaning: str, here: str = "the same") -> IozoneOption:
    return IozoneOption(name, meaning, BUILT, here)


def _always(name: str, meaning: str, here: str) -> IozoneOption:
    return IozoneOption(name, meaning, ALWAYS, here)


def _refused(name: str, meaning: str, here: str) -> IozoneOption:
    return IozoneOption(name, meaning, REFUSED, here)


_QUEUES = (
    "the driver fio with ioengine=io_uring or libaio and an iodepth: the C library's POSIX AIO serves the requests "
)
_QUEUES += "of a file one by one, so that a depth never reaches the disk"
_THINK = "the driver fio with thinktime"
_DEDUPE = "the driver fio with dedupe_percentage and buffer_compress_percentage"
_LOCKS = "the driver stress_ng with the stressor lockf, which measures locks"
_HOSTS = "a run on each host, and ioassay compare"

OPTIONS = (
    _built("-a", "automatic matrix of sizes"),
    _refused("-A", "automatic matrix, dense (deprecated)", "-a -z"),
    _built("-b", "workbook of the matrices in a file", "the same (BIFF2, as IOzone's); an existing file is refused"),
    _built("-B", "files are mapped into memory", "the same; tests 9 to 12 too; 6 and 7 stay with the C library"),
    _built("-c", "close is in the interval"),
    _built("-C", "bytes moved by each child", "the same for each thread"),
    _refused("-d", "microseconds between the releases of children", "the driver fio with startdelay"),
    _built("-D", "msync(MS_ASYNC) after each record", "the same; only with -B"),
    _built("-e", "fsync and fflush are in the interval"),
    _always("-E", "extension tests", "tests 9 to 12 are there; -i names them"),
    _built("-f", "the test file", "the same; an existing file is refused"),
    _built("-F", "names of the children's files", "the same; one for each thread of the largest number"),
    _built("-g", "largest file of -a"),
    _built("-G", "msync(MS_SYNC) after each record", "the same; only with -B"),
    _built("-h", "help"),
    _refused("-H", "POSIX AIO with a depth", _QUEUES),
    _built("-i", "test to run"),
    _built("-I", "O_DIRECT"),
    _built("-j", "stride in records"),
    _refused("-J", "milliseconds of computation before each call", _THINK),
    _refused("-k", "POSIX AIO with a depth, without copies", _QUEUES),
    _built("-K", "jitter in sequential reads", "the same: two single bytes before every 100th record"),
    _built("-l", "smallest number of children", "the same for threads"),
    _refused("-L", "size of a cache line", "nothing: buffers begin at pages"),
    _refused("-m", "several buffers", "--data random, which writes from 256 KiB of buffers"),
    _refused("-M", "uname in the output", "ioassay doctor, or the host facts of a run"),
    _built("-n", "smallest file of -a"),
    _built("-N", "microseconds an operation"),
    _built("-o", "O_SYNC for writes"),
    _built("-O", "operations a second"),
    _refused("-p", "purge of the processor's cache before each call", "nothing: the purge would be in the interval"),
    _built("-P", "first processor of the children", "the same, among the processors that the process may use"),
    _built("-q", "largest record of -a"),
    _built("-Q", "files of offsets and latencies", "the same for every test; existing files are refused"),
    _built("-r", "record size"),
    _built("-R", "matrices at the end"),
    _built("-s", "file size"),
    _refused("-S", "size of the processor's cache", "nothing: no cache is purged"),
    _built("-t", "number of children", "threads"),
    _always("-T", "children are threads", "they are"),
    _built("-u", "largest number of children", "the same for threads"),
    _built("-U", "mount point to remount", "the same, and only a filesystem of its own"),
    _refused("-v", "version", "ioassay --version"),
    _built("-V", "byte to write and check"),
    _built("-w", "the file stays", "the same; a file that is there is read, if no test writes"),
    _refused("-W", "file locks", _LOCKS),
    _always("-x", "children are not stopped when one is done", "they never are"),
    _refused("-X", "write calls from a file", "the driver fio with read_iolog"),
    _built("-y", "smallest record of -a"),
    _refused("-Y", "read calls from a file", "the driver fio with read_iolog"),
    _built("-z", "no crossover"),
    _refused("-Z", "mapping and calls mixed", "two runs, with -B and without"),
    _refused("-+a", "percentage of data that compresses", _DEDUPE),
    _refused("-+A", "madvise", "the driver fio with ioengine=mmap"),
    _refused("-+b", "bursts of writes and pauses", "the driver fio with thinktime and thinktime_blocks"),
    _refused("-+B", "sequential mix", "the driver fio with rw=rw"),
    _refused("-+C", "percentage of duplicates within a file", _DEDUPE),
    _built("-+d", "diagnosis: every byte is checked", "--data random --check whole"),
    _refused("-+D", "O_DSYNC", "-o, or the driver fio with sync=dsync"),
    _refused("-+E", "an existing file, only read", "-w, which reads an existing file where no test writes"),
    _refused("-+F", "truncation before the mix", "-i 0 -i 8: the file is written first"),
    _refused("-+h", "name of this host", _HOSTS),
    _refused("-+H", "host of the PIT server", _HOSTS),
    _refused("-+J", "computation is in the interval", _THINK),
    _refused("-+k", "constant size of all files together", "-s with the size of each thread's file"),
    _refused("-+K", "manual control of the mix", "the driver fio with rwmixread"),
    _refused("-+l", "record locks", _LOCKS),
    _refused("-+L", "record locks on a shared file", _LOCKS),
    _refused("-+m", "list of client hosts", _HOSTS),
    _refused("-+M", "duplicates and compression", _DEDUPE),
    _refused("-+n", "no second passes", "nothing: each pass is a result of its own"),
    _refused("-+N", "no truncation before the first write", "-i 9, which never truncates"),
    _refused("-+p", "percentage of reads in the mix", "the driver fio with rwmixread"),
    _refused("-+P", "service of the PIT server", _HOSTS),
    _refused("-+q", "seconds between tests", "the key run.cooldown of a study"),
    _refused("-+Q", "granule of duplicates", _DEDUPE),
    _refused("-+r", "O_RSYNC and O_SYNC", "-o: Linux treats O_RSYNC as O_SYNC, which only writes feel"),
    _refused("-+R", "file names from a file", "-F"),
    _refused("-+S", "sets of duplicates", _DEDUPE),
    _refused("-+t", "test of the network", _HOSTS),
    _refused("-+T", "time stamps", "--json, where each pass has start_ns and end_ns"),
    _refused("-+u", "processor use", "a study with the monitor cpu"),
    _refused("-+V", "a shared file", "the driver fio with one filename and numjobs"),
    _refused("-+w", "percentage of duplicates", _DEDUPE),
    _refused("-+W", "first number of the children", _DEDUPE),
    _refused("-+x", "factor between sizes", "-s and -r, each size named"),
    _refused("-+X", "no I/O at all", "the driver null, which measures the overhead"),
    _refused("-+y", "percentage of duplicates within and across files", _DEDUPE),
    _refused("-+z", "histogram of latencies", '-Q, or the driver fio with logs = ["hist"]'),
    _refused("-+Z", "the old content", "--data iozone"),
)

_DIAGNOSIS = "-+d"
_INSTEAD = {option.name: option.here for option in OPTIONS if option.treatment == REFUSED}


class Command(syntax.Command):
    """`ioassay filesuite`, which also reads what IOzone spells unlike others, and names what it refuses."""

    def _read(self, words: Sequence[str]) -> tuple[dict[str, list[Any]], bool]:
        return super()._read(_usual_words(words))

    def _option(self, name: str) -> syntax.Parameter:
        _refuse(name)
        return super()._option(name)


def _refuse(name: str) -> None:
    if instead := _INSTEAD.get(name):
        prefix, _, reason = instead.partition("nothing: ")
        advice = f"leave it out: {reason}" if not prefix and reason else f"use {instead}"
        raise UsageError(f"{name} of IOzone is not supported; {advice}")


def _usual_words(words: Sequence[str]) -> list[str]:
    """-+d as --diagnose, and each name after -F as its own."""
    usual: list[str] = []
    naming = False
    for place, word in enumerate(words):
        if word == "--":
            return [*usual, *words[place:]]
        if word.startswith("-") and len(word) > 1:
            naming = word in ("-F", "--files")
            if word.startswith("-+") and word != _DIAGNOSIS:
                _refuse(word[:3])
                raise UsageError(f"No such option: {word}")
            usual += [] if naming else ["--diagnose" if word == _DIAGNOSIS else word]
            if naming and (place + 1 == len(words) or words[place + 1].startswith("-")):
                raise UsageError(f"{word} is given without a name, wanted a file for each thread")
        else:
            usual += ["--files", word] if naming else [word]
    return usual


def table() -> str:
    """The refused options as rows of a table in Markdown, those with the same remedy together."""
    remedies: dict[str, list[str]] = {}
    for option in OPTIONS:
        if option.treatment == REFUSED:
            remedy = re.split(": |, which", option.here.removeprefix("nothing: "))[0]
            remedies.setdefault(remedy, []).append(f"`{option.name}`")
    rows = [f"| {' '.join(names)} | {remedy} |" for remedy, names in remedies.items()]
    return "\n".join(["| refused | use instead, or why |", "|---|---|", *rows])
