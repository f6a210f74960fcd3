"""Real steps whose memory is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tf.laboratory import Laboratory

LEAKED_BYTES = 65_536 * 4
PRODUCT_BYTES = 1024 * 2048 * 4


def memory(run: Path, *words: str) -> Any:  # Any: a JSON document
    command = [sys.executable, "-m", "tfprobe", "memory", str(run), "--json", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_the_ops_that_hold_the_peak_are_named(laboratory: Laboratory) -> None:
    """Two products of 8 MiB live at once, whatever of memory this TensorFlow records."""
    recorded = laboratory.start("large_activation.py", record=["--every", "4"]).outcome()

    assert recorded.status == 0, recorded.stderr[-3000:]
    [allocator] = memory(recorded.run)["allocators"]
    held = {each["name"]: each["bytes"] for each in allocator["peak"]["holders"]}
    ours = {name: size for name, size in held.items() if name.startswith("big/")}
    assert len(ours) >= 2, held
    assert 2 * PRODUCT_BYTES <= sum(ours.values()) <= 3.1 * PRODUCT_BYTES, held


def test_the_line_that_holds_the_peak_is_named(laboratory: Laboratory) -> None:
    """It is the one of the product in the job's own file."""
    recorded = laboratory.start("large_activation.py", record=["--every", "4"]).outcome()

    [allocator] = memory(recorded.run, "--by", "line")["allocators"]
    # Newer allocators also tell of what the two constants hold, before any step.
    known = [each for each in allocator["peak"]["holders"] if each["role"] != "held_before"]
    largest = max(known, key=lambda each: each["bytes"])
    assert "large_activation.py:" in largest["name"], allocator["peak"]["holders"]


@pytest.mark.parametrize(("argument", "verdict"), [("leak", "growing"), ("no leak", "steady")])
def test_a_leaking_list_of_tensors_is_told_from_a_tidy_job(
    laboratory: Laboratory, argument: str, verdict: str
) -> None:
    """A list that keeps 256 KiB a step is found, with its slope."""
    recorded = laboratory.start("leaking_list.py", argument, record=[]).outcome()

    assert recorded.status == 0, recorded.stderr[-3000:]
    [host] = memory(recorded.run)["hosts"]
    growth = host["growth"]
    if verdict == "steady":
        assert growth["verdict"] != "growing", growth
        return
    assert growth["verdict"] == "growing", growth
    assert 0.9 * LEAKED_BYTES < growth["bytes_per_step"] < 1.1 * LEAKED_BYTES
