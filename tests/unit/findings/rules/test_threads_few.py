"""One thread for each op is told where the process has more CPUs to itself."""

from __future__ import annotations

from dataclasses import replace

from tests.support.subjects import MS, found, gpu_ops, loop, machine, ops, parts, process, timing
from tfprobe.analysis.system.thread_times import StepThreads
from tfprobe.errors import Missing
from tfprobe.findings.finding import Subject


def _loop(threads: int, **changes):
    settings = {"intra_op_threads": threads, "cpus": 4}
    return loop(process=process(settings=settings, machine=machine(**changes)))


def test_one_thread_on_four_cpus_is_told() -> None:
    """The bound is the time of ops, but for the quarter that four threads would take."""
    finding = found("threads_few", replace(_loop(1), parts=parts(idle=0.2)))

    assert finding is not None
    assert round(finding.gain.high_ratio, 6) == 0.6
    assert finding.title == "Each op has 1 thread where there are 4 CPUs"
    assert finding.subject.name == "model"


def test_as_many_as_tensorflow_makes_are_not() -> None:
    """0 stands for one a CPU; three of four are few enough to be meant."""
    assert found("threads_few", _loop(0)) is None
    assert found("threads_few", _loop(3)) is None


def test_processes_that_share_a_machine_are_not() -> None:
    """Four processes on four CPUs are right to take one thread each."""
    alone = _loop(1)
    others = [
        replace(alone.process, subject=Subject(host="node7", pid=pid)) for pid in (1, 2, 3, 4)
    ]

    assert found("threads_few", alone, processes=others) is None
    assert found("threads_few", alone, processes=others[:2]) is not None


def test_more_threads_have_no_cpus_where_others_use_them() -> None:
    """The thread of the steps waits for one itself; two threads then took far longer than one."""
    waiting = StepThreads(0.5, 0.4, is_alone=False, others=())
    crowded = _loop(1, others_cpus=3.0)

    assert found("threads_few", crowded) is not None
    crowded = replace(crowded, process=replace(crowded.process, threads=waiting))
    assert found("threads_few", crowded) is None


def test_ops_that_run_beside_each_other_are_not() -> None:
    """The process keeps its CPUs busy already."""
    assert found("threads_few", _loop(1, used_cpus=3.2)) is None
    assert found("threads_few", _loop(1, used_cpus=1.1)) is not None


def test_tiny_ops_and_kernels_are_not() -> None:
    """No thread helps them."""
    one = _loop(1)

    assert found("threads_few", replace(one, ops=ops(large_ns=0.5 * MS))) is None
    assert found("threads_few", replace(one, ops=gpu_ops())) is None
    assert found("threads_few", replace(one, parts=Missing("no step was traced"))) is None


def test_threads_of_pytorch_are_those_that_it_says() -> None:
    """Whatever set them: the program, a variable or torchrun."""
    one, all_cpus = (
        loop(
            process=process(settings={"cpus": 4, "torch": {"num_threads": threads}}),
            timing=timing(kind="optimizer_step"),
        )
        for threads in (1, 4)
    )

    finding = found("threads_few", one)

    assert finding is not None
    assert finding.evidence[0].text.startswith("torch.get_num_threads(): 1 for 4 CPUs")
    assert "torch.set_num_threads" in finding.action
    assert found("threads_few", all_cpus) is None
