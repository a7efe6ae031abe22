"""Replaces what identifies a machine in any text, the same value always by the same placeholder.

Placeholders (`redacted-host-1`, `/redacted-folder-2`) are fit for names of files, studies and factors, and need no
escape in JSON, HTML or an address. Known values are found in every spelling in which tools write them. What nobody
knows beforehand is found by its shape: UUIDs, MAC and IP addresses, world-wide names, names of disks, private folders.
"""

from __future__ import annotations

import html
import ipaddress
import json
import re
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from urllib.parse import quote, quote_plus

from ioassay.host.privacy import secrets
from ioassay.host.privacy.secrets import (
    BOOT,
    DISK,
    FOLDER,
    HOME,
    HOST,
    IP,
    LABEL,
    MAC,
    SERIAL,
    USER,
    UUID,
    Secret,
    Strength,
)

MARK = "redacted"
_REMEMBERED_LETTERS = 300
"""The strings of a run's JSON are few, and come again in every trial."""
_EDGE = r"(?<![^\W_]){}(?![^\W_])"
"""A whole word; `_` and `-` part words."""
_FIELDS = {
    HOST: "host|hostname|nodename",
    USER: "user|username|user_name|login|logname|owner",
    SERIAL: "serial|serial_number|serialnumber|sn|wwn|wwid",
    LABEL: "label|partlabel",
    DISK: "disk|device|dm_name",
    BOOT: "token|password|passwd|key|secret",
}
_SYSTEM = re.compile(
    r"/(?:usr|lib|lib32|lib64|libx32|bin|sbin|etc|proc|sys|dev|opt|run|snap|nix|boot|var/(?:lib|cache|run|log))(?:/|$)"
)
"""Folders that are alike on all machines."""
_PATH = re.compile(
    r"(?:(?<=://)|(?<![\w.~+@%/\\-]))/(?:[^\s/\"'<>|*?\\:;,=()&`$\[\]{}]+/)+[^\s/\"'<>|*?\\:;,=()&`$\[\]{}]*"
)
_SHAPES: list[tuple[str, re.Pattern[str], int]] = [
    (DISK, re.compile(r"/dev/(?:disk/by-[a-z]+|mapper)/(?!control\b)([^\s\"'<>\\:;,)&]+)"), 1),
    (UUID, re.compile(r"(?i)(?<![0-9a-f-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![0-9a-f])"), 0),
    (SERIAL, re.compile(r"(?i)\b(?:(?:eui|naa|t10)\.[\w.-]{8,}|nqn\.\d{4}-[\w.:-]+|0x5[0-9a-f]{15})\b"), 0),
    (MAC, re.compile(r"(?i)(?<![\w:-])[0-9a-f]{2}(?:([:-])[0-9a-f]{2})(?:\1[0-9a-f]{2}){4}(?![\w:-])"), 0),
    (IP, re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.-])"), 0),
    (IP, re.compile(r"(?i)(?<![\w:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])"), 0),
]


class Redaction:
    """`text` and `value` replace; `left_in` looks for what is left; `counts` says how often each kind was replaced.

    `vocabulary` are words that mean something in the run, which no host or user can be told from. `mild` is for the
    page: folders and addresses are left, but that `~` stands for a home folder. Below `root`, the run's own folder,
    names of folders and files are kept.
    """

    def __init__(
        self, known: Iterable[Secret], vocabulary: Iterable[str] = (), *, root: str = "", mild: bool = False
    ) -> None:
        self._mild = mild
        known = [*known, *([Secret(FOLDER, root)] if root else [])]
        words = frozenset(word.lower() for word in vocabulary)
        self._strengths = {secret: secret.strength(words) for secret in secrets.known(known)}
        self._placeholders: dict[tuple[str, str], str] = {}
        self.counts: Counter[str] = Counter()
        self._sure, self._owners = self._spellings(Strength.SURE)
        self._words, owners = self._spellings(Strength.WORD)
        self._owners |= owners
        self._run = self._placeholder(FOLDER, root) if root else ""
        self.counts.clear()
        self.weak = [secret for secret, strength in self._strengths.items() if strength == Strength.FIELD]
        self._fields = [(secret, _field(secret)) for secret in self.weak]
        self._memory: dict[str, tuple[str, Counter[str]]] = {}

    def text(self, text: str) -> str:
        """Any text: a tool's output, a string of JSON, a key, a name."""
        if len(text) > _REMEMBERED_LETTERS:
            return self._replaced(text)
        if text not in self._memory:
            before = self.counts.copy()
            clean = self._replaced(text)
            self._memory[text] = clean, self.counts - before
            return clean
        clean, counts = self._memory[text]
        self.counts += counts
        return clean

    def field(self, name: str, text: str) -> str:
        """The value that stands under a key of JSON or TOML: there even a short host name is one."""
        secret = next((secret for secret in self.weak if _is_named(secret, name, text)), None)
        return self._placeholder(secret.kind, secret.value) if secret else self.text(text)

    def is_named(self, name: str, text: str) -> bool:
        """Whether a value that is a common word or a number is a secret under this key."""
        return any(_is_named(secret, name, text) for secret in self.weak)

    def left_in(self, text: str) -> list[Secret]:
        """The known values that a text still holds, in any spelling."""
        regexes = self._of_interest(text)
        found = {self._owner(hit[0]) for regex in regexes for hit in regex.finditer(text)}
        return [*found, *(secret for secret, regex in self._fields if regex.search(text))]

    def _of_interest(self, text: str) -> list[re.Pattern[str]]:
        """The searches, where a text has any of their words: looking for a plain string is a hundred times quicker."""
        folded = text.lower()
        return [self._sure, self._words] if any(spelling in folded for spelling in self._owners) else []

    def _spellings(self, strength: Strength) -> tuple[re.Pattern[str], dict[str, Secret]]:
        owners: dict[str, Secret] = {}
        patterns: dict[str, str] = {}
        for secret in (secret for secret, known in self._strengths.items() if known == strength):
            for spelling in spellings(secret.value):
                owners.setdefault(spelling.lower(), secret)
                patterns[spelling] = _pattern(secret, strength, spelling)
        ordered = sorted(patterns, key=lambda spelling: (-len(spelling), spelling))
        return re.compile("|".join(patterns[spelling] for spelling in ordered) or r"(?!)", re.IGNORECASE), owners

    def _replaced(self, text: str) -> str:
        for regex in self._of_interest(text):
            text = regex.sub(self._known, text)
        return self._in_fields(self._by_shape(text))

    def _known(self, hit: re.Match[str]) -> str:
        secret = self._owner(hit[0])
        return self._placeholder(secret.kind, secret.value)

    def _owner(self, spelling: str) -> Secret:
        return self._owners.get(spelling.lower()) or next(
            # Some letters match without their case, and have no common lower case (the Turkish dotless i).
            secret
            for known, secret in self._owners.items()
            if re.fullmatch(re.escape(known), spelling, re.IGNORECASE)
        )

    def _by_shape(self, text: str) -> str:
        for kind, regex, group in _SHAPES:
            if self._mild and kind == IP:
                continue  # versions look alike
            text = regex.sub(self._shape(kind, group), text)
        return text if self._mild else _PATH.sub(self._path, text)

    def _shape(self, kind: str, group: int) -> Callable[[re.Match[str]], str]:
        def replaced(hit: re.Match[str]) -> str:
            value = hit[group]
            if value.startswith(MARK) or (kind == IP and not _is_telling(value)):
                return hit[0]
            return hit[0][: hit.start(group) - hit.start()] + self._placeholder(kind, value)

        return replaced

    def _path(self, hit: re.Match[str]) -> str:
        folder, _, name = hit[0].rpartition("/")
        if _SYSTEM.match(hit[0]) or not secrets.is_private(folder) or re.fullmatch(rf"/{MARK}-folder-\d+", folder):
            return hit[0]
        if self._run and f"{folder}/".startswith(f"{self._run}/"):
            return hit[0]
        return f"{self._placeholder(FOLDER, folder)}/{name}"

    def _in_fields(self, text: str) -> str:
        for secret, regex in self._fields:
            if regex.search(text):
                text = regex.sub(rf"\g<1>{self._placeholder(secret.kind, secret.value)}", text)
        return text

    def _placeholder(self, kind: str, value: str) -> str:
        self.counts[kind] += 1
        if self._mild and kind == HOME:
            return "~"
        family = FOLDER if kind == HOME else kind
        known = (family, value.lower())
        if known not in self._placeholders:
            number = sum(of == family for of, _ in self._placeholders) + 1
            self._placeholders[known] = f"{'/' if family == FOLDER else ''}{MARK}-{family}-{number}"
        return self._placeholders[known]


def folders_of(path: str) -> Iterator[Secret]:
    """The folder of a path, if its name says something."""
    folder = str(PurePosixPath(path).parent)
    if secrets.is_private(folder) and not _SYSTEM.match(folder) and not folder.startswith(f"/{MARK}-"):
        yield Secret(FOLDER, folder)


def spellings(value: str) -> set[str]:
    """A value as tools write it: plain, in JSON, HTML, an address, a shell's word, without the separators of a MAC."""
    forms = {form for kind in ("NFC", "NFD") for form in (value, unicodedata.normalize(kind, value))}
    found = set(forms)
    for form in forms:
        plain = form.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        escaped = json.dumps(form)[1:-1]
        found |= {escaped, json.dumps(form, ensure_ascii=False)[1:-1], json.dumps(escaped)[1:-1]}
        found |= {html.escape(form, quote=False), html.escape(form), html.escape(form).replace("&quot;", "&#34;")}
        found |= {html.escape(form).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")}
        found |= {quote(form, errors="surrogateescape"), quote(form, safe="", errors="surrogateescape")}
        found |= {quote_plus(form, safe="/", errors="surrogateescape"), quote_plus(plain)}
        found |= {form.replace(" ", "\\ "), form.replace(" ", "\\040"), form.replace(":", "\\:")}
        found |= {form.replace("'", "'\"'\"'"), re.sub(r"[^\w.-]", lambda odd: f"\\x{ord(odd[0]):02x}", form)}
        found |= _in_latin_1(form)
    if re.fullmatch(r"(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}", value):
        found |= {value.replace(":", ""), value.replace(":", "-")}
    if re.fullmatch(r"[0-9A-Fa-f]{8}(?:-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}", value):
        found |= {str(uuid.UUID(value)), uuid.UUID(value).hex}
    if re.fullmatch(r"(?:naa|eui)\.\w{8,}", value):
        found.add(value[4:])
    return {form for form in found if form}


def _in_latin_1(form: str) -> set[str]:
    try:
        return {form.encode("latin-1").decode("utf-8", "surrogateescape")}
    except UnicodeEncodeError:
        return set()


def _pattern(secret: Secret, strength: Strength, spelling: str) -> str:
    if secret.kind in (HOME, FOLDER):
        return rf"(?<![\w.~-]){re.escape(spelling)}(?![\w.~-])"
    short = strength == Strength.WORD or len(spelling) < secrets.DISTINCT_LETTERS
    return _EDGE.format(re.escape(spelling)) if short else re.escape(spelling)


def _field(secret: Secret) -> re.Pattern[str]:
    """Where a text names a value that is otherwise a common word: `hostname: a`, `user@a`, `Linux a 6.1`."""
    name = rf"\b(?:{_FIELDS.get(secret.kind, secret.kind)})[\"']?\s*[:=]\s*[\"']?"
    more = r"|\w@|\bLinux\s+(?=\S+\s+\d+\.\d)" if secret.kind == HOST else ""
    return re.compile(rf"({name}{more}){re.escape(secret.value)}(?![^\s\"',;:)&<])", re.IGNORECASE)


def _is_named(secret: Secret, name: str, text: str) -> bool:
    same = text.lower() == secret.value.lower()
    return same and re.fullmatch(_FIELDS.get(secret.kind, secret.kind), name, re.IGNORECASE) is not None


def _is_telling(address: str) -> bool:
    """Whether an address is one of somebody: not this host's own loop, and no time such as 12:34:56."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (known.is_loopback or known.is_unspecified)
