"""Ops of PyTorch have the module, the line and the parameters that they belong to."""

from __future__ import annotations

import json

import pytest

from tests.support.kineto import annotation, called_from, frame, link, on_thread, op, shaped, trace
from tfprobe.errors import UnreadableInput
from tfprobe.formats.kineto import KinetoReader, read, read_modules
from tfprobe.profile.tables import Interner

STEP = "train.py(7): step"
EVALUATE = "autograd::engine::evaluate_function: "


def forward(*, tid=None):
    """Return a layer in a model, called by a function of the program."""
    events = [
        frame(STEP, 0, 1000),
        frame("nn.Module: Net_0", 10, 400),
        frame("torch/nn/modules/module.py(1782): _call_impl", 11, 398),
        frame("model.py(3): forward", 12, 390),
        frame("nn.Module: Linear_0", 20, 100),
        op("aten::linear", 30, 50, **{"Sequence number": 4, "Fwd thread id": 0}),
        op("aten::addmm", 32, 40, **{"Sequence number": 5, "Fwd thread id": 0}),
    ]
    return events if tid is None else [on_thread(event, tid) for event in events]


def backward(start_us=500, *, thread=1):
    """Return what differentiates the layer."""
    told = {"Sequence number": 5, "Fwd thread id": thread}
    return [
        op(f"{EVALUATE}AddmmBackward0", start_us, 100, **told),
        op("AddmmBackward0", start_us + 5, 80, **told),
        op("aten::mm", start_us + 10, 50),
    ]


def names(*events, modules=None):
    found = KinetoReader(Interner()).read(trace(events), modules or {})
    return [row.name for row in found.rows], found.nodes


def test_an_op_is_in_its_modules():
    """They nest as they were called."""
    found, nodes = names(*forward())

    assert found == ["Net_0/Linear_0/aten::linear", "Net_0/Linear_0/aten::addmm"]
    frames = [(each.file, each.line, each.function) for each in nodes[found[1]].trace]
    assert frames == [("train.py", 7, "step"), ("model.py", 3, "forward")]


CALLED = called_from((10, "train.py", 9), (20, "model.py", 5), (130, "model.py", 6))


def lines_of(head, *more):
    """Return the lines of the program's frames around each op, outermost first."""
    events = [
        *forward(),
        frame("<built-in method relu of type object at 0x7f01>", 130, 100),
        op("aten::relu", 140, 50),
        op("aten::add", 250, 50),
        *more,
    ]
    trace_of = KinetoReader(Interner()).read(trace(events, **head))
    return {
        row.op_type: [(frame.file, frame.line) for frame in trace_of.nodes[row.name].trace or ()]
        for row in trace_of.rows
    }


def test_an_op_is_at_the_line_that_called_it():
    """Of each function that called another; one that is written in C is enough."""
    found = lines_of(CALLED)

    assert found["aten::linear"] == [("train.py", 9), ("model.py", 5)]
    assert found["aten::relu"] == [("train.py", 9), ("model.py", 6)]


def test_an_operator_calls_no_function_that_has_a_line():
    """As in x + 1: the line is that of the function."""
    assert lines_of(CALLED)["aten::add"] == [("train.py", 9), ("model.py", 3)]


def test_a_gradient_has_the_line_of_its_forward_op():
    """That is where it comes from."""
    assert lines_of(CALLED, *backward())["aten::mm"] == [("train.py", 9), ("model.py", 5)]


@pytest.mark.parametrize(
    "head",
    [
        {},
        {"tfprobe_calls": 7},
        {"tfprobe_calls": {"files": ["model.py"], "start_ns": [20_000], "file": [0]}},
        {"tfprobe_calls": {"files": ["model.py"], "start_ns": [20_000], "file": [3], "line": [5]}},
        {"tfprobe_calls": {"files": [5], "start_ns": [20_000], "file": [0], "line": [5]}},
        {"tfprobe_calls": {"files": ["a"], "start_ns": [True], "file": [0], "line": [5]}},
        {"tfprobe_calls": {"files": ["a"], "start_ns": [20_000], "file": [0, 0], "line": [5]}},
        # of another file than the function around it, and of no function of the trace
        called_from((20, "other.py", 5)),
        called_from((21, "model.py", 5), (5_000, "model.py", 5)),
    ],
)
def test_without_a_known_line_it_is_that_of_the_function(head):
    """As in a trace of the job's own, and in one that is damaged."""
    assert lines_of(head)["aten::linear"] == [("train.py", 7), ("model.py", 3)]


@pytest.mark.parametrize("tid", [77, 99])
def test_a_gradient_is_where_its_forward_op_is(tid):
    """On the same thread, or on that of the engine: their numbers are equal."""
    found, nodes = names(*forward(), *(on_thread(each, tid) for each in backward()))

    assert found[2:] == [
        f"gradients/Net_0/Linear_0/{EVALUATE}AddmmBackward0",
        "gradients/Net_0/Linear_0/AddmmBackward0",
        "gradients/Net_0/Linear_0/aten::mm",
    ]
    gradient = nodes["gradients/Net_0/Linear_0/aten::mm"]
    assert gradient.is_backward
    assert gradient.trace == nodes["Net_0/Linear_0/aten::addmm"].trace


def test_an_op_and_the_one_that_differentiates_it_share_a_number():
    """It is below 0, unlike those of kernels and calls."""
    rows = read(trace([*forward(), *backward()])).rows

    shared = {row.op_type: row.correlation for row in rows if row.correlation}
    assert shared == {"aten::addmm": -1, f"{EVALUATE}AddmmBackward0": -1}


def test_of_several_threads_the_links_say_whose_a_number_is():
    """Each thread counts for itself; without links nothing is guessed."""
    other = [
        on_thread(frame("nn.Module: Other_0", 10, 400), 99),
        on_thread(op("aten::mul", 33, 5, **{"Sequence number": 5, "Fwd thread id": 0}), 99),
    ]
    events = [*forward(), *other, *backward()]

    unlinked, _ = names(*events)
    linked, _ = names(*events, *link(1, 32, 505))

    assert "gradients/aten::mm" in unlinked
    assert "gradients/Net_0/Linear_0/aten::mm" in linked


def test_what_is_computed_again_has_its_own_module():
    """Activation checkpointing runs the layers once more within the backward pass."""
    again = [
        frame("nn.Module: ReLU_0", 520, 20),
        op("aten::relu", 525, 5, **{"Sequence number": 9, "Fwd thread id": 0}),
    ]

    found, _ = names(*forward(), *backward(), *again)

    assert "gradients/ReLU_0/aten::relu" in found


def test_an_update_is_in_the_scope_of_its_optimizer():
    """An annotation of the program is a scope, as the optimizer's and the loader's are."""
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    found, _ = names(
        annotation(loader, 0, 10),
        op("aten::stack", 1, 5),
        annotation("Optimizer.step#AdamW.step", 20, 10),
        op("aten::mul_", 21, 5),
        annotation("Optimizer.zero_grad#AdamW.zero_grad", 40, 10),
        op("aten::zero_", 41, 5),
        annotation("my part/one", 60, 10),
        op("aten::add", 61, 5),
    )

    assert found == [
        "DataLoader/aten::stack",
        "AdamW.step/aten::mul_",
        "AdamW.zero_grad/aten::zero_",
        "my part\N{DIVISION SLASH}one/aten::add",
    ]


def test_ops_that_differ_are_several_nodes():
    """By their shapes, or by the line; equal ones are one node, in later steps as well."""
    reader = KinetoReader(Interner())
    one, two = shaped(op("aten::mul", 1, 5), [4], [4]), shaped(op("aten::mul", 9, 5), [8], [8])

    first = reader.read(trace([one, two, {**one, "ts": 20}]))
    later = reader.read(trace([{**two, "ts": 0}, one]))

    assert [row.name for row in first.rows] == ["aten::mul", "aten::mul_1", "aten::mul"]
    assert [row.name for row in later.rows] == ["aten::mul_1", "aten::mul"]
    assert first.nodes["aten::mul_1"].call.sizes == ((8,), (8,))


def test_the_time_in_ops_that_an_op_calls_is_not_its_own():
    """Nested rows are not summed twice."""
    rows = read(trace(forward()[-2:])).rows

    assert rows.nested_ns.tolist() == [40_000, 0]
    assert rows.duration_ns.tolist() == [50_000, 40_000]


def test_a_function_that_ends_too_early_does_not_cut_its_ops():
    """Its times are less exact than those of ops."""
    events = [
        frame("nn.Module: Net_0", 0, 50),
        op("aten::linear", 40, 60),
        op("aten::addmm", 70, 20),
        op("aten::relu", 110, 5),
    ]

    rows = read(trace(events)).rows

    names = [row.name for row in rows]
    assert names == ["Net_0/aten::linear", "Net_0/aten::addmm", "aten::relu"]
    assert rows.nested_ns.tolist() == [20_000, 0, 0]


def test_recorded_modules_have_their_attribute_paths():
    """The agent writes them at the first traced step."""
    document = {
        "schema": "tfprobe.modules/1",
        "modules": [
            {"name": "Net_0", "path": "", "class": "Net", "parameters": [["scale", [], "float32"]]},
            {
                "name": "Linear_0",
                "path": "body.first",
                "class": "Linear",
                "parameters": [["weight", [512, 256], "float32"], ["bias", [512], "float32"]],
            },
        ],
    }

    modules = read_modules(json.dumps(document).encode())
    found, nodes = names(*forward(), *backward(), modules=modules)

    assert found[0] == "Net/body/first/aten::linear"
    assert found[-1] == "gradients/Net/body/first/aten::mm"
    shapes = {node.name: node.shape for node in nodes.values() if node.op == "parameter"}
    assert shapes == {
        "Net/scale": (1,),
        "Net/body/first/weight": (512, 256),
        "Net/body/first/bias": (512,),
    }


@pytest.mark.parametrize("content", [b"", b"[]", b'{"modules": [{"name": "a"}]}', b"{}"])
def test_a_damaged_list_of_modules_is_refused(content):
    """The trace is read without it."""
    with pytest.raises(UnreadableInput):
        read_modules(content)


def test_parameters_are_those_that_get_gradients():
    """Each once, however often a step adds to it, in the scope of the op that made the gradient."""
    told = {"Sequence number": 8, "Fwd thread id": 0}

    def sums(start_us):
        name = "torch::autograd::AccumulateGrad"
        shapes = {start_us: [512], start_us + 10: [512], start_us + 20: [512, 256]}
        return [
            each
            for at, shape in shapes.items()
            for each in (op(f"{EVALUATE}{name}", at, 5), shaped(op(name, at + 1, 3), shape))
        ]

    _, nodes = names(
        *forward(),
        *backward(),
        *sums(700),
        op("aten::add", 2000, 5, **told),
        *sums(3000),
    )

    parameters = [node for node in nodes.values() if node.op == "parameter"]
    assert sorted(node.shape for node in parameters) == [(512,), (512,), (512, 256)]
    assert {node.name.rpartition("/")[0] for node in parameters} == {"Net_0/Linear_0"}


def test_steps_end_with_updates_where_none_is_marked():
    """Of several optimizers, the one that updates most often tells."""
    events = [op("aten::add", 10, 5), op("aten::add", 210, 5)]
    adam = [annotation("Optimizer.step#Adam.step", at, 20) for at in (50, 250)]
    other = [annotation("Optimizer.step#SGD.step", 100, 20)]

    found = read(trace([*events, *adam, *other])).markers

    assert [(each.start_ns, each.end_ns) for each in found] == [(10_000, 70_000), (70_000, 270_000)]


def test_calls_of_the_model_are_steps_where_nothing_is_trained():
    """Those of the outermost module that takes most time."""
    events = [
        frame("nn.Module: Loss_0", 0, 5),
        frame("nn.Module: Net_0", 10, 50),
        frame("nn.Module: Linear_0", 12, 20),
        frame("nn.Module: Net_0", 100, 50),
        op("aten::add", 20, 5),
    ]

    found = read(trace(events)).markers

    assert [(each.number, each.start_ns, each.end_ns) for each in found] == [
        (0, 10_000, 60_000),
        (1, 100_000, 150_000),
    ]


def test_an_annotation_outlasts_the_function_that_begins_it() -> None:
    """Whatever line called that: a loader's batch, and what a program marks."""
    events = [
        frame("train.py(7): step", 0, 1000),
        frame("torch/utils/data/dataloader.py(720): __next__", 10, 500),
        frame("torch/autograd/profiler.py(918): __enter__", 20, 30),
        annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 40, 400),
        op("aten::stack", 100, 50),
        frame("<built-in method __enter__ of torch._C._profiler._RecordFunctionFast", 600, 20),
        annotation("mine", 610, 300),
        op("aten::add", 700, 50),
    ]
    calls = called_from(
        (10, "train.py", 8),
        (20, "torch/utils/data/dataloader.py", 721),
        (600, "train.py", 9),
    )

    found = KinetoReader(Interner()).read(trace(events, **calls))

    assert [row.name for row in found.rows] == ["DataLoader/aten::stack", "mine/aten::add"]
