"""Read the wire format of protobuf into columns, many messages at once."""

from tfprobe.formats.wire.buffer import Buffer, OtherForm
from tfprobe.formats.wire.fields import Extents, Fields, Repeated
from tfprobe.formats.wire.numbered import NumberedTexts
from tfprobe.formats.wire.strings import ShortTexts, are_texts, texts

__all__ = [
    "Buffer",
    "Extents",
    "Fields",
    "NumberedTexts",
    "OtherForm",
    "Repeated",
    "ShortTexts",
    "are_texts",
    "texts",
]
