"""A chief has two workers train a table of one parameter server, by ParameterServerStrategy."""

import sys

import cluster

STEPS = 40


def main():
    if not cluster.is_task():
        sys.exit(cluster.run(chief=1, worker=2, ps=1))
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task()[0] == "chief":
        coordinate(tf, resolver)
        return
    server = tf.distribute.Server(
        resolver.cluster_spec(), resolver.task_type, resolver.task_id, protocol="grpc"
    )
    server.join()


def coordinate(tf, resolver):
    strategies = tf.distribute
    if not hasattr(strategies, "ParameterServerStrategy"):
        strategies = tf.distribute.experimental
    strategy = strategies.ParameterServerStrategy(resolver)
    with strategy.scope():
        table = tf.Variable(tf.zeros([1000]))

    @tf.function
    def train_step():
        table.assign_add(tf.ones([1000]))
        return tf.reduce_sum(table)

    coordination = (
        getattr(tf.distribute, "coordinator", None) or tf.distribute.experimental.coordinator
    )
    coordinator = coordination.ClusterCoordinator(strategy)

    @tf.function
    def replicated():
        return strategy.run(train_step)

    for _ in range(STEPS):
        coordinator.schedule(replicated)
    coordinator.join()
    cluster.tell("sum of the table", float(tf.reduce_sum(table)))


if __name__ == "__main__":
    main()
