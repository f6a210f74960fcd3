"""`tfprobe run` once a rank: all launches of a job share one run, and no two jobs do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.process.launching import PATIENCE_S, Launcher, environment
from tests.support import toy_tensorflow

STEPS = """
import tensorflow.python.client.session as session_module
session = session_module.BaseSession()
for _ in range(20):
    session.run("loss")
"""


@pytest.fixture
def job(launcher: Launcher, python: str) -> tuple[str, ...]:
    """A command of twenty steps."""
    toy_tensorflow.write(launcher.work)
    return (python, "-c", STEPS)


def _rank(number: int, world: int = 4, job: str = "1") -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(number),
        "OMPI_COMM_WORLD_SIZE": str(world),
        "OMPI_MCA_orte_precondition_transports": f"{job}-f00d",
    }


def _together(
    launcher: Launcher, ranks: Sequence[dict[str, str]], job: Sequence[str], *flags: str
) -> list[bytes]:
    """Start all launches at once; return what each said on stderr."""
    launches = [
        subprocess.Popen(
            [launcher.program, "run", "-o", launcher.output, *flags, "--", *job],
            stderr=subprocess.PIPE,
            cwd=launcher.work,
            env=environment({"PYTHONPATH": str(launcher.work), **rank}),
        )
        for rank in ranks
    ]
    said = [launch.communicate(timeout=PATIENCE_S)[1] for launch in launches]
    assert [launch.returncode for launch in launches] == [0] * len(launches)
    return said


def _ranks_of(run: Path) -> list[int]:
    files = run.glob("*/*/process.json")
    return sorted(json.loads(file.read_text())["rank"]["index"] for file in files)


def test_ranks_that_mpirun_starts_share_one_run(launcher: Launcher, job) -> None:
    """Sixteen at once, none of which finds it there: one whole run, nothing beside it."""
    _together(launcher, [_rank(number, 16) for number in range(16)], job)

    (run,) = launcher.runs()
    assert _ranks_of(run) == list(range(16))
    assert len(list((run / "launches").iterdir())) == 15
    assert not list(launcher.output.rglob(".tmp-*"))


def test_each_launch_is_told_once(launcher: Launcher, job) -> None:
    """run.json is the first's; the others have the same facts of their own beside it."""
    _together(launcher, [_rank(number) for number in range(4)], job)

    (run,) = launcher.runs()
    manifests = [json.loads(path.read_text()) for path in (run / "launches").iterdir()]
    manifests.append(json.loads((run / "run.json").read_text()))
    assert {manifest["id"] for manifest in manifests} == {run.name}
    assert len({manifest["pid"] for manifest in manifests}) == 4
    ranks = {manifest["environment"]["OMPI_COMM_WORLD_RANK"] for manifest in manifests}
    assert ranks == {"0", "1", "2", "3"}


def test_other_jobs_get_other_runs(launcher: Launcher, job) -> None:
    """A job is told by what its launcher made up for it."""
    _together(launcher, [_rank(0), _rank(1), _rank(0, job="2"), _rank(1, job="2")], job)

    assert [_ranks_of(run) for run in launcher.runs()] == [[0, 1], [0, 1]]


def test_a_job_that_comes_again_is_not_mixed_with_the_last(launcher: Launcher, job) -> None:
    """The same name and a rank that is there already: the next run of that name."""
    ranks = [{"PMI_RANK": str(number), "PMI_SIZE": "2"} for number in range(2)]

    for _ in range(3):
        for rank in ranks:
            _together(launcher, [rank], job, "--join", "exp7")

    names = [run.name for run in launcher.runs()]
    assert names == ["exp7", "exp7-2", "exp7-3"]
    assert [_ranks_of(run) for run in launcher.runs()] == [[0, 1]] * 3


def test_a_run_that_is_long_over_is_not_joined(launcher: Launcher, job) -> None:
    """Without ranks to tell jobs apart, a name that was used an hour ago begins anew."""
    launcher.run("--join", "exp7", "--", *job, env={"PYTHONPATH": str(launcher.work)})
    launcher.run("--join", "exp7", "--", *job, env={"PYTHONPATH": str(launcher.work)})
    (run,) = launcher.runs()
    for path in (run / "boot", run / "run.json", run / "launches"):
        hour_ago_s = path.stat().st_mtime - 3600
        os.utime(path, (hour_ago_s, hour_ago_s))

    again = launcher.run("--join", "exp7", "--", "true")

    assert again.run.name == "exp7-2"


def test_a_name_may_be_given_by_a_variable_or_a_file(launcher: Launcher) -> None:
    """Which is how a manifest of Kubernetes gives it."""
    by_variable = launcher.run("--", "true", env={"TFPROBE_JOIN": "job-17"})
    launcher.write("tfprobe.toml", "[run]\njoin = 'from-file'\n")
    by_file = launcher.run("--", "true")

    assert by_variable.run.name == "job-17"
    assert by_file.run.name == "from-file"


def test_off_keeps_a_rank_to_itself(launcher: Launcher) -> None:
    """Each launch has a run of its own, whatever the launcher tells."""
    ended = launcher.run("--join", "off", "--", "true", env=_rank(0))

    assert not ended.run.name.startswith("mpi-")
    assert not (ended.run / "launches").exists()


def test_the_only_process_of_mpirun_has_a_run_of_its_own(launcher: Launcher) -> None:
    """There is nobody to share with."""
    assert not launcher.run("--", "true", env=_rank(0, 1)).run.name.startswith("mpi-")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "latest", "x" * 101, "ä"])
def test_a_name_that_is_none_is_a_mistake(launcher: Launcher, name: str) -> None:
    """Said before the job starts."""
    ended = launcher.tfprobe("run", "-o", launcher.output, f"--join={name}", "--", "true")

    assert ended.status == 2
    assert b"--join" in ended.stderr
    assert not launcher.runs()


def test_other_settings_are_not_mixed_in(launcher: Launcher) -> None:
    """A launch that samples otherwise records by itself, and says so in one line."""
    first = launcher.run("--join", "exp7", "--", "true")
    other = launcher.run("--join", "exp7", "--every", "5", "--", "true")

    assert (other.status, len(launcher.runs())) == (0, 2)
    note, recording = other.stderr.decode().splitlines()
    assert "exp7" in note
    assert "run of its own" in note
    assert recording != f"tfprobe: recording to {first.run}"


def test_what_is_in_the_way_is_left_alone(launcher: Launcher) -> None:
    """A file, or somebody's directory, of that name."""
    launcher.output.mkdir(mode=0o700)
    (launcher.output / "exp7").write_text("mine")
    (launcher.output / "exp7-2").mkdir()

    ended = launcher.run("--join", "exp7", "--", "true")

    assert ended.run.name == "exp7-3"
    assert (launcher.output / "exp7").read_text() == "mine"
    assert not list((launcher.output / "exp7-2").iterdir())


def test_a_run_with_a_live_launch_is_running(launcher: Launcher, start) -> None:
    """Whichever of its launches that is; and removing it is refused."""
    launcher.run("--join", "exp7", "--", "true")
    start("--join", "exp7")

    (line,) = json.loads(launcher.tfprobe("ls", launcher.output, "--json").stdout)["runs"]
    removal = launcher.tfprobe("rm", "-o", launcher.output, "exp7")

    assert line["state"] == "running"
    assert removal.status != 0
    assert (launcher.output / "exp7" / "run.json").exists()


def test_the_last_launch_to_end_reports(launcher: Launcher, job) -> None:
    """One report of all ranks, not one a rank while others still run."""
    said = _together(launcher, [_rank(number) for number in range(3)], job, "--report")

    assert sum(b"session_run" in each for each in said) >= 1


def test_a_place_that_cannot_be_written_costs_one_line(launcher: Launcher) -> None:
    """And the command runs."""
    launcher.output.write_text("a file")

    ended = launcher.run("--join", "exp7", "--", "echo", "ran")

    assert (ended.status, ended.stdout) == (0, b"ran\n")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.skipif(
    shutil.which("mpirun") is None and "CI" not in os.environ, reason="Open MPI is not here"
)
@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
def test_a_real_mpirun_makes_one_run(launcher: Launcher, job, inside: bool) -> None:
    """With tfprobe inside of it, once a rank, and with tfprobe in front of it."""
    mpirun = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4")
    tfprobe = (str(launcher.program), "run", "-o", str(launcher.output), "--")
    words = (*mpirun, *tfprobe, *job) if inside else (*tfprobe, *mpirun, *job)

    ended = launcher.bare(*words, env={"PYTHONPATH": str(launcher.work)})

    assert ended.status == 0, ended.stderr.decode()
    (run,) = launcher.runs()
    assert _ranks_of(run) == [0, 1, 2, 3]
