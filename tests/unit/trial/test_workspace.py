"""A trial leaves the user's files as they are: real namespaces, real mounts, real copies."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfprobe.trial import workspace as places
from tfprobe.trial.workspace import Isolation, Workspace, WorkspaceError, workspace

VANDAL = """
import os, pathlib, shutil
pathlib.Path("kept.txt").write_text("changed")
pathlib.Path("new.txt").write_text("new")
os.unlink("gone.txt")
shutil.rmtree("folder")
print(pathlib.Path("kept.txt").read_text())
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with files; home is another, empty one."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    folder = tmp_path / "job"
    (folder / "folder").mkdir(parents=True)
    for name in ("kept.txt", "gone.txt", "folder/deep.txt"):
        (folder / name).write_text(name)
    return folder


def tree(folder: Path) -> str:
    """Return a digest of all names and contents below a directory."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode())
        digest.update(path.read_bytes() if path.is_file() else b"/")
    return digest.hexdigest()


def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def vandalise(place: Workspace) -> str:
    """Run a program that changes everything it can reach; return what it printed."""
    arm = place.scratch / "arm"
    cwd = place.make(arm)
    overlays = [
        [str(part) for part in (one.path, one.upper, one.work)] for one in place.overlays(arm)
    ]
    code = (
        "import json, os, sys; from pathlib import Path; from tfprobe.trial.namespace import *; "
        "overlays, scratch, cwd, code = json.loads(sys.argv[1]); "
        "overlays and enter([Overlay(*map(Path, one)) for one in overlays], Path(scratch)); "
        "os.chdir(cwd); exec(code)"
    )
    arguments = json.dumps([overlays, str(place.scratch), str(cwd), VANDAL])
    done = subprocess.run(
        [sys.executable, "-c", code, arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.stdout


def test_a_job_in_an_overlay_changes_nothing(files, tmp_path) -> None:
    """It sees its own changes; the directory has the same digest afterwards."""
    before = tree(files)
    place = workspace(files, scratch(tmp_path))
    if place.isolation is not Isolation.OVERLAY:
        pytest.skip("this machine allows no overlay to this user")

    assert vandalise(place) == "changed\n"

    assert tree(files) == before
    assert {Path(name).name for name in place.written(place.scratch / "arm")} >= {"new.txt"}


def test_a_job_in_a_copy_changes_nothing(files, tmp_path, monkeypatch) -> None:
    """Where no overlay can be mounted."""
    monkeypatch.setattr(places, "_works", lambda _place: False)
    before = tree(files)
    place = workspace(files, scratch(tmp_path))

    assert place.isolation is Isolation.COPY
    assert vandalise(place) == "changed\n"

    assert tree(files) == before


def test_a_scratch_directory_below_the_job_stays_visible(files, tmp_path) -> None:
    """A job in the directory for temporary files finds its own overlay's files there."""
    place = workspace(tmp_path, scratch(tmp_path))
    if place.isolation is not Isolation.OVERLAY:
        pytest.skip("this machine allows no overlay to this user")
    before = tree(files)
    place = Workspace(place.isolation, files, place.overlaid, place.scratch)

    assert vandalise(place) == "changed\n"

    assert tree(files) == before


def test_the_root_directory_is_refused(tmp_path) -> None:
    """No overlay can lie over all file systems."""
    with pytest.raises(WorkspaceError, match="cannot be overlaid"):
        workspace(Path("/"), scratch(tmp_path))


def test_what_is_too_large_to_be_copied_is_refused(files, tmp_path, monkeypatch) -> None:
    """In one paragraph that says what to do."""
    monkeypatch.setattr(places, "_works", lambda _place: False)
    monkeypatch.setattr(places, "MOST_COPIED_BYTES", 10)

    with pytest.raises(WorkspaceError, match="too large to be copied") as refused:
        workspace(files, scratch(tmp_path))

    assert "smaller directory" in str(refused.value)
