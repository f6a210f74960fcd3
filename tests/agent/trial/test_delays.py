"""Parts of a job are slowed down by a share of their own time, and say how long they took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.support.agent import load

MS = 1_000_000


class Clock:
    """A machine on which only what is asked for takes time."""

    def __init__(self) -> None:
        self.now_ns = self.cpu_ns = 0
        self.slept_ns: list[int] = []

    def monotonic_ns(self) -> int:
        self.now_ns += 100  # so that computing in a loop ends
        self.cpu_ns += 100
        return self.now_ns

    def thread_time_ns(self) -> int:
        return self.cpu_ns

    def sleep(self, seconds: float) -> None:
        self.slept_ns.append(round(seconds * 1e9))
        self.now_ns += self.slept_ns[-1]

    def wait(self, time_ns: int) -> None:
        self.now_ns += time_ns

    def compute(self, time_ns: int) -> None:
        self.now_ns += time_ns
        self.cpu_ns += time_ns


@pytest.fixture
def clock(monkeypatch):
    """The clock of this process."""
    found = Clock()
    unpatched = load("unpatched").UNPATCHED
    for name in ("monotonic_ns", "thread_time_ns", "sleep"):
        monkeypatch.setattr(unpatched, name, getattr(found, name))
    return found


@pytest.fixture
def lines(monkeypatch):
    """What was written."""
    found: list[dict] = []
    process_dir = SimpleNamespace(append=lambda _name, *more: found.extend(more))
    recorder = SimpleNamespace(process_dir=process_dir)
    monkeypatch.setattr(load("trial.delays"), "current_recorder", lambda: recorder)
    return found


@pytest.fixture
def units(monkeypatch):
    """The counter of this process, without a limit."""
    found = load("trial.units")
    monkeypatch.setattr(found, "COUNTER", found.Counter())
    return found


def delay(percent):
    return load("trial.delays").Delay("input", percent, load("trial.notes").Note("delay_input"))


def test_a_part_that_waits_is_slowed_down_asleep(clock, lines) -> None:
    """By the share of its time that was asked for."""
    slowed = delay(50).around(lambda: clock.wait(40 * MS))

    slowed()

    assert clock.slept_ns == [pytest.approx(20 * MS, rel=1e-3)]
    assert lines[0]["part_ns"] == pytest.approx(40 * MS, rel=1e-3)
    assert lines[0]["delay_ns"] == pytest.approx(20 * MS, rel=1e-3)


def test_a_part_that_computes_is_slowed_down_computing(clock, lines) -> None:
    """A CPU that it leaves to others would hide what it costs them."""
    slowed = delay(25).around(lambda: clock.compute(40 * MS))

    slowed()

    assert clock.slept_ns == []
    assert lines[0]["delay_ns"] == pytest.approx(10 * MS, rel=1e-3)


def test_delays_too_short_to_sleep_are_owed(clock, lines) -> None:
    """Together they are as long as each of them was meant to be."""
    slowed = delay(50).around(lambda: clock.wait(MS // 2))

    for _ in range(100):
        slowed()

    assert 20 <= len(clock.slept_ns) <= 30
    assert sum(clock.slept_ns) == pytest.approx(25 * MS, rel=0.05)


def test_without_a_delay_the_part_is_timed_alone(clock, lines) -> None:
    """As in the base of a trial."""
    one = delay(0)

    one.around(lambda: clock.wait(40 * MS))()

    assert (lines[0]["calls"], lines[0]["delay_ns"], clock.slept_ns) == (1, 0, [])
    assert one.note.times == 1


def test_a_call_that_raises_is_not_slowed_down(clock, lines) -> None:
    """As at the end of a data set."""

    def end():
        clock.wait(40 * MS)
        raise StopIteration

    with pytest.raises(StopIteration):
        delay(50).around(end)()

    assert (clock.slept_ns, lines) == ([], [])


def test_a_forked_worker_begins_anew(clock, lines, monkeypatch) -> None:
    """What its parent did is in the file of the parent."""
    one = delay(0)
    one.around(lambda: clock.wait(40 * MS))()
    monkeypatch.setattr(load("unpatched").UNPATCHED, "getpid", lambda: -1)

    one.around(lambda: clock.wait(30 * MS))()

    assert [line["calls"] for line in lines] == [1, 1]
    assert lines[1]["part_ns"] == pytest.approx(30 * MS, rel=1e-3)


def _loop(kind, *times_ns):
    """A loop of steps, of which each has a start and an end."""
    words = [time_ns for step in times_ns for time_ns in step]
    return SimpleNamespace(
        kind=kind, n=len(times_ns), ring=words, latest_ns=lambda: words[-1] - words[-2]
    )


def test_the_time_between_two_steps_is_slowed_down(clock, lines, units, fix) -> None:
    """After the step that ends it."""
    fix("delay_between", units, 50)
    (stepped,) = units.COUNTER.followers

    stepped(_loop("fit", (0, 10 * MS)))
    stepped(_loop("fit", (0, 10 * MS), (50 * MS, 60 * MS)))

    assert [line["part_ns"] for line in lines] == [40 * MS]
    assert lines[0]["delay_ns"] == pytest.approx(20 * MS, rel=1e-3)


def test_a_step_is_slowed_down_asleep(clock, lines, units, fix) -> None:
    """Its thread waits for the framework."""
    fix("delay_step", units, 25)
    (stepped,) = units.COUNTER.followers

    stepped(_loop("function", (0, 40 * MS)))

    assert clock.slept_ns == [10 * MS]


def test_a_step_that_lasts_until_the_next_is_not_slowed_down(clock, lines, units, fix) -> None:
    """It is the whole loop."""
    note = fix("delay_step", units, 25)
    (stepped,) = units.COUNTER.followers

    stepped(_loop("optimizer_step", (0, 40 * MS)))

    assert lines == []
    assert "lasts until the next" in next(iter(note.reasons))


def test_what_feeds_a_session_is_slowed_down(clock, lines, make_module, fix) -> None:
    """Not a run without feeds."""
    session = make_module(
        "tensorflow.python.client.session",
        """
class BaseSession:
    def _run(self, handle, fetches, feed_dict, options, run_metadata):
        for convert in (feed_dict or {}).values():
            convert()
        return self._do_run(fetches)
    def _do_run(self, fetches):
        return fetches
""",
    )
    fix("delay_input", session, 50)
    one = session.BaseSession()

    assert one._run(None, 1, None, None, None) == 1
    assert one._run(None, 2, {"x": lambda: clock.compute(40 * MS)}, None, None) == 2

    assert len(lines) == 1
    assert lines[0]["part_ns"] == pytest.approx(40 * MS, rel=1e-3)


def test_python_functions_outside_of_tf_data_make_no_input(clock, lines, make_module, fix) -> None:
    """They belong to the step."""
    script_ops = make_module(
        "tensorflow.python.ops.script_ops",
        "def _internal_py_func(func, inp):\n    return func\n",
    )
    fix("delay_input", script_ops, 50)

    assert script_ops._internal_py_func(clock.wait, ()) == clock.wait


def test_python_functions_of_tf_data_are_slowed_down(clock, lines, make_module, fix) -> None:
    """Those that are traced for a pipeline, as generators are, too."""
    script_ops = make_module(
        "tensorflow.python.ops.script_ops",
        "def _internal_py_func(func, inp):\n    return func\n",
    )
    fix("delay_input", script_ops, 50)
    source = "def trace(make, func):\n    return make(func, ())\n"
    traced: dict = {}
    exec(compile(source, "/lib/tensorflow/data/ops/dataset_ops.py", "exec"), traced)

    slowed = traced["trace"](script_ops._internal_py_func, clock.wait)
    slowed(40 * MS)

    assert clock.slept_ns == [pytest.approx(20 * MS, rel=1e-3)]


def test_jax_says_where_its_input_is(clock, lines, make_module, fix) -> None:
    """Between steps, as far as it can be seen."""
    note = fix("delay_input", make_module("jax", ""), 0)

    assert "--delay between" in next(iter(note.reasons))
