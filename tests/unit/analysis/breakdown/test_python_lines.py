"""Lines of the job between steps are known with what they do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.analysis.breakdown.test_gap_breakdown import LOOP, TF, call, gap
from tfprobe.analysis.breakdown.python_lines import LineKind, python_lines
from tfprobe.profile.activities import Call

C = {"file": "", "line": 0}


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        ((call("time.sleep", 90, **C),), LineKind.SLEEP),
        ((call("run", 90, file="/usr/lib/python3.11/subprocess.py"),), LineKind.SUBPROCESS),
        ((call("posix.fsync", 90, **C),), LineKind.SYNC_TO_DISK),
        ((call("gc.collect", 90, **C),), LineKind.COLLECTION),
        ((call("log", 1), call("builtins.print", 90, parent=1, **C)), LineKind.OUTPUT),
        ((call("_thread.lock.acquire", 90, **C),), LineKind.LOCK),
        ((call("wait", 90, file="/usr/lib/python3.11/threading.py"),), LineKind.WAIT),
        ((call("accept", 90, file="/usr/lib/python3.11/socket.py"),), LineKind.NETWORK),
        ((call("_create_op_internal", 90, file=f"{TF}/framework/ops.py"),), LineKind.GRAPH),
        ((call("_slice_helper", 90, file=f"{TF}/ops/array_ops.py"),), LineKind.READS),
        ((call("apply_primitive", 90, file="/env/jax/_src/dispatch.py"),), LineKind.OPS),
        ((call("tree_map", 90, file="/env/jax/_src/tree_util.py"),), LineKind.PYTHON),
        ((call("prepare", 90),), LineKind.PYTHON),
    ],
)
def test_what_a_line_does_is_known_by_its_innermost_call(calls: tuple[Call, ...], kind: LineKind):
    """The line is that of the code around the step."""
    dearest = python_lines([gap(LOOP, *calls)])[0]

    assert (dearest.kind, dearest.file, dearest.line) == (kind, "/home/ada/train.py", 9)


def test_what_a_helper_does_is_told_by_the_line_that_does_it():
    """`log()` calls os.fsync: its line is to be changed, not that of `log()`."""
    helper = call("log", 1, called_line=31)
    sync = call("posix.fsync", 90, parent=1, called_line=23, **C)

    dearest = python_lines([gap(LOOP, helper, sync)])[0]

    assert (dearest.what, dearest.kind, dearest.line) == ("posix.fsync", LineKind.SYNC_TO_DISK, 23)


@pytest.mark.parametrize(("ops", "runs_ops"), [(15, False), (25, True)])
def test_a_line_that_walks_trees_of_arrays_runs_ops(ops: int, *, runs_ops: bool):
    """What it does most is Python, whose purpose is ops of JAX."""
    walk = call("update", 100 - ops)
    op = call("multiply", ops, parent=1, file="/env/jax/_src/numpy/array_methods.py")

    dearest = python_lines([gap(LOOP, walk, op)])[0]

    assert (dearest.kind, dearest.runs_ops) == (LineKind.PYTHON, runs_ops)


def test_a_lock_is_known_by_its_end():
    """`with lock:` makes no call when it begins: the loop's own lines have the time."""
    held = replace(LOOP, self_ns=90_000)
    end = call("_thread.lock.__exit__", 1, called_line=31, **C)

    dearest = python_lines([gap(held, end)])[0]

    assert (dearest.kind, dearest.line) == (LineKind.LOCK, 31)


def test_shares_are_of_all_the_time_between_steps():
    """What libraries do by themselves is nobody's line."""
    keras = call("fit", 60, None, file="/env/site-packages/keras/src/trainer.py")

    lines = python_lines([gap(keras, LOOP, call("prepare", 30, parent=1, called_line=12))])

    assert [(each.what, each.ratio) for each in lines] == [("prepare", 0.3), ("main itself", 0.1)]
