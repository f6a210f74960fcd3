"""`tfprobe ui`: which browser is opened, at which address, and what is said before."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path

import pytest

from tfprobe.cli.live import ui
from tfprobe.cli.main import main
from tfprobe.web.server.serving import Site

PATIENCE_S = 60


class Browser(webbrowser.BaseBrowser):
    """A browser that notes what it is to open."""

    def __init__(self) -> None:
        super().__init__("noting")
        self.opened = threading.Event()
        self.address = ""

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        self.address = url
        self.opened.set()
        return True


@pytest.fixture
def browser(monkeypatch) -> Browser:
    """A person who sits before the machine; the server ends as soon as it began."""
    found = Browser()
    monkeypatch.setattr(webbrowser, "get", lambda: found)
    monkeypatch.setattr(ui, "_has_screen", lambda: True)
    monkeypatch.setattr(Site, "serve", lambda _: None)
    for name in ("SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_browser_gets_a_token_of_its_own(browser, tmp_path, capsys) -> None:
    """Its arguments can be read by every user of the machine: that one serves once."""
    assert main(["ui", str(tmp_path), "--port", "0"]) == 0

    assert browser.opened.wait(PATIENCE_S)
    said = capsys.readouterr()
    base, token = browser.address.split("#token=")
    assert said.out.startswith(base)
    assert token not in said.out
    assert said.err == ""


def test_no_browser_is_opened_for_who_wants_none(browser, tmp_path, capsys) -> None:
    """The address is all that is said."""
    main(["ui", str(tmp_path), "--port", "0", "--no-browser"])

    assert not browser.opened.is_set()
    assert capsys.readouterr().out.count("\n") == 1


def test_no_browser_is_opened_in_the_terminal(browser, tmp_path, monkeypatch) -> None:
    """As lynx, which would take it over."""
    of_terminals = webbrowser.GenericBrowser(["false", "%s"])
    monkeypatch.setattr(of_terminals, "open", lambda _: browser.opened.set())
    monkeypatch.setattr(webbrowser, "get", lambda: of_terminals)

    main(["ui", str(tmp_path), "--port", "0"])

    assert not browser.opened.is_set()


def test_where_there_is_no_browser_the_address_is_enough(browser, tmp_path, monkeypatch) -> None:
    """Nobody is told of an error of something that was not asked for."""

    def none() -> None:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "get", none)

    assert main(["ui", str(tmp_path), "--port", "0"]) == 0


def test_one_run_is_served_by_itself(browser, tmp_path, monkeypatch) -> None:
    """By its directory, or by its id in the directory of runs."""
    run = tmp_path / "runs" / "r1"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")

    assert main(["ui", "r1", "-o", str(tmp_path / "runs"), "--port", "0", "--no-browser"]) == 0
    assert ui._directory("r1", str(tmp_path / "runs")) == Path(run).resolve()
