"""PyTorch in a trial: the seed of its generators, and the parameters that its optimizers update."""

import sys
import weakref

from tfprobe_agent.trial.fixes.calls import after_init

MODULES = ("torch",)
ORDERED = True

# Weak references to the optimizers of the job, in order of creation.
_OPTIMIZERS = []


def patch(name, module, seed):
    """Seed PyTorch, which has just been imported, and note its optimizers."""
    module.manual_seed(seed)
    after_init(module.optim.Optimizer, _note)


def _note(optimizer):
    _OPTIMIZERS.append(weakref.ref(optimizer))


def has_optimizer():
    """Return whether the job has an optimizer: it is about to train, whatever it does first."""
    return any([reference() is not None for reference in _OPTIMIZERS])


def arrays():
    """Return the parameters by optimizer, group and place in it; why there are none, if so."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    named, known = [], set()
    for number, optimizer in enumerate(reference() for reference in _OPTIMIZERS):
        groups = [] if optimizer is None else optimizer.param_groups
        for path, parameter in _parameters(groups):
            if id(parameter) not in known and parameter.is_floating_point():
                known.add(id(parameter))
                named.append(("%s %d %s" % (type(optimizer).__name__, number, path), _values(torch, parameter)))
    return named or "PyTorch has no optimizer with parameters"


def _parameters(groups):
    for group_number, group in enumerate(groups):
        for place, parameter in enumerate(group["params"]):
            yield "%d.%d" % (group_number, place), parameter


def _values(torch, parameter):
    """Return a parameter as an array of NumPy, which has no bfloat16; of one that is sharded, the shard."""
    tensor = parameter.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    tensor = tensor.cpu()
    if tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.to(torch.float32)
    return tensor.numpy()
