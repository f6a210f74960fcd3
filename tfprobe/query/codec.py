"""Turn values into JSON and back by their types; refuse anything that does not fit the type.

A run directory may come from a stranger, so its contents must not decide what is created from them,
as a pickle does. Here the reader's own types decide, and other contents are refused. Whole
numbers, floats and arrays come back as they were to the last bit. cattrs and msgspec do not tell
`int | Missing` or two dataclasses of one shape apart without tags in every class of the model.
"""

from __future__ import annotations

import base64
import functools
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

# Any, here and below: a value of any type, and JSON.
_Turn = Callable[[Any], Any]
_SCALARS: tuple[type, ...] = (bool, int, float, str, type(None))
# Of arrays only numbers and flags: an array of objects would be a pickle.
_NUMBERS = re.compile(r"[<|][biuf][1248]")
_MOST_DIMENSIONS = 3


class NotEncodable(ValueError):
    """A value, or its JSON, is not of the expected type."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Both directions of one type. `read` raises NotEncodable for what `write` cannot write."""

    write: _Turn
    read: _Turn
    holds: Callable[[Any], bool]


@functools.cache
def plain(kind: Any) -> Codec:
    """Return the codec of a type.

    Raises TypeError for a type that has no such form.
    """
    origin, given = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return Codec(_same, _same, lambda _: True)
    if kind in _SCALARS:
        return _scalar(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(given)
    if origin is typing.Literal:
        return _literal(given)
    if origin is tuple and given[-1:] != (Ellipsis,):
        return _row(tuple, given, lambda *values: values)
    if origin is not None and issubclass(origin, np.ndarray):
        return Codec(_array_out, _array_in, lambda value: isinstance(value, np.ndarray))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(*given)
    if origin is not None and issubclass(origin, Collection):
        return _several(origin, given[0])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Codec(lambda value: value.value, functools.partial(_enum, kind), _is(kind))
    if is_dataclass(kind) and isinstance(kind, type):
        return _record(kind, [field.name for field in fields(kind)])
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _record(kind, list(kind._fields))
    raise TypeError(f"Values of {kind} have no plain form.")


def _scalar(kind: type) -> Codec:
    # A float field may hold a whole number, which stays one.
    wanted = (int, float) if kind is float else (kind,)
    others: dict[type, tuple[type, ...]] = {
        int: (np.integer,),
        float: (int, np.floating, np.integer),
    }
    found = (kind, *others.get(kind, ()))

    def holds(value: Any) -> bool:
        return isinstance(value, found) and isinstance(value, (bool, np.bool_)) == (kind is bool)

    def write(value: Any) -> Any:
        if kind is bool and isinstance(value, np.bool_):
            return bool(value)
        if not holds(value):
            raise NotEncodable(f"{value!r:.60} is no {kind.__name__}")
        return value.item() if isinstance(value, np.generic) else value

    def read(value: Any) -> Any:
        if type(value) not in wanted:
            raise NotEncodable(f"{value!r:.60} is no {kind.__name__}")
        return value

    return Codec(write, read, holds)


def _literal(given: Sequence[Any]) -> Codec:
    """Return a type of a few texts."""

    def turn(value: Any) -> Any:
        if value not in given:
            raise NotEncodable(f"{value!r:.60} is none of {given}")
        return value

    return Codec(turn, turn, lambda value: isinstance(value, str) and value in given)


def _union(given: Sequence[Any]) -> Codec:
    """Return the codec of a union: the position of the type in it, and the value."""
    kinds = [plain(each) for each in given]

    def write(value: Any) -> Any:
        for at, kind in enumerate(kinds):
            if kind.holds(value):
                return [at, kind.write(value)]
        raise NotEncodable(f"{value!r:.60} is none of {given}")

    readers = [kind.read for kind in kinds]

    def read(value: Any) -> Any:
        at, content = _list(value, 2)
        if type(at) is not int or not 0 <= at < len(readers):
            raise NotEncodable(f"{at!r:.60} is no number of a type")
        return readers[at](content)

    return Codec(write, read, lambda value: any(kind.holds(value) for kind in kinds))


def _row(kind: type, given: Sequence[Any], make: Callable[..., Any]) -> Codec:
    """Return the codec of a tuple of fixed length."""
    kinds = [plain(each) for each in given]

    def write(value: Any) -> Any:
        return [each.write(item) for each, item in zip(kinds, value, strict=True)]

    def read(value: Any) -> Any:
        found = _list(value, len(kinds))
        return make(*[each.read(item) for each, item in zip(kinds, found, strict=True)])

    return Codec(write, read, _is(kind))


def _record(kind: type, names: Sequence[str]) -> Codec:
    """Return the codec of a class with fields, which are written in order."""

    # Looked up when the first is met: a field may be of the class itself.
    @functools.cache
    def turns() -> list[Codec]:
        hints = get_type_hints(kind)
        return [plain(hints[name]) for name in names]

    @functools.cache
    def readers() -> list[_Turn]:
        return [each.read for each in turns()]

    def write(value: Any) -> Any:
        return [each.write(getattr(value, name)) for name, each in zip(names, turns(), strict=True)]

    def read(value: Any) -> Any:
        found = _list(value, len(names))
        return kind(*[turn(item) for turn, item in zip(readers(), found, strict=True)])

    return Codec(write, read, _is(kind))


def _several(kind: type, of: Any) -> Codec:
    each = plain(of)
    make = frozenset if issubclass(kind, (frozenset, set)) else list if kind is list else tuple

    def read(value: Any) -> Any:
        return make(map(each.read, _list(value)))

    def holds(value: Any) -> bool:
        return isinstance(value, kind) and not isinstance(value, (str, bytes))

    return Codec(lambda value: list(map(each.write, value)), read, holds)


def _mapping(key: Any, content: Any) -> Codec:
    """Return the codec of a mapping, written as pairs in order: JSON keys can only be strings."""
    pair = _row(tuple, (key, content), lambda *values: values)

    def write(value: Any) -> Any:
        return [pair.write(item) for item in value.items()]

    return Codec(write, lambda value: dict(map(pair.read, _list(value))), _is(Mapping))


def _array_out(value: Any) -> Any:
    dtype = value.dtype.newbyteorder("<")
    if not _NUMBERS.fullmatch(dtype.str):
        raise NotEncodable(f"an array of {dtype} has no plain form")
    content = base64.b64encode(value.astype(dtype).tobytes()).decode()
    return [dtype.str, list(value.shape), content]


def _array_in(value: Any) -> Any:
    kind, shape, content = _list(value, 3)
    sizes = [_whole(each) for each in _list(shape)]
    is_known = isinstance(kind, str) and _NUMBERS.fullmatch(kind)
    if not is_known or len(sizes) > _MOST_DIMENSIONS:
        raise NotEncodable(f"{kind!r:.60} is no type of numbers")
    try:
        flat = np.frombuffer(base64.b64decode(content, validate=True), dtype=np.dtype(kind))
        # A copy: what is read may be changed like what was made.
        return flat.reshape(sizes).astype(flat.dtype.newbyteorder("="))
    except (TypeError, ValueError) as exc:
        raise NotEncodable(f"no array: {exc}") from exc


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise NotEncodable(f"{value!r:.60} is no size")
    return value


def _enum(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except (TypeError, ValueError) as exc:
        raise NotEncodable(f"{value!r:.60} is no {kind.__name__}") from exc


def _list(value: Any, count: int | None = None) -> list[Any]:
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise NotEncodable(f"{value!r:.60} is no list of the right length")
    return value


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _same(value: Any) -> Any:
    return value
