"""A job loads no code that another user decides on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tfprobe.launch import ownership, prepare
from tfprobe.launch.settings import BadSetting, gather

STRANGER = 42424
Give = Callable[[Path], None]


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Make something another user's: as root in truth, else by being another user oneself."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, STRANGER, -1, follow_symlinks=False)
            return
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
        monkeypatch.setattr(ownership, "owner_of_new", lambda _: STRANGER)

    return give


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tfprobe.toml that sets the output, above the working directory."""
    path = tmp_path / "tfprobe.toml"
    path.write_text('[run]\noutput = "theirs"\n')
    path.chmod(0o644)
    (tmp_path / "cwd").mkdir()
    return path


def _output(config: Path, **environment: str) -> str:
    return gather({}, environment, str(config.parent / "cwd")).output


def test_ones_own_file_is_used(config: Path) -> None:
    """As ever."""
    assert _output(config) == str(config.parent / "theirs")


def test_a_file_of_another_user_is_refused(config: Path, give_away: Give) -> None:
    """It would choose where the job's code comes from."""
    give_away(config)

    with pytest.raises(BadSetting, match="belongs to user") as refused:
        _output(config)

    assert "\n" not in str(refused.value)
    assert "TFPROBE_CONFIG" in refused.value.hint


def test_a_link_of_another_user_is_refused(config: Path, give_away: Give) -> None:
    """Also one to a file of one's own: relative paths in it begin where the link lies."""
    target = config.rename(config.with_name("mine.toml"))
    config.symlink_to(target)
    assert _output(config) == str(config.parent / "theirs")
    give_away(config)

    with pytest.raises(BadSetting, match="belongs to user"):
        _output(config)


@pytest.mark.parametrize("mode", [0o646, 0o666])
def test_a_file_that_all_can_write_is_refused(config: Path, mode: int) -> None:
    """Its owner says nothing then."""
    config.chmod(mode)

    with pytest.raises(BadSetting, match="can be written by other users"):
        _output(config)


@pytest.mark.parametrize(("private", "refused"), [(True, False), (False, True)])
def test_a_group_of_ones_own_may_write(
    config: Path, monkeypatch: pytest.MonkeyPatch, private: bool, refused: bool
) -> None:
    """Most systems give each user such a group, and a umask that lets it write."""
    monkeypatch.setattr(ownership, "_is_private_group", lambda _: private)
    config.chmod(0o664)

    if refused:
        with pytest.raises(BadSetting, match="can be written by other users"):
            _output(config)
    else:
        assert _output(config) == str(config.parent / "theirs")


def test_a_file_that_is_named_may_be_anybodys(config: Path, give_away: Give) -> None:
    """Who names it has chosen it; /dev/null is a file without settings."""
    give_away(config)
    cwd = str(config.parent / "cwd")

    assert _output(config, TFPROBE_CONFIG=str(config)) == str(config.parent / "theirs")
    assert _output(config, TFPROBE_CONFIG="/dev/null") == f"{cwd}/tfprobe-runs"


def test_root_by_sudo_trusts_who_it_was_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """As git does; nobody else's word on that counts."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert ownership.trusted({"SUDO_UID": "1000"}) == {0, 1000}
    assert ownership.trusted({"SUDO_UID": "x"}) == {0}

    monkeypatch.setattr(os, "geteuid", lambda: 7)
    assert ownership.trusted({"SUDO_UID": "1000"}) == {0, 7}


def _prepare(output: Path) -> prepare.PreparedRun:
    return prepare.prepare(gather({"output": str(output)}, {}, "/"), ["job"], environment={})


def test_an_output_directory_of_another_user_is_refused(tmp_path: Path, give_away: Give) -> None:
    """Its owner could put other code in the place of a run's."""
    output = tmp_path / "runs"
    output.mkdir()
    give_away(output)

    with pytest.raises(prepare.CannotPrepare, match="belongs to user") as refused:
        _prepare(output)

    assert "\n" not in str(refused.value)
    assert os.listdir(output) == []


def test_a_link_of_another_user_on_the_way_is_refused(tmp_path: Path, give_away: Give) -> None:
    """Its owner could let it lead elsewhere while the job runs."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    assert _prepare(tmp_path / "link" / "runs").folder.boot.is_dir()
    if os.geteuid():
        pytest.xfail("only root can make a link another user's and keep the directory")
    give_away(tmp_path / "link")

    with pytest.raises(prepare.CannotPrepare, match="a link that belongs to user"):
        _prepare(tmp_path / "link" / "runs")


def test_directories_above_may_be_another_users(tmp_path: Path) -> None:
    """A container's root records below a directory of the host's user."""
    if os.geteuid() == 0:
        os.chown(tmp_path, STRANGER, -1)

    assert _prepare(tmp_path / "runs").note == ""


def test_a_file_server_may_take_this_user_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a new directory is of the same owner, the old one is ours."""
    monkeypatch.setattr(ownership, "owner", lambda _: STRANGER)

    assert _prepare(tmp_path / "runs").folder.boot.is_dir()


@pytest.mark.parametrize(("mode", "is_told"), [(0o777, True), (0o1777, False), (0o755, False)])
def test_a_directory_that_all_can_write_is_told(tmp_path: Path, mode: int, is_told: bool) -> None:
    """Volumes of containers are often so: the run is recorded, and one line says so."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume").chmod(mode)

    run = _prepare(tmp_path / "volume" / "runs")

    assert (f"other users can write to {tmp_path}/volume and" in run.note) is is_told
