"""A process of the job allows the sampler to read it only where the launcher says it must."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import Laboratory, load

# prctl is replaced before the agent asks for it: what it was called with is told.
JOB = """
import ctypes, os
calls = []
class Library:
    def __getattr__(self, name):
        def call(*arguments):
            calls.append((name, [getattr(each, "value", each) for each in arguments]))
        return call
ctypes.CDLL = lambda *_: Library()
import tensorflow.python.client.session as session_module
session_module.BaseSession().run("loss")
print(calls[:1], flush=True)
pid = os.fork()
if not pid:
    print(calls[1:], flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
ALLOWED = "('prctl', [1499557217, 4711, 0, 0, 0])"


def _told(laboratory: Laboratory, env: dict[str, str]) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", JOB],
        env=laboratory.environment(env), capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def test_a_process_allows_it_at_its_start_and_in_each_fork(laboratory: Laboratory) -> None:
    """By the pid that the launcher gave."""
    told = _told(laboratory.arm(), {"TFPROBE_PTRACER": "4711"})

    assert sorted(told) == [f"[{ALLOWED}]", f"[{ALLOWED}]"]


def test_nothing_is_called_where_nobody_asked(laboratory: Laboratory) -> None:
    """Which is wherever the kernel does not ask for it."""
    assert _told(laboratory.arm(), {}) == ["[]", "[]"]


@pytest.mark.parametrize("pid", ["", "x", "-1"])
def test_what_is_no_pid_allows_nobody(pid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a job does to its environment."""
    monkeypatch.setenv("TFPROBE_PTRACER", pid)

    assert load("config").ptracer() is None


def test_without_ctypes_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent imports nothing that the job has not."""
    hooks = load("hooks")
    modules: dict[str, Any] = {}
    monkeypatch.setenv("TFPROBE_PTRACER", "5")
    monkeypatch.setattr(hooks, "sys", SimpleNamespace(modules=modules))

    hooks._allow_ptracer()

    assert modules == {}
