"""Run the job's function of `map` and `interleave` for several elements at a time; the value is how many, or None.

The order of the elements stays. Functions that draw random numbers are left alone: another call would get them.
"""

from tfprobe_agent.trial.fixes import calls

from .prefetch import AUTOTUNE
from .stages import draws_random_numbers

MODULES = ("tensorflow.python.data.ops.dataset_ops",)


def patch(name, module, value, note):
    """Give the argument where the job gives none."""
    for cls in (module.DatasetV1, module.DatasetV2):
        for method in ("map", "interleave"):
            calls.replace(cls, method, lambda original: _parallel(original, value or AUTOTUNE, note))


def _parallel(original, value, note):
    arguments = calls.Arguments(original)

    def transform(self, *args, **kwargs):
        everything = (self,) + args
        if not calls.is_called_by_job():
            return original(*everything, **kwargs)
        if arguments.get("num_parallel_calls", everything, kwargs) is not None:
            note.skipped("the program has set num_parallel_calls")
            return original(*everything, **kwargs)
        serial = original(*everything, **kwargs)
        if draws_random_numbers(serial):
            note.skipped("the function draws random numbers")
            return serial
        note.applied()
        everything, kwargs = arguments.put("num_parallel_calls", value, everything, kwargs)
        return original(*everything, **kwargs)

    return transform
