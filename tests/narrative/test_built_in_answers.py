"""Every built-in study answers its title: one sentence of at most 30 words, with a number; records of real runs too."""

from __future__ import annotations

import random
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ioassay
from contradictions import contradictions
from ioassay.analysis.descriptive import headline
from ioassay.narrative import describe_text
from ioassay.narrative.finding import answers
from ioassay.narrative.pipeline import analyse_all
from ioassay.narrative.say import say
from ioassay.store.dataset import Dataset
from ioassay.study import catalog

MOST_WORDS = 30
MEASURED = ("active-iozone", "active-iozone-15m", "active-iozone-binary", "active-iozone-matrix", "fleet", "quick")
"""Their answer needs claims beside what the kernel saw, or several hosts, which made numbers do not have."""
FOLDER = Path(__file__).parents[2] / "docs" / "gallery"
GALLERY = sorted({*FOLDER.glob("*.tar.xz")} - {FOLDER / "history.tar.xz"})  # which has numbers of runs, and no run
USUAL = ("total.iops", "read.lat.mean", "read.lat.p99")
SIMULATED = {"sim.span": 10.0, "sim.hit_ratio": 0.2, "sim.optimum_hit_ratio": 0.4}


def first_sentences(records: Dataset) -> list[str]:
    """What each answer of a run begins with; its means where nothing else answers."""
    found = [one.sentences[0] for one in answers(records.studies, analyse_all(records))]
    return found or describe_text.means_in_brief(headline(records, records.studies), 12)[:1]


def faults(sentence: str) -> list[str]:
    words = len(sentence.split())
    return [f"{words} words: {sentence}"] * (words > MOST_WORDS) + [f"no number: {sentence}"] * (
        not re.search(r"\d", sentence)
    )


@pytest.mark.parametrize("name", [name for name in catalog.builtin() if name not in MEASURED])
def test_a_built_in_study_answers_in_a_sentence_with_a_number(lab: Any, name: str) -> None:
    rows: list[Any] = []
    for study in catalog.load(name).studies:
        seen: dict[str, int] = {}
        noise = random.Random(study.name)

        def measure(
            point: Mapping[str, Any], _: int, study: Any = study, seen: Any = seen, noise: Any = noise
        ) -> dict[str, float]:
            step = seen.setdefault(str(point), len(seen))
            value = dict.fromkeys(study.analysis.responses or USUAL, 100000.0 * (1 + 0.2 * step))
            made = {name: mean * (1 + 0.01 * noise.random()) for name, mean in value.items()}
            return {**made, **(SIMULATED if study.driver == "simulate" else {})}

        rows.append(lab.run(study, measure, 3, first_order=sum(len(one.trials) for one in rows)))
    found = first_sentences(lab.records(*rows))
    assert found and [fault for sentence in found for fault in faults(sentence)] == []


@pytest.mark.parametrize("archive", GALLERY, ids=lambda path: path.name.partition(".")[0])
def test_a_real_run_answers_and_contradicts_nothing(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    records = ioassay.open(folder).records
    assert contradictions(records) == []
    found = [sentence for sentence in first_sentences(records) if sentence != str(say("conclude.nothing"))]
    assert [fault for sentence in found for fault in faults(sentence)] == []
