"""Tensors come out of a checkpoint's files; damaged ones are refused in words."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.support.golden import golden
from tfprobe.errors import UnreadableInput
from tfprobe.formats.checkpoint import Checkpoint
from tfprobe.formats.schema import message_class
from tfprobe.profile.records import Tensor
from tfprobe.tfprof.layout import text_of

DT_FLOAT, DT_STRING, DT_INT64, DT_BOOL = 1, 7, 9, 10


def varint(value: int) -> bytes:
    low = bytearray()
    while value >= 0x80:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*low, value])


def block(entries: list[tuple[bytes, bytes]]) -> bytes:
    """Return a block of a sorted string table in which each key shares what it can."""
    content, last = b"", b""
    for key, value in entries:
        shared = next((i for i, (a, b) in enumerate(zip(key, last, strict=False)) if a != b), 0)
        content += varint(shared) + varint(len(key) - shared) + varint(len(value))
        content += key[shared:] + value
        last = key
    return content + bytes(4) + b"\1\0\0\0"


def write(folder: Path, tensors: dict[str, tuple[int, tuple[int, ...], bytes]]) -> str:
    """Write a checkpoint of these tensors (data type, shape, bytes); return its prefix."""
    header = message_class("tfprobe.tensor_bundle.BundleHeaderProto")(num_shards=1)
    entries, data = [(b"", header.SerializeToString())], b""
    for name, (dtype, shape, content) in sorted(tensors.items()):
        entry = message_class("tfprobe.tensor_bundle.BundleEntryProto")(dtype=dtype)
        for size in shape:
            entry.shape.dim.add(size=size)
        entry.offset, entry.size = len(data), len(content)
        entries.append((name.encode(), entry.SerializeToString()))
        data += content
    first = block(entries)
    second = block([(b"z", varint(0) + varint(len(first)))])
    handles = varint(0) + varint(0) + varint(len(first) + 5) + varint(len(second))
    magic = bytes.fromhex("57fb808b247547db")
    table = first + bytes(5) + second + bytes(5) + handles.ljust(40, b"\0") + magic
    (folder / "model.index").write_bytes(table)
    (folder / "model.data-00000-of-00001").write_bytes(data)
    return str(folder / "model")


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    numbers = b"".join(value.to_bytes(8, "little") for value in range(6))
    texts = b"\2\3" + bytes(4) + b"abxyz"
    return write(
        tmp_path,
        {
            "dense/counts": (DT_INT64, (2, 3), numbers),
            "dense/names": (DT_STRING, (2,), texts),
            "flag": (DT_BOOL, (), b"\1"),
            "scale": (DT_FLOAT, (), b"\0\0\x20\x40"),
        },
    )


def test_tensors_are_read_by_name(prefix: str) -> None:
    """Numbers, strings and scalars, with their shapes."""
    checkpoint = Checkpoint(prefix)

    assert sorted(checkpoint.names) == ["dense/counts", "dense/names", "flag", "scale"]
    assert checkpoint.read("dense/counts") == Tensor((2, 3), (0, 1, 2, 3, 4, 5))
    assert checkpoint.read("dense/names") == Tensor((2,), ("ab", "xyz"))
    assert checkpoint.read("scale") == Tensor((), (2.5,))


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor((), (2.5,)), "[2.50 ],\n"),
        (Tensor((2, 2), (1, 2, 3, 4)), "[[1 2 ],\n[3 4 ],\n],\n"),
        (Tensor((1,), ("a",)), "['a' ],\n"),
        (Tensor((0,), ()), "[],\n"),
    ],
)
def test_a_value_is_written_in_brackets(tensor: Tensor, text: str) -> None:
    """As deep as there are dimensions."""
    assert text_of(tensor) == text


def test_a_long_value_is_cut() -> None:
    """Ten thousand characters are enough for a look."""
    text = text_of(Tensor((9_000,), (1,) * 9_000))

    assert text.startswith("[1 1 ")
    assert text.endswith("...omitted from display\n\n")
    assert len(text) == 10_000 + len("...omitted from display\n\n")


def test_a_type_without_text_is_refused(prefix: str) -> None:
    """The type is named."""
    with pytest.raises(UnreadableInput, match="DT_BOOL"):
        Checkpoint(prefix).read("flag")


def test_an_absent_checkpoint_says_how_one_is_named(tmp_path: Path) -> None:
    """People give the name of a file where a prefix is meant."""
    with pytest.raises(UnreadableInput, match="prefix"):
        Checkpoint(str(tmp_path / "none"))


def test_a_damaged_checkpoint_is_refused_or_read(prefix: str, tmp_path: Path) -> None:
    """A thousand mutants of the index and its data: no other error is raised."""
    index = Path(f"{prefix}.index").read_bytes()
    shutil.copy(f"{prefix}.data-00000-of-00001", tmp_path / "mutant.data-00000-of-00001")
    chance = random.Random(20261121)

    for _ in range(1000):
        mutated = bytearray(index)
        for _ in range(chance.randint(1, 4)):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        (tmp_path / "mutant.index").write_bytes(mutated)
        try:
            checkpoint = Checkpoint(str(tmp_path / "mutant"))
            for name in checkpoint.names:
                text_of(checkpoint.read(name))
        except UnreadableInput:
            continue


def test_a_checkpoint_of_tensorflow_is_read() -> None:
    """The one that tfprof's own tests use."""
    path = golden("tfprof_testdata", "ckpt.index").with_suffix("")

    checkpoint = Checkpoint(str(path))

    shapes = {name: checkpoint.read(name).shape for name in checkpoint.names}
    assert shapes == {"DW": (3, 3, 3, 6), "DW2": (2, 2, 6, 12), "ScalarW": ()}
