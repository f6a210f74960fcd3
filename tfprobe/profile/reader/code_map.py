"""Read a code map: which lines of Python made each op of a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tfprobe.errors import UnreadableInput
from tfprobe.profile.graph import Frame

# Lines of ours that stand between the job's: it did not write them.
_AGENT = "/boot/tfprobe_agent/"


def traces(content: bytes) -> Mapping[str, tuple[Frame, ...]]:
    """Return the frames of each op, outermost first; ops of functions as `function/op`.

    The agent's own frames are left out.

    Raises UnreadableInput when the bytes are no code map.
    """
    try:
        document = json.loads(content)
        files, functions = document["files"], document["functions"]
        frames = [
            Frame(str(files[file]), int(line), str(functions[function]))
            for file, line, function in document["frames"]
        ]
        stacks = [
            tuple(frames[at] for at in stack if _AGENT not in frames[at].file)
            for stack in document["stacks"]
        ]
        return {str(name): stacks[at] for name, at in document["ops"].items() if stacks[at]}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as exc:
        raise UnreadableInput(f"not a code map ({type(exc).__name__}: {exc})") from exc
