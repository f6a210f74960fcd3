"""The programs, where each runs, and which rules name its planted cause."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
MARK = "# planted"
_BLOCKS = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.With, ast.Try)
_SMALL_MODELS = ("small_executions", "epoch_ends")


@dataclass(frozen=True)
class Case:
    """One program in one cell of the matrix.

    `rules` are right as the first finding; some of them are not written yet. `twin_rules` are
    rightly told of the mended twin: what they advise does win time there. A cause that is no single
    line has no `line`. What mending wins is told by seconds a step, or by `wall` time.
    """

    program: str
    cell: str
    cause: str
    rules: tuple[str, ...]
    line: bool = True
    wall: bool = False
    twin_rules: tuple[str, ...] = ()

    @property
    def rightly_told(self) -> frozenset[str]:
        """The rules that are right of the mended twin.

        Steps of the small Keras models win by steps_per_execution (49 and 84 % where it was tried),
        and their many short epochs by a data set that repeats (250 ms an end to 2).
        """
        of_small = _SMALL_MODELS if self.program.startswith(("keras_", "grid_")) else ()
        return frozenset((*self.twin_rules, *of_small))

    @property
    def name(self) -> str:
        """The name that picks the case; the same program may run in several cells."""
        return f"{self.program}@{self.cell}"

    @property
    def path(self) -> Path:
        """The program's file."""
        return PROGRAMS / f"{self.program}.py"


@dataclass(frozen=True)
class Place:
    """Where a program has its planted cause: the statement whose head, or line, is marked."""

    file: str
    first: int
    last: int

    def holds(self, source: str) -> bool:
        """Say whether "file:line" lies in it."""
        file, _, line = source.rpartition(":")
        if not line.isdigit() or os.path.basename(file) != self.file:
            return False
        return self.first <= int(line) <= self.last


def planted_place(path: Path) -> Place:
    """Return where the file's one mark stands; raises ValueError where it has none, or several."""
    text = path.read_text()
    lines = [at for at, line in enumerate(text.split("\n"), 1) if line.endswith(MARK)]
    if len(lines) != 1:
        raise ValueError(f"{path} has {len(lines)} lines that end with {MARK}, not one")
    holding = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt)
        and node.lineno <= lines[0] <= (node.end_lineno or node.lineno)
        and (node.lineno == lines[0] or not isinstance(node, _BLOCKS))
    ]
    first, last = max(holding, key=lambda span: (span[0], -span[1]))
    return Place(path.name, first, last)


_TF1 = "tf1.15-py3.7"
_KERAS2 = "tf2.15-py3.11"
_KERAS2_OLD = "tf2.12-py3.8"
_KERAS3 = "tf2.21-py3.11"
_TORCH = "torch2.13-py3.11"
_JAX = "jax0.12-py3.13"

_BETWEEN = ("python_between_steps",)
_PREDICT = ("predict_loop", "small_executions")
_SMALL = ("small_executions",)
# Batches four times as large won 47 to 71 % of an example's time in these twins, in those of
# eager_by_hand and keras_run_eagerly of CPU time; that of eager_step has the same network. In place
# of Session.run, a callable won 39 % in that of session_tiny_ops, and 38 % of CPU time in that of
# session_many_runs.
_TINY = ("tiny_ops",)
_INPUT = ("input_bound", "dataset_serial")
# A generator that runs beside the steps may hold them up by the interpreter's lock alone.
_GENERATOR = (*_INPUT, "gil_held")

CASES = (
    Case("session_feed", _TF1, "large array fed", ("input_bound",)),
    Case("session_growing_graph", _TF1, "graph grows in the loop", ("growing_graph",)),
    Case("session_logging", _TF1, "weights printed each step", _BETWEEN),
    Case(
        "session_many_runs",
        _TF1,
        "a run for each metric",
        ("many_runs",),
        twin_rules=(*_TINY, "session_run_cost"),
    ),
    Case("session_python_batches", _TF1, "batch made in Python", (*_BETWEEN, "input_bound")),
    Case("session_queue", _TF1, "queue filled by one thread", ("input_bound",)),
    Case("session_save", _TF1, "saved every 10 steps", ("checkpoint_stalls",)),
    Case("session_sleep", _TF1, "sleep after each step", _BETWEEN),
    Case(
        "session_small_run",
        _TF1,
        "Session.run's own cost",
        ("session_run_cost",),
        twin_rules=_TINY,
    ),
    Case("session_summaries", _TF1, "histograms each step", ("callbacks_slow",)),
    Case("session_threads", _TF1, "64 threads", ("threads_oversubscribed",), line=False),
    Case(
        "session_tiny_ops",
        _TF1,
        "ops for each row",
        ("tiny_ops",),
        twin_rules=("session_run_cost",),
    ),
    Case("estimator_checkpoints", _TF1, "saved every 10 steps", ("checkpoint_stalls",)),
    Case("estimator_evaluate", _TF1, "evaluated every 20 steps", ("evaluation_often",)),
    Case("estimator_hook", _TF1, "slow hook", ("callbacks_slow",)),
    Case("estimator_input", _TF1, "rows made in Python", _GENERATOR),
    Case("keras_callback", _KERAS2_OLD, "slow callback", ("callbacks_slow",)),
    Case("keras_small_steps", _KERAS2_OLD, "tiny steps", _SMALL, line=False, twin_rules=_TINY),
    Case("keras_validation", _KERAS2_OLD, "validated too often", ("evaluation_often",)),
    Case("keras_checkpoint", _KERAS2, "saved every 5 batches", ("checkpoint_stalls",)),
    Case("keras_generator", _KERAS2, "rows made in Python", _GENERATOR),
    Case("keras_predict_loop", _KERAS2, "predict row by row", _PREDICT),
    Case("keras_run_eagerly", _KERAS2, "run_eagerly", ("eager_loop",), twin_rules=_TINY),
    Case("keras_sequence", _KERAS2, "slow storage, one worker", _INPUT),
    Case("keras_tensorboard", _KERAS2, "histograms each epoch", ("callbacks_slow",)),
    Case("grid_search", _KERAS3, "a model for each trial", ("compile_time", "retracing")),
    Case("keras_callback", _KERAS3, "slow callback", ("callbacks_slow",)),
    Case("keras_checkpoint", _KERAS3, "saved every 5 batches", ("checkpoint_stalls",)),
    Case("keras_fit_loop", _KERAS3, "fit batch by batch", ("fit_loop", "small_executions")),
    Case("keras_generator", _KERAS3, "rows made in Python", _GENERATOR),
    Case("keras_picture", _KERAS3, "drawing each epoch", ("callbacks_slow",)),
    Case("keras_predict_loop", _KERAS3, "predict row by row", _PREDICT),
    Case("keras_pydataset", _KERAS3, "slow storage, no workers", _INPUT),
    Case("keras_run_eagerly", _KERAS3, "run_eagerly", ("eager_loop",)),
    Case("keras_small_steps", _KERAS3, "tiny steps", _SMALL, line=False, twin_rules=_TINY),
    # Without the callback a step of the twin took 8 % less: it makes scalars at each batch.
    Case(
        "keras_tensorboard",
        _KERAS3,
        "histograms each epoch",
        ("callbacks_slow",),
        twin_rules=("callbacks_slow",),
    ),
    Case("keras_validation", _KERAS3, "validated too often", ("evaluation_often",)),
    Case("server", _KERAS3, "predict for each request", _PREDICT),
    Case("checkpoint_often", _KERAS3, "saved every 5 steps", ("checkpoint_stalls",)),
    Case("dense_embedding", _KERAS3, "dense gradient of a table", ("dense_gradient",)),
    Case("eager_by_hand", _KERAS3, "eager, no optimizer", ("eager_loop",), twin_rules=_TINY),
    Case("eager_norms", _KERAS3, "weights' norms read", (*_BETWEEN, "host_sync")),
    Case("eager_step", _KERAS3, "step computed eagerly", ("eager_loop",), twin_rules=_TINY),
    Case("elementwise_reads", _KERAS3, "tensor read by element", (*_BETWEEN, "host_sync")),
    Case("float64_math", _KERAS3, "64-bit math", ("float64_math",), line=False),
    Case("fsync_each_step", _KERAS3, "fsync at each step", _BETWEEN),
    Case("gc_collect", _KERAS3, "gc.collect() each step", (*_BETWEEN, "garbage_collection")),
    Case("gil_held", _KERAS3, "GIL held by a thread", ("gil_held",)),
    Case("input_takes_cpus", _KERAS3, "input takes the CPUs", ("input_takes_cpus",)),
    Case("lock_held", _KERAS3, "lock held by a thread", (*_BETWEEN, "lock_held")),
    Case("one_hot_product", _KERAS3, "look-up by one-hot product", ("one_hot_product",)),
    Case("one_thread", _KERAS3, "one thread, more CPUs", ("threads_few",), line=False),
    Case(
        "own_profiler",
        _KERAS3,
        "job's own profiler left on",
        ("own_profiler",),
        twin_rules=_TINY,
    ),
    Case("periodic_stall", _KERAS3, "stall every 50 steps", (*_BETWEEN, "step_outliers")),
    Case("png_without_cache", _KERAS3, "PNG decoded each epoch", _INPUT),
    Case("python_map", _KERAS3, "serial Python map", _INPUT),
    Case("python_preparation", _KERAS3, "batch made in Python", (*_BETWEEN, "input_bound")),
    Case("retrace_numbers", _KERAS3, "traced for each number", ("retracing",)),
    Case("retrace_shapes", _KERAS3, "traced for each shape", ("retracing",)),
    Case("slow_start", _KERAS3, "data parsed before step 1", ("slow_start",), wall=True),
    Case("subprocess_each_step", _KERAS3, "subprocess each step", _BETWEEN),
    Case("while_loop", _KERAS3, "while loop of tiny ops", ("while_loop", "tiny_ops")),
    Case("torch_anomaly", _TORCH, "anomaly detection", ("anomaly_detection",), line=False),
    Case("torch_clipping", _TORCH, "norms read one by one", (*_BETWEEN, "host_sync")),
    Case("torch_collate", _TORCH, "collate_fn in Python", ("input_bound",)),
    Case("torch_dataset", _TORCH, "items made in Python", ("input_bound",)),
    Case("torch_evaluation", _TORCH, "evaluated too often", ("evaluation_often",)),
    Case("torch_logging", _TORCH, "fsync inside the step", _BETWEEN),
    Case("torch_lstm_cell", _TORCH, "LSTM run cell by cell", _TINY),
    Case("torch_one_thread", _TORCH, "one thread, more CPUs", ("threads_few",), line=False),
    Case("torch_optimizer", _TORCH, "updates op by op", ("optimizer_ops",)),
    Case("torch_printing", _TORCH, "gradients printed", _BETWEEN),
    Case("torch_reads", _TORCH, "weights' norms read", (*_BETWEEN, "host_sync")),
    Case("torch_save", _TORCH, "saved every 5 steps", ("checkpoint_stalls",)),
    Case("torch_threads", _TORCH, "32 threads", ("threads_oversubscribed",), line=False),
    Case("torch_tiny_ops", _TORCH, "loss row by row", _TINY),
    Case("jax_batches", _JAX, "batch made in Python", (*_BETWEEN, "input_bound")),
    Case("jax_logging", _JAX, "fsync after each step", _BETWEEN),
    Case("jax_reads", _JAX, "weights' norms read", (*_BETWEEN, "host_sync")),
    Case("jax_recompiling", _JAX, "compiled for each shape", ("recompiling",)),
)
