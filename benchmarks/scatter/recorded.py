"""Record one program again and again beside a load that changes, the same for each seed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

JOB = Path(__file__).resolve().parent / "jobs" / "layers.py"
# Of so many processes that never rest, a number runs that changes after 1 to 4 s.
LOAD_PROCESSES = 2
CHANGES_AFTER_S = (1.0, 4.0)


def record(python: Path, output: Path, *, name: str, layers: int, seconds: float) -> None:
    """Record one run of so many layers."""
    program = [str(python), str(JOB), str(layers), str(seconds)]
    command = [sys.executable, "-m", "tfprobe", "run", "-q", "--name", name, "-o", str(output)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(
        [*command, "--", *program], env=environment, check=True, stderr=subprocess.DEVNULL
    )


@contextlib.contextmanager
def changing_load(seed: int) -> Iterator[None]:
    """Keep the CPUs busy, more and less, until the block ends."""
    chance, is_over = random.Random(seed), threading.Event()
    with contextlib.ExitStack() as ended:
        others = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(LOAD_PROCESSES)
        ]
        for other in others:
            ended.callback(other.wait)
            ended.callback(other.kill)

        def change() -> None:
            while not is_over.is_set():
                running = chance.randint(0, LOAD_PROCESSES)
                for at, other in enumerate(others):
                    other.send_signal(signal.SIGCONT if at < running else signal.SIGSTOP)
                is_over.wait(chance.uniform(*CHANGES_AFTER_S))

        changing = threading.Thread(target=change)
        changing.start()
        try:
            yield
        finally:
            is_over.set()
            changing.join()
