"""A PyTorch of the few functions that fixes replace, whose objects say how they were called."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class Parameter:
    """A tensor of a model."""

    dtype = "float32"
    requires_grad = True

    def __init__(self, dims: int = 2, *, is_cuda: bool = False) -> None:
        self.dims, self.is_cuda, self.is_last = dims, is_cuda, False
        self.device = SimpleNamespace(type="cuda" if is_cuda else "cpu")

    def dim(self) -> int:
        return self.dims

    def is_floating_point(self) -> bool:
        return True

    def is_contiguous(self, *, memory_format: str) -> bool:
        return self.is_last


class Module:
    """A model that calls its inner models."""

    training = True

    def __init__(self, *inner: Module, parameters: tuple[Parameter, ...] = ()) -> None:
        self.inner, self.own = inner, parameters
        self._compiled_call_impl: Any = None
        self.calls: list[str] = []

    def __call__(self, value: int) -> int:
        called = self._compiled_call_impl or self.forward  # before the hooks, as PyTorch does
        for hook in list(HOOKS["modules"]):
            hook(self, (value,))
        result: int = called(value)
        return result

    def forward(self, value: int) -> int:
        self.calls.append("forward")
        for model in self.inner:
            model(value)
        return value

    def modules(self) -> list[Module]:
        return [self, *(part for model in self.inner for part in model.modules())]

    def parameters(self) -> Any:
        return iter([*self.own, *(each for model in self.inner for each in model.parameters())])

    def compile(self, **options: Any) -> None:
        self.calls.append(f"compile {options}")
        self._compiled_call_impl = self.forward

    def to(self, *, memory_format: str) -> None:
        for parameter in self.parameters():
            parameter.is_last = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.calls.append(f"zero_grad {set_to_none}")


class Optimizer:
    """An optimizer with one group of parameters."""

    def __init__(self, params: list[Parameter], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups = [{"params": params, **defaults}]
        self.calls: list[str] = []

    def step(self) -> None:
        for hook in list(HOOKS["optimizers"]):
            hook(self, (), {})

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.calls.append(f"zero_grad {set_to_none}")


class IterableDataset:
    """Data without a length."""


class Sampler:
    """A sampler of PyTorch's own."""


Sampler.__module__ = "torch.utils.data.sampler"


class DataLoader:
    """What it was made with."""

    def __init__(self, dataset: Any, sampler: Any = None, **options: Any) -> None:
        self.dataset, self.sampler, self.batch_sampler = dataset, sampler or Sampler(), None
        self.num_workers = options.get("num_workers", 0)
        self.prefetch_factor = options.get("prefetch_factor")
        self.pin_memory = options.get("pin_memory", False)
        self.persistent_workers = options.get("persistent_workers", False)
        self.generator = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "persistent_workers" and hasattr(self, "generator"):
            raise ValueError("a DataLoader refuses to be changed")
        object.__setattr__(self, name, value)

    def __iter__(self) -> Any:
        return iter(())


class LoaderIterator:
    """What hands out the batches of workers."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def _reset(self, loader: DataLoader, first_iter: bool = False) -> None:
        self.log.append("reset")


class Hook:
    """What removes a hook."""

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self.hooks, self.hook = hooks, hook
        hooks.append(hook)

    def remove(self) -> None:
        if self.hook in self.hooks:
            self.hooks.remove(self.hook)


HOOKS: dict[str, list[Any]] = {"modules": [], "optimizers": []}


class Drawn:
    """A tensor that is filled with random numbers."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def random_(self, *, generator: Any) -> None:
        self.log.append("drawn")


def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the package as the job seems to have imported it. Its `log` says what was done."""
    for hooks in HOOKS.values():
        hooks.clear()
    torch: Any = ModuleType("torch")
    torch.log = log = []
    torch.initialized, torch.threads, torch.precision = False, 8, "highest"
    torch.float32, torch.bfloat16, torch.channels_last, torch.int64 = (
        "float32",
        "bf16",
        "last",
        "i8",
    )
    torch.compiler = SimpleNamespace(is_compiling=lambda: False)
    torch.cuda = SimpleNamespace(is_initialized=lambda: torch.initialized)
    torch.backends = SimpleNamespace(cudnn=SimpleNamespace(benchmark=False, deterministic=False))
    torch.nn = SimpleNamespace(Module=_copy(Module))
    torch.optim = SimpleNamespace(Optimizer=_copy(Optimizer))
    loader, iterator = _copy(DataLoader), _copy(LoaderIterator)
    torch.utils = SimpleNamespace(
        data=SimpleNamespace(DataLoader=loader, IterableDataset=IterableDataset)
    )
    torch.is_grad_enabled = lambda: True
    torch.is_autocast_enabled = lambda _device: False
    torch.are_deterministic_algorithms_enabled = lambda: False
    torch.get_num_threads = lambda: torch.threads
    torch.set_num_threads = lambda wanted: setattr(torch, "threads", wanted)
    torch.get_float32_matmul_precision = lambda: torch.precision
    torch.set_float32_matmul_precision = lambda wanted: setattr(torch, "precision", wanted)
    torch.set_anomaly_enabled = lambda mode, *_: log.append(f"anomaly {mode}")
    torch.save = lambda obj, _: log.append(f"save {obj}")
    torch.empty = lambda *_, **__: Drawn(log)
    torch.manual_seed = lambda seed: log.append(f"seed {seed}")
    modules = {
        "torch": torch,
        "torch.nn.modules.module": SimpleNamespace(
            register_module_forward_pre_hook=lambda hook: Hook(HOOKS["modules"], hook)
        ),
        "torch.optim.optimizer": SimpleNamespace(
            register_optimizer_step_post_hook=lambda hook: Hook(HOOKS["optimizers"], hook)
        ),
        "torch.utils.data.dataloader": SimpleNamespace(_MultiProcessingDataLoaderIter=iterator),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return torch


def _copy(cls: type) -> type:
    """Return the class for one test, which replaces its methods."""
    return type(cls.__name__, (cls,), dict(vars(cls)))
