"""Drivers as a run uses them: told what their tool offers, asked for a command, given what a process left."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from ioassay.drivers import driver
from ioassay.process import supervisor
from ioassay.roles import Driver, Load, Outcome, Parsed, Trial
from ioassay.runner.trial import step_argv, with_steps

from ..corpora import CORPUS
from ..patience import PATIENCE_S

GOLDEN = Path(__file__).parents[1] / "golden"
NOWHERE = Load("null", None, 0, read_only=False)
"""A load without storage."""
STRESS_NG = json.loads((GOLDEN / "stress_ng" / "0.15.06" / "probes.json").read_text())
"""What a real stress-ng answered to the driver's probes."""


def _fio_probes() -> dict[str, str]:
    offer = tomllib.loads((CORPUS / "drivers" / "fio_offer.toml").read_text())
    engines = "".join(f"\t{name}\n" for name in offer["engines"])
    return {
        "engines": f"Available IO engines:\n{engines}",
        "options": "\n".join(f"{name:24}: what it does" for name in offer["options"]),
    }


OFFERS: dict[str, tuple[str, Mapping[str, str]]] = {
    "fio": ("fio-3.33\n", _fio_probes()),
    "stress_ng": ("stress-ng, version 0.15.06 (gcc 12.2.0, x86_64 Linux)", STRESS_NG),
    "db_bench": ("db_bench version 7.8.3", {"help": (CORPUS / "drivers" / "db_bench_help.txt").read_text()}),
}


def offered(name: str) -> Any:
    """A driver that was told what a known version of its tool offers."""
    made = driver(name)
    if name in OFFERS:
        made.configure(*OFFERS[name])
    return made


def asked(name: str) -> Any:
    """A driver that has asked the installed tool, in a folder that everybody may write: stress-ng refuses others."""
    made = driver(name)
    tool = made.tool()
    assert tool is not None
    answers = {}
    for probe, argv in tool.probes.items():
        captured = supervisor.capture(argv, timeout_s=PATIENCE_S, cwd=Path(gettempdir()))
        answers[probe] = captured.stdout + (captured.stderr if name == "stress_ng" else "")
    made.configure(supervisor.capture(tool.version_argv, timeout_s=PATIENCE_S).stdout, answers)
    return made


def trial(name: str, params: Mapping[str, Any], **more: Any) -> Trial:
    """The first trial of a study of nothing but these parameters."""
    common = {"study": "s", "point": {}, "target": {}, "run": {}, "repetition": 0, "seed": 1, "order": 0}
    return Trial(**{"id": "t", "driver": name, "params": params, **common, **more})


def ended(folder: Path, stdout: str | bytes = "", stderr: str = "", **how: Any) -> Outcome:
    """How a process ended, with exit status 0 after a second unless it is said otherwise; its output is in `folder`."""
    folder.mkdir(exist_ok=True)
    (folder / "stdout").write_bytes(stdout if isinstance(stdout, bytes) else stdout.encode())
    (folder / "stderr").write_text(stderr)
    common = {"exit_code": 0, "signal": None, "timed_out": False, "started_unix_s": 0.0, "duration_s": 1.0}
    return Outcome(**{**common, "stdout": folder / "stdout", "stderr": folder / "stderr", **how})


def versions(tool: str) -> list[str]:
    """The versions of a tool whose outputs were captured."""
    return sorted({path.parents[1].name for path in (GOLDEN / tool).glob("*/*/case.json")})


def captured(tool: str, version: str, name: str) -> Parsed:
    """The driver's reading of a captured case in tests/golden, made by the tool's capture.py."""
    folder = GOLDEN / tool / version / name
    case = json.loads((folder / "case.json").read_text())
    outcome = Outcome(**case["outcome"], stdout=folder / "stdout", stderr=folder / "stderr")
    return driver(tool).parse(trial(tool, case["params"], id=name), outcome, folder)


def run(
    made: Driver, params: Mapping[str, Any], load: Load, raw: Path, timeout_s: float | None = None, **how: Any
) -> tuple[Parsed, Outcome]:
    """Run one trial as `ioassay.runner.run` would; `how` goes to the supervisor."""
    raw.mkdir(exist_ok=True, parents=True)
    wanted = trial(made.name, params, id="0123")
    command = made.command(wanted, load, raw)
    assert command is not None
    for name, text in command.files.items():
        (raw / name).write_text(text)
    outcome = supervisor.run(
        step_argv(command, load, raw),
        stdout=raw / "stdout",
        stderr=raw / "stderr",
        timeout_s=timeout_s or command.timeout_s,
        cwd=command.cwd,
        **how,
    )
    return made.parse(wanted, with_steps(outcome, command, raw), raw), outcome


def lay_out(folder: Path, files: Mapping[str, Any]) -> None:
    """Make files: a text, so many zero bytes, `{ hex = BYTES }` or `{ link = PATH }`."""
    for name, held in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(held, str):
            path.write_text(held)
        elif isinstance(held, int):
            path.write_bytes(bytes(held))
        elif "hex" in held:
            path.write_bytes(bytes.fromhex(held["hex"]))
        else:
            path.symlink_to(held["link"])
