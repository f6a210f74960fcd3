"""Fixtures: the fixes of trials in this process, and modules for them to patch."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from tests.support.agent import load


@pytest.fixture
def counted(monkeypatch):
    """What fixes have said of steps of other kinds or sizes, by kind and name."""
    others: dict[Any, Any] = {}
    monkeypatch.setattr(load("trial.units").COUNTER, "others", others)
    return others


@pytest.fixture
def fix(counted):
    """Apply a fix to a module; give its note."""

    def apply(fix: str, module: ModuleType, value: Any = None) -> Any:
        note = load("trial.notes").Note(fix)
        paths = load("trial.fixes").FIXES[fix].split()
        modules = [load(f"trial.fixes.{path}") for path in paths]
        (fixing,) = [each for each in modules if module.__name__ in each.MODULES]
        fixing.patch(module.__name__, module, value, note)
        return note

    return apply


@pytest.fixture
def make_module(monkeypatch):
    """Make a module from source that the job seems to have imported."""

    def make(name: str, source: str) -> ModuleType:
        module = ModuleType(name)
        exec(compile(source, f"/usr/lib/python3/site-packages/{name}.py", "exec"), module.__dict__)
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make
