"""What has left the group of a job's processes is found by its mount namespace, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tfprobe.trial.namespace import kill_processes_in, other_namespace

PATIENCE_S = 30
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


@pytest.fixture
def apart() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes, each in a mount namespace of its own."""
    started = [subprocess.Popen([*UNSHARE, "sleep", "600"]) for _ in range(2)]
    yield started
    for process in started:
        process.kill()
        process.wait()


def namespace_of(process: subprocess.Popen[bytes]) -> int:
    """Return a descriptor of its namespace, once it has one."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := other_namespace(process.pid)) is None:
        if process.poll() is not None:
            pytest.skip("this machine allows no mount namespace to this user")
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def test_only_processes_of_the_namespace_are_killed(apart) -> None:
    """The other one runs on."""
    first, second = apart
    namespace, other = namespace_of(first), namespace_of(second)

    kill_processes_in(namespace)

    assert first.wait(PATIENCE_S) == -signal.SIGKILL
    assert second.poll() is None
    os.close(namespace)
    os.close(other)


def test_a_namespace_that_nobody_is_in_keeps_its_number(apart) -> None:
    """The kernel would give it to the next one, whose processes are strangers."""
    first, second = apart
    namespace = namespace_of(first)
    first.kill()
    first.wait()

    later = [subprocess.Popen([*UNSHARE, "sleep", "600"]) for _ in range(8)]
    try:
        descriptors = [namespace_of(process) for process in later]
        kill_processes_in(namespace)
        time.sleep(0.1)

        assert all(process.poll() is None for process in (second, *later))
    finally:
        for process in later:
            process.kill()
            process.wait()
    for descriptor in (namespace, *descriptors):
        os.close(descriptor)


def test_the_namespace_of_this_process_is_no_other_one() -> None:
    """Nor is that of a process that has ended."""
    ended = subprocess.Popen(["true"])
    ended.wait()

    assert other_namespace(os.getpid()) is None
    assert other_namespace(ended.pid) is None
