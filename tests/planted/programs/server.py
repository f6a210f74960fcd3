"""A server that answers each request by model.predict; it waits for requests in between."""

import queue
import threading
import time

import numpy as np
import tensorflow as tf

from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
model = tf.keras.Sequential([tf.keras.layers.Dense(128, activation="relu")] * 3)
model.build((None, 128))
answer = tf.function(lambda row: model(row, training=False))
model.predict(np.ones((1, 128), "float32"), verbose=0)
answer(tf.ones((1, 128)))
requests, answers = queue.Queue(), queue.Queue()


def client():
    while True:
        requests.put(np.ones((1, 128), "float32"))
        answers.get()
        time.sleep(0.02)


threading.Thread(target=client, daemon=True).start()
busy_s = []
while watch.running():
    request = requests.get()
    begun = now()
    if options.mended:
        answers.put(answer(tf.constant(request)).numpy())
    else:
        answers.put(model.predict(request, verbose=0))  # planted
        watch.took(begun)
    busy_s.append(now() - begun)
    watch.unit()
steady_s = busy_s[len(busy_s) // 5 :]
watch.finish(unit_s=sum(steady_s) / len(steady_s))
