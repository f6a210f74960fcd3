"""Fixtures: a directory for jobs with the toy TensorFlow, and the agent in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent import Laboratory, load


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    """A fresh directory without a boot directory."""
    return Laboratory(tmp_path)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch):
    """The agent's switches, as at the start of a process."""
    guard = load("core.guard")
    monkeypatch.setattr(guard.STATE, "disabled", False)
    monkeypatch.setattr(guard.STATE, "tracing", True)
    monkeypatch.setattr(guard.STATE, "on_failure", None)
    return guard.STATE
