"""What a benchmark's own output claims, as `record.Claim`s: one parser a tool, one literal list.

A parser is a module with `NAME`, `STREAM` (where its results go), `matches(program)`, `looks_like(text)` and
`read(text, argv)`. It knows the tool's format and its pitfalls (docs/claims.md); whether a claim is true is the
business of `ioassay.verify`. Nothing is started and no file is read here: `outputs` says which files a tool writes its
results to, and the caller brings their texts. Claims that a user states are read by `user_claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import PurePath
from typing import Protocol, cast

from ioassay import registry
from ioassay.errors import InputError
from ioassay.formats import tool_runs
from ioassay.pack import listed
from ioassay.records.observation import Program
from ioassay.records.record import Claim
from ioassay.registry import Contract, Registry

PARSERS: dict[str, str] = listed("claims", {})

REGISTRY = Registry("claims", "parser of claims", PARSERS, Contract("NAME", "STREAM", "matches", "looks_like", "read"))


@dataclass(frozen=True)
class Conventions:
    """What holds for every claim of a format, beyond what each says itself: `CONVENTIONS` of its module."""

    passes: bool = False
    """Each is one pass over a file, which the tool opens for it; they come in the order of their passes."""
    tests_are_work: bool = False
    """`Claim.test` says what is done ('reread', 'fillseq'), and is no name that the user gave to a job."""
    layout_apart: bool = False
    """Files are made through descriptors for writing only and loaded through others, which the output may not say."""
    exact_ranks: bool = False
    """Percentiles are those of the rank that is the share times the number, rounded up."""
    one_process: bool = False
    """One process does what it claims: what is done before its begin and after its end is another's."""
    syncs_timed: bool = False
    """The latency of a write through the cache is that of its synchronisation as well."""


_HEAD_CHARS, _TAIL_CHARS = 2**16, 2**20
"""How much of each end of an output is looked at to recognise an unknown program."""


class Parser(Protocol):
    """What a module of `PARSERS` has."""

    NAME: str
    STREAM: str

    def matches(self, program: str) -> bool:
        """Whether a program of this name is the tool."""

    def looks_like(self, text: str) -> bool:
        """Whether an output is the tool's."""

    def read(self, text: str, argv: Sequence[str] = ()) -> list[Claim]:
        """The claims; InputError for output that is the tool's and cannot be understood."""


def parser(name: str) -> Parser:
    """The parser of a name of `PARSERS`."""
    return cast(Parser, REGISTRY.load(name))


@cache
def conventions(source: str) -> Conventions:
    """Those of a `Claim.source`; none of a source that is no format, such as the user."""
    known: Conventions = getattr(parser(source), "CONVENTIONS", Conventions()) if source in REGISTRY else Conventions()
    return known


def recognise(argv: Sequence[str], stdout: str = "", stderr: str = "") -> str | None:
    """Which tool it is, a name of `PARSERS`: by the first word that names one, else by the look of its output."""
    parsers = {name: parser(name) for name in REGISTRY}
    for word in argv:
        for name, found in parsers.items():
            if found.matches(PurePath(word).name):
                return name
    whole = _HEAD_CHARS + _TAIL_CHARS
    glances = [
        text if len(text) <= whole else f"{text[:_HEAD_CHARS]}\n{text[-_TAIL_CHARS:]}" for text in (stdout, stderr)
    ]
    return next((name for name, found in parsers.items() if any(map(found.looks_like, glances))), None)


def named_servers(argv: Sequence[str]) -> Sequence[str]:
    """The servers that a command line lets make its load, where its tool can name some (`named_servers`)."""
    name = recognise(argv)
    return () if name is None else getattr(parser(name), "named_servers", lambda words: ())(argv)


def is_of_this_host(server: str) -> bool:
    """Whether a server can only be a process of the tool's own host: a Unix socket, or a loopback address."""
    import ipaddress

    if server.startswith("/"):
        return True
    host = server[1:].partition("]")[0] if server.startswith("[") else server
    for candidate in (host, host.rpartition(":")[0]):
        try:
            return ipaddress.ip_address(candidate).is_loopback
        except ValueError:
            if candidate == "localhost":
                return True
    return False


def outputs(argv: Sequence[str], programs: Sequence[Program] = ()) -> list[str]:
    """The files, as named, that the tool writes its results to: bring their texts as `files` to `read`.

    Files of jobs as well, whose texts may be missing.
    """
    commands = [one.words for one in programs if _ran(one)] or [argv]
    found: dict[str, None] = {}
    for words in commands:
        if (name := recognise(words)) is not None:
            named = [getattr(parser(name), each, None) for each in ("outputs", "inputs")]
            found |= dict.fromkeys(file for function in named if function for file in function(words))
    return list(found)


def _ran(program: Program) -> str | None:
    """The tool that it is."""
    name = tool_runs.program_name(program.words)
    return next((each for each in REGISTRY if parser(each).matches(name)), None)


def read(
    argv: Sequence[str],
    stdout: str,
    stderr: str = "",
    files: Mapping[str, str] | None = None,
    programs: Sequence[Program] = (),
) -> list[Claim]:
    """The claims of the tools that ran, or that the output looks like; none where no tool is recognised.

    `files` are the texts of what `outputs` named, by name. `programs` are what was run: each run has its own words.
    Where that was not watched, the words of `argv` from the tool's name on count. InputError when the output is of the
    tool but cannot be understood; a tool that was told to say nothing (dd's status=none) claims nothing.
    """
    looks = recognise(() if programs else argv, stdout, stderr)
    names = [name for name in dict.fromkeys([*map(_ran, programs), looks]) if name]
    return _gathered(partial(_claims_of, name, argv, stdout, stderr, files or {}, programs) for name in names)


def _gathered(readers: Iterable[Callable[[], list[Claim]]]) -> list[Claim]:
    """The claims that can be read; the first InputError where there are none."""
    claims: list[Claim] = []
    faults: list[InputError] = []
    for read_part in readers:
        try:
            claims += read_part()
        except InputError as error:
            faults.append(error)
    if faults and not claims:
        raise faults[0]
    return claims


def _claims_of(
    name: str,
    argv: Sequence[str],
    stdout: str,
    stderr: str,
    files: Mapping[str, str],
    programs: Sequence[Program],
) -> list[Claim]:
    found = parser(name)
    own = tool_runs.calls(programs, found.matches)
    alone = tool_runs.alone(programs, own) if programs else found.matches(tool_runs.program_name(argv))
    expanded = getattr(found, "expanded", lambda words, files: words)
    own = [replace(one, words=expanded(one.words, files)) for one in own]
    printing = [one for one in own if getattr(found, "prints", lambda words: True)(one.words)]
    if own and not printing:
        return []
    try:
        if own and hasattr(found, "split"):
            claims = _read_of_runs(name, stdout, stderr, files, programs, printing)
        else:
            words = argv if not own else printing[0].words if len(printing) == 1 else ()
            claims = _read(name, expanded(words, files), stdout, stderr, files)
    except Exception as error:
        if isinstance(error, InputError) or not (fault := registry.fault(error)):
            raise
        raise InputError(f"the claims of {name} cannot be read: {fault}") from error
    return claims if alone else [_marked(claim, "among-others") for claim in claims]


def _read_of_runs(
    name: str,
    stdout: str,
    stderr: str,
    files: Mapping[str, str],
    programs: Sequence[Program],
    own: Sequence[Program],
) -> list[Claim]:
    """The claims of each run of the tool, by what that run printed and its own arguments."""
    found = parser(name)
    split: Callable[[str], list[str]] = getattr(found, "split")  # noqa: B009 (a parser need not have it)
    written = tool_runs.of_files(own, files, getattr(found, "outputs", lambda words: ()))
    repeated = [part.strip() for text in written.values() for part in split(text)]
    shown: dict[str, list[str]] = {}
    for output, text in zip(programs[0].outputs, (stdout, stderr), strict=True):
        parts = [part for part in split(text) if not any(each in part for each in repeated)]
        shown[output] = [*shown.get(output, ()), *parts]
    rest = [one for place, one in enumerate(own) if place not in written]
    everything = [part for parts in shown.values() for part in parts]
    pairs = tool_runs.pair(shown, rest, int(found.STREAM == "stderr")) if rest else []
    if rest and not pairs and everything and hasattr(found, "without_interim"):
        shown = {output: found.without_interim(parts) for output, parts in shown.items()}
        pairs = tool_runs.pair(shown, rest, int(found.STREAM == "stderr"))
    if rest and not pairs and (everything or not written):  # the parser says what is missing
        pairs = [tool_runs.Part("\n".join(everything), own[0].words if len(own) == 1 else (), sure=False)]
    elif not rest:  # copies of the files that are none
        pairs = [tool_runs.Part(text, own[-1].words, sure=False) for text in everything]
    last = {place: (split(text) or [text])[-1] for place, text in written.items()}
    of_files = [tool_runs.Part(text, own[place].words, program=own[place]) for place, text in last.items()]

    def read_part(one: tool_runs.Part) -> list[Claim]:
        claims = found.read(one.text, one.words)
        if not one.sure:
            return [_marked(claim, tool_runs.UNKNOWN) for claim in claims]
        ran, output = one.program, one.program.outputs[0]
        return [replace(claim, began_ns=ran.began_ns, ended_ns=ran.ended_ns, output=output) for claim in claims]

    return _gathered(partial(read_part, one) for one in [*of_files, *(pairs or ())])


def _marked(claim: Claim, flag: str) -> Claim:
    return claim if flag in claim.doubts else replace(claim, doubts=(*claim.doubts, flag))


def _read(name: str, argv: Sequence[str], stdout: str, stderr: str, files: Mapping[str, str]) -> list[Claim]:
    found = parser(name)
    own, other = (stdout, stderr) if found.STREAM == "stdout" else (stderr, stdout)
    texts = [own]
    for file in getattr(found, "outputs", lambda words: ())(argv):
        if file not in files:
            raise InputError(f"{name} wrote its results to '{file}', which cannot be read; leave that option out")
        texts.append(files[file])
    text = "\n".join(part for part in texts if part)
    if found.looks_like(other) and not found.looks_like(text):
        text = other  # 2>&1, or a wrapper that prints elsewhere
    return found.read(text, argv)
