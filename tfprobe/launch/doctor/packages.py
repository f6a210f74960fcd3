"""What the interpreter would import: a TensorFlow we know, and a sitecustomize of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfprobe.launch.doctor.check import Check

OLDEST, NEWEST_TESTED = (1, 14), (2, 21)


def checks(found: Mapping[str, Any]) -> list[Check]:
    """Judge what the probe found on the interpreter's path."""
    return [_tensorflow(found), *_sitecustomize(found)]


def _tensorflow(found: Mapping[str, Any]) -> Check:
    where = found.get("tensorflow")
    if not where:
        return Check.failed(
            "tensorflow",
            "It has no TensorFlow: there is nothing to record.",
            "Name the interpreter that has it, as in `tfprobe doctor -- /venv/bin/python`.",
        )
    if "tensorflow_error" in found:
        return Check.failed(
            "tensorflow",
            f"TensorFlow at {where} does not import: {found['tensorflow_error']}.",
            "Mend the installation; the job meets the same error.",
        )
    return _version(found.get("tensorflow_version"), where)


def _version(version: str | None, where: str) -> Check:
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    if numbers is None:
        return Check.warning(
            "tensorflow",
            f"TensorFlow at {where} does not say its version.",
            "Ask again with --deep, which imports it.",
        )
    pair = (int(numbers[1]), int(numbers[2]))
    if pair < OLDEST:
        return Check.failed(
            "tensorflow",
            f"TensorFlow {version} is older than tfprobe records.",
            "1.14 is the oldest.",
        )
    if pair > NEWEST_TESTED:
        return Check.warning(
            "tensorflow",
            f"TensorFlow {version} is newer than tested.",
            "It most likely records; compare the step counts of the report.",
        )
    return Check.passed("tensorflow", f"TensorFlow {version} at {where}.")


def _sitecustomize(found: Mapping[str, Any]) -> list[Check]:
    own = found.get("sitecustomize")
    if not own:
        return []
    return [Check.passed("sitecustomize", f"Its own {own} runs as ever, after the recorder.")]
