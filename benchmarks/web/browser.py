"""Time pages in Debian's Chromium, by its own clock. Knows no target."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium"
# No sandbox in a container; nothing that asks somebody outside.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WINDOW = {"width": 1440, "height": 900}
PATIENCE_MS = 300_000

# `shownMs` is when what a page is for has been drawn: two frames after it was found in the
# document. `idleMs` is when the main thread had no task of 50 ms or more left. Both count from the
# navigation, or from `from`.
_WATCH = """
  const watched = { tasks: [] };
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) watched.tasks.push(task.startTime + task.duration);
  }).observe({ type: "longtask", buffered: true });
  const frame = () => new Promise(requestAnimationFrame);
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  window.benchmarkSettled = async (selector, from = 0) => {
    while (!document.querySelector(selector)) {
      const trouble = document.querySelector(".trouble");
      if (trouble) throw new Error(trouble.textContent);
      if (performance.now() - from > 200_000) throw new Error(`no ${selector}`);
      await frame();
    }
    await frame(); await frame();
    const shown = performance.now();
    for (;;) {
      const last = Math.max(shown, ...watched.tasks);
      if (performance.now() - last > 300) return { shownMs: shown - from, idleMs: last - from };
      await pause(20);
    }
  };
  window.benchmarkFrames = () => {
    const frames = []; let last, running = true;
    const next = (now) => {
      if (last !== undefined) frames.push(now - last);
      last = now;
      if (running) requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
    return () => { running = false; return frames; };
  };
"""


@dataclass(frozen=True, slots=True)
class Opened:
    """How soon a page was there, in ms since it was asked for; `paint_ms` is its first content."""

    shown_ms: float
    idle_ms: float
    paint_ms: float


@dataclass(frozen=True, slots=True)
class Frames:
    """How long frames took while somebody zoomed and moved."""

    median_ms: float
    p95_ms: float
    worst_ms: float


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser that has nothing kept."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def tab(browser: Browser, *, is_offline: bool = False) -> Page:
    """Open a tab in which pages are timed."""
    page = browser.new_context(viewport=WINDOW, offline=is_offline).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script(_WATCH)
    return page


def opened(page: Page, address: str, selector: str) -> Opened:
    """Open an address as a new document, and wait for an element."""
    page.goto("about:blank")
    page.goto(address, wait_until="commit")
    settled = page.evaluate("(selector) => benchmarkSettled(selector)", selector)
    paint_ms = page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
    )
    return Opened(settled["shownMs"], settled["idleMs"], paint_ms)


def turned(page: Page, fragment: str, selector: str) -> Opened:
    """Go from one page to another in the same document, as by a click on a link."""
    settled: dict[str, Any] = page.evaluate(
        "([to, selector]) => { const from = performance.now(); location.hash = to;"
        " return benchmarkSettled(selector, from); }",
        [fragment, selector],
    )
    return Opened(settled["shownMs"], settled["idleMs"], settled["shownMs"])


def frames(page: Page, place: tuple[float, float], *, turns: int = 40) -> Frames:
    """Turn the wheel with Ctrl to zoom, and drag with Shift, by real events at a place."""
    page.mouse.move(*place)
    page.evaluate("() => { window.benchmarkEnd = benchmarkFrames(); }")
    for direction in (-1, 1):
        page.keyboard.down("Control")
        for _ in range(turns):
            page.mouse.wheel(0, direction * 120)
        page.keyboard.up("Control")
    for direction in (-1, 1):
        page.mouse.down()
        for step in range(turns):
            page.mouse.move(place[0] + direction * 8 * step, place[1])
        page.mouse.up()
        page.mouse.move(*place)
    taken: list[float] = page.evaluate("() => benchmarkEnd()")
    return frames_of(taken)


def frames_of(taken: Sequence[float]) -> Frames:
    """Sum up the times of frames."""
    ordered = sorted(taken)
    return Frames(statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1])
