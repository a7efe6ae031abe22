"""What the site has in addition to docs/: the documents next to it, reference pages (`reference`), and the gallery's
pages (`gallery`).

In the site, docs/ and the root of the repository are one folder: README.md is the home page, docs/studies.md is
studies.md, and examples/ is as it is. A link between documents therefore works on a forge and here: it is resolved
in the repository and written again for the site. mkdocs calls the functions by their names (hooks of mkdocs.yml).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import gallery
import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benches/README.md")
FOLDERS = ("examples",)
"""Of which every file can be read or downloaded."""
SHIM = "setup/site/iframe-worker.js"
_LINK = re.compile(r"(?P<head>\]\()(?P<path>[^)\s#:]+)(?P<tail>(?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents outside docs/, the examples, the shim of the search, the reference and the gallery's pages."""
    outside = [*DOCUMENTS, *(name for folder in FOLDERS for name in _files_below(folder))]
    for name in outside:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    files.append(File.generated(config, f"assets/{Path(SHIM).name}", abs_src_path=str(ROOT / SHIM)))
    for name, text in reference.pages().items():
        files.append(File.generated(config, name, content=text))
    for name, path in gallery.files().items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def _files_below(folder: str) -> list[str]:
    paths = sorted((ROOT / folder).rglob("*"))
    return [path.relative_to(ROOT).as_posix() for path in paths if path.is_file() and "__pycache__" not in path.parts]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write the links of a document for the site."""
    name = page.file.src_uri
    if files.get_file_from_path(name) is not None and name.startswith("reference/"):
        return markdown
    if name == gallery.DOCUMENT.name:
        markdown = gallery.with_links(markdown)
    in_repository = name if (ROOT / name).is_file() else f"docs/{name}"
    return _LINK.sub(lambda link: link["head"] + site_link(in_repository, link["path"]) + link["tail"], markdown)


def site_link(document: str, path: str) -> str:
    """A link of a document, relative to the document in the site; both are named from the root of the repository."""
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(document), path))
    here = posixpath.dirname(document.removeprefix("docs/"))
    return posixpath.relpath(goal.removeprefix("docs/"), here or ".")
