"""Let TensorFlow compute with `value` threads, whatever the program asks for; else as many as there are usable CPUs.

Where the program asks for nothing, variables of the arm say the same.
"""

from tfprobe_agent.trial.fixes import calls
from tfprobe_agent.unpatched import UNPATCHED

from .session_options import copy_of, replace_options

_SESSION = "tensorflow.python.client.session"
_CONFIG = "tensorflow.python.framework.config"
MODULES = (_SESSION, _CONFIG)
_FIELDS = ("intra_op_parallelism_threads", "inter_op_parallelism_threads")


def patch(name, module, value, note):
    """Replace what a program sets the numbers with: options of a Session, or functions of `tf.config.threading`."""
    cpus = len(UNPATCHED.sched_getaffinity(0))
    threads = value if value is not None else cpus
    if name == _SESSION:
        replace_options(module, note, lambda config: _config(config, threads, note))
        return
    for field in _FIELDS:
        calls.replace(module, "set_%s" % field, lambda original: _setting(original, threads, note))
    if threads == cpus:
        note.skipped("has %d already" % threads)
    else:
        note.applied()


def _config(config, threads, note):
    """Return a copy of a ConfigProto with these numbers; None if it asks for no others."""
    numbers = [getattr(config, field) for field in _FIELDS]
    if all([number in (0, threads) for number in numbers]):
        note.skipped("asks for no other number")
        return None
    changed = copy_of(config)
    for field, number in zip(_FIELDS, numbers):
        if number:
            setattr(changed, field, threads)
    note.applied()
    return changed


def _setting(original, threads, note):
    def set_threads(num_threads):
        if num_threads == threads:
            note.skipped("has %d already" % threads)
        else:
            note.applied()
        original(threads)

    return set_threads
