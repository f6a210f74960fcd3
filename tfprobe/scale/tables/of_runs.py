"""The tables about runs, their processes, works and steps."""

from __future__ import annotations

from tfprobe.scale.tables.shapes import (
    PROCESS_KEY,
    RUN_KEY,
    STEP_KEY,
    WORK_KEY,
    Shape,
    Source,
    real,
    text,
    texts,
    truth,
    whole,
)

STATES = "running, stopped, finished, failed, terminated, replaced, killed or unknown"

RUNS = Shape(
    "runs",
    "The runs.",
    Source.RUN,
    (
        *RUN_KEY,
        text("directory", "where it is"),
        text("command", "the command line; NULL: run.json is lost"),
        text("cwd", "directory the command was started in"),
        text("started", "when it was launched, ISO 8601"),
        whole("started_ns", "the same, unix ns"),
        text("host", "host of the launcher"),
        text("user", "who launched it"),
        text("state", STATES),
        text("tfprobe", "version that recorded it"),
        whole("processes", "how many processes were recorded"),
        whole("steps", "steps that were completed, of all works"),
        whole("active_ns", "its last sign of life on disk, unix ns"),
    ),
)
INTERPRETERS = Shape(
    "interpreters",
    "Python interpreters that started with the agent on their path, recorded or not.",
    Source.RUN,
    (
        *RUN_KEY,
        text("host", "name of its host"),
        whole("pid", "its process id"),
        text("version", "version of Python"),
        text("executable", "path of Python"),
    ),
)
PROCESSES = Shape(
    "processes",
    "The recorded processes.",
    Source.PROCESS,
    (
        *PROCESS_KEY,
        text("role", "its role in a distributed job, such as worker or ps; NULL: it has none"),
        text("folder", "name of its folder below its host's"),
        whole("pid", "its process id; NULL: not known, a profiler service recorded it"),
        whole("port", "of the profiler service that recorded it; NULL: the agent did"),
        text("state", STATES),
        text("command", "its arguments"),
        text("program", "its script or module, with the arguments that others of the run lack"),
        text("python", "version of Python"),
        text("tensorflow", "version of TensorFlow"),
        texts("devices", "names of its devices; NULL: no step was sampled"),
        whole("started_ns", "when it started, unix ns"),
        whole("works", "how many works it has"),
        whole("captures", "how many captures it has on disk"),
        whole("wall_ns", "from the start of the agent to its exit or last sign of life"),
        whole("traced_ns", "time that tracing added, by the agent's own measure"),
        whole("fold_ns", "time that the agent took to add up steps"),
        whole("once_ns", "time that the agent took for what is done once or seldom"),
        text("settings", "what the job had chosen when first sampled, as JSON"),
        whole("exit_status", "its exit status; NULL: not known"),
        text("exception", "the exception that ended it, with its place; NULL: none is known"),
    ),
)
WORKS = Shape(
    "works",
    "Kinds of step in each process, with exact sums over all their steps.",
    Source.PROCESS,
    (
        *WORK_KEY,
        text("kind", "session_run, callable, fit, evaluate, predict, function, eager ..."),
        text("name", "what the step is of: a model, a function, names of fetches"),
        text("thread", "name of its thread"),
        whole("executed", "steps that began and ended"),
        whole("raised", "of those, that raised"),
        whole("completed", "executed less raised: the `count` of reports"),
        whole("sampled", "of those executed, that were recorded in a capture"),
        whole("retraces", "how often its function was traced"),
        whole("steps_per_execution", "training steps in one step"),
        whole("optimizer_steps", "by the optimizer's own counter; NULL: it has none to read"),
        whole("first_seen_ns", "start of its first step, unix ns"),
        whole("timed", "how many steps the next three are of"),
        whole("duration_sum_ns", "time of steps"),
        whole("duration_min_ns", "the shortest; NULL: none was timed"),
        whole("duration_max_ns", "the longest; NULL: none was timed"),
        whole("gaps", "how many gaps between two steps the next three are of"),
        whole("gap_sum_ns", "time between steps"),
        whole("gap_min_ns", "the shortest; NULL: there is none"),
        whole("gap_max_ns", "the longest; NULL: there is none"),
    ),
)
STEPS = Shape(
    "steps",
    "The steps that are remembered one by one: the latest 8,192 of each work.",
    Source.PROCESS,
    (
        *STEP_KEY,
        whole("start_ns", "unix ns, by the clock of its host; NULL: not known"),
        whole("duration_ns", "from its start to its end"),
        whole(
            "gap_ns",
            "since the end of the one before; NULL: not remembered, or another thread ran it",
        ),
        truth("sampled", "a capture was taken of it"),
        truth("raised", "it raised"),
    ),
)
PROBLEMS = Shape(
    "problems",
    "What of a recording could not be used.",
    Source.CAPTURES,
    (
        *RUN_KEY,
        whole("process", "number of the process in its run; NULL: it is none's"),
        text("part", "which file or folder"),
        text("what", "what is wrong with it"),
    ),
)
ACTIVITIES = Shape(
    "activities",
    "What a process did besides steps: imports, tracing, saving, what the program named.",
    Source.PROCESS,
    (
        *PROCESS_KEY,
        text("kind", "import, build, compile, trace, train, evaluate, predict, save, user ..."),
        text("name", "what was called"),
        text("thread", "name of its thread"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "from its start to its end"),
        whole("count", "intervals of this kind and name up to and with this one"),
        whole("total_ns", "their time"),
    ),
)
GAPS = Shape(
    "gaps",
    "The time from a recorded step to the next one of its thread, where it was watched.",
    Source.PROCESS,
    (
        *STEP_KEY,
        whole("start_ns", "unix ns"),
        whole("duration_ns", "its length"),
        whole("cost_ns", "what watching added to it"),
        truth("cut", "watching ended before the next step began"),
    ),
)
CALLS = Shape(
    "calls",
    "Functions that ran in gaps. The self times of a gap sum to its length.",
    Source.PROCESS,
    (
        *STEP_KEY,
        whole("call", "number of the call in its gap"),
        whole("parent", "number of the call that made it; NULL: code around the step"),
        text("function", "its name"),
        text("file", "its file; NULL: it is written in C"),
        whole("line", "the first line of the function; NULL: it is written in C"),
        whole("called_line", "the line of its parent that called it"),
        whole("count", "how often it was called from there"),
        whole("self_ns", "its own time, without what it called"),
    ),
)
_USED = (
    whole("user_ns", "CPU time in user mode"),
    whole("system_ns", "CPU time in the kernel"),
    whole("resident_bytes", "resident memory"),
    whole("peak_resident_bytes", "the most of it so far"),
    whole("threads", "how many threads"),
    whole("voluntary_switches", "context switches by waiting"),
    whole("involuntary_switches", "context switches by others' turns"),
    whole("read_bytes", "read from storage"),
    whole("written_bytes", "written to storage"),
    whole("cpus", "CPUs that it may run on"),
    real("cpu_limit", "CPUs that its control group allows"),
    whole("throttled_ns", "how long that limit held it back"),
    whole("memory_limit_bytes", "memory that its control group allows"),
    whole("machine_memory_bytes", "memory of the machine"),
    real("load_1min", "load of the machine"),
)
PULSES = Shape(
    "pulses",
    "What a process had used up to a moment; NULL: the system does not tell.",
    Source.PROCESS,
    (
        *PROCESS_KEY,
        whole("at_ns", "unix ns"),
        whole("steps", "steps of all works so far"),
        truth("at_exit", "taken at the exit of the process, not as a step began"),
        *_USED,
    ),
)
ACCELERATORS = Shape(
    "accelerators",
    "What NVML said of an accelerator at a moment; NULL: it does not tell.",
    Source.PROCESS,
    (
        *RUN_KEY,
        text("host", "name of the machine"),
        whole("at_ns", "unix ns"),
        whole("device", "its number on its machine"),
        text("name", "its model"),
        real("utilization_ratio", "part of the time in which a kernel ran, 0 to 1"),
        whole("memory_used_bytes", "memory in use"),
        whole("memory_total_bytes", "memory there is"),
        real("power_watts", "power drawn"),
        real("power_limit_watts", "power allowed"),
        whole("sm_clock_hz", "clock of its processors"),
        whole("max_sm_clock_hz", "the highest there is"),
        whole("temperature_celsius", "its temperature"),
        whole("pcie_sent_bytes_per_s", "sent over PCIe"),
        whole("pcie_received_bytes_per_s", "received over PCIe"),
        texts("throttle_reasons", "why its clocks are held down"),
    ),
)
