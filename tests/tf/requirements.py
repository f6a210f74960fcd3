"""Which tests an environment can run: a skip here always says what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

import pytest

from tests.tf.doors import Job
from tests.tf.laboratory import Laboratory


def need(laboratory: Laboratory, job: Job) -> None:
    """Skip the test unless `job` runs on the laboratory's TensorFlow."""
    need_tensorflow(laboratory, *job.versions)
    if job.needs and not _has(laboratory.python, job.needs):
        pytest.skip(f"{job.needs} is not installed beside this TensorFlow")


def need_tensorflow(
    laboratory: Laboratory, first: tuple[int, int], last: tuple[int, int] = (2, 99)
) -> None:
    """Skip the test unless the laboratory's TensorFlow is from `first` to `last`."""
    if not first <= laboratory.tensorflow <= last:
        span = f"from {_text(first)}" + ("" if last == (2, 99) else f" to {_text(last)}")
        pytest.skip(f"exists in TensorFlow {span} only")


def need_python(laboratory: Laboratory, only: tuple[int, int]) -> None:
    """Skip the test unless the laboratory's interpreter is of this version."""
    if _python(laboratory.python) != _text(only):
        pytest.skip(f"asked with Python {_text(only)} only")


def need_program(name: str, package: str) -> None:
    """Skip the test where a program of Debian is not installed; where CI=true it must be."""
    if shutil.which(name) is None:
        where_required = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        where_required(f"there is no {name} here; it comes with Debian's {package}")


@cache
def _python(python: str) -> str:
    ask = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True).stdout


@cache
def _has(python: str, module: str) -> bool:
    ask = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", ask]).returncode == 0


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
