"""Take the pictures of `tfprobe ui` for the documentation: the pages themselves, of real jobs.

Usage: python docs/images/pages.py PYTHON, an interpreter that has TensorFlow 2 and scikit-learn.
It needs the extra `test-web`, and /usr/bin/chromium.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
JOBS = (("custom_loop.py",), ("two_workers.py", "--steps", "2000"), ("keras_fit.py",))
# Name of the picture -> job, page with its arguments, colours.
PICTURES = {
    "overview": ("keras_fit", "overview", "light"),
    "timeline": ("keras_fit", "timeline", "light"),
    "scopes": ("keras_fit", "scopes", "dark"),
    "processes": ("two_workers", "processes", "light"),
}
SIZE = {"width": 1280, "height": 800}
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync")
PATIENCE_MS = 60_000


def main(python: str) -> int:
    """Take all of them."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "tfprobe-runs"
        for job in JOBS:
            _record(runs, python, job)
        names = {path.name.split("-")[2]: path.name for path in sorted(runs.iterdir())}
        with _served(runs) as address:
            _take(address, names)
    return 0


def _record(runs: Path, python: str, job: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(runs), "--", "python", *job]
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run(
        command, cwd=EXAMPLES, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=300
    )


@contextmanager
def _served(runs: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tfprobe", "ui", "tfprobe-runs", "--port", "0", "--no-browser"]
    with subprocess.Popen(
        command, cwd=runs.parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


def _take(address: str, names: dict[str, str]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
        for picture, (job, page, colours) in PICTURES.items():
            context = browser.new_context(viewport=SIZE, color_scheme=colours)  # type: ignore[arg-type]
            window = context.new_page()
            window.goto(address)
            window.wait_for_selector("main table")
            window.evaluate("(to) => { location.hash = to; }", f"#/run/{names[job]}/{page}")
            window.wait_for_selector(f"main .page-{page}", timeout=PATIENCE_MS)
            window.wait_for_function(
                "() => !document.querySelector('main').textContent.includes('Reading ')",
                timeout=PATIENCE_MS,
            )
            window.wait_for_load_state("networkidle")
            window.screenshot(path=HERE / f"{picture}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
