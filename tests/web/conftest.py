"""A server of recorded and made-up runs, a browser without a network, and windows that notice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.web import recordings

CHROMIUM = Path(os.environ.get("TFPROBE_TEST_CHROMIUM", "/usr/bin/chromium"))
FLAGS = (
    "--no-sandbox",  # who tests in a container is root there
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser takes seconds to start, and runs may be recorded first."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of all runs."""
    folder = tmp_path_factory.mktemp("runs")
    recordings.write_all(folder)
    return folder


@pytest.fixture(scope="session")
def address(serving: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    """The address that `tfprobe ui` prints, with its token."""
    with serving() as found:
        yield found


@pytest.fixture(scope="session")
def serving(runs: Path) -> Callable[..., AbstractContextManager[str]]:
    """Serve the runs, with what is found in some folders before all else; give the address."""
    return lambda *first: _serving(runs, first)


@contextmanager
def _serving(runs: Path, first: Sequence[Path]) -> Iterator[str]:
    command = [sys.executable, "-m", "tfprobe", "ui", str(runs), "--port", "0", "--no-browser"]
    places = os.pathsep.join(map(str, (*first, recordings.ROOT)))
    environment = {**os.environ, "PYTHONPATH": places}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            complaints = server.stderr.read()
    assert "Traceback" not in complaints


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium. Any: Playwright may not be installed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _lacking("Playwright is not installed here; see `make test-web`")
    if not CHROMIUM.exists():
        _lacking(f"there is no {CHROMIUM}; see `make test-web`")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Open windows at the server; the test fails of whatever a browser complains of in them."""
    from tests.web.visiting import Visitor

    opened: list[Visitor] = []

    def open_window(**context: Any) -> Visitor:
        opened.append(Visitor(browser, address, **context))
        return opened[-1]

    yield open_window
    complaints = [each for visitor in opened for each in visitor.unexpected()]
    for visitor in opened:
        visitor.close()
    assert complaints == []


@pytest.fixture
def visitor(visit: Callable[..., Any]) -> Any:
    """One window of usual size in light colours."""
    return visit(viewport={"width": 1440, "height": 900}, color_scheme="light")


def _lacking(what: str) -> NoReturn:
    """Skip; where all must be there, fail: a test that is never run finds nothing."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
