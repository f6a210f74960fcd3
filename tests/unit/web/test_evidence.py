"""Each piece of evidence leads to the page on which it is seen."""

from __future__ import annotations

from dataclasses import replace

from tests.support.profiles import Step, loop, op, process, profile
from tfprobe.findings.finding import Evidence, Subject
from tfprobe.web.pages.findings import EvidencePlaces

STEPS = [Step([op("MatMul", 0, 1)]), Step([op("MatMul", 0, 1)])]
PLACES = EvidencePlaces(
    profile(STEPS, loops=[loop(index=1), loop(name="other")], processes=[process()])
)


def places(evidence: Evidence, loop: int | None = 0) -> list[tuple[str, dict]]:
    return [(link["page"], link["args"]) for link in PLACES.links(evidence, loop)]


def test_a_sampled_step_leads_to_the_step_and_its_timeline():
    """The second capture of the run is of step 1."""
    evidence = Evidence("a traced step", step=1, capture="node7/4711-1/captures/1.pb")

    assert places(evidence) == [("steps", {"work": 0, "step": 1}), ("timeline", {"capture": 1})]


def test_a_capture_that_is_gone_leads_to_its_step_alone():
    """The files of captures may be removed to save room."""
    evidence = Evidence("a traced step", step=7, capture="node7/4711-1/captures/7.pb")

    assert places(evidence) == [("steps", {"work": 0, "step": 7})]


def test_a_line_leads_to_the_code():
    """The name of a file may hold colons."""
    evidence = Evidence("a step", source="C:/train.py:42", node="a/b")

    assert places(evidence)[0] == ("code", {"work": 0, "file": "C:/train.py", "line": 42})


def test_a_line_that_made_no_op_leads_nowhere():
    """It is a line between steps: the code page knows only of lines that made ops."""
    assert places(Evidence("reading a tensor", source="train.py:42")) == []


def test_an_op_a_scope_and_a_node_lead_to_their_pages():
    """Each is sought by its name."""
    assert places(Evidence("x", op_type="MatMul")) == [("ops", {"work": 0, "find": "MatMul"})]
    assert places(Evidence("x", scope="a/b", node="a/b/c")) == [
        ("scopes", {"work": 0, "by": "layer", "at": "a/b"})
    ]
    assert places(Evidence("x", node="a/b/c")) == [
        ("ops", {"work": 0, "by": "name", "find": "a/b/c"})
    ]


def test_slow_steps_lead_to_each_of_them():
    """One can go through them one after the other."""
    found = places(Evidence("the longest: 3, 9", steps=(3, 9)), None)

    assert found == [("steps", {"step": 3}), ("steps", {"step": 9})]


def test_a_command_leads_to_the_page_that_shows_the_same():
    """What has no page leads nowhere."""
    assert places(Evidence("shown by", command="tfprobe op -order_by occurrence")) == [
        ("ops", {"work": 0})
    ]
    assert places(Evidence("shown by", command="tfprobe doctor")) == []


def test_a_finding_belongs_to_the_work_of_its_process():
    """Works of two processes may have the same name."""
    twin = replace(loop(), process=1)
    two = profile(loops=[loop(), twin], processes=[process(), process(index=1, pid=4712)])

    subject = Subject("node7", 4712, None, "session_run", "loss")

    assert EvidencePlaces(two).loop(subject) == 1
    assert EvidencePlaces(two).loop(Subject()) is None


def test_a_long_name_makes_no_long_address():
    """The name of an op may have a million characters."""
    ((_, args),) = places(Evidence("x", op_type="M" * 1_000_000), None)

    assert len(args["find"]) == 500
