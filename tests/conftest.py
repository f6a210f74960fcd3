"""What every test starts from: signals as a person's shell leaves them."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Let the processes of the tests be interrupted: a run started in the background of a script
    ignores SIGINT, and so would all its children.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
