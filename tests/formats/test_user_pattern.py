"""Patterns of users mean what Python's own engine says, within bounds of time and memory in any thread."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ioassay.errors import InputError, UsageError
from ioassay.formats import user_pattern

ATOMS = (
    *(
        "a",
        "b",
        "1",
        " ",
        "\n",
        "é",
        "µ",
        ".",
        ",",
        "-",
        "}",
        "{",
        "{}",
        r"\{",
        r"\.",
        r"\d",
        r"\w",
        r"\s",
        r"\W",
        r"\S",
    ),
    *(
        "[ab]",
        "[^a]",
        "[a-c1]",
        r"[\w.]",
        "[]a]",
        "[^]a]",
        "[{]",
        "[[a]",
        "[a&&b]",
        "[a--b]",
        "[-a]",
        "(?:)",
        "(?#x{e})",
    ),
    *(
        "^",
        "$",
        r"\A",
        r"\Z",
        r"\b",
        "{e}",
        "{i<=1}",
        "{d<2,i<3}",
        '{"a"',
        r"\N{DIGIT ONE}",
        r"(?:\b|a)",
        "é{e}",
        r"\\{e}",
    ),
)
REPETITIONS = ("", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{,2}", "{1,2}", "{1,2}?", "{,}")
GROUPS = ("({})", "(?:{})", "(?={})", "(?!{})", "(?i:{})", "(?s:{})", "(?>{})", "(?<=a|{})")
TEXT = st.text('aAb1 \n.{}e,:µé-"i<=', max_size=12)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A group of alternatives with a repetition, or several parts in a row."""
    alternatives = st.lists(inner, min_size=1, max_size=3).map("|".join)
    repeated = st.tuples(st.sampled_from(GROUPS), alternatives, st.sampled_from(REPETITIONS))
    return repeated.map(lambda parts: parts[0].format(parts[1]) + parts[2]) | st.lists(inner, max_size=4).map("".join)


SINGLE = st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPETITIONS)).map("".join)


@pytest.mark.filterwarnings("ignore:Possible")
@given(
    st.recursive(SINGLE, grown, max_leaves=8), st.sampled_from(["", "(?i)", "(?a)", "(?s)"]), st.lists(TEXT, max_size=4)
)
def test_a_pattern_finds_what_re_finds(pattern: str, flags: str, texts: list[str]) -> None:
    try:
        wanted = re.compile(flags + pattern, re.M)
    except re.error:
        assume(False)
    compiled = user_pattern.compiled(flags + pattern, "regex")
    assert (compiled.groups, compiled.groupindex) == (wanted.groups, wanted.groupindex)
    for text in texts:
        found = [(match.span(), match.groups()) for match in compiled.engine.finditer(text)]
        assert found == [(match.span(), match.groups()) for match in wanted.finditer(text)]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r'"iops": {"mean": (\d+)', '{"iops": {"mean": 7', "7"),
        (r"a{e}(\d)", "a{e}5 b5", "5"),
        (r"(?P<value>\d{3,})[:,]", "12: 345,", "345"),
        (r"^(\w+) µs$", "1 ms\n25 µs\n", "25"),
        (r"(\[:a:])", "[:a:]", "[:a:]"),
    ],
)
def test_braces_of_an_output_are_braces(pattern: str, text: str, found: str) -> None:
    (match,) = user_pattern.matches(user_pattern.compiled(pattern, "regex"), text, "regex")
    assert match[1] == found


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("(a", r"regex '\(a': is no regular expression of Python: missing \)"),
        ("(?:" * 900 + ")" * 900, "has 3600 characters; wanted at most 2000"),
        ("(?:" * 480 + "a" + ")" * 480, "is no regular expression of Python: maximum recursion depth"),
        ("(?:a{1000}){1000}", "repeats too much: 1004003 items; wanted at most 100000"),
        ("(?:" * 30 + "ab" + ")+" * 30, "repeats too much"),
        ("(?:(?#()a{400000000}){9}", "repeats too much"),
        ("[a(]{300000}", "repeats too much"),
        ("(?x) a # b", r"has the flag x; wanted a pattern without spaces and comments"),
        ("a(?i-s:b)(?sx: c)", "has the flag x"),
        ("[[:digit:]]+", r"Python has no set \[:digit:\]; wanted one such as \[a-zA-Z\]"),
        (r"\p{L}", "is no regular expression of Python: bad escape"),
        ("(?|a|b)", "is no regular expression of Python: unknown extension"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_python_does_not_know_or_memory_does_not_hold_is_refused(pattern: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        user_pattern.compiled(pattern, "regex")


@pytest.mark.parametrize("pattern", ["(?:a|aa)+$", "(?:.*?,){25}P", r"(?:a|a)*\d"])
def test_a_search_without_end_is_stopped_in_any_thread(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.setattr(user_pattern, "_MOST_CPU_S", 0.2)
    compiled = user_pattern.compiled(pattern, "regex")
    text = "a" * 60 + "!" + ",".join(map(str, range(30)))

    def searched() -> str:
        with pytest.raises(InputError) as refused:
            user_pattern.matches(compiled, text, "params.metrics.x.regex")
        return str(refused.value)

    began_s = time.process_time()
    with ThreadPoolExecutor(2) as pool:
        said = {searched(), *(each.result() for each in [pool.submit(searched) for _ in range(2)])}
    assert time.process_time() - began_s < 3
    (message,) = said
    assert message.startswith(f"params.metrics.x.regex {pattern!r} took more than 0.2 s of CPU time; begin it with ^")


def test_a_search_that_needs_too_much_memory_is_an_error_of_the_pattern() -> None:
    engine = Mock()
    engine.finditer.side_effect = MemoryError  # as the library does for (\w|\d)*! and 12 MiB of letters
    with pytest.raises(InputError, match="took more than half a gigabyte of memory; begin it with"):
        user_pattern.matches(user_pattern.UserPattern("x", engine), "x", "regex")


def test_a_thread_that_searches_leaves_the_others_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_pattern, "_MOST_CPU_S", 0.3)
    compiled = user_pattern.compiled("(?:a|aa)+$", "regex")
    turns = 0
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(user_pattern.matches, compiled, "a" * 60 + "!", "regex")
        while not search.done():
            turns += 1
            time.sleep(0.001)
        assert isinstance(search.exception(), InputError)
    assert turns > 5
