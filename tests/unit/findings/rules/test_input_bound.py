"""Steps that wait for input are told from 5 % of the cycle on, with the node or the line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import (
    MS,
    STEPS,
    WHOLE_NS,
    account,
    cause,
    found,
    loop,
    machine,
    ops,
    parts,
    process,
)
from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.input.step_input import StepInput
from tfprobe.findings.finding import Severity
from tfprobe.findings.framework_words import in_words_of


@pytest.mark.parametrize(
    ("part", "label"),
    [
        ("input_wait", "input wait"),
        ("feed", "feed"),
        ("host_preprocess", "preprocessing"),
        ("host_to_device", "host to device"),
    ],
)
def test_a_twentieth_of_the_cycle_is_told(part: str, label: str) -> None:
    """Waiting for tf.data, feeding, Python's generators and copies are all input."""
    finding = found("input_bound", loop(parts=parts(**{part: 0.05})))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.05
    assert label in finding.evidence[0].text


def test_a_loader_that_has_workers_is_told_to_have_more() -> None:
    """In the words of the input page, not in those for a loader that has none."""
    taken = StepInput("workers of the DataLoader", 3.0 * MS, "", (), "Start more.")

    finding = found("input_bound", loop(parts=parts(input_wait=0.4), input=taken))

    assert finding is not None
    told = in_words_of("pytorch", finding)
    assert told is not None
    assert told.action == "Start more."


def test_less_is_not() -> None:
    """XProf's lower mark, as ours."""
    assert found("input_bound", loop(parts=parts(input_wait=0.049))) is None


def test_the_node_of_the_pipeline_is_named() -> None:
    """With its path, its line, and what makes it faster."""
    slow = StepInput(
        "Map", 3.0 * MS, "Iterator::Root::Map", ("Map", "Range"), "Do this.", "data.py:9"
    )

    finding = found("input_bound", loop(parts=parts(input_wait=0.4), input=slow))

    assert finding is not None
    assert (finding.severity, finding.action) == (Severity.CRITICAL, "Do this.")
    assert finding.evidence[1].iterator == "Iterator::Root::Map"
    assert finding.evidence[1].source == "data.py:9"


def test_a_node_that_was_not_measured_is_only_likely() -> None:
    """Its time is that of the wait, not its own."""
    guessed = StepInput("Map", 3.0 * MS, "Iterator::Root::Map", (), "Do this.", is_measured=False)

    finding = found("input_bound", loop(parts=parts(input_wait=0.4), input=guessed))

    assert finding is not None
    assert finding.evidence[1].text == "waiting, likely (not measured), for Map per step"


def test_the_line_of_a_generator_is_named() -> None:
    """Python that makes batches between steps is known by the call."""
    longest = cause("host_preprocess", "__getitem__", "data.py:9", 2.0)
    shares = replace(parts(host_preprocess=0.2), causes=(longest,))

    finding = found("input_bound", loop(parts=shares))

    assert finding is not None
    assert finding.evidence[1].source == "data.py:9"


def test_most_of_it_is_more_than_half() -> None:
    """Of three like parts none is most."""
    finding = found(
        "input_bound", loop(parts=parts(input_wait=0.1, feed=0.12, host_preprocess=0.1))
    )

    assert finding is not None
    assert finding.evidence[0].text == "share of the cycle, a significant part of it feed"


def test_a_feed_of_some_100_us_is_no_alarm() -> None:
    """That is what tf.constant takes of any array."""
    severities = []
    for cycle_ns in (1.0 * MS, 10.0 * MS):
        shares = replace(parts(feed=0.4), cycle_ns=cycle_ns)
        finding = found("input_bound", loop(parts=shares))
        assert finding is not None
        severities.append(finding.severity)

    assert severities == [Severity.INFO, Severity.CRITICAL]


@pytest.mark.parametrize(
    ("has_updates", "severity"), [(False, Severity.INFO), (True, Severity.CRITICAL)]
)
def test_a_server_that_waits_for_requests_is_no_alarm(
    has_updates: bool, severity: Severity
) -> None:
    """Its steps change no variable, and it takes what to compute from a queue of Python's."""
    taken = cause("input_wait", "get", "server.py:30", 2.0)
    shares = replace(parts(input_wait=0.8), causes=(taken,))

    finding = found("input_bound", loop(parts=shares, ops=ops(has_updates=has_updates)))

    assert finding is not None
    assert finding.severity is severity


def test_elements_that_lie_in_memory_are_a_note() -> None:
    """Nothing in such a pipeline can be made faster: the step is short beside it."""
    ready = StepInput("MemoryCache", 3.0 * MS, "", ("Prefetch", "Take"), "Do this.", is_ready=True)

    finding = found("input_bound", loop(parts=parts(input_wait=0.4), input=ready))

    assert finding is not None
    assert finding.severity is Severity.INFO


def test_handing_over_what_is_prefetched_is_a_note() -> None:
    """Up to 1.5 ms of a cycle of 10, where no stage was seen; nobody advises a prefetch again."""
    handed = StepInput("__next__", 1.4 * MS, "", (), "Prefetch.", "train.py:9", prefetches=True)
    seen = replace(handed, nodes=("Prefetch", "Map"))

    severities = [
        finding.severity
        for wait, source in ((0.14, handed), (0.15, handed), (0.14, seen))
        if (finding := found("input_bound", loop(parts=parts(input_wait=wait), input=source)))
    ]

    assert severities == [Severity.INFO, Severity.WARNING, Severity.WARNING]


def test_what_a_generator_takes_over_at_once_is_a_note() -> None:
    """Less than 1.5 ms and a tenth of the cycle; more of it was made while the step waited."""
    taken = StepInput("Generator", 0.9 * MS, "", ("FlatMap", "Generator"), "Do this.", "train.py:9")

    severities = [
        finding.severity
        for wait in (0.09, 0.1)
        if (finding := found("input_bound", loop(parts=parts(input_wait=wait), input=taken)))
    ]

    assert severities == [Severity.INFO, Severity.WARNING]


def test_ends_of_epochs_wait_for_input_too() -> None:
    """For the first elements of the next epoch; what ends once, and other loops, do not count."""
    ends = (Item("fit itself", "", 50 * MS, times=4), Item("the last", "", 90 * MS, times=1))
    owner = process(account=account(2 * WHOLE_NS, epoch_ends=ends))
    waits = parts(input_wait=0.1)

    findings = [
        found("input_bound", loop(parts=each, process=owner, is_main=is_main))
        for each, is_main in ((waits, True), (waits, False), (parts(feed=0.1), True))
    ]

    assert [each and round(each.gain.high_ratio, 6) for each in findings] == [0.15, 0.1, 0.1]


def test_python_of_an_input_that_keeps_up_holds_up_the_steps() -> None:
    """They wait outside of ops for the interpreter's lock: a fifth of a cycle of 10 ms."""
    made = StepInput(
        "Generator", 1.0, "", (), keeps_up=True, source="data.py:28", python_ns=4.0 * MS
    )
    less = replace(made, python_ns=1.9 * MS)
    outside = parts(idle=0.1, fetch=0.15)

    finding = found("input_bound", loop(parts=outside, input=made))

    assert finding is not None
    assert finding.title == "Python code that produces the input blocks the steps"
    assert (round(finding.gain.high_ratio, 6), finding.evidence[0].source) == (0.25, "data.py:28")
    handed = found("input_bound", loop(parts=parts(idle=0.25, input_wait=0.1), input=made))
    assert handed is not None
    assert handed.title == finding.title
    assert found("input_bound", loop(parts=outside, input=less)) is None
    assert found("input_bound", loop(parts=parts(idle=0.19), input=made)) is None


@pytest.mark.parametrize(("concurrent_ms", "blocked_ms"), [(2.0, 2.0), (6.0, 4.0)])
def test_ops_of_the_input_that_leave_too_few_cpus_are_in_the_bound(
    concurrent_ms: float, blocked_ms: float
) -> None:
    """No more than the wait itself, which is 4 ms of 10."""
    concurrent = {"concurrent_ns": concurrent_ms * MS, "concurrent_busy_ns": concurrent_ms * MS}
    owner = process(machine=machine(cpus=2.0, used_cpus=1.9))

    finding = found(
        "input_bound", loop(parts=parts(input_wait=0.4), ops=ops(**concurrent), process=owner)
    )

    assert finding is not None
    assert finding.gain.high_ns == STEPS * round((4 + blocked_ms) * MS)


def test_a_dataloader_without_workers_has_its_stages_and_lines() -> None:
    """The longest first, with the line that takes most of it."""
    taken = {
        ("collate_fn", "data.py:20"): 1 * MS,
        ("dataset", "data.py:5"): 1 * MS,
        ("dataset", "data.py:9"): 2 * MS,
    }

    finding = found("input_bound", loop(parts=parts(host_preprocess=0.4), loader=taken))

    assert finding is not None
    stages = [(each.text, each.time_ns, each.source) for each in finding.evidence[1:3]]
    assert stages == [
        ("DataLoader, dataset, per step", 3 * MS, "data.py:9"),
        ("DataLoader, collate_fn, per step", 1 * MS, "data.py:20"),
    ]


@pytest.mark.parametrize(("ratio", "severity"), [(0.16, "WARNING"), (0.14, "INFO")])
def test_a_batch_that_is_made_as_fast_as_it_is_handed_over_is_a_note(ratio, severity) -> None:
    """Of cycles of 10 ms: taking it from another process takes about as long as making it."""
    taken = {("dataset", "data.py:9"): 1 * MS}
    busy = loop(parts=parts(host_preprocess=ratio), loader=taken)

    finding = found("input_bound", busy)

    assert finding is not None
    assert (finding.severity is Severity.INFO) == (severity == "INFO")


@pytest.mark.parametrize(("used_cpus", "takes_from_steps"), [(1.8, True), (1.1, False)])
def test_workers_need_cpus(used_cpus: float, takes_from_steps: bool) -> None:
    """Where the steps keep all CPUs busy, a worker makes them slower: first comes doing less."""
    taken = {("dataset", "data.py:9"): 3 * MS}
    owner = process(machine=machine(cpus=2.0, used_cpus=used_cpus))

    finding = found(
        "input_bound", loop(parts=parts(host_preprocess=0.4), loader=taken, process=owner)
    )

    assert finding is not None
    told = in_words_of("pytorch", finding)
    assert told is not None
    assert told.action.startswith("Do less") == takes_from_steps
    assert told.action.startswith("Let other processes load") == (not takes_from_steps)
    texts = [each.text for each in finding.evidence]
    assert ("the process kept 1.8 of 2 CPUs busy" in texts) == takes_from_steps
