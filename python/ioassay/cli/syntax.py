"""What a command line says: commands, their options and arguments, read from the signatures of functions.

A function's parameter is an option or an argument: `Annotated[int | None, Option("--workers", min=1, metavar="N",
help="…")]`. Its type says how the text is read: str, int, float, bool (a flag), Path, or a list of one of these. The
rules of the words are those of getopt_long(3): options and arguments in any order, `--name=value`, `-n3`, `-ae`, and
`--`, after which everything is an argument.

It deliberately does nothing but this. Libraries for it take longer to import than most commands take to answer.
"""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

from ioassay.cli import console, helptext
from ioassay.errors import UsageError
from ioassay.hints import nearest

HELP = ("-h", "--help")
_HELP = "--help"
"""Stands among the given options where help is wanted; no parameter is called so."""
Given = Mapping[str, Sequence[str]]
"""Name of a parameter -> the texts that a command line gives it."""
Completer = Callable[[str, Given], Iterable[str]]
"""What a text can become, on a command line that gives something else already; a mapping says what each means."""
_Function = TypeVar("_Function", bound=Callable[..., None])


class Option:
    """An option: its names (by default the parameter's, with dashes), and what its help says.

    `--name/--no-name` is a flag that can be denied. `bare` is the value of the name alone, where a value may only
    follow its '='. `panel` is a heading of the help; `min` and `max` bound numbers. `values` gives the values that a
    text can become, for completion.
    """

    def __init__(
        self,
        *names: str,
        help: str = "",
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        bare: str | None = None,
        hidden: bool = False,
        panel: str | None = None,
        values: Completer | None = None,
    ) -> None:
        self.bare, self.values = bare, values
        self.names, self.help, self.metavar = names, help, metavar
        self.min, self.max, self.hidden, self.panel = min, max, hidden, panel


class Argument(Option):
    """An argument, by its place; a list takes all that is left."""


def option(said: str, help: str, values: Completer | None = None, **more: Any) -> Option:
    """An option as its help shows it: `option("-o, --output DIR", "The folder to write.")`. See Option."""
    words = [word.strip(",") for word in said.split()]
    names = [word for word in words if word.startswith("-")]
    return Option(*names, help=help, values=values, **{"metavar": " ".join(words[len(names) :]) or None, **more})


def argument(metavar: str, help: str, values: Completer | None = None) -> Argument:
    return Argument(metavar=metavar, help=help, values=values)


class Row(NamedTuple):
    """An option in a table, under the name of its parameter: commands that have it take the row (`takes`)."""

    kind: Any
    default: Any
    info: Option

    def below(self, heading: str) -> Row:
        info = copy.copy(self.info)
        info.panel = heading
        return self._replace(info=info)


def row(kind: Any, default: Any, said: str, help: str, values: Completer | None = None, **more: Any) -> Row:
    return Row(kind, default, option(said, help, values, **more))


def takes(rows: Mapping[str, Row]) -> Callable[[_Function], _Function]:
    """A function of which `**given` are the options of `rows`; in the help they stand before those behind its `*`."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    table = [
        inspect.Parameter(name, keyword, default=each.default, annotation=Annotated[each.kind, each.info])
        for name, each in rows.items()
    ]

    def taken(function: _Function) -> _Function:
        own = inspect.signature(function, eval_str=True).parameters.values()
        first = [each for each in own if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        last = [each for each in own if each.kind is keyword]
        function.__signature__ = inspect.Signature([*first, *table, *last])  # type: ignore[attr-defined]
        return function

    return taken


class Parameter:
    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        kind, *more = get_args(annotation) if hasattr(annotation, "__metadata__") else (annotation,)
        self.info = next((one for one in more if isinstance(one, Option)), Option())
        self.name, self.default = name, None if default is inspect.Parameter.empty else default
        self.required = default is inspect.Parameter.empty
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(part for part in get_args(kind) if part is not type(None))
        self.multiple = get_origin(kind) is list
        self.kind: type = get_args(kind)[0] if self.multiple else kind
        self.yes, self.no = _names(name, self.info, self.kind is bool)

    @property
    def is_flag(self) -> bool:
        return self.kind is bool

    @property
    def shown(self) -> str:
        """What messages and helps call it."""
        if isinstance(self.info, Argument):
            return self.info.metavar or self.name.upper()
        return max(self.yes, key=len)

    def candidates(self, text: str, given: Given) -> dict[str, str]:
        """The values that begin with `text`: those that the parameter names, else those that its metavar lists.

        Each with what it means, '' where that is not known.
        """
        if self.info.values is not None:
            known = self.info.values(text, given)
        else:
            words = (self.info.metavar or "").split("|")
            known = [word for word in words if word.islower()] if len(words) > 1 else []
        return {value: about for value, about in meanings(known).items() if value.startswith(text)}

    def read(self, texts: Sequence[str]) -> Any:
        """The value that was given, of the parameter's type; UsageError names the option and what it takes."""
        values = [self._value(text) for text in texts]
        return values if self.multiple else values[-1]

    def _value(self, text: str) -> Any:
        if self.kind not in (int, float):
            return self.kind(text)
        try:
            value = self.kind(text) if "_" not in text else None
        except ValueError:
            value = None
        if value is None:
            raise UsageError(f"{self.shown} is '{text}', expected a {'whole ' if self.kind is int else ''}number")
        low, high = self.info.min, self.info.max
        if (low is None or value >= low) and (high is None or value <= high):
            return value
        bounds = f"{low:g} or more" if high is None else f"at most {high:g}" if low is None else f"{low:g} to {high:g}"
        raise UsageError(f"{self.shown} is {text}, expected {bounds}")


def _names(name: str, info: Option, is_flag: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that set an option, and those that deny a flag."""
    if isinstance(info, Argument):
        return (), ()
    dashed = name.strip("_").replace("_", "-")
    names = info.names or ((f"--{dashed}/--no-{dashed}",) if is_flag else (f"--{dashed}",))
    if not any(each.startswith("--") for each in names):
        names = (*names, f"--{dashed}")
    pairs = [each.partition("/") for each in names]
    return tuple(yes for yes, _, _ in pairs), tuple(no for _, _, no in pairs if no)


class Command:
    """A function, called with what its command line says."""

    def __init__(self, function: Callable[..., None], *, interspersed: bool = True) -> None:
        self.function, self._interspersed = function, interspersed
        self.about = inspect.cleandoc(function.__doc__ or "")

    @cached_property
    def parameters(self) -> list[Parameter]:
        """Read when the command is used: a file may have several."""
        signature = inspect.signature(self.function, eval_str=True)
        return [Parameter(each.name, each.annotation, each.default) for each in signature.parameters.values()]

    @property
    def options(self) -> list[Parameter]:
        return [each for each in self.parameters if not isinstance(each.info, Argument)]

    @property
    def arguments(self) -> list[Parameter]:
        return [each for each in self.parameters if isinstance(each.info, Argument)]

    @cached_property
    def _by_name(self) -> dict[str, Parameter]:
        return {name: each for each in self.options for name in (*each.yes, *each.no)}

    def names(self) -> list[str]:
        shown = [each for each in self.options if not each.info.hidden]
        return [name for each in shown for name in (*each.yes, *each.no)] + list(HELP)

    def candidates(self, before: Sequence[str], text: str) -> dict[str, str]:
        """What `text` can become behind the words `before`: names of options, or values of what is due there.

        Each with what it means.
        """
        name, equals, value = text.partition("=") if text.startswith("--") else (text, "", "")
        option = self._by_name.get(name if equals else before[-1] if before else "")
        due = None if option is None or option.is_flag or option.info.bare is not None else option
        try:
            given, places = self._sorted(before[:-1] if due is not None and not equals else before)
        except UsageError:
            given, places = {}, []
        for number, argument in enumerate(self.arguments[: len(places)]):
            given[argument.name] = places[number:] if argument.multiple else places[number : number + 1]
        ended = "--" in before or (bool(places) and not self._interspersed)
        if due is not None and not ended:
            prefix = f"{name}=" if equals else ""
            found = due.candidates(value if equals else text, given)
            return {prefix + each: about for each, about in found.items()}
        if text.startswith("-") and not ended:
            names = [each for each in self.names() if each.startswith(text)]
            return {each: helptext.HELP_ROW[1] if each in HELP else self._by_name[each].info.help for each in names}
        following = (each for each in self.arguments if each.multiple or each.name not in given)
        return next((each.candidates(text, given) for each in following), {})

    def run(self, words: Sequence[str], path: str) -> None:
        """Call the function with what `words` say, or show the help of the command, which is called `path`."""
        try:
            values = self.values(words)
        except UsageError as error:
            raise UsageError(f"{error} (see: {path} --help)") from None
        if values is None:
            helptext.command(self, path)
        else:
            if "json" in values:
                console.use_json(values["json"])
            self.function(**values)

    def values(self, words: Sequence[str]) -> dict[str, Any] | None:
        """What `words` say of each parameter, None where they ask for help; UsageError where they cannot be read."""
        given, places = self._sorted(words)
        if _HELP in given:
            return None
        self._place(places, given)
        values: dict[str, Any] = {}
        for each in self.parameters:
            texts = given.get(each.name)
            if texts is None:
                if each.required:
                    raise UsageError(f"Missing option '{each.shown}'")
                values[each.name] = each.default
            else:
                values[each.name] = texts[-1] if each.is_flag else each.read(texts)
        return values

    def _sorted(self, words: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
        """The texts that were given for each option, help among them, and the words that are no options."""
        given: dict[str, list[Any]] = {}
        places: list[str] = []
        waiting = list(reversed(words))
        while waiting:
            word = waiting.pop()
            if word == "--" or (places and not self._interspersed):
                places += ([] if word == "--" and (self._interspersed or not places) else [word]) + waiting[::-1]
                break
            if len(word) < 2 or word[0] != "-":
                places.append(word)
                continue
            for name, value in _split(word, self._by_name):
                if name in HELP:
                    given[_HELP] = []
                    continue
                option = self._option(name)
                if option.is_flag:
                    if value is not None:
                        raise UsageError(f"{name} is a flag and takes no value, and '{value}' is given")
                    given.setdefault(option.name, []).append(name in option.yes)
                    continue
                if value is None:
                    value = option.info.bare
                if value is None and not waiting:
                    raise UsageError(f"{name} is the last word, expected a value after it")
                given.setdefault(option.name, []).append(waiting.pop() if value is None else value)
        return given, places

    def _option(self, name: str) -> Parameter:
        if (option := self._by_name.get(name)) is not None:
            return option
        raise UsageError(f"No such option: {name}{nearest(name, self.names())}")

    def _place(self, places: list[str], given: dict[str, list[Any]]) -> None:
        """The words that are no options, in the order of the arguments; one that is a list leaves the others theirs."""
        left = list(places)
        for place, argument in enumerate(self.arguments):
            after = len(self.arguments) - place - 1
            count = max(len(left) - after, 0) if argument.multiple else min(1, len(left))
            if count:
                given[argument.name], left = left[:count], left[count:]
            elif argument.required:
                raise UsageError(f"Missing argument '{argument.shown}'")
        if left:
            raise UsageError(f"Got unexpected extra argument ({' '.join(left)})")


def _split(word: str, known: Mapping[str, Parameter]) -> Iterator[tuple[str, str | None]]:
    """The options in one word, each with the value that the word itself gives it: `--a=1`, `-n3`, `-ae`."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        yield name, value if equals else None
        return
    for place, letter in enumerate(word[1:], 2):
        name = f"-{letter}"
        option = known.get(name)
        if option is not None and not option.is_flag:
            yield name, word[place:] or None
            return
        yield name, None


class Group:
    def __init__(self, about: str) -> None:
        self.about = about
        self.members: dict[str, Command | Group] = {}

    def command(
        self, name: str | None = None, *, interspersed: bool = True
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Add a function as a command. Unless `interspersed`, the first argument ends the options."""

        def added(function: Callable[..., None]) -> Callable[..., None]:
            self.members[name or function.__name__] = Command(function, interspersed=interspersed)
            return function

        return added

    def add(self, group: Group, name: str) -> None:
        self.members[name] = group

    def meanings(self) -> dict[str, str]:
        return {name: summary(each.about) for name, each in self.members.items()}

    def run(self, words: Sequence[str], path: str) -> None:
        """Run the command that the first word names with the rest, or show the group's help."""
        if not words or words[0] in HELP:
            helptext.group(path, self.about, self.meanings(), missing=not words)
            if not words:
                raise console.Exit(UsageError.exit_code)
            return
        if (member := self.members.get(words[0])) is None:
            raise unknown(words[0], list(self.members), path)
        member.run(words[1:], f"{path} {words[0]}")


def unknown(word: str, names: Sequence[str], path: str) -> UsageError:
    kind = "option" if word.startswith("-") else "command"
    named = f"{kind}: {word}" if kind == "option" else f"{kind} '{word}'"
    return UsageError(f"No such {named}{nearest(word, names)} (see: {path} --help)")


def meanings(values: Iterable[str]) -> Mapping[str, str]:
    return values if isinstance(values, Mapping) else dict.fromkeys(values, "")


def summary(about: str) -> str:
    """The first sentence of a docstring, as lists of commands show it."""
    return " ".join(about.split("\n\n")[0].split())
