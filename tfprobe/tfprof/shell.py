"""The `tfprof>` shell: one command a line, typed or piped in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tfprobe.errors import TfprobeError, UsageError
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof.advice import advice_text, advise
from tfprobe.tfprof.options import NAMES, Options, lines, parse
from tfprobe.tfprof.report import VIEWS, answer

PROMPT = "tfprof> "
LEAVE = ("exit", "quit")
COMMANDS = (*sorted(VIEWS), "advise", "help", "set", *LEAVE)
HELP = """\
scope | graph | code | op   show a view; options hold for this command only
advise                      check for what can be made faster
set -option value ...       change what all later commands start from
help                        show this
(an empty line)             show the options; leave with Ctrl-D, exit or quit

Options: -option value, as in `op -order_by micros -select micros,occurrence -max_depth 10`.
"""

# Such as a stream's `write`, whose answer nobody needs.
Show = Callable[[str], object]


class Shell:
    """The shell's state: the options that `set` has changed."""

    def __init__(self, profile: GraphProfile, options: Options) -> None:
        """Start with these options for every command."""
        self._profile = profile
        self._options = options

    def run(self, line: str, show: Show, warn: Show) -> None:
        """Run one line; an error is reported and changes nothing."""
        words = line.split()
        try:
            self._run(words, show, warn)
        except TfprobeError as exc:
            warn(f"{exc}\n")

    def _run(self, words: list[str], show: Show, warn: Show) -> None:
        if not words:
            show(lines(self._options))
        elif words[0] == "help":
            show(HELP)
        elif words[0] == "set":
            self._options = parse(words[1:], self._options)
        elif words[0] == "advise":
            parse(words[1:], self._options)
            found = advise(self._profile)
            _tell(found.remarks, warn)
            show(advice_text(found))
        elif words[0] in VIEWS:
            report = answer(self._profile, words[0], parse(words[1:], self._options))
            _tell(report.remarks, warn)
            show(report.text)
        else:
            raise UsageError(
                f"There is no command {words[0]!r}.", hint=f"Commands: {', '.join(COMMANDS)}."
            )


def _tell(remarks: Iterable[str], warn: Show) -> None:
    for remark in remarks:
        warn(f"{remark}\n")


def serve(shell: Shell, show: Show, warn: Show) -> None:
    """Run lines until there are no more."""
    if sys.stdin is None:
        raise UsageError("There is no stdin to read commands from.", hint="Name a view instead.")
    for line in _typed(warn) if sys.stdin.isatty() else sys.stdin:
        if line.strip() in LEAVE:
            return
        shell.run(line, show, warn)


def _typed(warn: Show) -> Iterable[str]:
    """Yield typed lines, with history and completion if their extra is installed."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory
    except ImportError as exc:
        warn(
            f"History and completion need prompt_toolkit, which is not installed ({exc}): "
            "`pip install 'tfprobe[shell]'` installs it.\n"
        )
        return _until_eof(_plain_line)
    words = [*COMMANDS, *(f"-{name}" for name in NAMES)]
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(_history_file())),
        completer=WordCompleter(words, WORD=True),
        complete_while_typing=False,
    )
    return _until_eof(session.prompt)


def _until_eof(ask: Callable[[str], str]) -> Iterator[str]:
    while True:
        try:
            yield ask(PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            continue


def _plain_line(prompt: str) -> str:
    try:
        return input(prompt)
    except (EOFError, KeyboardInterrupt):
        # The cursor still stands behind the prompt.
        sys.stdout.write("\n")
        raise


def _history_file() -> Path:
    folder = Path.home() / ".local" / "state" / "tfprobe"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder / "tfprof_history"
