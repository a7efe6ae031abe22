"""Random fio job files, made of the pieces in tests/corpus/drivers/fio_random_jobs.toml."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Any

from ...corpora import CORPUS

PIECES: dict[str, Any] = tomllib.loads((CORPUS / "drivers" / "fio_random_jobs.toml").read_text())


def job_file(draw: random.Random, folder: Path) -> str:
    """The text of one job file; what it includes is written to `folder`."""
    lines: list[str] = []
    if draw.random() < 0.7:
        lines += [draw.choice(("[global]", "[global]", "[global_more]")), *_options(draw, folder, 4)]
    for number in range(draw.randint(1, 3)):
        if draw.random() < 0.15:
            lines += ["[global]", *_options(draw, folder, 2)]
        lines += [draw.choice(PIECES["headings"]).format(number), *_options(draw, folder, 6)]
    return draw.choice(("\n", "\n", "\n", "\r\n")).join(lines) + draw.choice(("", "\n"))


def _options(draw: random.Random, folder: Path, most: int) -> list[str]:
    options = [_option(draw) for _ in range(draw.randint(0, most))]
    if draw.random() < 0.2:
        name = f"inc{draw.randrange(4)}.fio"
        inner = [_option(draw) for _ in range(draw.randint(0, 3))]
        if draw.random() < 0.3:
            (folder / "deep.inc").write_text(_option(draw) + "\n")
            inner.append("include deep.inc")
        (folder / name).write_text("\n".join(inner))
        options.insert(draw.randint(0, len(options)), f"include {name}")
    blanks = draw.choice(("", "", "", " ", "\t"))
    return [blanks + option for option in options]


def _option(draw: random.Random) -> str:
    """One option; a quarter of them are odd."""
    makers = (
        lambda: f"filename={draw.choice(PIECES['names'])}",
        lambda: f"filename={':'.join(draw.choices(PIECES['names'], k=draw.randint(1, 3)))}",
        lambda: f"directory={':'.join(draw.choices(PIECES['folders'], k=draw.randint(1, 3)))}",
        lambda: f"opendir={draw.choice(PIECES['opened'])}",
        lambda: f"nrfiles={draw.randint(1, 4)}",
        lambda: f"numjobs={draw.randint(1, 4)}",
        lambda: f"filename_format={draw.choice(PIECES['formats'])}",
        lambda: draw.choice(PIECES["patterns"]),
        lambda: draw.choice(PIECES["sizes"]),
    )
    kind = draw.randrange(12)
    return str(makers[kind]() if kind < len(makers) else draw.choice(PIECES["odd"]))
