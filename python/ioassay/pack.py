"""A pack: one folder with everything of one subject, and the object that says what it adds to which list.

Built-in packs are in `ioassay.packs`, one line each; an installed package gives its own by an entry point of the group
`ioassay.packs`. Both are the same object, and their entries are looked up alike (`ioassay.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, TypeVar

    T = TypeVar("T")

Entries = Mapping[str, str]
"""Name -> `module` or `module:Class`, imported on first use."""
Commands = Mapping[str, tuple[str, str]]
"""Name -> `module:function`, of a group the module with `register(app)`, and the first sentence of the help."""


LISTS = (
    *(
        "drivers",
        "targets",
        "monitors",
        "claims",
        "programs",
        "formats",
        "analyses",
        "merged",
        "figures",
        "histogram_logs",
    ),
    *("observers", "study_files", "executors", "paths", "cases", "commands", "api"),
)


class Pack:
    """What one subject adds to each list of docs/ADDING.md."""

    def __init__(self, about: str, *, before: Mapping[str, str] | None = None, **lists: Entries | Commands) -> None:
        """`about` says in one sentence what the subject is, `lists` are of `LISTS`.

        `programs`: a tool of `claims` -> a pattern of its programs' names where its own is not enough.
        `paths`: a kind of target -> the module that says where the time of a request goes (the question `costs`).
        `cases`: what cases differ in -> the module whose `parts` say what that comes to (the question `conclude`).
        `histogram_logs`: a tool -> the module with its `histogram_logs(folder)` and `latency_windows(paths)`.
        `observers`: a backend of the witness -> the module of it (`verify.witness.observed_command`).
        `study_files`: the ending of a file -> the module whose `study_table(path)` is the study in it. `merged`: the
        former name of a question -> the one that has its answers now. `api`: a name of `import ioassay` -> the module
        that has it, or its package. `before`: a question, a figure or a command -> that of the core that it precedes in
        its list; others end it.
        """
        if unknown := lists.keys() - {*LISTS}:
            raise TypeError(f"a pack has no list '{min(unknown)}'; expected {', '.join(LISTS)}")
        self.about, self.before = about, before or {}
        self.lists: Mapping[str, Mapping[str, Any]] = lists


@cache
def built_in() -> Mapping[str, Pack]:
    """The packs of this installation, by name."""
    return {name: import_module(f"ioassay.packs.{name}").PACK for name in import_module("ioassay.packs").PACKS}


def _below(pack: str, entry: Any) -> Any:
    """An entry of a built-in pack, whose modules are named from its folder on: `.driver:Fio`."""
    if isinstance(entry, tuple):
        return (_below(pack, entry[0]), *entry[1:])
    return f"ioassay.packs.{pack}{entry}" if entry.startswith(".") else entry


def listed(group: str, core: Mapping[str, T]) -> dict[str, T]:
    """A list of the core, and what the built-in packs add to it: each before the one that it precedes."""
    found = dict(core)
    for package, pack in built_in().items():
        for name, entry in pack.lists.get(group, {}).items():
            entry = _below(package, entry)
            names = list(found)
            place = names.index(pack.before[name]) if pack.before.get(name) in found else len(names)
            found = dict([*list(found.items())[:place], (name, entry), *list(found.items())[place:]])
    return found


def words(text: str) -> list[str]:
    """The words of a text: how packs write long lists of names."""
    return text.split()


def files(folder: str) -> dict[str, Path]:
    """The TOML files in the folders of that name of all built-in packs, such as `studies` or `words`, by name."""
    from pathlib import Path

    packs = Path(__file__).parent / "packs"
    return {path.stem: path for name in built_in() for path in (packs / name / folder).glob("*.toml")}
