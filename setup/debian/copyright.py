"""Prints the copyright file of the package at TREE, in Debian's machine-readable format: `copyright.py TREE`.

The licenses of the bundled libraries are those that their wheels have: a stanza for each library, with its text. Of
texts that every Debian has in /usr/share/common-licenses only the place is given
(www.debian.org/doc/packaging-manuals/copyright-format/1.0).
"""

import re
import sys
from email.parser import HeaderParser
from pathlib import Path

OURS = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ioassay
Comment: The libraries in /usr/lib/ioassay are built by their own developers.

Files: *
Copyright: 2026 The ioassay developers
License: Expat or Apache-2.0
"""
COMMON = {
    "Apache License": "Apache-2.0",
    "GNU GENERAL PUBLIC LICENSE": "GPL-3",
}
"""A line that heads the text of a license -> its file in /usr/share/common-licenses."""


def main(tree: Path) -> None:
    root = Path(__file__).parent.parent.parent
    print(OURS)
    for about in sorted(tree.glob("usr/lib/ioassay/lib/python3*/site-packages/*.dist-info")):
        if not about.name.startswith("ioassay-"):
            print(stanza(about, tree))
    print("License: Expat", indented((root / "LICENSE-MIT").read_text()), sep="\n", end="\n\n")
    print("License: Apache-2.0", indented("The text is in /usr/share/common-licenses/Apache-2.0."), sep="\n")


def stanza(about: Path, tree: Path) -> str:
    """The library whose metadata are in the folder `about`."""
    metadata = HeaderParser().parsestr((about / "METADATA").read_text())
    texts = [path for path in sorted(about.rglob("*")) if re.match(r"(LICEN[CS]E|COPYING|NOTICE)", path.name)]
    texts = [path for path in texts if path.is_file()]
    if not texts:
        raise SystemExit(f"copyright: {metadata['Name']} has no text of its license: look it up in its repository")
    written = "\n".join(path.read_text() for path in texts)
    holders = list(dict.fromkeys(re.findall(r"^[\s*#;]*Copyright:?\s+((?:\(c\)|©|\d{4}).*\S)", written, re.I | re.M)))
    holders = holders or [f"the authors of {metadata['Name']}"]
    name = f"{metadata['Name']}-license"
    return "\n".join(
        [
            "Files: " + "\n ".join(f"{path}" for path in places(about, tree)),
            "Copyright: " + "\n           ".join(holders),
            f"License: {name}",
            indented("\n\n".join(abridged(path, tree) for path in texts)),
            "",
        ]
    )


def places(about: Path, tree: Path) -> list[str]:
    """The folders and files of the library, without the leading slash, as dpkg names them."""
    names = {line.partition(",")[0].strip('"').split("/")[0] for line in (about / "RECORD").read_text().splitlines()}
    found = [about.parent / name for name in sorted(names - {"", ".."}) if (about.parent / name).exists()]
    return [f"{path.relative_to(tree)}{'/*' if path.is_dir() else ''}" for path in found]


def abridged(path: Path, tree: Path) -> str:
    """The text, or where it is, if it has in it one that every Debian has."""
    text = path.read_text()
    common = [name for head, name in COMMON.items() if re.search(rf"^\s*{head}\s*$", text, re.M)]
    if not common:
        return text
    system = " and ".join(f"/usr/share/common-licenses/{name}" for name in common)
    return f"The text is in /{path.relative_to(tree)}; see also {system}."


def indented(text: str) -> str:
    """The text as the continuation of a field: a space before each line, and a dot for an empty one."""
    return "\n".join(f" {line.rstrip()}" if line.strip() else " ." for line in text.strip().splitlines())


main(Path(sys.argv[1]))
