"""Jobs of JAX run as without tfprobe, and all of their steps are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.jax.outcomes import TRACED_BY_BUDGET, counts, outcomes
from tests.tf.laboratory import as_bare, counted, tfprobe_json
from tfprobe.analysis.core.main_loop import unknown_times
from tfprobe.runs.process_folder.steps import read_steps

NAMES = (
    "compiling.py",
    "debugging.py",
    "distributed.py",
    "forms.py",
    "identity.py",
    "libraries.py",
    "meshes.py",
    "nnx_training.py",
    "processes.py",
    "profiling.py",
    "training.py",
    "transforms.py",
    "waits.py",
)
RECORDED = [(name, "every") for name in NAMES] + [(name, "budget") for name in TRACED_BY_BUDGET]


@pytest.mark.parametrize(("name", "way"), RECORDED)
def test_a_job_prints_and_ends_as_without_a_recording(laboratory, name, way) -> None:
    """Results bit for bit, names, caches, pickles, copies, threads, and errors while tracing."""
    found = outcomes(laboratory, name)

    as_bare(found["bare"], found[way])
    assert found[way].stderr == found["bare"].stderr


@pytest.mark.parametrize(("name", "way"), RECORDED)
def test_every_step_is_counted(laboratory, name, way) -> None:
    """Outermost calls that execute: none while another function is traced."""
    outcome = outcomes(laboratory, name)[way]

    known = counted(outcome)

    assert {name: count for name, count in counts(outcome).items() if name in known} == known


@pytest.mark.parametrize("name", NAMES)
def test_the_agent_has_no_error(laboratory, name) -> None:
    """It says so in its log and in an event."""
    outcome = outcomes(laboratory, name)["every"]

    assert "error in" not in outcome.agent_log
    assert [event for event in outcome.events if event["event"] in ("error", "aside")] == []


def test_the_process_says_which_frameworks_it_uses(laboratory) -> None:
    """JAX alone: nothing of TensorFlow is loaded for it."""
    outcome = outcomes(laboratory, "training.py")["budget"]

    (process,) = [json.loads(path.read_text()) for path in outcome.run.glob("*/*/process.json")]

    assert list(process["frameworks"]) == ["jax"]
    assert process["tensorflow"] is None
    assert process["devices"][0]["type"] == "CPU"


def test_each_compilation_says_what_has_changed(laboratory) -> None:
    """By shape, type, structure and static value; new functions and cleared caches say so."""
    outcome = outcomes(laboratory, "compiling.py")["budget"]

    found = [
        (
            event["name"],
            event["count"],
            event["step"],
            event["first"],
            event["cached"],
            event["changed"] and [" ".join((*change.values(),)) for change in event["changed"]],
        )
        for event in outcome.events
        if event["event"] == "compile"
    ]

    scale = "scale dtype float32[], weakly typed int32[], weakly typed"
    typed = "scale weak type float32[], weakly typed float32[]"
    assert found == [
        ("shapes", 1, 0, True, False, None),
        ("shapes", 2, 3, False, False, ["x shape float32[8,3] float32[5,3]"]),
        ("shapes", 3, 5, False, False, [scale]),
        ("shapes", 4, 7, False, False, [typed]),
        ("statics", 1, 0, True, False, None),
        ("statics", 2, 1, False, False, ["times static value 1 2"]),
        ("statics", 3, 2, False, False, ["mode static value 'add' 'multiply'"]),
        ("states", 1, 0, True, False, None),
        ("states", 2, 3, False, False, ["state['b'] structure  float32[2]"]),
        ("shapes", 5, 8, False, True, []),
        ("<lambda>", 1, 0, True, False, None),
        ("<lambda>", 2, 1, True, True, None),
        ("<lambda>", 3, 2, True, True, None),
        ("<lambda>", 4, 3, True, True, None),
    ]


def test_advice_names_what_is_compiled_again(laboratory) -> None:
    """The function that takes longest first, with what differs in its arguments."""
    outcome = outcomes(laboratory, "compiling.py")["budget"]

    document = tfprobe_json("advise", str(outcome.run))

    (finding,) = [each for each in document["findings"] if each["rule"] == "recompiling"]
    texts = [evidence["text"] for evidence in finding["evidence"]]
    assert "shapes, compiled 5 times" in texts
    assert "<lambda>, compiled 4 times" in texts
    assert "of a new function: 3 times" in texts
    assert any(text.startswith("x has another shape, such as float32[8,3]") for text in texts)


def test_compilations_are_retraces_and_activities(laboratory) -> None:
    """Each stage is an activity of the function, with the line that caused it."""
    outcome = outcomes(laboratory, "compiling.py")["budget"]

    retraces = {loop["name"]: loop["retraces"] for loop in outcome.loops}
    stages = [
        line
        for path in outcome.run.glob("*/*/activities.jsonl")
        for line in map(json.loads, path.read_text().splitlines())
        if line["name"] == "statics"
    ]

    assert retraces == {"shapes": 4, "statics": 2, "states": 1, "<lambda>": 3, "refused": 0}
    assert [line["activity"] for line in stages] == ["trace", "lower", "xla"] * 3
    assert {Path(line["file"]).name for line in stages} == {"compiling.py"}


def test_ranks_are_those_that_jax_was_initialized_with(laboratory) -> None:
    """The processes say so, and are compared as ranks."""
    outcome = outcomes(laboratory, "distributed.py")["budget"]

    processes = [json.loads(path.read_text()) for path in outcome.run.glob("*/*/process.json")]
    document = tfprobe_json("ranks", str(outcome.run))

    expected = {"source": "jax.distributed", "world": 2, "role": "worker"}
    assert sorted(process["rank"]["index"] for process in processes) == [0, 1]
    assert all({**process["rank"], **expected} == process["rank"] for process in processes)
    assert document["problems"] == []
    assert [(rank["rank"], rank["steps"]) for rank in document["ranks"]] == [(0, 30), (1, 30)]


def test_traced_steps_show_the_products_of_the_step(laboratory) -> None:
    """A capture holds its own step: what came before has ended, what it queued is in it."""
    if laboratory.tensorflow < (0, 6):
        pytest.skip("a session of jaxlib before 0.6 prints to stderr: none is opened")
    outcome = outcomes(laboratory, "training.py")["every"]

    document = tfprobe_json("op", str(outcome.run), "--loop", "train_step")

    assert {"dot", "fusion"} <= {op["name"] for op in document["ops"]}


def test_the_jobs_own_traces_are_whole_and_no_step_is_traced_beside_them(laboratory) -> None:
    """They print how many files they wrote; the steps say why they were not traced."""
    if laboratory.tensorflow < (0, 6):
        pytest.skip("a session of jaxlib before 0.6 prints to stderr: none is opened")
    outcome = outcomes(laboratory, "profiling.py")["every"]

    declined = [event["why"] for event in outcome.events if event["event"] == "declined"]

    assert outcome.stdout.decode().splitlines()[:2] == ["files 1", "files 1"]
    assert "the job is profiling" in declined


@pytest.mark.parametrize("way", ["budget", "every"])
@pytest.mark.parametrize("name", ["each", "tenth", "once"])
def test_the_mean_cycle_is_that_of_the_jobs_own_clock(laboratory, name, way) -> None:
    """However rarely the job waits, between its first call and its last wait.

    On a busy machine, time may pass between the end of the wait and the look at the clock.
    """
    outcome = outcomes(laboratory, "waits.py")[way]
    assert outcome.output is not None
    (folder,) = [path.parent for path in outcome.run.glob("*/*/steps.bin")]
    own_ns = json.loads((outcome.output.parent / "work" / "means.json").read_text())[name] * 1e9

    (loop,) = [loop for loop in read_steps(folder / "steps.bin").loops if loop.name == name]

    recent = loop.recent
    steps = len(recent.start_ns) - 1
    mean_ns = int(recent.end_ns[-1] - recent.start_ns[1]) / steps
    assert steps == loop.executed - 1
    assert 0.5 * own_ns < mean_ns < 1.02 * own_ns


def test_functions_that_take_turns_have_a_time_each(laboratory) -> None:
    """One waits for both: each of their steps was traced, where this version of JAX is."""
    outcome = outcomes(laboratory, "waits.py")["every"]
    (folder,) = [path.parent for path in outcome.run.glob("*/*/steps.bin")]

    loops = [loop for loop in read_steps(folder / "steps.bin").loops if "in_turn" in loop.name]

    known = [loop for loop in loops if unknown_times(loop) is None]
    assert len(loops) == 2
    assert len(known) == (2 if loops[0].sampled else 1)
