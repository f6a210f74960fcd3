"""Recordings made by others, kept beside the project and never in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Where they are: a folder that this variable names, or `shared/golden` beside the checkout.
VARIABLE = "TFPROBE_TEST_RECORDINGS"
GOLDEN = Path(os.environ.get(VARIABLE) or Path(__file__).resolve().parents[3] / "shared" / "golden")


def golden(*parts: str) -> Path:
    """Return the path of a recording.

    Skips the test where there are no recordings at all. One that is missing among others fails it:
    so does a variable that names no folder.
    """
    if not GOLDEN.is_dir() and not os.environ.get(VARIABLE):
        pytest.skip(f"no recordings of others: {GOLDEN} does not exist, and {VARIABLE} is not set")
    path = GOLDEN.joinpath(*parts)
    assert path.exists(), f"{path} does not exist"
    return path
