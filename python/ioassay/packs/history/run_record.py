"""What the history keeps of a run: its numbers, what they were measured on, and what they came to. No raw files.

`of_run` makes the rows, one for each study of the run, and `of_findings` what the findings say of a study in a few
words, for lists. Names of this machine, its drives and people are replaced as on a page (`host.privacy`), home folders
are `~`; a machine is a keyed hash, which is equal in all runs of one user.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ioassay import metrics
from ioassay.analysis.measurements.cells import cells
from ioassay.errors import InputError
from ioassay.narrative import pipeline
from ioassay.narrative.finding import Finding, answers
from ioassay.packs.history.record_columns import BEGUN, FACTS, SEPARATOR, VALUES, VERSION, VERSION_COLUMN, model
from ioassay.report import FINDINGS, PAGE
from ioassay.stats.result import mean_of
from ioassay.store.dataset import Dataset, Host, machine, section
from ioassay.study.model import Study

if TYPE_CHECKING:
    import polars as pl

_IDENTITY_DIGITS = 16
_HOST_DIGITS = 8
_CALLED = ("study", "host")
"""By these a user asks for runs."""


class Summary(NamedTuple):
    """What a study of a run came to: the grade of the machine's conditions, the worst verdict, one sentence."""

    grade: str = ""
    verdict: str = ""
    headline: str = ""


def of_run(run: Dataset, label: str, host: str, hidden: Callable[[str], str]) -> pl.DataFrame:
    """A row for each study of a run; `hidden` replaces names in a text, `label` and `host` are as of `Store.add`.

    InputError for a run in which no trial ever began.
    """
    import polars as pl

    findings = stored_findings(run.root)
    if findings is None:
        findings = pipeline.analyse_all(run)
    page = run.root / "report" / PAGE
    shared = {VERSION_COLUMN: VERSION, "run": identity(run), BEGUN: begun(run)}
    texts = {"commit": label, "page": str(page.resolve()) if page.is_file() else "", **({"host": host} if host else {})}
    rows = []
    for study, own in zip(run.studies, heads(run.studies, run.host, findings), strict=True):
        kept = {name: text if name in _CALLED else hidden(text) for name, text in {**own, **texts}.items()}
        values = zip(*_values(run, study, hidden), strict=True)
        rows.append({**shared, **kept, **dict(zip(VALUES, map(list, values), strict=False))})
    return pl.DataFrame(rows, schema=model().schema)


def heads(studies: Sequence[Study], host: Host, findings: Sequence[Finding]) -> list[dict[str, str]]:
    """What is known of each study of a run in addition to its values: TEXTS, but for `page` and `commit`."""
    return [
        {
            "study": study.name,
            "title": study.title or study.name,
            "target": _target(study),
            "host": _host(host, study),
            **_facts(machine(host, study), study),
            **of_findings(studies, findings, study)._asdict(),
        }
        for study in studies
    ]


def identity(run: Dataset) -> str:
    """Equal for the same trials with the same numbers, wherever the run's folder is, and redacted or not."""
    digest = hashlib.sha256()
    for frame in (run.trials, run.traced, run.counting):
        for row in frame.sort("trial").iter_rows(named=True) if frame is not None else ():
            numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
            kept = [row["trial"], row["status"], sorted(numbers.items())]
            digest.update(json.dumps(kept).encode())
    return digest.hexdigest()[:_IDENTITY_DIGITS]


def begun(run: Dataset) -> datetime:
    """When its first trial began; of results that say no time, when they were imported."""
    times = [moment for moment in run.trials["started_unix_s"].to_list() if moment]
    gathered = run.host.get("gathered_unix_s")
    if not times and not isinstance(gathered, int | float):
        raise InputError(f"{run.root}: no trial of it ever began; expected a run with results")
    return datetime.fromtimestamp(min(times) if times else float(str(gathered)), UTC).replace(tzinfo=None)


def _values(run: Dataset, study: Study, hidden: Callable[[str], str]) -> Iterator[tuple[Any, ...]]:
    for response in run.responses(study):
        known = metrics.metric(response)
        for cell in cells(run, study, response).cells:
            point, label = hidden(json.dumps(dict(cell.point), ensure_ascii=False)), hidden(cell.label)
            numbers = int(cell.values.size), mean_of(cell.values), cell.values.tolist()
            yield label, point, response, known.unit, known.better, *numbers


def _target(study: Study) -> str:
    """`device /dev/nvme0n1`, `file testfile`: the kind, and where it is; '' for none."""
    if study.target.kind == "null":
        return ""
    path = (study.target.model_extra or {}).get("path")
    return " ".join(filter(None, (study.target.kind, str(path or ""))))


def _host(host: Host, study: Study) -> str:
    """The names of the hosts as the study calls them; of this machine the hash that stands for it."""
    if study.hosts:
        return ", ".join(study.hosts)
    hashes = section(host, "identity")
    return str(hashes.get("machine") or hashes.get("name") or "")[:_HOST_DIGITS]


def _facts(host: Host, study: Study) -> dict[str, str]:
    """What all machines of the study have alike; '' for what is not known."""
    cpu, kernel, disk, tools = (section(host, name) for name in ("cpu", "kernel", "disk", "tools"))
    mount = section(disk, "mount")
    drives = [drive for drive in disk.get("devices") or () if isinstance(drive, Mapping)]

    def joined(values: object, separator: str = ", ") -> str:
        return (
            separator.join(dict.fromkeys(str(value) for value in values if value)) if isinstance(values, list) else ""
        )

    own = [line for name, line in tools.items() if Path(name).name.replace("-", "_") == study.driver]
    flaws = section(cpu, "mitigations")
    found: dict[str, object] = {
        "ioassay": section(host, "ioassay").get("version"),
        "kernel": kernel.get("release"),
        "tool": study.driver,
        "tool_version": joined(own or ([*tools.values()] if len(tools) == 1 else [])),
        "drive": joined([drive.get("model") for drive in drives]),
        "firmware": joined([drive.get("firmware") for drive in drives]),
        "filesystem": mount.get("filesystem"),
        "mount_options": joined(mount.get("options"), ","),
        "mitigations": "; ".join(f"{flaw}: {state}" for flaw, state in flaws.items()),
        "governor": joined([*section(cpu, "governors")]),
        "cpu": cpu.get("model"),
        "settings": _settings(study),
    }
    return {name: "" if found[name] is None else str(found[name]) for name in FACTS}


def _settings(study: Study) -> str:
    """`params.direct=1; target.size=134217728`: what is given and no factor, relative values as they were written.

    Of a file the folder counts, since its name may be that of one run.
    """
    tables = study.model_dump(mode="json", include={"target", "params", "run"}, exclude_defaults=True)
    if study.target.kind == "file" and (path := tables["target"].get("path")):
        tables["target"]["path"] = str(Path(path).parent)
    given = dict(_flat(tables))
    given |= {key: value for key, value in (study.relative.written if study.relative else {}).items() if key in given}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in sorted(given.items())}
    return SEPARATOR.join(f"{key}={text}" for key, text in texts.items())


def _flat(table: Mapping[str, Any], beginning: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{beginning}{name}.")
        else:
            yield f"{beginning}{name}", value


# What findings say of a study in a few words


def of_findings(studies: Sequence[Study], findings: Sequence[Finding], study: Study) -> Summary:
    """The answer's first sentence; where nothing answers for the study, the first that is said of its conditions."""
    own = [finding for finding in findings if finding.study == study.name]
    stated = {finding.question: finding.statistics for finding in reversed(own)}
    answered = [one for one in answers(studies, findings) if one.study in ("", study.name)]
    said = [str(one.sentences[0]) for one in answered if one.sentences]
    said += [str(one.statements[0]) for one in own if one.question == "describe" and one.statements]
    worst = stated.get("verdict", {}).get("worst", {})
    return Summary(stated.get("conditions", {}).get("grade", ""), worst.get("category", ""), next(iter(said), ""))


def stored_findings(root: Path) -> list[Finding] | None:
    """What the report of a run says, as far as a summary needs it; None without a report, or of a damaged one."""
    try:
        tables = json.loads((root / "report" / FINDINGS).read_bytes())
        return [
            Finding(
                study=str(table["study"]),
                question=str(table["question"]),
                statements=[str(statement["text"]) for statement in table["statements"]],
                statistics=table["statistics"],
                leads=table.get("leads", False),
                withheld=table.get("withheld", ""),
            )
            for table in tables
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return None
