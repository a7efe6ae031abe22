"""Documents that others wrote, as values of the types that the reader names: what does not fit is refused by its place.

`read` gives a typed value of a text, `typed` of a parsed one, `table` an object whose keys the reader knows itself;
`toml` reads what pydantic models check (`study`).
A message names the file, then the line and column of a text that cannot be parsed, or the key of a value of another
type than wanted. NaN, infinities and whole numbers beyond 64 bits, nesting without end and text that is no Unicode are
refused: no reader has to think of them. Which keys there are is said by those who read the file.
"""

from __future__ import annotations

import json
import re
import signal
import tomllib
from collections.abc import Hashable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema, from_json

from ioassay.errors import InputError
from ioassay.hints import cut, nearest, shown

T = TypeVar("T")

LARGEST = 2**63 - 1
"""What counters and the columns of Parquet files hold."""
Count = Annotated[int, Field(ge=0, le=2**48)]
"""How often something happened. Ten million requests a second reach the limit after 325 days, and the sums of all
buckets of all jobs still fit into 64 bits."""
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Amount = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
"""A time, a rate, a volume, a share: finite and not negative."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_SUSPICIOUS = (b"0" * 19, b"e000", b"e+000", b"NaN", b"Infinity")
"""The shape of a number that is too large, or none. A text without one need not be searched."""
_BEYOND = 2**64
_LONG_NUMBER = re.compile(rb"[0-9a-fA-F_]{1000}")
_WANTED = {
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "dataclass_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_pattern_mismatch": "letters, digits, '_', '-' or '.' (pattern {pattern})",
}


def _load_datetime() -> None:
    """Have pydantic look up Python's datetime now: a signal in the midst of that would make its core panic."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        SchemaValidator(core_schema.date_schema()).validate_python("2000-01-01")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_load_datetime()


def read(kind: type[T], text: str | bytes, source: str, remedy: str = "") -> T:
    """The value of type `kind` that a JSON text holds; InputError names `source`, place, fault and `remedy`."""
    encoded = _encoded(text)
    if _is_suspicious(encoded):
        _parsed(encoded, source, remedy)
    try:
        return cast(T, _adapter(cast(Hashable, kind)).validate_json(encoded, strict=True))
    except ValidationError as error:
        raise InputError(_said(source, _fault(error), remedy)) from None


def typed(kind: type[T], value: Any, source: str, remedy: str = "") -> T:
    """As `read`, of parsed JSON."""
    return read(kind, json.dumps(value), source, remedy)


def table(text: str | bytes, source: str, remedy: str = "") -> dict[str, Any]:
    """The object that a JSON text holds; InputError as of `read`."""
    value = _parsed(_encoded(text), source, remedy)
    if not isinstance(value, dict):
        raise InputError(_said(source, f"is {shown(value)}; expected an object", remedy))
    return value


def extent(text: str, start: int) -> str:
    """The JSON document that begins there; of a broken one all that follows, for `read` to say what is wrong where."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        end = len(text)
    return text[start:end]


def document(text: str | bytes, source: str, remedy: str = "") -> Any:
    """What a JSON text holds, of any type; InputError as of `read`."""
    return _parsed(_encoded(text), source, remedy)


def toml(text: bytes) -> dict[str, Any]:
    """The table that a TOML document holds; ValueError says what is wrong in which line."""
    try:
        return tomllib.loads(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is no UTF-8: {error.reason} 0x{text[error.start]:02x}") from None
    except RecursionError:
        raise ValueError("tables or lists lie too deep in each other") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's limit for the digits of a whole number, which names no place
        long = _LONG_NUMBER.search(text)
        line = text.count(b"\n", 0, long.start() if long else 0) + 1
        raise ValueError(f"line {line} has a number that is too long; expected one of at most 64 bits") from None


def _parsed(encoded: bytes, source: str, remedy: str) -> Any:
    try:
        value = from_json(encoded, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(_said(source, f"is corrupted ({error})", remedy)) from None
    if _is_suspicious(encoded):
        for place, number in _numbers(value, ""):
            if not -_BEYOND < number < _BEYOND:  # NaN fails as well
                fault = f"{place.lstrip('.') or 'it'} is {shown(number)}; expected a number of at most 64 bits"
                raise InputError(_said(source, fault, remedy))
    return value


def _is_suspicious(encoded: bytes) -> bool:
    shape = encoded.translate(_SHAPE)
    return any(mark in shape for mark in _SUSPICIOUS)


def _numbers(value: Any, place: str) -> Iterator[tuple[str, int | float]]:
    """All numbers with their places; the parser has bounded the nesting."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _numbers(item, f"{place}[{number}]")
    elif isinstance(value, int | float):
        yield place, value


def _encoded(text: str | bytes) -> bytes:
    """What is no Unicode is refused by the parser, with its place."""
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def _fault(error: ValidationError) -> str:
    """The first thing that pydantic found."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"is corrupted ({first['ctx']['error']})"
    parts = [part for part in first["loc"] if part != "[key]"]  # the name of a pair, where that is what is wrong
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{cut(part)}" for part in parts)
    fault = "is missing" if first["type"] == "missing" else error_text(cast(Mapping[str, Any], first))
    return f"{place.lstrip('.') or 'it'}: {fault}"


def _said(source: str, fault: str, remedy: str) -> str:
    return f"{source}: {fault}" + (f"; {remedy}" if remedy else "")


def error_text(error: Mapping[str, Any]) -> str:
    """`wanted a list; found 'cpu'`: the message of one of `ValidationError.errors()`, without its place."""
    if error["type"] == "value_error":
        message = str(error["msg"]).removeprefix("Value error, ")
    elif error["type"] == "literal_error":
        expected = str(error["ctx"]["expected"])
        hint = nearest(error["input"], re.findall(r"'([^']*)'", expected)) if isinstance(error["input"], str) else ""
        return f"expected {expected}; found {shown(error['input'])}{hint}"
    elif (wanted := _WANTED.get(error["type"])) is not None:
        message = "expected " + wanted.format_map(error.get("ctx", {}))
    else:
        number = "a number " if error["type"].startswith(("greater_than", "less_than")) else ""
        message = str(error["msg"]).replace("Input should be ", f"expected {number}")
    names_it = error["type"] == "value_error" and isinstance(error["input"], Mapping)  # a check of a whole table
    return message if names_it else f"{message}; found {shown(error['input'])}"
