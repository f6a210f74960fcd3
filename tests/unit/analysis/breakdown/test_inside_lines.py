"""Functions of the job that take time inside steps of PyTorch have a kind and a share."""

from __future__ import annotations

import pytest

from tests.support.profiles import Span, Step, loop, op, profile
from tfprobe.analysis.breakdown.inside_lines import inside_lines, loader_calls
from tfprobe.analysis.breakdown.python_lines import PythonLine
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import SpanKind

USUAL_NS = 50_000.0


def _called(
    name: str, us: float, times: int = 1, source: str = "train.py:7", line: int = 0
) -> Span:
    return Span(SpanKind.PYTHON_CALLS, name, 0, us, detail=source, identity=times, parent=line)


def _lines(*spans: Span) -> tuple[PythonLine, ...]:
    """Return the lines of one traced step of 100 us; the usual one takes 50."""
    found = profile([Step([op("aten::add", 0, 5)], spans=spans)], loops=[loop()])
    lines = inside_lines(found, found.captures, USUAL_NS)
    assert not isinstance(lines, Missing)
    return lines


@pytest.mark.parametrize(
    ("name", "kind", "ratio"),
    [
        ("<built-in function sleep>", "sleep", 0.4),
        ("<built-in function fsync>", "fsync", 0.4),
        ("subprocess.py(506): run", "subprocess", 0.4),
        ("<built-in function collect>", "collection", 0.2),
        ("<built-in function print>", "output", 0.2),
        ("logging/__init__.py(1489): info", "output", 0.2),
        ("torch/utils/tensorboard/writer.py(9): add_scalar", "output", 0.2),
        ("numpy/linalg.py(3): svd", "python", 0.2),
        ("itself", "python", 0.2),
    ],
)
def test_a_call_has_a_kind(name: str, kind: str, ratio: float) -> None:
    """Tracing slows Python down, and no wait: that is a share of the usual step."""
    (line,) = _lines(_called(name, 20))

    assert (line.kind.value, line.source, line.ratio) == (kind, "train.py:7", pytest.approx(ratio))


@pytest.mark.parametrize(("second_us", "line"), [(8, 12), (12, 7)])
def test_the_line_is_that_of_the_calls_which_take_most(second_us: float, line: int) -> None:
    """If that is more than half of what the function does; else it is that of the function."""
    (found,) = _lines(
        _called("<built-in function fsync>", 12, line=12),
        _called("<built-in function fsync>", second_us, line=20),
    )

    assert (found.source, found.ratio) == (
        f"train.py:{line}",
        pytest.approx(2 * (12 + second_us) / 100),
    )


@pytest.mark.parametrize(
    ("name", "ratio"), [("library.py(3): train", 6 / 400), ("<built-in function sleep>", 72 / 200)]
)
def test_a_function_in_which_the_cpu_was_lost_takes_as_long_as_usual(
    name: str, ratio: float
) -> None:
    """By its median over the steps that call it; how long a wait takes may well vary."""
    steps = [
        Step([op("aten::add", 0, 5)], spans=[_called(name, us)] if us else [])
        for us in (2, 68, 0, 2)
    ]
    found = profile(steps, loops=[loop()])

    lines = inside_lines(found, found.captures, USUAL_NS)

    assert not isinstance(lines, Missing)
    (line,) = lines
    assert line.ratio == pytest.approx(ratio)


def test_reads_of_a_function_are_counted_over_its_lines() -> None:
    """Each line has fewer than eight."""
    (found,) = _lines(
        _called("<built-in method item of Tensor", 10, 5, line=9),
        _called("<built-in method item of Tensor", 4, 5, line=10),
    )

    assert (found.source, found.kind.value) == ("train.py:9", "reads")


def test_ops_are_what_the_step_computes() -> None:
    """Calls of PyTorch that read nothing, and a single loss, are no time to win."""
    lines = _lines(
        _called("torch/functional.py(47): broadcast_tensors", 20),
        _called("<built-in method norm of Tensor", 20),
        _called("<built-in method item of Tensor", 5),
    )

    assert lines == ()


def test_what_is_computed_to_be_read_counts_as_reading() -> None:
    """From eight reads on; a function with fewer of them is another one."""
    (line,) = _lines(
        _called("torch/_tensor.py(888): norm", 20, 8),
        _called("<built-in method item of Tensor", 10, 8),
        _called("<built-in method item of Tensor", 10, 7, source="train.py:20"),
    )

    assert (line.what, line.kind.value, line.calls) == ("item", "reads", 8)
    assert line.ratio == pytest.approx(0.3)


def test_calls_of_several_steps_are_counted_for_one() -> None:
    """Twenty reads in each of two traced steps are twenty in a step."""
    span = _called("<built-in method item of Tensor", 20, 20)
    steps = [Step([op("aten::add", 0, 5)], spans=[span]) for _ in range(2)]
    found = profile(steps, loops=[loop()])

    lines = inside_lines(found, found.captures, USUAL_NS)

    assert not isinstance(lines, Missing)
    assert [line.calls for line in lines] == [20]


def test_a_trace_without_stacks_says_so() -> None:
    """Its functions are not known, which is not that there were none."""
    found = profile([Step([op("aten::add", 0, 5)])], loops=[loop()])

    assert isinstance(inside_lines(found, found.captures, USUAL_NS), Missing)


def test_stages_of_a_loader_are_added_up() -> None:
    """By stage and line."""
    span = Span(SpanKind.LOADER_CALLS, "dataset", 0, 30, detail="data.py:9", identity=2)
    found = profile([Step([op("aten::add", 0, 5)], spans=[span])] * 2, loops=[loop()])

    assert loader_calls(found, found.captures) == {("dataset", "data.py:9"): 60_000}


@pytest.mark.parametrize(("calls", "kinds"), [(1, ["reads"]), (9, [])])
def test_a_function_that_runs_the_model_may_read_once_a_call(calls: int, kinds: list[str]) -> None:
    """An agent that acts nine times in a step reads nine actions, and computes for the model."""
    spans = (
        _called("<built-in method item of Tensor object", 1, 9),
        _called("torch/distributions/categorical.py(56): __init__", 30, 9),
        _called("runs the training", 0, calls),
    )
    found = profile([Step([op("aten::add", 0, 5)], spans=spans)], loops=[loop()])

    lines = inside_lines(found, found.captures, USUAL_NS)

    assert not isinstance(lines, Missing)
    assert [line.kind.value for line in lines] == kinds
