"""Check a summary.json against the schema that the models profiler's manual gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA = Path(__file__).with_suffix(".schema.json")


def check_summary(document: dict[str, Any]) -> None:
    """Raise jsonschema's ValidationError where the document breaks the schema."""
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
