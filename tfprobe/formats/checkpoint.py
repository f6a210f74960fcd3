"""Read tensors from a checkpoint of version 2: PREFIX.index and PREFIX.data-00000-of-00001.

The index is a sorted string table in LevelDB's format (github.com/google/leveldb,
doc/table_format). Its protos say where each tensor is in the data files.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import message_class, parse
from tfprobe.profile.graph import Graph
from tfprobe.profile.records import GraphProfile, Tensor

# The type that tfprof gives to nodes that have a tensor in a checkpoint.
VARIABLE_TYPE = "_checkpoint_variables"
_FOOTER_BYTES = 48
_MAGIC = bytes.fromhex("57fb808b247547db")
# After a block: one byte for the compression type, and the checksum.
_NOT_PACKED = 0
# TensorFlow's own limit.
_MOST_DIMENSIONS = 254
_DATA_TYPES = {"DT_FLOAT": "f4", "DT_DOUBLE": "f8", "DT_INT32": "i4", "DT_INT64": "i8"}


class Checkpoint:
    """A checkpoint whose index has been read; tensors are read on demand."""

    def __init__(self, prefix: str) -> None:
        """Read PREFIX.index.

        Raises UnreadableInput if it is missing or not such an index.
        """
        self._prefix = prefix
        entries = dict(_entries(_bytes_of(Path(f"{prefix}.index"))))
        header = parse(entries.pop(b"", b""), "tfprobe.tensor_bundle.BundleHeaderProto")
        self._order = ">" if header.endianness else "<"
        self._shards = header.num_shards
        self._entries = {
            name.decode("utf-8", "replace"): parse(entry, "tfprobe.tensor_bundle.BundleEntryProto")
            for name, entry in entries.items()
        }

    @property
    def names(self) -> Collection[str]:
        """The names of the tensors."""
        return self._entries.keys()

    def read(self, name: str) -> Tensor:
        """Return the tensor of this name.

        Raises UnreadableInput if its data are missing or of a type without a text form here: float,
        double, int32, int64 and string have one.
        """
        entry = self._entries[name]
        shape = tuple(dim.size for dim in entry.shape.dim)
        if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
            raise UnreadableInput(f"{name} has the shape {shape}")
        dtype = message_class("tfprobe.tensor_bundle.BundleEntryProto").DESCRIPTOR.fields_by_name[
            "dtype"
        ]
        known = dtype.enum_type.values_by_number.get(entry.dtype)
        type_name = known.name if known is not None else str(entry.dtype)
        if entry.slices:
            raise UnreadableInput(f"{name} is kept in slices")
        content = self._content(name, entry)
        if type_name == "DT_STRING":
            return Tensor(shape, _strings(content, math.prod(shape)))
        if type_name not in _DATA_TYPES:
            raise UnreadableInput(f"{name} is of type {type_name}, which has no text")
        if len(content) % int(_DATA_TYPES[type_name][1]):
            raise UnreadableInput(f"{name} ends within a value")
        values = np.frombuffer(content, dtype=self._order + _DATA_TYPES[type_name])
        if len(values) != math.prod(shape):
            raise UnreadableInput(f"{name} has {len(values)} values for the shape {shape}")
        return Tensor(shape, tuple(values.tolist()))

    def _content(self, name: str, entry: Any) -> bytes:
        path = Path(f"{self._prefix}.data-{entry.shard_id:05}-of-{self._shards:05}")
        try:
            with path.open("rb") as file:
                file.seek(entry.offset)
                content = file.read(entry.size)
        except (OSError, ValueError, OverflowError) as exc:
            raise UnreadableInput(f"{name} cannot be read from {path} ({exc})") from exc
        if len(content) != entry.size:
            raise UnreadableInput(f"{path} ends before {name} does")
        return content


def with_checkpoint(profile: GraphProfile, checkpoint: Checkpoint) -> GraphProfile:
    """Return a profile with these tensors, which marks the nodes that are their variables."""
    nodes = tuple(
        replace(node, types=node.types | {VARIABLE_TYPE}) if node.name in checkpoint.names else node
        for node in profile.graph.nodes
    )
    return replace(profile, graph=Graph(nodes), tensors=checkpoint)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        hint = "A checkpoint is named by its prefix: model.ckpt for model.ckpt.index."
        raise UnreadableInput(f"{path} cannot be read ({exc.strerror})", hint=hint) from exc


def _entries(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a sorted string table."""
    if len(table) < _FOOTER_BYTES or table[-len(_MAGIC) :] != _MAGIC:
        raise UnreadableInput("not the index of a checkpoint of version 2")
    try:
        footer = table[-_FOOTER_BYTES:]
        at = _varint(footer, _varint(footer, 0)[1])[1]  # skip the handle of the meta index
        for _, place in _block(table, *_handle(footer, at)):
            yield from _block(table, *_handle(place, 0))
    except (IndexError, struct.error, RecursionError) as exc:
        raise UnreadableInput("a damaged index of a checkpoint") from exc


def _block(table: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block; a key omits the prefix it shares with the last one."""
    if table[offset + size] != _NOT_PACKED:
        raise UnreadableInput("a packed index, which no TensorFlow writes")
    block = table[offset : offset + size]
    (restarts,) = struct.unpack_from("<I", block, size - 4)
    end, at, key = size - 4 - 4 * restarts, 0, b""
    while at < end:
        shared, at = _varint(block, at)
        own, at = _varint(block, at)
        length, at = _varint(block, at)
        key = key[:shared] + block[at : at + own]
        at += own
        yield key, block[at : at + length]
        at += length


def _handle(content: bytes, at: int) -> tuple[int, int]:
    offset, at = _varint(content, at)
    return offset, _varint(content, at)[0]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _strings(content: bytes, count: int) -> tuple[str, ...]:
    """Return strings, which are stored as their lengths, a checksum of these, and their bytes."""
    try:
        at, lengths = 0, []
        for _ in range(min(count, len(content))):
            length, at = _varint(content, at)
            lengths.append(length)
        if len(lengths) < count:
            raise UnreadableInput("damaged strings")
        at += 4
        texts = []
        for length in lengths:
            texts.append(content[at : at + length].decode("utf-8", "replace"))
            at += length
        return tuple(texts)
    except IndexError as exc:
        raise UnreadableInput("damaged strings") from exc
