"""The driver command: any program, with metrics and claims that patterns find in what it reports.

It needs no plugin, and knows nothing of its program: the study states what is a number, in which unit, and what of the
target the program may change. No check can see what a program does, so that each needs the user's consent; it is
confined and witnessed like every other tool. Deliberately not here: pipes and shells (name one in `argv`), and programs
that have a driver or a parser of claims of their own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ioassay import formats, units
from ioassay.drivers.programs import ended_badly
from ioassay.errors import InputError, StudyError
from ioassay.formats import user_claims
from ioassay.metrics import Metric
from ioassay.packs.command.driver import program_parameters
from ioassay.packs.command.driver.program_parameters import Program
from ioassay.records.record import FAILED, OK, Claim, Scalar, Warning_
from ioassay.roles import (
    NOTHING,
    READ,
    WRITE,
    Command,
    Driver,
    Estimate,
    External,
    Load,
    Outcome,
    Parsed,
    Touch,
    Trial,
)

_ACCESS = {"read": READ, "write": WRITE, "nothing": NOTHING}
TIME, CPU_TIME = "command.time", "command.cpu_time"


class CommandDriver(Driver):
    """Runs a program of the study. docs/drivers.md describes its parameters. Implements `roles.Driver`."""

    name = "command"
    measures = True
    responses = (TIME,)
    metrics = (
        Metric(TIME, "s", "lower", "Time of the command", units.format_duration),
        Metric(CPU_TIME, "s", "lower", "CPU time of the command", units.format_duration),
    )

    def declared_metrics(self, params: Mapping[str, Any]) -> Sequence[Metric]:
        """Those of `[params.metrics]`; none of parameters that this version cannot read."""
        try:
            readings = program_parameters.read(params).metrics
        except StudyError:
            return ()
        return [reading.metric(name) for name, reading in readings.items()]

    def validate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Sequence[Warning_]:
        """StudyError for a wrong parameter, a place without a value, or a program that is not here."""
        program = program_parameters.read(params)
        has_target = target.get("kind", "null") != "null"
        known = program_parameters.examined(params, has_target)
        for key, text in program.texts():
            program_parameters.fill(text, known, key)
        if program.access in ("read", "write") and not has_target:
            raise StudyError(
                f"is '{program.access}', and the study has no target; expected [target]", key="params.access"
            )
        self.touches(params)
        executable = program_parameters.fill(program.argv[0], known, "params.argv[0]")
        if shutil.which(executable) is None:
            raise StudyError(f"'{executable}' is no program here; install it, or give its path", key="params.argv")
        return ()

    def access(self, params: Mapping[str, Any]) -> str:
        """As the study states; WRITE where it states nothing and a word names the target."""
        return _ACCESS[program_parameters.read(params).effect]

    def touches(self, params: Mapping[str, Any]) -> Sequence[Touch]:
        """Files of `reads` and `writes`."""
        program = program_parameters.read(params)
        read = [Touch(path, READ) for path in program_parameters.paths(program.reads, params, "params.reads")]
        written = program_parameters.paths(program.writes, params, "params.writes")
        sizes = program.writes.values()
        return [*read, *(Touch(path, WRITE, int(size)) for path, size in zip(written, sizes, strict=True))]

    def externals(self, params: Mapping[str, Any]) -> Sequence[External]:
        """The program itself."""
        return [External(program_parameters.read(params).external, "runs a program that the study names")]

    def estimate(self, params: Mapping[str, Any], target: Mapping[str, Any]) -> Estimate:
        """The time that the study expects; what is written cannot be known."""
        program = program_parameters.read(params)
        written = None if program.effect == "write" or program.writes else 0
        return Estimate(units.parse_duration_s(program.expected_time), written)

    def command(self, trial: Trial, load: Load, raw: Path) -> Command:
        """The words with their places filled in, in the working directory of ioassay unless `cwd` names another."""
        program = program_parameters.read(trial.params)
        given: dict[str, Scalar] = {"raw": str(raw.absolute()), "seed": trial.seed, "repetition": trial.repetition}
        if load.path is not None:
            given |= {"target": str(load.path), "size": load.size_bytes}
        known = program_parameters.values(trial.params, given)
        env = {name: program_parameters.fill(text, known, f"params.env.{name}") for name, text in program.env.items()}
        files = {
            name: program_parameters.fill(text, known, f"params.files.{name}") for name, text in program.files.items()
        }
        return Command(
            program_parameters.words(program.argv, known, "params.argv"),
            units.parse_duration_s(program.timeout),
            files=files,
            cwd=Path(program_parameters.fill(program.cwd, known, "params.cwd")) if program.cwd else None,
            env=env,
        )

    def parse(self, trial: Trial, outcome: Outcome | None, raw: Path) -> Parsed:
        """Failed unless it ended as it should, with each metric and each claim that the study states."""
        program = program_parameters.read(trial.params)
        if outcome is None:
            return Parsed(FAILED, "the program was not started")
        if reason := _ended_badly(outcome, program):
            return Parsed(FAILED, reason)
        texts: dict[str, str] = {}

        def text_of(source: str) -> str:
            path = {"stdout": outcome.stdout, "stderr": outcome.stderr}.get(source, raw / source)
            if source not in texts:
                texts[source] = program_parameters.text(path, source)
            return texts[source]

        try:
            found = program_parameters.metric_values(program.metrics, text_of)
            claims = [
                claim
                for number, stated in enumerate(program.claims)
                for claim in user_claims.pattern_claims(
                    user_claims.claim_pattern(stated.regex),
                    text_of(stated.source),
                    f"params.claims[{number}].regex",
                    stated.kind,
                )
            ]
        except InputError as error:
            return Parsed(FAILED, f"{error}{_said(outcome)}")
        warnings: list[Warning_] = []
        if not program.claims:
            claims, warnings = _recognised(trial, outcome, text_of)
        cpu = {} if outcome.usage is None else {CPU_TIME: outcome.usage.ru_utime + outcome.usage.ru_stime}
        return Parsed(OK, metrics={TIME: outcome.duration_s, **cpu, **found}, claims=claims, warnings=warnings)


def _recognised(trial: Trial, outcome: Outcome, text_of: Callable[[str], str]) -> tuple[list[Claim], list[Warning_]]:
    """The claims of a tool whose output ioassay reads anyway, such as dd, where the study states none.

    Its words have places, so that a file which they name is not known by its path.
    """
    argv = [str(word) for word in trial.params["argv"]]
    try:
        claims = formats.read(argv, text_of("stdout"), text_of("stderr"))
        return [
            replace(claim, paths=(), paths_stated=False) if any(map(program_parameters.places, claim.paths)) else claim
            for claim in claims
        ], []
    except InputError as error:
        return [], [Warning_("claims-unreadable", f"the claims of the program cannot be read: {error}")]


def _ended_badly(outcome: Outcome, program: Program) -> str:
    name = Path(program.argv[0]).name
    if reason := ended_badly(outcome, name, "raise params.timeout", lambda: _said(outcome)):
        return reason
    if outcome.exit_code not in program.exit_status:
        wanted = ", ".join(map(str, program.exit_status))
        return f"{name} exited with status {outcome.exit_code}, expected {wanted}{_said(outcome)}"
    return ""


def _said(outcome: Outcome) -> str:
    """The last line of its complaints."""
    try:
        with outcome.stderr.open("rb") as file:
            file.seek(max(outcome.stderr.stat().st_size - 2000, 0))
            lines = file.read().decode("utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return f"; it said: {lines[-1].strip()[:200]}" if lines else ""
