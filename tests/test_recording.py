"""The film of a terminal session that README.md begins with, and what records it (setup/site/recording.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
SESSION = ROOT / "docs" / "images" / "session.svg"
SVG = "{http://www.w3.org/2000/svg}"


def texts(film: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(film).iter(f"{SVG}text")]


def test_a_session_is_typed_run_and_shown_as_it_was_printed(tmp_path: Path) -> None:
    commands = ["printf 'a < b\\n'; printf '\\033[31mred\\033[0m, plain\\n'", "seq 40; exit 3"]
    command = [sys.executable, str(ROOT / "setup/site/recording.py"), "film.svg", *commands]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
    film = (tmp_path / "film.svg").read_text()
    shown = texts(film)
    assert {"$ p", f"$ {commands[0]}", "a < b", "red", ", plain", "20", "40"} <= set(
        shown
    )  # the first numbers may be gone
    assert '#ff7b72">red' in film
    steps = re.findall(r"translateY\(-?(\d+)px\)", film)
    assert len(set(steps)) >= sum(map(len, commands))


def test_the_film_of_the_readme_is_small_and_needs_neither_script_nor_network() -> None:
    film = SESSION.read_text()
    assert f"(docs/images/{SESSION.name})" in (ROOT / "README.md").read_text()
    assert len(film) < 400_000
    assert not re.search(r"<script|<foreignObject|@import|url\(|href=\"[^#]", film)
    typed = [text for text in texts(film) if text.startswith("$ ioassay ")]
    assert {"$ ioassay quick"} <= set(typed)
    assert any("the kernel confirms" in text for text in texts(film))
