"""Our protos are compiled and private."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from tfprobe.formats import schema
from tfprobe.formats.schema import compile as compiler
from tfprobe.formats.schema import message_class


def test_the_descriptor_set_is_current(tmp_path):
    """schema.binpb is what the .proto files beside it compile to; run compile.py after a change."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools compiles the .proto files")
    fresh = tmp_path / "schema.binpb"

    compiler.compile_into(fresh)

    assert _files(fresh.read_bytes()) == _files(_checked_in())


def test_the_pool_is_private():
    """A program that also imports TensorFlow keeps protobuf's default pool to itself."""
    message_class("tfprobe.xplane.XSpace")

    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("tfprobe.xplane.XSpace")


def test_an_unknown_message_is_a_key_error():
    """A misspelt message name fails at once."""
    with pytest.raises(KeyError):
        schema.message_class("tfprobe.xplane.XSpaceX")


def _checked_in() -> bytes:
    return compiler.HERE.joinpath("schema.binpb").read_bytes()


def _files(content: bytes) -> list[descriptor_pb2.FileDescriptorProto]:
    return list(descriptor_pb2.FileDescriptorSet.FromString(content).file)
