"""What the analyser reads from programs of JAX is what JAX itself says of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.tf.laboratory import environment_of_a_job
from tfprobe.analysis.memory.program_memory import program_memory
from tfprobe.errors import Missing
from tfprobe.formats.schema import message_class
from tfprobe.formats.xspace.devices import Programs
from tfprobe.formats.xspace.hlo_module import read_module
from tfprobe.profile.hlo import RanProgram

JOB = Path(__file__).parent / "jobs" / "programs.py"
NAMES = ("products", "donated", "loop", "sorting", "choice")


@pytest.fixture(scope="module")
def recorded(laboratory: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of captures, and what JAX said. Any: JSON."""
    folder = tmp_path_factory.mktemp("programs")
    answer = subprocess.run(
        [laboratory.python, str(JOB), str(folder)],
        stdout=subprocess.PIPE,
        check=True,
        env=environment_of_a_job({}),
    )
    return folder, json.loads(answer.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_what_jax_says(recorded: tuple[Path, Any], name: str) -> None:
    """`compiled.memory_analysis()`: arguments, results, donated and temporary bytes."""
    folder, known = recorded
    space = message_class("tfprobe.xplane.XSpace").FromString(
        (folder / f"{name}.xplane.pb").read_bytes()
    )
    programs = Programs(space.planes)
    (key,) = (key for key in programs.modules() if key[0] == f"jit_{name}")

    found = program_memory(RanProgram(key[1], read_module(programs.content(key)), {}))

    assert not isinstance(found, Missing), found
    assert [
        found.argument_bytes,
        found.output_bytes,
        found.donated_bytes,
        found.temporary_bytes,
    ] == known[name]
    assert sum(piece.bytes for piece in found.pieces) == found.bytes
