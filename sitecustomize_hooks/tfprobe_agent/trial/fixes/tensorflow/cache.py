"""Keep the elements that a `map` of the job makes in memory, for the next epochs: `cache()` behind it.

Only where each epoch has the same elements in the same order. A trial must cross an epoch to show what it gains.
"""

from tfprobe_agent.trial.fixes import calls

from .stages import kinds_before, runs_stateful_ops

MODULES = ("tensorflow.python.data.ops.dataset_ops",)
# Parts of names of stages after which the next epoch may differ, or which never end.
_UNLIKE = ("shuffle", "repeat", "generator", "random", "sample")


def patch(name, module, value, note):
    """Replace `map`."""
    for cls in (module.DatasetV1, module.DatasetV2):
        calls.replace(cls, "map", lambda original: _map(original, note))


def _map(original, note):
    def map_(self, *args, **kwargs):
        mapped = original(self, *args, **kwargs)
        if not calls.is_called_by_job():
            return mapped
        kinds = kinds_before(mapped)
        unlike = [kind for kind in kinds if any([part in kind.lower() for part in _UNLIKE])]
        if unlike:
            note.skipped("behind a %s" % unlike[0].strip("_"))
        elif any(["cache" in kind.lower() for kind in kinds]):
            note.skipped("behind a cache")
        elif runs_stateful_ops(mapped):
            note.skipped("the function has state or runs Python")
        else:
            note.applied()
            return mapped.cache()
        return mapped

    return map_
