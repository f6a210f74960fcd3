"""Visit pages as a person does, and note whatever a browser complains of meanwhile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    Route,
)

# Waits are for something that comes; this long only where it never does.
PATIENCE_MS = 60_000

_SETTLED = """([name]) => {
  const place = document.querySelector("main");
  return place && !place.querySelector(".wait") &&
    (place.querySelector(`:scope > .page-${name}`) || place.querySelector(":scope > .trouble"));
}"""
_TWO_FRAMES = (
    "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
)


class Visitor:
    """One window of a browser at one server. `expected` are patterns of fair complaints."""

    def __init__(self, browser: Browser, address: str, **context: Any) -> None:
        """Open a window. Any: options of a Playwright context."""
        self.origin = re.match(r"https?://[^/#]+", address)
        self.token = address.partition("#token=")[2]
        self.complaints: list[str] = []
        self.expected: list[str] = []
        self.context: BrowserContext = browser.new_context(**context)
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.route("**/*", self._passed)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)
        self._address = address
        self.page.goto(address)
        self.page.bring_to_front()  # the keys go to the window that is in front
        # A file begins with the overview of its run.
        self.page.wait_for_selector("main .page-runs, main .page-overview")

    def show(self, run: str, name: str, arguments: Mapping[str, str] | None = None) -> Page:
        """Go to a page of a run, and wait until it is there."""
        query = "&".join(f"{key}={value}" for key, value in (arguments or {}).items())
        fragment = f"#/run/{run}/{name}" + (f"?{query}" if query else "")
        self.page.evaluate("(to) => { location.hash = to; }", fragment)
        self.settle(name)
        return self.page

    def show_trials(self, trial: str = "") -> Page:
        """Go to the trials of the whole directory, or to one of them."""
        fragment = "#/trials" + (f"?trial={trial}" if trial else "")
        self.page.evaluate("(to) => { location.hash = to; }", fragment)
        self.settle("trials")
        return self.page

    def settle(self, name: str) -> None:
        """Wait until a page is there and drawn."""
        self.page.wait_for_function(_SETTLED, arg=[name])
        self.page.evaluate(_TWO_FRAMES)

    def pages(self, run: str) -> Sequence[str]:
        """Return the names of all pages of a run, as its navigation has them."""
        self.page.evaluate("(to) => { location.hash = to; }", f"#/run/{run}/")
        # Pages of the whole directory have a navigation, too.
        self.page.wait_for_selector("nav.pages:not(.of-directory) a")
        links = self.page.locator("nav.pages a").all()
        found = [(link.get_attribute("href") or "").split("?")[0].split("/")[-1] for link in links]
        self.page.wait_for_function("() => !document.querySelector('main .wait')")
        return found

    def unexpected(self) -> list[str]:
        """Return what nobody expected."""
        patterns = [re.compile(pattern) for pattern in self.expected]
        return [
            each
            for each in self.complaints
            if not any(pattern.search(each) for pattern in patterns)
        ]

    def close(self) -> None:
        """Close the window."""
        self.context.close()

    def _passed(self, route: Route) -> None:
        url = route.request.url
        mine = self.origin is not None and url.startswith(self.origin.group() + "/")
        if mine or url == self._address or url.startswith(("data:", "blob:")):
            route.continue_()
            return
        self.complaints.append(f"asked elsewhere: {url}")
        route.abort()

    def _failed(self, request: Request) -> None:
        # A page that is left asks for nothing more.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"request failed: {request.url} {request.failure}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            where = message.location.get("url", "")
            self.complaints.append(f"console {message.type}: {message.text} {where}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"status {response.status}: {response.url}")
