"""The drivers of IOzone's file tests: `filesuite`, by our own engine, and `iozone`, the real one where the user has it.

They share parameters: which file tests, on which sizes, how timed. Both get the same options on their command lines,
because filesuite's letters are IOzone's.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioassay import units, validation
from ioassay.drivers import ended_badly, flag, last_words, require_version, text_of
from ioassay.errors import InputError, StudyError, one_line
from ioassay.formats import claim_entries
from ioassay.hints import nearest, suggestion
from ioassay.packs.iozone.claims import filesuite_json, iozone_claims
from ioassay.packs.iozone.claims.filesuite_json import Document
from ioassay.records.record import FAILED, OK, Claim, Warning_
from ioassay.roles import WRITE, Command, Confinement, Driver, Estimate, Load, Outcome, Parsed, Tool, Trial

_PASSES = (
    "write rewrite",
    "read reread",
    "random random_read random_write",
    "backward backward_read",
    "record_rewrite",
    "stride stride_read",
    "fwrite frewrite",
    "fread freread",
    "mix random_mix",
    "pwrite repwrite",
    "pread repread",
    "pwritev repwritev",
    "preadv repreadv",
)
TESTS = {name: number for number, names in enumerate(_PASSES) for name in names.split()}
"""A test by the name of any of its passes."""
_STUDIED = ("write", "read", "random", "backward")
_WRITING = (0, 2, 4, 6, 9, 11)
FLAGS = {"direct": "-I", "fsync": "-e", "close": "-c", "sync": "-o"}
SHARED = ("tests", "size", "record", "auto", "min_size", "max_size", "threads", *FLAGS)
AUTO_LARGEST_BYTES = 512 << 20
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")
_ALONE_BYTES = 512 << 10
"""The file where neither sizes nor the automatic matrix are asked for."""
_SLOW_BYTES_PER_S, _USUAL_BYTES_PER_S, _CELLS_OF_AUTO = 5e6, 2e8, 126
_DATA_CELLS_OF_AUTO_BYTES = 9 * 992 * (1 << 20) + 11 * (32 << 20)
"""About what all files of the automatic matrix hold: nine records for each of 32 to 512 MiB, some eleven below."""


class FileTests(Driver):
    """What the two drivers are alike in. They always make a file, in a folder."""

    measures = True
    length_key = "size"
    own: Collection[str] = ()
    """Parameters that only this driver has."""

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        read(params, self.own)
        if target.get("kind") != "folder":
            wanted = "expected 'folder': the tests make and remove their own file"
            raise StudyError(f"is '{target.get('kind', 'nothing')}'; {wanted}", key="target.kind")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        return WRITE

    def confinement(self, params: Mapping[str, Any]) -> Confinement:
        return Confinement(host=[_DROP_CACHES] if params.get("cache") == "drop-all" else [])

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Two passes a test, at the speed of a common disk. Each worker's file is removed before the next cell."""
        wanted = read(params, self.own)
        seconds = wanted.moved_bytes / _USUAL_BYTES_PER_S + 0.3 + (0.1 * _CELLS_OF_AUTO if wanted.auto else 0.0)
        written = sum(number in _WRITING for number in wanted.tests) * wanted.data_bytes * 2
        largest = (wanted.max_size or AUTO_LARGEST_BYTES) if wanted.auto else _ALONE_BYTES
        occupied_bytes = max(wanted.sizes, default=largest) * max(wanted.threads, 1)
        return Estimate(seconds, written, occupied_bytes=occupied_bytes)

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Failed with the reason unless every pass was done whole."""
        if outcome is None:
            return Parsed(FAILED, f"{self.name} was not started")
        if reason := ended_badly(outcome, self.name, "raise run.timeout"):
            return Parsed(FAILED, reason)
        return self.read_output(outcome)

    def read_output(self, outcome: Outcome) -> Parsed:
        """What a program that ended by itself left."""
        raise NotImplementedError


@dataclass(frozen=True)
class Wanted:
    """What a point asks for; sizes in bytes."""

    tests: Sequence[int]
    sizes: Sequence[int]
    records: Sequence[int]
    auto: bool
    min_size: int | None
    max_size: int | None
    threads: int
    flags: Sequence[str]
    """Letters, with their dash."""

    def options(self) -> list[str]:
        """The command line that both programs take. Sizes are in kB, as IOzone has them."""
        words = ["-a"] if self.auto else []
        words += [word for number in self.tests for word in ("-i", str(number))]
        sizes = [("-s", size) for size in self.sizes] + [("-r", size) for size in self.records]
        sizes += [(letter, size) for letter, size in (("-n", self.min_size), ("-g", self.max_size)) if size is not None]
        return [*words, *(word for letter, size in sizes for word in (letter, f"{size // 1024}k")), *self.flags]

    @property
    def data_bytes(self) -> int:
        """What all files of one pass hold together."""
        workers = max(self.threads, 1)
        if self.sizes:
            return sum(self.sizes) * max(len(self.records), 1) * workers
        share = (self.max_size or AUTO_LARGEST_BYTES) / AUTO_LARGEST_BYTES
        return (int(_DATA_CELLS_OF_AUTO_BYTES * share) if self.auto else _ALONE_BYTES) * workers

    @property
    def moved_bytes(self) -> int:
        return self.data_bytes * 2 * len(self.tests)

    @property
    def timeout_s(self) -> float:
        """Far more than a slow disk needs."""
        return 120.0 + self.moved_bytes / _SLOW_BYTES_PER_S


def read(params: Mapping[str, Any], own: Collection[str] = ()) -> Wanted:
    """What a point asks for; StudyError names the parameter. `own` are names that the driver reads itself."""
    for name in params:
        if name not in SHARED and name not in own:
            hint = suggestion(name, [*SHARED, *own])
            raise StudyError(f"no parameter of file tests; {hint}", key=f"params.{name}")
    auto = flag(params, "auto")
    least, most = (_size(name, params[name]) if name in params else None for name in ("min_size", "max_size"))
    if (least or most) and (not auto or "size" in params):
        raise StudyError("bounds the sizes of auto = true, which are not used here", key="params.max_size")
    known = TESTS | {str(number): number for number in range(len(_PASSES))}
    tests = set()
    for part in _listed(params.get("tests", range(8) if auto else _STUDIED)):
        test = str(part).strip().replace("-", "_").replace(" ", "_")
        if test not in known:
            hint = suggestion(test, TESTS, f"known: {', '.join(TESTS)}, or 0 to {len(_PASSES) - 1}")
            raise StudyError(f"no test is called '{test}'; {hint}", key="params.tests")
        tests.add(known[test])
    if not tests:
        raise StudyError("no test is named", key="params.tests")
    sizes, records = ([_size(name, part) for part in _listed(params.get(name, []))] for name in ("size", "record"))
    if sizes and records and min(records) > max(sizes):
        raise StudyError(f"is {min(records)} bytes; expected at most the file's {max(sizes)}", key="params.record")
    threads = params.get("threads", 0)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 0:
        raise StudyError(f"expected a whole number; found {threads!r}", key="params.threads")
    flags = [letter for name, letter in FLAGS.items() if flag(params, name)]
    return Wanted(sorted(tests), sizes, records, auto, least, most, threads, flags)


def _listed(value: Any) -> Sequence[Any]:
    """A list as such, as a text with commas, or of a single value."""
    return value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple | range) else [value]


def _size(name: str, value: Any) -> int:
    try:
        size = units.parse_size(value)
    except (ValueError, TypeError) as error:
        raise StudyError(str(error), key=f"params.{name}") from None
    if size == 0 or size % 1024:
        raise StudyError(f"is {size} bytes; expected a multiple of 1024, in which IOzone counts", key=f"params.{name}")
    return size


def _metrics(moved: Iterable[tuple[str, int | None, int | None, float | None]]) -> dict[str, float]:
    """Speed and operations of each pass: all bytes and operations under its name, over all seconds."""
    sums: dict[str, tuple[int, int, float]] = {}
    for name, size, operations, took_s in moved:
        if took_s:
            bytes_, calls, seconds = sums.get(name, (0, 0, 0.0))
            sums[name] = (bytes_ + (size or 0), calls + (operations or 0), seconds + took_s)
    found: dict[str, float] = {}
    for name, (bytes_, calls, seconds) in sums.items():
        found |= {f"{name}.bw": bytes_ / seconds, f"{name}.iops": calls / seconds}
    return found


def _claimed(claims: Sequence[Claim]) -> dict[str, float]:
    return _metrics((one.test.replace("-", "_"), one.bytes, one.operations, one.seconds) for one in claims)


def _parts(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    """The same by cell, named `file/record` in bytes."""
    cells = dict.fromkeys((claim.file_bytes, claim.record_bytes) for claim in claims)
    return [
        {
            "name": f"{units.format_size(file or 0)} / {units.format_size(record or 0)}",
            "file_bytes": file,
            "record_bytes": record,
            "metrics": _claimed([one for one in claims if (one.file_bytes, one.record_bytes) == (file, record)]),
        }
        for file, record in cells
    ]


def _own_file(folder: Path | None, tool: str) -> Path:
    """The file to be made; StudyError where the target yields no folder."""
    if folder is None:
        raise StudyError("yields no path; expected kind 'folder'", key="target")
    return folder / f"{tool}.tmp"


# filesuite, in a process of its own: it has some parameters that IOzone lacks. The target is a folder, in which the
# engine creates and removes its file.

_CHOICES = {
    "cache": ("leave", "drop", "drop-all", "warm"),
    "data": ("random", "iozone", "zeros"),
    "check": ("", "inside", "whole", "after", "off"),
}
_SOURCE, _REMEDY = "filesuite's output", "see raw/stdout"


class Filesuite(FileTests):
    """Runs the native file tests. Implements `roles.Driver`."""

    name = "filesuite"
    own = (*_CHOICES, "plain")

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        _filesuite_options(params)
        return super().validate(params, target)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """`ioassay filesuite` with this interpreter. The random order is always IOzone's, the content the trial's."""
        wanted = read(trial.params, self.own)
        argv = [sys.executable, "-m", "ioassay", "filesuite", *wanted.options(), *_filesuite_options(trial.params)]
        argv += ["-t", str(wanted.threads)] if wanted.threads else []
        argv += ["--seed", str(trial.seed % 2**63), "-f", str(_own_file(load.path, self.name)), "--json"]
        return Command(argv, wanted.timeout_s)

    def read_output(self, outcome: Outcome) -> Parsed:
        """Failed with the engine's reason, or that of the first pass without a result.

        Metrics of several workers are of what all moved from the first start to the last end.
        """
        try:
            text = outcome.stdout.read_bytes()
            if "error" in (table := validation.table(text, _SOURCE, _REMEDY)):
                return Parsed(FAILED, one_line(str(table["error"])))
            document = validation.read(Document, text, _SOURCE, _REMEDY)
        except (OSError, InputError) as error:
            return Parsed(FAILED, str(error))
        claims, reason = filesuite_json.claims(document), "" if document.passes else "filesuite did no pass at all"
        if bad := next((each for each in document.passes if each.status != "ok"), None):
            cell = f"{units.format_size(bad.asked_file_bytes)} in records of {units.format_size(bad.record_bytes)}"
            reason = f"{bad.name} of {cell}: {bad.reason}"
        elif wrong := next((one for one in document.checked if one.differing_records or one.reason), None):
            differing = f"{wrong.differing_records} records of the file hold something else than was written"
            reason = wrong.reason or differing
        # Reads from memory although O_DIRECT was not asked for are true, and easily mistaken for the disk.
        reads = (one for one in document.passes if one.kind == "read" and not one.direct)
        cached = ", ".join(dict.fromkeys(one.name for one in reads if (one.resident_share or 0) > 0.5))
        what = f"{cached}: more than half of the file was in the page cache when the clock started"
        remedy = 'set cache = "drop", or direct = true, to measure the disk'
        of_groups = ((one.name, one.bytes, one.operations, (one.span_ns or 0) / 1e9) for one in document.groups)
        return Parsed(
            FAILED if reason else OK,
            reason,
            metrics=_metrics(of_groups) if document.groups else _claimed(claims),
            parts=_parts(claims),
            claims=claims,
            warnings=[Warning_("read-from-cache", what, remedy)] if cached else [],
        )


def _filesuite_options(params: Mapping[str, Any]) -> list[str]:
    options = []
    for name, known in _CHOICES.items():
        value = params.get(name, known[0])
        if value not in known:
            wanted = f"expected {', '.join(known)}; found {value!r}{nearest(value, known)}"
            raise StudyError(wanted, key=f"params.{name}")
        options += [f"--{name}", value] if value else []
    return [*options, *(["--plain"] if flag(params, "plain") else [])]


# iozone, whose licence is not free: it is not part of ioassay.

_POSITIONED = {9, 10, 11, 12}


class Iozone(FileTests):
    """Runs IOzone. Implements `roles.Driver`."""

    name = "iozone"

    def tool(self) -> Tool:
        """IOzone; Debian has it among its non-free packages."""
        return Tool("iozone", ["iozone", "-v"], (3, 400), "iozone3")

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        example = "'Version $Revision: 3.471 $'; the driver 'filesuite' does the same tests without it"
        require_version(self.tool(), version, r"Revision: (\d+)\.(\d+)", example, ", or the driver 'filesuite'")

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        wanted = read(params)
        if 8 in wanted.tests and not wanted.threads:
            raise StudyError("test 8, the random mix, needs threads", key="params.tests")
        if not {0, 9, 11} & set(wanted.tests):
            raise StudyError("no test writes the file that the others read; add 'write'", key="params.tests")
        return super().validate(params, target)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """IOzone in the folder of the target; threads as processes, each with a file, none stopped early (-x)."""
        wanted = read(trial.params)
        file = _own_file(load.path, self.name)
        argv = ["iozone", *wanted.options(), *(["-E"] if _POSITIONED & set(wanted.tests) else [])]
        if wanted.threads:
            argv += ["-t", str(wanted.threads), "-x", "-F", *(f"{file}.{number}" for number in range(wanted.threads))]
        else:
            argv += ["-f", str(file)]
        return Command(argv, wanted.timeout_s, cwd=file.parent)  # it leaves files of its own where it runs

    def read_output(self, outcome: Outcome) -> Parsed:
        """Failed unless the output has a number for each pass that was asked for."""
        words = last_words(outcome.stderr, outcome.stdout)  # its complaints may be on either stream
        said = f": {words}" if words else ""
        if outcome.exit_code:
            return Parsed(FAILED, f"iozone exited with status {outcome.exit_code}{said}")
        try:
            claims = iozone_claims.read(text_of(outcome.stdout))
        except InputError as error:
            return Parsed(FAILED, f"{error}{said}")
        # Of processes, whose times IOzone does not tell, there are the rates that it prints.
        printed = {f"{claim_entries.prefix(one)}.bw": one.rate_bytes_per_s for one in claims if one.rate_bytes_per_s}
        metrics, warnings = _claimed(claims) or printed, claim_entries.warnings(claims)
        return Parsed(OK, metrics=metrics, parts=_parts(claims), claims=claims, warnings=warnings)
