"""What every analysis and figure of a plugin promises, and every parser of claims."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ioassay import analysis, formats
from ioassay.errors import InputError
from ioassay.narrative.finding import Finding
from ioassay.records.record import Claim, Scalar
from ioassay.report import figures
from ioassay.report.figures.spec import NoData, read_spec
from ioassay.store.dataset import Dataset
from ioassay.study.model import Figure
from ioassay.testing.made_records import records


class RecordsContract:
    """A subclass states a study, and what its trials measured."""

    study: ClassVar[Mapping[str, Any]]

    def measure(self, point: Mapping[str, Scalar], repetition: int) -> Mapping[str, float]:
        """The metrics of a trial."""
        raise NotImplementedError("state what the trials measured")

    def records(self, folder: Path) -> Dataset:
        """The records of these trials."""
        return records(folder, self.study, self.measure)

    def unmeasured(self, folder: Path) -> Dataset:
        """The same without a metric."""
        return records(folder, self.study, lambda point, repetition: {})


class AnalysisContract(RecordsContract):
    """A subclass states the analysis as well: a module or an object with `analyse`."""

    analysis: ClassVar[Any]

    def findings(self, data: Dataset) -> Sequence[Finding]:
        """What it finds in the only study."""
        found: Sequence[Finding] = self.analysis.analyse(data, data.studies[0])
        return found

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert analysis.REGISTRY.contract.breach(self.analysis) == ""

    def test_its_findings_have_words_and_numbers_that_can_be_stored(self, tmp_path: Path) -> None:
        found = self.findings(self.records(tmp_path))
        assert found, "it finds nothing in records that it is made for"
        for finding in found:
            assert isinstance(finding, Finding)
            assert finding.title and finding.statement.rstrip().endswith(".")
            assert max(map(len, (part.split() for part in finding.statement.split(". ")))) <= 25, "a long sentence"
            json.dumps(finding.as_dict(), allow_nan=False)

    def test_it_says_the_same_of_the_same_records(self, tmp_path: Path) -> None:
        data = self.records(tmp_path)
        assert [one.as_dict() for one in self.findings(data)] == [one.as_dict() for one in self.findings(data)]

    def test_records_without_its_metrics_are_no_error(self, tmp_path: Path) -> None:
        for finding in self.findings(self.unmeasured(tmp_path)):
            assert isinstance(finding, Finding)


class FigureContract(RecordsContract):
    """A subclass states the kind of figure as well: a module with `Spec` and `draw`, and the keys of a study."""

    figure: ClassVar[Any]
    kind: ClassVar[str]
    keys: ClassVar[Mapping[str, Any]] = {}

    def drawn(self, data: Dataset) -> dict[str, Any]:
        """The declaration of the figure, valid by the schema of Vega-Lite."""
        import altair

        stated = Figure.model_validate({"kind": self.kind, "name": "figure", **self.keys})
        spec = read_spec(self.figure.Spec, stated, "study")
        drawn = figures.drawn("study", "figure", self.kind, self.figure.draw(data, data.studies[0], spec))
        altair.Chart.from_dict(drawn.spec)
        return drawn.spec

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert figures.REGISTRY.contract.breach(self.figure) == ""

    def test_it_has_a_title_and_a_description_for_those_who_cannot_see_it(self, tmp_path: Path) -> None:
        declared = self.drawn(self.records(tmp_path))
        assert declared["title"]["text"] and declared["description"]
        json.dumps(declared)

    def test_records_without_its_metrics_give_a_reason(self, tmp_path: Path) -> None:
        with pytest.raises(NoData, match=r"\w"):
            self.drawn(self.unmeasured(tmp_path))


NOISE = ("", "\n", "0", "{}", "[1, 2", "\x00\x1b[2J", "9" * 400, "1e999 MB/s", "\ud800", "ä€ " * 50, "x\n" * 10_000)


class ClaimsContract:
    """A subclass states the parser, a module with `read` and the others, and outputs of the tool."""

    parser: ClassVar[Any]
    program: ClassVar[str]
    outputs: ClassVar[Sequence[str]]
    """Texts, each with at least one claim."""

    def test_it_keeps_the_contract_of_its_list(self) -> None:
        assert formats.REGISTRY.contract.breach(self.parser) == ""
        assert self.parser.STREAM in ("stdout", "stderr")
        assert self.parser.matches(self.program) and not self.parser.matches("sh")

    def test_it_recognises_its_outputs_and_reads_claims_of_its_own(self) -> None:
        for text in self.outputs:
            assert self.parser.looks_like(text)
            claims = self.parser.read(text, [self.program])
            assert claims and all(isinstance(claim, Claim) and claim.source == self.parser.NAME for claim in claims)

    def test_damaged_output_is_read_or_refused_in_one_line(self) -> None:
        for text in self.outputs:
            for cut in range(0, len(text), max(len(text) // 50, 1)):
                for noise in NOISE:
                    self._read(text[:cut] + noise + text[cut + 1 :])

    def _read(self, text: str) -> None:
        try:
            self.parser.read(text, [self.program])
        except InputError as error:
            assert str(error) and "\n" not in str(error)
