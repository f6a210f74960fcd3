"""The program as a whole: its help, its page, its errors, its speed."""

from __future__ import annotations

import os
import re
import subprocess

import click
import pytest
from click.testing import CliRunner

from tests.process.launching import PATIENCE_S, ROOT, Launcher, environment
from tfprobe.cli.commands import COMMANDS, tfprobe_group

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def _command(name: str) -> click.Command:
    command = tfprobe_group.get_command(click.Context(tfprobe_group), name)
    assert command is not None
    return command


def _section(name: str) -> str:
    match = re.search(rf"^## tfprobe {name}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"docs/cli.md has no section for {name}"
    return match[1]


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDS])
def test_the_page_and_the_help_name_the_same_options(name: str) -> None:
    """docs/cli.md lists each command with each option, and no other."""
    options = [param for param in _command(name).params if isinstance(param, click.Option)]
    offered = {flag for option in options for flag in option.opts if flag.startswith("-")}
    if not options:  # reads its words by itself: what its help lists
        said = CliRunner().invoke(_command(name), ["--help"]).output
        offered = set(re.findall(r"^  (?:-h, )?(-[-\w]+)", said, re.MULTILINE)) - {"--help"}

    table = [line for line in _section(name).splitlines() if line.startswith("| `-")]
    listed = {
        flag for line in table for flag in re.findall(r"`(-[-\w]+)", line.split("|")[1])
    }  # fmt: skip

    assert listed == offered


def test_every_section_is_a_command() -> None:
    """Nothing is promised that does not exist."""
    sections = re.findall(r"^## tfprobe (\w+)$", PAGE, re.MULTILINE)

    assert sorted(sections) == sorted(entry.name for entry in COMMANDS)


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDS])
def test_every_command_has_help(launcher: Launcher, name: str) -> None:
    """--help prints to stdout and ends with 0, also for run, which parses by itself."""
    ended = launcher.tfprobe(name, "--help")

    assert (ended.status, ended.stderr) == (0, b"")
    assert f"Usage: tfprobe {name}" in ended.stdout.decode()


def test_help_of_the_job_is_the_jobs(launcher: Launcher) -> None:
    """What stands behind the command is never ours."""
    ended = launcher.run("-q", "echo", "--help", "-q", "--", "-o")

    assert ended.stdout == b"--help -q -- -o\n"


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_completion_is_printed(launcher: Launcher, shell: str) -> None:
    """The script asks the program itself, which answers."""
    script = launcher.tfprobe("completion", shell).stdout.decode()
    asked = {
        "_TFPROBE_COMPLETE": "bash_complete",
        "COMP_WORDS": "tfprobe run --ste",
        "COMP_CWORD": "2",
    }

    assert "_TFPROBE_COMPLETE" in script
    assert launcher.tfprobe(env=asked).stdout == b"plain,--steps\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "No such command 'nonsense'"),
        (("ls", "--nonsense"), "--nonsense"),
        (("completion", "ksh"), "'ksh'"),
    ],
)
def test_mistakes_are_one_paragraph(launcher: Launcher, arguments, words) -> None:
    """Status 2, one line on stderr, nothing on stdout."""
    ended = launcher.tfprobe(*arguments)

    assert (ended.status, ended.stdout) == (2, b"")
    assert ended.stderr.decode().startswith("tfprobe: ")
    assert words in ended.stderr.decode()
    assert len(ended.stderr.splitlines()) == 1


def test_the_version_is_the_packages(launcher: Launcher) -> None:
    """One version, in one place."""
    import tfprobe

    assert launcher.tfprobe("--version").lines() == [f"tfprobe, version {tfprobe.__version__}"]


def test_python_m_is_the_same_program(launcher: Launcher, python: str) -> None:
    """For those who have several."""
    ended = launcher.bare(python, "-m", "tfprobe", "--help", env={"PYTHONPATH": str(ROOT)})

    assert ended.stdout == launcher.tfprobe("--help").stdout


def test_a_closed_pipe_is_quiet(launcher: Launcher) -> None:
    """`tfprobe --help | head -0` says nothing on stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [launcher.program, "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment({}),
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(writing)

    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_launch_imports_no_heavy_library(launcher: Launcher, python: str) -> None:
    """click, numpy, rich and protobuf are for reading."""
    ended = launcher.bare(
        *(python, "-X", "importtime", launcher.program, "run", "-o", launcher.output, "-q"),
        *("--", "true"),
    )

    imported = {line.rsplit("|")[-1].strip() for line in ended.stderr.decode().splitlines()}
    assert imported & {"click", "google.protobuf", "numpy", "rich", "subprocess"} == set()
