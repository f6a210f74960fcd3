"""A forked child is a process of its own: its folder, its counts, its exit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import GREENLET, Laboratory
from tests.support.interpreters import python_path
from tfprobe.runs.process_folder.steps_layout import AgentState

# In a job: run `body` in a forked child, wait for it, and return its status. Python 3.6 notifies
# nobody of a fork before there was a second thread; TensorFlow always starts one.
FORK = """
first = threading.Thread(target=int)
first.start()
first.join()
def in_child(body, leave=os._exit):
    pid = os.fork()
    if pid == 0:
        body()
        leave(0)
    return os.waitpid(pid, 0)[1]
def steps(count, name="loss"):
    for _ in range(count): session.run(name)
"""


@pytest.fixture(params=["this", "3.6", "3.7"])
def python(request: pytest.FixtureRequest) -> str:
    """Python 3.6 has no os.register_at_fork."""
    return python_path(request.param)


def _manifest(folder: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((folder / "process.json").read_text())
    return manifest


def _family(laboratory: Laboratory) -> tuple[Path, list[Path]]:
    """The folder of the process that was not forked, and those that were."""
    folders = laboratory.folders()
    (parent,) = [folder for folder in folders if _manifest(folder)["parent"] is None]
    return parent, [folder for folder in folders if folder != parent]


def test_a_child_has_a_folder_of_its_own(laboratory: Laboratory, python: str) -> None:
    """With its parent's name in it; each counts its own steps only."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FORK + "steps(10); in_child(lambda: steps(7)); in_child(lambda: steps(3)); steps(5)",
        python=python,
    )

    parent, children = _family(laboratory)
    assert laboratory.counts(parent) == {"loss": 15}
    assert sorted(laboratory.counts(child)["loss"] for child in children) == [3, 7]
    assert {_manifest(child)["parent"] for child in children} == {parent.name}
    assert {_manifest(child)["ppid"] for child in children} == {_manifest(parent)["pid"]}
    assert "fork" in [event["event"] for event in laboratory.events(children[0])]


def test_a_child_that_only_serves_is_recorded_with_its_role(
    laboratory: Laboratory, python: str
) -> None:
    """A parameter server makes no step, and a signal ends it."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FORK + "from tensorflow.python.training.server_lib import Server\n"
        "tasks = {'ps': ['a:1'], 'worker': ['b:1', 'c:1']}\n"
        "in_child(lambda: (Server(tasks, 'ps'), os.kill(os.getpid(), 9)))",
        python=python,
    )

    parent, (server,) = _family(laboratory)
    place = {"source": "tf.train.Server", "index": 0, "world": 2, "role": "ps"}
    assert _manifest(server)["rank"] == place
    assert _manifest(server)["interpreter_pid"] == _manifest(parent)["pid"]
    assert (_manifest(parent)["rank"], _manifest(parent)["program"]) == (None, [])


def test_a_server_that_fails_raises_its_own_error(laboratory: Laboratory, python: str) -> None:
    """And gives the process no rank."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        "from tensorflow.python.training.server_lib import Server\n"
        "try: Server({'worker': ['a:1', 'b:1']}, 'worker', task_index=7)\n"
        "except ValueError as error: assert str(error) == 'no such task'\n"
        "else: raise AssertionError",
        python=python,
    )

    assert [_manifest(folder)["rank"] for folder in laboratory.folders()] == [None]


def test_a_child_without_steps_leaves_nothing(laboratory: Laboratory, python: str) -> None:
    """It still runs its parent's exit hooks, and these end only what is its own."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FORK
        + """
steps(4)
assert in_child(lambda: None, leave=sys.exit) == 0
steps(2)
""",
        python=python,
    )

    parent, children = _family(laboratory)
    assert laboratory.counts(parent) == {"loss": 6}
    assert children == []
    assert [event["event"] for event in laboratory.events(parent)].count("exit") == 1


def test_a_child_that_exits_by_sys_exit_does_not_end_its_parent(laboratory, python) -> None:
    """The parent is still running when its child has run the exit hooks."""
    laboratory.arm(trace_level="off")

    (state,) = laboratory.finish(
        FORK
        + """
from tfprobe_agent.core.recorder import CURRENT
from tfprobe_agent.core.steps_layout import STATE_WORD
steps(2)
in_child(lambda: steps(3), leave=sys.exit)
print(CURRENT.recorder.steps.words[STATE_WORD])
steps(2)
""",
        python=python,
    )

    parent, (child,) = _family(laboratory)
    assert int(state) == AgentState.RUNNING.value
    assert laboratory.counts(parent) == {"loss": 4}
    assert laboratory.counts(child) == {"loss": 3}
    assert laboratory.steps(child).header.state is AgentState.FINISHED


def test_a_daemon_names_the_ancestor_that_was_recorded(laboratory: Laboratory) -> None:
    """It forks twice, and the process in between makes no step."""
    laboratory.arm(trace_level="off")

    laboratory.finish(FORK + "steps(1); in_child(lambda: in_child(lambda: steps(2)))")

    parent, (grandchild,) = _family(laboratory)
    assert _manifest(grandchild)["parent"] == parent.name
    assert laboratory.counts(grandchild) == {"loss": 2}


def test_a_fork_while_another_thread_is_in_a_step(laboratory: Laboratory) -> None:
    """No lock of the agent stays locked in the child, and its counts start at zero."""
    laboratory.arm(every=1)

    laboratory.finish(
        FORK
        + """
inside, leave = threading.Event(), threading.Event()
def wait(): inside.set(); leave.wait(10)
thread = threading.Thread(target=session.run, args=(wait,))
thread.start()
inside.wait(10)
statuses = [in_child(lambda: steps(3)) for _ in range(5)]
leave.set()
thread.join()
assert statuses == [0] * 5, statuses
steps(2)
"""
    )

    parent, children = _family(laboratory)
    assert laboratory.counts(parent) == {"function": 1, "loss": 2}
    assert [laboratory.counts(child) for child in children] == [{"loss": 3}] * 5
    assert all(laboratory.steps(child).loops[0].sampled == 3 for child in children)


@pytest.mark.parametrize("config", [{"trace_level": "off"}, {"every": 1}])
def test_a_fork_inside_a_step(laboratory: Laboratory, config) -> None:
    """The child returns from its parent's step and counts from there; the parent's counts are
    right.
    """
    laboratory.arm(**config)

    laboratory.finish(
        FORK
        + """
steps(3)
pids = []
session.run(lambda: pids.append(os.fork()))
steps(4)
if pids[0] == 0:
    sys.exit(0)
os.waitpid(pids[0], 0)
steps(5)
"""
    )

    parent, (child,) = _family(laboratory)
    assert laboratory.counts(parent) == {"loss": 12, "function": 1}
    assert laboratory.counts(child)["loss"] == 4


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_are_recorded_process_by_process(laboratory: Laboratory, method) -> None:
    """All start methods of multiprocessing; no step is lost or counted twice."""
    laboratory.arm(trace_level="off")
    script = laboratory.folder / "job.py"
    script.write_text(f"""
import multiprocessing, os
import tensorflow.python.client.session as session_module
def work(index):
    session = session_module.BaseSession()
    for _ in range(10): session.run("loss")
    return os.getpid()
if __name__ == "__main__":
    work(0)
    with multiprocessing.get_context({method!r}).Pool(3) as pool:
        print(len(pool.map(work, range(12), chunksize=1)))
        pool.close()
        pool.join()
""")

    laboratory.finish(
        f"import subprocess; subprocess.check_call([sys.executable, {str(script)!r}])"
    )

    counts = [laboratory.counts(folder).get("loss", 0) for folder in laboratory.folders()]
    assert sum(counts) == 130


def test_a_child_of_a_process_with_a_disabled_agent_is_not_recorded(laboratory: Laboratory) -> None:
    """The same error would occur there."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FORK
        + """
from tfprobe_agent.core.steps_file import StepsFile
add_loop = StepsFile.add_loop
StepsFile.add_loop = lambda *args: 1 / 0
steps(1)
StepsFile.add_loop = add_loop
in_child(lambda: steps(3))
"""
    )

    assert len(laboratory.folders()) == 1


def test_a_child_that_leaves_the_step_it_was_forked_in_writes_nothing_of_its_parents(
    laboratory: Laboratory, python: str
) -> None:
    """By an exception or by a return, after the parent has gone on."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FORK
        + """
gate, opened = os.pipe()
def forks():
    pid = os.fork()
    if pid == 0:
        os.close(opened)
        os.read(gate, 1)
        if is_raising: raise SystemExit(0)
    return pid
children = []
for is_raising in (True, False):
    child = session.run(forks)
    if child == 0: os._exit(0)
    children.append(child)
for _ in range(6): session.run(lambda: 1)
os.close(opened)
for child in children: os.waitpid(child, 0)
""",
        python=python,
    )

    (loop,) = laboratory.steps(_family(laboratory)[0]).loops
    assert (loop.count, loop.raised) == (8, 0)


def test_steps_of_greenlets_that_go_on_in_a_child_are_the_childs(laboratory: Laboratory) -> None:
    """They have stepped in the parent; the child counts their steps from then on."""
    laboratory.arm(trace_level="off")
    (laboratory.folder / "packages/greenlet.py").write_text(GREENLET)

    laboratory.finish(
        FORK
        + """
import greenlet
other = greenlet.greenlet(greenlet.main)
def step_of_another():
    greenlet.current = other
    steps(5)
    greenlet.current = greenlet.main
step_of_another()
in_child(step_of_another)
step_of_another()
"""
    )

    parent, (child,) = _family(laboratory)
    assert laboratory.counts(parent) == {"loss": 10}
    assert laboratory.counts(child) == {"loss": 5}
