"""Fixtures: storages with runs in them, and a place for mirrors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.rundir import (
    LAYOUT,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)

if "CI" not in os.environ:
    pytest.importorskip("fsspec", reason="fsspec is not here")
    pytest.importorskip("aiohttp", reason="aiohttp is not here")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two processes of two hosts, with captures, an agent and caches."""
    processes = [
        WrittenProcess(
            pid=100 + rank,
            host=f"node{rank}",
            loops=[WrittenLoop(steps=regular_steps(10), sampled=[3])],
            header={LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS + 10**9},
            captures={"000003-session_run-0.run_metadata.pb": b"rank %d" % rank},
        )
        for rank in range(2)
    ]
    root = write_run(tmp_path / "here" / "r1", processes, manifest={"host": "node0", "pid": 100})
    (root / "boot" / "tfprobe_agent").mkdir()
    (root / "boot" / "tfprobe_agent" / "boot.py").write_text("the agent")
    (root / "derived").mkdir()
    (root / "derived" / "cache").write_text("large")
    (root / "node0" / ".tmp-half").write_text("half")
    return root


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Where mirrors go."""
    return tmp_path / "cache"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


class WebServer:
    """A plain web server of a directory, which lists directories as pages of links."""

    def __init__(self, directory: Path) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(_Quiet):
            def do_GET(self) -> None:
                asked.append(self.path)
                super().do_GET()

        handler = partial(Handler, directory=str(directory))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web(run: Path) -> Iterator[WebServer]:
    """The directory of the run, on the web."""
    server = WebServer(run.parent)
    yield server
    server.close()
