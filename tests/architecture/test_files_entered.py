"""How many files a short answer passes through: who follows it in the code opens each of them.

A file below tfprobe/ counts as entered when a function of it is called. The bodies of modules and
classes do not count: an import or a definition runs them. Each command runs first without being
measured, so that the imports of its first time are no part of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.approval.runs import place

ROOT = Path(__file__).resolve().parents[2]

MEASURE = """
import contextlib, io, json, pathlib, shutil, sys
from tfprobe.cli.main import main
from tfprobe.query import run_reports

package, runs = sys.argv[1], pathlib.Path(sys.argv[2])
entered = set()

def note(frame, event, _):
    code = frame.f_code
    # Functions alone have fast locals: bodies of modules and classes do not.
    if event == "call" and code.co_flags & 2 and code.co_filename.startswith(package):
        entered.add(code.co_filename[len(package):])

def answer(command):
    entered.clear()
    with contextlib.redirect_stdout(io.StringIO()) as text:
        sys.setprofile(note)
        try:
            status = main([command, "-o", str(runs)])
        finally:
            sys.setprofile(None)
    return {"status": status, "text": text.getvalue(), "entered": sorted(entered)}

measured = {}
for command in ("ls", "op", "report"):
    first, anew = answer(command), answer(command)
    derived = [str(path.relative_to(runs)) for path in runs.glob("*/derived")]
    # As if the run were so large that its answer is worth a cache.
    small, run_reports.UNCACHED_BYTES = run_reports.UNCACHED_BYTES, 0
    answer(command)
    cached_in = sorted(path.parent.name for path in runs.glob("*/derived/*/*"))
    cached = answer(command)
    run_reports.UNCACHED_BYTES = small
    for path in runs.glob("*/derived"):
        shutil.rmtree(path)
    measured[command] = {
        "first": first, "anew": anew, "derived": derived, "cached": cached, "cached_in": cached_in
    }
print(json.dumps(measured))
"""

# The most files that each command may enter, by the run and whether its answer has been cached.
# They may only go down: who needs one more looks for one that is entered for nothing.
BOUNDS = {
    ("growing", "report", "cached"): 32,
    ("growing", "report", "anew"): 127,
    ("growing", "op", "anew"): 55,
    ("growing", "ls", "anew"): 21,
    ("keras3", "report", "cached"): 34,
    ("keras3", "report", "anew"): 134,
    ("keras3", "op", "anew"): 57,
    ("keras3", "ls", "anew"): 21,
}


@pytest.fixture(scope="module", params=["growing", "keras3"])
def measured(request, tmp_path_factory):
    """Give the name of a run of one process with traced steps, and what each command enters."""
    directory = tmp_path_factory.mktemp(request.param)
    place(request.param, directory)
    words = [sys.executable, "-c", MEASURE, f"{ROOT / 'tfprobe'}/", str(directory)]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return request.param, json.loads(ended.stdout)


def test_an_answer_about_one_process_enters_few_files(measured):
    """Cached or computed, the answer is the same."""
    run, commands = measured

    for command, answers in commands.items():
        first = answers["first"]
        assert first["status"] == 0
        assert first["text"]
        for how in ("cached", "anew"):
            answer = answers[how]
            assert answer["text"] == first["text"]
            assert "cli/main.py" in answer["entered"]
            most = BOUNDS.get((run, command, how))
            assert most is None or len(answer["entered"]) <= most, "\n".join(answer["entered"])


def test_one_process_goes_through_no_process_pool(measured):
    """Reading a small run writes nothing into it, reading a large one the answer of `report`."""
    _, commands = measured

    assert "query/run_reports.py" in commands["report"]["anew"]["entered"]
    for answers in commands.values():
        assert "query/process_pool.py" not in answers["anew"]["entered"]
        assert answers["derived"] == []
    cached_in = {command: answers["cached_in"] for command, answers in commands.items()}
    assert cached_in == {"ls": [], "op": [], "report": ["answers"]}
