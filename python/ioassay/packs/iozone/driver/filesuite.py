"""The driver filesuite: IOzone's file tests by our own engine, `ioassay filesuite`, in a process of its own.

Parameters are those of `file_tests`, and some that IOzone lacks. The target is a folder, in which the engine creates
and removes its file. What the engine printed becomes metrics, parts, claims and warnings.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay import units, validation
from ioassay.errors import InputError, one_line
from ioassay.packs.iozone.claims import filesuite_json
from ioassay.packs.iozone.claims.filesuite_json import Document, Pass
from ioassay.packs.iozone.driver import file_tests
from ioassay.records.record import FAILED, OK, Claim, Warning_
from ioassay.roles import Command, Load, Outcome, Parsed, Tool, Trial

_CHOICES = {
    "cache": ("leave", "drop", "drop-all", "warm"),
    "data": ("random", "iozone", "zeros"),
    "check": ("", "inside", "whole", "after", "off"),
}
_SOURCE, _REMEDY = "filesuite's output", "see raw/stdout"


class Filesuite(file_tests.FileTests):
    """Runs the native file tests. Implements `roles.Driver`."""

    name = "filesuite"
    own = (*_CHOICES, "plain")

    def tool(self) -> Tool | None:
        """None: the engine is part of ioassay."""
        return None

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Nothing to take."""

    def check(self, params: Mapping[str, Any], wanted: file_tests.Wanted) -> None:
        """StudyError for a word that is none of the engine's."""
        _options(params)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """`ioassay filesuite` with this interpreter. The random order is always IOzone's, the content the trial's."""
        wanted = file_tests.read(trial.params, self.own)
        argv = [sys.executable, "-m", "ioassay", "filesuite", *wanted.options(), *_options(trial.params)]
        argv += ["-t", str(wanted.threads)] if wanted.threads else []
        argv += ["--seed", str(trial.seed % 2**63), "-f", str(file_tests.own_file(load.path, self.name)), "--json"]
        return Command(argv, wanted.timeout_s())

    def read_output(self, outcome: Outcome) -> Parsed:
        """Failed with the engine's reason, or that of the first pass without a result."""
        try:
            text = outcome.stdout.read_bytes()
            if "error" in (table := validation.table(text, _SOURCE, _REMEDY)):
                return Parsed(FAILED, one_line(str(table["error"])))
            document = validation.read(Document, text, _SOURCE, _REMEDY)
        except (OSError, InputError) as error:
            return Parsed(FAILED, str(error))
        claims, reason = filesuite_json.claims(document), _failed(document)
        return Parsed(
            FAILED if reason else OK,
            reason,
            metrics=_metrics(document, claims),
            parts=file_tests.parts(claims),
            claims=claims,
            warnings=_warnings(document.passes),
        )


def _options(params: Mapping[str, Any]) -> list[str]:
    chosen = {name: file_tests.choice(params, name, known) for name, known in _CHOICES.items()}
    options = [word for name, value in chosen.items() if value for word in (f"--{name}", value)]
    return [*options, *(["--plain"] if file_tests.flag(params, "plain") else [])]


def _failed(document: Document) -> str:
    bad = next((each for each in document.passes if each.status != "ok"), None)
    if bad is not None:
        cell = f"{units.format_size(bad.asked_file_bytes)} in records of {units.format_size(bad.record_bytes)}"
        return f"{bad.name} of {cell}: {bad.reason}"
    for report in document.checked:
        if report.differing_records or report.reason:
            differing = f"{report.differing_records} records of the file hold something else than was written"
            return report.reason or differing
    return "" if document.passes else "filesuite did no pass at all"


def _metrics(document: Document, claims: Sequence[Claim]) -> dict[str, float]:
    """Of one worker as `file_tests` has it; of several what all moved from the first start to the last end."""
    if not document.groups:
        return file_tests.metrics(claims)
    values: dict[str, float] = {}
    for name in dict.fromkeys(group.name for group in document.groups):
        own = [group for group in document.groups if group.name == name and group.span_ns]
        seconds = sum(group.span_ns or 0 for group in own) / 1e9
        if seconds:
            values[f"{name}.bw"] = sum(group.bytes or 0 for group in own) / seconds
            values[f"{name}.iops"] = sum(group.operations or 0 for group in own) / seconds
    return values


def _warnings(passes: Sequence[Pass]) -> list[Warning_]:
    """Reads that came from memory although O_DIRECT was not asked for: true, and easily mistaken for the disk."""
    cached = [each for each in passes if each.kind == "read" and not each.direct and (each.resident_share or 0) > 0.5]
    if not cached:
        return []
    names = ", ".join(dict.fromkeys(each.name for each in cached))
    text = f"{names}: more than half of the file was in the page cache when the clock started"
    return [Warning_("read-from-cache", text, 'set cache = "drop", or direct = true, to measure the disk')]
