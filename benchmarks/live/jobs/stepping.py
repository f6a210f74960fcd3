"""Make steps of some ms, a little work and a sleep, until standard input ends. Toy TensorFlow."""

import sys
import threading
import time

import tensorflow.python.client.session as session_module

STEP_S = float(sys.argv[1]) / 1000
# What a training loop does itself in a step: enough to be slowed, too little to fill a core.
WORK = 1000

session = session_module.BaseSession()
ended = threading.Event()


def step():
    """Work and sleep."""
    total = 0
    for number in range(WORK):
        total += number
    time.sleep(STEP_S)
    return total


def wait():
    """Return when nobody is there any more to tell us to go on."""
    sys.stdin.read()
    ended.set()


threading.Thread(target=wait, daemon=True).start()
while not ended.is_set():
    session.run(step)
