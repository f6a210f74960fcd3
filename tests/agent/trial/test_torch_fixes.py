"""Fixes of PyTorch programs, on modules and optimizers that only say how they were called."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.agent.trial import toy_torch
from tests.support.agent import load


@pytest.fixture
def torch(monkeypatch):
    """The package that the job has imported."""
    return toy_torch.make(monkeypatch)


def _model(torch, **options):
    return torch.nn.Module(parameters=(toy_torch.Parameter(**options),))


def _train(torch, *models, steps=3):
    """Run training steps that call these models; give the optimizer."""
    optimizer = torch.optim.Optimizer([], {})
    for _ in range(steps):
        for model in models:
            model(1)
        optimizer.step()
    return optimizer


def test_the_models_that_a_step_calls_are_compiled_once(torch, fix):
    """Not those inside of them, not a loss without parameters, and not while the hook is there."""
    note = fix("compile_model", torch, "max-autotune")
    inner = _model(torch)
    outer, second, loss = torch.nn.Module(inner), _model(torch), torch.nn.Module()

    _train(torch, outer, second, loss, steps=4)

    compiled = "compile {'mode': 'max-autotune'}"
    assert [model.calls.count(compiled) for model in (outer, second, inner, loss)] == [1, 1, 0, 0]
    assert toy_torch.HOOKS["modules"] == []
    assert (note.times, note.reasons, note.error) == (2, {}, None)


def test_nothing_is_compiled_in_the_first_step(torch, fix):
    """What the optimizer's step belongs to is known only afterwards."""
    note = fix("compile_model", torch)
    model = _model(torch)

    _train(torch, model, steps=1)

    assert model.calls == ["forward"]
    assert note.times == 0


def test_a_model_that_is_part_of_another_one_is_not_compiled_beside_it(torch, fix):
    """It is called on its own first."""
    fix("compile_model", torch)
    inner = _model(torch)
    outer = torch.nn.Module(inner)

    _train(torch, inner, outer)

    assert "compile {}" in outer.calls
    assert "compile {}" not in inner.calls


def test_a_compiled_model_is_left_alone(torch, fix):
    """It is skipped with a reason."""
    note = fix("compile_model", torch)
    model = _model(torch)
    model.compile()

    _train(torch, model)

    assert (note.times, note.reasons) == (0, {"is compiled already": 1})


def test_models_in_evaluation_do_not_train(torch, fix):
    """A teacher's calls are no part of what is compiled."""
    note = fix("compile_model", torch)
    teacher = _model(torch)
    teacher.training = False

    _train(torch, teacher)

    assert (note.times, note.reasons) == (0, {})


def test_the_note_says_why_a_model_cannot_be_compiled(torch, fix):
    """The job meets the error, as it would with the change made by hand."""
    note = fix("compile_model", torch)
    model = _model(torch)
    error = type("BackendCompilerFailed", (RuntimeError,), {"__module__": "torch._dynamo.exc"})

    def compile():
        def fail(value):
            raise error("no compiler")

        model._compiled_call_impl = fail

    model.compile = compile

    with pytest.raises(error, match="no compiler"):
        _train(torch, model)
    assert note.error == "BackendCompilerFailed: no compiler"


def test_an_error_of_the_job_in_a_compiled_model_is_the_jobs(torch, fix):
    """It goes on unchanged, and the note says nothing of it."""
    note = fix("compile_model", torch)
    model = _model(torch)

    def forward(value):
        if value == 2:
            raise ValueError("the job's")
        return value

    model.forward = forward
    _train(torch, model, steps=2)

    with pytest.raises(ValueError, match="the job's"):
        model(2)
    assert note.error is None


def test_a_job_of_inference_is_rid_of_the_hook(torch, fix, monkeypatch):
    """It would be called for each module for ever."""
    monkeypatch.setattr(load("trial.fixes.torch.module_calls"), "MOST_CALLS", 3)
    fix("compile_model", torch)
    model = _model(torch)

    for _ in range(3):
        model(1)

    assert toy_torch.HOOKS["modules"] == []


def test_an_error_of_a_fix_never_reaches_the_job(torch, fix):
    """The note says what went wrong."""
    note = fix("compile_model", torch)
    model = _model(torch)
    model.modules = lambda: iter([model])
    model.compile = None

    _train(torch, model)

    assert note.error == "TypeError: 'NoneType' object is not callable"


def test_forward_runs_in_bfloat16_and_returns_float32(torch, fix, monkeypatch):
    """From the third step on."""
    regions = []
    tensor = SimpleNamespace(dtype="bf16", float=lambda: "widened")

    class Region:
        def __init__(self, device, dtype):
            regions.append((device, dtype))

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

    torch.autocast, torch.Tensor = Region, SimpleNamespace
    monkeypatch.setitem(
        toy_torch.sys.modules,
        "torch.utils._pytree",
        SimpleNamespace(tree_map=lambda function, value: function(value)),
    )
    note = fix("autocast_bf16", torch)
    model = _model(torch)
    model.forward = lambda _value: tensor

    _train(torch, model, steps=3)

    assert regions == [("cpu", "bf16")]
    assert model.forward(1) == "widened"
    assert (note.times, note.error) == (1, None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"is_autocast_enabled": lambda _device: True}, "autocast is on already"),
        (
            {"is_autocast_enabled": lambda: False, "is_autocast_cpu_enabled": lambda: True},
            "autocast is on already",
        ),
        ({"float32": "another"}, "has no parameters in float32"),
    ],
)
def test_what_is_not_in_float32_is_left_alone(torch, fix, change, why):
    """It has been chosen by the program."""
    vars(torch).update(change)
    note = fix("autocast_bf16", torch)

    _train(torch, _model(torch))

    assert (note.times, note.reasons) == (0, {why: 1})


def test_convolutions_on_an_accelerator_get_channels_last(torch, fix):
    """Before they are called for the first time."""
    note = fix("channels_last", torch)
    model = _model(torch, dims=4, is_cuda=True)

    _train(torch, model, steps=1)

    assert model.own[0].is_last
    assert note.times == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"dims": 4}, "runs on a CPU"),
        ({"dims": 2, "is_cuda": True}, "has no convolution in two dimensions"),
    ],
)
def test_other_models_keep_their_layout(torch, fix, options, why):
    """The reason is said."""
    note = fix("channels_last", torch)
    model = _model(torch, **options)

    _train(torch, model)

    assert not model.own[0].is_last
    assert (note.times, note.reasons) == (0, {why: 1})


def test_settings_of_accelerators_are_made_before_the_first_call(torch, fix):
    """By then the job has chosen its devices."""
    precision, benchmark = fix("matmul_precision", torch), fix("cudnn_benchmark", torch)
    torch.initialized = True

    _model(torch)(1)

    assert torch.precision == "high"
    assert torch.backends.cudnn.benchmark is True
    assert (precision.times, benchmark.times) == (1, 1)
    assert toy_torch.HOOKS["modules"] == []


@pytest.mark.parametrize("name", ["matmul_precision", "cudnn_benchmark"])
def test_settings_of_accelerators_are_left_where_none_is_used(torch, fix, name):
    """The reason is said."""
    note = fix(name, torch)

    _model(torch)(1)

    assert (torch.precision, torch.backends.cudnn.benchmark) == ("highest", False)
    assert (note.times, note.reasons) == (0, {"no accelerator is used": 1})


def test_deterministic_kernels_stay_deterministic(torch, fix):
    """The program has asked for them."""
    note = fix("cudnn_benchmark", torch)
    torch.initialized = torch.backends.cudnn.deterministic = True

    _model(torch)(1)

    assert torch.backends.cudnn.benchmark is False
    assert list(note.reasons) == ["the program asks for deterministic kernels"]


def test_loaders_without_workers_get_some(torch, fix):
    """As many as the fix says, with PyTorch's usual prefetching."""
    note = fix("dataloader_workers", torch, 3)

    loader = torch.utils.data.DataLoader([1, 2])

    assert (loader.num_workers, loader.prefetch_factor) == (3, 2)
    assert (note.times, note.error) == (1, None)


class _OwnSampler:
    """A sampler of the program."""


@pytest.mark.parametrize(
    ("dataset", "options", "why"),
    [
        ([], {"num_workers": 1}, "has workers already"),
        (
            toy_torch.IterableDataset(),
            {},
            "each worker would give all data of an iterable dataset",
        ),
        (
            [],
            {"sampler": _OwnSampler()},
            "its sampler is the program's own, which would run ahead of the training",
        ),
        (
            SimpleNamespace(tensors=[SimpleNamespace(is_cuda=True)]),
            {},
            "its data is on the accelerator",
        ),
    ],
)
def test_other_loaders_keep_their_workers(torch, fix, dataset, options, why):
    """The reason is said."""
    note = fix("dataloader_workers", torch, 3)

    loader = torch.utils.data.DataLoader(dataset, **options)

    assert loader.num_workers == options.get("num_workers", 0)
    assert (note.times, note.reasons) == (0, {why: 1})


def test_workers_are_given_only_where_processes_are_forked(torch, fix, monkeypatch):
    """Others import the program anew, which must be written for it."""
    fixing = load("trial.fixes.torch.dataloader_workers")
    monkeypatch.setattr(
        fixing,
        "multiprocessing",
        SimpleNamespace(get_start_method=lambda **_: "forkserver"),
    )
    note = fix("dataloader_workers", torch)

    assert torch.utils.data.DataLoader([]).num_workers == 0
    assert list(note.reasons) == [
        "processes are started by forkserver here, for which the program must be written"
    ]


def test_workers_that_a_fix_gives_are_kept(torch, fix):
    """Starting them anew in each epoch would cost what they gain."""
    workers, kept = fix("dataloader_workers", torch), fix("persistent_workers", torch)

    loader = torch.utils.data.DataLoader([])

    assert loader.persistent_workers is True
    assert (workers.times, workers.error) == (1, None)
    assert (kept.times, kept.reasons) == (0, {"keeps its workers already": 1})


@pytest.mark.parametrize(
    ("name", "options"), [("persistent_workers", {"num_workers": 1}), ("dataloader_workers", {})]
)
def test_the_order_of_data_is_that_of_workers_that_start_anew(torch, fix, name, options):
    """New workers draw a seed in each epoch; what is drawn after it would be another number."""
    note = fix(name, torch)
    loader, other = torch.utils.data.DataLoader([], **options), toy_torch.DataLoader([])
    iterator = toy_torch.sys.modules["torch.utils.data.dataloader"]._MultiProcessingDataLoaderIter

    for each, is_first in ((loader, True), (loader, False), (other, False)):
        iterator(torch.log)._reset(each, is_first)

    assert torch.log == ["reset", "drawn", "reset", "reset"]
    assert (note.times, note.error) == (1, None)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "has no workers"),
        ({"num_workers": 1, "persistent_workers": True}, "keeps its workers already"),
    ],
)
def test_loaders_without_workers_keep_none(torch, fix, options, why):
    """The reason is said."""
    note = fix("persistent_workers", torch)

    torch.utils.data.DataLoader([], **options)

    assert (note.times, note.reasons) == (0, {why: 1})


def test_memory_is_pinned_where_an_accelerator_is_used(torch, fix):
    """It is known when the loader is iterated over."""
    note = fix("pin_memory", torch)
    loader, early = torch.utils.data.DataLoader([]), torch.utils.data.DataLoader([])

    iter(early)
    torch.initialized = True
    iter(loader)
    iter(loader)

    assert (early.pin_memory, loader.pin_memory) == (False, True)
    assert note.times == 1
    assert note.reasons == {"no accelerator is used": 1, "has pinned memory already": 1}


def test_gradients_are_let_go(torch, fix):
    """Those of optimizers and those of modules."""
    note = fix("zero_grad_to_none", torch)
    optimizer, model = torch.optim.Optimizer([], {}), torch.nn.Module()

    optimizer.zero_grad(set_to_none=False)
    optimizer.zero_grad()
    model.zero_grad(False)

    assert optimizer.calls == ["zero_grad True", "zero_grad True"]
    assert model.calls == ["zero_grad True"]
    assert (note.times, note.reasons) == (2, {"lets them go already": 1})


@pytest.mark.parametrize("before", [False, None])
def test_parameters_on_a_cpu_are_updated_together(torch, fix, before):
    """By default PyTorch does so on accelerators alone."""
    note = fix("foreach_optimizer", torch)

    optimizer = torch.optim.Optimizer([toy_torch.Parameter()], {"foreach": before})

    assert optimizer.param_groups[0]["foreach"] is True
    assert optimizer.defaults["foreach"] is True
    assert (note.times, note.error) == (1, None)


@pytest.mark.parametrize(
    ("defaults", "is_cuda", "why"),
    [
        ({}, False, "this optimizer cannot"),
        ({"foreach": None, "fused": True}, False, "is fused already"),
        ({"foreach": False, "differentiable": True}, False, "is differentiable"),
        ({"foreach": True}, False, "does so already"),
        ({"foreach": None}, True, "does so already"),
    ],
)
def test_other_optimizers_stay_as_they_are(torch, fix, defaults, is_cuda, why):
    """The reason is said."""
    note = fix("foreach_optimizer", torch)

    optimizer = torch.optim.Optimizer([toy_torch.Parameter(is_cuda=is_cuda)], dict(defaults))

    assert optimizer.defaults == defaults
    assert (note.times, note.reasons) == (0, {why: 1})


def test_parameters_are_updated_by_one_kernel(torch, fix):
    """Where this PyTorch has one for their device."""
    note = fix("fused_optimizer", torch)

    optimizer = torch.optim.Optimizer([toy_torch.Parameter(is_cuda=True)], {"fused": None})

    assert optimizer.param_groups[0]["fused"] is True
    assert optimizer.defaults["fused"] is True
    assert (note.times, note.error) == (1, None)


@pytest.mark.parametrize(
    ("defaults", "is_cuda", "why"),
    [
        ({}, True, "this optimizer cannot"),
        ({"fused": True}, True, "is fused already"),
        ({"fused": False, "differentiable": True}, True, "is differentiable"),
        ({"fused": None}, False, "this PyTorch cannot for these parameters"),
    ],
)
def test_other_optimizers_are_not_fused(torch, fix, defaults, is_cuda, why):
    """The reason is said."""
    note = fix("fused_optimizer", torch)

    optimizer = torch.optim.Optimizer([toy_torch.Parameter(is_cuda=is_cuda)], dict(defaults))

    assert optimizer.defaults == defaults
    assert (note.times, note.reasons) == (0, {why: 1})


def test_anomalies_are_not_looked_for(torch, fix):
    """Whatever the program asks; where it turns the detection off, nothing is applied."""
    note = fix("anomaly_off", torch)

    torch.set_anomaly_enabled(True)
    torch.set_anomaly_enabled(False, False)

    assert torch.log == ["anomaly False", "anomaly False"]
    assert note.times == 1


def test_the_program_gets_the_threads_of_the_fix(torch, fix):
    """From the start, and where it asks for others."""
    note = fix("threads", torch, 2)
    at_start = torch.threads

    torch.set_num_threads(32)
    torch.set_num_threads(2)

    assert (at_start, torch.threads) == (2, 2)
    assert (note.times, note.reasons) == (2, {"has 2 already": 1})


def test_pytorchs_own_workers_keep_their_one_thread(torch, fix):
    """They set it themselves."""
    fix("threads", torch, 4)
    worker = {"__name__": "torch.utils.data._utils.worker", "torch": torch}

    exec("torch.set_num_threads(1)", worker)

    assert torch.threads == 1


def test_each_nth_save_of_a_line_is_made(torch, fix):
    """The first one is: the program may look for its file. Lines are counted apart."""
    note = fix("save_every", torch, 3)

    for step in range(4):
        torch.save(f"model {step}", "model.pt")
        torch.save(f"optimizer {step}", "optimizer.pt")

    saved = ["save model 0", "save optimizer 0", "save model 3", "save optimizer 3"]
    assert torch.log == saved
    assert (note.times, note.error) == (4, None)


def test_what_is_saved_into_memory_is_saved(torch, fix):
    """The program reads it next."""
    note = fix("save_every", torch, 3)

    for _ in range(3):
        torch.save("model", object())

    assert torch.log == ["save model"] * 3
    assert note.reasons == {"saves to an object, not to a path": 3}


def test_parameters_of_optimizers_are_the_weights(torch, monkeypatch):
    """In order, each once, with the seed set first."""
    framework = load("trial.frameworks.torch")
    monkeypatch.setattr(framework, "_OPTIMIZERS", [])
    monkeypatch.setattr(framework, "_values", lambda _torch, parameter: parameter.dims)
    framework.patch("torch", torch, 7)
    shared, other = toy_torch.Parameter(2), toy_torch.Parameter(4)

    alive = [torch.optim.Optimizer([shared], {}), torch.optim.Optimizer([shared, other], {})]

    assert torch.log == ["seed 7"]
    assert framework.arrays() == [("Optimizer 0 0.0", 2), ("Optimizer 1 0.1", 4)]
    del alive
    assert framework.arrays() == "PyTorch has no optimizer with parameters"
