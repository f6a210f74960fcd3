"""Errors of compiled functions end a job, and look, as without a recording."""

from __future__ import annotations

import pytest

from tests.jax.outcomes import JOBS, counts, without_own_frames, without_times
from tests.tf.laboratory import Laboratory, counted


@pytest.mark.parametrize("filtering", ["auto", "remove_frames"])
def test_tracebacks_are_those_of_jax(laboratory: Laboratory, filtering: str) -> None:
    """Errors while tracing, in arguments, of a host callback, from NaN checks, and the last one.

    An error of a host callback has the whole stack in its message, with one frame of the agent,
    and `remove_frames` prints a message twice; before Python 3.11 all tracebacks show the frame.
    """
    env = {"JAX_TRACEBACK_FILTERING": filtering}

    bare, recorded = laboratory.pair(str(JOBS / "failing.py"), env=env)

    shown = without_own_frames(recorded.stdout.decode())
    assert shown == bare.stdout.decode()
    assert without_times(without_own_frames(recorded.stderr)) == without_times(bare.stderr)
    assert recorded.status == bare.status == 1
    if b"frames []" not in bare.stdout:
        assert len(recorded.stdout.splitlines()) <= len(bare.stdout.splitlines()) + 2
    assert {name: counts(recorded).get(name, 0) for name in counted(bare)} == counted(bare)
