"""What the processes of a run run, and which of them may be compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tfprobe.profile.programs import ProgramFacts, programs

S = 1_000_000_000


def process(
    command: str, pid: int = 1, *, start_s: int = 100, end_s: int | None = 200, rank: int = -1
) -> ProgramFacts:
    return ProgramFacts(
        argv=tuple(command.split()),
        machine="node0",
        pid=pid,
        ppid=7,
        is_fork=False,
        rank=None if rank < 0 else rank,
        role=None if rank < 0 else "worker",
        started_unix_ns=start_s * S,
        end_unix_ns=None if end_s is None else end_s * S,
    )


def titles(*commands: str) -> list[str]:
    found = programs([process(each, pid) for pid, each in enumerate(commands)])
    return [each.title for each in found]


def compared(*processes: ProgramFacts) -> set[frozenset[int]]:
    """Return which processes are of one group, of those that are not alone."""
    groups: dict[int, set[int]] = {}
    for at, each in enumerate(programs(processes)):
        groups.setdefault(each.group, set()).add(at)
    return {frozenset(each) for each in groups.values() if len(each) > 1}


def test_one_program_needs_no_title() -> None:
    """Its name is known all the same."""
    (one, other) = programs([process("python train.py -x 1"), process("python train.py -x 1", 2)])

    assert (one.title, other.title, one.name) == ("", "", "train.py")


def test_programs_are_called_by_their_scripts() -> None:
    """Without directories, and without the interpreter's options."""
    assert titles(
        "python /a/prepare.py --out x",
        "/usr/bin/python3.11 -u -W ignore train.py",
        "python -um a.b",
    ) == ["prepare.py", "train.py", "a.b"]


def test_programs_that_followed_each_other_in_one_process_are_numbered() -> None:
    """As of one that begins again by os.exec: their pid tells them apart no more."""
    later = process("python train.py", 5, start_s=200, end_s=300)
    found = programs([later, process("python train.py", 5), process("python train.py", 6)])

    assert [each.title for each in found] == ["train.py #2", "train.py #1", ""]


def test_arguments_that_differ_tell_runs_of_one_script_apart() -> None:
    """As of a grid search: what all have says nothing."""
    assert titles(
        "python train.py --steps 9 --lr 0.1 --units=64",
        "python train.py --steps 9 --lr -0.1 --units=64",
        "python train.py --steps 9 --lr 0.1 --fast",
    ) == [
        "train.py --lr 0.1 --units=64",
        "train.py --lr -0.1 --units=64",
        "train.py --lr 0.1 --fast",
    ]


def test_scripts_of_one_name_keep_their_directories() -> None:
    """The one nearest to it."""
    assert titles("python /w/a/train.py", "python /w/b/train.py") == ["a/train.py", "b/train.py"]


def test_long_titles_are_cut() -> None:
    """They stand in tables."""
    (long, _) = titles(f"python train.py --data {'x' * 100}", "python train.py")

    assert len(long) == 40
    assert long.endswith("…")


def test_a_pool_is_called_by_its_program() -> None:
    """And not by the code that multiprocessing starts an interpreter with."""
    spawned = replace(
        process("python", 2),
        argv=("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)", "--x"),
    )

    found = programs([process("python other.py"), replace(spawned, program=("/a/pool.py", "-n"))])
    unknown = programs([spawned])

    assert [each.title for each in found] == ["other.py", "pool.py"]
    assert unknown[0].name == "multiprocessing.spawn"


def test_ranks_are_told_by_their_numbers() -> None:
    """Arguments of launchers differ by rank, and say no more."""
    assert [
        each.title
        for each in programs(
            [process("python t.py --task 0", 1, rank=0), process("python t.py --task 1", 2, rank=1)]
        )
    ] == ["", ""]


def test_two_jobs_of_ranks_are_told_apart() -> None:
    """Rank 0 is there twice."""
    found = programs(
        [
            process("python train.py", 1, rank=0, end_s=150),
            process("python evaluate.py", 2, rank=0, start_s=151),
        ]
    )

    assert [each.title for each in found] == ["train.py", "evaluate.py"]


def test_processes_one_after_the_other_are_not_compared() -> None:
    """The same command or not, with ranks or without."""
    assert (
        compared(
            process("python train.py", 1, end_s=150), process("python train.py", 2, start_s=150)
        )
        == set()
    )
    assert (
        compared(
            process("python train.py", 1, rank=0, end_s=150),
            process("python train.py", 2, rank=1, start_s=150),
        )
        == set()
    )


def test_the_same_command_at_one_time_is_compared() -> None:
    """Whoever starts it several times wants it in parallel."""
    alike = [process("python train.py", pid) for pid in (1, 2)]
    assert compared(*alike, process("python evaluate.py", 3)) == {frozenset({0, 1})}


def test_other_arguments_are_another_job() -> None:
    """A model of other sizes is not slow."""
    assert (
        compared(process("python t.py --units 1", 1), process("python t.py --units 9", 2)) == set()
    )


@pytest.mark.parametrize("rank", [-1, 0])
def test_forked_workers_are_not_compared(rank: int) -> None:
    """Each has tasks of its own: an idle one is not slow. An inherited rank changes nothing."""
    forks = [replace(process("python serve.py", pid, rank=rank), is_fork=True) for pid in (1, 2)]
    assert compared(*forks) == set()


def test_spawned_workers_are_not_compared() -> None:
    """They are a pool as forks are."""
    code = "from multiprocessing.forkserver import main; main(8, 9)"
    spawned = [replace(process("", pid), argv=("python", "-c", code)) for pid in (1, 2)]
    assert compared(*spawned) == set()


def test_forks_that_have_ranks_of_their_own_are_compared() -> None:
    """A launcher may be a Python program that forks."""
    forks = [replace(process("python t.py", 1 + at, rank=at), is_fork=True) for at in (0, 1)]
    assert compared(*forks) == {frozenset({0, 1})}


def test_a_child_of_a_rank_is_not_compared_with_ranks() -> None:
    """It has inherited the number with the variables."""
    ranks = [process("python train.py", 1 + at, rank=at) for at in (0, 1)]
    child = replace(process("python export.py", 9, rank=0, start_s=120), ppid=1)
    assert compared(*ranks, child) == {frozenset({0, 1})}


def test_a_rank_that_began_again_is_compared_by_its_latest_start() -> None:
    """The earlier process is left out."""
    assert compared(
        process("python t.py", 1, rank=0),
        process("python t.py", 2, rank=1, end_s=140),
        process("python t.py", 3, rank=1, start_s=141),
    ) == {frozenset({0, 2})}


def test_a_hand_over_is_no_work_side_by_side() -> None:
    """One that ends as the next begins shares little of its life with it."""
    assert (
        compared(process("python t.py", 1), process("python t.py", 2, start_s=190, end_s=290))
        == set()
    )


def test_ranks_of_machines_whose_clocks_differ_are_compared() -> None:
    """Only processes of one machine are known not to have met."""
    there = replace(process("python t.py", 2, rank=1, start_s=900, end_s=999), machine="node1")
    assert compared(process("python t.py", 1, rank=0), there) == {frozenset({0, 1})}


def test_processes_that_live_are_compared() -> None:
    """Their end is not known yet."""
    alive = [process("python t.py", pid, end_s=None, start_s=pid * 100) for pid in (1, 2)]
    assert compared(*alive) == {frozenset({0, 1})}


def kernel(pid: int, notebook: str | None) -> ProgramFacts:
    command = f"python -m ipykernel_launcher -f /run/kernel-{pid}.json"
    return replace(process(command, pid), notebook=notebook)


def test_a_kernel_is_called_by_its_notebook() -> None:
    """Also where it is the only one: its run is called by the command of the server."""
    (one,) = programs([kernel(1, "train.ipynb")])
    (first, other) = programs([kernel(1, "train.ipynb"), kernel(2, None)])

    assert one.title == "train.ipynb"
    assert (first.title, other.title) == ("train.ipynb", "kernel")


def test_kernels_are_not_compared() -> None:
    """Not even of one notebook, of which one was restarted: each does what its user asks for."""
    assert compared(kernel(1, "train.ipynb"), kernel(2, "train.ipynb"), kernel(3, None)) == set()


def test_workers_of_ray_are_called_so_and_are_not_compared() -> None:
    """All have one script, and arguments that say nothing of what they do."""
    script = "/venv/lib/python3.11/site-packages/ray/_private/workers/default_worker.py"
    workers = [process(f"python {script} --worker-id={pid}", pid) for pid in (1, 2)]
    driver = process("python train.py", 3)

    assert [each.title for each in programs([*workers, driver])] == [
        "ray worker",
        "ray worker",
        "train.py",
    ]
    assert compared(*workers) == set()
