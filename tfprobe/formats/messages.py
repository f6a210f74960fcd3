"""Parse bytes into protobuf messages. Says in one line what the bytes are not."""

from __future__ import annotations

from typing import Any

from tfprobe.errors import UnreadableInput
from tfprobe.formats.schema import message_class


def parse(content: bytes, full_name: str) -> Any:
    """Return the message of this type, such as "tfprobe.graph.GraphDef", that `content` holds.

    Raises UnreadableInput when it holds none. Any, because the classes are made at run time.
    """
    message = message_class(full_name)()
    try:
        message.ParseFromString(content)
    except Exception as exc:  # protobuf's DecodeError has no common base over its versions
        raise UnreadableInput(f"not a valid {full_name.rpartition('.')[2]} ({exc})") from exc
    return message


def parse_either(content: bytes, full_name: str) -> Any:
    """Return the message of this type that `content` holds as text or in binary.

    Raises UnreadableInput when it holds none.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return parse(content, full_name)
    if "\0" in text:
        return parse(content, full_name)
    # Imported here: it takes longer than most files take to be read.
    from google.protobuf import text_format

    message = message_class(full_name)()
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
    except text_format.ParseError:
        return parse(content, full_name)
    return message
