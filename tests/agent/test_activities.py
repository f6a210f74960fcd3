"""Activities of a job are recorded as intervals and do not disturb the job."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import Laboratory, load
from tests.support.interpreters import need_interpreter

IMPORTS = """
import tensorflow.python.keras.engine.training as training
import tensorflow.python.training.saver as saver
import tensorflow.python.framework.func_graph as func_graph
model = training.Model()
trace = func_graph.func_graph_from_py_func
"""


def _lines(laboratory: Laboratory, folder: Path | None = None) -> list[dict[str, Any]]:
    return laboratory.lines("activities.jsonl", folder)


def _counts(laboratory: Laboratory, folder: Path | None = None) -> dict[tuple[str, str], int]:
    """How often each kind and name occurred, by their last lines.

    On a busy machine the import of any library takes long enough to be recorded.
    """
    counts = {
        (line["activity"], line["name"]): line["count"]
        for line in _lines(laboratory, folder)
        if line["end_ns"] is not None
    }
    slow = [key for key in counts if key[0] == "import" and key[1] != "tensorflow"]
    return {key: count for key, count in counts.items() if key not in slow}


def test_activities_are_recorded_by_kind_and_name(laboratory: Laboratory) -> None:
    """Import, compile, train, evaluate, save and trace, each by the name of its method."""
    laboratory.arm()

    laboratory.finish(
        IMPORTS
        + """
model.compile(); model.fit(); model.evaluate(); model.save("path"); model.save_weights("path")
saver.Saver().save(session, "path")
trace("__inference_step_12", lambda: 1); trace(name="step", python_func=lambda: 1)
"""
    )

    assert _counts(laboratory) == {
        ("import", "tensorflow"): 1,
        ("compile", "Model.compile"): 1,
        ("train", "model.fit"): 1,
        ("evaluate", "model.evaluate"): 1,
        ("save", "Model.save"): 1,
        ("save", "Model.save_weights"): 1,
        ("save", "Saver.save"): 1,
        ("trace", "step"): 2,
    }


def test_an_activity_has_the_line_of_the_job(laboratory: Laboratory) -> None:
    """Library code in between is skipped; a call within another activity has its own line."""
    laboratory.arm()

    laboratory.finish("""
import inspect
import tensorflow.python.data.ops.dataset_ops as dataset_ops
def prepare():
    return dataset_ops.DatasetV2.from_generator(print, output_types=int)
code = compile("prepare().map(print)", "/home/ada/train.py", "exec")
exec(code)
print(inspect.signature(dataset_ops.DatasetV2.from_generator))
print(type(vars(dataset_ops.DatasetV2)["from_generator"]).__name__)
""")

    made = [line for line in _lines(laboratory) if line["activity"] == "data"]
    assert [(line["name"], line["count"]) for line in made] == [
        ("Dataset.from_generator", 1),
        ("Dataset.map", 1),
    ]
    assert (made[1]["file"], made[1]["line"]) == ("/home/ada/train.py", 1)
    assert made[0]["line"] > 0


def test_an_interval_is_that_of_the_call(laboratory: Laboratory) -> None:
    """From its beginning to its end, by the monotonic clock, on the thread that made it."""
    laboratory.arm()

    before, inside, after = laboratory.finish(
        IMPORTS
        + """
def body():
    print(time.monotonic_ns())
    trace("step", lambda: print(time.monotonic_ns()))
    print(time.monotonic_ns())
thread = threading.Thread(target=body, name="tracer")
thread.start(); thread.join()
"""
    )

    (line,) = [line for line in _lines(laboratory) if line["activity"] == "trace"]
    assert int(before) <= line["start_ns"] <= int(inside) <= line["end_ns"] <= int(after)
    assert line["thread"] == "tracer"
    assert line["total_ns"] == line["end_ns"] - line["start_ns"]


def test_only_the_outermost_activity_of_a_kind_is_recorded(laboratory: Laboratory) -> None:
    """The times of a kind can be added up: a trace inside a trace is part of it."""
    laboratory.arm()

    laboratory.finish(
        IMPORTS
        + """
trace("outer", lambda: trace("inner", lambda: 1))
trace("outer", lambda: model.evaluate())
"""
    )

    counts = _counts(laboratory)
    assert counts["trace", "outer"] == 2
    assert ("trace", "inner") not in counts
    assert counts["evaluate", "model.evaluate"] == 1


def test_a_call_that_raises_is_recorded_and_raises(laboratory: Laboratory) -> None:
    """The job sees its own error; the interval ends where it was raised."""
    laboratory.arm()

    lines = laboratory.finish(
        IMPORTS
        + """
for _ in range(2):
    try: saver.Saver().save(session, "")
    except ValueError as error: print(error, error.__context__)
"""
    )

    assert lines == ["no path None"] * 2
    assert _counts(laboratory)["save", "Saver.save"] == 2


def test_frequent_activities_are_all_counted_and_some_are_written(
    laboratory: Laboratory,
) -> None:
    """The first 256, then one per second; the last line has the exact count and time."""
    laboratory.arm()

    (total_ns,) = laboratory.finish(
        IMPORTS
        + """
import tfprobe
total_ns = -time.monotonic_ns()
for _ in range(5000):
    with tfprobe.activity("batch"): pass
total_ns += time.monotonic_ns()
print(total_ns)
"""
    )

    lines = [line for line in _lines(laboratory) if line["activity"] == "user"]
    assert 257 <= len(lines) <= 262
    assert [line["count"] for line in lines[:256]] == list(range(1, 257))
    assert lines[-1]["count"] == 5000
    assert lines[255]["total_ns"] < lines[-1]["total_ns"] < int(total_ns)
    assert all(line["start_ns"] <= line["end_ns"] for line in lines)


def test_names_made_up_without_end_share_one(laboratory: Laboratory) -> None:
    """Neither the file nor the job's memory grows by them."""
    laboratory.arm()

    laboratory.finish(
        IMPORTS
        + """
import tfprobe
for i in range(15000):
    with tfprobe.activity("item %d" % i): pass
"""
    )

    lines = _lines(laboratory)
    further = [line for line in lines if line["name"] == "(further names)"]
    assert len({line["name"] for line in lines}) <= 1002
    assert len(lines) < 12000
    assert further[-1]["count"] > 13000


@pytest.mark.parametrize("version", ["this", "3.6"])
def test_a_program_can_name_its_activities(laboratory: Laboratory, version: str) -> None:
    """A recorded job has `tfprobe.activity` whether or not tfprobe is installed."""
    laboratory.arm()
    python = sys.executable if version == "this" else need_interpreter(version)

    lines = laboratory.finish(
        """
sys.path[:] = [entry for entry in sys.path if not os.path.isdir(os.path.join(entry, "tfprobe"))]
import tfprobe
@tfprobe.activity("load")
def load(number, *, more):
    'Read a file.'
    return number + more
with tfprobe.activity("prepare") as prepare, tfprobe.activity(3): print(load(1, more=2))
print(load.__name__, load.__doc__, prepare.name, hasattr(tfprobe, "open_run"))
""",
        python=str(python),
    )

    assert lines == ["3", "load Read a file. prepare False"]
    counts = _counts(laboratory)
    assert (counts["user", "load"], counts["user", "prepare"], counts["user", "3"]) == (1, 1, 1)


def test_activities_before_the_import_of_tensorflow_are_recorded(laboratory: Laboratory) -> None:
    """A program may load its data first; the intervals wait for the process folder."""
    laboratory.arm()
    code = """
import tfprobe
with tfprobe.activity("early"): pass
import tensorflow.python.client.session
"""

    ended = _plain(laboratory, code)

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert _counts(laboratory).keys() == {("user", "early"), ("import", "tensorflow")}


def test_a_job_without_tensorflow_may_name_its_activities(laboratory: Laboratory) -> None:
    """Nothing is recorded, and nothing is visible."""
    laboratory.arm()

    ended = _plain(laboratory, "import tfprobe\nwith tfprobe.activity('x'): print('done')")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"done\n", b"")
    assert laboratory.folders() == []


def _plain(laboratory: Laboratory, code: str) -> subprocess.CompletedProcess[bytes]:
    """Run code that makes its own imports."""
    command = [sys.executable, "-c", code]
    environment = laboratory.environment()
    return subprocess.run(command, env=environment, capture_output=True, check=False)


def test_a_killed_job_shows_the_activity_it_was_in(laboratory: Laboratory) -> None:
    """Training, evaluation and prediction are also written when they begin."""
    laboratory.arm()
    job = laboratory.start(
        IMPORTS
        + """
def step(iterator):
    print("in", flush=True)
    time.sleep(60)
training.Model.make_train_function = lambda self: step
model.fit()
"""
    )
    assert job.stdout is not None
    assert job.stdout.readline() == b"in\n"

    job.kill()
    job.communicate()

    assert job.returncode == -signal.SIGKILL
    (line,) = [line for line in _lines(laboratory) if line["activity"] == "train"]
    assert (line["name"], line["end_ns"], line["count"]) == ("model.fit", None, 0)


def test_a_forked_child_records_its_own_activities(laboratory: Laboratory) -> None:
    """Not those that its parent was in the middle of."""
    laboratory.arm()

    laboratory.finish(
        IMPORTS
        + """
import tfprobe
def in_both():
    if os.fork() == 0:
        session.run("loss")
        with tfprobe.activity("child"): pass
        sys.exit(0)
    os.wait()
    return 1
session.run("loss")
trace("step", in_both)
"""
    )

    parent, child = laboratory.folders()
    assert ("trace", "step") in _counts(laboratory, parent)
    assert _counts(laboratory, child) == {("user", "child"): 1}


def test_an_error_in_the_agent_ends_activities_only(laboratory: Laboratory) -> None:
    """Steps are still counted and traced; the events say what went wrong."""
    laboratory.arm(every=2)

    lines = laboratory.finish(
        IMPORTS
        + """
import tfprobe
from tfprobe_agent import activities
activities.TABLE.totals = None
with tfprobe.activity("x"): print("inside")
print(model.compile(), trace("step", lambda: 3))
for _ in range(4): session.run("loss")
"""
    )

    assert lines == ["inside", "sgd 3"]
    assert laboratory.counts()["loss"] == 4
    kinds = [event["event"] for event in laboratory.events()]
    assert kinds.count("error") == 1
    assert kinds.count("sample") == 2
    assert "aside" not in kinds


def test_patched_methods_look_unchanged(laboratory: Laboratory) -> None:
    """Name, signature and documentation are the job's own."""
    laboratory.arm()

    lines = laboratory.finish(
        IMPORTS
        + """
import inspect, pickle
print(inspect.signature(model.compile), model.compile.__doc__, model.compile.__name__)
print(inspect.signature(trace), trace.__doc__, pickle.loads(pickle.dumps(trace)) is trace)
print(training.Model.compile == training.Model.compile)
"""
    )

    assert lines == [
        "(optimizer='sgd') Say what to train with. compile",
        "(name, python_func, *args) Trace a function. True",
        "True",
    ]


def test_naming_an_activity_is_cheap() -> None:
    """A few microseconds per use, on the slowest machine these tests run on."""
    activities = load("activities")
    clock = load("unpatched").UNPATCHED.monotonic_ns
    name = "test_naming_an_activity_is_cheap"
    for _ in range(activities.FIRST_INTERVALS):
        with activities.activity(name):
            pass

    best_ns = 10**9
    for _ in range(20):
        began_ns = clock()
        for _ in range(100):
            with activities.activity(name):
                pass
        best_ns = min(best_ns, (clock() - began_ns) // 100)

    assert best_ns < 5000


def test_lines_grow_with_the_logarithm_of_time(state) -> None:
    """A job of a week writes few of them, and a kill at any time costs a thousandth of its time."""
    activities = load("activities")
    table, second_ns = activities._Table(), activities.PAUSE_NS
    totals = table.find("callbacks", "on_epoch_end")
    written_ns, lines, most_behind = 0, 0, 0.0

    for second in range(7 * 86_400):
        now_ns = second * second_ns
        totals.count += 1
        if table.takes_line(totals, now_ns):
            written_ns, lines = now_ns, lines + 1
        most_behind = max(most_behind, (now_ns - written_ns) / (now_ns + 2000 * second_ns))

    assert 9_000 < lines < 10_500
    assert most_behind < 0.0011
