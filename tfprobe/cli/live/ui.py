"""`tfprobe ui`: pages of all runs in a browser."""

from __future__ import annotations

import getpass
import socket
import sys
import threading
import webbrowser
from contextlib import closing
from pathlib import Path

import click

from tfprobe.cli import common
from tfprobe.cli.common import until_stopped
from tfprobe.cli.main import complain
from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.launch import environ

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
_REMOTE = ("SSH_CONNECTION", "SSH_TTY")


@click.command("ui")
@click.argument("place", required=False, metavar="[RUN|DIR]")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Listen on this address; anyone who can reach it needs the token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="P",
    help="Listen on this port; 0 picks a free one.  [default: 8470, or the next free one]",
)
@click.option("--no-browser", is_flag=True, help="Print the address, and do not open a browser.")
@common.output_option
def command(
    place: str | None, output: str | None, host: str, port: int | None, no_browser: bool
) -> int:
    """Show runs in a browser: all of DIR, by default the directory of all runs, or one RUN.

    The address is printed on stdout; anyone who has its token can read the runs and request traces.
    Interrupt or terminate the command to end it, with status 0. docs/web.md describes how to reach
    it from another machine.
    """
    if not host:
        # For a socket that is every address of the machine; most likely a variable was unset.
        raise UsageError("--host is empty.", hint="Name an address, or leave the option out.")
    directory = _directory(place, output)
    with until_stopped():
        from tfprobe.web.server.serving import Site

        with closing(Site(directory, host=host, port=port, complain=complain)) as site:
            for sentence in _hints(host, site.port):
                complain(sentence)
            common.show(f"{site.address()}\n")
            if not no_browser and _has_screen():
                _open(site.address(once=True))
            site.serve()
    return 0


def _directory(place: str | None, output: str | None) -> Path:
    """Return what to show, as it is called everywhere."""
    if place is None:
        found = common.output_directory(output)
    elif Path(place).is_dir():
        found = Path(place)
    else:
        found = common.chosen_run(place, output).root
    whole = environ.absolute(found)
    if not whole.is_dir():
        raise UnreadableInput(
            f"{found} is not a directory.", hint="Name the directory given to `tfprobe run -o`."
        )
    return whole.resolve()


def _hints(host: str, port: int) -> list[str]:
    from tfprobe.web.server.hosts import is_loopback

    if not is_loopback(host):
        return [
            "The pages are served to other machines without encryption: anyone who can read the"
            " traffic gets the token and the runs. To avoid that, leave out --host and use"
            f" `ssh -L {port}:127.0.0.1:{port}`."
        ]
    variables = environ.inherited()
    if any(variables.get(name) for name in _REMOTE) or not _has_screen():
        return [
            "To see the pages on your own machine, run"
            f" `ssh -L {port}:127.0.0.1:{port} {_user()}@{socket.gethostname()}` there, and open"
            " this address in a browser:"
        ]
    return []


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "USER"  # in a container, with a user that has no name


def _has_screen() -> bool:
    variables = environ.inherited()
    return any(variables.get(name) for name in _DISPLAYS) and sys.stdout.isatty()


def _open(address: str) -> None:
    """Open a browser with windows; one for terminals would take this one."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is webbrowser.GenericBrowser:
        return
    # Some browsers return when their window is closed.
    threading.Thread(target=browser.open, args=(address,), daemon=True).start()
