"""The driver filesuite: IOzone's file tests by our own engine, `ioassay filesuite`, in a process of its own.

Parameters are those of `file_tests`, and some that IOzone lacks. The target is a folder, in which the engine
creates and removes its file. `filesuite_outcome` turns its output into metrics and claims.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.packs.iozone.driver import file_tests, filesuite_outcome
from ioassay.records.record import Warning_
from ioassay.roles import Command, Estimate, Load, Outcome, Parsed, Tool, Trial

CACHES = ("leave", "drop", "drop-all", "warm")
DATA = ("random", "iozone", "zeros")
CHECKS = ("", "inside", "whole", "after", "off")
OWN = ("cache", "data", "check", "plain")


class Filesuite(file_tests.FileTests):
    """Runs the native file tests. Implements `roles.Driver`."""

    name = "filesuite"

    def tool(self) -> Tool | None:
        """None: the engine is part of ioassay."""
        return None

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Nothing to take."""

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names the parameter that is wrong."""
        file_tests.read(params, OWN)
        _options(params)
        file_tests.need_folder(target)
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Two passes a test, at the speed of a common disk."""
        return file_tests.read(params, OWN).estimate()

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """`ioassay filesuite` with this interpreter. The random order is always IOzone's, the content the trial's."""
        wanted = file_tests.read(trial.params, OWN)
        argv = [sys.executable, "-m", "ioassay", "filesuite", *wanted.options(), *_options(trial.params)]
        argv += ["-t", str(wanted.threads)] if wanted.threads else []
        argv += ["--seed", str(trial.seed % 2**63), "-f", str(file_tests.own_file(load.path, self.name)), "--json"]
        return Command(argv, wanted.timeout_s())

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Failed unless every pass was done whole."""
        return filesuite_outcome.parsed(outcome)


def _options(params: Mapping[str, Any]) -> list[str]:
    options = ["--cache", file_tests.choice(params, "cache", CACHES), "--data", file_tests.choice(params, "data", DATA)]
    check = file_tests.choice(params, "check", CHECKS)
    options += ["--check", check] if check else []
    return [*options, *(["--plain"] if file_tests.flag(params, "plain") else [])]
