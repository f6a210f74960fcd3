"""Compile the modules that a training step calls, by torch.compile with the mode in `value`, from the third step on."""

from tfprobe_agent.trial.fixes.calls import without_errors

from .module_calls import watch_training

MODULES = ("torch",)
# Packages that raise where something cannot be compiled.
_COMPILERS = ("torch._dynamo", "torch._inductor")


def patch(name, module, value, note):
    """Note which modules the first step calls, and compile them after it: the hook would be compiled with them."""
    models = []
    options = {} if value is None else {"mode": value}

    def found(model):
        if type(model).__name__ == "OptimizedModule" or getattr(model, "_compiled_call_impl", None) is not None:
            note.skipped("is compiled already")
        elif not hasattr(model, "compile"):
            note.skipped("this PyTorch cannot compile a module in place")
        else:
            models.append(model)

    def stepped():
        inner = {id(part) for model in models for part in model.modules() if part is not model}
        for model in models:
            if id(model) not in inner:
                model.compile(**options)
                model._compiled_call_impl = _first_call(model, model._compiled_call_impl, note)
                note.applied()
        del models[:]

    watch_training(module, without_errors(note, found), without_errors(note, stepped))


def _first_call(model, compiled, note):
    """Return what says why a module cannot be compiled, and is gone once it can."""

    def call(*args, **kwargs):
        try:
            result = compiled(*args, **kwargs)
        except Exception as error:
            if any([cls.__module__.startswith(_COMPILERS) for cls in type(error).__mro__]):
                note.failed("%s: %s" % (type(error).__name__, error))
            raise
        model._compiled_call_impl = compiled
        return result

    return call
