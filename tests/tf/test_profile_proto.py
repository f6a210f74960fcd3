"""TensorFlow's own engine loads what `tfprobe export --to profile-proto` writes of a job."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tf.laboratory import READ_TIMEOUT_S, Laboratory

# What the recorded profiles of the engine do not cover.
CHOICES = [
    {"select": ["micros"], "trim_name_regexes": [".*ops.py.*"]},
    {"select": ["bytes"], "hide_name_regexes": [".*ops.*"]},
    {"select": ["micros"], "show_name_regexes": [".*doors.*"]},
    {"select": ["micros"], "account_type_regexes": ["Mat.*", "MatMul", "Const"]},
    {"select": ["params"], "start_name_regexes": [".*ops.*"]},
    {"select": ["output_bytes"], "max_depth": 4},
    {"select": ["cpu_micros"], "max_depth": 1},
]


@pytest.mark.parametrize(
    ("job", "loop"),
    [
        # Not the loop with most time: that may be one that runs eagerly, which has no code view.
        (("keras_doors.py", "tf.keras"), "fit m_fit"),
        (("session_doors.py",), "session_run main_step"),
    ],
)
def test_the_engine_says_what_we_say(
    laboratory: Laboratory, tmp_path: Path, job: tuple[str, ...], loop: str
) -> None:
    """All four views of a recorded Keras job and of a recorded session, and pprof files of the code
    view, byte for byte.
    """
    run = laboratory.outcomes(*job)["every"].run
    profile = tmp_path / "tfprof.profile"
    _tfprobe("export", str(run), "--to", "profile-proto", "--loop", loop, "-f", str(profile))

    words = [str(profile), str(tmp_path), json.dumps(CHOICES)]
    engine = laboratory.start("engine_report.py", *words).outcome()

    assert engine.status == 0, engine.stderr
    for view in ("op", "scope", "graph", "code"):
        theirs = (tmp_path / f"{view}.txt").read_text().partition("Profile:\n")[2]
        ours = _tfprobe(
            "tfprof", f"--profile_path={profile}", "-max_depth=10000", "-order_by=name",
            "-select=micros,bytes,output_bytes,occurrence,device", view,
        )  # fmt: skip
        assert theirs.startswith("node name")
        assert ours.endswith(theirs), view
    for number, choice in enumerate(CHOICES):
        path = tmp_path / f"ours_{number}.pb.gz"
        options = [f"-{name}={_text(value)}" for name, value in choice.items()]
        _tfprobe(
            "tfprof", f"--profile_path={profile}", "code", "-max_depth=10000", *options,
            f"-output=pprof:outfile={path}",
        )  # fmt: skip
        if "start_name_regexes" in choice and laboratory.tensorflow < (2, 5):
            continue  # its sort is not stable, and these starts have equal names
        packed = gzip.decompress((tmp_path / f"{number}.pb.gz").read_bytes())
        assert gzip.decompress(path.read_bytes()) == packed, choice


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _tfprobe(*words: str) -> str:
    command = [sys.executable, "-m", "tfprobe", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READ_TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
