"""Which tool it is, and that no text, however long or strange, does more than be refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioassay import formats
from ioassay.errors import InputError
from ioassay.formats import PARSERS, command_line, number_parsing, parser

GOLDEN = Path(__file__).parents[1] / "golden"
OUTPUTS = {
    "fio": GOLDEN / "fio/3.33/read/fio.json",
    "iozone": Path(__file__).parent / "golden/iozone-every-test.txt",
    "filesuite": GOLDEN / "filesuite/0.1.0/passes.json",
    "dd": GOLDEN / "dd/9.1/de_DE.txt",
    "db_bench": GOLDEN / "db_bench/7.8.3/histogram.txt",
    "sysbench": GOLDEN / "sysbench/1.0.20/rndrw.txt",
    "ioping": GOLDEN / "ioping/1.3/directory.txt",
    "bonnie": GOLDEN / "bonnie/2.00a/fast.txt",
    "hdparm": GOLDEN / "hdparm/9.65/both.txt",
    "pgbench": GOLDEN / "pgbench/15.18/scripts.txt",
    "redis_benchmark": GOLDEN / "redis_benchmark/7.0.15/plain.txt",
    "elbencho": GOLDEN / "elbencho/documented/phases.txt",
    "vdbench": GOLDEN / "vdbench/documented/devices.txt",
}
EVERY_PARSER = pytest.mark.parametrize("name", PARSERS)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        ("/usr/bin/fio job.fio", "fio"),
        ("env -u B A=1 nice -n 5 ionice -c 2 -n 0 taskset -c 0,1 timeout -k 3 10 fio-3.36 x", "fio"),
        ("sudo -u nobody -- numactl --membind=0 -N 0 stdbuf -oL iozone -a", "iozone"),
        ("LC_ALL=C busybox dd if=a of=b", "dd"),
        ("setsid nohup db_bench --num=1", "db_bench"),
        ("fiona --fio", None),
        ("sh script.sh fio", None),
        ("env", None),
        ("", None),
    ],
)
def test_wrappers_are_looked_through(argv: str, name: str | None) -> None:
    assert formats.recognise(argv.split()) == name


@pytest.mark.parametrize(
    ("script", "programs"),
    [
        ("cd /a && A=1 dd if=a of='b c' 2>log; sync | fio --x > f", ["cd", "dd", "sync", "fio"]),
        ("for i in 1 2\ndo dd if=a; done", ["for", "dd", "done"]),
        ("exec bash -ec 'nice fio x'", ["fio"]),
        ("dd 'no end", ["sh"]),
    ],
)
def test_scripts_are_split_into_commands(script: str, programs: list[str]) -> None:
    assert [command_line.program(one) for one in command_line.plain(["sh", "-c", script])] == programs


@EVERY_PARSER
def test_an_unknown_program_is_recognised_by_its_output(name: str) -> None:
    text = OUTPUTS[name].read_text()
    assert formats.recognise(["./bench.sh"], text) == name
    assert formats.recognise(["./bench.sh"], "", text) == name
    found = formats.read(["./bench.sh"], "x\n" * 10**6 + text, "")
    assert found == [replace(one, doubts=(*one.doubts, "among-others")) for one in parser(name).read(text)]


def test_what_nobody_knows_claims_nothing() -> None:
    assert formats.read(["ls", "-l"], "total 0\n", "") == []


@EVERY_PARSER
@settings(deadline=None)
@given(st.data())
def test_no_text_breaks_a_parser(name: str, data: st.DataObject) -> None:
    """Random text, and a real output with a piece cut out, doubled, or replaced by nonsense."""
    text = OUTPUTS[name].read_text()[:20_000]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    nonsense = st.sampled_from(
        ["nan", "inf", "-1", "9" * 5000, "1e999", "1.2.3", "\0\x80", "{", "[" * 2000, "", "\r", "²٣"]
    )
    piece = data.draw(st.one_of(nonsense, st.text(max_size=40), st.just(text[start:end] * 2)))
    for broken in (text[:start] + piece + text[end:], text[:start], piece):
        try:
            found = parser(name).read(broken)
        except InputError as error:
            assert str(error)
        else:
            numbers_ = [
                n for c in found for n in (c.operations, c.bytes, c.seconds, c.rate_bytes_per_s) if n is not None
            ]
            assert all(0 <= number < float("inf") for number in numbers_)


@EVERY_PARSER
@pytest.mark.parametrize(
    "noise", ["1 = 2 + 3 ", "x\n", "+1;", '{ "a":\n', "1+x \n", "9" * 50, '{"fio version"\n', "\r"]
)
def test_much_noise_before_the_claim_is_passed_over(name: str, noise: str) -> None:
    """A parser whose time grows with the square of the text would not end here."""
    text = OUTPUTS[name].read_text()
    assert parser(name).read(noise * (2**20 // len(noise)) + "\n" + text) == parser(name).read(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0,5", 0.5),
        (".5", 0.5),
        ("5", 5),
        ("0.5", 0.5),
        ("1.234,5", 1234.5),
        ("1,234.5", 1234.5),
        ("1 234,5", 1234.5),
        ("1,234,567", 1234567),
    ],
)
def test_numbers_in_anyones_locale(text: str, number: float) -> None:
    assert number_parsing.decimal(text, "x") == number


@pytest.mark.parametrize(("text", "step"), [("133", 1), ("2.2", 0.1), (".25", 0.01), ("1,234", 0.001), ("2.2k", 0.1)])
def test_the_step_of_a_printed_number(text: str, step: float) -> None:
    assert number_parsing.step_of(text) == pytest.approx(step)


def test_numbers_up_to_what_counters_hold() -> None:
    assert number_parsing.whole_number(str(2**63 - 1), "x") == number_parsing.whole_number(2**63 - 1, "x") == 2**63 - 1
    assert number_parsing.whole_number("0", "x") == number_parsing.real(0, "x") == 0
    assert number_parsing.whole_number(7.9, "x") == 7
    for bad in (True, None, [1], float(2**63)):
        with pytest.raises(InputError, match="x is"):
            number_parsing.real(bad, "x")
    for bad in (str(2**63), "0" * 20, "+1", "1.0", 2**64, True, None, [1]):
        with pytest.raises(InputError, match="x is"):
            number_parsing.whole_number(bad, "x")


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


def test_what_is_around_pieces_of_a_text() -> None:
    assert number_parsing.text_around("a[b]c[d]", [(1, 4), (5, 8)]) == "a\nc"
    assert number_parsing.text_around("[b]  [d] e ", [(0, 3), (5, 8)]) == "e"
    assert number_parsing.text_around("all", []) == "all"


def test_a_chain_of_eight_wrappers_is_looked_through() -> None:
    for wrappers, name in ((9, "fio"), (10, "nice")):
        assert [command_line.program(one) for one in command_line.plain(["nice"] * wrappers + ["fio"])] == [name]


@pytest.mark.parametrize("bad", ["nan", "inf", "-1", "1e999", "", "x", "9" * 400])
def test_impossible_numbers_are_refused(bad: str) -> None:
    with pytest.raises(InputError, match="x is"):
        number_parsing.real(bad, "x")
