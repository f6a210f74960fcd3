"""A Profiler gathers steps and answers about them; what it cannot answer it tells."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.captures import CPU, Node
from tests.support.live_graphs import ToyGraph, ToyOp, metadata, metadata_with_shapes
from tfprobe import tfprof
from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.formats.profile_proto import graph_profile
from tfprobe.formats.schema import message_class

BY_TIME = tfprof.ProfileOptionBuilder.time_and_memory(min_micros=0, min_bytes=0)
QUIET = {**BY_TIME, "output": "none"}


def graph(*more: ToyOp) -> ToyGraph:
    """A graph of two ops, which the same line made."""
    line = [("/job/train.py", 7, "main", "build()")]
    return ToyGraph(
        ToyOp("layer/weights", "VariableV2", traceback=line),
        ToyOp("layer/double", "Mul", ("layer/weights",), traceback=line),
        *more,
        trained=("layer/weights",),
    )


def step(weights_us: int = 10, double_us: int = 70):
    """Return the RunMetadata of a run of it."""
    rows = (Node("layer/weights", 1, weights_us), Node("layer/double", 20, double_us))
    return metadata(*rows, device=CPU)


def micros(message) -> dict[str, int]:
    """Return the total time of each child of a message."""
    return {child.name: child.total_exec_micros for child in message.children}


def test_each_view_answers_with_its_message() -> None:
    """Trees of nodes for scope and graph, lists and lines of many nodes for op and code."""
    profiler = tfprof.Profiler(graph())
    profiler.add_step(0, step())

    scopes = profiler.profile_name_scope(QUIET)
    nodes = profiler.profile_graph(QUIET)
    ops = profiler.profile_operations(QUIET)
    lines = profiler.profile_python(QUIET)

    assert isinstance(scopes, tfprof.GraphNodeProto)
    assert micros(scopes) == {"layer": 80}
    assert isinstance(nodes, tfprof.GraphNodeProto)
    assert micros(nodes) == {"layer/double": 80}
    assert isinstance(ops, tfprof.MultiGraphNodeProto)
    assert micros(ops) == {"Mul": 80}
    assert isinstance(lines, tfprof.MultiGraphNodeProto)
    assert micros(lines) == {"train.py:7:main": 80}


def test_profilers_do_not_know_of_each_other() -> None:
    """TensorFlow's engine has one profile for the whole process."""
    one, other = tfprof.Profiler(graph()), tfprof.Profiler(graph())
    one.add_step(0, step(double_us=30))
    other.add_step(0, step(double_us=50))

    found = [micros(each.profile_name_scope(QUIET)) for each in (one, other)]

    assert found == [{"layer": 40}, {"layer": 60}]


def test_steps_are_averaged_or_asked_for_one_by_one() -> None:
    """Runs with one number are one step."""
    profiler = tfprof.Profiler(graph())
    for number, took_us in ((3, 20), (3, 20), (8, 80)):
        profiler.add_step(number, step(0, took_us))

    found = {
        number: profiler.profile_operations({**QUIET, "step": number}).total_exec_micros
        for number in (3, 8, -1)
    }

    assert found == {3: 42, 8: 81, -1: 61}


def test_a_step_reads_no_graph() -> None:
    """Only views do, and only while it grows: a step in a training loop must cost little."""
    made = graph()
    profiler = tfprof.Profiler(made)

    for number in range(5):
        profiler.add_step(number, step())
    after_steps = made.asked
    for _ in range(3):
        profiler.profile_operations(QUIET)

    assert (after_steps, made.asked) == (0, 1)


def test_ops_that_are_added_later_are_seen() -> None:
    """And their code and their trained variables with them."""
    made = graph()
    profiler = tfprof.Profiler(made)
    profiler.profile_python(QUIET)
    made.ops.append(ToyOp("late", "Relu", traceback=[("/job/late.py", 1, "f", "")]))
    profiler.add_step(0, metadata(Node("late", 1, 9), device=CPU))

    found = profiler.profile_python(QUIET)

    assert micros(found)["late.py:1:f"] == 9


def test_metadata_of_another_graph_comes_with_it() -> None:
    """A session may have one of its own."""
    profiler = tfprof.Profiler(graph())
    other = ToyGraph(ToyOp("eval/loss", "Sum"))

    profiler.add_step(0, metadata(Node("eval/loss", 1, 9), device=CPU), graph=other)

    assert micros(profiler.profile_operations({**QUIET, "min_micros": 1})) == {"Sum": 9}


def test_a_report_is_printed_between_its_options_and_its_end(capsys) -> None:
    """As TensorFlow prints it, so that what reads it still does."""
    profiler = tfprof.Profiler(graph())
    profiler.add_step(0, step())

    profiler.profile_operations(BY_TIME)

    said = capsys.readouterr().out
    head, _, rest = said.partition("Model Analysis Report")
    body = rest.partition("Profile:\n")[2]
    assert "-order_by                   micros\n" in head
    assert body.startswith("node name | requested bytes | total execution time |")
    assert "Mul  " in body
    assert said.endswith("======================End of Report==========================\n")


@pytest.mark.parametrize("kind", ["file", "timeline"])
def test_a_file_is_written_and_the_message_returned(kind, tmp_path, capsys) -> None:
    """The timeline of a scope has its step in its name."""
    profiler = tfprof.Profiler(graph())
    profiler.add_step(0, step())

    found = profiler.profile_name_scope({**BY_TIME, "output": f"{kind}:outfile={tmp_path}/x"})

    assert micros(found) == {"layer": 80}
    assert [path.name for path in tmp_path.iterdir()] == ["x" if kind == "file" else "x_-1"]
    assert "Options" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("view", "options", "says"),
    [
        ("scope", {"step": 7}, "no step 7. It has 0."),
        ("op", {"output": "timeline:outfile=x"}, "no timeline"),
    ],
)
def test_what_has_no_answer_is_told_and_the_message_is_empty(view, options, says, capsys) -> None:
    """A training loop goes on."""
    profiler = tfprof.Profiler(graph())
    profiler.add_step(0, step())

    found = profiler.profile_view(view, {**QUIET, **options})

    assert found.ByteSize() == 0
    assert says in capsys.readouterr().err


def test_metadata_without_statistics_is_told_and_left_out(capsys) -> None:
    """It ended the whole process in TensorFlow's."""
    profiler = tfprof.Profiler(graph())

    profiler.add_step(4, message_class("tfprobe.step_stats.RunMetadata")())

    assert "Step 4 is left out" in capsys.readouterr().err
    assert profiler.profile_operations(QUIET).total_exec_micros == 0
    assert profiler.coverage_ratio == 0


def test_damaged_metadata_is_told_by_the_next_view() -> None:
    """With the step it came as; the other steps are there in the view after that."""
    profiler = tfprof.Profiler(graph())
    profiler.add_step(1, _Damaged())
    profiler.add_step(2, step())

    with pytest.raises(UnreadableInput, match="step 1"):
        profiler.profile_operations(QUIET)
    assert profiler.profile_operations({**QUIET, "step": 2}).total_exec_micros == 80


class _Damaged:
    """Says it is a RunMetadata."""

    step_stats = None

    def HasField(self, name: str) -> bool:  # noqa: N802  (protobuf's name)
        return True

    def SerializeToString(self) -> bytes:  # noqa: N802
        return b"\x0a\xff\xff\xff\xff\x7f"


@pytest.mark.parametrize("wrong", ["metadata", message_class("tfprobe.graph.GraphDef")()])
def test_what_is_no_metadata_is_an_error(wrong) -> None:
    """It says what it is."""
    with pytest.raises(UsageError, match=type(wrong).__name__):
        tfprof.Profiler(graph()).add_step(0, wrong)


def test_a_profile_comes_back_from_its_file() -> None:
    """With the code of its ops, for the shell to show."""
    profiler = tfprof.Profiler(graph())
    profiler.add_step(5, step())

    found = graph_profile(profiler.serialize_to_string())

    assert found.steps == (5,)
    assert found.graph.has_traces


def test_coverage_is_the_share_of_nodes_that_ran() -> None:
    """One of three."""
    profiler = tfprof.Profiler(graph(ToyOp("idle")))
    profiler.add_step(0, metadata(Node("layer/double"), device=CPU))

    assert profiler.coverage_ratio == pytest.approx(1 / 3)


def test_an_op_log_goes_before_what_is_found_out() -> None:
    """TensorFlow's forgets float operations of an op log with the first step."""
    log = tfprof.OpLogProto()
    log.log_entries.add(name="layer/double", float_ops=1000, types=["mine"])
    profiler = tfprof.Profiler(graph(), log)
    profiler.add_step(0, step())

    found = profiler.profile_operations({**QUIET, "account_type_regexes": ["mine"]})

    assert (found.children[0].name, found.total_float_ops) == ("Mul", 1000)


def test_one_call_profiles_a_graph_and_a_run() -> None:
    """The run is step 0, and tells shapes that the graph does not know."""
    made = ToyGraph(ToyOp("batch", "Placeholder", shape=None), ToyOp("out", "Relu", ("batch",)))
    run = metadata_with_shapes({"batch": [(5, 3)], "out": [(2, 3)]}, device=CPU)

    found = tfprof.profile(made, run, cmd="op", options={**QUIET, "step": 0})

    relu = next(each for each in _chain(found) if each.name == "Relu")
    shape = relu.graph_nodes[0].input_shapes[0]
    assert [dim.size for dim in shape.dim] == [5, 3]


def _chain(message):
    while message.children:
        message = message.children[0]
        yield message


@pytest.mark.parametrize("default", [None, 0])
def test_parameters_of_trained_variables_are_the_default(default, capsys) -> None:
    """As TensorFlow's, whose default is written 0."""
    found = tfprof.profile(graph(), options=default)

    assert found.total_parameters == 6
    assert "layer/weights (2x3, 6/6 params)" in capsys.readouterr().out


def test_a_view_that_is_none_is_an_error() -> None:
    """It says which there are."""
    with pytest.raises(UsageError, match="scope"):
        tfprof.profile(graph(), cmd="shape")


@pytest.mark.parametrize("ask", [tfprof.advise, tfprof.model_analyzer.advise])
def test_advice_is_printed_and_returned(ask, capsys) -> None:
    """Of a graph and a run."""
    found = ask(graph(), step())

    expensive = found.checkers["ExpensiveOperationChecker"].reports
    assert expensive[0].startswith("top 1 operation type: Mul")
    assert expensive[0] in capsys.readouterr().out


def test_the_names_of_contrib_do_the_same(capsys) -> None:
    """print_model_analysis is profile."""
    analyzer = tfprof.model_analyzer

    found = analyzer.print_model_analysis(
        graph(), tfprof_options=analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS
    )

    assert found.total_parameters == 6
    capsys.readouterr()


def test_importing_it_imports_no_tensorflow() -> None:
    """Nor does asking for every name of it."""
    ask = (
        "import sys; from tfprobe import tfprof; [getattr(tfprof, name) for name in tfprof.__all__]"
        "; sys.exit('tensorflow' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0
