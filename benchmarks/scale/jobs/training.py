"""Train a network: `training.py session|function LAYERS STEPS`.

The step of a Session has four all-reduces. The group of each is this process alone: what is
recorded is one rank of a job of many.
"""

import sys

import tensorflow as tf
from tensorflow.python.ops import collective_ops

WIDTH = 8
LAYERS = int(sys.argv[2])
STEPS = int(sys.argv[3])
BUCKETS = 4


def main():
    {"session": in_session, "function": in_function}[sys.argv[1]]()


def in_session():
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    weights, biases = (
        [v1.get_variable("%s_%d" % (name, at), shape, use_resource=False) for at in range(LAYERS)]
        for name, shape in (("w", (WIDTH, WIDTH)), ("b", (WIDTH,)))
    )
    x = v1.placeholder(tf.float32, (None, WIDTH))
    optimizer = v1.train.MomentumOptimizer(0.01, 0.9)
    pairs = optimizer.compute_gradients(forward(x, weights, biases))
    train = optimizer.apply_gradients(reduced(pairs))
    feed = {x: [[1.0] * WIDTH] * 4}
    options = v1.RunOptions()
    options.experimental.collective_graph_key = 1
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train, feed, options)


def forward(x, weights, biases):
    for at, (weight, bias) in enumerate(zip(weights, biases)):
        with tf.name_scope("block_%d/" % (at // 10)), tf.name_scope("layer_%d" % at):
            x = tf.nn.relu(tf.matmul(x, weight) + bias)
    return tf.reduce_mean(x)


def reduced(pairs):
    """Reduce the gradients of each quarter of the variables together, as strategies do."""
    size = -(-len(pairs) // BUCKETS)
    found = []
    for bucket in range(BUCKETS):
        part = pairs[bucket * size : (bucket + 1) * size]
        flat = tf.concat([tf.reshape(gradient, [-1]) for gradient, _ in part], 0)
        total = collective_ops.all_reduce(flat, 1, 1, bucket + 1, "Add", "Id")
        sizes = [int(variable.shape.num_elements()) for _, variable in part]
        for piece, (_, variable) in zip(tf.split(total, sizes), part):
            found.append((tf.reshape(piece, variable.shape), variable))
    return found


def in_function():
    weights, biases = (
        [tf.Variable(tf.random.normal(shape, stddev=0.3)) for _ in range(LAYERS)]
        for shape in ((WIDTH, WIDTH), (WIDTH,))
    )
    x = tf.ones((4, WIDTH))

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            loss = forward(x, weights, biases)
        variables = weights + biases
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.01 * gradient)

    for _ in range(STEPS):
        train()


if __name__ == "__main__":
    main()
