"""Our protos are compiled, private, and number their fields as TensorFlow does."""

from __future__ import annotations

import importlib.util

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from tfprobe import schema
from tfprobe.schema import compile as compiler
from tfprobe.schema import message_class

THEIR_NAMES = {"TensorShape": "TensorShapeProto"}
# Of the profiler service late versions bring no Python; tests/tf asks a real one.
NOT_IN_PYTHON = {"ProfileRequest", "ProfileResponse", "ProfileToolData"}


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


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not in this environment"
)
@pytest.mark.slow
def test_field_numbers_are_tensorflows():
    """Every field of ours has the number it has in TensorFlow's own protos."""
    theirs = _their_fields()

    for name, fields in _our_fields().items():
        if name in NOT_IN_PYTHON:
            continue
        assert fields.items() <= theirs[name].items(), name


def _checked_in() -> bytes:
    return compiler.HERE.joinpath("schema.binpb").read_bytes()


def _files(content: bytes) -> list[descriptor_pb2.FileDescriptorProto]:
    return list(descriptor_pb2.FileDescriptorSet.FromString(content).file)


def _our_fields() -> dict[str, dict[str, int]]:
    fields: dict[str, dict[str, int]] = {}
    for file in _files(_checked_in()):
        for message in file.message_type:
            name = THEIR_NAMES.get(message.name, message.name)
            fields[name] = {field.name: field.number for field in message.field}
    return fields


def _their_fields() -> dict[str, dict[str, int]]:
    from tensorflow.core.framework import allocation_description_pb2, function_pb2, graph_pb2
    from tensorflow.core.profiler import profile_pb2, tfprof_log_pb2, tfprof_output_pb2
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.profiler import profiler_v2  # noqa: F401  # registers xplane.proto
    from tensorflow.tsl.profiler.protobuf import profiler_options_pb2, xplane_pb2

    modules = [allocation_description_pb2, function_pb2, graph_pb2, config_pb2, xplane_pb2]
    # TensorFlow has a copy of pprof's profile.proto.
    modules += [profile_pb2, profiler_options_pb2, tfprof_log_pb2, tfprof_output_pb2]
    files = [module.DESCRIPTOR for module in modules]
    fields: dict[str, dict[str, int]] = {}
    while files:
        file = files.pop()
        files += file.dependencies
        for name, message in file.message_types_by_name.items():
            fields[name] = {field.name: field.number for field in message.fields}
    return fields


def test_an_unknown_message_is_a_key_error():
    """A misspelt message name fails at once."""
    with pytest.raises(KeyError):
        schema.message_class("tfprobe.xplane.XSpaceX")
