"""A process of the job allows the stack sampler to read it only if the launcher asks for that."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import Laboratory, load

# prctl is replaced before the agent calls it, and its arguments are printed.
JOB = """
import ctypes, os
calls = []
class Library:
    def __getattr__(self, name):
        def call(*arguments):
            calls.append((name, [getattr(argument, "value", argument) for argument in arguments]))
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


def _calls(laboratory: Laboratory, env: dict[str, str]) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", JOB],
        env=laboratory.environment(env), capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert ended.stderr == ""
    return ended.stdout.splitlines()


def test_a_process_allows_it_at_its_start_and_in_each_fork(laboratory: Laboratory) -> None:
    """For the pid that the launcher passed."""
    calls = _calls(laboratory.arm(), {"TFPROBE_PTRACER": "4711"})

    assert sorted(calls) == [f"[{ALLOWED}]", f"[{ALLOWED}]"]


def test_nothing_is_called_unless_requested(laboratory: Laboratory) -> None:
    """That is wherever the kernel does not require it."""
    assert _calls(laboratory.arm(), {}) == ["[]", "[]"]


@pytest.mark.parametrize("pid", ["", "x", "-1"])
def test_an_invalid_pid_allows_nobody(pid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a job does to its environment."""
    monkeypatch.setenv("TFPROBE_PTRACER", pid)

    assert load("config").ptracer() is None


def test_without_ctypes_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent imports nothing that the job has not imported."""
    hooks = load("hooks")
    modules: dict[str, Any] = {}
    monkeypatch.setenv("TFPROBE_PTRACER", "5")
    monkeypatch.setattr(hooks, "sys", SimpleNamespace(modules=modules))

    hooks._allow_ptracer()

    assert modules == {}
