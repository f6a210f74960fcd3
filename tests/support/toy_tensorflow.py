"""A package named tensorflow with the modules and classes that the agent patches, and little else.

For tests of the agent that must not depend on a TensorFlow or wait for its import.
"""

from __future__ import annotations

from pathlib import Path

MODULES = {
    "tensorflow.python.client.session": """
class config_pb2:
    class RunOptions:
        SOFTWARE_TRACE, FULL_TRACE = 1, 3
        trace_level = 0
        output_partition_graphs = False
        def CopyFrom(self, other):
            self.trace_level = other.trace_level
    class RunMetadata:
        class step_stats:
            dev_stats = ()
        function_graphs = ()
        def SerializeToString(self):
            # one op on the CPU: whoever samples a step of this toy finds something in it
            return bytes.fromhex(
                "0a5f0a5d0a2c2f6a6f623a6c6f63616c686f73742f7265706c6963613a302f7461736b3a302f6465766963653a435055"
                "3a30122d0a046c6f73731080e99ffeab979803200a32050a036370753a041a022200420d6c6f7373203d2053756d287829"
            )
        def CopyFrom(self, other):
            pass
        def ClearField(self, name):
            pass

class _GraphDef:
    def SerializeToString(self):
        return b""

class _Graph:
    version = 1
    def as_graph_def(self, add_shapes=False):
        return _GraphDef()
    def get_operations(self):
        return []

class BaseSession:
    class _Callable:
        def __call__(self, *args, **kwargs):
            return "called"

    def __init__(self):
        self.graph = _Graph()

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        # a fetch is a name, several names, or a function to be called inside the step
        if isinstance(fetches, (list, tuple)):
            fetches = " ".join(fetches)
        return fetches() if callable(fetches) else "ran " + fetches

    def make_callable(self, fetches, feed_list=None, accept_options=False):
        return lambda: self.run(fetches)

    def _make_callable_from_options(self, callable_options):
        return self._Callable()
""",
    "tensorflow.python.eager.context": """
class _Context:
    class _thread_local_data:
        is_eager = True
    _initialized = False
    _context_handle = None
_context = _Context()
def executing_eagerly():
    return True
""",
    "tensorflow.python.eager.def_function": """
import tensorflow.python.eager.context
class Function:
    def __init__(self, body=lambda value: value + 1, name="step"):
        self._body = body
        self._name = name
    def get_concrete_function(self):
        return None
    def __call__(self, value):
        return self._body(value)
""",
    "tensorflow.python.ops.script_ops": """
# as an installed package has it: its frames are none of the job's
class FuncRegistry:
    source = "def __call__(self, token, device, args): return token(*args)"
    exec(compile(source, "/site-packages/script_ops.py", "exec"))
""",
    "tensorflow.python.profiler.profiler_v2": """
import os
import threading
_profiler = None
_profiler_lock = threading.Lock()

class _pywrap_profiler:
    class ProfilerSession:
        def start(self, logdir, options):
            self.logdir = logdir
        def export_to_tb(self):
            folder = os.path.join(self.logdir, "plugins", "profile", "now")
            os.makedirs(folder)
            with open(os.path.join(folder, "host.xplane.pb"), "wb") as file:
                file.write(b"\\x0a\\x00")

def start(logdir, options=None):
    global _profiler
    with _profiler_lock:
        _profiler = logdir
    return "started"

def stop():
    global _profiler
    _profiler = None

def start_server(port):
    return "serving"
""",
    "tensorflow.python.keras.engine.training": """
import tensorflow.python.eager.context
class Model:
    name = "model"
    train_function = None
    def compile(self, optimizer="sgd"):
        "Say what to train with."
        return optimizer
    def save(self, path):
        self.save_weights(path)
        return path
    def save_weights(self, path):
        return path
    def evaluate(self):
        return 0.5
    def make_train_function(self):
        self.train_function = lambda iterator: "stepped"
        return self.train_function
    def fit(self):
        self.train_function = self.make_train_function()
        return [self.train_function(None) for _ in range(3)]
    def train_on_batch(self, x):
        return x
""",
    "tensorflow.python.framework.func_graph": """
def func_graph_from_py_func(name, python_func, *args):
    "Trace a function."
    return python_func(*args)
""",
    "tensorflow.python.training.saver": """
class Saver:
    def save(self, session, path):
        if not path:
            raise ValueError("no path")
        return path
""",
    "tensorflow.python.data.ops.dataset_ops": """
class DatasetV2:
    @staticmethod
    def from_generator(generator, output_types=None):
        "Make a data set."
        return DatasetV2().map(generator)
    def map(self, map_func):
        return self
""",
    "tensorflow.python.training.server_lib": """
class Message:
    def __init__(self, **fields):
        self.__dict__.update(fields)
class Server:
    def __init__(self, cluster, job_name, task_index=0):
        "Start a server."
        jobs = [
            Message(name=name, tasks=dict(enumerate(addresses)))
            for name, addresses in cluster.items()
        ]
        self.server_def = Message(
            job_name=job_name, task_index=task_index, cluster=Message(job=jobs)
        )
        if task_index >= len(cluster[job_name]):
            raise ValueError("no such task")
""",
    "tensorflow.python.keras.backend": """
class GraphExecutionFunction:
    def __call__(self, inputs):
        return inputs
""",
    "tensorflow.python.eager.record": """
TAPES = []
def could_possibly_record():
    return bool(TAPES)
""",
    "tensorflow.python.eager.backprop": """
from tensorflow.python.eager.record import TAPES
class GradientTape:
    def __enter__(self):
        TAPES.append(self)
        return self
    def __exit__(self, *error):
        TAPES.remove(self)
    def gradient(self, target, sources):
        return sources
""",
    "tensorflow.python.training.optimizer": """
class Optimizer:
    def apply_gradients(self, grads_and_vars):
        return grads_and_vars
""",
}


def write(folder: Path) -> Path:
    """Write the package below `folder` and return it."""
    for name, source in MODULES.items():
        path = folder.joinpath(*name.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in path.relative_to(folder).parents:
            if parent.parts:
                (folder / parent / "__init__.py").touch()
        path.with_suffix(".py").write_text(source)
    return folder
