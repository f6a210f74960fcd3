"""Fault injection as the agent starts: importing TensorFlow works whatever fails in the agent."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support import faults, toy_tensorflow

PROBE = """
import sys
import tensorflow.python.client.session as session
import tensorflow.python.eager.def_function as def_function
import tensorflow.python.profiler.profiler_v2
import tensorflow.python.keras.engine.training as training
import tensorflow.python.keras.backend
import tensorflow.python.training.optimizer
import tensorflow.python.training.saver as saver
import tensorflow.python.framework.func_graph as func_graph
print(saver.Saver().save(None, "path"), training.Model().compile(), training.Model().evaluate())
print(func_graph.func_graph_from_py_func("f", lambda: 3))
print(session.BaseSession().run("loss"), def_function.Function()(2), training.Model().fit())
print("sitecustomize" in sys.modules)
faults = sys.modules.get("tfprobe_agent.faults")
if faults is not None:
    print(sorted(faults.entered), file=sys.stderr)
"""


def test_no_fault_of_the_agent_breaks_the_import_of_tensorflow(tmp_path: Path) -> None:
    """Each function that runs between the start of the interpreter and its end is made to raise."""
    packages = toy_tensorflow.write(tmp_path / "packages")
    boot = tmp_path / "run" / "boot"
    faults.build(boot, trace_level="off")
    bare = _run(packages, None, None)
    whole = _run(packages, boot, None)
    entered = json.loads(whole.stderr.splitlines()[-1].replace("'", '"'))

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda fault: _run(packages, boot, fault), entered))

    assert len(entered) > 40
    assert bare.stdout == whole.stdout
    wrong = [
        (fault, outcome.stdout, outcome.stderr[-500:])
        for fault, outcome in zip(entered, outcomes, strict=True)
        if (outcome.stdout, outcome.returncode) != (bare.stdout, bare.returncode)
    ]
    assert wrong == []


def _run(packages: Path, boot: Path | None, fault: str | None) -> subprocess.CompletedProcess[str]:
    path = str(packages) if boot is None else f"{boot}:{packages}"
    environment = {"PYTHONPATH": path, "PATH": "/usr/bin:/bin"}
    if fault is not None:
        environment["TEST_FAULT"] = fault
    return subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, timeout=120
    )
