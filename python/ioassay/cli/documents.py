"""The documents of docs/ by topic, for `ioassay help TOPIC`: those in the package, or of a checkout its own.

setup/wheel.sh puts them into the package. Pages of pictures are left out, there and here.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_SUFFIX = ".md"
_PICTURES = {"gallery", "pictures"}
_MOST_BYTES = 200
"""Of a file, for its heading, which is its first line."""


def topics() -> dict[str, Path]:
    """Topic -> file, sorted; none where an installation was built without documents."""
    shipped = _PACKAGE / "docs"
    folder = shipped if shipped.is_dir() else _PACKAGE.parent.parent / "docs"
    files = {path.stem.lower(): path for path in [*folder.glob(f"*{_SUFFIX}"), *folder.glob(f"*/*{_SUFFIX}")]}
    return {topic: files[topic] for topic in sorted(files.keys() - _PICTURES)}


def topic(word: str) -> str:
    """The topic that a word means: `safety` of `Safety`, `safety.md` and `docs/safety.md`."""
    return Path(word).name.lower().removesuffix(_SUFFIX)


def headings() -> dict[str, str]:
    """What each document is about: its heading."""
    found = {}
    for name, path in topics().items():
        with path.open("rb") as file:
            first, _, _ = file.read(_MOST_BYTES).decode(errors="replace").partition("\n")
        found[name] = first.lstrip("# ")
    return found
