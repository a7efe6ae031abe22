"""How command lines are read, and what helps say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from ioassay import __version__, cli
from ioassay.cli import syntax
from ioassay.errors import UsageError
from ioassay.packs.ssd.simulator import OPTIONS

from ..corpora import cases
from .conftest import Answer, Ask

Given = dict[str, Any]


@pytest.fixture
def read() -> Callable[..., Given]:
    """A function that reads words as a command with one parameter of every kind would, and returns its arguments."""
    given: Given = {}

    def command(
        first: Annotated[Path, syntax.Argument(metavar="FIRST")],
        rest: Annotated[list[str] | None, syntax.Argument(metavar="REST…")] = None,
        number: Annotated[int | None, syntax.Option("-n", "--number", min=1, max=9)] = None,
        share: Annotated[float, syntax.Option(min=0)] = 0.5,
        all_: Annotated[bool, syntax.Option("-a", "--all")] = False,
        each: Annotated[bool, syntax.Option("-e")] = False,
        check: bool = True,
        name: Annotated[list[str] | None, syntax.Option("--name")] = None,
    ) -> None:
        """Do it. And more."""
        given.update(locals())

    def reading(*words: str, interspersed: bool = True) -> Given:
        given.clear()
        syntax.Command(command, interspersed=interspersed).run(words, "tool")
        return {key: value for key, value in given.items() if key != "given"}

    return reading


def test_options_and_arguments_come_in_any_order_and_form(read: Callable[..., Given]) -> None:
    wanted = read("x", "y", "-n", "3", "--share=1", "-a", "-e", "--no-check", "--name", "-b", "--name=c=d")
    assert wanted == read("-aen3", "--no-check", "x", "--share", "1", "--name", "-b", "y", "--name", "c=d")
    assert wanted["first"] == Path("x") and wanted["rest"] == ["y"]
    assert (wanted["number"], wanted["share"], wanted["check"]) == (3, 1.0, False)
    assert wanted["name"] == ["-b", "c=d"] and wanted["all_"] is wanted["each"] is True


def test_what_is_not_given_has_its_default(read: Callable[..., Given]) -> None:
    assert read("x") == {
        "first": Path("x"),
        "rest": None,
        "number": None,
        "share": 0.5,
        "all_": False,
        "each": False,
        "check": True,
        "name": None,
    }


def test_after_two_dashes_everything_is_an_argument(read: Callable[..., Given]) -> None:
    assert read("--", "-n", "--all")["rest"] == ["--all"]
    assert read("-a", "--", "x", "--", "-n")["rest"] == ["--", "-n"]


def test_the_command_of_a_witness_keeps_its_own_options(read: Callable[..., Given]) -> None:
    answer = read("-a", "fio", "-n", "--", "--all", interspersed=False)
    assert (answer["first"], answer["rest"], answer["number"]) == (Path("fio"), ["-n", "--", "--all"], None)
    assert read("--", "fio", "-n", interspersed=False)["rest"] == ["-n"]


@cases("syntax", "refused")
def test_what_cannot_be_read_is_named(case: dict[str, Any], read: Callable[..., Given]) -> None:
    with pytest.raises(UsageError) as caught:
        read(*case["words"])
    assert case["said"] in str(caught.value)
    assert str(caught.value).endswith("(see: tool --help)")


def test_an_option_may_have_a_value_of_its_own() -> None:
    given: list[str | None] = []

    def command(
        rest: Annotated[list[str] | None, syntax.Argument()] = None,
        calls: Annotated[str | None, syntax.Option(metavar="FILE", bare="")] = None,
    ) -> None:
        given.append(calls)

    for words in ([], ["--calls", "x"], ["--calls=x"], ["x", "--calls"]):
        syntax.Command(command).run(words, "tool")
    assert given == [None, "", "x", ""]


def test_the_table_of_commands_says_what_their_helps_say() -> None:
    for name, about in cli.COMMANDS.items():
        assert syntax.summary(cli.named(name).about) == about


@pytest.mark.parametrize("columns", ["40", "80", "300"])
def test_helps_keep_to_the_width_of_the_terminal(columns: str, ioassay: Ask) -> None:
    for words in ([], ["run"], ["trace"], ["trace", "convert"], ["simulate"], ["device", "serve"]):
        said = ioassay(*words, "--help", env={"COLUMNS": columns}).out
        widest = max(len(line) for line in said.splitlines())
        assert widest <= max(50, min(int(columns), 80) - 2) + 30, said
        assert "[default: None" not in said


def test_the_help_imports_nothing_that_takes_time() -> None:
    code = "import sys; from ioassay import cli; cli.run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    slow = {"inspect", "dataclasses", "typing", "json", "pathlib", "ioassay.records.record", "ioassay._core"}
    assert not set(done.stderr.split()) & slow


def test_help_of_a_command_is_its_own_and_names_the_document_on_it(ioassay: Ask) -> None:
    for words in (("run",), ("trace", "convert"), ("device", "fault", "inject")):
        answer = ioassay("help", *words)
        assert answer == ioassay(*words, "--help")
        assert answer.code == 0 and answer.out.startswith(f"Usage: ioassay {' '.join(words)} ")
    document = "\nThe document on it: ioassay help doctor.md\n"
    assert ioassay("help", "doctor").out == ioassay("doctor", "--help").out + document


def test_options_of_a_simulation_are_on_the_command_line_and_those_of_convert_prepare_its_trace(ioassay: Ask) -> None:
    def options(text: str) -> set[str]:
        return {word.strip(",") for word in text.split() if word.startswith("--")}

    said = ioassay("simulate", "--help").out
    drive, _, rest = said.partition("Reading the trace:")
    assert all(
        heading in drive for heading in ("The drive:", "The write buffer:", "Feeding:", "Before the measurement:")
    )
    assert "Preparing the trace" in rest
    wanted = {f"--{option.name.replace('_', '-')}" for option in OPTIONS}
    negated = {f"--no-{option.name.replace('_', '-')}" for option in OPTIONS if option.kind == "flag"}
    assert options(drive) == {"--drive", "--flow"} | wanted | negated
    assert options(ioassay("trace", "convert", "--help").out) - options(said) == {"--from", "--to", "--lose"}


def test_help_of_nothing_is_that_of_the_program_and_the_documents(ioassay: Ask) -> None:
    answer = ioassay("help")
    assert answer.code == 0 and answer.out.startswith(ioassay("--help").out + "\nDocuments: active-iozone, ")


def test_the_version_has_a_short_name(ioassay: Ask) -> None:
    assert ioassay("-V") == ioassay("--version") == Answer(0, f"ioassay {__version__}\n", "")
