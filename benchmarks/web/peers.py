"""Other programs that show the same recordings: how they are started and asked."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from server import Server, peer

# Perfetto's UI has drawn a trace when the names of its tracks are there.
VIZVIEWER_DRAWN = ".pf-track__title, .pf-track__shell"
_RUN = "run"


@contextmanager
def xprof(python: str, capture: Path) -> Iterator[Server]:
    """Serve one XSpace by xprof, which is what TensorBoard's profile plugin has become."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "plugins" / "profile" / _RUN
        place.mkdir(parents=True)
        shutil.copy(capture, place / "host.xplane.pb")
        code = (
            "import sys; from xprof.server import main;"
            f"sys.argv = ['xprof', '--logdir', {folder!r}, '--port', '{port}',"
            f" '--grpc_port', '{_free_port()}']; sys.exit(main())"
        )
        address = f"http://localhost:{port}/data/plugin/profile/runs"
        with peer([python, "-c", code], address) as server:
            yield server


def xprof_answer(server: Server, tool: str) -> str:
    """Return the address of what one of xprof's pages draws."""
    query = f"run={_RUN}&tag={quote(tool)}&host=host"
    return f"{server.base}/data/plugin/profile/data?{query}"


@contextmanager
def vizviewer(trace: Path) -> Iterator[Server]:
    """Serve a Chrome trace by vizviewer."""
    port = _free_port()
    program = Path(sys.executable).with_name("vizviewer")
    command = [str(program), "--server_only", "--port", str(port), str(trace)]
    with peer(command, f"http://127.0.0.1:{port}/") as server:
        yield server


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
