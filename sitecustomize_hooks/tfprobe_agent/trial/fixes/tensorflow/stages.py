"""What the stages of a tf.data pipeline are, and what the functions in them do."""

_RANDOM = ("random", "multinomial", "statefuluniform", "statefulstandardnormal", "statefultruncatednormal")


def _stages(dataset):
    """Return a stage and those before it, the last one first."""
    found, waiting = [], [dataset]
    while waiting:
        stage = waiting.pop()
        stage = getattr(stage, "_dataset", None) or stage  # what adapts it to TensorFlow 1
        found.append(stage)
        waiting += stage._inputs()
    return found


def kinds_before(dataset):
    """Return the names of the types of the stages before the last one."""
    return [type(stage).__name__ for stage in _stages(dataset)[1:]]


def runs_stateful_ops(dataset):
    """Return whether a function of these stages has an op with state; Python functions count as such."""
    return any([is_stateful for _, is_stateful in _operations(_stages(dataset))])


def draws_random_numbers(dataset):
    """Return whether the function of the last stage has an op that draws random numbers."""
    kinds = [kind.lower() for kind, _ in _operations(_stages(dataset)[:1])]
    return any([kind.startswith(_RANDOM) for kind in kinds])


def _operations(stages):
    """Return kind and statefulness of the ops in the functions of stages, and in what these call."""
    found = []
    for stage in stages:
        for function in stage._functions():
            graph = function.function.graph
            found += [(operation.type, operation.op_def.is_stateful) for operation in graph.get_operations()]
            found += [(node.op, False) for inner in graph.as_graph_def().library.function for node in inner.node_def]
    return found
