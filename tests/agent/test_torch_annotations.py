"""Annotations of PyTorch that last longer than a traced step."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import pytest

from tests.support.agent import load

annotations = load("frameworks.torch.annotations")


def _event(category: str, name: str, *, finished: bool) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "args": {"finished": finished}}


def _content(*events: dict[str, object]) -> bytes:
    return json.dumps({"traceEvents": events}, indent=2).encode()


def test_annotations_without_an_end_are_open() -> None:
    """Those that have ended are not, and neither is an event of memory, which has no end."""
    content = _content(
        _event("user_annotation", "epoch", finished=False),
        _event("user_annotation", "update", finished=True),
        _event("cpu_instant_event", "[memory]", finished=False),
    )

    assert annotations.open_names(content) == {"epoch"}


def test_nothing_is_searched_where_no_annotation_of_the_program_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search reads each object of the process, of which a job may have millions."""
    capture = tmp_path / "000005-optimizer_step-0.kineto.json"
    capture.write_bytes(
        _content(
            _event("user_annotation", "Optimizer.step#SGD.step", finished=False),
            _event("cpu_instant_event", "[memory]", finished=False),
        )
    )
    searches: list[None] = []
    monkeypatch.setattr(gc, "get_objects", lambda: searches.append(None) or [])

    annotations.let_go_of_open(str(capture), (annotations.OF_OPTIMIZERS,))

    assert searches == []
