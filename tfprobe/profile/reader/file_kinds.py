"""Tell what kind of recording a file from elsewhere is, by what is in it."""

from __future__ import annotations

import gzip
import zlib
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tfprobe.errors import UnreadableInput
from tfprobe.formats.messages import parse, parse_either


class Kind(Enum):
    """What a file holds."""

    TIMELINE = "JSON in the trace event format"
    XSPACE = "XSpace"
    RUN_METADATA = "RunMetadata"
    PROFILE = "ProfileProto"


class Contents(NamedTuple):
    """What is in a file, unpacked, and what kind it is of."""

    kind: Kind
    content: bytes


def contents(path: Path) -> Contents:
    """Return what is in a file, which may be packed by gzip.

    Raises UnreadableInput where it is no recording, and says what it is where that can be told.
    """
    try:
        content = _unpacked(path.read_bytes())
    except OSError as exc:
        raise UnreadableInput(f"it cannot be read: {exc.strerror or exc}") from exc
    return Contents(_kind(path, content), content)


def _kind(path: Path, content: bytes) -> Kind:
    if not content:
        raise UnreadableInput("the file is empty")
    if _is_json(content):
        return Kind.TIMELINE
    if _holds_planes(content):
        return Kind.XSPACE
    if _holds_steps(content):
        return Kind.RUN_METADATA
    if _holds_nodes(content):
        return Kind.PROFILE
    if _is_graph(content):
        hint = f"A graph by itself: `tfprobe tfprof --graph_path={path} scope -select params`."
        raise UnreadableInput("a GraphDef, which says nothing about time", hint=hint)
    raise UnreadableInput(
        "neither a RunMetadata, nor an XSpace (xplane.pb), a ProfileProto or a timeline in JSON"
    )


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as exc:
        raise UnreadableInput(f"damaged gzip ({exc})") from exc


def _is_json(content: bytes) -> bool:
    """Say whether this is text that begins as JSON does, which a binary message may, too."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _holds_planes(content: bytes) -> bool:
    try:
        planes = parse(content, "tfprobe.xplane.XSpace").planes
    except UnreadableInput:
        return False
    return any(plane.name.startswith("/") and plane.lines for plane in planes)


def _holds_steps(content: bytes) -> bool:
    try:
        devices = parse(content, "tfprobe.step_stats.RunMetadata").step_stats.dev_stats
    except UnreadableInput:
        return False
    return any(device.device and device.node_stats for device in devices)


def _holds_nodes(content: bytes) -> bool:
    try:
        nodes = parse(content, "tfprobe.tfprof.ProfileProto").nodes
    except UnreadableInput:
        return False
    return any(node.name and node.op for node in nodes.values())


def _is_graph(content: bytes) -> bool:
    try:
        nodes = parse_either(content, "tfprobe.graph.GraphDef").node
    except UnreadableInput:
        return False
    return any(node.name and node.op for node in nodes)
