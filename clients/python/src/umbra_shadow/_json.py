"""Values of programs as JSON, and JSON as values of annotated types."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import enum
import ipaddress
import json
import numbers
import pathlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard, cast

import pydantic

# Most values in the arguments or the result of a call: more of them mostly means a list that contains itself.
MOST_VALUES = 250_000
# Levels of a value from which on it is text. The server refuses arguments of more than 32 levels.
_MOST_LEVELS, _MOST_LEVELS_GIVEN = 32, 64
# Classes of values whose texts are what they are.
_TEXTS = (
    numbers.Number,
    uuid.UUID,
    pathlib.PurePath,
    datetime.tzinfo,
    ipaddress.IPv4Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Address,
    ipaddress.IPv6Network,
    pydantic.AnyUrl,
)


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Returns True for a JSON object."""
    return isinstance(value, dict)


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Returns True for a JSON object in any form of a mapping."""
    return isinstance(value, Mapping)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Returns True for a JSON array."""
    return isinstance(value, list)


def object_in(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns the member of a JSON object that is an object itself; an empty one if there is none."""
    member = value.get(name)
    return dict(member) if is_mapping(member) else {}


def array_in(value: Mapping[str, Any], name: str) -> list[Any]:
    """Returns the member of a JSON object that is an array; an empty one if there is none."""
    member = value.get(name)
    return member if is_array(member) else []


class Pairs:
    """Pairs of names and values, in which a name may occur twice."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self.pairs = pairs


def plain(
    value: Any,
    most: float = float("inf"),
    strict: bool = False,
    left_out: Callable[[type], bool] = lambda kind: False,
    as_class: bool = False,
    whole: bool = False,
) -> Any:
    """Converts a value to JSON. A value without a form in JSON becomes its text, so that rules can still read it.

    Of dataclasses and pydantic's models, private fields and those with ``repr=False`` or ``exclude=True`` are left out,
    unless the value is to be ``whole``. Under ``as_class`` an object of an unknown class becomes its class, as
    ``<Connection>``: its text may have what no model gave. So does a number that JSON does not have, as
    ``<float inf>``, which is not the text ``inf``.

    Members of objects and lists whose class is ``left_out`` are left out, at any depth. Raises :class:`ValueError` if
    the value has more than ``most`` parts, under ``as_class`` for more than 64 levels, and under ``strict`` for a value
    without a text of its own, such as a function. Without ``as_class`` the 32nd level of a value is text.
    """
    return _Plain(most, strict, left_out, as_class, whole).of(value, 0)


def encoded(value: Any, exact: bool = False) -> bytes:
    """Returns JSON as it is sent. U+0000 becomes U+FFFD: the server cannot store it, and results of tools may hold it.

    Under ``exact`` it stays, and so do all levels, for the server to refuse: what it decides about is what runs.
    Raises :class:`ValueError` or :class:`RecursionError` if the value cannot be written.
    """
    sent = plain(value, as_class=True) if exact else _without_nul(plain(value))
    return json.dumps(sent, ensure_ascii=False, allow_nan=False).encode("utf-8")


def typed(value: Any, hint: Any) -> Any:
    """Converts a JSON value to a type. For a type that pydantic cannot make, the value is returned unchanged.

    Raises :class:`ValueError` if the value does not fit the type.
    """
    try:
        adapter = pydantic.TypeAdapter(hint)
    except pydantic.errors.PydanticUserError:
        return value
    return adapter.validate_json(json.dumps(value), strict=True)


def _keyed(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Builds an object of all pairs. A repeated name gets another name, so that no value is hidden."""
    named: dict[str, Any] = {}
    for key, item in pairs:
        while key in named:
            key += "~"
        named[key] = item
    return named


class _Plain:
    def __init__(
        self, most: float, strict: bool, left_out: Callable[[type], bool], as_class: bool, whole: bool
    ) -> None:
        self.left, self.strict, self.left_out, self.as_class, self.whole = most, strict, left_out, as_class, whole

    def of(self, value: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError("it has too many values")
        if value is None or isinstance(value, (bool, int)):
            return value if not isinstance(value, int) or -(2**63) <= value < 2**64 else _digits(value)
        if isinstance(value, str):
            return _well_formed(value)
        if isinstance(value, float):
            if value == value and abs(value) != float("inf"):
                return value
            return f"<float {value}>" if self.as_class else str(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return _bytes_as_text(bytes(cast(Any, value)))
        if isinstance(value, enum.Enum):
            return self.of(value.value, depth + 1)
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, datetime.timedelta):
            return value.total_seconds()
        if depth >= _MOST_LEVELS and not self.as_class:
            return _well_formed(str(value))
        if depth >= _MOST_LEVELS_GIVEN:
            raise ValueError("it is nested too deeply")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            hidden = () if self.whole else _hidden(value)
            names = [field.name for field in dataclasses.fields(value) if field.name not in hidden]
            value = {name: getattr(value, name) for name in names}
        if isinstance(value, Pairs):
            return self.object(value.pairs, depth)
        if is_mapping(value):
            return self.object(value.items(), depth)
        if isinstance(value, (list, tuple, collections.deque, range)):
            return self.array(cast(Iterable[Any], value), depth)
        if isinstance(value, (set, frozenset)):
            items = self.array(cast(Iterable[Any], value), depth)
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        for method in ("model_dump", "dict"):
            # Pydantic's models, of version 1 or 2.
            if not isinstance(value, type) and callable(getattr(value, method, None)):
                with contextlib.suppress(Exception):
                    excluded = {} if self.whole else _excluded(value)
                    given = {"exclude": excluded} if excluded else {}
                    return self.of(getattr(value, method)(**given), depth + 1)
        if self.strict and cast(Any, type(value)).__str__ is object.__str__:
            raise ValueError(f"{type(value).__name__} has no form in JSON")
        if self.as_class and not isinstance(value, _TEXTS):
            return _class_of(value)
        return _well_formed(str(value))

    def object(self, pairs: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Any]:
        given = ((self.key(key, depth), item) for key, item in pairs if not self.left_out(item.__class__))
        return _keyed((key, self.of(item, depth + 1)) for key, item in given)

    def key(self, key: Any, depth: int) -> str:
        if self.as_class and not (key is None or isinstance(key, (str, int, float))):
            key = self.of(key, depth + 1)
        return _well_formed(str(key))

    def array(self, items: Iterable[Any], depth: int) -> list[Any]:
        return [self.of(item, depth + 1) for item in items if not self.left_out(item.__class__)]


def _hidden(value: Any) -> set[str]:
    """Returns the fields of a dataclass or model that no argument or result shows."""
    kind = cast(Any, type(value))
    fields: list[tuple[str, Any]] = [*getattr(kind, "__dataclass_fields__", {}).items()]
    if issubclass(kind, pydantic.BaseModel):
        fields += [*kind.model_fields.items(), *kind.model_computed_fields.items(), *_extra(value).items()]
    else:
        fields += getattr(kind, "__pydantic_fields__", {}).items()
    return {
        name
        for name, field in fields
        if name.startswith("_") or not getattr(field, "repr", True) or getattr(field, "exclude", None)
    }


def _extra(value: Any) -> dict[str, Any]:
    """Returns the members of a model that are no fields of its class."""
    return getattr(value, "__pydantic_extra__", None) or {}


def _excluded(value: Any) -> dict[Any, Any]:
    """Returns the hidden fields in a value, at any depth, in the form of pydantic's ``exclude``."""
    hidden: set[str] = set()
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, pydantic.RootModel):
        return _excluded(cast(Any, value).root)
    if isinstance(value, pydantic.BaseModel) or dataclasses.is_dataclass(cast(type, value.__class__)):
        hidden = _hidden(value)
        members = {**getattr(value, "__dict__", {}), **_extra(value)}.items()
    elif is_mapping(value):
        members = value.items()
    elif isinstance(value, (list, tuple)):
        members = enumerate(cast(Iterable[Any], value))
    within = {name: _excluded(item) for name, item in members}
    return {name: found for name, found in within.items() if found} | dict.fromkeys(hidden, True)


def _class_of(value: Any) -> str:
    return f"<{type(value).__name__}>"


def _bytes_as_text(data: bytes) -> str:
    """Returns UTF-8 as text, and other bytes and zero as ``\\xNN``, so that unequal bytes have unequal texts.

    A backslash before an ``x`` is ``\\x5c``.
    """
    return data.replace(b"\\x", b"\\x5cx").decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def _well_formed(text: str) -> str:
    """Replaces halves of characters, which UTF-8 cannot hold, by U+FFFD; two halves that belong together are one."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:
        # Python refuses to write so many digits in base 10.
        return hex(value)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if is_object(value):
        return _keyed((_without_nul(key), _without_nul(item)) for key, item in value.items())
    return [_without_nul(item) for item in value] if is_array(value) else value
