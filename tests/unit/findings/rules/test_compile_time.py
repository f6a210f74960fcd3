"""Functions traced for each model or pipeline are told from a twentieth of the wall time on."""

from __future__ import annotations

from dataclasses import replace

from tests.support.subjects import WHOLE_NS, account, found, process
from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.system.application import ActivityInSteps

# Of a process of 2 s, 100 ms.
TWENTIETH_NS = WHOLE_NS // 10


def traced(name: str, count: int = 5, own_ns: int = TWENTIETH_NS * 5 // 4):
    return ActivityInSteps("trace", name, count, own_ns, own_ns)


def test_a_twentieth_of_the_wall_time_is_told() -> None:
    """All traces but the first of each name."""
    grid = process(activities=(traced("multi_step_on_iterator"),))

    finding = found("compile_time", processes=[grid])

    assert finding is not None
    assert (finding.gain.high_ns, finding.gain.of_ns) == (TWENTIETH_NS, 2 * WHOLE_NS)
    assert "model" in finding.action


def test_pipelines_have_another_remedy() -> None:
    """predict in a loop makes one for each call."""
    finding = found("compile_time", processes=[process(activities=(traced("Dataset_map_f"),))])

    assert finding is not None
    assert "Create the data set once" in finding.action


def test_less_is_not() -> None:
    """Nor few traces, those of saving, and those of a function that has steps of its own."""
    others = (
        traced("multi_step_on_iterator", own_ns=TWENTIETH_NS),
        traced("train_step", own_ns=TWENTIETH_NS * 9),
        traced("_traced_save", own_ns=TWENTIETH_NS * 9),
        traced("call", count=3, own_ns=TWENTIETH_NS * 9),
    )
    well = process(activities=others, functions=frozenset({"train_step"}))

    assert found("compile_time", processes=[well]) is None


def test_functions_of_jax_are_not() -> None:
    """What JAX traces it also lowers; the advice is TensorFlow's."""
    lowered = ActivityInSteps("lower", "update", 5, TWENTIETH_NS)
    of_jax = process(activities=(traced("update"), lowered))

    assert found("compile_time", processes=[of_jax]) is None


def test_parts_that_jax_traces_are_not() -> None:
    """They have another name than what is lowered; pipelines of tf.data are told all the same."""
    parts, pipelines = (
        process(activities=(traced(name),), is_of_jax=True)
        for name in ("<lambda>", "Dataset_map_prepare")
    )

    assert found("compile_time", processes=[parts]) is None
    finding = found("compile_time", processes=[pipelines])
    assert finding is not None
    assert "tf.data" in finding.action


def test_first_steps_of_many_models_count() -> None:
    """TensorFlow optimizes there what was traced; those of the first model have to be."""
    items = (Item("multi_step_on_iterator", "", 200_000_000), Item("first step", "", 300_000_000))
    grid = process(
        activities=(traced("multi_step_on_iterator"),),
        account=account(2 * WHOLE_NS, compile=items),
    )

    finding = found("compile_time", processes=[grid])

    assert finding is not None
    assert finding.gain.high_ns == 400_000_000


def test_the_line_that_has_it_traced_is_named() -> None:
    """As its activities tell it."""
    use = replace(traced("multi_step_on_iterator"), source="search.py:23")

    finding = found("compile_time", processes=[process(activities=(use,))])

    assert finding is not None
    assert finding.evidence[0].source == "search.py:23"


def test_making_the_models_counts() -> None:
    """One of them has to be made."""
    built = ActivityInSteps("build", "Sequential.build", 5, TWENTIETH_NS)
    once = ActivityInSteps("compile", "Model.compile", 1, TWENTIETH_NS)
    grid = process(
        activities=(traced("multi_step_on_iterator"), built, once),
        account=account(2 * WHOLE_NS, compile=[Item("first step", "", TWENTIETH_NS)]),
    )

    finding = found("compile_time", processes=[grid])

    assert finding is not None
    assert finding.gain.high_ns == TWENTIETH_NS + TWENTIETH_NS * 4 // 5
