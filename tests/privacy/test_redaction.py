"""Every spelling of what is known is replaced, and nothing else is destroyed."""

from __future__ import annotations

import html
import json
import random
from urllib.parse import quote

import pytest
from tests.corpora import cases

from ioassay.host.privacy import Redaction, Secret, Strength

from .conftest import HOME, HOSTNAME, SECRETS, SERIAL


@pytest.fixture
def redaction(known: list[Secret]) -> Redaction:
    return Redaction(known)


@pytest.mark.parametrize("around", ["{}", "x {} y", '"{}"', "key={},", "<td>{}</td>", "a/{}/b"])
def test_a_secret_is_replaced_in_any_spelling_and_place(redaction: Redaction, around: str) -> None:
    for secret in SECRETS:
        clean = redaction.text(around.format(secret))
        assert secret not in clean
        assert redaction.left_in(clean) == []


def test_what_is_left_is_found(redaction: Redaction) -> None:
    for secret in (HOSTNAME.upper(), SERIAL, html.escape(SERIAL), json.dumps(HOME)[1:-1], quote(HOME), "12345678"):
        text = f"serial: {secret}"
        assert redaction.left_in(text), text


def test_the_same_value_has_the_same_placeholder_in_every_spelling(redaction: Redaction) -> None:
    said = {redaction.text(f"{spelling}/t") for spelling in (HOME, json.dumps(HOME)[1:-1], quote(HOME))}
    assert len(said) == 1
    assert said.pop().endswith("/t")


@pytest.mark.parametrize("name", ["a", "data", "disk", "read", "vm", "12", "mark"])
def test_a_host_that_is_called_like_a_word_is_replaced_where_a_field_names_it(name: str) -> None:
    redaction = Redaction([Secret("host", name)])
    assert [secret.value for secret in redaction.weak] == [name]
    plain = f'{{"{name}": 1, "b": "a data disk read vm 12 mark"}}'
    assert redaction.text(plain) == plain
    fields = (f"hostname: {name}", f'"hostname" : "{name}"', f"hostname={name}, be=0")
    for text in (*fields, f"Linux {name} 6.1.0", f"x@{name}"):
        assert "redacted-host-1" in redaction.text(text)
        assert redaction.left_in(text)
        assert redaction.left_in(redaction.text(text)) == []
    assert redaction.field("hostname", name) == "redacted-host-1"
    assert redaction.field("status", name) == name


def test_a_word_that_the_run_uses_itself_is_no_host() -> None:
    assert Secret("host", "zanzibar").strength() == Strength.WORD
    assert Secret("host", "zanzibar").strength({"zanzibar"}) == Strength.FIELD
    assert Redaction([Secret("host", "zanzibar")]).text("zanzibars zanzibar") == "zanzibars redacted-host-1"


def test_a_number_is_no_serial_unless_a_field_says_so(redaction: Redaction) -> None:
    assert redaction.text("ios 12345678 bytes") == "ios 12345678 bytes"
    assert redaction.text("Serial: 12345678") == "Serial: redacted-serial-1"


@cases("privacy", "shapes")
def test_shapes(case: dict[str, str]) -> None:
    clean = Redaction([]).text(case["text"])
    assert case["hidden"] not in clean if "hidden" in case else clean == case["text"]


def test_the_runs_own_folder_keeps_what_is_below_it() -> None:
    redaction = Redaction([], root="/home/ada/runs/x")
    assert redaction.text("/home/ada/runs/x/trials/01/raw/a.log") == "/redacted-folder-1/trials/01/raw/a.log"
    assert redaction.text("/home/ada/runs/y/a.log") == "/redacted-folder-2/a.log"


def test_redacted_text_stays_as_it_is(redaction: Redaction) -> None:
    once = redaction.text(" ".join(f"{secret} /srv/a/b" for secret in SECRETS))
    assert redaction.text(once) == once


def test_the_page_keeps_folders_but_no_home(known: list[Secret]) -> None:
    mild = Redaction(known, mild=True)
    assert mild.text(f"{HOME}/x /srv/a/b 1.2.3.4") == "~/x /srv/a/b 1.2.3.4"
    assert HOSTNAME not in mild.text(f"on {HOSTNAME}")


def test_random_secrets_leave_nothing(seed: int) -> None:
    draw = random.Random(seed)
    letters = "abcXYZ0189-_. +*?()[]{}^$|\\/'\"&<>%äß€𝄞:#@=,;~"
    for _ in range(60):
        value = "s" + "".join(draw.choice(letters) for _ in range(draw.randint(12, 30))) + "e"
        redaction = Redaction([Secret("serial", value)])
        in_json = (json.dumps(value), json.dumps(value, ensure_ascii=False))
        for spelled in (value, *in_json, html.escape(value), quote(value)):
            clean = redaction.text(f"a {spelled} b")
            assert redaction.left_in(clean) == [], value
            assert value not in clean
