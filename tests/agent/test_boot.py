"""What every Python process of a job goes through: the agent starts, or leaves no trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support import toy_tensorflow
from tests.support.agent import Laboratory
from tests.support.interpreters import python_path
from tfprobe.runs.process_folder.events import read_interpreters

RECORDED = {"loss": 1}


def _bare(
    laboratory: Laboratory,
    code: str,
    *path: Path,
    armed: bool,
    python: str | Path = sys.executable,
) -> tuple[int, str, str]:
    entries = [laboratory.boot] * armed + list(path or [laboratory.folder / "packages"])
    environment = {"PYTHONPATH": os.pathsep.join(map(str, entries)), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(
        [python, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_the_loader_is_left_unchanged(laboratory: Laboratory) -> None:
    """After the import the agent has left no attribute on module, spec or loader, nor a path."""
    laboratory.arm()
    code = """
import sys, tensorflow.python.client.session as module, importlib.util
loader = module.__spec__.loader
print(sorted(vars(loader)), type(loader).__name__, module.__loader__ is loader)
print(sorted(vars(module)), sys.path[1:], sorted(sys.path_importer_cache) == sorted(
    set(sys.path_importer_cache)))
print(type(importlib.util.find_spec("tensorflow.python.client.session").loader).__name__)
"""

    assert _bare(laboratory, code, armed=True) == _bare(laboratory, code, armed=False)


@pytest.mark.parametrize(
    "error", ["ValueError('theirs')", "ImportError('theirs')", "SystemExit(3)", "KeyboardInterrupt"]
)
def test_errors_of_a_target_module_go_through(laboratory: Laboratory, error) -> None:
    """The import fails as without the agent, and can be tried again."""
    laboratory.arm()
    target = laboratory.folder / "packages/tensorflow/python/client/session.py"
    source = target.read_text()
    broken = f"import builtins\nif not hasattr(builtins, 'mended'): raise {error}\n{source}"
    target.write_text(broken)
    code = """
import builtins, sys
try:
    import tensorflow.python.client.session
except BaseException as error:
    print(repr(error), error.__cause__, error.__context__, len(sys.modules) > 0)
    print("tensorflow.python.client.session" in sys.modules)
builtins.mended = True
import tensorflow.python.client.session as module
print(module.BaseSession().run("loss"))
"""

    assert _bare(laboratory, code, armed=True) == _bare(laboratory, code, armed=False)
    assert laboratory.counts() == RECORDED


def test_an_absent_target_is_absent(laboratory: Laboratory) -> None:
    """ModuleNotFoundError has the same message as without the agent."""
    laboratory.arm()
    code = "import tensorflow.python.client\nimport keras.engine.training"
    code_2 = "import tensorflow.python.eager.function"

    for text in (code, code_2):
        assert _bare(laboratory, text, armed=True) == _bare(laboratory, text, armed=False)


def test_threads_may_import_at_once(laboratory: Laboratory) -> None:
    """Eight threads, all targets, no deadlock; each method is patched once."""
    laboratory.arm(trace_level="off")
    code = f"""
import importlib, sys, threading
names = {sorted(toy_tensorflow.MODULES)}
gate = threading.Barrier(8)
def body(turn):
    gate.wait()
    for name in names[turn:] + names[:turn]: importlib.import_module(name)
threads = [threading.Thread(target=body, args=(turn % len(names),)) for turn in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join(20)
print([thread.is_alive() for thread in threads].count(True))
session = sys.modules["tensorflow.python.client.session"].BaseSession()
print(session.run("loss"))
"""

    assert _bare(laboratory, code, armed=True) == (0, "0\nran loss\n", "")
    assert laboratory.counts() == RECORDED


def test_a_reloaded_module_is_patched_again(laboratory: Laboratory) -> None:
    """importlib.reload makes new classes."""
    laboratory.arm(trace_level="off")

    laboratory.finish("""
import importlib
importlib.reload(session_module)
session_module.BaseSession().run("loss")
""")

    assert laboratory.counts() == RECORDED


def test_tfprobe_disable_switches_everything_off(laboratory: Laboratory) -> None:
    """TFPROBE_DISABLE=1 leaves no finder, no module and no file."""
    laboratory.arm()
    before = _files(laboratory.run)
    job = "session.run('loss'); print([m for m in sys.modules if 'tfprobe' in m], sys.meta_path)"

    (line,) = laboratory.finish(job, env={"TFPROBE_DISABLE": "1"})

    assert line.startswith("[] [")
    assert "tfprobe" not in line
    assert _files(laboratory.run) == before


def _files(run: Path) -> list[Path]:
    return [path for path in sorted(run.rglob("*")) if "__pycache__" not in path.parts]


@pytest.mark.parametrize("value", ["", "0"])
def test_tfprobe_disable_may_be_empty_or_0(laboratory: Laboratory, value) -> None:
    """Both mean: record."""
    laboratory.arm()

    laboratory.finish("session.run('loss')", env={"TFPROBE_DISABLE": value})

    assert laboratory.counts() == RECORDED


def test_a_debug_file_lists_the_patched_modules(laboratory: Laboratory) -> None:
    """TFPROBE_DEBUG=FILE, in each process; one that cannot be written is no error."""
    laboratory.arm()
    debug = laboratory.folder / "debug.log"

    laboratory.finish("session.run('loss')", env={"TFPROBE_DEBUG": str(debug)})
    laboratory.finish("session.run('loss')", env={"TFPROBE_DEBUG": "/dev/null/x"})

    assert "patched tensorflow.python.client.session" in debug.read_text()
    assert [laboratory.counts(folder) for folder in laboratory.folders()] == [RECORDED] * 2


def test_each_interpreter_reports_itself(laboratory: Laboratory) -> None:
    """Whether or not it imports TensorFlow."""
    laboratory.arm()
    for _ in range(3):
        assert _bare(laboratory, "import json", armed=True) == (0, "", "")

    interpreters = read_interpreters(laboratory.boot / "interpreters.tsv")

    assert len({interpreter.pid for interpreter in interpreters}) == 3
    assert {interpreter.executable for interpreter in interpreters} == {sys.executable}
    assert laboratory.folders() == []


@pytest.mark.parametrize(
    "config",
    [
        None,
        *(b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": "tfprobe.config/2"}'),
        b'{"schema": "tfprobe.config/1", "trace_level": "loud", "budget": 0.01}',
        b'{"schema": "tfprobe.config/1", "trace_level": "full", "budget": "x"}',
        b'{"schema": "tfprobe.config/1", "trace_level": "full", "budget": 1, "every": 0}',
        b'{"schema": "tfprobe.config/1", "trace_level": "full", "budget": 1, "steps": [1]}',
    ],
)
def test_a_bad_config_leaves_the_job_unrecorded(laboratory: Laboratory, config) -> None:
    """And silent; the debug file says why."""
    laboratory.arm()
    (laboratory.boot / "config.json").unlink()
    if config is not None:
        (laboratory.boot / "config.json").write_bytes(config)
    debug = laboratory.folder / "debug.log"

    lines = laboratory.finish("print(session.run('loss'))", env={"TFPROBE_DEBUG": str(debug)})

    assert lines == ["ran loss"]
    assert laboratory.folders() == []
    assert "error in module_ready" in debug.read_text()


VANISHES = {
    "before the import": ("shutil.rmtree(run)", ""),
    "after the import": ("", "shutil.rmtree(run)"),
    "in the middle": ("", "[step() for _ in range(20)]; shutil.rmtree(run)"),
}


@pytest.mark.parametrize("when", VANISHES)
def test_the_run_directory_may_vanish(laboratory: Laboratory, when) -> None:
    """The job prints and does the same as without the agent."""
    laboratory.arm(every=3)
    before, after = VANISHES[when]
    code = f"""
import shutil
run = {str(laboratory.run)!r}
{before}
import tensorflow.python.client.session as module
import tensorflow.python.eager.def_function as def_function
session, function = module.BaseSession(), def_function.Function()
def step(): return session.run("loss"), function(1)
{after}
print([step() for _ in range(2000)] == [("ran loss", 2)] * 2000, session.run("other"))
"""

    assert _bare(laboratory, code, armed=True) == (0, "True ran other\n", "")
    assert not laboratory.run.exists()


def test_modules_in_a_zip_file_are_recorded(laboratory: Laboratory) -> None:
    """Their loader is shared by a whole directory of the archive."""
    laboratory.arm(trace_level="off")
    archive = laboratory.folder / "packages.zip"
    packages = laboratory.folder / "packages"
    (packages / "tensorflow/python/client/device_lib.py").touch()
    with zipfile.ZipFile(archive, "w") as file:
        for path in packages.rglob("*.py"):
            file.write(path, path.relative_to(packages))
    code = """
import importlib.util
importlib.util.find_spec("tensorflow.python.client.session")
import tensorflow.python.client.device_lib
import tensorflow.python.eager.def_function as def_function
import tensorflow.python.client.session as module
print(module.BaseSession().run("loss"), def_function.Function()(1))
print(sorted(vars(module.__spec__.loader)))
"""

    recorded = _bare(laboratory, code, archive, armed=True)

    assert recorded == _bare(laboratory, code, archive, armed=False)
    assert laboratory.counts() == {**RECORDED, "step": 1}


def test_a_namespace_package_in_place_of_a_target_is_harmless(laboratory: Laboratory) -> None:
    """Its loader runs nothing."""
    laboratory.arm()
    folder = laboratory.folder / "packages/tensorflow/python/client"
    (folder / "session.py").unlink()
    (folder / "session").mkdir()
    code = "import tensorflow.python.client.session as module; print(module.__path__)"

    assert _bare(laboratory, code, armed=True) == _bare(laboratory, code, armed=False)


def test_a_module_with_the_name_of_a_target_is_harmless(laboratory: Laboratory) -> None:
    """A file of the job may have that name and contain anything."""
    laboratory.arm()
    shutil.rmtree(laboratory.folder / "packages/tensorflow/python/client")
    (laboratory.folder / "packages/tensorflow/python/client").mkdir()
    module = laboratory.folder / "packages/tensorflow/python/client/session.py"
    module.write_text("BaseSession = 3\n")
    code = "import tensorflow.python.client.session as module; print(module.BaseSession)"

    assert _bare(laboratory, code, armed=True) == (0, "3\n", "")


SUBINTERPRETER = """
import tensorflow.python.client.session as module
module.BaseSession().run("loss")
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
inner = interpreters.create()
interpreters.run_string(inner, '''
import sys
import tensorflow.python.client.session as module
for _ in range(5): module.BaseSession().run("inner")
print([name for name in sys.modules if "tfprobe" in name], len(sys.path), flush=True)
''')
interpreters.destroy(inner)
"""


@pytest.mark.parametrize("version", ["3.8", "this", "3.12", "3.13"])
def test_a_subinterpreter_is_left_alone(laboratory: Laboratory, version) -> None:
    """The process has one recording, of its main interpreter, and ends as it does without the
    agent.
    """
    laboratory.arm()
    python = python_path(version)

    bare = _bare(laboratory, SUBINTERPRETER, armed=False, python=python)
    armed = _bare(laboratory, SUBINTERPRETER, armed=True, python=python)

    assert bare[0] == 0
    assert armed == bare
    assert laboratory.counts() == RECORDED


# A sitecustomize of another tool that precedes the agent's and runs the next one, as the agent's
# does.
CHAINING = """
import builtins, sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
builtins.ran = getattr(builtins, "ran", []) + ["tool"]
behind = sys.path[sys.path.index(%r) + 1:]
spec = PathFinder.find_spec("sitecustomize", behind)
if spec is not None:
    sys.modules["sitecustomize"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
"""
USERS = "import builtins; builtins.ran = getattr(builtins, 'ran', []) + ['user']\n"


@pytest.mark.parametrize("chains", [True, False])
@pytest.mark.parametrize("version", ["3.6", "3.8", "3.11", "3.13", "this"])
def test_a_sitecustomize_before_the_agents_runs_once(
    laboratory: Laboratory, version, chains
) -> None:
    """Each runs as often as without the agent, and the job is recorded.

    In a virtual environment that needs a sitecustomize that runs the next one.
    """
    laboratory.arm(trace_level="off")
    python = python_path(version)
    packages, tool, user = (laboratory.folder / name for name in ("packages", "tool", "user"))
    for folder, text in ((tool, CHAINING % str(tool) if chains else USERS), (user, USERS)):
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(text)
    (user / "usercustomize.py").write_text(USERS.replace("user", "user again"))
    code = """
import builtins, sys
import tensorflow.python.client.session as module
print(builtins.ran, module.BaseSession().run("loss"), [name for name in sys.path if "boot" in name])
"""

    bare = _bare(laboratory, code, tool, user, packages, armed=False, python=python)
    path = tool, laboratory.boot, user, packages
    recorded = _bare(laboratory, code, *path, armed=False, python=python)

    survives = chains or version != "this"
    assert survives is (laboratory.folders() != [])
    assert recorded[1:] == bare[1:] or not survives


def test_the_second_entry_runs_the_usercustomize_that_it_hides(laboratory: Laboratory) -> None:
    """If another sitecustomize does not run the next one, and the user has both."""
    laboratory.arm(trace_level="off")
    python = python_path("3.11")
    tool, user = laboratory.folder / "tool", laboratory.folder / "user"
    for folder, name in ((tool, "sitecustomize"), (user, "usercustomize")):
        folder.mkdir()
        (folder / f"{name}.py").write_text(USERS.replace("user", name))
    code = "import builtins, sys; print(builtins.ran, sys.modules['usercustomize'].__file__)"

    bare = _bare(laboratory, code, tool, user, armed=False, python=python)
    armed = _bare(laboratory, code, tool, laboratory.boot, user, armed=False, python=python)

    assert armed == bare
    assert len(read_interpreters(laboratory.boot / "interpreters.tsv")) == 1
