"""Walk the fields of one message without decoding what is in them."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.errors import UnreadableInput

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_LENGTHS = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10


def delimited(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of each field that is a text, bytes or a message.

    Raises UnreadableInput where the bytes are not a message.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == _VARINT:
            _, at = _varint(message, at)
        elif wire == _DELIMITED:
            length, at = _varint(message, at)
            if length > len(message) - at:
                raise UnreadableInput("a field that is longer than its message")
            yield tag >> 3, message[at : at + length]
            at += length
        elif wire in _LENGTHS:
            at += _LENGTHS[wire]
        else:
            raise UnreadableInput("a field of an unknown type")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise UnreadableInput("a number that does not end")
