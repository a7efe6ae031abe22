"""Everything that a reader should doubt before believing a number, most serious first, each with its remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ioassay.narrative import phrases
from ioassay.records.record import FAILED, SKIPPED
from ioassay.report.figures import Drawn
from ioassay.report.raw_files import run_folder
from ioassay.report.trial_list import recorded
from ioassay.store.dataset import Dataset

_KEY = re.compile(r"[a-z]+\.[a-z_]+ ")


@dataclass(frozen=True)
class Alert:
    """One suspicion. `scope` says how much it concerns."""

    code: str
    text: str
    remedy: str
    scope: str

    @property
    def sentence(self) -> str:
        """The text with a capital, unless it begins with the key of a setting (`run.scheduler = …`)."""
        return self.text if _KEY.match(self.text) else self.text[:1].upper() + self.text[1:]


def alerts(records: Dataset, drawn: Sequence[Drawn]) -> list[Alert]:
    """Trials that did not go well, warnings of trials (each once), figures that are missing."""
    return [*_lost_trials(records), *_warnings(records), *_missing_figures(drawn)]


def _lost_trials(records: Dataset) -> list[Alert]:
    found = []
    every = recorded(records)
    for study in records.studies:
        name = study.name
        rows = every.filter(every["study"] == name)
        for status in (FAILED, SKIPPED):
            reasons = rows.filter(rows["status"] == status)["reason"].to_list()
            if reasons:
                text = f"{len(reasons)} of {rows.height} trials {'failed' if status == FAILED else 'were skipped'}"
                shown = "; ".join(dict.fromkeys(reason or "no reason was recorded" for reason in reasons))
                found.append(Alert(f"trials-{status}", f"{text}: {shown}", "see the raw output below", f"study {name}"))
        absent = records.planned.get(name, rows.height) - rows.height
        if absent > 0:
            text = f"{absent} of {records.planned[name]} planned trials were not run (or not needed)"
            go_on = f"ioassay run --resume {run_folder(records.root)}"
            found.append(Alert("trials-absent", text, go_on, f"study {name}"))
    return found


def _warnings(records: Dataset) -> list[Alert]:
    counted: dict[tuple[str, str, str], list[str]] = {}
    for row in records.warnings.iter_rows(named=True):
        counted.setdefault((row["code"], row["text"], row["remedy"] or ""), []).append(row["study"])
    return [
        Alert(code, text, remedy, f"{phrases.count(len(studies), 'trial')} of {', '.join(dict.fromkeys(studies))}")
        for (code, text, remedy), studies in counted.items()
    ]


def _missing_figures(drawn: Sequence[Drawn]) -> list[Alert]:
    """One for all figures of a study that are missing for the same reason."""
    missing: dict[tuple[str, str], list[str]] = {}
    for one in drawn:
        if one.problem:
            missing.setdefault((one.study, one.problem), []).append(one.name)
    return [
        Alert("figure-missing", f"{_figures(names)} nothing to show: {problem}", "", _where(study))
        for (study, problem), names in missing.items()
    ]


def _figures(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"Figure '{names[0]}' has"
    return f"{len(names)} figures ({', '.join(names)}) have"


def _where(study: str) -> str:
    return f"study {study}" if study else "all studies"
