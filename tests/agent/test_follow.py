"""A run of the real agent is followed while it grows, from its first step to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfprobe
from tests.support.agent import PATIENCE_S, Laboratory
from tests.support.plain import plain
from tfprobe.profile.reader.run_reader import RunReader, load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine

# Makes as many steps as each line of stdin says, in a forked child if it says so, and answers.
JOB = """
step = def_function.Function()
for line in sys.stdin:
    count, _, where = line.partition(" ")
    if where.strip() == "fork":
        child = os.fork()
        if child:
            os.waitpid(child, 0)
    if where.strip() != "fork" or not child:
        for _ in range(int(count)):
            session.run("loss")
            step(1)
    if where.strip() == "fork" and not child:
        sys.exit()
    sys.stdout.write("done\\n")
    sys.stdout.flush()
"""


class Job:
    """A job that runs its instructions, and is waited for."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._process = laboratory.start(JOB)

    def do(self, what: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{what}\n".encode())
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"done\n"

    def end(self) -> None:
        _, stderr = self._process.communicate(timeout=PATIENCE_S)
        assert (self._process.returncode, stderr) == (0, b"")


@pytest.fixture
def laboratory(tmp_path: Path) -> Laboratory:
    return Laboratory(tmp_path).arm(every=5)


def test_following_gives_what_loading_gives(laboratory: Laboratory) -> None:
    """Steps, captures, a fork that writes its own folder, and the exit."""
    folder, here = RunFolder(laboratory.run), this_machine()
    following, job = RunReader(folder, here), Job(laboratory)
    for what in ("0", "3", "12", "7 fork", "2000", "1"):
        job.do(what)

        assert plain(following.refresh()) == plain(load(folder, here))
    job.end()
    profile = following.refresh()

    assert plain(profile) == plain(load(folder, here))
    assert following.has_ended
    assert [process.state for process in profile.processes] == ["finished"] * 2
    assert sum(loop.count for loop in profile.loops) == 2 * (3 + 12 + 7 + 2000 + 1)


def test_follow_yields_each_step_once_and_ends_with_the_job(laboratory: Laboratory) -> None:
    """However its reads fall between the steps."""
    job = Job(laboratory)
    job.do("4")
    updates = tfprobe.open_run(laboratory.run).follow(every_s=0.01)
    received = [next(updates)]
    job.do("20")
    job.do("5 fork")
    job.end()
    received += updates

    counts = [steps.count for update in received for steps in update.steps]
    captures = [capture for update in received for capture in update.captures]
    assert sum(counts) == 2 * (4 + 20 + 5)
    assert len(captures) == len(received[-1].profile().captures) > 0
    assert [sum(len(part) for part in parts) for parts in (
        [update.appeared for update in received], [update.ended for update in received]
    )] == [2, 2]  # fmt: skip
    assert received[-1].profile().run.state == "finished"
