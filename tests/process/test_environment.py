"""What a job inherits: its own environment, with one entry more in PYTHONPATH."""

from __future__ import annotations

import os

import pytest

from tests.process.launching import Launcher

SHOW_PYTHONPATH = ("sh", "-c", 'echo "${PYTHONPATH-unset}"')
SHOW_PATH = "import sys; print(*map(repr, sys.path), sep='\\n')"


@pytest.mark.parametrize(
    ("inherited", "rest"),
    [(None, ""), ("", ""), (":x", "::x"), ("x::y", ":x::y"), ("/a:/b/", ":/a:/b/"), (":", "::")],
)
def test_pythonpath_gets_one_entry_more(launcher: Launcher, python, inherited, rest) -> None:
    """Ours comes first; no empty element, which means the current directory, comes or goes."""
    variables = {"PYTHONPATH": inherited}

    ended = launcher.run("--", *SHOW_PYTHONPATH, env=variables)
    bare = launcher.bare(python, "-c", SHOW_PATH, env=variables)
    recorded = launcher.run("--", python, "-c", SHOW_PATH, env=variables)

    assert ended.stdout.decode() == f"{ended.run}/boot{rest}\n"
    assert recorded.stdout == bare.stdout


def test_an_inner_launch_replaces_the_outer(launcher: Launcher, python) -> None:
    """Nested launches record into the inner run and keep the user's entries in their order."""
    inner = (launcher.program, "run", "-o", launcher.output, "--")

    ended = launcher.run("-q", "--", *inner, *SHOW_PYTHONPATH, env={"PYTHONPATH": "/a::/b"})
    seen = launcher.run("-q", "--", *inner, python, "-c", SHOW_PATH, env={"PYTHONPATH": "/a::/b"})
    bare = launcher.bare(python, "-c", SHOW_PATH, env={"PYTHONPATH": "/a::/b"})

    assert ended.stdout.decode() == f"{ended.run}/boot:/a::/b\n"
    assert seen.stdout == bare.stdout


def test_nothing_else_changes(launcher: Launcher) -> None:
    """Every other variable arrives as it was, also in the C locale, which Python changes."""
    variables = {"LANG": None, "ODD": "a\nb=c", "EMPTY": "", "TFPROBE_OUTPUT": "elsewhere"}

    bare = launcher.bare("env", "-0", env=variables).stdout.split(b"\0")
    recorded = launcher.run("--", "env", "-0", env=variables).stdout.split(b"\0")

    ours = [entry for entry in recorded if entry.startswith(b"PYTHONPATH=")]
    assert len(ours) == 1
    assert sorted(set(recorded) - set(ours)) == sorted(bare)


def test_bytes_that_are_no_text_survive(launcher: Launcher) -> None:
    """Arguments and variables are bytes to the system, and arrive so."""
    odd = os.fsdecode(b"\xff\xfe odd")

    ended = launcher.run("--", "sh", "-c", 'printf "%s|%s" "$1" "$ODD"', "-", odd, env={"ODD": odd})

    assert ended.stdout == b"\xff\xfe odd|\xff\xfe odd"
    assert ended.run.joinpath("run.json").exists()


def test_env_i_is_only_unrecorded(launcher: Launcher, python) -> None:
    """A wrapper that drops the environment drops us too, and the job runs as ever."""
    ended = launcher.run("--", "env", "-i", python, "-c", SHOW_PATH)
    bare = launcher.bare("env", "-i", python, "-c", SHOW_PATH)

    assert (ended.status, ended.stdout) == (0, bare.stdout)
    assert not ended.run.joinpath("boot", "interpreters.tsv").exists()


@pytest.mark.parametrize(("flag", "reports"), [("-I", 0), ("-E", 0), ("-S", 0), ("-u", 1)])
def test_interpreters_report_in(launcher: Launcher, python, flag, reports) -> None:
    """A line for each interpreter that loaded the recorder; isolated ones cannot."""
    ended = launcher.run("--", python, flag, "-c", "pass")

    file = ended.run / "boot" / "interpreters.tsv"
    assert len(file.read_text().splitlines() if file.exists() else []) == reports


def test_python27_is_left_alone(launcher: Launcher, python27) -> None:
    """An interpreter too old to record prints what it prints, and nothing else."""
    ended = launcher.run("--", python27, "-c", "import sys; print 'old', sys.version_info[0]")

    assert (ended.status, ended.stdout, ended.own_stderr) == (0, b"old 2\n", b"")


def test_debug_is_an_absolute_path_for_the_job(launcher: Launcher) -> None:
    """A job that changes its directory still writes to the file that was named."""
    ended = launcher.run("--debug", "log", "--", "sh", "-c", 'echo "$TFPROBE_DEBUG"')

    assert ended.stdout.decode() == f"{launcher.work}/log\n"


@pytest.mark.parametrize("way", ["flag", "variable"])
def test_disabled_is_as_if_never_there(launcher: Launcher, way) -> None:
    """The master switch leaves no run, no word and no variable."""
    flags = ["--disable"] if way == "flag" else []
    variables = {"TFPROBE_DISABLE": "1"} if way == "variable" else {}

    ended = launcher.run(*flags, "--", *SHOW_PYTHONPATH, env=variables)

    assert (ended.status, ended.stdout, ended.stderr) == (0, b"unset\n", b"")
    assert launcher.runs() == []


USERS_OWN = {
    "fine": "import sys; sys.users_own = 1; print('sitecustomize of the user')\n",
    "raising": "raise ValueError('the user made a mistake')\n",
    "missing a module": "import no_such_module_at_all\n",
}


@pytest.mark.parametrize("kind", USERS_OWN)
def test_the_users_sitecustomize_runs_as_ever(launcher: Launcher, python, kind) -> None:
    """It runs, and its mistakes look as without us."""
    launcher.write("site/sitecustomize.py", USERS_OWN[kind])
    show = "import sys; print(sys.modules.get('sitecustomize'), hasattr(sys, 'users_own'))"
    variables = {"PYTHONPATH": f"{launcher.work}/site"}

    bare = launcher.bare(python, "-c", show, env=variables)
    # The launcher is a Python too; isolated, it does not show the same mistake a second time.
    isolated = (python, "-I", launcher.program, "run", "-o", launcher.output)
    recorded = launcher.bare(*isolated, "--", python, "-c", show, env=variables)

    assert recorded.stdout == bare.stdout
    assert recorded.status == bare.status
    assert recorded.own_stderr == bare.stderr


def test_a_sitecustomize_that_exits_ends_the_interpreter(launcher: Launcher, python) -> None:
    """Python calls that a fatal error; the status is the same, its traceback has a frame more."""
    launcher.write("site/sitecustomize.py", "raise SystemExit(8)\n")
    variables = {"PYTHONPATH": f"{launcher.work}/site"}

    bare = launcher.bare(python, "-c", "print(1)", env=variables)
    isolated = (python, "-I", launcher.program, "run", "-o", launcher.output)
    recorded = launcher.bare(*isolated, "--", python, "-c", "print(1)", env=variables)

    assert (recorded.status, recorded.stdout) == (bare.status, bare.stdout)
    assert recorded.own_stderr.splitlines()[-1] == bare.stderr.splitlines()[-1]


def test_an_empty_output_variable_means_the_default(launcher: Launcher) -> None:
    """A variable without a value is no setting."""
    launcher.tfprobe("run", "-q", "--", "true", env={"TFPROBE_OUTPUT": ""})

    assert len(list((launcher.work / "tfprobe-runs").iterdir())) == 1
