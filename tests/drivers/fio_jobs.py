"""Random fio job files: whatever decides which paths a job opens, in every spelling that fio takes.

All names are relative or below `${BASE}`, so that the jobs can be run in a folder of their own.
"""

from __future__ import annotations

import random
from pathlib import Path

FOLDERS = ("d", "e", "sp ace", "tree", "tree/deep", "d/d")
NAMES = ("x", "y", "a b", "d/x", "./x", "d/../y", "x:y", "x::y", "a\\:b", ":x", "${BASE}/x", "x${UNSET}", "${NAME}")
ENVIRONMENT = {
    "NAME": "from the environment",
    "OPTION": "filename=z",
    "KEY": "filename",
    "TWO": "x:y",
    "SIZE": "8k",
    "HASH": "x#y",
    "EMPTY": "",
}
_FORMATS = (
    "$jobname.$jobnum",
    "f.$filenum",
    "$JOBNAME-$filenum-$jobnum",
    "plain",
    "d/$jobname.$filenum",
    "$clientuid.x",
)
_ODD = (
    "description=${NAME} # filename=x",
    "description= two  words ; rw=write",
    "# filename=x",
    ";",
    "   \t ",
    "name=other",
    "${OPTION}",
    "${KEY}=w",
    "${EMPTY}",
    "write_bw_log",
    "time_based=0",
    "direct=0",
    "group_reporting",
    "stonewall",
    "thread",
    "filename =  y ",
    "directory= d",
    "size = ${SIZE}",
    "bs=$pagesize",
    "size=$ncpus*$pagesize",
    "numjobs=$ncpus",
    "size=4096+$pagesize/2",
    "filename=x$ncpus",
    "filename=$ncpus/x",
    "iodepth=4\\",
    'description="x"',
    "filename='q'",
    'filename="q"',
    "filename=x,y",
    "filename=${TWO}",
    "filename=${HASH}",
    "filename=${UNCLOSED",
    "filename=",
    "filename",
    "filename=:",
    "nrfiles=0",
    "file_service_type=sequential",
    "ioengine=null",
    "ioengine=libaio",
    "includes=x",
    "no_such_option=1",
    "opendir=none",
)


def job_file(draw: random.Random, folder: Path) -> str:
    """The text of one job file; what it includes is written to `folder`."""
    lines: list[str] = []
    if draw.random() < 0.7:
        lines += [draw.choice(("[global]", "[global]", "[global_more]")), *_options(draw, folder, 4)]
    for number in range(draw.randint(1, 3)):
        if draw.random() < 0.15:
            lines += ["[global]", *_options(draw, folder, 2)]
        heading = draw.choice(
            (f"[job{number}]", "[a b]", "[a b ]", "[d]", "[x]", "[a:b]", "[j] ; why", "  [in]", "[a]b]")
        )
        lines += [heading, *_options(draw, folder, 6)]
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
    kind = draw.randrange(12)
    if kind == 0:
        return f"filename={draw.choice(NAMES)}"
    if kind == 1:
        return f"filename={':'.join(draw.choices(NAMES, k=draw.randint(1, 3)))}"
    if kind == 2:
        return f"directory={':'.join(draw.choices(FOLDERS, k=draw.randint(1, 3)))}"
    if kind == 3:
        return f"opendir={draw.choice(('tree', 'tree/', './tree', 'tree/deep', 'empty', '${BASE}/tree'))}"
    if kind == 4:
        return f"nrfiles={draw.randint(1, 4)}"
    if kind == 5:
        return f"numjobs={draw.randint(1, 4)}"
    if kind == 6:
        return f"filename_format={draw.choice(_FORMATS)}"
    if kind == 7:
        return draw.choice(("rw=read", "rw=write", "readwrite=randrw", "rw=randread"))
    if kind == 8:
        return draw.choice(("size=4k", "size=8k", "bs=1k", "blocksize=512", "filesize=4k", "io_size=4k"))
    return draw.choice(_ODD)
