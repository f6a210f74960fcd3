"""Whatever happens to a job or is done by it, it behaves as without tfprobe, and what was recorded
until then is readable.
"""

from __future__ import annotations

from pathlib import Path

from tests.tf.laboratory import Laboratory, as_bare, count
from tests.tf.requirements import need_tensorflow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_session_users_notice_nothing(laboratory: Laboratory) -> None:
    """Own trace options and metadata, four threads, wrong feeds, copies, pickles, mocked clocks and
    files, a closed session, an own Session class: all as bare, and every step counted.
    """
    bare, recorded = laboratory.pair("session_bad_luck.py")

    as_bare(bare, recorded)
    assert sum(count(recorded, "session_run", "counted_step")) >= 222
    assert [event for event in recorded.events if event["event"] in ("error", "aside")] == []


def test_disabled_profiling_is_respected(laboratory: Laboratory) -> None:
    """With TF_DISABLE_PROFILING=1 a full trace raises after the step has run, so none is taken."""
    bare, recorded = laboratory.pair("session_bad_luck.py", env={"TF_DISABLE_PROFILING": "1"})

    as_bare(bare, recorded)
    assert sum(count(recorded, "session_run", "counted_step")) > 0


def test_keras_users_notice_nothing(laboratory: Laboratory) -> None:
    """Signatures, copies, pickles, clones, mocked clocks, callbacks that raise, stop or train
    another model: all as bare.
    """
    bare, recorded = laboratory.pair("keras_bad_luck.py")

    as_bare(bare, recorded)
    assert count(recorded, "fit", "") != []


def test_a_users_own_profiler_always_wins(laboratory: Laboratory) -> None:
    """tf.profiler before, around, in the middle of and inside a step, in a Keras callback and in
    TensorBoard's: it never fails because of us and captures what it would have captured.
    """
    need_tensorflow(laboratory, (2, 2))

    bare, recorded = laboratory.pair("profiler_bad_luck.py")

    as_bare(bare, recorded)
    assert sum(count(recorded, "function", "train_step")) == 100


def test_workers_of_a_cluster_survive_their_traces(laboratory: Laboratory) -> None:
    """Two workers train as bare; where TensorFlow's profiler would crash them, no step is traced
    and the run says why.
    """
    need_tensorflow(laboratory, (2, 4))

    bare, recorded = laboratory.pair(str(EXAMPLES / "two_workers.py"), "--steps", "20")

    as_bare(bare, recorded)
    assert count(recorded, "function", "train_step") == [20, 20]
    events = {event["event"] for event in recorded.events if event.get("work") == 0}
    if laboratory.tensorflow < (2, 17):
        assert "sample" in events
    else:
        assert "sample" not in events
        why = {event["why"] for event in recorded.events if event["event"] == "declined"}
        assert any("crashes processes of a cluster" in each for each in why)


def test_a_users_profile_context_always_wins(laboratory: Laboratory) -> None:
    """tf.contrib.tfprof.ProfileContext traces and dumps the same steps as without us."""
    need_tensorflow(laboratory, (1, 14), (1, 15))

    bare, recorded = laboratory.pair("contrib_profiler.py")

    as_bare(bare, recorded)
