"""What a process of an arm is started with, beside the job's own command and variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfprobe.findings.fixes import chosen
from tfprobe.trial import arms
from tfprobe.trial.arms import Arm, StartedArm, TriedJob, trial_config
from tfprobe.trial.workspace import Isolation, Workspace


@pytest.fixture
def started(tmp_path: Path, monkeypatch) -> Any:
    """Start an arm without a process; return its specification and its environment."""
    environments: list[dict[str, str]] = []
    monkeypatch.setattr(
        arms.subprocess, "Popen", lambda *_args, **options: environments.append(options["env"])
    )
    (tmp_path / "job").mkdir()
    (tmp_path / "scratch").mkdir()
    place = Workspace(Isolation.COPY, tmp_path / "job", (), tmp_path / "scratch")

    def start(order: int, *words: str, **variables: str) -> tuple[dict[str, Any], dict[str, str]]:
        arm = Arm("+".join(words).replace("/", "_"), tuple(chosen(word) for word in words))
        config = trial_config(arm, None, seconds=1.0, most_units=9, seed=0)
        StartedArm(TriedJob(("python", "train.py"), variables, place), arm, order, config, {})
        (spec,) = (tmp_path / "scratch").glob(f"{order:03d}-*/spec.json")
        return json.loads(spec.read_text()), environments[-1]

    return start


def test_processes_of_an_arm_share_the_cache_of_what_they_compile(started, tmp_path) -> None:
    """In the trial's own directory, which other arms do not see."""
    first, second, other = (
        spec["trial"]["fixes"]["compilation_cache"]
        for spec, _ in (
            started(1, "compilation_cache"),
            started(2, "compilation_cache"),
            started(3, "compilation_cache", "debug_nans_off"),
        )
    )

    assert first == second != other
    assert Path(first).is_dir()
    assert Path(first).is_relative_to(tmp_path / "scratch")


def test_an_allocator_comes_before_what_the_user_preloads(started) -> None:
    """And other arms keep that as it is."""
    word = "allocator=/usr/lib/libjemalloc.so.2"
    _, alone = started(1, word)
    _, both = started(2, word, LD_PRELOAD="/own.so")
    _, without = started(3, "prefetch", LD_PRELOAD="/own.so")

    assert alone["LD_PRELOAD"] == "/usr/lib/libjemalloc.so.2"
    assert both["LD_PRELOAD"] == "/usr/lib/libjemalloc.so.2:/own.so"
    assert without["LD_PRELOAD"] == "/own.so"
