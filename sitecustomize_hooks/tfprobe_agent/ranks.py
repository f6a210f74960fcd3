"""Which process of a distributed job this is, as told by the launchers' variables."""

from json import loads

from .config import rank_variables


def rank():
    """Return {"source", "index", "world", "role"}, or None for a job of one process."""
    variables = rank_variables()
    if "TF_CONFIG" in variables:
        found = _from_tf_config(variables["TF_CONFIG"])
        if found is not None:
            return found
    for source, index, world in (
        ("SLURM", "SLURM_PROCID", "SLURM_NTASKS"),
        ("OpenMPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI", "PMI_RANK", "PMI_SIZE"),
    ):
        if variables.get(index, "").isdecimal():
            size = variables.get(world, "")
            return {
                "source": source,
                "index": int(variables[index]),
                "world": int(size) if size.isdecimal() else None,
                "role": "worker",
            }
    return None


def _from_tf_config(text):
    try:
        document = loads(text)
        cluster, task = document.get("cluster") or {}, document.get("task") or {}
        role, index = str(task["type"]), int(task["index"])
        chiefs = sum(len(cluster.get(name, ())) for name in ("chief", "master"))
        world = chiefs + len(cluster.get("worker", ()))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None  # not our variable to judge; TensorFlow will say what is wrong with it
    if role in ("chief", "master"):
        index = 0
    elif role == "worker":
        index += chiefs
    return {"source": "TF_CONFIG", "index": index, "world": world or None, "role": role}
