"""Put a run's pages into one file, with the answers inlined. It asks nothing of anybody."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.web import front
from tfprobe.web.answers import answer
from tfprobe.web.inlined import Arguments, questions
from tfprobe.web.opened import OpenRun
from tfprobe.web.question import Question

# What a mail server takes, and a browser opens without a pause.
MOST_BYTES = 15_000_000
# Below this, packing saves less than it costs to read.
_LEAST_PACKED_BYTES = 16_384
# Characters that mean something to a parser of HTML; JSON reads them all the same.
_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&"})
# JavaScript leaves these as they are, where Python's `quote` leaves fewer, and `~`.
_PLAIN_IN_NAMES = "!~*'()"
_PLAIN_IN_ARGUMENTS = "*"
_ICON = re.compile(r'<link rel="icon" href="data:[^"]*">')
_END_OF_SCRIPT = re.compile(r"</script|<!--", re.IGNORECASE)

# Any: JSON values, as each page's module describes them.
Answer = Callable[[OpenRun, str, Question], dict[str, Any]]


@dataclass(slots=True)
class _Recording:
    """What `static/parts/data.js` finds in the file. Documents that are alike stand there once."""

    run: str
    left_bytes: int
    answers: dict[str, int] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)
    documents: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, document: Mapping[str, Any]) -> None:
        """Add an answer if there is room for it."""
        text = _packed(document)
        place = self.documents.get(text, len(self.documents))
        new = 0 if text in self.documents else len(text) + 1
        if self._takes(len(_json({name: place})) - 1 + new):
            self.answers[name] = self.documents[text] = place

    def add_trouble(self, name: str, sentence: str) -> None:
        """Add why there is no answer if there is room for it."""
        if self._takes(len(_json({name: sentence})) - 1):
            self.troubles[name] = sentence

    def text(self) -> str:
        """Return all as JSON that can stand in HTML."""
        head = _json({"run": self.run, "answers": self.answers, "troubles": self.troubles})
        return f'{head[:-1]},"documents":[{",".join(self.documents)}]}}'

    def _takes(self, cost_bytes: int) -> bool:
        if cost_bytes > self.left_bytes:
            return False
        self.left_bytes -= cost_bytes
        return True


def page(
    run: OpenRun,
    *,
    most_bytes: int = MOST_BYTES,
    ask: Answer = answer,
    watch: Callable[[int, int], None] = lambda _done, _all: None,
) -> str:
    """Return the pages of a run as one HTML file of at most `most_bytes`, all ASCII or nearly.

    Answers come in by their importance; one that has no room is left out, and its page says so.
    `watch(done, all)` is told how many have been asked for. The same run gives the same text.
    """
    # The name of a directory may be no text.
    run_name = run.folder.id.encode("utf-8", "replace").decode()
    shell = _shell(run_name)
    room = most_bytes - len(shell.encode()) - len(_json(run_name)) - 64
    recording = _Recording(run_name, room)
    asked = list(questions(run))
    for at, (name, arguments) in enumerate(asked):
        watch(at, len(asked))
        key = key_of(run_name, name, arguments)
        given = {each: str(value) for each, value in arguments.items()}
        try:
            recording.add(key, ask(run, name, Question(given)))
        except (NoAnswer, UnreadableInput) as exc:
            recording.add_trouble(key, str(exc))
    return shell.replace(_PLACE, recording.text())


def key_of(run: str, name: str, arguments: Arguments) -> str:
    """Return what `ask` of `static/parts/data.js` calls a question."""
    path = f"run/{quote(run, safe=_PLAIN_IN_NAMES)}/{name}"
    given = sorted((each, str(value)) for each, value in arguments.items() if value != "")
    query = urlencode(given, safe=_PLAIN_IN_ARGUMENTS).replace("~", "%7E")
    return f"{path}?{query}" if query else path


_NO_SCRIPT = "tfprobe draws its pages by JavaScript. On a terminal, `tfprobe report` says the same."
# Stands where the recording goes; no run has such a name, and no library holds it.
_PLACE = "<!-- recording -->"


def _shell(run: str) -> str:
    """Return the page around the recording."""
    script, style = _inline(front.script()), _inline(front.style())
    libraries = _inline(front.libraries())
    if _END_OF_SCRIPT.search(script + libraries) or "</style" in style.lower():
        raise AssertionError("A script or the style of the pages ends its own element.")
    (icon,) = _ICON.findall((front.STATIC / "index.html").read_text(encoding="utf-8"))
    policy = (
        f"default-src 'none'; script-src {_digest(libraries)} {_digest(script)}; "
        f"style-src {_digest(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html.escape(run)} · tfprobe</title>
{icon}
<style>{style}</style>
</head>
<body>
<noscript>{_NO_SCRIPT}</noscript>
<script type="application/json" id="recording">{_PLACE}</script>
<script>{libraries}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _inline(text: str) -> str:
    """Return a text as a parser of HTML hands it on, which is what digests are made of."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _packed(document: Mapping[str, Any]) -> str:
    """Return a document as JSON; where it is big, as a string of base64 of its deflated JSON."""
    plain = _json(document)
    if len(plain) < _LEAST_PACKED_BYTES:
        return plain
    return f'"{base64.b64encode(zlib.compress(plain.encode("ascii"), 9)).decode()}"'
