"""Read the wire format of protobuf into columns, many messages at once."""

from tfprobe.ingest.wire.buffer import Buffer, OtherForm
from tfprobe.ingest.wire.fields import Extents, Fields, Repeated
from tfprobe.ingest.wire.numbered import NumberedTexts
from tfprobe.ingest.wire.strings import ShortTexts, are_texts, texts

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
