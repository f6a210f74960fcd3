"""Imports of a job are recorded by package and line, and work as without the agent."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.agent import Laboratory
from tests.support.interpreters import need_interpreter, python_path
from tfprobe.profile.activities import Activity
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.manifests import read_process
from tfprobe.runs.process_folder.activities import read_activities

MS = 1_000_000
SLOW = "import time; time.sleep(0.02)\n"
RECORDED = "import tensorflow.python.client.session\n"


@pytest.fixture(params=["this", "3.6", "3.7", "3.12", "3.13"])
def python(request: pytest.FixtureRequest) -> str:
    """Each version implements imports differently."""
    return python_path(request.param)


def _write(laboratory: Laboratory, **modules: str) -> Path:
    """Write modules where packages are installed."""
    folder = laboratory.folder / "site-packages"
    for name, text in modules.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def _run(
    laboratory: Laboratory, text: str, python: str = sys.executable, *, armed: bool = True
) -> tuple[int, str, str]:
    """Run a program in a file, which may have modules of its own in its directory."""
    program = laboratory.folder / "program.py"
    program.write_text(text)
    boot = [str(laboratory.boot)] * armed
    path = [*boot, str(laboratory.folder / "packages"), str(laboratory.folder / "site-packages")]
    ended = subprocess.run(
        [python, str(program)],
        env={"PYTHONPATH": ":".join(path), "PATH": "/usr/bin:/bin", "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.returncode, ended.stdout, ended.stderr


def _imports(laboratory: Laboratory) -> dict[str, Activity]:
    (folder,) = laboratory.folders()
    activities = read_activities(folder / "activities.jsonl").ended
    return {activity.name: activity for activity in activities if activity.kind == "import"}


def test_a_slow_import_is_recorded_with_its_line(laboratory: Laboratory, python: str) -> None:
    """Imports that the package makes itself belong to it."""
    laboratory.arm(trace_level="off")
    _write(laboratory, outer="import inner\n" + SLOW, inner=SLOW)

    assert _run(laboratory, "import sys\nimport outer\n" + RECORDED, python) == (0, "", "")

    imports = _imports(laboratory)
    outer = imports["outer"]
    assert (outer.file, outer.line) == (str(laboratory.folder / "program.py"), 2)
    assert outer.end_ns - outer.start_ns >= 40 * MS
    assert "inner" not in imports
    assert imports["tensorflow"].line == 3


def test_modules_of_the_job_are_transparent(laboratory: Laboratory) -> None:
    """Their imports are recorded with their own line; they are no package."""
    laboratory.arm(trace_level="off")
    _write(laboratory, library=SLOW)
    own = laboratory.folder / "own.py"
    own.write_text("\n\n" + SLOW + "def load():\n    import library\n")

    assert _run(laboratory, RECORDED + "import own\nown.load()\n") == (0, "", "")

    imports = _imports(laboratory)
    assert (imports["library"].file, imports["library"].line) == (str(own), 5)
    assert "own" not in imports


def test_a_late_import_by_a_library_has_the_line_of_the_job(laboratory: Laboratory) -> None:
    """A function that imports what it needs, and a module that loads its parts on demand."""
    laboratory.arm(trace_level="off")
    _write(
        laboratory,
        **{"package/__init__": "def use():\n    import package.part\n", "package/part": SLOW},
        later=SLOW,
    )
    text = """import package
package.use()
import importlib.util, sys
spec = importlib.util.find_spec("later")
loader = importlib.util.LazyLoader(spec.loader)
spec.loader = loader
later = importlib.util.module_from_spec(spec)
loader.exec_module(later)
later.time
"""

    assert _run(laboratory, RECORDED + text) == (0, "", "")

    imports = _imports(laboratory)
    assert imports["package"].line == 3
    assert imports["later"].line == 10
    assert (imports["later"].end_ns or 0) - imports["later"].start_ns < 5_000 * MS


def test_each_thread_imports_separately(laboratory: Laboratory) -> None:
    """By the thread's name, also while another one imports."""
    laboratory.arm(trace_level="off")
    _write(laboratory, first=SLOW, second=SLOW)
    text = """import importlib, threading
gate = threading.Barrier(2)
def load(name):
    gate.wait()
    importlib.import_module(name)
threads = [threading.Thread(target=load, args=(name,), name=name) for name in ("first", "second")]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

    assert _run(laboratory, RECORDED + text) == (0, "", "")

    imports = _imports(laboratory)
    assert [imports[name].thread for name in ("first", "second")] == ["first", "second"]
    assert {imports[name].line for name in ("first", "second")} == {6}


def test_repeated_imports_are_recorded_again(laboratory: Laboratory) -> None:
    """importlib.reload runs the module once more."""
    laboratory.arm(trace_level="off")
    _write(laboratory, library=SLOW)

    text = RECORDED + "import importlib, library\nimportlib.reload(library)\n"
    assert _run(laboratory, text) == (0, "", "")

    assert _imports(laboratory)["library"].count == 2


@pytest.mark.parametrize(
    "error", ["ValueError('theirs')", "ImportError('theirs')", "SystemExit(3)"]
)
def test_an_import_that_fails_looks_as_without_the_agent(
    laboratory: Laboratory, python: str, error: str
) -> None:
    """The traceback has no frame of the agent, and the import can be tried again."""
    laboratory.arm(trace_level="off")
    _write(laboratory, outer="import inner\n", inner=SLOW + f"raise {error}\n")
    text = """
try:
    import outer
except BaseException as error:
    print(repr(error), error.__cause__, error.__context__)
import outer
"""

    armed = _run(laboratory, text, python)

    assert armed == _run(laboratory, text, python, armed=False)


def test_a_library_that_warns_names_the_line_that_imports_it(
    laboratory: Laboratory, python: str
) -> None:
    """A deprecated module names the line of the job, by the number of frames in between."""
    laboratory.arm(trace_level="off")
    warning = "import warnings\nwarnings.warn('old', DeprecationWarning, stacklevel=2)\n"
    _write(laboratory, library=warning)

    armed = _run(laboratory, "import library\n", python)

    assert armed == _run(laboratory, "import library\n", python, armed=False)
    assert "program.py:1: DeprecationWarning: old" in armed[2]


def test_nothing_of_the_agent_stays_on_imported_modules(
    laboratory: Laboratory, python: str
) -> None:
    """Modules, specs and loaders of packages, namespaces, zip files and the standard library."""
    laboratory.arm(trace_level="off")
    folder = _write(laboratory, **{"library/__init__": "", "library/part": "", "space/part": ""})
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("zipped.py", "value = 1")
    text = """import sys
sys.path.append(sys.argv[0].replace("program.py", "site-packages/archive.zip"))
import library.part, space.part, zipped, json, array, _json, colorsys
names = "library library.part space space.part zipped json array _json colorsys"
for name in names.split():
    module = sys.modules[name]
    loader = module.__spec__.loader
    print(name, sorted(vars(module.__spec__)), module.__loader__ is loader, type(loader).__name__)
    print("exec_module" in getattr(loader, "__dict__", ()) and not isinstance(loader, type))
"""

    armed = _run(laboratory, text, python)

    assert armed == _run(laboratory, text, python, armed=False)
    assert (armed[0], armed[2]) == (0, "")


def test_a_finder_of_the_old_kind_is_called_in_its_turn(laboratory: Laboratory) -> None:
    """Until Python 3.11 one may have `find_module` alone; its answer counts."""
    python = str(need_interpreter("3.8"))
    laboratory.arm(trace_level="off")
    _write(laboratory, library="value = 'file'\n")
    text = """import sys, types
class Old:
    def find_module(self, name, path=None): return self if name == "library" else None
    def load_module(self, name):
        module = sys.modules[name] = types.ModuleType(name)
        module.value = "finder"
        return module
sys.meta_path.insert(0, Old())

import library
print(library.value)
"""

    assert _run(laboratory, text, python)[:2] == (0, "finder\n")


def test_the_start_of_the_interpreter_is_an_interval(laboratory: Laboratory) -> None:
    """From the beginning of its process, which the system reports in ticks, to the agent's first
    line.
    """
    laboratory.arm(trace_level="off")

    before_ns, resolution_ns = map(
        int,
        laboratory.finish("""
print(time.time_ns())
print(10 ** 9 // os.sysconf("SC_CLK_TCK"))
"""),
    )

    (process,) = load(RunFolder(laboratory.run), this_machine()).processes
    assert isinstance(process.exec_ns, int)
    assert process.exec_ns - resolution_ns <= process.started_unix_ns <= before_ns
    assert before_ns - process.exec_ns < 60_000 * MS


def test_the_first_process_begins_where_the_launcher_became_it(laboratory: Laboratory) -> None:
    """For the system it begins with the launcher, whose time is not the job's."""
    laboratory.arm(trace_level="off")
    laboratory.finish("")
    (folder,) = laboratory.folders()
    facts = read_process(folder / "process.json")
    launched_ns = facts.started_unix_ns - 1
    manifest = {
        "schema": "tfprobe.run/1",
        "id": "run",
        "command": ["job"],
        "started": "2026",
        "host": facts.host,
        "pid": facts.pid,
        "started_unix_ns": launched_ns,
    }
    (laboratory.run / "run.json").write_text(json.dumps(manifest))

    (process,) = load(RunFolder(laboratory.run), this_machine()).processes

    assert process.exec_ns == launched_ns
