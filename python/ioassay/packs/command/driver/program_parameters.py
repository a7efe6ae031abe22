"""The parameters of the driver command, read from a study's `[params]`: what runs, what it may write, what it reports.

Any other key is a value for a place in the words. One that no place uses is refused: it would be a factor without an
effect.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ioassay import units
from ioassay.errors import StudyError, UsageError
from ioassay.formats import user_claims
from ioassay.packs.command.driver import reported_values, word_template
from ioassay.packs.command.driver.reported_values import Reading
from ioassay.records.record import Scalar
from ioassay.validation import error_text, suggestion

GIVEN = ("target", "size", "raw", "seed", "repetition")
"""Places that every trial has a value for; the first two where the study has a target."""
_OF_TARGET = ("target", "size")


def _duration(text: str | float) -> str | float:
    if units.parse_duration_s(text) <= 0:
        raise ValueError("expected more than 0 s")
    return text


Size = Annotated[int | str, AfterValidator(units.parse_size)]
Duration = Annotated[str | float, AfterValidator(_duration)]
Word = Annotated[str, Field(max_length=100_000)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][\w.-]*$")]


class ClaimPattern(BaseModel):
    """One pattern of `[[params.claims]]`, with the groups of `--claim-regex`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    regex: str
    source: Annotated[str, Field(alias="from", pattern=r"^[A-Za-z0-9_][\w.-]*$")] = "stdout"
    kind: Literal["read", "write", "trim", "mixed", "keys"] = "read"
    """Where the pattern has no group of that name."""


class Program(BaseModel):
    """What the driver knows itself of `[params]`."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    argv: Annotated[list[Word], Field(min_length=1)]
    access: Literal["read", "write", "nothing", ""] = ""
    """What it does to the target; '': it writes where a word names the target, and nothing elsewhere."""
    reads: list[Word] = []
    """Files beside the target."""
    writes: dict[Word, Size] = {}
    """Such a file -> what it may grow to."""
    cwd: Word = ""
    env: dict[str, Word] = {}
    files: dict[FileName, Word] = {}
    """Name -> text: written to the raw folder before."""
    timeout: Duration = "10m"
    expected_time: Duration = "10s"
    exit_status: Annotated[list[Annotated[int, Field(ge=0, le=255)]], Field(min_length=1)] = [0]
    metrics: dict[str, Reading] = {}
    claims: list[ClaimPattern] = []

    @property
    def effect(self) -> str:
        """`access`, with what its default stands for."""
        return self.access or ("write" if "target" in self.places() else "nothing")

    @property
    def external(self) -> str:
        """The command line as the study has it, for a question to the user."""
        return f"params.argv = {shlex.join(self.argv)}"

    def texts(self) -> Iterator[tuple[str, str]]:
        """Key and text of all that may have places."""
        yield from ((f"params.argv[{number}]", word) for number, word in enumerate(self.argv))
        yield "params.cwd", self.cwd
        for key in ("reads", "writes"):
            yield from ((f"params.{key}", word) for word in getattr(self, key))
        for key in ("env", "files"):
            yield from ((f"params.{key}.{name}", word) for name, word in getattr(self, key).items())

    def places(self) -> set[str]:
        """The names of all places."""
        return {name for _, text in self.texts() for name in word_template.places(text)}


def read(params: Mapping[str, Any]) -> Program:
    """The parameters; StudyError names the key, the value seen and the value wanted."""
    try:
        program = Program.model_validate(dict(params))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        fault = "unknown key" if first["type"] == "extra_forbidden" else error_text(first)
        fault = "is missing; expected the program and its arguments" if first["type"] == "missing" else fault
        raise StudyError(fault, key=f"params.{key}") from None
    for name, reading in program.metrics.items():
        if fault := reported_values.fault_of_name(name, reading):
            raise StudyError(fault, key=f"params.metrics.'{name}'")
    for number, claim in enumerate(program.claims):
        try:
            user_claims.claim_pattern(claim.regex, "regex")
        except UsageError as error:
            raise StudyError(str(error), key=f"params.claims[{number}]") from None
    _refuse_unused(program, params)
    return program


def _refuse_unused(program: Program, params: Mapping[str, Any]) -> None:
    used = program.places()
    for name in params:
        if name in GIVEN:
            raise StudyError(f"ioassay gives the place {{{name}}} its value; choose another name", key=f"params.{name}")
        if name not in Program.model_fields and name not in used:
            close = suggestion(name, [*Program.model_fields, *used])
            fault = f"is no parameter of the driver 'command', and no place {{{name}}} uses it"
            raise StudyError(f"{fault}; {close}", key=f"params.{name}")


def values(params: Mapping[str, Any], given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What the places stand for: what the study sets, and what the trial gives."""
    own = {name: value for name, value in params.items() if name not in Program.model_fields}
    return {**own, **given}


def examined(params: Mapping[str, Any], has_target: bool) -> dict[str, Scalar]:
    """Values for a trial that is not yet there; StudyError where a place would have none."""
    given: dict[str, Scalar] = {name: 0 if name in ("seed", "repetition", "size") else name for name in GIVEN}
    if not has_target:
        given = {name: value for name, value in given.items() if name not in _OF_TARGET}
    return values(params, given)


def paths(texts: Iterable[str], params: Mapping[str, Any], key: str) -> list[Path]:
    """Files that the parameters name, which may depend on factors and on nothing that only a trial has."""
    return [Path(word_template.fill(text, values(params, {}), key)).expanduser() for text in texts]
