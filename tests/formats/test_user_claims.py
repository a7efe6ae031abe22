"""Patterns of users mean what Python's own engine says, within bounds of time and memory in any thread."""

from __future__ import annotations

import re
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ioassay.errors import InputError
from ioassay.formats import user_claims

from ..corpora import CORPUS

PIECES = tomllib.loads((CORPUS / "readers" / "pieces.toml").read_text())["patterns"]
TEXT = st.text('aAb1 \n.{}e,:µé-"i<=', max_size=12)
REPETITIONS = st.sampled_from(PIECES["repetitions"])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A group of alternatives with a repetition, or several parts in a row."""
    alternatives = st.lists(inner, min_size=1, max_size=3).map("|".join)
    repeated = st.tuples(st.sampled_from(PIECES["groups"]), alternatives, REPETITIONS)
    return repeated.map(lambda parts: parts[0].format(parts[1]) + parts[2]) | st.lists(inner, max_size=4).map("".join)


SINGLE = st.tuples(st.sampled_from(PIECES["atoms"]), REPETITIONS).map("".join)
FLAGS = st.sampled_from(["", "(?i)", "(?a)", "(?s)"])


@pytest.mark.filterwarnings("ignore:Possible")
@given(st.recursive(SINGLE, grown, max_leaves=8), FLAGS, st.lists(TEXT, max_size=4))
def test_a_pattern_finds_what_re_finds(pattern: str, flags: str, texts: list[str]) -> None:
    try:
        wanted = re.compile(flags + pattern, re.M)
    except re.error:
        assume(False)
    compiled = user_claims.compiled(flags + pattern, "regex")
    assert (compiled.engine.groups, compiled.engine.groupindex) == (wanted.groups, wanted.groupindex)
    for text in texts:
        found = [(match.span(), match.groups()) for match in compiled.engine.finditer(text)]
        assert found == [(match.span(), match.groups()) for match in wanted.finditer(text)]


def test_every_group_of_a_claim_can_be_used() -> None:
    for name in user_claims.GROUPS:
        amount = "ops" if name == "bytes" else "bytes"
        assert user_claims.claim_pattern(rf"(?P<{name}>x)(?P<{amount}>y)").engine.groups == 2


@pytest.mark.parametrize("pattern", ["(?:a|aa)+$", "(?:.*?,){25}P", r"(?:a|a)*\d"])
def test_a_search_without_end_is_stopped_in_any_thread(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    monkeypatch.setattr(user_claims, "_MOST_CPU_S", 0.1)
    compiled = user_claims.compiled(pattern, "regex")
    text = "a" * 60 + "!" + ",".join(map(str, range(30)))

    def searched() -> str:
        with pytest.raises(InputError) as refused:
            user_claims.matches(compiled, text, "params.metrics.x.regex")
        return str(refused.value)

    with ThreadPoolExecutor(2) as pool:
        said = {searched(), *(each.result() for each in [pool.submit(searched) for _ in range(2)])}
    (message,) = said
    assert message.startswith(f"params.metrics.x.regex {pattern!r} took more than 0.1 s of CPU time; begin it with ^")


def test_a_search_that_needs_too_much_memory_is_an_error_of_the_pattern() -> None:
    engine = Mock()
    engine.finditer.side_effect = MemoryError  # as the library does for (\w|\d)*! and 12 MiB of letters
    with pytest.raises(InputError, match="took more than half a gigabyte of memory; begin it with"):
        user_claims.matches(user_claims.UserPattern("x", engine), "x", "regex")


def test_a_thread_that_searches_leaves_the_others_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_claims, "_MOST_CPU_S", 0.3)
    compiled = user_claims.compiled("(?:a|aa)+$", "regex")
    turns = 0
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(user_claims.matches, compiled, "a" * 60 + "!", "regex")
        while not search.done():
            turns += 1
            time.sleep(0.001)
        assert isinstance(search.exception(), InputError)
    assert turns > 5
