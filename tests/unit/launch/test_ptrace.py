"""Whether one process may read another's memory here, in a word; and who is allowed to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfprobe.launch import ptrace, sidecars
from tfprobe.launch.sidecars import start_stack_sampler
from tfprobe.runs.layout import RunFolder

NO_CAPABILITIES, ALL = "0000000000000000", "000001ffffffffff"


@pytest.fixture
def proc(tmp_path: Path):
    """A /proc of a kernel with this ptrace_scope, for a process with these capabilities."""

    def write(scope: str | None, capabilities: str = NO_CAPABILITIES) -> Path:
        (tmp_path / "self").mkdir()
        (tmp_path / "self/status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
        if scope is not None:
            path = tmp_path / ptrace.YAMA
            path.parent.mkdir(parents=True)
            path.write_text(scope)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("scope", "capabilities", "is_refused", "must_allow"),
    [
        (None, NO_CAPABILITIES, False, False),
        ("0\n", NO_CAPABILITIES, False, False),
        ("1\n", NO_CAPABILITIES, False, True),
        ("1\n", ALL, False, False),
        ("2\n", NO_CAPABILITIES, True, False),
        ("2\n", ALL, False, False),
        ("3\n", ALL, True, False),
    ],
)
def test_what_yama_says(
    proc, monkeypatch: pytest.MonkeyPatch, scope, capabilities, is_refused, must_allow
) -> None:
    """0: all of one user; 1: those that are allowed; 2: CAP_SYS_PTRACE; 3: nobody."""
    monkeypatch.setattr(ptrace, "_can_read_memory", lambda: True)
    place = proc(scope, capabilities)

    assert (ptrace.refusal(place) is not None) is is_refused
    assert ptrace.needs_permission(place) is must_allow


def test_a_filter_of_system_calls_is_a_refusal(proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without SYS_PTRACE."""
    monkeypatch.setattr(ptrace, "_can_read_memory", lambda: False)

    assert "seccomp" in str(ptrace.refusal(proc(None)))


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Start a sampler that is none, where the kernel needs a permission or not."""
    allowed: list[int] = []
    program = tmp_path / "py-spy"
    program.touch(mode=0o700)
    monkeypatch.setattr(sidecars.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(ptrace, "refusal", lambda: None)
    monkeypatch.setattr(ptrace, "allow", allowed.append)

    def start(*, must_allow: bool, pid: int | None = 42, path: Path = tmp_path):
        monkeypatch.setattr(ptrace, "needs_permission", lambda: must_allow)
        monkeypatch.setattr(sidecars, "sampler", lambda *_, **__: pid)
        run = RunFolder(tmp_path)
        return *start_stack_sampler(run, {"PATH": os.fspath(path)}, is_shared=False), allowed

    return start


def test_the_job_allows_the_sampler_and_tells_its_children(launched) -> None:
    """What was allowed is not inherited."""
    assert launched(must_allow=True) == ({ptrace.VARIABLE: "42"}, "", [42])


def test_nothing_is_done_where_nothing_must_be_allowed(launched) -> None:
    """Not even a variable for the children."""
    assert launched(must_allow=False) == ({}, "", [])


def test_where_there_can_be_no_sampler_there_is_a_reason(launched, tmp_path: Path) -> None:
    """The job would become its parent; or py-spy is not there."""
    variables, reason, allowed = launched(must_allow=True, pid=None)
    assert (variables, allowed) == ({}, [])
    assert "child of the job" in reason

    _, reason, _ = launched(must_allow=True, path=tmp_path / "empty")
    assert reason.startswith("py-spy was not found")
