"""Which process of a distributed job this is, by launchers' variables and by TensorFlow. Refuses to guess.

Why the sources stand in this order is in docs/distributed.md: the more a source knows of TensorFlow, the earlier.
"""

import re
import sys
from json import loads

from .config import rank_variables
from .interruptions import let_through

_CONTEXT = "tensorflow.python.eager.context"
# A number of more digits is nobody's rank, and some Pythons refuse to read one of thousands.
_MOST_DIGITS = 9
_LONGEST_ROLE = 64
_CHIEFS = ("chief", "master")
_TASK = re.compile(r"/job:([^/]+)/replica:\d+/task:(\d+)/")
_WORKERS = _CHIEFS + ("worker",)
_ROLES = _WORKERS + ("ps", "evaluator")
# Jobs of a process that is in no cluster, as TensorFlow calls them.
_NO_JOBS = ("localhost", "local")
# No process serves so many; a cluster of more is somebody's mistake.
_MOST_TASKS = 10000
# Slurm numbers the batch script, an interactive shell and the like from here on: one process, whatever PROCID says.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0


class _Servers:
    """The servers of TensorFlow that this process has started: job, task, and the number of tasks of each job."""

    def __init__(self):
        self.started = []

    def add(self, server_def):
        """Note a server by the ServerDef that it was made of."""
        sizes = {str(job.name): len(job.tasks) for job in server_def.cluster.job}
        self.started.append((str(server_def.job_name), int(server_def.task_index), sizes))

    def of(self, sizes):
        """Return the tasks of a cluster that are served here. A program may leave out its own job, so some will do."""
        return {(job, task) for job, task, own in self.started if _agree(own, sizes)}


SERVERS = _Servers()


def forget_servers():
    """In a forked child: its parent's servers are not there."""
    del SERVERS.started[:]


def rank(variables=None, devices=()):
    """Return {"source", "index", "world", "role"}, or None for a job of one process.

    `variables` are those of `rank_variables`, where they have been read; `devices` are the names of its devices. Where
    the process has other tasks of its cluster as well, "serves" has a list of their {"index", "role"}.
    """
    if variables is None:
        variables = rank_variables()
    place = _first((_tf_config, _cluster_of_context, _server), variables)
    if place is None:
        return _first((_launcher,), variables) or _of_devices(devices)
    return place or _first((_launcher,), variables)


def _first(sources, variables):
    """Return what the first source tells that tells something; {} where it is a cluster in this process alone."""
    for source in sources:
        try:
            place = source(variables)
        except Exception:
            let_through()
            place = None  # not ours to judge; whoever reads this for a living will say what is wrong with it
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
        sizes["worker"] = None  # a sparse cluster names only those that this process speaks to
    named = cluster.get(role)
    if isinstance(named, list) and index >= len(named):
        return None
    return _place("TF_CONFIG", role, index, sizes)


def _cluster_of_context(_):
    """Return the place in a cluster that a program has told TensorFlow 2 itself: known once it has set that up."""
    context = getattr(sys.modules.get(_CONTEXT), "_context", None)
    server = getattr(context, "_collective_ops_server_def", None) or getattr(context, "_server_def", None)
    if server is None:
        return None
    role = str(server.job_name)
    if role not in _ROLES:
        return None  # "localhost": a program of one process that borrows others
    sizes = {str(job.name): len(job.tasks) for job in server.cluster.job}
    return _place("tf.distribute", role, int(server.task_index), sizes)


def _server(_):
    """Return the place of the first worker that is served here, else of the first server."""
    tasks = [(job, index, sizes) for job, index, sizes in SERVERS.started if sum(sizes.values()) > 1]
    workers = [task for task in tasks if task[0] in _WORKERS]
    for role, index, sizes in (workers or tasks)[:1]:
        return _place("tf.train.Server", role, index, sizes)
    return None


def _of_devices(names):
    """Return the place that names of devices tell, where all are of one task; "localhost" is no job's."""
    tasks = {match.groups() for match in map(_TASK.match, names) if match}
    if len(tasks) != 1:
        return None
    role, index = tasks.pop()
    return None if role in _NO_JOBS else _numbered_place("devices", role, int(index), {})


def _agree(some, others):
    """Tell whether two clusters have a job in common, and none with different numbers of tasks."""
    common = set(some).intersection(others)
    return bool(common) and all(some[job] == others[job] for job in common)


def _place(source, role, index, sizes):
    """Return the place of a task; {} where all tasks of the cluster are in this process: there is no other rank."""
    served = SERVERS.of(sizes) - {(role, index)}
    tasks = {(job, task) for job, size in sizes.items() for task in range(min(size or 0, _MOST_TASKS))}
    if served and None not in sizes.values() and not tasks - served - {(role, index)}:
        return {}
    place = _numbered_place(source, role, index, sizes)
    others = [_numbered_place(source, job, task, sizes) for job, task in sorted(served)]
    if place is not None and others:
        place["serves"] = [{"index": other["index"], "role": other["role"]} for other in others if other is not None]
    return place


def _numbered_place(source, role, index, sizes):
    """Number chief and workers in one row; parameter servers and evaluators count apart, and not in the world.

    `sizes` tell how many there are of each role, None where that is not known.
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
        world = None  # TensorFlow 2 keeps each cluster by number: this one leaves some out
    return {"source": source, "index": index, "world": world or None, "role": role}


def _launcher(variables):
    for source, index, world in _numbered(variables):
        index, world = _number(index), _number(world)
        if index is None or world == 1 or (world is not None and index >= world):
            continue  # a launcher of one process says nothing: `srun -n1` may be around everything else
        return {"source": source, "index": index, "world": world, "role": "worker"}
    return None


def _numbered(variables):
    """Yield (source, index, world) of each launcher as its variables have them, the innermost kind first."""
    get = variables.get
    yield "Horovod", get("HOROVOD_RANK"), get("HOROVOD_SIZE")
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
        yield "torchrun", get("RANK"), get("WORLD_SIZE")
    yield "Kubernetes", get("JOB_COMPLETION_INDEX"), None


def _in_step(variables):
    """Tell a task of `srun` from a batch script or a shell, in which Slurm sets PROCID 0, too."""
    step = _number(variables.get("SLURM_STEP_ID") or variables.get("SLURM_STEPID"), 10)
    return step is not None and step < _FIRST_SPECIAL_STEP


def _number(text, most_digits=_MOST_DIGITS):
    if not text or len(text) > most_digits or not set(text) <= set("0123456789"):
        return None
    return int(text)
