"""Compute each Nth of the summaries that the job asks for; the value is N.

In a Session their fetches are left out of the other runs, which return the values of the last one that had them.
"""

import sys

from tfprobe_agent.frameworks.tensorflow import functions
from tfprobe_agent.trial.fixes import calls

_SESSION = "tensorflow.python.client.session"
_WRITER = "tensorflow.python.summary.writer.writer"
_SUMMARY = "tensorflow.python.ops.summary_ops_v2"
_CONSTANT = "tensorflow.python.framework.constant_op"
MODULES = (_SESSION, _WRITER, _SUMMARY)
# In place of a fetch that is left out.
_LEFT_OUT = object()


def patch(name, module, value, note):
    """Replace what computes or writes summaries."""
    if name == _SESSION:
        calls.replace(module.BaseSession, "run", lambda original: _run(original, value, note))
    elif name == _WRITER:
        calls.replace(module.SummaryToEventTransformer, "add_summary", _add_summary)
    elif name == _SUMMARY:
        calls.replace(module, "write", lambda original: _write(original, value, note))


# The values of summaries that were returned again instead of computed anew, by name.
_REPEATED = {}


def _run(original, every, note):
    counts, values = {}, {}  # by the name of a summary

    def run(self, fetches, *args, **kwargs):
        names = sorted(_summaries(fetches))
        if not names:
            return original(self, fetches, *args, **kwargs)
        key = tuple(names)
        counts[key] = counts.get(key, 0) + 1
        if (counts[key] - 1) % every == 0 or any([name not in values for name in names]):
            result = original(self, fetches, *args, **kwargs)
            _keep(fetches, result, values)
            return result
        note.applied()
        for name in names:
            _REPEATED[name] = values[name]
        rest = _without(fetches)
        if rest is _LEFT_OUT:
            return _filled(fetches, None, values)
        return _filled(fetches, original(self, rest, *args, **kwargs), values)

    return run


def _is_summary(fetch):
    operation = getattr(fetch, "op", fetch)
    kind = getattr(operation, "type", None)
    return isinstance(kind, str) and "Summary" in kind and not kind.startswith("Write")


def _items(fetches):
    """Return pairs of a key and a fetch of a container, None of anything else."""
    if type(fetches) is dict:
        return list(fetches.items())
    return list(enumerate(fetches)) if type(fetches) in (list, tuple) else None


def _summaries(fetches):
    """Return the names of the summaries in fetches."""
    items = _items(fetches)
    if items is None:
        return {fetches.name} if _is_summary(fetches) else set()
    return set().union(*[_summaries(fetch) for _, fetch in items])


def _without(fetches):
    """Return the fetches without summaries; containers keep their type."""
    items = _items(fetches)
    if items is None:
        return _LEFT_OUT if _is_summary(fetches) else fetches
    rest = [(key, _without(fetch)) for key, fetch in items]
    rest = [(key, fetch) for key, fetch in rest if fetch is not _LEFT_OUT]
    if not rest and items:
        return _LEFT_OUT
    return dict(rest) if type(fetches) is dict else type(fetches)([fetch for _, fetch in rest])


def _keep(fetches, result, values):
    """Keep the values of the summaries in a result."""
    items = _items(fetches)
    if items is None:
        if _is_summary(fetches):
            values[fetches.name] = result
        return
    for key, fetch in items:
        _keep(fetch, result[key], values)


def _filled(fetches, result, values):
    """Return the result of a run without summaries, with the last values of the summaries in their places."""
    items = _items(fetches)
    if items is None:
        return values[fetches.name] if _is_summary(fetches) else result
    filled, taken = [], 0
    for key, fetch in items:
        is_left_out = _without(fetch) is _LEFT_OUT
        part = None if is_left_out else result[key if type(fetches) is dict else taken]
        taken += not is_left_out
        filled.append((key, _filled(fetch, part, values)))
    return dict(filled) if type(fetches) is dict else type(fetches)([value for _, value in filled])


def _add_summary(original):
    def add_summary(self, summary, *args, **kwargs):
        if any([summary is value for value in _REPEATED.values()]):
            return None
        return original(self, summary, *args, **kwargs)

    return add_summary


def _write(original, every, note):
    counts = {}  # by tag

    def write(tag, *args, **kwargs):
        if not functions.executing_eagerly():
            note.skipped("summaries in a tf.function")
            return original(tag, *args, **kwargs)
        counts[tag] = counts.get(tag, 0) + 1
        if (counts[tag] - 1) % every == 0:
            return original(tag, *args, **kwargs)
        note.applied()
        return sys.modules[_CONSTANT].constant(False)

    return write
