"""Which process of a distributed job this is, from frameworks and from launchers' variables. Refuses to guess.

The order of the sources is explained in docs/distributed.md: the more a source knows of the framework, the earlier it
comes.
"""

import re
import sys
from json import loads

from .config import rank_variables
from .interruptions import let_through

_CONTEXT = "tensorflow.python.eager.context"
_JAX = "jax._src.distributed"
# A number with more digits is no rank, and some Pythons refuse to parse one of thousands.
_MOST_DIGITS = 9
_TORCHRUN = "torchrun"
_LONGEST_ROLE = 64
_CHIEFS = ("chief", "master")
_TASK = re.compile(r"/job:([^/]+)/replica:\d+/task:(\d+)/")
_WORKERS = _CHIEFS + ("worker",)
_ROLES = _WORKERS + ("ps", "evaluator")
# Job names that TensorFlow uses in a process that is in no cluster.
_NO_JOBS = ("localhost", "local")
# No process serves this many tasks; a larger cluster is a mistake.
_MOST_TASKS = 10000
# From here on Slurm numbers the batch script, an interactive shell and the like: one process, whatever PROCID says.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0


class _Servers:
    """The TensorFlow servers that this process has started: job, task, and the number of tasks of each job."""

    def __init__(self):
        self.started = []

    def add(self, server_def):
        """Add a server by the ServerDef that it was created from."""
        sizes = {str(job.name): len(job.tasks) for job in server_def.cluster.job}
        self.started.append((str(server_def.job_name), int(server_def.task_index), sizes))

    def tasks_in(self, sizes):
        """Return the tasks of a cluster that are served here. Some jobs suffice: a program may leave out its own."""
        return {(job, task) for job, task, own in self.started if _agree(own, sizes)}


SERVERS = _Servers()


def forget_servers():
    """Forget the servers in a forked child, which does not have its parent's."""
    del SERVERS.started[:]


def rank(variables=None, devices=()):
    """Return {"source", "index", "world", "role"}, or None for a job of one process; "restarts" if torchrun made any.

    `variables` are those of `rank_variables`, if they were read before; `devices` are the names of the process's
    devices. If the process has other tasks of its cluster as well, "serves" lists their {"index", "role"}.
    """
    if variables is None:
        variables = rank_variables()
    place = _first((_tf_config, _cluster_of_context, _server, _jax_distributed), variables)
    if place is None:
        return _first((_launcher,), variables) or _of_devices(devices)
    return place or _first((_launcher,), variables)


def _first(sources, variables):
    """Return the first source's answer that is not None; {} means that the whole cluster is in this process."""
    for source in sources:
        try:
            place = source(variables)
        except Exception:
            let_through()
            place = None  # not the agent's to judge: TensorFlow will report what is wrong with it
        if place is not None:
            return place
    return None


def _tf_config(variables):
    if "TF_CONFIG" not in variables:
        return None
    document = loads(variables["TF_CONFIG"])
    cluster, task = document.get("cluster") or {}, document.get("task") or {}
    sizes = {name: len(addresses) for name, addresses in cluster.items()}
    role, index = task["type"], int(task["index"])
    if isinstance(cluster.get("worker"), dict):
        sizes["worker"] = None  # a sparse cluster names only the tasks that this process communicates with
    named = cluster.get(role)
    if isinstance(named, list) and index >= len(named):
        return None
    return _place("TF_CONFIG", role, index, sizes)


def _cluster_of_context(_):
    """Return the place in a cluster that the program has passed to TensorFlow 2; known once that is set up."""
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    server = getattr(context, "_collective_ops_server_def", None) or getattr(context, "_server_def", None)
    if server is None:
        return None
    role = str(server.job_name)
    if role not in _ROLES:
        return None  # "localhost": a program of one process that uses other processes' devices
    sizes = {str(job.name): len(job.tasks) for job in server.cluster.job}
    return _place("tf.distribute", role, int(server.task_index), sizes)


def _server(_):
    """Return the place of the first worker that is served here, else of the first server."""
    tasks = [(job, index, sizes) for job, index, sizes in SERVERS.started if sum(sizes.values()) > 1]
    workers = [task for task in tasks if task[0] in _WORKERS]
    for role, index, sizes in (workers or tasks)[:1]:
        return _place("tf.train.Server", role, index, sizes)
    return None


def _jax_distributed(_):
    """Return the place that JAX was initialized with; asking JAX itself would set up its back ends."""
    state = getattr(sys.modules.get(_JAX), "global_state", None)
    index, world = getattr(state, "process_id", None), getattr(state, "num_processes", None)
    if (
        not isinstance(index, int)
        or not isinstance(world, int)
        or not 0 <= index < world < 10**_MOST_DIGITS
        or world == 1
    ):
        return None
    return _numbered_place("jax.distributed", "worker", index, {"worker": world})


def _of_devices(names):
    """Return the place in the names of devices, if all are of one task; "localhost" belongs to no job."""
    tasks = {match.groups() for match in map(_TASK.match, names) if match}
    if len(tasks) != 1:
        return None
    role, index = tasks.pop()
    return None if role in _NO_JOBS else _numbered_place("devices", role, int(index), {})


def _agree(some, others):
    """Return whether two clusters have a job in common, and none with different numbers of tasks."""
    common = set(some).intersection(others)
    return bool(common) and all([some[job] == others[job] for job in common])


def _place(source, role, index, sizes):
    """Return the place of a task; {} if all tasks of the cluster are in this process: there is no other rank."""
    served = SERVERS.tasks_in(sizes) - {(role, index)}
    tasks = {(job, task) for job, size in sizes.items() for task in range(min(size or 0, _MOST_TASKS))}
    if served and None not in sizes.values() and not tasks - served - {(role, index)}:
        return {}
    place = _numbered_place(source, role, index, sizes)
    others = [_numbered_place(source, job, task, sizes) for job, task in sorted(served)]
    if place is not None and others:
        place["serves"] = [{"index": other["index"], "role": other["role"]} for other in others if other is not None]
    return place


def _numbered_place(source, role, index, sizes):
    """Number chief and workers together; parameter servers and evaluators are numbered apart, and not in the world.

    `sizes` are the numbers of tasks of each role, None if not known.
    """
    if not role.isprintable() or not 0 < len(role) <= _LONGEST_ROLE or not 0 <= index < 10**_MOST_DIGITS:
        return None
    chiefs, workers = sum(sizes.get(name, 0) for name in _CHIEFS), sizes.get("worker", 0)
    if role in _CHIEFS:
        index = 0
    elif role == "worker":
        index += chiefs
    world = None if workers is None else chiefs + workers
    if world is not None and role == "worker" and index >= world:
        world = None  # TensorFlow 2 keeps each cluster by number, and this one has missing tasks
    return {"source": source, "index": index, "world": world or None, "role": role}


def _launcher(variables):
    for source, index, world in list(_numbered(variables)):
        index, world = _number(index), _number(world)
        if index is None or world == 1 or (world is not None and index >= world):
            continue  # a launcher of one process says nothing: `srun -n1` may be around anything
        place = {"source": source, "index": index, "world": world, "role": "worker"}
        restarts = _number(variables.get("TORCHELASTIC_RESTART_COUNT")) if source == _TORCHRUN else None
        return dict(place, restarts=restarts) if restarts else place
    return None


def _numbered(variables):
    """Yield (source, index, world) of each launcher from its variables, the innermost kind first."""
    get = variables.get
    yield "Horovod", get("HOROVOD_RANK"), get("HOROVOD_SIZE")
    by_torchrun = _TORCHRUN, get("RANK"), get("WORLD_SIZE")
    if get("TORCHELASTIC_RUN_ID"):
        yield by_torchrun  # started once a node by srun or mpirun, it starts the workers of that node
    yield "OpenMPI", get("OMPI_COMM_WORLD_RANK"), get("OMPI_COMM_WORLD_SIZE")
    yield "MVAPICH", get("MV2_COMM_WORLD_RANK"), get("MV2_COMM_WORLD_SIZE")
    yield "PMI", get("PMI_RANK"), get("PMI_SIZE")
    by_slurm = get("PMIX_NAMESPACE", "").startswith("slurm.")
    in_step = _in_step(variables)
    tasks = get("SLURM_STEP_NUM_TASKS") or get("SLURM_NTASKS")
    yield "PMIx", get("PMIX_RANK"), tasks if by_slurm and in_step else None
    if in_step:
        yield "SLURM", get("SLURM_PROCID"), tasks
    if get("MASTER_ADDR") and _number(get("WORLD_SIZE")):
        yield by_torchrun
    yield "Kubernetes", get("JOB_COMPLETION_INDEX"), None


def _in_step(variables):
    """Return whether this is a task of `srun`, not a batch script or a shell, in which Slurm sets PROCID 0 as well."""
    step = _number(variables.get("SLURM_STEP_ID") or variables.get("SLURM_STEPID"), 10)
    return step is not None and step < _FIRST_SPECIAL_STEP


def _number(text, most_digits=_MOST_DIGITS):
    if not text or len(text) > most_digits or not set(text) <= set("0123456789"):
        return None
    return int(text)
