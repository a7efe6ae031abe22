"""Which tool it is, that noise before its output does no harm, and what single outputs have beside their rows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ioassay import formats
from ioassay.errors import InputError
from ioassay.formats import PARSERS, number_parsing, parser
from ioassay.packs.iozone.claims import iozone_claims

from ..cli.conftest import ask
from ..corpora import golden, rows

OUTPUTS = {row["id"]: row["output"] for row in rows("readers", "tools") if "output" in row}
SAMPLES = sorted(Path(__file__).parents[3].glob("*/data/iozone-samples"))
(NUMBERS_OF_SAMPLES,) = (row["samples"] for row in rows("readers", "tools") if "samples" in row)
EVERY_PARSER = pytest.mark.parametrize("name", PARSERS)


@EVERY_PARSER
def test_an_unknown_program_is_recognised_by_its_output(name: str) -> None:
    text = golden(OUTPUTS[name])
    assert formats.recognise(["./bench.sh"], text) == name
    assert formats.recognise(["./bench.sh"], "", text) == name
    found = formats.read(["./bench.sh"], "x\n" * 10**6 + text, "")
    assert found == [replace(one, doubts=(*one.doubts, "among-others")) for one in parser(name).read(text)]


@EVERY_PARSER
@pytest.mark.parametrize(
    "noise", ["1 = 2 + 3 ", "x\n", "+1;", '{ "a":\n', "1+x \n", "9" * 50, '{"fio version"\n', "\r"]
)
def test_much_noise_before_the_claim_is_passed_over(name: str, noise: str) -> None:
    """A parser whose time grows with the square of the text would not end here."""
    text = golden(OUTPUTS[name])
    assert parser(name).read(noise * (2**20 // len(noise)) + "\n" + text) == parser(name).read(text)


@pytest.mark.parametrize(
    ("name", "output", "unnoticed"),
    [
        ("fio", "fio/3.33/read/fio.json", 0.15),
        ("fio", "fio/3.33/normal.txt", 0.25),
        ("ioping", "ioping/1.3/no-warmup.txt", 0.2),
        ("sysbench", "sysbench/1.0.20/rndrd-direct.txt", 0.3),
        ("db_bench", "db_bench/7.8.3/histogram.txt", 0.05),
    ],
)
def test_a_number_that_is_changed_contradicts_the_rest_of_its_output(name: str, output: str, unnoticed: float) -> None:
    text, noticed = golden(output), []
    whole, numbers = parser(name).read(text), [*re.finditer(r"(?<![\w.,])[1-9]\d*(?:\.(\d+))?(?![\w,]*th=)", text)]
    for number in numbers[:: 1 + len(numbers) // 40]:
        for factor in (0.6, 1.7):
            changed = f"{float(number[0]) * factor:.{len(number[1] or '')}f}"
            try:
                found = parser(name).read(text[: number.start()] + changed + text[number.end() :])
            except InputError:
                continue
            if found != whole:  # else it is none of those that are read
                noticed.append(any(claim.misfits for claim in found))
    assert noticed.count(False) <= unnoticed * len(noticed)
    assert noticed and not any(claim.misfits for claim in whole)


def test_each_pass_of_filesuite_is_a_claim_in_its_order(tmp_path: Path) -> None:
    argv = ["filesuite", "-i", "0", "-i", "1", "-i", "3", "-s", "64k", "-r", "4k", "--json"]
    output = ask(*argv, cwd=tmp_path).out
    found = formats.read(["ioassay", *argv], f"something before\n{output}\nsomething after")
    assert [(claim.test, claim.kind, claim.primed, claim.silent_passes) for claim in found] == [
        ("write", "write", False, 0),
        ("rewrite", "write", False, 0),
        ("read", "read", True, 0),
        ("reread", "read", True, 0),
        ("backward-read", "read", False, 1),
    ]
    for claim in found:
        assert (claim.source, claim.operations, claim.bytes) == ("filesuite", 16, 65536)
        assert claim.seconds and claim.rate_bytes_per_s == 65536 / claim.seconds
    for length in range(60, len(output) - 2, len(output) // 50):
        with pytest.raises(InputError, match="is it whole"):
            formats.read(["ioassay", *argv], output[:length])


def test_lines_end_at_a_line_feed_or_a_carriage_return() -> None:
    text = "key a\nno\rkey b\n\nlast key"
    assert list(number_parsing.lines_with(text, "key")) == [(5, "key a"), (14, "key b"), (len(text), "last key")]
    assert [line for _, line in number_parsing.lines_with(text, "key", 6)] == ["key b", "last key"]
    assert [line for _, line in number_parsing.lines_with(text, re.compile("k.y [ab]"))] == ["key a", "key b"]
    assert number_parsing.next_lines(text, 5, 2) == ["no", "key b"]
    assert number_parsing.next_lines(text, 5, 9) == ["no", "key b", "last key"]
    longest = "x" * 19_997 + "key"
    assert [line for _, line in number_parsing.lines_with(f"{longest}\n{longest}y\n", "key")] == [longest]
    assert [len(line) for line in number_parsing.next_lines(f"\n{longest}yz\nz", 0, 2)] == [20_000, 1]


def test_a_row_of_iozone_that_was_cut_off_claims_what_is_whole_of_it() -> None:
    text = golden(OUTPUTS["iozone"])
    whole = [(claim.test, claim.rate_bytes_per_s) for claim in iozone_claims.read(text)]
    for place in range(text.index("1111111") + 7, text.index("test complete")):
        found = [(claim.test, claim.rate_bytes_per_s) for claim in iozone_claims.read(text[:place])]
        assert found == whole[: len(found)]


@pytest.mark.parametrize("name", NUMBERS_OF_SAMPLES)
def test_every_number_of_a_sample_of_iozone_is_read(name: str) -> None:
    """Outputs of version 3.471, which lie beside some checkouts."""
    if not SAMPLES:
        pytest.skip("no folder iozone-samples lies beside this checkout")
    text = (SAMPLES[0] / f"{name}.txt").read_text()
    assert formats.recognise([], text) == "iozone"
    assert len(iozone_claims.read(text)) == NUMBERS_OF_SAMPLES[name]
