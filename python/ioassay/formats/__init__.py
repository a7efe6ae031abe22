"""What a benchmark's own output claims, as `record.Claim`s: one parser a tool, one literal list.

A parser is a module with `NAME`, `STREAM` (where its results go), `matches(program)`, `looks_like(text)` and
`read(text, argv)`. It knows the tool's format and its pitfalls (docs/claims.md); whether a claim is true is the
business of `ioassay.verify`. Nothing is started and no file is read here: `outputs` says which files a tool writes its
results to, and the caller brings their texts. `user_claims` finds claims by a pattern of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import PurePath
from typing import Any, Protocol, cast

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
    pass_of: Callable[[str], str] | None = None
    """The pass or the benchmark behind a test's name, as metrics call it; None: its own name."""


_HEAD_CHARS, _TAIL_CHARS = 2**16, 2**20
"""How much of each end of an output is looked at to recognise an unknown program."""


class Parser(Protocol):
    """What a module of `PARSERS` has. What only some have beside it is in `_OPTIONAL`."""

    NAME: str
    STREAM: str

    def matches(self, program: str) -> bool:
        """Whether a program of this name is the tool."""

    def looks_like(self, text: str) -> bool:
        """Whether an output is the tool's."""

    def read(self, text: str, argv: Sequence[str] = ()) -> list[Claim]:
        """The claims; InputError for output that is the tool's and cannot be understood."""


_OPTIONAL: Mapping[str, Any] = {
    "CONVENTIONS": Conventions(),
    "outputs": lambda words: (),
    "inputs": lambda words: (),
    "named_servers": lambda words: (),
    "expanded": lambda words, files: words,
    "prints": lambda words: True,
    "split": None,
    "without_interim": None,
}
"""What stands for a member that a parser lacks: files of results and of jobs that a call names, its servers, its words
with those of its files, whether it prints, an output's part of each run, and those parts without interim reports."""


def parser(name: str) -> Parser:
    """The parser of a name of `PARSERS`."""
    return cast(Parser, REGISTRY.load(name))


def _member(name: str, member: str) -> Any:
    return getattr(parser(name), member, _OPTIONAL[member])


@cache
def conventions(source: str) -> Conventions:
    """Those of a `Claim.source`; none of a source that is no format, such as the user."""
    known: Conventions = _member(source, "CONVENTIONS") if source in REGISTRY else Conventions()
    return known


def recognise(argv: Sequence[str], stdout: str = "", stderr: str = "") -> str | None:
    """Which tool it is, a name of `PARSERS`: by the first word that names one, else by the look of its output."""
    for word in argv:
        if (name := _named(PurePath(word).name)) is not None:
            return name
    whole = _HEAD_CHARS + _TAIL_CHARS
    glances = [
        text if len(text) <= whole else f"{text[:_HEAD_CHARS]}\n{text[-_TAIL_CHARS:]}" for text in (stdout, stderr)
    ]
    return next((name for name in REGISTRY if any(glances) and any(map(parser(name).looks_like, glances))), None)


def _named(program: str) -> str | None:
    """The tool that a program of this name is."""
    by_name = (partial(tool_runs.is_program_of, name) if name in PARSERS else parser(name).matches for name in REGISTRY)
    return next((name for name, matches in zip(REGISTRY, by_name, strict=True) if matches(program)), None)


def named_servers(argv: Sequence[str]) -> Sequence[str]:
    """The servers that a command line lets make its load, where its tool can name some (`named_servers`)."""
    name = recognise(argv)
    servers: Sequence[str] = () if name is None else _member(name, "named_servers")(argv)
    return servers


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
    found: dict[str, None] = {}
    for words in [one.words for one in programs if _named(tool_runs.program_name(one.words))] or [argv]:
        if (name := recognise(words)) is not None:
            found |= dict.fromkeys([*_member(name, "outputs")(words), *_member(name, "inputs")(words)])
    return list(found)


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
    ran = (_named(tool_runs.program_name(program.words)) for program in programs)
    looks = recognise(() if programs else argv, stdout, stderr)
    names = filter(None, dict.fromkeys([*ran, looks]))
    return _gathered(partial(_claims_of, name, argv, (stdout, stderr), files or {}, programs) for name in names)


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
    name: str, argv: Sequence[str], printed: tuple[str, str], files: Mapping[str, str], programs: Sequence[Program]
) -> list[Claim]:
    found, expanded = parser(name), _member(name, "expanded")
    own = [one for one in programs if found.matches(tool_runs.program_name(one.words))]
    own.sort(key=lambda one: one.ended_ns or float("inf"))
    alone = found.matches(tool_runs.program_name(argv))
    if programs:  # one process ran, and the tool is what it became: no other program can have used the same files
        alone = len({one.process for one in programs}) == 1 and own in ([], [programs[-1]])
    own = [replace(one, words=expanded(one.words, files)) for one in own]
    printing = [one for one in own if _member(name, "prints")(one.words)]
    if own and not printing:
        return []
    with registry.faults_named(f"the claims of {name} cannot be read"):
        if own and hasattr(found, "split"):
            claims = _read_of_runs(name, printed, files, programs, printing)
        else:
            words = argv if not own else printing[0].words if len(printing) == 1 else ()
            claims = _read_whole(name, expanded(words, files), printed, files)
    return claims if alone else _marked(claims, "among-others")


def _marked(claims: Iterable[Claim], flag: str) -> list[Claim]:
    return [one if flag in one.doubts else replace(one, doubts=(*one.doubts, flag)) for one in claims]


def _read_of_runs(
    name: str, printed: tuple[str, str], files: Mapping[str, str], programs: Sequence[Program], own: Sequence[Program]
) -> list[Claim]:
    """The claims of each run of the tool, by what that run printed and its own arguments."""
    found, split, without_interim = parser(name), _member(name, "split"), _member(name, "without_interim")
    written = tool_runs.of_files(own, files, _member(name, "outputs"))
    repeated = [part.strip() for text in written.values() for part in split(text)]
    shown: dict[str, list[str]] = {}
    for output, text in zip(programs[0].outputs, printed, strict=True):
        parts = [part for part in split(text) if not any(each in part for each in repeated)]
        shown[output] = [*shown.get(output, ()), *parts]
    rest = [one for place, one in enumerate(own) if place not in written]
    everything = [part for parts in shown.values() for part in parts]
    stream = int(found.STREAM == "stderr")
    pairs = tool_runs.pair(shown, rest, stream) if rest else []
    if rest and not pairs and everything and without_interim:
        shown = {output: without_interim(parts) for output, parts in shown.items()}
        pairs = tool_runs.pair(shown, rest, stream)
    if rest and not pairs and (everything or not written):  # the parser says what is missing
        pairs = [tool_runs.Part("\n".join(everything), own[0].words if len(own) == 1 else (), sure=False)]
    elif not rest:  # copies of the files that are none
        pairs = [tool_runs.Part(text, own[-1].words, sure=False) for text in everything]
    last = {place: (split(text) or [text])[-1] for place, text in written.items()}
    of_files = [tool_runs.Part(text, own[place].words, program=own[place]) for place, text in last.items()]

    def read_part(one: tool_runs.Part) -> list[Claim]:
        claims = found.read(one.text, one.words)
        if not one.sure:
            return _marked(claims, tool_runs.UNKNOWN)
        ran, output = one.program, one.program.outputs[0]
        return [replace(claim, began_ns=ran.began_ns, ended_ns=ran.ended_ns, output=output) for claim in claims]

    return _gathered(partial(read_part, one) for one in [*of_files, *(pairs or ())])


def _read_whole(name: str, argv: Sequence[str], printed: tuple[str, str], files: Mapping[str, str]) -> list[Claim]:
    found = parser(name)
    own, other = printed if found.STREAM == "stdout" else printed[::-1]
    texts = [own]
    for file in _member(name, "outputs")(argv):
        if file not in files:
            raise InputError(f"{name} wrote its results to '{file}', which cannot be read; leave that option out")
        texts.append(files[file])
    text = "\n".join(part for part in texts if part)
    if found.looks_like(other) and not found.looks_like(text):
        text = other  # 2>&1, or a wrapper that prints elsewhere
    return found.read(text, argv)
