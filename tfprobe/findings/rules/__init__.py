"""The rules by topic, each tested by twins: a case in which it fires, and one just below."""

from __future__ import annotations

from tfprobe.findings.rule import Rule, of_loops, of_processes
from tfprobe.findings.rules.accelerator import (
    accelerator_idle,
    copies_many,
    copies_pageable,
    data_layout,
    launch_bound,
    op_on_host,
    precision_wide,
)
from tfprobe.findings.rules.between_steps import (
    callbacks_slow,
    checkpoint_stalls,
    epoch_ends,
    evaluation_often,
    python_between_steps,
)
from tfprobe.findings.rules.dispatch import (
    eager_loop,
    many_runs,
    session_run_cost,
    small_executions,
)
from tfprobe.findings.rules.graphs import (
    compile_time,
    graph_breaks,
    growing_graph,
    recompiling,
    retracing,
    while_loop,
    xla_off,
)
from tfprobe.findings.rules.input import dataset_serial, input_bound, input_takes_cpus
from tfprobe.findings.rules.memory import memory_donation, memory_full, memory_growth, memory_unused
from tfprobe.findings.rules.ops import (
    dense_gradient,
    expensive_lines,
    expensive_ops,
    expensive_scopes,
    float64_math,
    one_hot_product,
    optimizer_ops,
    tiny_ops,
)
from tfprobe.findings.rules.python import garbage_collection, gil_held, host_sync, slow_start
from tfprobe.findings.rules.ranks import collectives_exposed, straggler
from tfprobe.findings.rules.recording import (
    anomaly_detection,
    own_profiler,
    profiler_overhead,
    step_outliers,
)
from tfprobe.findings.rules.threads import (
    cpus_contended,
    threads_few,
    threads_oversubscribed,
)

RULES: tuple[Rule, ...] = (
    of_loops("accelerator_idle", accelerator_idle),
    of_processes("anomaly_detection", anomaly_detection),
    of_loops("callbacks_slow", callbacks_slow),
    Rule("checkpoint_stalls", checkpoint_stalls),
    of_loops("collectives_exposed", collectives_exposed),
    of_processes("compile_time", compile_time),
    of_loops("copies_many", copies_many),
    of_loops("copies_pageable", copies_pageable),
    of_loops("cpus_contended", cpus_contended, is_of_traces=False),
    of_loops("data_layout", data_layout),
    of_loops("dataset_serial", dataset_serial),
    of_loops("dense_gradient", dense_gradient),
    Rule("eager_loop", eager_loop, is_of_traces=True),
    of_processes("epoch_ends", epoch_ends),
    of_processes("evaluation_often", evaluation_often),
    of_loops("expensive_lines", expensive_lines),
    of_loops("expensive_ops", expensive_ops),
    of_loops("expensive_scopes", expensive_scopes),
    of_loops("float64_math", float64_math),
    of_processes("garbage_collection", garbage_collection),
    of_loops("gil_held", gil_held, is_of_traces=False),
    of_loops("graph_breaks", graph_breaks),
    Rule("growing_graph", growing_graph),
    of_loops("host_sync", host_sync),
    of_loops("input_bound", input_bound),
    of_loops("input_takes_cpus", input_takes_cpus),
    of_loops("launch_bound", launch_bound),
    Rule("many_runs", many_runs),
    of_loops("memory_donation", memory_donation),
    of_processes("memory_full", memory_full),
    of_processes("memory_growth", memory_growth),
    of_processes("memory_unused", memory_unused),
    of_loops("one_hot_product", one_hot_product),
    of_loops("op_on_host", op_on_host),
    of_loops("optimizer_ops", optimizer_ops),
    of_processes("own_profiler", own_profiler),
    of_loops("precision_wide", precision_wide),
    of_processes("profiler_overhead", profiler_overhead),
    of_loops("python_between_steps", python_between_steps, is_of_traces=False),
    of_processes("recompiling", recompiling),
    of_loops("retracing", retracing, is_of_traces=False),
    of_loops("session_run_cost", session_run_cost),
    Rule("slow_start", slow_start),
    of_loops("small_executions", small_executions),
    of_loops("step_outliers", step_outliers, is_of_traces=False),
    Rule("straggler", straggler),
    Rule("threads_few", threads_few, is_of_traces=True),
    of_loops("threads_oversubscribed", threads_oversubscribed),
    of_loops("tiny_ops", tiny_ops),
    of_loops("while_loop", while_loop),
    of_loops("xla_off", xla_off),
)
