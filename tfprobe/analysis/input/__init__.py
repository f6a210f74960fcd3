"""Why steps wait for input: of tf.data, queues, feeds, and Python between steps."""
