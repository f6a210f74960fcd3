"""A recorded job cannot tell: the same program, bare and recorded, shows and does the same."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.process.launching import Launcher
from tests.support.interpreters import need_interpreter

LOOK_AROUND = """
import json, os, signal, sys, threading

def targets():
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink("/proc/self/fd/" + number).split(":")[0]
        except OSError:
            continue  # the descriptor of the listing itself
        found[number] = kind
    return found

def masks():
    with open("/proc/self/status") as status:
        # Not SigQ: it counts for all processes of the user.
        names = ("SigPnd", "SigBlk", "SigIgn", "SigCgt", "ShdPnd", "Umask")
        return [line for line in status if line.startswith(names)]

def look():
    return {
        "argv": sys.argv, "path": sys.path, "flags": str(sys.flags), "name": __name__,
        "main": sys.modules["__main__"].__dict__.get("__file__"),
        "sitecustomize": "sitecustomize" in sys.modules,
        "hooks": [str(f) for f in (sys.excepthook, sys.displayhook, sys.gettrace())],
        "sigint": str(signal.getsignal(signal.SIGINT)),
        "sigpipe": str(signal.getsignal(signal.SIGPIPE)),
        "masks": masks(), "descriptors": targets(), "threads": threading.active_count(),
        "cwd": os.getcwd(), "ppid": os.getppid() if INHERITED else 0,
        "group": os.getpgid(0), "session": os.getsid(0),
        "environment": {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and k != "_"},
        "orig_argv": list(getattr(sys, "orig_argv", [])),
    }

INHERITED = True
"""
PROGRAM = (
    LOOK_AROUND
    + """
print(json.dumps(look(), sort_keys=True))
sys.stderr.write("words on stderr\\n")
open("side-effect.txt", "a").write("x")
sys.stdout.flush()
ENDING = sys.argv[-1]
if ENDING == "three":
    sys.exit(3)
if ENDING == "exception":
    raise ValueError("the job's own")
if ENDING == "terminated":
    os.kill(os.getpid(), signal.SIGTERM)
if ENDING == "at-once":
    os._exit(5)
"""
)
STATUSES = {"zero": 0, "three": 3, "exception": 1, "terminated": -15, "at-once": 5}


def _script(launcher: Launcher, python: str) -> list[str]:
    launcher.write("probe.py", PROGRAM)
    return [python, "probe.py"]


def _text(launcher: Launcher, python: str) -> list[str]:
    return [python, "-c", PROGRAM]


def _module(launcher: Launcher, python: str) -> list[str]:
    launcher.write("package/__init__.py", "")
    launcher.write("package/probe.py", PROGRAM)
    return [python, "-m", "package.probe"]


def _directory(launcher: Launcher, python: str) -> list[str]:
    launcher.write("application/__main__.py", PROGRAM)
    return [python, "application"]


def _zip(launcher: Launcher, python: str) -> list[str]:
    with zipfile.ZipFile(launcher.work / "application.zip", "w") as archive:
        archive.writestr("__main__.py", PROGRAM)
    return [python, "application.zip"]


def _executable(launcher: Launcher, python: str) -> list[str]:
    launcher.write("probe", f"#!{python}\n{PROGRAM}", mode=0o755)
    return ["./probe"]


def _shell_script(launcher: Launcher, python: str) -> list[str]:
    launcher.write("probe.py", PROGRAM)
    launcher.write("job.sh", f'#!/bin/sh\nexec {python} probe.py "$@"\n', mode=0o755)
    return ["./job.sh"]


def _no_shebang(launcher: Launcher, python: str) -> list[str]:
    launcher.write("probe.py", PROGRAM)
    launcher.write("job", f'exec {python} probe.py "$@"\n', mode=0o755)
    # bash runs such a file itself; exec'ed directly it would be refused by the kernel.
    return ["./job"]


FORMS = (
    _directory, _executable, _module, _no_shebang, _script, _shell_script, _text, _zip
)  # fmt: skip


@pytest.mark.parametrize("ending", STATUSES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__.strip("_"))
def test_a_job_shows_and_does_the_same(launcher: Launcher, python, form, ending) -> None:
    """Bare or recorded: the same view of the world, output, status and files."""
    command = form(launcher, python)
    shell = ["/bin/sh"] if form is _no_shebang else []

    bare = launcher.bare(*shell, *command, "--option", "two words", ending)
    files_bare = _take_files(launcher.work)
    recorded = launcher.run("--", *command, "--option", "two words", ending)

    assert recorded.status == bare.status == STATUSES[ending]
    assert _view(recorded.stdout) == _view(bare.stdout)
    assert recorded.stdout == bare.stdout
    assert recorded.own_stderr == bare.stderr
    assert _take_files(launcher.work) == files_bare


CHILDREN = """
import multiprocessing, sys, json, os
INHERITED = False

def square(number):
    seen = look()
    for volatile in ("masks", "descriptors", "group", "session", "orig_argv", "argv"):
        seen.pop(volatile)
    return number * number, json.dumps(seen, sort_keys=True)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(square, range(4)))
    child = context.Process(target=sys.exit, args=(7,))
    child.start()
    child.join()
    print(child.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_show_the_same(launcher: Launcher, python, method) -> None:
    """Processes that multiprocessing starts look the same under a recorded parent."""
    launcher.write("pool.py", LOOK_AROUND + CHILDREN)

    bare = launcher.bare(python, "pool.py", method)
    recorded = launcher.run("--", python, "pool.py", method)

    assert bare.status == 0, bare.stderr
    assert recorded.stdout == bare.stdout
    assert recorded.status == bare.status


def test_a_forked_child_shows_the_same(launcher: Launcher, python) -> None:
    """os.fork, work in both, and the status of each."""
    text = "import os\npid = os.fork()\nif not pid: print('child', flush=True); os._exit(4)\n"
    text += "print(os.waitpid(pid, 0)[1])\n"

    bare = launcher.bare(python, "-c", text)
    recorded = launcher.run("--", python, "-c", text)

    assert recorded.stdout == bare.stdout == b"child\n1024\n"


@pytest.mark.parametrize(
    "version", ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]
)
def test_every_python_shows_the_same(launcher: Launcher, version) -> None:
    """From 2.7 to 3.13 a program sees the same world."""
    python = need_interpreter(version)
    launcher.write("probe.py", PROGRAM)

    bare = launcher.bare(python, "probe.py", "three")
    recorded = launcher.run("--", python, "probe.py", "three")

    assert _view(recorded.stdout) == _view(bare.stdout)
    assert (recorded.status, recorded.own_stderr) == (3, bare.stderr)


@pytest.mark.parametrize("flag", ["-I", "-E", "-s", "-O", "-B", "-u", "-X importtime"])
def test_interpreter_flags_mean_the_same(launcher: Launcher, python, flag) -> None:
    """Flags that keep the recorder out, and those that do not, change nothing for the job."""
    launcher.write("probe.py", PROGRAM)

    bare = launcher.bare(python, *flag.split(), "probe.py", "zero")
    recorded = launcher.run("--", python, *flag.split(), "probe.py", "zero")

    assert recorded.status == bare.status == 0
    assert recorded.stdout == bare.stdout


# What the recorder needs to find the sitecustomize it hides, and these import.
BORROWED = {
    *("importlib", "importlib._bootstrap", "importlib._bootstrap_external", "importlib.machinery"),
    *("types", "warnings", "imp"),
}


def test_few_modules_are_imported_early(launcher: Launcher, python) -> None:
    """The recorder imports itself and nothing but a handful of the standard library."""
    text = "import sys; print(*sorted(sys.modules), sep='\\n')"

    bare = launcher.bare(python, "-c", text).lines()
    recorded = launcher.run("--", python, "-c", text).lines()

    assert set(bare) <= set(recorded)
    more = {name for name in recorded if not name.startswith("tfprobe_agent")} - set(bare)
    assert more <= BORROWED


def test_without_site_only_the_path_differs(launcher: Launcher, python) -> None:
    """With -S nothing of ours runs, so nothing can take the boot directory off sys.path."""
    launcher.write("probe.py", PROGRAM)

    bare = _view(launcher.bare(python, "-S", "probe.py", "zero").stdout)
    recorded = launcher.run("--", python, "-S", "probe.py", "zero")

    view = _view(recorded.stdout)
    assert view.pop("path").count(str(recorded.run / "boot")) == 1
    bare.pop("path")
    assert view == bare


def _view(stdout: bytes) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(stdout.decode().splitlines()[0])
    return view


def _take_files(work: Path) -> dict[str, str]:
    """The files there are; the one the job writes is removed for the next."""
    (work / "side-effect.txt").rename(work / "taken")
    files = {str(path.relative_to(work)) for path in work.rglob("*")}
    content = (work / "taken").read_text()
    (work / "taken").unlink()
    return dict.fromkeys(sorted(files), content)
