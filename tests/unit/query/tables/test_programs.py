"""The table of programs has what XLA planned and what one run of each computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.asked_tables import asked
from tests.support.golden import golden
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)

QUERY = (
    "select work, name, number, captures, flops, bytes, argument_bytes, output_bytes, "
    "donated_bytes, temporary_bytes from programs"
)
# What `memory_analysis` of the executable said, and the products of a step of the model.
ARGUMENTS, OUTPUTS, TEMPORARY, PRODUCTS = 4_924_028, 4_792_608, 68, 272_367_616


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of JAX of which two steps were traced, the same one twice."""
    content = golden("frameworks", "jax_cpu_window_one_step.xplane.pb").read_bytes()
    steps = regular_steps(30)
    names = {step: f"{step:06}-jit-0.xplane.pb" for step in (5, 9)}
    events = [
        {
            "event": "sample",
            "work": 0,
            "step": step,
            "capture": name,
            "level": "window",
            "start_ns": steps[step][0],
            "end_ns": steps[step][1],
            "start_unix_ns": UNIX_NS + steps[step][0] - MONO_NS,
        }
        for step, name in names.items()
    ]
    process = WrittenProcess(
        loops=[WrittenLoop(kind="jit", name="train_step", steps=steps, sampled=tuple(names))],
        events=events,
        captures=dict.fromkeys(names.values(), content),
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    return write_run(tmp_path / "run", [process])


def test_a_program_has_a_row_for_its_loop(run: Path) -> None:
    """Float operations of a run of it, and the memory that it takes."""
    _, rows = asked(QUERY, run)

    ((work, name, _, captures, flops, whole, arguments, outputs, donated, temporary),) = rows
    assert (work, name, captures) == (0, "jit_train_step", 2)
    assert PRODUCTS <= flops < 1.05 * PRODUCTS
    assert (arguments, outputs, temporary) == (ARGUMENTS, pytest.approx(OUTPUTS, abs=64), TEMPORARY)
    assert whole >= arguments + outputs - donated + temporary


def test_the_rows_are_kept_with_the_captures(run: Path) -> None:
    """The second query gets them from the cache."""
    first = asked(QUERY, run)
    (kept,) = run.glob("derived/tables/*/*.parquet")
    before = kept.stat().st_mtime_ns

    assert asked(QUERY, run) == first
    assert kept.stat().st_mtime_ns == before


def test_a_run_of_tensorflow_has_none(tmp_path: Path) -> None:
    """Its programs, if there are any, are not in captures of steps."""
    process = WrittenProcess(header={LAYOUT.STATE_WORD: LAYOUT.FINISHED})
    run = write_run(tmp_path / "run", [process])

    assert asked(QUERY, run)[1] == []
