"""Two workers train a model together by MultiWorkerMirroredStrategy: `multi_worker.py fit|loop`."""

import sys

import cluster

STEPS, BATCH = 40, 16


def main():
    if not cluster.is_task():
        sys.exit(cluster.run(worker=2))
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    turn = np.random.RandomState(7)
    x = turn.rand(STEPS * BATCH, 8).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(BATCH)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = data.with_options(options)
    with strategy.scope():
        # Keras draws seeds that differ from start to start.
        first = tf.keras.layers.Dense(16, "relu", kernel_initializer=weights(tf, seed=1))
        last = tf.keras.layers.Dense(1, kernel_initializer=weights(tf, seed=2))
        model = tf.keras.Sequential([tf.keras.Input((8,)), first, last])
    loss, steps = {"fit": fit, "loop": loop}[sys.argv[1]](tf, strategy, model, data)
    cluster.tell("loss of worker %d" % cluster.task()[1], round(loss, 5))
    cluster.tell("steps of worker %d" % cluster.task()[1], steps)


def weights(tf, seed):
    return tf.keras.initializers.GlorotUniform(seed=seed)


def fit(tf, strategy, model, data):
    with strategy.scope():
        model.compile(tf.keras.optimizers.SGD(0.01), "mse")
    loss = float(model.fit(data, verbose=0).history["loss"][-1])
    return loss, int(model.optimizer.iterations.numpy())


def loop(tf, strategy, model, data):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for variable, gradient in zip(model.trainable_variables, gradients):
            variable.assign_sub(0.01 * gradient)
        return loss

    @tf.function
    def train_step(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    steps = 0
    for x, y in strategy.experimental_distribute_dataset(data):
        loss = train_step(x, y)
        steps += 1
    return float(loss), steps


if __name__ == "__main__":
    main()
