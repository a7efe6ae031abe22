"""What a target's table in a study may say, checked by pydantic; what is wrong becomes a StudyError that names the key.

Each target has its own model here or beside it; the shared one knows only `kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ioassay.errors import StudyError
from ioassay.hints import suggestion
from ioassay.records.record import Warning_
from ioassay.roles import Footprint
from ioassay.study.model import Size
from ioassay.validation import error_text


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError("not a path; expected for example 'testfile' or '/dev/disk/by-id/…'")
    return Path(value).expanduser()


UserPath = Annotated[Path, BeforeValidator(_path)]
PositiveSize = Annotated[Size, Field(gt=0)]


class SimpleTarget:
    """What many targets have alike: nothing to make before a trial, no room of its own, nothing to give back."""

    def inspect(self, access: str) -> Sequence[Warning_]:
        return ()

    def prepare(self, access: str, progress: Callable[[str, float], None]) -> Sequence[Warning_]:
        return self.inspect(access)

    def footprints(self) -> Sequence[Footprint]:
        return ()

    def close(self) -> None:
        """Each trial has given back what it took."""

    def abandon(self) -> None:
        """What a trial took goes with its process, or is cleared on its own."""


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: str = "null"


class FileSettings(Settings):
    """A file. Paths are relative to the folder in which the user started ioassay."""

    path: UserPath
    size: PositiveSize | None = None
    """Needed unless the file is there already and is only read."""
    keep: bool = True
    """False: the file is removed at the end of the run."""
    prepare: Literal["fill", "none"] | Annotated[int, Field(ge=1, le=10)] = "fill"
    """fill: fully written with incompressible data before it is loaded. none: made to size, but not written. A number:
    with `purge`, how many times it is written from end to end."""
    purge: Literal["none", "discard"] | None = None
    """Before the first trial of each study: none, or give its blocks back to the file system; then fill it anew."""


class FolderSettings(Settings):
    """A folder in which a tool makes files of its own."""

    path: UserPath
    size: PositiveSize | None = None
    """Room that a trial needs; checked before the first."""
    keep: bool = False
    """Without effect: what a trial made is removed. A study of a file is one of a folder when its kind is changed."""


class DeviceSettings(Settings):
    """A block device, whole or up to `size`."""

    path: UserPath
    size: PositiveSize | None = None
    prepare: Literal["fill", "none"] | Annotated[int, Field(ge=1, le=10)] = "fill"
    """fill, none, or how many times it is written from end to end."""
    purge: Literal["none", "discard", "format", "sanitize"] | None = None
    """Before the first trial of each study: none, or this way (`targets/purge.py`); then fill it anew."""
    keep: bool = True
    """Without effect: a study of a file is one of a device when its kind and path are changed."""


AnySettings = TypeVar("AnySettings", bound=Settings)


def read_settings(model: type[AnySettings], spec: Mapping[str, Any]) -> AnySettings:
    """The settings of one target; StudyError names the key, the value and what is wanted."""
    try:
        return model.model_validate(dict(spec))
    except ValidationError as error:
        first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        message = f"unknown key; {suggestion(key, model.model_fields)}"
    elif first["type"] == "missing":
        message = "is missing"
    else:
        message = error_text({**first, "input": spec.get(key)})
    raise StudyError(message, key=f"target.{key}")
