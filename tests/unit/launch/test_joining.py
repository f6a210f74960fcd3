"""A launch joins a run that is its own user's and whole, and is held up by no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfprobe.launch import joining, ownership
from tfprobe.launch.joining import Agreed
from tfprobe.runs.layout import RunFolder

CONFIG = {"every": 10}
JOB = Agreed("job", rank=())


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run that another launch has just made."""
    return joining.enter(tmp_path, JOB, CONFIG)


def test_a_launch_joins_the_run_of_its_name(run: RunFolder, tmp_path: Path) -> None:
    """All launches of a name share one run."""
    assert joining.enter(tmp_path, JOB, CONFIG) == run


def test_a_run_of_another_user_is_not_joined(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs what lies in a run's boot/, and nobody else decides what that is."""
    owner = ownership.owner
    foreign = os.geteuid() + 1
    monkeypatch.setattr(ownership, "owner", lambda at: foreign if at == run.root else owner(at))

    joined = joining.enter(tmp_path, JOB, CONFIG)

    assert joined.id == "job-2"
    assert sorted(os.listdir(tmp_path)) == ["job", "job-2"]


def test_a_link_to_a_run_is_not_joined(run: RunFolder, tmp_path: Path) -> None:
    """In a directory of all users somebody else's link could lead elsewhere once the job runs."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "job").symlink_to(run.root)

    joined = joining.enter(shared, JOB, CONFIG)

    assert joined.id == "job-2"
    assert not joined.root.is_symlink()


def test_a_file_server_that_gives_all_files_to_one_user_is_no_hindrance(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There every run is of the user that a new one is of, too."""
    monkeypatch.setattr(ownership, "owner", lambda _: os.geteuid() + 1)

    assert joining.enter(tmp_path, JOB, CONFIG) == run


def test_a_pipe_in_a_run_holds_no_job_up(run: RunFolder, tmp_path: Path) -> None:
    """Settings that cannot be read are an error, at once."""
    run.config.unlink()
    run.manifest.write_text("{}")
    os.mkfifo(run.config)

    with pytest.raises(OSError, match="no regular file"):
        joining.enter(tmp_path, JOB, CONFIG)
