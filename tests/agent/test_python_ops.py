"""Now and then one call of the Python of ops is watched, and its slowest line is recorded."""

from __future__ import annotations

import pytest

from tests.support.agent import PREFACE, Laboratory
from tests.support.interpreters import need_interpreter

# A generator of batches, called as TensorFlow does it: in a thread that Python did not start and
# that stays, like those of a pool, while the thread of the steps waits for it.
INPUT = """
import _thread, queue
import tensorflow.python.ops.script_ops as script_ops
from tfprobe_agent.core import resource_samples
registry = script_ops.FuncRegistry()
requested, made, profilers = queue.Queue(), queue.Queue(), []
def scaled(row):
    return [abs(value) for value in row]
def batches(batch_of=scaled):
    while True:
        size = len("some rows")
        yield [batch_of(range(2000)) for row in range(size)]
def pool():
    while True:
        stream = requested.get()
        try:
            registry(next, None, (stream,))
        except ArithmeticError:
            pass
        profilers.append(sys.getprofile())
        made.put(stream)
def take(stream, batches):
    for _ in range(batches):
        requested.put(stream)
        made.get()
        session.run("loss")
def beat():
    resource_samples.take_sample(int(time.perf_counter() * 1e9))
_thread.start_new_thread(pool, ())
session.run("loss")
"""
SLOWEST = "yield [batch_of(range(2000)) for row in range(size)]"


def _guests(laboratory: Laboratory) -> list[list[object]]:
    return [
        guest
        for folder in laboratory.folders()
        for line in laboratory.lines("pulses.jsonl", folder)
        for guest in (line["thread_times"] or {"guests": []})["guests"]
    ]


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.11", "3.12", "3.13"])
def test_the_line_that_takes_longest_is_recorded(laboratory: Laboratory, version: str) -> None:
    """In the job's outermost function, whatever other functions it calls."""
    laboratory.arm()
    program = INPUT + "take(batches(), 6); beat(); print(profilers)"

    lines = laboratory.finish(program, python=str(need_interpreter(version)))

    assert lines == [str([None] * 6)]
    guests = [guest for guest in _guests(laboratory) if guest[2] == "batches"]
    source = (PREFACE + program).split("\n")
    assert guests
    assert all(source[guest[1] - 1].strip() == SLOWEST for guest in guests)


def test_time_in_a_library_is_not_attributed_to_the_job(laboratory: Laboratory) -> None:
    """A generator of the job that mostly waits for a package is no line to change."""
    laboratory.arm()
    package = laboratory.folder / "packages" / "site-packages" / "decoder.py"
    package.parent.mkdir()
    package.write_text(
        "def stream(rows):\n"
        "    for row in rows:\n"
        "        yield [abs(value) for value in range(20000)]\n"
    )

    laboratory.finish(
        INPUT
        + f"""
sys.path.append({str(package.parent)!r})
import decoder
def numbers():
    while True: yield 1
take(decoder.stream(numbers()), 6); beat()
"""
    )

    assert [guest for guest in _guests(laboratory) if guest[2] == "numbers"] == []


def test_a_profiler_of_the_job_is_left_alone(laboratory: Laboratory) -> None:
    """No call of a profiled thread is watched."""
    laboratory.arm()

    lines = laboratory.finish(
        INPUT
        + """
def theirs(frame, event, arg): pass
def profiled(row):
    sys.setprofile(theirs)
    return []
take(batches(profiled), 8); beat()
print([profiler is theirs for profiler in profilers])
"""
    )

    assert lines == [str([True] * 8)]
    assert "batches" not in [guest[2] for guest in _guests(laboratory)]


@pytest.mark.parametrize("config", [{"budget": 0.0}, {"trace_level": "off"}])
def test_without_a_budget_one_call_is_watched_at_most(
    laboratory: Laboratory, config: dict[str, object]
) -> None:
    """The cost of a watch is known after the first; with tracing off there is none."""
    laboratory.arm(**config)

    laboratory.finish(INPUT + "take(batches(), 20); beat()")

    guests = [guest for guest in _guests(laboratory) if guest[2] == "batches"]
    assert len(guests) <= (config.get("trace_level") != "off")


def test_an_error_of_the_job_ends_a_watch(laboratory: Laboratory) -> None:
    """It goes on to TensorFlow, and no profile function stays behind."""
    laboratory.arm()

    lines = laboratory.finish(
        INPUT
        + """
class Failing:
    def __next__(self): raise ArithmeticError("theirs")
take(Failing(), 6)
print(profilers)
"""
    )

    assert lines == [str([None] * 6)]
    assert laboratory.errors() == []


def test_a_forked_child_watches_separately(laboratory: Laboratory) -> None:
    """A watch that was open in the parent does not keep the child from watching."""
    laboratory.arm()

    laboratory.finish(
        INPUT
        + """
from tfprobe_agent.frameworks.tensorflow import python_ops
python_ops.WATCHES.taken.acquire()
if os.fork() == 0:
    requested, made = queue.Queue(), queue.Queue()
    _thread.start_new_thread(pool, ())
    session.run("loss")
    take(batches(), 6); beat()
    sys.exit()
os.wait()
"""
    )

    assert "batches" in [guest[2] for guest in _guests(laboratory)]
