"""Our protos number their fields as TensorFlow does."""

from __future__ import annotations

import json

from google.protobuf import descriptor_pb2

from tests.tf.laboratory import Laboratory
from tests.tf.requirements import need_tensorflow
from tfprobe.formats.schema import compile as compiler

# `Written...` are the same messages with nodes as bytes.
THEIR_NAMES = {"TensorShape": "TensorShapeProto"}
# TensorFlow has no Python module of the profiler service: test_capture.py asks a real service.
NOT_IN_PYTHON = {"ProfileRequest", "ProfileResponse", "ProfileToolData"}


def test_field_numbers_are_tensorflows(laboratory: Laboratory) -> None:
    """Every field of ours has the number it has in TensorFlow's own protos."""
    need_tensorflow(laboratory, (2, 21))
    outcome = laboratory.start("proto_fields.py").outcome()
    assert outcome.status == 0, outcome.stderr[-3000:]

    theirs = json.loads(outcome.stdout.splitlines()[-1])

    differing = {
        f"{name}.{field}": (number, theirs.get(name, {}).get(field))
        for name, fields in _our_fields().items()
        for field, number in fields.items()
        if theirs.get(name, {}).get(field) != number
    }
    assert differing == {}


def _our_fields() -> dict[str, dict[str, int]]:
    content = compiler.HERE.joinpath("schema.binpb").read_bytes()
    return {
        _their_name(message.name): {field.name: field.number for field in message.field}
        for file in descriptor_pb2.FileDescriptorSet.FromString(content).file
        for message in file.message_type
        if message.name not in NOT_IN_PYTHON
    }


def _their_name(name: str) -> str:
    return THEIR_NAMES.get(name, name.removeprefix("Written"))
