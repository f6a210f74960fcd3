"""What tfprobe says of a recorded loop, by the JSON of its commands. Needs what tfprobe needs to
read: click, NumPy, protobuf, RE2 and rich, in this interpreter or in another one.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recordings import ROOT

from tfprobe.errors import Missing

# A command may read a capture of a large program.
_PATIENCE_S = 120
# By default, `op` has the first ten.
_ALL_OPS = "100000"
_NEEDS = "import click, numpy, google.protobuf, re2, rich"
_PLANES = """
import sys
from tfprobe.formats.schema import message_class
space = message_class("tfprobe.xplane.XSpace")()
space.ParseFromString(open(sys.argv[1], "rb").read())
for plane in space.planes:
    print(plane.name, len(plane.event_metadata))
    for line in plane.lines:
        print("   ", line.name or line.display_name, len(line.events))
"""

_STEPS = """
import json, sys
import tfprobe
loops = [loop for loop in tfprobe.open_run(sys.argv[1]).loops if loop.name == sys.argv[2]]
steps = max(loops, key=lambda loop: loop.executed).recent
print(json.dumps([steps.first_step, steps.end_ns.tolist()]))
"""

_KERNELS = """
import json, sys
import tfprobe
profile = tfprobe.open_run(sys.argv[1]).profile()
(loop,) = {loop.index for loop in profile.loops if loop.name == sys.argv[2]}
own = [capture.index for capture in profile.captures if capture.loop == loop]
rows = profile.executions
counts = [int(((rows.capture == at) & (rows.place == 1)).sum()) for at in own]
print(json.dumps(sum(counts) / len(own)))
"""

Document = Mapping[str, Any]  # Any: the JSON of a command


def can_read(python: str) -> bool:
    """Say whether an interpreter has what reading needs."""
    ended = subprocess.run([python, "-c", _NEEDS], capture_output=True, check=False)
    return ended.returncode == 0


@dataclass(slots=True)
class Recorded:
    """One run directory, and the interpreter that reads it; each command is asked once."""

    run: Path
    python: str
    _answers: dict[tuple[str, ...], Document | Missing] = field(default_factory=dict)
    _steps: dict[str, list[Any] | Missing] = field(default_factory=dict)

    def ask(self, *command: str) -> Document | Missing:
        """Return the document of a command, or its own words about why there is none."""
        if command not in self._answers:
            self._answers[command] = self._ask(command)
        return self._answers[command]

    def loop(self, name: str, *, document: str = "report") -> Document | Missing:
        """Return the loop of this name as `report` or `steps` has it."""
        answer = self.ask(document)
        if isinstance(answer, Missing):
            return answer
        works = answer["work"] if document == "steps" else _works(answer)
        loops = [loop for loop in works if loop["name"] == name]
        if not loops:
            return Missing(f"`{document}` has no loop {name}")
        return max(loops, key=lambda loop: int(loop["count"]))

    def count(self, name: str) -> int | Missing:
        """Return how many steps of this name were counted, in all loops of the name."""
        answer = self.ask("report")
        if isinstance(answer, Missing):
            return answer
        return sum(loop["count"] for loop in _works(answer) if loop["name"] == name)

    def cycle_ns(self, name: str) -> float | Missing:
        """Return the usual time from the start of a step to that of the next: two medians."""
        loop = self.loop(name, document="steps")
        if isinstance(loop, Missing):
            return loop
        times, gaps = loop["step_times"], loop["gap_times"]
        if times is None or times.get("p50_us") is None:
            note = (loop.get("queue") or {}).get("note")
            return Missing(note or "`steps` has no times of this loop")
        gap_us = (gaps or {}).get("p50_us") or 0.0
        return float(times["p50_us"] + gap_us) * 1e3

    def stretch_ns(self, name: str, first: int, last: int) -> float | Missing:
        """Return the time from the end of the step before `first` to that of `last`."""
        if name not in self._steps:
            ended = self._run(["-c", _STEPS, str(self.run), name])
            said = (ended.stderr.strip().splitlines() or [""])[-1]
            self._steps[name] = json.loads(ended.stdout) if not ended.returncode else Missing(said)
        steps = self._steps[name]
        if isinstance(steps, Missing):
            return steps
        first_step, ends_ns = steps
        if first <= first_step or last - first_step >= len(ends_ns):
            return Missing(f"steps {first} to {last} of {name} have no times")
        return float(ends_ns[last - first_step] - ends_ns[first - 1 - first_step])

    def kernels(self, name: str) -> float | Missing:
        """Return how many kernels ran in a traced step of a loop, in the mean."""
        ended = self._run(["-c", _KERNELS, str(self.run), name])
        if ended.returncode:
            return Missing((ended.stderr.strip().splitlines() or ["no answer"])[-1])
        return float(json.loads(ended.stdout))

    def shares(self) -> Document | Missing:
        """Return the parts of a step's cycle, of the loop that costs most."""
        answer = self.ask("breakdown")
        if isinstance(answer, Missing):
            return answer
        parts: Document = answer["breakdown"]
        return parts

    def ops(self, name: str) -> list[Document] | Missing:
        """Return the ops of one step of a loop, with times, runs and float operations."""
        answer = self.ask("op", "--loop", name, "-max_depth", _ALL_OPS)
        if isinstance(answer, Missing):
            return answer
        return [{"name": op["name"], **op["own"]} for op in answer["ops"]]

    def events(self, kind: str) -> list[Document]:
        """Return the events of a kind, of all processes."""
        return [event for event in self._lines("*/*/events.jsonl") if event["event"] == kind]

    def machine(self) -> list[Document]:
        """Return the samples of the machine's accelerators."""
        return list(self._lines("machine/*.jsonl"))

    def planes(self) -> str:
        """Return what the first capture has: planes and lines, or how many events of each kind."""
        captures = sorted(self.run.glob("*/*/captures/*.*"))
        if not captures:
            return "no capture\n"
        if captures[0].suffix == ".json":
            events = json.loads(captures[0].read_bytes())["traceEvents"]
            kinds = Counter(str(event.get("cat")) for event in events)
            return f"{captures[0].name}\n{dict(kinds)}\n"
        ended = self._run(["-c", _PLANES, str(captures[0])])
        return f"{captures[0].name}\n{ended.stdout or ended.stderr}"

    def _lines(self, pattern: str) -> Iterator[Document]:
        for path in sorted(self.run.glob(pattern)):
            for line in path.read_text(encoding="utf-8").splitlines():
                yield json.loads(line)

    def _ask(self, command: tuple[str, ...]) -> Document | Missing:
        ended = self._run(["-m", "tfprobe", command[0], str(self.run), *command[1:], "--json"])
        if ended.returncode == 0:
            answer: Document = json.loads(ended.stdout)
            return answer
        last_words = (ended.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        return Missing(f"`tfprobe {' '.join(command)}`: {last_words}")

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.python, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )


def names_line(document: object, file: str, line: int) -> bool:
    """Say whether a document names this line of a file anywhere, as text or as two values."""
    if isinstance(document, str):
        return f"{file}:{line}" in document
    if isinstance(document, Mapping):
        place = (str(document.get("file", "")), document.get("line"))
        if place[0].endswith(file) and place[1] == line:
            return True
        return _any_names(document.values(), file, line)
    if isinstance(document, list):
        is_pair = len(document) >= 2 and str(document[0]).endswith(file) and document[1] == line
        return is_pair or _any_names(document, file, line)
    return False


def _any_names(parts: Iterable[object], file: str, line: int) -> bool:
    return any(names_line(part, file, line) for part in parts)


def _works(report: Document) -> list[Document]:
    return [loop for process in report["processes"] for loop in process["work"]]
