"""The tables about runs, their processes, loops and steps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TableSource(Enum):
    """What must be read for a table."""

    # The manifests and file headers of a run.
    RUN = "run"
    # All files of a process except its captures.
    PROCESS = "process"
    # Captures, which take long: their rows are cached in Parquet files.
    CAPTURES = "captures"
    # Captures, through the result of `report`, which is cached.
    REPORT = "report"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column. `type` is its DuckDB type, `description` its content and when it is NULL."""

    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class TableShape:
    """One table."""

    name: str
    description: str
    source: TableSource
    columns: tuple[TableColumn, ...]

    def named(self, name: str) -> TableColumn:
        """Return the column of this name."""
        return next(column for column in self.columns if column.name == name)


def text(name: str, description: str) -> TableColumn:
    """Return a column of text."""
    return TableColumn(name, "VARCHAR", description)


def texts(name: str, description: str) -> TableColumn:
    """Return a column of lists of text."""
    return TableColumn(name, "VARCHAR[]", description)


def whole(name: str, description: str) -> TableColumn:
    """Return a column of whole numbers: counts, bytes, nanoseconds."""
    return TableColumn(name, "BIGINT", description)


def real(name: str, description: str) -> TableColumn:
    """Return a column of other numbers."""
    return TableColumn(name, "DOUBLE", description)


def truth(name: str, description: str) -> TableColumn:
    """Return a column of booleans."""
    return TableColumn(name, "BOOLEAN", description)


RUN_KEY = (text("run", "id of the run: the name of its directory"),)
PROCESS_KEY = (
    *RUN_KEY,
    whole("process", "number of the process in its run, from 0, as in reports"),
    text("host", "name of its host"),
    whole("rank", "rank in a distributed job; NULL: none"),
)
LOOP_KEY = (*PROCESS_KEY, whole("work", "number of the loop in its process"))
STEP_KEY = (*LOOP_KEY, whole("step", "number of the step in its loop, from 0"))
CAPTURE_KEY = (
    *PROCESS_KEY,
    whole("work", "number of the loop in its process; NULL: not recorded"),
    whole("step", "number of the step in its loop"),
    whole("capture", "number of the capture in its process"),
)


STATES = "running, stopped, finished, failed, terminated, replaced, killed or unknown"

RUNS = TableShape(
    "runs",
    "All runs.",
    TableSource.RUN,
    (
        *RUN_KEY,
        text("directory", "path of the run directory"),
        text("command", "the command line; NULL: run.json is lost"),
        text("cwd", "working directory of the command"),
        text("started", "launch time, ISO 8601"),
        whole("started_ns", "launch time, unix ns"),
        text("host", "host of the launcher"),
        text("user", "user who launched it"),
        text("state", STATES),
        text("tfprobe", "version of tfprobe that recorded it"),
        whole("processes", "number of recorded processes"),
        whole("steps", "completed steps of all loops"),
        whole("active_ns", "last sign of life on disk, unix ns"),
        text("name", "name of the run (`tfprobe run --name`); NULL: none"),
        text("tags", "tags as JSON; `tags->>'KEY'` is the value of one"),
    ),
)
INTERPRETERS = TableShape(
    "interpreters",
    "Python interpreters that started with the agent on their path, recorded or not.",
    TableSource.RUN,
    (
        *RUN_KEY,
        text("host", "name of its host"),
        whole("pid", "process id"),
        text("version", "version of Python"),
        text("executable", "path of the Python executable"),
    ),
)
PROCESSES = TableShape(
    "processes",
    "The recorded processes.",
    TableSource.PROCESS,
    (
        *PROCESS_KEY,
        text("role", "role in a distributed job, such as worker or ps; NULL: none"),
        text("folder", "name of its folder below the folder of its host"),
        whole("pid", "process id; NULL: not known, recorded through a profiler service"),
        whole("port", "port of the profiler service that recorded it; NULL: recorded by the agent"),
        text("state", STATES),
        text("command", "command line arguments"),
        text(
            "program", "script or module, with the arguments that other processes of the run lack"
        ),
        text("python", "version of Python"),
        text("tensorflow", "version of TensorFlow"),
        texts("devices", "names of its devices; NULL: no step was traced"),
        whole("started_ns", "start time, unix ns"),
        whole("works", "number of loops"),
        whole("captures", "number of captures on disk"),
        whole("wall_ns", "time from the start of the agent to the exit or last sign of life"),
        whole("traced_ns", "time added by tracing, as measured by the agent"),
        whole("fold_ns", "time the agent spent on aggregating steps"),
        whole("once_ns", "time the agent spent on work done once or rarely"),
        text("settings", "settings of the job at the first traced step, as JSON"),
        whole("exit_status", "exit status; NULL: not known"),
        text("exception", "exception that ended it, with its location; NULL: none known"),
    ),
)
LOOPS = TableShape(
    "works",
    "The loops (kinds of step) of each process, with exact sums over all their steps.",
    TableSource.PROCESS,
    (
        *LOOP_KEY,
        text("kind", "session_run, callable, fit, evaluate, predict, function, eager ..."),
        text("name", "what the step runs: a model, a function, names of fetches"),
        text("thread", "name of its thread"),
        whole("executed", "steps that began and ended"),
        whole("raised", "of these, steps that raised an exception"),
        whole("completed", "executed minus raised: the `count` in reports"),
        whole("sampled", "of the executed steps, those traced to a capture"),
        whole("retraces", "number of times its function was traced"),
        whole("steps_per_execution", "training steps per step"),
        whole("optimizer_steps", "from the optimizer's own counter; NULL: no readable counter"),
        whole("first_seen_ns", "start of its first step, unix ns"),
        whole("timed", "number of steps covered by the next three columns"),
        whole("duration_sum_ns", "total duration of these steps"),
        whole("duration_min_ns", "shortest; NULL: none timed"),
        whole("duration_max_ns", "longest; NULL: none timed"),
        whole("gaps", "number of gaps covered by the next three columns"),
        whole("gap_sum_ns", "total duration of these gaps"),
        whole("gap_min_ns", "shortest; NULL: none"),
        whole("gap_max_ns", "longest; NULL: none"),
    ),
)
STEPS = TableShape(
    "steps",
    "The steps that are stored individually: the latest 8,192 of each loop.",
    TableSource.PROCESS,
    (
        *STEP_KEY,
        whole("start_ns", "unix ns, on the clock of its host; NULL: not known"),
        whole("duration_ns", "duration"),
        whole(
            "gap_ns",
            "time since the end of the previous step; NULL: not stored, or run by another thread",
        ),
        truth("sampled", "the step was traced"),
        truth("raised", "the step raised an exception"),
    ),
)
PROBLEMS = TableShape(
    "problems",
    "Parts of a recording that could not be used.",
    TableSource.CAPTURES,
    (
        *RUN_KEY,
        whole("process", "number of the process in its run; NULL: not of a process"),
        text("part", "file or folder"),
        text("what", "the problem"),
    ),
)
ACTIVITIES = TableShape(
    "activities",
    "What a process did besides steps: imports, tracing, saving, activities named by the program.",
    TableSource.PROCESS,
    (
        *PROCESS_KEY,
        text("kind", "import, build, compile, trace, train, evaluate, predict, save, user ..."),
        text("name", "name of the call"),
        text("thread", "name of its thread"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "duration"),
        whole("count", "intervals of this kind and name up to and including this one"),
        whole("total_ns", "total duration of these intervals"),
        text("file", "file that imported it; NULL: another kind, or not known"),
        whole("line", "line in that file"),
    ),
)
COMPILATIONS = TableShape(
    "compilations",
    "What JAX and torch.compile compiled of a program, at most 2,000 in a process.",
    TableSource.PROCESS,
    (
        *PROCESS_KEY,
        whole("work", "number of the loop in its process; NULL: in no step of a loop"),
        whole("step", "number of the step in its loop; NULL: in none"),
        text("name", "name of the function"),
        text("compiler", "XLA or torch.compile"),
        whole("start_ns", "unix ns"),
        whole("duration_ns", "duration of the stages"),
        whole("trace_ns", "time of tracing, by JAX or by Dynamo; NULL: not needed"),
        whole("lower_ns", "time of lowering, or of AOTAutograd; NULL: not needed"),
        whole("backend_ns", "time of XLA, Inductor or the cache; NULL: not needed"),
        truth("cached", "a cache on disk had it; NULL: none was looked into"),
        truth("first", "this function object was not compiled before"),
        text("why", "what differs from before, in words"),
        text(
            "changes",
            "arguments that differ, as JSON: argument, what, before, after; NULL: nothing to "
            "compare with, or not known",
        ),
        text("file", "file that called the function; NULL: not known"),
        whole("line", "line in that file"),
    ),
)
GRAPH_BREAKS = TableShape(
    "graph_breaks",
    "Where torch.compile ended a graph, once for each compilation of the function.",
    TableSource.PROCESS,
    (
        *PROCESS_KEY,
        whole("work", "number of the loop in its process; NULL: in no step of a loop"),
        whole("step", "number of the step in its loop; NULL: in none"),
        text("name", "name of the function"),
        whole("at_ns", "when it was compiled, unix ns"),
        text("reason", "why, in PyTorch's words"),
        truth("skipped", "the whole function runs without having been compiled"),
        text("file", "file of the line; NULL: not known"),
        whole("line", "line in that file"),
    ),
)
GAPS = TableShape(
    "gaps",
    "The time from a step to the next one of its thread, if it was watched.",
    TableSource.PROCESS,
    (
        *STEP_KEY,
        whole("start_ns", "unix ns"),
        whole("duration_ns", "duration"),
        whole("cost_ns", "time added by watching"),
        truth("cut", "watching ended before the next step began"),
        text(
            "why",
            "reason: traced (after a traced step), sampled, foreseen (a long gap was due)",
        ),
        whole("cpu_ns", "CPU time of its thread, watching included; NULL: not known"),
    ),
)
CALLS = TableShape(
    "calls",
    "Functions that ran in gaps. The self times of a gap sum to its length.",
    TableSource.PROCESS,
    (
        *STEP_KEY,
        whole("call", "number of the call in its gap"),
        whole("parent", "number of the calling call; NULL: code around the step"),
        text("function", "name"),
        text("file", "file; NULL: written in C"),
        whole("line", "first line of the function; NULL: written in C"),
        whole("called_line", "line in the parent that called it"),
        whole("count", "number of calls from there"),
        whole("self_ns", "time without the functions it called"),
    ),
)
_USED = (
    whole("user_ns", "CPU time in user mode"),
    whole("system_ns", "CPU time in the kernel"),
    whole("resident_bytes", "resident memory"),
    whole("peak_resident_bytes", "peak resident memory so far"),
    whole("threads", "number of threads"),
    whole("voluntary_switches", "voluntary context switches"),
    whole("involuntary_switches", "involuntary context switches"),
    whole("read_bytes", "bytes read from storage"),
    whole("written_bytes", "bytes written to storage"),
    whole("cpus", "CPUs it may run on"),
    real("cpu_limit", "CPU limit of its control group"),
    whole("throttled_ns", "time throttled by that limit"),
    whole("memory_limit_bytes", "memory limit of its control group"),
    whole("machine_memory_bytes", "memory of the machine"),
    real("load_1min", "1-minute load average of the machine"),
    whole("major_faults", "page faults that read from storage"),
    whole("run_delay_ns", "time its first thread was ready to run but had no CPU"),
    whole("gc_ns", "time spent in garbage collections"),
    whole("machine_busy_ns", "CPU time of the whole machine, used by any process"),
    whole(
        "machine_io_wait_ns",
        "time CPUs of the machine were idle while a process waited for storage",
    ),
    whole("machine_steal_ns", "CPU time of the machine taken by the hypervisor"),
)
RESOURCE_SAMPLES = TableShape(
    "pulses",
    "Resource samples: what a process had used up to a moment; NULL: not provided by the system.",
    TableSource.PROCESS,
    (
        *PROCESS_KEY,
        whole("at_ns", "unix ns"),
        whole("steps", "steps of all loops so far"),
        truth("at_exit", "taken at the exit of the process instead of at the start of a step"),
        *_USED,
    ),
)
THREAD_TIMES = TableShape(
    "thread_times",
    "The CPU time of threads, and where Python threads were. Not in every resource sample.",
    TableSource.PROCESS,
    (
        *PROCESS_KEY,
        whole("at_ns", "unix ns"),
        whole("since_ns", "start of the interval of the CPU time; NULL: the start of each thread"),
        text(
            "thread", "name of the thread, from the kernel if Python did not start it; NULL: none"
        ),
        truth("is_python", "Python started the thread or runs in it"),
        whole("threads", "number of threads with this name"),
        whole("cpu_ns", "their CPU time; NULL: unknown, for threads not started by Python"),
        truth("runs_steps", "it runs steps of a loop"),
        text("file", "where it was: the job's innermost code; NULL: not known"),
        whole("line", "line in that file"),
        text("function", "function at that line"),
        truth("is_in_python", "it was between two Python instructions, not inside a call"),
    ),
)
ACCELERATORS = TableShape(
    "accelerators",
    "Samples of accelerators from NVML; NULL: not provided by NVML.",
    TableSource.PROCESS,
    (
        *RUN_KEY,
        text("host", "name of the machine"),
        whole("at_ns", "unix ns"),
        whole("device", "number of the accelerator on its machine"),
        text("name", "model"),
        real("utilization_ratio", "share of time in which a kernel ran, 0 to 1"),
        whole("memory_used_bytes", "memory in use"),
        whole("memory_total_bytes", "total memory"),
        real("power_watts", "power drawn"),
        real("power_limit_watts", "power limit"),
        whole("sm_clock_hz", "clock of its multiprocessors (SM)"),
        whole("max_sm_clock_hz", "maximum clock"),
        whole("temperature_celsius", "temperature"),
        whole("pcie_sent_bytes_per_s", "bytes sent over PCIe per second"),
        whole("pcie_received_bytes_per_s", "bytes received over PCIe per second"),
        texts("throttle_reasons", "reasons for reduced clocks"),
    ),
)
