"""The options of `ioassay filesuite` and of IOzone 3.489: what each means, and what is made of IOzone's own.

The table of docs/filesuite.md is made of `IOZONE`. A refused option ends with a usage error that says what to use
instead. `Command` reads IOzone's command lines: -+d, and -F with several names. Which options go together is the
engine's business.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from ioassay.cli import options, syntax
from ioassay.errors import UsageError

CONTENTS = ("random", "iozone", "zeros")
CHECKS = ("inside", "whole", "after", "off")
CACHES = ("leave", "drop", "drop-all", "warm")
SHUFFLES = ("3.471", "3.489")
FORMATS = ("text", "iozone")
USUAL_STRIDE = 17


class _Option(NamedTuple):
    kind: Any
    names: str
    """The last one, without its dashes, is that of the parameter."""
    help: str
    metavar: str | None = None
    default: Any = None


_HIDDEN = ""
_OPTIONS: Mapping[str, Sequence[_Option]] = {
    "What is done": (
        _Option(bool, "-a --auto", "Double sizes: files 64k to 512m, records 4k to 16m."),
        _Option(list[str], "-i --test", "Test to run, 0 to 12; may be repeated. [0-7]", "N"),
        _Option(int, "-t --threads", "Number of threads; each uses its own file.", "N", 0),
        _Option(int, "-l --min-threads", "Smallest number of threads; with -u.", "N"),
        _Option(int, "-u --max-threads", "Largest number of threads; each from -l on.", "N"),
        _Option(int, "-P --processor", "Processor of the first thread; the next follow.", "N"),
        _Option(int, "-j --stride", "Records from one to the next in test 5.", "N", USUAL_STRIDE),
        _Option(bool, "-K --jitter", "Read single bytes elsewhere in test 1."),
        _Option(bool, "-B --mmap", "Map the file into memory, except in tests 6 and 7."),
        _Option(bool, "-D --msync-async", "With -B: msync each record, no wait."),
        _Option(bool, "-G --msync-sync", "With -B: msync each record to the disk."),
        _Option(bool, "-I --direct", "Use O_DIRECT, except in tests 6 and 7."),
        _Option(bool, "-o --sync", "Write with O_SYNC, except in test 6."),
        _Option(int, "-V --fill", "Fill with this byte, and check what is read.", "N"),
        _Option(bool, "--diagnose", "As -+d of IOzone: --data random --check whole."),
    ),
    "Sizes: a plain number is kB; b, k, m, g": (
        _Option(list[str], "-s --size", "File size; may be repeated. [512k]", "SIZE"),
        _Option(list[str], "-r --record", "Record size; may be repeated. [4k]", "SIZE"),
        _Option(str, "-n --min-size", "Smallest file of -a.", "SIZE"),
        _Option(str, "-g --max-size", "Largest file of -a.", "SIZE"),
        _Option(str, "-y --min-record", "Smallest record of -a.", "SIZE"),
        _Option(str, "-q --max-record", "Largest record of -a.", "SIZE"),
        _Option(bool, "-z --no-crossover", "With -a: records below 64k for large files, too."),
    ),
    "What the clock includes": (
        _Option(bool, "-e --fsync", "Include fsync and fflush."),
        _Option(bool, "-c --close", "Include close. Without -e there is no fsync."),
    ),
    "The file": (
        _Option(Path, "-f --file", "The test file; it is created and deleted.", "FILE"),
        _Option(list[Path], "-F --files", "Files of the threads; as many names as threads.", "FILE"),
        _Option(bool, "-w --keep", "Keep the file; read one that is there."),
        _Option(bool, "--overwrite", "Replace an existing file."),
        _Option(Path, "-U --remount", "Unmount and mount this before each pass (root).", "MOUNTPOINT"),
    ),
    "What IOzone cannot do": (
        _Option(int, "--repetitions", "Number of repetitions.", "N", 1),
        _Option(str, "--cache", "State of the page cache before each read.", "|".join(CACHES), CACHES[0]),
        _Option(str, "--data", "Content of the file.", "|".join(CONTENTS), CONTENTS[0]),
        _Option(str, "--check", "When to check what was read. [inside]", "|".join(CHECKS)),
        _Option(bool, "--plain", "No priming reads, no unreported passes; check afterwards."),
        _Option(str, "--shuffle", "IOzone's version whose random order it is.", "|".join(SHUFFLES), SHUFFLES[0]),
        _Option(int, "--seed", "Seed of --data random, and of iozone's byte.", "N", 1),
        _Option(int, "--order-seed", "Seed of the random order. [IOzone's]", "N"),
    ),
    "What comes out": (
        _Option(str, "--format", "The result.", "|".join(FORMATS), FORMATS[0]),
        _Option(bool, "-R --matrices", "Print a matrix per pass at the end."),
        _Option(bool, "-O --ops", "Report operations per second, not bytes."),
        _Option(bool, "-N --us-per-op", "Report microseconds per operation."),
        _Option(bool, "-C --per-thread", "Show each thread's bytes and rate."),
        _Option(Path, "-b --workbook", "Write the matrices as a workbook.", "FILE.xls"),
        _Option(bool, "-Q --latencies", "Write the latency of each call, a file per pass."),
        _Option(bool, "--list-tests", "List the tests and exit."),
    ),
    _HIDDEN: (
        _Option(bool, "-T --posix-threads", ""),
        _Option(bool, "-x --no-stonewall", ""),
        _Option(bool, "-E --extensions", ""),
    ),
}
"""Heading of the help -> its options, in order."""


def signature() -> inspect.Signature:
    """All options as parameters of the command."""
    parameters = [_parameter(panel, each) for panel, rows in _OPTIONS.items() for each in rows]
    json = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=options.Json)
    return inspect.Signature([*parameters, json])


def _parameter(panel: str, each: _Option) -> inspect.Parameter:
    names = each.names.split()
    info = syntax.Option(*names, help=each.help, panel=panel or None, metavar=each.metavar, hidden=panel == _HIDDEN)
    return inspect.Parameter(
        names[-1].strip("-").replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=False if each.kind is bool else each.default,
        annotation=Annotated[each.kind, info],
    )


BUILT, ALWAYS, REFUSED = "built", "always so", "refused"


class IozoneOption(NamedTuple):
    """One option as IOzone spells it."""

    name: str
    treatment: str
    meaning: str
    here: str = "the same"
    """What ioassay does, or what to use instead."""


_QUEUES = (
    "the driver fio with ioengine=io_uring or libaio and an iodepth: the C library's POSIX AIO serves the requests "
    "of a file one by one, so that a depth never reaches the disk"
)
_THINK = "the driver fio with thinktime"
_DEDUPE = "the driver fio with dedupe_percentage and buffer_compress_percentage"
_LOCKS = "the driver stress_ng with the stressor lockf, which measures locks"
_HOSTS = "a run on each host, and ioassay compare"

_ROWS: Sequence[tuple[str, ...]] = (
    ("-a", BUILT, "automatic matrix of sizes"),
    ("-A", REFUSED, "automatic matrix, dense (deprecated)", "-a -z"),
    ("-b", BUILT, "workbook of the matrices in a file", "the same (BIFF2, as IOzone's); an existing file is refused"),
    ("-B", BUILT, "files are mapped into memory", "the same; tests 9 to 12 too; 6 and 7 stay with the C library"),
    ("-c", BUILT, "close is in the interval"),
    ("-C", BUILT, "bytes moved by each child", "the same for each thread"),
    ("-d", REFUSED, "microseconds between the releases of children", "the driver fio with startdelay"),
    ("-D", BUILT, "msync(MS_ASYNC) after each record", "the same; only with -B"),
    ("-e", BUILT, "fsync and fflush are in the interval"),
    ("-E", ALWAYS, "extension tests", "tests 9 to 12 are there; -i names them"),
    ("-f", BUILT, "the test file", "the same; an existing file is refused"),
    ("-F", BUILT, "names of the children's files", "the same; one for each thread of the largest number"),
    ("-g", BUILT, "largest file of -a"),
    ("-G", BUILT, "msync(MS_SYNC) after each record", "the same; only with -B"),
    ("-h", BUILT, "help"),
    ("-H", REFUSED, "POSIX AIO with a depth", _QUEUES),
    ("-i", BUILT, "test to run"),
    ("-I", BUILT, "O_DIRECT"),
    ("-j", BUILT, "stride in records"),
    ("-J", REFUSED, "milliseconds of computation before each call", _THINK),
    ("-k", REFUSED, "POSIX AIO with a depth, without copies", _QUEUES),
    ("-K", BUILT, "jitter in sequential reads", "the same: two single bytes before every 100th record"),
    ("-l", BUILT, "smallest number of children", "the same for threads"),
    ("-L", REFUSED, "size of a cache line", "nothing: buffers begin at pages"),
    ("-m", REFUSED, "several buffers", "--data random, which writes from 256 KiB of buffers"),
    ("-M", REFUSED, "uname in the output", "ioassay doctor, or the host facts of a run"),
    ("-n", BUILT, "smallest file of -a"),
    ("-N", BUILT, "microseconds an operation"),
    ("-o", BUILT, "O_SYNC for writes"),
    ("-O", BUILT, "operations a second"),
    ("-p", REFUSED, "purge of the processor's cache before each call", "nothing: the purge would be in the interval"),
    ("-P", BUILT, "first processor of the children", "the same, among the processors that the process may use"),
    ("-q", BUILT, "largest record of -a"),
    ("-Q", BUILT, "files of offsets and latencies", "the same for every test; existing files are refused"),
    ("-r", BUILT, "record size"),
    ("-R", BUILT, "matrices at the end"),
    ("-s", BUILT, "file size"),
    ("-S", REFUSED, "size of the processor's cache", "nothing: no cache is purged"),
    ("-t", BUILT, "number of children", "threads"),
    ("-T", ALWAYS, "children are threads", "they are"),
    ("-u", BUILT, "largest number of children", "the same for threads"),
    ("-U", BUILT, "mount point to remount", "the same, and only a filesystem of its own"),
    ("-v", REFUSED, "version", "ioassay --version"),
    ("-V", BUILT, "byte to write and check"),
    ("-w", BUILT, "the file stays", "the same; a file that is there is read, if no test writes"),
    ("-W", REFUSED, "file locks", _LOCKS),
    ("-x", ALWAYS, "children are not stopped when one is done", "they never are"),
    ("-X", REFUSED, "write calls from a file", "the driver fio with read_iolog"),
    ("-y", BUILT, "smallest record of -a"),
    ("-Y", REFUSED, "read calls from a file", "the driver fio with read_iolog"),
    ("-z", BUILT, "no crossover"),
    ("-Z", REFUSED, "mapping and calls mixed", "two runs, with -B and without"),
    ("-+a", REFUSED, "percentage of data that compresses", _DEDUPE),
    ("-+A", REFUSED, "madvise", "the driver fio with ioengine=mmap"),
    ("-+b", REFUSED, "bursts of writes and pauses", "the driver fio with thinktime and thinktime_blocks"),
    ("-+B", REFUSED, "sequential mix", "the driver fio with rw=rw"),
    ("-+C", REFUSED, "percentage of duplicates within a file", _DEDUPE),
    ("-+d", BUILT, "diagnosis: every byte is checked", "--data random --check whole"),
    ("-+D", REFUSED, "O_DSYNC", "-o, or the driver fio with sync=dsync"),
    ("-+E", REFUSED, "an existing file, only read", "-w, which reads an existing file where no test writes"),
    ("-+F", REFUSED, "truncation before the mix", "-i 0 -i 8: the file is written first"),
    ("-+h", REFUSED, "name of this host", _HOSTS),
    ("-+H", REFUSED, "host of the PIT server", _HOSTS),
    ("-+J", REFUSED, "computation is in the interval", _THINK),
    ("-+k", REFUSED, "constant size of all files together", "-s with the size of each thread's file"),
    ("-+K", REFUSED, "manual control of the mix", "the driver fio with rwmixread"),
    ("-+l", REFUSED, "record locks", _LOCKS),
    ("-+L", REFUSED, "record locks on a shared file", _LOCKS),
    ("-+m", REFUSED, "list of client hosts", _HOSTS),
    ("-+M", REFUSED, "duplicates and compression", _DEDUPE),
    ("-+n", REFUSED, "no second passes", "nothing: each pass is a result of its own"),
    ("-+N", REFUSED, "no truncation before the first write", "-i 9, which never truncates"),
    ("-+p", REFUSED, "percentage of reads in the mix", "the driver fio with rwmixread"),
    ("-+P", REFUSED, "service of the PIT server", _HOSTS),
    ("-+q", REFUSED, "seconds between tests", "the key run.cooldown of a study"),
    ("-+Q", REFUSED, "granule of duplicates", _DEDUPE),
    ("-+r", REFUSED, "O_RSYNC and O_SYNC", "-o: Linux treats O_RSYNC as O_SYNC, which only writes feel"),
    ("-+R", REFUSED, "file names from a file", "-F"),
    ("-+S", REFUSED, "sets of duplicates", _DEDUPE),
    ("-+t", REFUSED, "test of the network", _HOSTS),
    ("-+T", REFUSED, "time stamps", "--json, where each pass has start_ns and end_ns"),
    ("-+u", REFUSED, "processor use", "a study with the monitor cpu"),
    ("-+V", REFUSED, "a shared file", "the driver fio with one filename and numjobs"),
    ("-+w", REFUSED, "percentage of duplicates", _DEDUPE),
    ("-+W", REFUSED, "first number of the children", _DEDUPE),
    ("-+x", REFUSED, "factor between sizes", "-s and -r, each size named"),
    ("-+X", REFUSED, "no I/O at all", "the driver null, which measures the overhead"),
    ("-+y", REFUSED, "percentage of duplicates within and across files", _DEDUPE),
    ("-+z", REFUSED, "histogram of latencies", '-Q, or the driver fio with logs = ["hist"]'),
    ("-+Z", REFUSED, "the old content", "--data iozone"),
)
IOZONE = [IozoneOption(*row) for row in _ROWS]
_DIAGNOSIS = "-+d"
_INSTEAD = {option.name: option.here for option in IOZONE if option.treatment == REFUSED}


class Command(syntax.Command):
    """`ioassay filesuite`, which also reads what IOzone spells unlike others, and names what it refuses."""

    def values(self, words: Sequence[str]) -> dict[str, Any] | None:
        """See syntax.Command."""
        return super().values(_usual_words(words))

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
                raise UsageError(f"{word} is given without a name, expected a file for each thread")
        else:
            usual += ["--files", word] if naming else [word]
    return usual


def table() -> str:
    """The refused options as rows of a table in Markdown, those with the same remedy together."""
    remedies: dict[str, list[str]] = {}
    for option in IOZONE:
        if option.treatment == REFUSED:
            remedy = re.split(": |, which", option.here.removeprefix("nothing: "))[0]
            remedies.setdefault(remedy, []).append(f"`{option.name}`")
    rows = [f"| {' '.join(names)} | {remedy} |" for remedy, names in remedies.items()]
    return "\n".join(["| refused | use instead, or why |", "|---|---|", *rows])
