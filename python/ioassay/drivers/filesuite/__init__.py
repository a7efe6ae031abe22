"""The driver filesuite: IOzone's file tests by our own engine, `ioassay filesuite`, in a process of its own.

Parameters are those of `drivers.filetests` and what IOzone has not. The target is a folder, in which the engine makes
and removes its file. What it says becomes metrics and claims in `told.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.drivers import filetests
from ioassay.drivers.filesuite import told
from ioassay.record import Warning_
from ioassay.roles import Command, Estimate, Load, Outcome, Parsed, Tool, Trial

CACHES = ("leave", "drop", "drop-all", "warm")
DATA = ("random", "iozone", "zeros")
CHECKS = ("", "inside", "after", "off")
OWN = ("cache", "data", "check", "plain")


class Filesuite(filetests.FileTests):
    """Runs the native file tests. Implements `roles.Driver`."""

    name = "filesuite"

    def tool(self) -> Tool | None:
        """None: the engine is part of ioassay."""
        return None

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Nothing to take."""

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError names the parameter that is wrong."""
        filetests.read(params, OWN)
        _options(params)
        filetests.need_folder(target)
        return ()

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """Two passes a test, at the speed of a common disk."""
        return filetests.read(params, OWN).estimate()

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """`ioassay filesuite` with this interpreter. The random order is always IOzone's, the content the trial's."""
        wanted = filetests.read(trial.params, OWN)
        argv = [sys.executable, "-m", "ioassay", "filesuite", *wanted.options(), *_options(trial.params)]
        argv += ["-t", str(wanted.threads)] if wanted.threads else []
        argv += ["--seed", str(trial.seed % 2**63), "-f", str(filetests.own_file(load.path, self.name)), "--json"]
        return Command(argv, wanted.timeout_s())

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Failed unless every pass was done whole."""
        return told.parsed(outcome)


def _options(params: Mapping[str, Any]) -> list[str]:
    options = ["--cache", filetests.choice(params, "cache", CACHES), "--data", filetests.choice(params, "data", DATA)]
    check = filetests.choice(params, "check", CHECKS)
    options += ["--check", check] if check else []
    return [*options, *(["--plain"] if filetests.flag(params, "plain") else [])]
