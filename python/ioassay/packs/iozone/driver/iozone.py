"""The driver iozone: the real IOzone, where the user has it. Its licence is not free, and it is not part of ioassay.

Parameters are those of `file_tests`. Its output is read by `iozone_claims`, as of any IOzone run; the
driver `filesuite` does the same tests without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ioassay.errors import InputError, StudyError, ToolError
from ioassay.packs.iozone.claims import iozone_claims
from ioassay.packs.iozone.claims.iozone_table import pass_of
from ioassay.packs.iozone.driver import file_tests
from ioassay.records.record import FAILED, OK, Claim
from ioassay.roles import Command, Load, Outcome, Parsed, Tool, Trial

MINIMUM = (3, 400)
_POSITIONED = {9, 10, 11, 12}


class Iozone(file_tests.FileTests):
    """Runs IOzone. Implements `roles.Driver`."""

    name = "iozone"

    def tool(self) -> Tool | None:
        """IOzone; Debian has it among its non-free packages."""
        return Tool("iozone", ["iozone", "-v"], MINIMUM, "iozone3")

    def configure(self, version: str, probes: Mapping[str, str]) -> None:
        """Look at its version; ToolError when it is no IOzone that is known here."""
        found = re.search(r"Revision: (\d+)\.(\d+)", version)
        if found is None:
            instead = "the driver 'filesuite' does the same tests without it"
            raise ToolError(
                f"iozone -v said '{version.strip()[:80]}'; expected 'Version $Revision: 3.471 $'; {instead}"
            )
        if (int(found[1]), int(found[2])) < MINIMUM:
            raise ToolError(f"iozone is {found[1]}.{found[2]}; expected 3.400 or newer, or the driver 'filesuite'")

    def check(self, params: Mapping[str, Any], wanted: file_tests.Wanted) -> None:
        """StudyError for tests that IOzone does not run so."""
        if 8 in wanted.tests and not wanted.threads:
            raise StudyError("test 8, the random mix, needs threads", key="params.tests")
        if not {0, 9, 11} & set(wanted.tests):
            raise StudyError("no test writes the file that the others read; add 'write'", key="params.tests")

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """IOzone in the folder of the target; threads as processes, each with a file, none stopped early (-x)."""
        wanted = file_tests.read(trial.params)
        file = file_tests.own_file(load.path, self.name)
        argv = ["iozone", *wanted.options(), *(["-E"] if _POSITIONED & set(wanted.tests) else [])]
        if wanted.threads:
            argv += ["-t", str(wanted.threads), "-x", "-F", *(f"{file}.{number}" for number in range(wanted.threads))]
        else:
            argv += ["-f", str(file)]
        return Command(argv, wanted.timeout_s(), cwd=file.parent)  # it leaves files of its own where it runs

    def read_output(self, outcome: Outcome) -> Parsed:
        """Failed unless the output has a number for each pass that was asked for."""
        if outcome.exit_code:
            return Parsed(FAILED, f"iozone exited with status {outcome.exit_code}{_said(outcome)}")
        try:
            claims = iozone_claims.read(outcome.stdout.read_text(encoding="utf-8", errors="replace"))
        except InputError as error:
            return Parsed(FAILED, f"{error}{_said(outcome)}")
        values = file_tests.metrics(claims) or _rates(claims)
        warnings = iozone_claims.warnings(claims)
        return Parsed(OK, metrics=values, parts=file_tests.parts(claims), claims=claims, warnings=warnings)


def _said(outcome: Outcome) -> str:
    """The last line of its complaints, which may be on either stream."""
    for stream in (outcome.stderr, outcome.stdout):
        lines = stream.read_text(encoding="utf-8", errors="replace").split("\n") if stream.exists() else []
        said = [line.strip() for line in lines if line.strip()]
        if said:
            return f": {said[-1][:200]}"
    return ""


def _rates(claims: Sequence[Claim]) -> dict[str, float]:
    """Of processes, whose times IOzone does not tell: the rates that it prints."""
    return {f"{pass_of(claim.test)}.bw": claim.rate_bytes_per_s for claim in claims if claim.rate_bytes_per_s}
