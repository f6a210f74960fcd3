"""Call the batch methods of the job's own callbacks at each Nth batch only; the value is N.

Callbacks that steer the training are left alone: others only look at it.
"""

from tfprobe_agent.trial.fixes import calls

MODULES = (
    "tensorflow.python.keras.callbacks",
    "keras.callbacks",
    "keras.src.callbacks",
    "keras.src.callbacks.callback_list",
    "tf_keras.callbacks",
    "tf_keras.src.callbacks",
)
_METHODS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
# Names in the code of a callback that steers the training.
_STEERS = frozenset(
    (
        "assign", "assign_add", "assign_sub", "learning_rate", "lr", "set_value", "set_weights", "stop_training",
        "trainable",
    )
)  # fmt: skip


def patch(name, module, value, note):
    """Look at the callbacks of each list of callbacks that Keras makes."""
    cls = vars(module).get("CallbackList")
    if isinstance(cls, type) and cls.__module__ == name:
        seen = []  # kept, so that no id is met again
        calls.replace(cls, "__init__", lambda original: _initialize(original, seen, value, note))


def _initialize(original, seen, every, note):
    def initialize(self, *args, **kwargs):
        original(self, *args, **kwargs)
        for callback in list(self.callbacks):
            if not any([callback is other for other in seen]):
                seen.append(callback)
                _thin_out(callback, every, note)

    return initialize


def _thin_out(callback, every, note):
    """Shadow the batch methods that the program wrote, by what calls them now and then."""
    methods = {name: getattr(callback, name, None) for name in _METHODS}
    own = {name: method for name, method in methods.items() if calls.is_of_job(method)}
    if not own:
        return
    if not _STEERS.isdisjoint(_names(callback)):
        note.skipped("%s steers the training" % type(callback).__name__)
        return
    for name, method in own.items():
        setattr(callback, name, _every(method, every, note))


def _names(callback):
    """Return the names in the code that runs at batches."""
    functions = [vars(callback).get(name) for name in _METHODS]
    for cls in type(callback).__mro__:
        functions += [
            function for name, function in vars(cls).items() if name in _METHODS or not name.startswith("on_")
        ]
    return {name for function in functions if calls.is_of_job(function) for name in _code_names(function)}


def _code_names(function):
    return getattr(getattr(function, "__code__", None), "co_names", ())


def _every(method, every, note):
    count = [0]

    def on_batch(*args, **kwargs):
        count[0] += 1
        if count[0] % every == 0:
            return method(*args, **kwargs)
        note.applied()
        return None

    return on_batch
