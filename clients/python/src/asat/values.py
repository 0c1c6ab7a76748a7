"""JSON to typed values, and back."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import keyword
import types
import typing
from typing import Any


def read(kind: Any, value: Any) -> Any:
    """A value of JSON as this kind. Fields that the kind does not have are left out: answers may gain fields."""
    if value is None or kind is Any:
        return value
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return read(_fitting(of, value), value)
    if origin is list:
        return [read(of[0], item) for item in value]
    if origin is dict:
        return {name: read(of[1], item) for name, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return kind(**{name: read(of, value.get(key)) for name, key, of in _fields(kind)})
    if kind in (datetime.datetime, datetime.date):
        return kind.fromisoformat(value)
    return value


def write(value: Any) -> Any:
    """A value as JSON has it; what is None is left out of objects."""
    if dataclasses.is_dataclass(value):
        return write({key: getattr(value, name) for name, key, _ in _fields(type(value))})
    if isinstance(value, dict):
        return {name: write(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [write(item) for item in value]
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        raise ValueError(f"{value} has no time zone: write for example datetime.now(datetime.UTC)")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def text(value: Any) -> str:
    """A value as it stands in a query or a header."""
    value = write(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fitting(kinds: tuple[Any, ...], value: Any) -> Any:
    """The first of the kinds that the value can be."""
    some = [kind for kind in kinds if kind is not type(None)]
    if len(some) == 1:
        return some[0]
    has_all = lambda kind: all(key in value for name, key, _ in _fields(kind) if name in _required(kind))
    return next((kind for kind in some if dataclasses.is_dataclass(kind) and has_all(kind)), Any)


@functools.cache
def _fields(kind: type) -> list[tuple[str, str, Any]]:
    """The fields of a class: their names here and in JSON, and their kinds."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]
    return [(name, name[:-1] if keyword.iskeyword(name[:-1]) else name, hints[name]) for name in names]


@functools.cache
def _required(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING}
