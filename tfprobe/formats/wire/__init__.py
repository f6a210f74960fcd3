"""Read the wire format of protobuf into columns, many messages at once."""

from tfprobe.formats.wire.fields import Buffer, Extents, Fields, OtherForm, Repeated
from tfprobe.formats.wire.scan import delimited
from tfprobe.formats.wire.texts import NumberedTexts, ShortTexts, are_texts, texts

__all__ = [
    "Buffer",
    "Extents",
    "Fields",
    "NumberedTexts",
    "OtherForm",
    "Repeated",
    "ShortTexts",
    "are_texts",
    "delimited",
    "texts",
]
