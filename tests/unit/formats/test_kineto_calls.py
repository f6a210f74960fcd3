"""What functions of the program call without training anything is summed up by function."""

from __future__ import annotations

from tests.support.kineto import annotation, called_from, frame, op, trace
from tfprobe.formats import kineto
from tfprobe.profile.capture_tables import SpanKind

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def _calls(*events: dict, kind: SpanKind = SpanKind.PYTHON_CALLS) -> dict[tuple[str, str], tuple]:
    """Return time in us and number of calls, by function and what it called."""
    spans = kineto.read(trace(events)).spans
    return {
        (spans.strings[spans.detail[at]], spans.strings[spans.name[at]]): (
            int(spans.duration_ns[at]) / 1000,
            int(spans.identity[at]),
        )
        for at in range(len(spans))
        if spans.kind[at] == kind
    }


def test_calls_of_a_function_are_added_up() -> None:
    """Addresses of objects are no part of a name."""
    found = _calls(
        frame("train.py(30): <module>", 0, 1000),
        frame("train.py(7): log", 100, 200),
        frame("json/__init__.py(183): dumps", 110, 20),
        frame("<built-in method write of file object at 0x7f01>", 140, 30),
        frame("<built-in method write of file object at 0x7f02>", 180, 30),
        op("aten::add", 400, 10),
    )

    assert found["train.py:7", "json/__init__.py(183): dumps"] == (20, 1)
    assert found["train.py:7", "<built-in method write of file"] == (60, 2)


def test_training_is_looked_through() -> None:
    """Modules, the backward pass and updates are what a step is for; what stands around is not."""
    found = _calls(
        frame("train.py(30): <module>", 0, 1000),
        frame("trainer/loop.py(3): step", 0, 800),
        frame("nn.Module: Net_0", 10, 100),
        frame("model.py(3): forward", 12, 90),
        frame("<built-in function linear>", 20, 70),
        op("aten::addmm", 30, 10),
        frame("torch/_tensor.py(566): backward", 120, 100),
        frame("<built-in method run_backward of torch._C", 125, 90),
        frame("<built-in function fsync>", 300, 200),
        frame("torch/optim/optimizer.py(509): wrapper", 600, 100),
        annotation("Optimizer.step#SGD.step", 600, 90),
    )

    assert found == {
        ("trainer/loop.py:3", "<built-in function fsync>"): (200, 1),
        ("trainer/loop.py:3", "itself"): (80 + 100 + 100, 3),
        ("train.py:30", "itself"): (200, 1),
        ("trainer/loop.py:3", "runs the training"): (0, 1),
        ("train.py:30", "runs the training"): (0, 1),
    }


def test_ops_within_a_library_are_no_time_of_its_python() -> None:
    """Clipping gradients computes; what a program prints of a tensor does, too, and is printed."""
    found = _calls(
        frame("train.py(30): <module>", 0, 1000),
        frame("transformers/trainer.py(9): _clip_grad_norm", 0, 400),
        op("aten::linalg_vector_norm", 50, 100),
        op("aten::mul", 200, 150),
        frame("<built-in function print>", 400, 600),
        frame("torch/_tensor_str.py(9): _str", 410, 500),
        op("aten::abs", 420, 300),
    )

    assert found == {
        ("train.py:30", "transformers/trainer.py(9): _clip_grad_norm"): (150, 1),
        ("train.py:30", "<built-in function print>"): (600, 1),
    }


def test_the_agent_is_no_function_of_the_program() -> None:
    """It stands around calls of it, and opens the window in which they are traced."""
    found = _calls(
        frame("train.py(30): <module>", 0, 1000),
        frame("/runs/1/boot/tfprobe_agent/core/tracing.py(9): start", 0, 300),
        frame("torch/autograd/profiler.py(414): _start_trace", 10, 100),
        frame("tfprobe_agent/frameworks/torch/saves.py(9): save", 300, 700),
        frame("helpers.py(5): write", 310, 680),
        frame("<built-in function fsync>", 320, 660),
        op("aten::add", 995, 5),
    )

    assert found == {("helpers.py:5", "<built-in function fsync>"): (660, 1)}


def test_a_value_that_is_read_without_a_call_is_known_by_its_op() -> None:
    """As float(loss) and if loss > 1 do."""
    found = _calls(
        frame("train.py(7): note", 0, 100),
        op("aten::item", 10, 5),
        op("aten::item", 20, 5),
        op("aten::abs", 30, 5),
    )

    assert found["train.py:7", "aten::item"] == (10, 2)
    assert ("train.py:7", "aten::abs") not in found


def test_a_loader_without_workers_has_stages() -> None:
    """Each with the function of the program that takes most of it."""
    events = (
        frame("train.py(30): <module>", 0, 1000),
        frame("<built-in function next>", 0, 500),
        frame("torch/utils/data/dataloader.py(720): __next__", 1, 498),
        annotation(LOADER, 2, 490),
        frame("torch/utils/data/_utils/fetch.py(49): fetch", 3, 480),
        frame("data.py(5): __getitem__", 10, 100),
        frame("data.py(9): decoded", 15, 90),
        frame("data.py(5): __getitem__", 120, 100),
        frame("data.py(9): decoded", 125, 90),
        frame("data.py(20): padded", 300, 150),
        op("aten::stack", 310, 20),
    )

    assert _calls(*events, kind=SpanKind.LOADER_CALLS) == {
        ("data.py:9", "dataset"): (200, 2),
        ("data.py:20", "collate_fn"): (150, 1),
    }
    assert ("train.py:30", "<built-in function next>") not in _calls(*events)


def test_a_data_set_of_a_package_is_a_stage() -> None:
    """With the function of the program that it calls, if that takes most of it, else its own."""
    events = (
        frame("torch/utils/data/dataloader.py(720): __next__", 0, 900),
        annotation(LOADER, 1, 890),
        frame("torch/utils/data/_utils/fetch.py(49): fetch", 2, 880),
        frame("torch/utils/data/dataset.py(414): __getitem__", 3, 200),
        frame("torchvision/datasets/mnist.py(131): __getitem__", 4, 198),
        frame("torchvision/transforms/transforms.py(129): __call__", 10, 150),
        frame("torchvision/datasets/folder.py(248): __getitem__", 300, 100),
        frame("train.py(12): cropped", 310, 80),
        frame("torch/utils/data/_utils/collate.py(398): default_collate", 500, 50),
        op("aten::stack", 510, 20),
    )

    assert _calls(*events, kind=SpanKind.LOADER_CALLS) == {
        ("torchvision/datasets/mnist.py:131", "dataset"): (198, 1),
        ("train.py:12", "dataset"): (100, 1),
        ("", "collate_fn"): (50, 1),
    }


def test_calls_of_several_lines_are_summed_up_by_line() -> None:
    """If the agent has added them to the trace; the function stays known by its first line."""
    events = [
        frame("train.py(7): log", 0, 500),
        frame("<built-in function fsync>", 10, 100),
        frame("<built-in function fsync>", 120, 200),
        frame("<built-in function fsync>", 330, 60),
        op("aten::add", 450, 10),
    ]
    head = called_from((10, "train.py", 9), (120, "train.py", 12), (330, "train.py", 9))

    spans = kineto.read(trace(events, **head)).spans

    found = {
        int(spans.parent[at]): (int(spans.duration_ns[at]) // 1000, int(spans.identity[at]))
        for at in range(len(spans))
        if "fsync" in spans.strings[spans.name[at]] and spans.kind[at] == SpanKind.PYTHON_CALLS
    }
    assert found == {9: (160, 2), 12: (200, 1)}


def test_what_takes_a_gap_has_the_line_that_called_it() -> None:
    """The innermost one of the program."""
    events = [
        op("aten::add", 0, 10),
        frame("train.py(7): log", 20, 400),
        frame("json/__init__.py(183): dumps", 30, 380),
        frame("json/encoder.py(9): encode", 32, 370),
        op("aten::mul", 500, 10),
    ]

    spans = kineto.read(trace(events, **called_from((30, "train.py", 9)))).spans

    gaps = [spans.detail[at] for at in range(len(spans)) if spans.kind[at] == SpanKind.PYTHON_GAP]
    assert [spans.strings[at] for at in gaps] == ["train.py:9"]


def test_the_agent_is_not_what_takes_a_gap() -> None:
    """It stands around calls of the program: what called it did."""
    events = [
        op("aten::add", 0, 10),
        frame("train.py(7): train", 20, 400),
        frame("boot/tfprobe_agent/frameworks/torch/gradients.py(92): take_gradient", 30, 380),
        op("aten::mul", 500, 10),
    ]

    spans = kineto.read(trace(events)).spans

    gaps = [at for at in range(len(spans)) if spans.kind[at] == SpanKind.PYTHON_GAP]
    assert [spans.strings[spans.name[at]] for at in gaps] == ["train"]
