"""Check a summary.json against the schema that the models profiler's manual gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SCHEMA = Path(__file__).with_suffix(".schema.json")


def check_summary(document: dict[str, Any]) -> None:
    """Raise jsonschema's ValidationError where the document breaks the schema.

    A development environment without jsonschema checks nothing here; that of `make test` has it.
    """
    try:
        import jsonschema
    except ImportError:
        return
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))


def need_jsonschema() -> None:
    """Skip the test where documents cannot be checked."""
    pytest.importorskip("jsonschema", reason="jsonschema checks documents; `make test` installs it")
