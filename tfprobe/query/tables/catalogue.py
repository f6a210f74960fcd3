"""All tables by name."""

from __future__ import annotations

from collections.abc import Mapping

from tfprobe.query.tables.run_tables import (
    ACCELERATORS,
    ACTIVITIES,
    CALLS,
    CAPTURE_KEY,
    COMPILATIONS,
    GAPS,
    GRAPH_BREAKS,
    INTERPRETERS,
    LOOPS,
    PROBLEMS,
    PROCESS_KEY,
    PROCESSES,
    RESOURCE_SAMPLES,
    RUN_KEY,
    RUNS,
    STEPS,
    THREAD_TIMES,
    TableShape,
    TableSource,
    real,
    text,
    truth,
    whole,
)
from tfprobe.query.tables.small_tables import ACCOUNT

CAPTURES = TableShape(
    "captures",
    "The traced steps whose captures could be read.",
    TableSource.CAPTURES,
    (
        *CAPTURE_KEY,
        text("file", "file in the folder of the process"),
        text("level", "trace level: full, software or window"),
        whole("start_ns", "start of the step, unix ns"),
        whole("duration_ns", "duration of the step, including the overhead of tracing"),
        whole("plain_ns", "duration of the usual step at that time; NULL: nothing to compare with"),
        whole("fed_bytes", "bytes of the arrays fed to the step; NULL: not known"),
        whole("result_bytes", "bytes of the tensors the step returned; NULL: not known"),
        whole("executions", "number of node executions"),
    ),
)
PROGRAMS = TableShape(
    "programs",
    "The programs of XLA that ran in captures of JAX, one row for each loop that ran one.",
    TableSource.CAPTURES,
    (
        *PROCESS_KEY,
        whole("work", "number of the loop in its process; NULL: not recorded"),
        text("name", "name of the program, such as jit_train_step"),
        whole("number", "number that tells it from others of its name"),
        whole("captures", "number of captures of the loop in which it ran"),
        whole("flops", "float operations of one run; NULL: not known"),
        whole("bytes", "memory that XLA planned for it; NULL: not known, as are all below"),
        whole("argument_bytes", "of these, arguments"),
        whole("output_bytes", "of these, results"),
        whole("donated_bytes", "bytes that are in arguments and in results"),
        whole("temporary_bytes", "of these, temporary values"),
        whole("constant_bytes", "of these, constants"),
        text("peak_instruction", "instruction during which most temporary bytes are live"),
    ),
)
EXECUTIONS = TableShape(
    "executions",
    "One row for each execution of a node in a traced step.",
    TableSource.CAPTURES,
    (
        *CAPTURE_KEY,
        text("device", "device it ran on"),
        text("lane", "thread or stream it ran on"),
        text("name", "name of the node"),
        text("op_type", "op type"),
        text(
            "place",
            "host: a thread ran or scheduled the op; accelerator: its kernel ran; "
            "host_to_device, device_to_host, device_to_device: a copy",
        ),
        truth("background", "on a thread that prepares later steps, such as tf.data's"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "duration of the op, or of the kernel"),
        whole("nested_ns", "of it, the time of ops that it called, which have rows of their own"),
        whole("bytes", "bytes requested from allocators; NULL: not in an XSpace"),
        whole("output_bytes", "bytes held by its outputs; NULL: not in an XSpace"),
        text("detail", "the kernel, details of a copy, or the tf.data iterator"),
        whole(
            "correlation",
            "correlation id that a kernel or copy shares with the driver call in `spans`; below 0, "
            "one that an op shares with the op that differentiates it",
        ),
        text("collective", "a collective's group, name and number there, alike in all ranks"),
    ),
)
SPANS = TableShape(
    "spans",
    "Other events of a trace: driver calls, iterators, tracing, sections of PyTorch.",
    TableSource.CAPTURES,
    (
        *CAPTURE_KEY,
        text(
            "kind",
            "runtime, launch, copy_call, sync, iterator, compile, function_call, python, "
            "dataset_function, loader_wait, loader_work, section, python_gap",
        ),
        text("lane", "thread"),
        text("name", "name of the call"),
        text("detail", "details from the framework"),
        truth("background", "on a thread that prepares later steps"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "duration"),
        whole("identity", "number of an iterator, or of a run of a function"),
        whole("parent", "number of the calling iterator; of calls of Python the line that called"),
        whole(
            "correlation",
            "correlation id that a driver call shares with what it starts in `executions`",
        ),
        whole("bytes", "bytes copied; NULL: not known"),
    ),
)
ALLOCATIONS = TableShape(
    "allocations",
    "Memory allocated (bytes above 0) and freed (below 0) during captures.",
    TableSource.CAPTURES,
    (
        *CAPTURE_KEY,
        text("allocator", "name of the allocator"),
        text("device", "device of the op"),
        text("op", "node that the bytes were allocated for"),
        text("op_type", "op type"),
        text("shape", "type and shape of the tensor, such as float32[64,28,28,1]"),
        whole("at_ns", "unix ns"),
        whole("bytes", "bytes allocated or freed; 0: the allocator only reported what it held"),
        whole("address", "address, which matches a deallocation with its allocation"),
        whole("in_use_bytes", "bytes held by tensors right after"),
        whole("free_bytes", "further bytes available from the allocator"),
        whole("peak_bytes", "peak of the bytes it held so far"),
        whole("largest_free_bytes", "largest block available"),
    ),
)


HISTORY = TableShape(
    "history",
    "The runs of each job over time, each with its kind of step that took most: a view of other "
    "tables.",
    TableSource.REPORT,
    (
        *RUN_KEY,
        text("job", "name of the run or, without one, its command"),
        text("started", "launch time, ISO 8601"),
        text("host", "host of the launcher"),
        text("python", "version of Python"),
        text("tensorflow", "version of TensorFlow"),
        text("kind", "kind of step, over all processes"),
        whole("steps", "number of steps in the median"),
        real("step_p50_ns", "median step without the first 16, traced and raised ones"),
        real(
            "change_ratio",
            "growth since the previous run of the job; NULL: none",
        ),
        real("goodput_ratio", "share of productive steps in the time of its processes"),
    ),
)
# The tables that the view is built from.
OF_HISTORY = ("runs", "processes", "works", "steps", "account")
HISTORY_QUERY = """
WITH medians AS (
  SELECT s.run, w.kind, count(*) AS steps, median(s.duration_ns) AS step_p50_ns,
    sum(s.duration_ns) AS spent_ns
  FROM steps s JOIN works w USING (run, process, work)
  WHERE NOT s.sampled AND NOT s.raised AND s.step >= 16
  GROUP BY s.run, w.kind
), versions AS (
  SELECT run, min(python) AS python, min(tensorflow) AS tensorflow FROM processes GROUP BY run
), main AS (
  SELECT r.run, coalesce(r.name, r.command) AS job, r.started, r.host, v.python, v.tensorflow,
    m.kind, m.steps, CAST(m.step_p50_ns AS DOUBLE) AS step_p50_ns
  FROM runs r JOIN medians m USING (run) JOIN versions v USING (run)
  QUALIFY row_number() OVER (PARTITION BY r.run ORDER BY m.spent_ns DESC, m.kind) = 1
), goodput AS (
  SELECT run, sum(ns) FILTER (part = 'productive') / nullif(sum(ns), 0) AS goodput_ratio
  FROM account GROUP BY run
)
SELECT main.*, step_p50_ns / lag(step_p50_ns) OVER (PARTITION BY job ORDER BY started, run) - 1
  AS change_ratio, goodput_ratio
FROM main LEFT JOIN goodput USING (run)
"""


SHAPES: tuple[TableShape, ...] = (
    RUNS,
    PROCESSES,
    LOOPS,
    STEPS,
    CAPTURES,
    PROGRAMS,
    EXECUTIONS,
    SPANS,
    ALLOCATIONS,
    ACTIVITIES,
    COMPILATIONS,
    GRAPH_BREAKS,
    GAPS,
    CALLS,
    RESOURCE_SAMPLES,
    THREAD_TIMES,
    ACCELERATORS,
    INTERPRETERS,
    ACCOUNT,
    PROBLEMS,
)
# Views of other tables, which need no reading of their own.
VIEWS: tuple[TableShape, ...] = (HISTORY,)
BY_NAME: Mapping[str, TableShape] = {shape.name: shape for shape in SHAPES}
