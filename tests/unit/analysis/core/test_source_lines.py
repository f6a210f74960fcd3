"""The line that an op comes from is one of the job's code, the same wherever lines are named."""

from __future__ import annotations

import pytest

from tests.support.profiles import Step, loop, op, profile
from tfprobe.analysis.core.source_lines import Origins, SourceLines, innermost
from tfprobe.analysis.ops.code_view import code, scope_stacks
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.op_stats import total_costs
from tfprobe.profile.graph import Frame, Node, is_of_library, known_name
from tfprobe.profile.reader.traced_steps import join

TRAIN = "/home/ada/train.py"
TF = "/env/lib/python3.11/site-packages/tensorflow/python/framework/ops.py"
ASKED = (Frame(TRAIN, 30, "step"), Frame(TF, 7, "gradients"))


def made_at(line: int) -> tuple[Frame, ...]:
    return (Frame(TRAIN, 50, "<module>"), Frame(TRAIN, line, "step"), Frame(TF, 9, "create_op"))


FORWARD = (
    Node("MatMul", "MatMul", trace=made_at(9)),
    Node("Relu", "Relu", trace=made_at(10)),
    Node("Relu_1", "Relu", trace=made_at(11)),
    Node("net/dense/MatMul", "MatMul", trace=made_at(12)),
    Node("net/dense/Relu", "Relu", trace=made_at(13)),
    Node("while/MatMul", "MatMul", trace=made_at(14)),
)


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (Node("gradients/MatMul_grad/MatMul_1", "MatMul", trace=ASKED), 9),
        (Node("train/gradients_1/net/dense/MatMul_grad/MatMul", "MatMul", trace=ASKED), 12),
        (Node("opt/gradients/gradients/while/MatMul_grad/MatMul", "MatMul", trace=ASKED), 14),
        (Node("gradient_tape/net/dense/MatMul/MatMul_1", "MatMul", trace=ASKED), 12),
        (Node("gradient_tape/net/dense/ReluGrad", "ReluGrad", trace=ASKED), 13),
        (Node("gradient_tape/ReluGrad_1", "ReluGrad", {0: "x", 1: "Relu"}, trace=ASKED), 10),
        (Node("gradients/AddN", "AddN", trace=ASKED), 30),
        (Node("gradient_tape/truediv", "RealDiv", trace=ASKED), 30),
        (Node("gradient_tape/ReluGrad", "ReluGrad", {0: "x"}, trace=ASKED), 30),
    ],
)
def test_a_gradient_comes_from_the_line_of_its_forward_op(node: Node, line: int) -> None:
    """Of tf.gradients and of a tape; where nobody knows the op, from the line that asked."""
    lines = SourceLines({each.name: each for each in (*FORWARD, node)})

    assert lines.line(node.name) == next(
        frame for frame in (*made_at(line), *ASKED) if frame.line == line
    )


def test_a_gradient_of_a_gradient_comes_from_the_first_forward_op() -> None:
    """tf.gradients twice names the op of the first behind that of the second."""
    first = Node("gradients/MatMul_grad/MatMul", "MatMul", trace=ASKED)
    second = Node("gradients_1/gradients/MatMul_grad/MatMul_grad/MatMul", "MatMul", trace=ASKED)
    lines = SourceLines({node.name: node for node in (*FORWARD, first, second)})

    assert lines.line(second.name) == made_at(9)[1]


def test_an_op_that_xla_made_comes_from_the_op_whose_name_is_its_scope() -> None:
    """A graph has no fusion; what it computes was made where the op of its name was."""
    lines = SourceLines({node.name: node for node in FORWARD})

    assert lines.line("net/dense/Relu/maximum_fusion") == made_at(13)[1]
    assert lines.line("adam/maximum_fusion") is None


@pytest.mark.parametrize(
    "file",
    [
        TF,
        "/usr/lib/python3/dist-packages/numpy/core.py",
        "/usr/lib/python3.11/contextlib.py",
        "<frozen runpy>",
        "/tmp/__autograph_generated_fileab12cd34.py",
    ],
)
def test_a_line_of_the_job_goes_before_what_it_did_not_write(file: str) -> None:
    """Packages, Python itself and what AutoGraph generated are nothing that one can change."""
    own = Frame(TRAIN, 3, "step")

    assert innermost((own, Frame(file, 99, "inner"))) == own
    assert innermost((Frame(file, 99, "inner"),)) == Frame(file, 99, "inner")


def test_the_view_of_code_and_findings_name_the_same_line() -> None:
    """A gradient stands at its forward line in the view, marked, and findings count it there."""
    gradient = Node("gradient_tape/MatMul/MatMul", "MatMul", trace=ASKED)
    rows = [op("MatMul", 0, 10)._replace(name=name) for name in ("MatMul", gradient.name)]
    made = profile([Step(rows)])
    nodes = {node.name: node for node in (FORWARD[0], gradient)}
    sampled = join(loop(), made.captures, made.executions, nodes)

    view = code(sampled, total_costs(sampled), ViewOptions(max_depth=9))

    shown = [stack.branches[-1].name for stack in scope_stacks(view.shown)]
    assert "train.py:9:step (gradient)" in {
        branch.name for stack in scope_stacks(view.shown) for branch in stack.branches
    }
    assert sorted(shown) == ["ops.py:9:create_op", "ops.py:9:create_op (gradient)"]
    assert Origins([sampled]).of(gradient.name).frame == made_at(9)[1]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("while/body/_12/while/MatMul", "while/MatMul"),
        ("loop/while/body/_1/cond/then/_78/while/MatMul", "while/MatMul"),
        ("StatefulPartitionedCall/call/net/dense/Relu", "net/dense/Relu"),
        ("net/while/MatMul", "net/while/MatMul"),
    ],
)
def test_an_op_of_an_inlined_function_is_known_by_its_own_name(name: str, known: str) -> None:
    """TensorFlow runs the bodies of loops and branches under the name of the loop."""
    calls = (
        Node("while", "While"),
        Node("loop/while", "StatelessWhile"),
        Node("cond", "If"),
        Node("call", "PartitionedCall"),
    )

    assert known_name(name, {node.name: node for node in (*FORWARD, *calls)}) == known


@pytest.mark.parametrize(
    "file",
    [
        "/runs/20260101-train/boot/tfprobe_agent/core/gaps.py",
        "tfprobe_agent/frameworks/torch/optimizers.py",
        "/src/tfprobe/marks.py",
    ],
)
def test_our_own_files_are_not_the_jobs(file: str) -> None:
    """The agent runs in the job; PyTorch's profiler may leave out the folder before it."""
    assert is_of_library(file)
    assert not is_of_library(file.replace("tfprobe", "mine"))
