"""A front end: executes cells, interrupts one, restarts the kernel; prints all answers as JSON."""

import json
import sys
import threading
import time

from jupyter_client.manager import start_new_kernel

DEFINE = [
    "import jax\nimport jax.numpy as jnp\nsteps = 0",
    "@jax.jit\ndef train_step(w, x):\n    y = jnp.tanh(x @ w)\n"
    "    return w - 1e-3 * x.T @ y, (y * y).mean()",
    "def train(count):\n"
    "    global steps\n"
    "    w, x = jnp.ones((64, 64)), jnp.ones((128, 64))\n"
    "    for _ in range(count):\n"
    "        w, loss = train_step(w, x)\n"
    "        steps += 1\n"
    "        if steps % 10 == 0: float(loss)",
]
TRAIN = "train(300)\nprint(steps)"
# Interrupted when it has printed its line.
FOREVER = "train(10)\nprint('begun', flush=True)\nwhile True:\n    train(10)"
# Python loses an interrupt that reaches it in a callback of JAX's: a person would press again.
PATIENCE_S = 10
# How long no cell runs, between two.
PAUSE_S = 1.5


class Kernel:
    """A kernel, and what its cells answered."""

    def __init__(self):
        self.manager, self.client = start_new_kernel(kernel_name="python3")
        self.answers = []

    def execute(self, code, interrupt_at=None):
        """Execute a cell; interrupt it when it prints this text."""
        answer = {"code": code, "stdout": "", "stderr": "", "error": None, "html": False}
        ended = threading.Event()

        def interrupt():
            self.manager.interrupt_kernel()
            while not ended.wait(PATIENCE_S):
                self.manager.interrupt_kernel()

        def take(message):
            content = message["content"]
            if message["msg_type"] == "stream":
                answer[content["name"]] += content["text"]
                if interrupt_at is not None and interrupt_at in content["text"]:
                    threading.Thread(target=interrupt, daemon=True).start()
            elif message["msg_type"] == "error":
                answer["error"] = content["ename"] + ": " + content["evalue"]
            elif message["msg_type"] == "display_data":
                answer["html"] = "text/html" in content["data"]

        try:
            self.client.execute_interactive(code, output_hook=take, timeout=120)
        finally:
            ended.set()
        self.answers.append(answer)

    def restart(self):
        """Start the kernel anew, as `Restart Kernel` does."""
        self.manager.restart_kernel(now=False)
        self.client.wait_for_ready(timeout=60)


def main(extra):
    """Train, wait, interrupt, train, execute the cells that are given, restart and train."""
    kernel = Kernel()
    for code in [*DEFINE, TRAIN]:
        kernel.execute(code)
    time.sleep(PAUSE_S)
    kernel.execute(FOREVER, interrupt_at="begun")
    kernel.execute(TRAIN)
    for code in extra:
        kernel.execute(code)
    kernel.restart()
    for code in [*DEFINE, TRAIN]:
        kernel.execute(code)
    kernel.manager.shutdown_kernel(now=False)
    print(json.dumps(kernel.answers))


main(sys.argv[1:])
