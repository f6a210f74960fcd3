"""Write each Nth of the checkpoints that the job writes; the value is N. The others return what the last one did."""

from tfprobe_agent.trial.fixes import calls

_CALLBACKS = (
    "tensorflow.python.keras.callbacks",
    "keras.callbacks",
    "keras.src.callbacks",
    "keras.src.callbacks.model_checkpoint",
    "tf_keras.callbacks",
    "tf_keras.src.callbacks",
)
MODULES = _CALLBACKS + (
    "tensorflow.python.training.saver",
    "tensorflow.python.training.checkpoint_management",
    "tensorflow.python.training.tracking.util",
    "tensorflow.python.checkpoint.checkpoint",
    "tensorflow.python.checkpoint.checkpoint_management",
)
_METHODS = (
    ("Saver", "save"),
    ("CheckpointManager", "save"),
    ("Checkpoint", "save"),
    ("Checkpoint", "write"),
    ("CheckpointV1", "save"),
    ("CheckpointV1", "write"),
)


def patch(name, module, value, note):
    """Replace what writes checkpoints."""
    for class_name, method in _METHODS if name not in _CALLBACKS else (("ModelCheckpoint", "__init__"),):
        cls = vars(module).get(class_name)
        if isinstance(cls, type) and cls.__module__ == name:
            around = _initialize if method == "__init__" else _save
            calls.replace(cls, method, lambda original, around=around: around(original, value, note))


def _save(original, every, note):
    saved = {}  # of each instance, which is kept: its number of calls, and what the last one that wrote returned

    def save(self, *args, **kwargs):
        if not calls.is_called_by_job():
            return original(self, *args, **kwargs)
        _, count, last = saved.get(id(self), (self, 0, None))
        if count % every == 0:
            last = original(self, *args, **kwargs)
        else:
            note.applied()
        saved[id(self)] = self, count + 1, last
        return last

    return save


def _initialize(original, every, note):
    arguments = calls.Arguments(original)

    def initialize(self, *args, **kwargs):
        everything = (self,) + args
        batches = arguments.get("save_freq", everything, kwargs)
        if isinstance(batches, int) and not isinstance(batches, bool):
            everything, kwargs = arguments.put("save_freq", batches * every, everything, kwargs)
            note.applied()
        else:
            note.skipped("ModelCheckpoint saves at the ends of epochs")
        original(*everything, **kwargs)

    return initialize
