"""What every test starts from, and which tests may be skipped where all must run."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

# Where CI=true any other skip fails the run: these depend on the machine, or on data that is not
# the project's.
MAY_BE_SKIPPED = re.compile(
    r"no recordings of others: "
    r"|no Python [\d.]+ is installed"
    r"|root may (read|write) (everything|everywhere|anywhere)"
    r"|mounting a small (disk|file system) needs root"
    r"|no tmpfs can be mounted here"
    r"|ptrace is forbidden here: "
    r"|no pid namespace can be made here"
    r"|this machine has (NVML|no IPv6)"
)
# Here a skip means another version; `python -m tests.matrix` sees to it that each test runs in
# one of them.
_OF_THE_MATRIX = (
    "tests/tf/",
    "tests/jax/",
    "tests/keras/",
    "tests/notebooks/",
    "tests/torch/",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let approval files be written anew."""
    parser.addoption("--approve", action="store_true", help="write tests/approval/approved anew")


def pytest_configure() -> None:
    """Let the processes of the tests be interrupted: a run started in the background of a script
    ignores SIGINT, and so would all its children.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run of CI in which a test was skipped that should have run."""
    if session.exitstatus == pytest.ExitCode.OK and _skipped_wrongly(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Name the skips that failed the run."""
    for line in _skipped_wrongly(config):
        terminalreporter.write_line(f"skipped, which fails a run where CI=true: {line}", red=True)


def _skipped_wrongly(config: pytest.Config) -> list[str]:
    """Return each skip that is no excuse, with its reason; none where skips are allowed."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if os.environ.get("CI") != "true" or reporter is None:
        return []
    return [
        f"{report.nodeid}: {reason}"
        for report in reporter.stats.get("skipped", [])
        if not report.nodeid.startswith(_OF_THE_MATRIX)
        and not MAY_BE_SKIPPED.match(reason := _reason(report))
    ]


def _reason(report: Any) -> str:
    longrepr = report.longrepr
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return str(text).removeprefix("Skipped: ")
