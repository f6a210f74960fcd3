"""A trial leaves the user's files as they are: real namespaces, real mounts, real copies."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
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


def refuse_all(place: Workspace) -> set[Path]:
    """Answer as a machine that allows no overlay."""
    return set(place.overlaid)


def overlaid(cwd: Path, tmp_path: Path) -> Workspace:
    """Return the workspace of a directory, where this machine has overlays."""
    place = workspace(cwd, scratch(tmp_path))
    if place.isolation is not Isolation.OVERLAY:
        pytest.skip("this machine allows no overlay to this user")
    return place


def vandalise(place: Workspace) -> str:
    """Run a program that changes everything it can reach; return what it printed."""
    return run_in(place, VANDAL)


def run_in(place: Workspace, program: str, before: str = "") -> str:
    """Run a program as an arm, after `before`, which finds no overlay yet; return its output."""
    arm = place.scratch / "arm"
    cwd = place.make(arm)
    overlays = [
        [str(part) for part in (one.path, one.upper, one.work)] for one in place.overlays(arm)
    ]
    code = (
        "import json, os, sys; from pathlib import Path; from tfprobe.trial.namespace import *; "
        "overlays, scratch, cwd, before, code = json.loads(sys.argv[1]); exec(before); "
        "print(*enter([Overlay(*map(Path, one)) for one in overlays], Path(scratch)), sep='') "
        "if overlays else print(); os.chdir(cwd); exec(code)"
    )
    arguments = json.dumps([overlays, str(place.scratch), str(cwd), before, program])
    done = subprocess.run(
        [sys.executable, "-c", code, arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    refused, _, printed = done.stdout.partition("\n")
    assert not refused
    return printed


def test_a_job_in_an_overlay_changes_nothing(files, tmp_path) -> None:
    """It sees its own changes; the directory has the same digest afterwards."""
    before = tree(files)
    place = overlaid(files, tmp_path)

    assert vandalise(place) == "changed\n"

    assert tree(files) == before
    assert {Path(name).name for name in place.written(place.scratch / "arm")} >= {"new.txt"}


def test_temporary_files_are_not_listed(tmp_path) -> None:
    """An arm is stopped before it removes them; what a person has named is listed."""
    place = places.Workspace(places.Isolation.OVERLAY, tmp_path, (Path("/tmp"),), tmp_path)
    upper = place.overlays(tmp_path / "arm")[0].upper
    for name in (
        "tmpk3v_x9qa/part.bin",
        "pymp-5nntnv7f/listener-fezrpjnh",
        "__autograph_generated_filemddjdwqt.py",
        "model/__pycache__/layers.cpython-311.pyc",
        "tmp_results/loss.csv",
        "models/model.pt",
    ):
        (upper / name).parent.mkdir(parents=True, exist_ok=True)
        (upper / name).touch()

    assert sorted(place.written(tmp_path / "arm")) == [
        "/tmp/models/model.pt",
        "/tmp/tmp_results/loss.csv",
    ]


def test_a_job_in_a_copy_changes_nothing(files, tmp_path, monkeypatch) -> None:
    """Where no overlay can be mounted."""
    monkeypatch.setattr(places, "_refused", refuse_all)
    before = tree(files)
    place = workspace(files, scratch(tmp_path))

    assert place.isolation is Isolation.COPY
    assert vandalise(place) == "changed\n"

    assert tree(files) == before


def test_a_scratch_directory_below_the_job_stays_visible(files, tmp_path) -> None:
    """A job in the directory for temporary files finds its own overlay's files there."""
    place = overlaid(tmp_path, tmp_path)
    before = tree(files)
    place = Workspace(place.isolation, files, place.overlaid, place.scratch)

    assert vandalise(place) == "changed\n"

    assert tree(files) == before


def test_paths_may_have_any_characters(files, tmp_path) -> None:
    """Commas, colons and backslashes separate options of an overlay."""
    odd = tmp_path / "a, b:c\\d\ne"
    odd.mkdir()
    (files / "gone.txt").rename(odd / "gone.txt")
    for name in ("kept.txt", "folder"):
        (files / name).rename(odd / name)
    before = tree(odd)
    place = workspace(odd, scratch(odd))
    if place.isolation is not Isolation.OVERLAY:
        pytest.skip("this machine allows no overlay to this user")

    assert vandalise(place) == "changed\n"

    assert {path.name for path in odd.iterdir()} == {"gone.txt", "kept.txt", "folder", "scratch"}
    shutil.rmtree(odd / "scratch")
    assert tree(odd) == before


def test_a_job_that_writes_elsewhere_changes_nothing(files, tmp_path) -> None:
    """In the directory for temporary files, and in any other that is not of the system."""
    place = overlaid(files, tmp_path)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        target = Path(other) / "log.txt"
        target.write_text("kept")
        inside = Path(tempfile.gettempdir()) / f"tfprobe-{os.getpid()}.txt"

        run_in(
            place,
            f"from pathlib import Path; Path({str(target)!r}).write_text('changed'); "
            f"Path({str(inside)!r}).touch()",
        )

        assert target.read_text() == "kept"
        assert not inside.exists()
        assert {str(target), str(inside)} <= set(place.written(place.scratch / "arm"))


def test_a_job_reaches_servers_by_their_sockets(files, tmp_path) -> None:
    """A socket is not reached through an overlay: it lies over it."""
    place = overlaid(files, tmp_path)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/door")
        server.listen(1)

        program = (
            f"import socket; client = socket.socket(socket.AF_UNIX); "
            f"client.connect('{folder}/door'); client.sendall(b'reached')"
        )
        run_in(place, program)

        with server.accept()[0] as accepted:
            assert accepted.recv(16) == b"reached"


def test_a_job_sees_what_is_mounted_over_its_files(files, tmp_path) -> None:
    """A file over a file, as a container's secrets are, which no overlay can be laid over."""
    place = overlaid(files, tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("a token")
    over = files / "clé \\ 1.txt"
    over.touch()
    mount = (
        "import ctypes; from tfprobe.trial import namespace as n; libc = ctypes.CDLL(None, "
        "use_errno=True); n._unshare(libc); "
        f"n._mount(libc, {str(secret)!r}, {str(over)!r}, None, n._MS_BIND, None)"
    )

    program = f"print(open({over.name!r}).read()); open({over.name!r}, 'w').write('changed')"
    assert run_in(place, program, before=mount) == "a token\n"
    assert secret.read_text() == "a token"


def test_a_directory_of_before_can_be_renamed(files, tmp_path) -> None:
    """Where the kernel has that option, for root."""
    place = overlaid(files, tmp_path)
    if os.geteuid():
        pytest.skip("the option is root's")

    run_in(place, "import os; os.rename('folder', 'renamed'); open('renamed/deep.txt').read()")

    assert (files / "folder").is_dir()


def test_a_path_that_was_a_socket_is_a_file_now(files, tmp_path) -> None:
    """The kernel still lists it while the socket is open."""
    place = overlaid(files, tmp_path)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/door")
        os.unlink(f"{folder}/door")
        Path(folder, "door").write_text("kept")

        run_in(place, f"open('{folder}/door', 'w').write('changed')")

        assert Path(folder, "door").read_text() == "kept"


def test_a_mount_that_cannot_be_overlaid_is_copied(files, tmp_path, monkeypatch) -> None:
    """The working directory lies in it: an overlay over what is around it is not enough."""
    monkeypatch.setattr(places, "_overlaid", lambda _paths: (tmp_path, files))
    monkeypatch.setattr(places, "_refused", lambda _place: {files})

    place = workspace(files, scratch(tmp_path))

    assert place.isolation is Isolation.COPY


def test_a_copy_leaves_sockets_out(files, tmp_path, monkeypatch) -> None:
    """Nor has a pipe a copy."""
    monkeypatch.setattr(places, "_refused", refuse_all)
    os.mkfifo(files / "pipe")
    place = workspace(files, scratch(tmp_path))

    copy = place.make(place.scratch / "arm")

    assert {path.name for path in copy.iterdir()} == {"kept.txt", "gone.txt", "folder"}


def test_a_directory_that_is_gone_is_refused(tmp_path) -> None:
    """As of a shell whose directory was removed."""
    with pytest.raises(WorkspaceError, match="is gone"):
        workspace(tmp_path / "gone", scratch(tmp_path))


def test_what_the_kernel_refuses_stays_and_is_told(files, tmp_path, monkeypatch) -> None:
    """The rest is overlaid: here, the upper directory of one of them is no directory."""
    home = Path(os.environ["HOME"])
    monkeypatch.setattr(places, "_of_users", list)
    made = Workspace.make

    def spoil(place: Workspace, arm: Path) -> Path:
        cwd = made(place, arm)
        for overlay in place.overlays(arm):
            if overlay.path == home:
                overlay.work.rmdir()
                overlay.work.touch()
        return cwd

    monkeypatch.setattr(Workspace, "make", spoil)

    place = overlaid(files, tmp_path)

    assert place.refused == (home,)
    assert place.overlaid == (files,)


def test_a_server_that_does_not_answer_leaves_the_nearest(files, tmp_path, monkeypatch) -> None:
    """The attempt to overlay all fails, and what was not tried again is told."""
    far = tmp_path / "far"
    far.mkdir()
    monkeypatch.setattr(places, "_of_users", lambda: [far])
    tried = places._refused
    monkeypatch.setattr(
        places,
        "_refused",
        lambda place: refuse_all(place) if far in place.overlaid else tried(place),
    )

    place = overlaid(files, tmp_path)

    assert place.refused == (far,)
    assert set(place.overlaid) == {files, Path(os.environ["HOME"])}


def test_the_root_directory_is_refused(tmp_path) -> None:
    """No overlay can lie over all file systems."""
    with pytest.raises(WorkspaceError, match="cannot be overlaid"):
        workspace(Path("/"), scratch(tmp_path))


def test_what_is_too_large_to_be_copied_is_refused(files, tmp_path, monkeypatch) -> None:
    """In one paragraph that says what to do."""
    monkeypatch.setattr(places, "_refused", refuse_all)
    monkeypatch.setattr(places, "MOST_COPIED_BYTES", 10)

    with pytest.raises(WorkspaceError, match="too large to be copied") as refused:
        workspace(files, scratch(tmp_path))

    assert "smaller directory" in str(refused.value)
