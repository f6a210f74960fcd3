"""Measure how soon pages are there, and what serving them takes: `run.py [--only NAME]`.

Runs of a million node executions are served by `tfprobe ui` and looked at in Chromium; the file of
`tfprobe report --html` is opened with the network off. Recordings and environments that are missing
are made, and kept in the cache.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(HERE), str(HERE.parent / "analysis")]

import browser as chrome  # noqa: E402
import peers  # noqa: E402
import recordings  # noqa: E402
from measure import process  # noqa: E402
from server import Server, answer_s, pages_of  # noqa: E402

from tests.matrix.cells import CELLS  # noqa: E402
from tests.matrix.environments import cache, prepare  # noqa: E402

CELL = "tf2.21-py3.11"
EXECUTIONS = 1_000_000
KINDS = {"function": "XSpace", "session": "RunMetadata"}
MIB = 2**20

OVERVIEW_MS = 1000
OPS_MS = 500
FLAME_MS = 1000
SERVER_BYTES = 500 * MIB
PAINT_MS = 1000
KERAS_BYTES = 5_000_000
FILE_BYTES = 15_000_000
# What a person sees as moving: 30 frames a second, 19 times of 20.
FRAME_MS = 34

# What a page is for, as a CSS selector: it was drawn when this is there.
OVERVIEW = ".page-overview h1"
OPS = ".page-ops table tbody tr"
CODE = ".page-code canvas, .page-code svg"
SCOPES = ".page-scopes canvas, .page-scopes svg"
TIMELINE = ".page-timeline canvas"
# Our page -> xprof's tool that shows the same, and what our page is for.
BESIDE_XPROF = {
    "overview": ("overview_page", OVERVIEW),
    "ops": ("framework_op_stats", OPS),
    "timeline": ("trace_viewer@", TIMELINE),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `kept` is None where there is nothing to keep."""

    what: str
    median: str
    worst: str
    target: str
    kept: bool | None


def main(argv: Sequence[str]) -> int:
    """Run the benchmarks asked for and print the table as it grows."""
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument("-n", "--times", type=int, default=5, help="how often each is done")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    options = parser.parse_args(argv)
    wanted = [each.lower() for each in options.only]
    chosen = [name for name in BENCHMARKS if not wanted or any(each in name for each in wanted)]
    if options.list:
        print("\n".join(chosen))
        return 0
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores\n")
    print("| what | median | worst | target | kept |\n|---|---|---|---|---|")
    for name in chosen:
        for row in BENCHMARKS[name](options.times):
            kept = {True: "yes", False: "no", None: ""}[row.kept]
            print(
                f"| {' | '.join((row.what, row.median, row.worst, row.target, kept))} |", flush=True
            )
    return 0


def first_look(times: int, *, kind: str) -> list[Row]:
    """A server that was just started, and a browser that has nothing kept."""
    run, executions = recordings.long_run(_tensorflow(), kind, EXECUTIONS)
    shown: dict[str, list[chrome.Opened]] = {"overview": [], "ops": []}
    for _ in range(times):
        with pages_of(run.parent) as server, chrome.chromium() as browser:
            page = _known(browser, server)
            shown["overview"].append(chrome.opened(page, _at(server, run, "overview"), OVERVIEW))
            shown["ops"].append(chrome.turned(page, _fragment(run, "ops"), OPS))
    what = f"first look, {executions:,} executions, {KINDS[kind]}"
    return [
        _row(f"{what}: overview", shown["overview"], OVERVIEW_MS),
        _row(f"{what}: ops, which wait for all captures to be read", shown["ops"]),
    ]


def later_looks(times: int, *, kind: str) -> list[Row]:
    """Pages of a run that the server has read, each opened by its address and by a click."""
    run, executions = recordings.long_run(_tensorflow(), kind, EXECUTIONS)
    pages = {
        "overview": (OVERVIEW, OVERVIEW_MS),
        "ops": (OPS, OPS_MS),
        "scopes": (SCOPES, FLAME_MS),
        "code": (CODE, FLAME_MS),
    }
    rows = []
    with pages_of(run.parent) as server, chrome.chromium() as browser:
        page = _known(browser, server)
        for name, (selector, _) in pages.items():
            chrome.opened(page, _at(server, run, name), selector)
        for name, (selector, target_ms) in pages.items():
            other = "ops" if name != "ops" else "overview"
            by_address, by_click = [], []
            for _ in range(times):
                by_address.append(chrome.opened(page, _at(server, run, name), selector))
                chrome.turned(page, _fragment(run, other), pages[other][0])
                by_click.append(chrome.turned(page, _fragment(run, name), selector))
            what = f"{name}, {executions:,} executions, {KINDS[kind]}"
            rows.append(_row(f"{what}: by its address", by_address, target_ms))
            rows.append(_row(f"{what}: by a click", by_click, target_ms))
        rows.append(_memory(f"memory of the server, {KINDS[kind]}", server, SERVER_BYTES))
    return rows


def timeline(times: int) -> list[Row]:
    """A step of a million slices: drawn, and zoomed and moved by the wheel and the mouse."""
    run = _long_step()
    found, frames = [], []
    with pages_of(run.parent) as server, chrome.chromium() as browser:
        page = _known(browser, server)
        address = _at(server, run, "timeline")
        first = chrome.opened(page, address, TIMELINE)
        for _ in range(times):
            found.append(chrome.opened(page, address, TIMELINE))
            frames.append(chrome.frames(page, (720, 450)))
        peak = _memory("memory of the server, a step of a million slices", server, SERVER_BYTES)
    return [
        _row("timeline of a million slices: first, with the reading of its capture", [first]),
        _row("timeline of a million slices: by its address", found),
        Row("frames while it is zoomed and moved, median", *_frames(frames, "median_ms"), "", None),
        Row("frames while it is zoomed and moved, 19 of 20 are shorter",
            *_frames(frames, "p95_ms"), f"{FRAME_MS} ms",
            max(each.p95_ms for each in frames) <= FRAME_MS),
        Row("frames while it is zoomed and moved, longest", *_frames(frames, "worst_ms"), "", None),
        peak,
    ]  # fmt: skip


def one_file(times: int) -> list[Row]:
    """The file of the Keras example and of long runs, each time in a browser that starts."""
    keras = recordings.example(_tensorflow(), "keras_fit")
    rows = [_bare_row(times)]
    rows += _file_rows("Keras example", keras, KERAS_BYTES, times)
    for kind, name in KINDS.items():
        run, executions = recordings.long_run(_tensorflow(), kind, EXECUTIONS)
        rows += _file_rows(f"{executions:,} executions, {name}", run, FILE_BYTES, times)
    return rows


def beside_xprof(times: int) -> list[Row]:
    """The same XSpace of a million events, each time of a server that starts: xprof's answers
    alone, and our pages drawn."""
    run = _long_step()
    (capture,) = run.glob("*/*/captures/*.xplane.pb")
    rows = []
    for page, (tool, selector) in BESIDE_XPROF.items():
        with peers.xprof(recordings.xprof_python(), capture) as server:
            asked_ms = [answer_s(peers.xprof_answer(server, tool)) * 1000 for _ in range(times + 1)]
            rows.append(_times_row(f"xprof, its answer for {tool}: first", asked_ms[:1]))
            rows.append(_times_row(f"xprof, its answer for {tool}: later", asked_ms[1:]))
            rows.append(_memory(f"xprof, memory of the server, {tool}", server))
        with pages_of(run.parent) as server, chrome.chromium() as browser:
            tab = _known(browser, server)
            address = _at(server, run, page)
            shown = [chrome.opened(tab, address, selector) for _ in range(times + 1)]
            rows.append(_row(f"tfprobe, the page {page}, drawn: first", shown[:1]))
            rows.append(_row(f"tfprobe, the page {page}, drawn: later", shown[1:]))
            rows.append(_memory(f"tfprobe, memory of the server, {page}", server))
    return rows


def beside_vizviewer(times: int) -> list[Row]:
    """The same step as a Chrome trace in vizviewer, which draws it by Perfetto's UI."""
    trace = _chrome_trace(_long_step())
    found = []
    for _ in range(times):
        with peers.vizviewer(trace) as server, chrome.chromium() as browser:
            page = chrome.tab(browser)
            found.append(chrome.opened(page, server.address, peers.VIZVIEWER_DRAWN))
    return [_row("vizviewer, the same step as a Chrome trace, drawn", found)]


BENCHMARKS: dict[str, Callable[[int], list[Row]]] = {
    "first function": functools.partial(first_look, kind="function"),
    "first session": functools.partial(first_look, kind="session"),
    "later function": functools.partial(later_looks, kind="function"),
    "later session": functools.partial(later_looks, kind="session"),
    "timeline": timeline,
    "file": one_file,
    "xprof": beside_xprof,
    "vizviewer": beside_vizviewer,
}


def _file_rows(what: str, run: Path, most_bytes: int, times: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pages.html"
        command = [sys.executable, "-m", "tfprobe", "report", str(run), "--html", str(path)]
        took_s = process(command, {"PYTHONPATH": str(ROOT)}).wall_s
        size_bytes = path.stat().st_size
        found = _from_disk(path, times)
    paints = [each.paint_ms for each in found]
    return [
        Row(f"one file, {what}: size", f"{size_bytes / 1e6:.2f} MB", "",
            f"{most_bytes / 1e6:.0f} MB", size_bytes <= most_bytes),
        Row(f"one file, {what}: to write it", f"{took_s:.1f} s", "", "", None),
        _times_row(f"one file, {what}: first paint, network off", paints, PAINT_MS),
        _row(f"one file, {what}: overview, network off", found),
    ]  # fmt: skip


def _bare_row(times: int) -> Row:
    """Open a file with one heading in the same way: what a browser takes for itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bare.html"
        path.write_text('<!doctype html><div class="page-overview"><h1>One heading</h1></div>')
        paints = [each.paint_ms for each in _from_disk(path, times)]
    return _times_row("a file with one heading: first paint", paints)


def _from_disk(path: Path, times: int) -> list[chrome.Opened]:
    """Open a file without a network, each time in a browser that starts."""
    found = []
    for _ in range(times):
        with chrome.chromium() as browser:
            page = chrome.tab(browser, is_offline=True)
            found.append(chrome.opened(page, path.as_uri(), OVERVIEW))
    return found


def _row(what: str, found: Sequence[chrome.Opened], target_ms: float | None = None) -> Row:
    """Count a page as there when it is drawn and its main thread has nothing left to do."""
    return _times_row(what, [each.idle_ms for each in found], target_ms)


def _times_row(what: str, taken_ms: Sequence[float], target_ms: float | None = None) -> Row:
    median_ms, worst_ms = statistics.median(taken_ms), max(taken_ms)
    kept = None if target_ms is None else median_ms <= target_ms
    target = "" if target_ms is None else f"{target_ms:.0f} ms"
    worst = f"{worst_ms:,.0f} ms" if len(taken_ms) > 1 else ""
    return Row(what, f"{median_ms:,.0f} ms", worst, target, kept)


def _memory(what: str, server: Server, most_bytes: int | None = None) -> Row:
    peak_bytes = server.peak_bytes()
    target = "" if most_bytes is None else f"{most_bytes / MIB:.0f} MiB"
    kept = None if most_bytes is None else peak_bytes <= most_bytes
    return Row(what, f"{peak_bytes / MIB:,.0f} MiB", "", target, kept)


def _frames(found: Sequence[chrome.Frames], name: str) -> tuple[str, str]:
    taken = [getattr(each, name) for each in found]
    return f"{statistics.median(taken):.0f} ms", f"{max(taken):.0f} ms"


def _known(browser: chrome.Browser, server: Server) -> chrome.Page:
    """Open a tab that the server knows."""
    page = chrome.tab(browser)
    page.goto(server.address)
    page.wait_for_selector(".page-runs")
    return page


def _fragment(run: Path, name: str) -> str:
    return f"#/run/{run.name}/{name}"


def _at(server: Server, run: Path, name: str) -> str:
    return f"{server.base}/{_fragment(run, name)}"


def _long_step() -> Path:
    """Return a run of one XSpace with a million slices."""
    run, _ = recordings.long_run(_tensorflow(), "function", EXECUTIONS)
    copies = len(list(run.glob("*/*/captures/*.xplane.pb")))
    return recordings.long_capture(_tensorflow(), copies)


def _chrome_trace(run: Path) -> Path:
    path = cache() / "benchmarks" / "web" / "step.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tfprobe", "export", str(run), "--to", "chrome"]
        subprocess.run([*command, "-f", str(path)], check=True, stdout=subprocess.DEVNULL)
    return path


@functools.cache
def _tensorflow() -> str:
    return str(prepare(next(each for each in CELLS if each.name == CELL)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
