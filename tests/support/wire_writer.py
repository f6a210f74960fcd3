"""Write protobuf messages in all the ways that are legal, and some that are not."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import strategies as st

# Numbers that take from 1 to 10 bytes, and those where signs and widths change.
NUMBERS = st.one_of(
    st.integers(0, 300),
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 1, 127, 128, 2**31, 2**32 + 5, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 64]),
)
TEXTS = st.sampled_from(["", "a", "cpu", "GPU_0_bfc", "long" * 5, "é", "x" * 15, "y" * 16])
_VARINT, _FIXED64, _LENGTH, _GROUP, _GROUP_END, _FIXED32 = range(6)
_UNKNOWN = 100


def varint(value: int, *, padding: int = 0) -> bytes:
    """Return a number as a varint, with so many bytes more than it needs, 10 at most."""
    written = []
    while value > 0x7F or not written:
        written.append(value & 0x7F)
        value >>= 7
        if not value:
            break
    else:
        written.append(value)
    written += [0] * min(padding, 10 - len(written))
    return bytes([each | 0x80 for each in written[:-1]] + [written[-1]])


def tag(field: int, kind: int) -> bytes:
    """Return the tag of a field."""
    return varint(field << 3 | kind)


@st.composite
def message(draw: Any, schema: Descriptor, *, is_usual: bool = False) -> bytes:
    """Write a message of this type; if it is usual, as writers of protobuf do. Any: hypothesis."""
    parts = []
    for field in sorted(schema.fields, key=lambda each: each.number):
        most = 3 if is_repeated(field) or not is_usual else 1
        count = draw(st.integers(0, most))
        parts += [draw(_field(field, is_usual=is_usual)) for _ in range(count)]
    if is_usual:
        return b"".join(parts)
    parts += draw(st.lists(_unknown(), max_size=2))
    return b"".join(draw(st.permutations(parts)))


def is_repeated(field: FieldDescriptor) -> bool:
    """Say whether a field may come several times; how that is asked, versions differ."""
    told = getattr(field, "is_repeated", None)
    return bool(told) if told is not None else field.label == field.LABEL_REPEATED


@st.composite
def _field(draw: Any, field: FieldDescriptor, *, is_usual: bool) -> bytes:
    if field.message_type is not None:
        inner = draw(message(field.message_type, is_usual=is_usual))
        return _with_length(draw, field.number, inner, is_usual=is_usual)
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        inner = draw(TEXTS).encode()
        return _with_length(draw, field.number, inner, is_usual=is_usual)
    value = draw(NUMBERS)
    padding = 0 if is_usual else draw(st.sampled_from([0, 0, 0, 1, 9]))
    return tag(field.number, _VARINT) + varint(value, padding=padding)


def _with_length(draw: Any, number: int, inner: bytes, *, is_usual: bool) -> bytes:
    padding = 0 if is_usual else draw(st.sampled_from([0, 0, 0, 2]))
    return tag(number, _LENGTH) + varint(len(inner), padding=padding) + inner


@st.composite
def _unknown(draw: Any) -> bytes:
    """Write a field of no schema, or a known one as another kind."""
    number = draw(st.sampled_from([_UNKNOWN, _UNKNOWN, 1, 2, 11, 13]))
    return draw(
        st.sampled_from(
            [
                tag(_UNKNOWN, _VARINT) + varint(5),
                tag(number, _FIXED64) + bytes(8),
                tag(number, _FIXED32) + bytes(4),
                tag(_UNKNOWN, _LENGTH) + varint(3) + b"abc",
                tag(number, _GROUP) + tag(1, _VARINT) + varint(1) + tag(number, _GROUP_END),
            ]
        )
    )
