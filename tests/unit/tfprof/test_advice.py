"""advise says what tfprof's checkers say, from profiles made by hand."""

from __future__ import annotations

import pytest

from tfprobe.errors import UsageError
from tfprobe.profile.graph import Frame, Graph, Node
from tfprobe.profile.records import GraphProfile, Record, Span
from tfprobe.tfprof.advice import advice_text, advise

GPU = "/job:localhost/replica:0/task:0/device:gpu:0"
CPU = "/job:localhost/replica:0/task:0/device:cpu:0"


def record(start_us: int, end_us: int, *, kernel_us: int = 0, cpu_us: int = 0) -> Record:
    """Return what a node did between two moments."""
    return Record(
        run_count=1,
        start_us=start_us,
        end_us=end_us,
        accelerator={f"{GPU}/stream:all": (Span(start_us, kernel_us),)} if kernel_us else {},
        cpu={CPU: (Span(start_us, cpu_us),)} if cpu_us else {},
        memory=(),
        allocations=(),
    )


def profile(*nodes: tuple[Node, str | None, dict[int, Record]]) -> GraphProfile:
    """Return the profile of nodes with their device and records."""
    return GraphProfile(
        graph=Graph(tuple(node for node, _, _ in nodes)),
        steps=tuple(sorted({step for _, _, records in nodes for step in records})),
        devices=tuple(device for _, device, _ in nodes),
        records=tuple(records for _, _, records in nodes),
        covered=0,
        lacks_stream=False,
    )


def node(name: str, op: str = "MatMul", **more) -> Node:
    """Return a node."""
    return Node(name=name, op=op, types=frozenset({op}), **more)


@pytest.mark.parametrize(
    ("kernel_us", "says"),
    [(50, "utilization: 0.50"), (49, "low utilization: 0.49"), (250, "utilization: 2.50")],
)
def test_a_gpu_is_little_used_below_one_half(kernel_us, says) -> None:
    """Kernels of the last step of each node, over the time from first to last."""
    made = profile(
        (node("a"), GPU, {3: record(0, 900), 7: record(1000, 1100, kernel_us=kernel_us)})
    )

    found = advise(made)

    assert found.reports["AcceleratorUtilizationChecker"] == (f"device: {GPU} {says}",)


def test_a_cpu_is_no_accelerator() -> None:
    """And a node that never started tells nothing of its GPU."""
    made = profile((node("a"), CPU, {0: record(1, 5)}), (node("b"), GPU, {0: record(0, 0)}))

    found = advise(made)

    assert found.reports["AcceleratorUtilizationChecker"] == ()


@pytest.mark.parametrize(
    ("op", "says"),
    [
        ("Mul", ("Maybe use faster FusedBatchNorm instead of BatchNorm",)),
        ("FusedBatchNorm", ()),
        ("FusedBatchNormV3", ("Maybe use faster FusedBatchNorm instead of BatchNorm",)),
    ],
)
def test_batch_norm_without_the_fused_op_is_told(op, says) -> None:
    """By the names of nodes; as in tfprof, later versions of the op are not known."""
    made = profile((node("layer/BatchNorm/mul", op), None, {}))

    found = advise(made)

    assert found.reports["OperationChecker"] == says


def test_channels_last_on_a_gpu_is_told() -> None:
    """On a CPU it is as it should be."""
    conv = node("conv", "Conv2D", attributes={"data_format": "NHWC"})

    on_gpu, on_cpu = advise(profile((conv, GPU, {}))), advise(profile((conv, CPU, {})))

    assert on_gpu.reports["OperationChecker"] == (
        "Found operation using NHWC data_format on GPU. Maybe NCHW is faster.",
    )
    assert on_cpu.reports["OperationChecker"] == ()


def test_lines_are_followed_below_the_first_fork() -> None:
    """Lines below a millisecond are left out, and below four levels."""
    main = Frame("train.py", 1, "main")
    made = profile(
        *(
            (
                node(name, trace=(main, Frame("model.py", line, "layer"))),
                CPU,
                {0: record(1, 2, cpu_us=took_us)},
            )
            for name, line, took_us in (("a", 5, 1500), ("b", 6, 2500), ("c", 7, 900))
        )
    )

    lines = advise(made).reports["ExpensiveOperationChecker"][-1]

    assert lines == (
        "model.py:6:layer, cpu: 2.50ms, accelerator: 0us, total: 2.50ms\n"
        "model.py:5:layer, cpu: 1.50ms, accelerator: 0us, total: 1.50ms"
    )


def test_what_cannot_be_checked_is_told() -> None:
    """Without steps there is nothing dear."""
    found = advise(profile((node("a"), None, {})))

    assert found.reports["ExpensiveOperationChecker"] == ()
    assert "no step" in found.remarks[0]


def test_only_the_named_checkers_run() -> None:
    """JobChecker is taken and silent, as in tfprof outside Google."""
    found = advise(profile((node("a"), None, {})), ["JobChecker", "OperationChecker"])

    assert advice_text(found) == "\nOperationChecker:\n"


def test_a_checker_that_is_none_is_an_error() -> None:
    """It says which there are."""
    with pytest.raises(UsageError, match="ExpensiveOperationChecker"):
        advise(profile((node("a"), None, {})), ["OpertionChecker"])
