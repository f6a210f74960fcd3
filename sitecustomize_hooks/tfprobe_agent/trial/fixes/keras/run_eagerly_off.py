"""Train with the compiled step although the job asks for eager execution: `run_eagerly`, `run_functions_eagerly`."""

from tfprobe_agent.trial.fixes import calls

from . import COMPILING, replace_methods

_SWITCHES = (
    "tensorflow.python.eager.def_function",
    "tensorflow.python.eager.polymorphic_function.eager_function_run",
)
MODULES = COMPILING + _SWITCHES


def patch(name, module, value, note):
    """Leave the arguments out that switch it on."""
    if name not in _SWITCHES:
        replace_methods(module, ("compile",), lambda original: _compile(original, note))
        return
    for function in ("run_functions_eagerly", "experimental_run_functions_eagerly"):
        if getattr(vars(module).get(function), "__module__", None) == name:
            calls.replace(module, function, lambda original: _switch(original, note))


def _compile(original, note):
    arguments = calls.Arguments(original)

    def compile_(self, *args, **kwargs):
        everything = (self,) + args
        if not arguments.get("run_eagerly", everything, kwargs):
            note.skipped("compiled without run_eagerly")
        elif getattr(self, "dynamic", False):
            note.skipped("a dynamic model runs eagerly only")
        else:
            everything, kwargs = arguments.put("run_eagerly", False, everything, kwargs)
            note.applied()
        return original(*everything, **kwargs)

    return compile_


def _switch(original, note):
    arguments = calls.Arguments(original)

    def run_functions_eagerly(*args, **kwargs):
        if arguments.get("run_eagerly", args, kwargs) and calls.is_called_by_job():
            args, kwargs = arguments.put("run_eagerly", False, args, kwargs)
            note.applied()
        return original(*args, **kwargs)

    return run_functions_eagerly
