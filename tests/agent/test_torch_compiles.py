"""What PyTorch measures of compilations is read; what is not known is left alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load

compiles, guard = load("frameworks.torch.compiles"), load("core.guard")
profiler, tracing = load("frameworks.torch.profiler"), load("core.tracing")
OLD_S = 0.25


@dataclass
class Recorder:
    """Keeps the events."""

    pid: int = field(default_factory=lambda: compiles.UNPATCHED.getpid())
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def process_dir(self) -> SimpleNamespace:
        def event(kind: str, **fields: Any) -> None:
            self.events.append({"event": kind, **fields})

        return SimpleNamespace(event=event)

    def spent_once(self, _ns: int) -> None:
        """Nothing to do."""


class Measured:
    """What PyTorch 2.4 hands over."""

    co_name = "forward"
    cache_size = 1
    entire_frame_compile_time_s = OLD_S
    backend_compile_time_s = 0.1
    inductor_compile_time_s = None
    fail_type = None


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """The recorder of a process of PyTorch that has just begun."""
    made = Recorder()
    monkeypatch.setattr(compiles.CURRENT, "recorder", made)
    monkeypatch.setattr(compiles.activities, "note", lambda *_args, **_options: None)
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", ModuleType("torch._dynamo.utils"))
    compiles.reset()
    yield made
    assert guard.STATE.noting
    assert not guard.STATE.disabled


def recorded(function: Any) -> Any:
    """Return the function of a module that was patched."""
    module = ModuleType("torch._dynamo.utils")
    module.record_compilation_metrics = function
    compiles.patch(module)
    return module.record_compilation_metrics


def make_compiler(record: Any) -> Any:
    """Return a function that is called as PyTorch's own, by its module and name."""
    scope: dict[str, Any] = {"__name__": "torch._dynamo.convert_frame", "record": record}
    exec("def _compile(code, locals, *args):\n    return record(*args)", scope)
    return scope["_compile"]


class Net:
    """A module."""

    def forward(self) -> None:
        """Compute."""


def test_measurements_of_2_6_and_later_are_a_dict(recorder) -> None:
    """In microseconds, with the reason of a recompilation in several lines."""
    reason = (
        "0/0: tensor 'x' dtype mismatch. expected Float, actual Double   # y = x + 1\nUser stack:"
    )
    facts = {
        "co_name": "forward",
        "duration_us": 900,
        "aot_autograd_cumulative_compile_time_us": 700,
        "inductor_cumulative_compile_time_us": 500,
        "recompile_reason": reason,
        "inductor_fx_local_cache_hit_count": 2,
    }
    compiler = make_compiler(recorded(lambda *_args: "returned"))

    returned = compiler(Net.forward.__code__, {"self": Net()}, 1, 2, facts, None, None)

    (event,) = recorder.events
    assert returned == "returned"
    assert event["name"] == "Net.forward"
    assert [event[name] for name in ("trace_ns", "lower_ns", "backend_ns")] == [
        200_000,
        200_000,
        500_000,
    ]
    assert event["guard"] == "0/0: tensor 'x' dtype mismatch. expected Float, actual Double"
    assert (event["first"], event["cached"]) == (False, True)


def test_measurements_before_are_an_object(recorder) -> None:
    """In seconds, without a reason: the list of guards that failed may have it."""
    compiler = make_compiler(recorded(lambda *_args: None))
    code = Net.forward.__code__

    compiler(code, {}, Measured())
    sys.modules["torch._dynamo.utils"].guard_failures = {code: ["first", "tensor 'x' changed"]}
    compiler(code, {}, Measured())

    assert [event["guard"] for event in recorder.events] == ["", "tensor 'x' changed"]
    assert recorder.events[0]["trace_ns"] == 150_000_000


@pytest.mark.parametrize(
    "args", [(), (3,), ({},), (1, 2, {"co_name": "f"}, None, None), (1, 2, 3, 4, 5), (object(),)]
)
def test_a_version_that_is_not_known_is_not_recorded(recorder, args) -> None:
    """Its function is called as before, and the agent goes on."""
    seen: list[Any] = []
    compiler = make_compiler(recorded(lambda *given: seen.append(given)))

    compiler(Net.forward.__code__, {}, *args)

    assert seen == [args]
    assert recorder.events == []


def test_records_of_another_kind_are_left_out(recorder) -> None:
    """The compilation itself is recorded: what is measured of it is known."""
    compiler = make_compiler(recorded(lambda *_args: None))
    utils = sys.modules["torch._dynamo.utils"]
    utils.guard_failures = ["a list"]
    utils.graph_break_reasons = ["a text", SimpleNamespace(reason="print", user_stack=None)]
    facts = {"co_name": "forward", "duration_us": 900, "cache_size": 1}

    compiler(Net.forward.__code__, {}, 1, 2, facts, None, None)
    compiler("no code", {}, 1, 2, facts, None, None)

    assert [(event["event"], event["guard"]) for event in recorder.events] == [("compile", "")]


def test_a_version_without_the_function_is_left_alone() -> None:
    """Nothing is added to its modules."""
    module = ModuleType("torch._dynamo.utils")
    before = dict(vars(module))

    compiles.patch(module)
    compiles.patch_old(module)

    assert vars(module) == before


def test_an_exception_of_pytorch_is_its_own(recorder) -> None:
    """It reaches the caller, and nothing is noted."""

    def fails(*_args: Any) -> None:
        raise KeyError("of PyTorch")

    with pytest.raises(KeyError, match="of PyTorch"):
        recorded(fails)(1, 2, {"duration_us": 1}, None, None)

    assert recorder.events == []


def test_contexts_that_took_the_function_before_get_the_new_one() -> None:
    """As in 2.6, which makes them when its module is imported."""
    module = ModuleType("torch._dynamo.utils")

    def original() -> None:
        """PyTorch's own."""

    module.record_compilation_metrics = original
    module._METRICS_CONTEXT = SimpleNamespace(_on_exit=original)

    compiles.patch(module)

    assert module._METRICS_CONTEXT._on_exit is module.record_compilation_metrics
    assert module.record_compilation_metrics is not original


def test_a_break_is_written_once_for_each_compilation(recorder) -> None:
    """PyTorch's list grows, and is emptied by a reset."""
    compiler = make_compiler(recorded(lambda *_args: None))
    frame = SimpleNamespace(filename="/home/ada/train.py", lineno=14)
    broken = SimpleNamespace(reason="print", user_stack=[frame])
    utils = sys.modules["torch._dynamo.utils"]
    facts = {"co_name": "forward", "duration_us": 900}

    for reasons in ([broken], [broken, broken], [broken, broken], [], [broken]):
        utils.graph_break_reasons = reasons
        compiler(Net.forward.__code__, {}, 1, 2, facts, None, None)

    breaks = [event for event in recorder.events if event["event"] == "graph_break"]
    assert [(event["at"], event["skipped"]) for event in breaks] == 3 * [
        (("/home/ada/train.py", 14), False)
    ]


class Window(profiler.Window):
    """An open window of this thread."""

    def __init__(self) -> None:
        tracing.Window.__init__(self, None, (), {})
        self.session = self.given_up = object()

    def discard(self, session: Any) -> None:
        self.given_up = session


def context_class() -> Any:
    """Return the class of the contexts in which PyTorch compiles, patched."""

    class MetricsContext:
        def __enter__(self) -> Any:
            return self

    module = ModuleType("torch._dynamo.metrics_context")
    module.MetricsContext = MetricsContext
    compiles.patch_contexts(module)
    return module.MetricsContext


def test_a_window_ends_where_a_compilation_begins(monkeypatch) -> None:
    """PyTorch's profiler may end a process that compiles while it records stacks."""
    window, context = Window(), context_class()()
    monkeypatch.setattr(tracing.TRACING, "window", window)

    entered = context.__enter__()

    assert entered is context
    assert window.session is None
    assert "compiled" in window.why_lost


def test_a_window_of_another_thread_stays(monkeypatch) -> None:
    """Only the thread that has opened a session can end it."""
    window = Window()
    window.thread += 1
    monkeypatch.setattr(tracing.TRACING, "window", window)

    context_class()().__enter__()

    assert window.session is not None


def test_frames_of_ours_are_left_out_of_what_pytorch_logs(monkeypatch) -> None:
    """Releases before 2.6 are told how many frames to skip."""
    monkeypatch.delitem(sys.modules, "torch._dynamo.metrics_context", raising=False)
    module = ModuleType("torch._dynamo.convert_frame")

    def compiles_frame(*args: Any, **options: Any) -> Any:
        return args, options

    module._compile = compiles_frame
    compiles.patch_old(module)

    assert module._compile("code", skip=3, frame=None) == (("code",), {"skip": 4, "frame": None})
