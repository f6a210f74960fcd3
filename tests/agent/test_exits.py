"""How a process ended: what it records itself, and what its job records for those that cannot."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import PATIENCE_S, PREFACE, Laboratory
from tests.support.interpreters import python_path
from tfprobe.runs.catalogue import glance
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import ProcessEntry, this_machine

DAY_NS = 24 * 3600 * 10**9
# NumPy imports it in every TensorFlow job.
STEP = "import ctypes, signal\nsession.run('loss')\n"
POOL = """
def work(what):
    session.run("loss")
    if what == "raise": raise ValueError("no room")
    if what == "be killed": os.kill(os.getpid(), signal.SIGKILL)
    if what == "wait":
        open("ready", "w").close()
        time.sleep(600)
def start(context, what):
    process = multiprocessing.get_context(context).Process(target=work, args=(what,))
    process.start()
    return process
"""


@pytest.fixture(params=["this", "3.6", "3.7", "3.13"])
def python(request: pytest.FixtureRequest) -> str:
    """Versions that differ in how a process ends."""
    return python_path(request.param)


def _end(laboratory: Laboratory, job: str, python: str = sys.executable) -> int:
    """Run a job to its end; return its status as `wait` reports it."""
    laboratory.arm(trace_level="off")
    process = laboratory.start(STEP + job, python=python)
    process.communicate(timeout=PATIENCE_S)
    return process.returncode


def _script(laboratory: Laboratory, text: str, python: str = sys.executable) -> int:
    """Run a file to its end, which multiprocessing can import in a child."""
    laboratory.arm(trace_level="off")
    script = laboratory.folder / "job.py"
    script.write_text(f"import multiprocessing{PREFACE}{STEP}{text}")
    return os.spawnve(
        os.P_WAIT, python, [python, str(script)], laboratory.environment({"HOME": "/"})
    )


def _processes(laboratory: Laboratory) -> tuple[ProcessEntry, ...]:
    return glance(RunFolder(laboratory.run), this_machine()).processes


def _ends(laboratory: Laboratory) -> list[tuple[str, int | None]]:
    """State and exit status of each process, the main one's first."""
    return [
        (entry.state, entry.header.exit_status)  # type: ignore[union-attr]
        for entry in sorted(_processes(laboratory), key=lambda entry: _started(entry.folder.root))
    ]


def _started(folder: Path) -> int:
    return int(folder.name.split("-")[1])


def _exceptions(laboratory: Laboratory) -> list[dict[str, Any]]:
    events = (event for folder in laboratory.folders() for event in laboratory.events(folder))
    return [event for event in events if event["event"] == "exception"]


@pytest.mark.parametrize(
    ("ending", "status", "state"),
    [
        ("", 0, "finished"),
        ("sys.exit()", 0, "finished"),
        ("sys.exit(0)", 0, "finished"),
        ("sys.exit(3)", 3, "failed"),
        ("raise SystemExit('no data')", 1, "failed"),
        ("sys.exit(-1)", 255, "failed"),
        ("1 / 0", 1, "failed"),
        ("sys.excepthook = lambda *error: None; 1 / 0", 1, "failed"),
        ("os._exit(0)", 0, "finished"),
        ("os._exit(status=4)", 4, "failed"),
    ],
)
def test_the_exit_status_is_the_one_that_the_parent_sees(
    laboratory: Laboratory, python: str, ending: str, status: int, state: str
) -> None:
    """Whichever way the program ends."""
    seen = _end(laboratory, ending, python)

    assert (seen, _ends(laboratory)) == (status, [(state, status)])


def test_an_exception_is_recorded_with_its_place_and_without_secrets(
    laboratory: Laboratory, python: str
) -> None:
    """In one line of bounded length; file and line are the program's own, not the library's."""
    job = "import json\ndef load():\n    json.loads('x')\ntry: load()\n"
    job += "except ValueError: raise KeyError('bad\\nloss --password hunter2 ' + 'x' * 999)"

    _end(laboratory, job, python)

    (event,) = _exceptions(laboratory)
    assert event["type"] == "KeyError"
    assert event["message"].startswith("'bad\\nloss --password *** xxx")
    assert len(event["message"]) == 300
    assert (event["file"], event["function"]) == ("<string>", "<module>")


def test_the_place_is_where_the_program_called_what_raised(laboratory: Laboratory) -> None:
    """A place deep in a library would mean nothing to the user."""
    _script(laboratory, "import json\njson.loads('x')\n")

    (event,) = _exceptions(laboratory)
    assert event["type"] == "json.decoder.JSONDecodeError"
    assert (Path(event["file"]).name, event["function"]) == ("job.py", "<module>")


STACK_OF_215 = """Graph execution error:

Detected at node 'GatherV2' defined at (most recent call last):
    File "job.py", line 13, in <module>
      main()
    File "job.py", line 4, in f
      return tf.gather(x, i)
Node: 'GatherV2'
indices = 7 is not in [0, 3)
\t [[{{node GatherV2}}]] [Op:__inference_f_16]"""
STACK_OF_221 = """Graph execution error:

Detected at node GatherV2 defined at (most recent call last):
  File "job.py", line 13, in <module>

  File "job.py", line 4, in f

indices = 7 is not in [0, 3)
\t [[{{node GatherV2}}]] [Op:__inference_f_15]"""
STACK_OF_USER_CODE = """in user code:

    File "job.py", line 8, in g  *
        y = tf.matmul(x, w)

    ValueError: Dimensions must be equal, \x1b[1mbut\x1b[0m are 2 and 3.
"""
STACK_OF_CONVERTED_CODE = """in converted code:

    job.py:9 g  *
        y = tf.matmul(x, w)
    /x/array_ops.py:180 wrapper
        return target(*args, **kwargs)

    ValueError: Dimensions must be equal, but are 2 and 3.
"""
IN_GATHER = "indices = 7 is not in [0, 3) [[{{node GatherV2}}]] [Op:__inference_f_1"
IN_MATMUL = "Dimensions must be equal, but are 2 and 3."


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (STACK_OF_215, IN_GATHER),
        (STACK_OF_221, IN_GATHER),
        (STACK_OF_USER_CODE, IN_MATMUL),
        (STACK_OF_USER_CODE.replace("8, in g", "8, in g" + "x" * 9999), IN_MATMUL),
        (STACK_OF_CONVERTED_CODE, IN_MATMUL),
        ("in user code: nothing", "in user code: nothing"),
        ('bad:\n  File "job.py", line 1, in f\nrest', 'bad: File "job.py", line 1, in f rest'),
    ],
)
def test_a_message_is_its_reason_without_the_stack_before_it(
    laboratory: Laboratory, text: str, reason: str
) -> None:
    """TensorFlow writes where a function was traced before it says what went wrong."""
    _end(laboratory, f"raise ValueError({text!r})")

    (event,) = _exceptions(laboratory)
    assert event["message"].startswith(reason)


def test_a_caught_exception_is_not_the_end(laboratory: Laboratory) -> None:
    """Notebooks and test runners store caught exceptions where the interpreter stores uncaught
    ones.
    """
    job = """
def cell():
    try: 1 / 0
    except ZeroDivisionError as error:
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
cell()
"""

    _end(laboratory, job)

    assert (_ends(laboratory), _exceptions(laboratory)) == ([("finished", 0)], [])


def test_an_exception_of_a_cell_is_not_the_end(laboratory: Laboratory) -> None:
    """IPython runs cells in a coroutine, whose frame has no caller once it is done."""
    job = """
async def run_code():
    1 / 0
try: run_code().send(None)
except ZeroDivisionError as error:
    trace = error.__traceback__.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
"""

    _end(laboratory, job)

    assert (_ends(laboratory), _exceptions(laboratory)) == ([("finished", 0)], [])


def test_ctrl_c_is_a_failure_with_its_exception(laboratory: Laboratory, python: str) -> None:
    """The user sees that somebody interrupted it."""
    _end(
        laboratory, "signal.signal(2, signal.default_int_handler); os.kill(os.getpid(), 2)", python
    )

    assert [state for state, _ in _ends(laboratory)] == ["failed"]
    assert [event["type"] for event in _exceptions(laboratory)] == ["KeyboardInterrupt"]


@pytest.mark.parametrize("number", ["KILL", "TERM", "SEGV"])
def test_a_process_ended_by_a_signal_is_killed(laboratory: Laboratory, number: str) -> None:
    """Whoever outside of the job sends it."""
    _end(laboratory, f"os.system('kill -{number} %d' % os.getpid()); time.sleep(600)")

    assert _ends(laboratory) == [("killed", None)]


def test_a_process_with_a_disabled_agent_is_not_killed(laboratory: Laboratory) -> None:
    """Its end is recorded all the same."""
    job = "from tfprobe_agent.core.guard import STATE\nSTATE.disabled = True\n"

    _end(laboratory, job)

    assert _ends(laboratory) == [("finished", 0)]


def test_the_exit_hooks_count_where_the_status_cannot_be_known(laboratory: Laboratory) -> None:
    """Without ctypes the C library cannot store the status."""
    laboratory.arm(trace_level="off")
    for ending in ("", "1 / 0"):
        laboratory.start(f"session.run('loss')\n{ending}").communicate(timeout=PATIENCE_S)

    assert _ends(laboratory) == [("finished", None), ("failed", None)]


@pytest.mark.parametrize(
    "replace",
    [
        "os.execv(sys.executable, command)",
        "os.execve(sys.executable, command, os.environ)",
        "os.execvp(sys.executable, command)",
        "os.execlpe(os.path.basename(sys.executable), *command, SEARCHED)",
        "atexit.register(os.execv, sys.executable, command)",
        "import atexit, tensorflow; atexit.register(os.execv, sys.executable, command)",
    ],
)
def test_a_program_that_another_one_replaces_is_not_killed(
    laboratory: Laboratory, python: str, replace: str
) -> None:
    """A job that sets its environment and starts again has ended well if its last program did."""
    job = f"""
import atexit
NEXT = {PREFACE + STEP!r}
SEARCHED = dict(os.environ, PATH="/no/such/place:" + os.path.dirname(sys.executable))
command = [sys.executable, "-c", NEXT]
{replace}
"""

    assert _end(laboratory, job, python) == 0

    assert _ends(laboratory) == [("replaced", None), ("finished", 0)]


def test_an_exec_that_fails_ends_nothing(laboratory: Laboratory, python: str) -> None:
    """The program goes on, is still recorded, and ends as it does later."""
    job = """
for fail in (os.execv, os.execvp):
    try: fail("no-such-program", ["no-such-program"])
    except OSError: session.run("loss")
"""

    _end(laboratory, job + "os.system('kill -9 %d' % os.getpid())", python)

    assert laboratory.counts() == {"loss": 3}
    assert _ends(laboratory) == [("killed", None)]


def test_an_exec_that_fails_in_an_exit_hook_leaves_the_end_unchanged(
    laboratory: Laboratory, python: str
) -> None:
    """Also one that runs after the agent's own hooks."""
    job = """
import atexit, io
def fail():
    try: os.execv("no-such-program", ["no-such-program"])
    except OSError: pass
# Hooks run in the reverse order: the first of a process that was forked is before the agent's.
if os.fork() == 0:
    atexit._run_exitfuncs()
    fail()
    os._exit(7)
os.wait()
"""

    _end(laboratory, f"{job}session.run('loss')\nraise ValueError", python)

    assert [state for state, _ in _ends(laboratory)] == ["failed"]


def test_forked_children_end_with_their_own_status(laboratory: Laboratory, python: str) -> None:
    """Not with their parent's."""
    job = """
first = threading.Thread(target=int)
first.start()
first.join()
for leave, status in ((os._exit, 0), (os._exit, 5), (sys.exit, 6)):
    if os.fork() == 0:
        session.run("loss")
        leave(status)
    os.wait()
"""

    _end(laboratory, job, python)

    states = [("finished", 0), ("finished", 0), ("failed", 5), ("failed", 6)]
    assert _ends(laboratory) == states


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing(laboratory: Laboratory, python: str, context: str) -> None:
    """One that returns, one that raises, one that is killed, and one that its parent ends."""
    whats = ["return", "raise", "be killed"]
    text = f"""{POOL}
os.chdir({str(laboratory.folder)!r})
if __name__ == "__main__":
    for what in {whats}: start("{context}", what).join()
    process = start("{context}", "wait")
    while not os.path.exists("ready"): time.sleep(0.01)
    process.terminate()
    process.join()
"""

    assert _script(laboratory, text, python) == 0

    states = [state for state, _ in _ends(laboratory)]
    assert states == ["finished", "finished", "failed", "killed", "terminated"]
    # Python 3.13 discards an exception before it calls any hook.
    messages = [event["message"] for event in _exceptions(laboratory)]
    assert messages == ([] if "3.13" in python else ["no room"])


def test_a_server_that_ends_its_forked_workers_has_not_killed_them(laboratory: Laboratory) -> None:
    """It forks and sends signals directly, and imports neither subprocess nor multiprocessing."""
    job = """
import signal
assert not {"subprocess", "multiprocessing.popen_fork"} & set(sys.modules)
reading, writing = os.pipe()
workers = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        session.run("loss")
        os.write(writing, b".")
        while True: time.sleep(60)
    workers.append(pid)
for _ in workers:
    os.read(reading, 1)
for pid in workers:
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
"""

    _end(laboratory, job)

    assert [state for state, _ in _ends(laboratory)] == ["finished", "terminated", "terminated"]


def test_a_child_that_somebody_else_kills_is_killed(laboratory: Laboratory) -> None:
    """As the kernel does when memory runs out, whatever its parent does about it."""
    job = """
pid = os.fork()
if pid == 0:
    session.run("loss")
    os.system("kill -9 %d" % os.getpid())
os.waitpid(pid, 0)
"""

    _end(laboratory, job)

    assert [state for state, _ in _ends(laboratory)] == ["finished", "killed"]


def test_patched_os_functions_look_unchanged(laboratory: Laboratory) -> None:
    """Name, documentation and pickle; wrong arguments are refused with the same message."""
    job = """
import pickle, subprocess
for function in (os._exit, os.execv, os.execve, os.kill, os.killpg):
    assert pickle.loads(pickle.dumps(function)) is function
    print(function.__name__, function.__doc__[:10])
    try: function("x", "y", "z")
    except TypeError: print("refused")
"""

    said = laboratory.arm(trace_level="off").finish(job)

    assert [line for line in said if line != "refused"] == [
        f"{function.__name__} {(function.__doc__ or '')[:10]}".splitlines()[0]
        for function in (os._exit, os.execv, os.execve, os.kill, os.killpg)
    ]
    # execve takes three arguments, and refuses the third.
    assert said.count("refused") == 5


def test_wrappers_of_c_functions_behave_like_them(laboratory: Laboratory, python: str) -> None:
    """They become no method of a class; errors, signature and pickle are the original's."""
    laboratory.arm(trace_level="off")
    job = """
import inspect, pickle, posix, subprocess
def error_of(function, *args, **kwargs):
    try: function(*args, **kwargs)
    except Exception as error: return type(error), str(error)
WRONG = [(), (1,), ("x", 9), (None,), (1, 0, 2), (99999999, 0)]
for name in ("kill", "killpg", "_exit", "execv", "execve"):
    ours, theirs = getattr(os, name), getattr(posix, name)
    assert ours is not theirs
    class Holder:
        function = ours
    assert Holder().function is ours
    for args in WRONG:
        if name != "_exit" or args in ((), (None,), (1, 0, 2)):
            assert error_of(ours, *args) == error_of(theirs, *args), args
    assert error_of(ours, nothing=1) == error_of(theirs, nothing=1)
    assert inspect.isbuiltin(ours) and isinstance(ours, type(theirs))
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert (ours.__name__, ours.__doc__, repr(ours)) == (name, theirs.__doc__, repr(theirs))
    assert pickle.loads(pickle.dumps(ours)) is ours
"""

    assert laboratory.finish(STEP + job, python=python) == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the interpreter restores the frame")
def test_a_signal_that_cannot_be_sent_has_the_usual_traceback(
    laboratory: Laboratory,
) -> None:
    """It has no frame of the agent."""
    laboratory.arm(trace_level="off")

    lines = laboratory.finish("""
import subprocess, traceback
try: os.kill(99999999, 9)
except ProcessLookupError as error: print(len(traceback.extract_tb(error.__traceback__)))
""")

    assert lines == ["1"]


# Sets the job's wall clock.
SET_CLOCK = """
from tfprobe_agent.unpatched import UNPATCHED
def set_clock(days, read=UNPATCHED.unix_ns):
    UNPATCHED.unix_ns = lambda: read() + days * 24 * 3600 * 10**9
"""


@pytest.mark.parametrize("days", [300, -300])
@pytest.mark.parametrize("ending", ["", "os._exit(0)"])
def test_the_end_is_recorded_on_the_monotonic_clock(
    laboratory: Laboratory, days: int, ending: str
) -> None:
    """A wall clock that is set while the job runs makes it neither longer nor shorter."""
    _end(laboratory, f"{SET_CLOCK}set_clock({days})\n{ending}")

    header = laboratory.steps().header
    assert abs(header.exit_unix_ns - header.moment_unix_ns) > 200 * DAY_NS
    assert header.last_activity_mono_ns <= header.ended_mono_ns < time.monotonic_ns()


def test_a_process_terminated_after_the_clock_was_set_back_is_not_killed(
    laboratory: Laboratory,
) -> None:
    """By the wall clock, the signal was sent before its target started."""
    text = f"""
{SET_CLOCK}
if __name__ == "__main__":
    os.chdir({str(laboratory.folder)!r})
    child = start("fork", "wait")
    while not os.path.exists("ready"): time.sleep(0.01)
    set_clock(-300)
    child.terminate()
    child.join()
"""

    _script(laboratory, f"import signal\n{POOL}{text}")

    assert sorted(state for state, _ in _ends(laboratory)) == ["finished", "terminated"]


def test_a_trace_during_which_the_clock_was_set_says_so(laboratory: Laboratory) -> None:
    """Its times are on the wall clock."""
    laboratory.arm(every=1)

    laboratory.finish(f"{SET_CLOCK}session.run(lambda: set_clock(300))")

    (event,) = laboratory.events(kind="sample")
    assert event["clock_set_ns"] > 200 * DAY_NS
