"""recording.py OUT.svg COMMAND…: runs commands at a terminal and draws what it shows, as a film in one SVG.

The terminal is a real one (a pseudoterminal, WIDTH by HEIGHT characters), the commands run in the current folder, and
what they print stands as it was printed. Only time is changed: typing takes TYPING_S a character, and of each command
at most MOST_SCREENS screens are kept, the last one always. The film needs no script. Who asked for less motion sees
its last screen. docs/images/session.svg was made so, on an idle machine:

    recording.py session.svg 'ioassay quick' 'truncate --size 64M hole' 'ioassay witness -- fio --name=hole …'
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path

import pyte

WIDTH, HEIGHT = 112, 25
MOST_SCREENS = 10
PROMPT = "$ "
TYPING_S, RETURN_S, SCREEN_S, READING_S = 0.04, 0.4, 0.7, 4.0

COLUMN, ROW, MARGIN = 8.4, 18, 14
"""Of a character, in pixels, at a size of 14."""
COLOURS = {
    "default": "#d5d9de",
    "black": "#7d8590",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#f0f3f6",
}

Run = tuple[int, str, str, bool]
"""Characters of one look: first column, text, colour, whether bold."""
Picture = tuple[tuple[Run, ...], ...]
"""The rows of a screen."""


def main(out: Path, commands: list[str]) -> None:
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.ByteStream(screen)
    film = [film_part for command in commands for film_part in recorded(command, screen, stream)]
    out.write_text(drawn(film))


def recorded(command: str, screen: pyte.Screen, stream: pyte.ByteStream) -> Iterator[tuple[Picture, float]]:
    """The pictures of a command that is typed and run, each with the seconds for which it stands."""
    stream.feed(PROMPT.encode())
    for character in command:
        stream.feed(character.encode())
        yield picture(screen), TYPING_S
    stream.feed(b"\r\n")
    yield picture(screen), RETURN_S
    screens = list(printed(command, screen, stream))
    kept = sorted({round(index * (len(screens) - 1) / (MOST_SCREENS - 1)) for index in range(MOST_SCREENS)})
    for index in kept if len(screens) > MOST_SCREENS else range(len(screens)):
        yield screens[index], READING_S if index == len(screens) - 1 else SCREEN_S


def printed(command: str, screen: pyte.Screen, stream: pyte.ByteStream) -> Iterator[Picture]:
    """The screen after each piece of the command's output, and at its end."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("bash", ["bash", "-c", command], {**os.environ, "TERM": "xterm", "COLUMNS": str(WIDTH)})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    while True:
        quiet = not select.select([terminal], [], [], 0.1)[0]
        if quiet:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the end of a pseudoterminal
            break
        stream.feed(piece)
        yield picture(screen)
    os.close(terminal)
    os.waitpid(child, 0)
    yield picture(screen)


def picture(screen: pyte.Screen) -> Picture:
    return tuple(tuple(runs(screen, row)) for row in range(HEIGHT))


def runs(screen: pyte.Screen, row: int) -> Iterator[Run]:
    line = [screen.buffer[row][column] for column in range(WIDTH)]
    column = 0
    for (colour, bold), group in groupby(line, key=lambda one: (one.fg, one.bold)):
        text = "".join(one.data for one in group)
        if text.strip():
            yield column, text.rstrip(), COLOURS.get(colour, COLOURS["default"]), bold
        column += len(text)


def drawn(film: list[tuple[Picture, float]]) -> str:
    """All pictures one below the other, of which a window shows one at a time; equal rows are drawn once."""
    width, height = round(WIDTH * COLUMN + 2 * MARGIN), HEIGHT * ROW + 2 * MARGIN
    rows: dict[tuple[Run, ...], int] = {}
    strip, steps, at_s = [], [], 0.0
    total_s = sum(seconds for _, seconds in film)
    for number, (shown, seconds) in enumerate(film):
        steps.append(f"{100 * at_s / total_s:.2f}%{{transform:translateY({-number * height}px)}}")
        at_s += seconds
        for at, row in enumerate(shown):
            if row:
                name = rows.setdefault(row, len(rows))
                strip.append(f'<use href="#r{name}" y="{number * height + MARGIN + (at + 1) * ROW - 5}"/>')
    last = f"transform:translateY({-(len(film) - 1) * height}px)"
    definitions = "".join(f'<g id="r{name}">{"".join(map(text_of, row))}</g>\n' for row, name in rows.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<title>A recorded terminal session with ioassay</title>
<style>
text{{font:14px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;white-space:pre}}
#film{{animation:film {total_s:.1f}s steps(1,end) infinite}}
@keyframes film{{{"".join(steps)}}}
@media(prefers-reduced-motion:reduce){{#film{{animation:none;{last}}}}}
</style>
<defs>
{definitions}</defs>
<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>
<g id="film">
{chr(10).join(strip)}
</g>
</svg>
"""


def text_of(run: Run) -> str:
    column, text, colour, bold = run
    weight = ' font-weight="bold"' if bold else ""
    x, length = MARGIN + column * COLUMN, len(text) * COLUMN
    return f'<text x="{x:.1f}" textLength="{length:.1f}" fill="{colour}"{weight}>{escape(text)}</text>'


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit("usage: recording.py OUT.svg COMMAND…")
    main(Path(sys.argv[1]), sys.argv[2:])
