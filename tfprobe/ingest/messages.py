"""Parse bytes into protobuf messages. Says in one line what the bytes are not."""

from __future__ import annotations

from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.ingest.schema import message_class


def parse(content: bytes, full_name: str) -> Any:
    """Return the message of this type, such as "tfprobe.graph.GraphDef", that `content` holds.

    Raises UnreadableInput when it holds none. Any, because the classes are made at run time.
    """
    message = message_class(full_name)()
    try:
        message.ParseFromString(content)
    except Exception as exc:  # protobuf's DecodeError has no common base over its versions
        raise UnreadableInput(f"not a {full_name.rpartition('.')[2]} ({exc})") from exc
    return message
