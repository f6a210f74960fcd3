"""Tell the programs of a run apart, and which of its processes may be compared with each other.

A run may be a script of many programs, a grid search or a server with workers of its own: only
processes that are known to do one job side by side are compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

LONGEST_TITLE = 40
# Options of the interpreter that take a value; behind `-c` and `-m` all is the program's.
_WITH_VALUE, _PROGRAM = "WXQ", "cm"
# How multiprocessing and joblib start an interpreter for a function of the program.
_SPAWNED = ("from multiprocessing.", "from joblib.", "joblib.externals.loky.")
# The module of Jupyter's kernels, and what one is called whose notebook is not known.
_KERNEL, _KERNEL_NAME = "ipykernel_launcher", "kernel"
# The script of all actors and tasks of Ray, and what they are called.
_OF_RAY, _RAY_NAME = "/ray/_private/workers/default_worker.py", "ray worker"
# Less of the shorter life in common is a hand-over, not work side by side.
_LEAST_COMMON_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What a process says of itself. `end_unix_ns` is its last sign of life, None while it lives;
    0 as start is not known. `argv` is its command line, `program` that of the program whose
    function it runs, where it was started for one. `is_fork` says that another process's
    interpreter runs on in it. `notebook` is the notebook that it is the kernel of, where known.
    """

    argv: tuple[str, ...]
    machine: Hashable
    pid: int
    ppid: int | None
    is_fork: bool
    rank: int | None
    role: str | None
    started_unix_ns: int
    end_unix_ns: int | None
    program: tuple[str, ...] = ()
    notebook: str | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """What a process runs. `name` is its script or module, "" where nobody knows.

    `title` tells it from other programs of the run: the name, and what differs in the arguments.
    It is "" where there is one program alone that is no notebook. Programs that followed each other
    in one process, by os.exec, are numbered. Processes of one `group` work in parallel on one job.
    """

    name: str
    title: str
    group: int


def programs(processes: Sequence[ProgramFacts]) -> tuple[Program, ...]:
    """Return what each process runs, in their order."""
    commands = [_command(process) for process in processes]
    names = _names(commands)
    titles = _numbered(processes, _titles(processes, commands, names), names)
    groups = _groups(processes, commands)
    return tuple(map(Program, names, titles, groups))


@dataclass(frozen=True, slots=True)
class _Command:
    script: str
    arguments: tuple[str, ...]
    # Has tasks of its own, whatever else runs the same command.
    is_alone: bool = False


def _command(facts: ProgramFacts) -> _Command:
    found = _of_argv(facts.argv)
    if facts.notebook or found.script == _KERNEL:
        return _Command(facts.notebook or _KERNEL_NAME, (), is_alone=True)
    if found.script.endswith(_OF_RAY):
        return _Command(_RAY_NAME, (), is_alone=True)
    if facts.program:
        return _Command(facts.program[0], facts.program[1:], found.is_alone)
    return found


def _of_argv(argv: tuple[str, ...]) -> _Command:
    if not argv:
        return _Command("", ())
    if "python" not in PurePath(argv[0]).name and "pypy" not in PurePath(argv[0]).name:
        return _Command(argv[0], argv[1:])
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        option = argv[at]
        for place, letter in enumerate(option[1:], 1):
            if letter in _PROGRAM:
                rest = option[place + 1 :]
                value, behind = (rest, at + 1) if rest else ("".join(argv[at + 1 : at + 2]), at + 2)
                return _of_option(letter, value, argv[behind:])
            if letter in _WITH_VALUE:
                at += not option[place + 1 :]
                break
            if letter == "-":
                break
        at += 1
    return _Command("".join(argv[at : at + 1]) or argv[0], argv[at + 1 :])


def _of_option(letter: str, value: str, arguments: tuple[str, ...]) -> _Command:
    if value.startswith(_SPAWNED):
        # Its arguments are descriptors.
        return _Command(value.split()[-1 if letter == "m" else 1], (), is_alone=True)
    return _Command(value if letter == "m" else "-c", (value, *arguments)[letter == "m" :])


def _names(commands: Sequence[_Command]) -> list[str]:
    """Return the scripts without their directories, but where two are told apart by them."""
    short = {command.script: PurePath(command.script).name for command in commands}
    times = Counter(short.values())
    return [
        short[command.script]
        if times[short[command.script]] == 1
        else str(PurePath(*PurePath(command.script).parts[-2:]))
        for command in commands
    ]


def _titles(
    processes: Sequence[ProgramFacts], commands: Sequence[_Command], names: Sequence[str]
) -> list[str]:
    """Return names with the arguments that not all of a script have."""
    of_script: dict[str, list[int]] = {}
    for at, command in enumerate(commands):
        of_script.setdefault(command.script, []).append(at)
    titles = list(names)
    for members in of_script.values():
        if _differ_by_ranks([processes[at] for at in members], [commands[at] for at in members]):
            continue
        options = [_options(commands[at].arguments) for at in members]
        common = set(options[0]).intersection(*options)
        for at, own in zip(members, options, strict=True):
            differing = [each for each in own if each not in common]
            titles[at] = _cut(" ".join(filter(None, (names[at], *differing))))
    # A notebook's name says more than the command of its run, which is that of a server.
    has_notebook = any(process.notebook for process in processes)
    return titles if has_notebook or len(set(titles)) > 1 else [""] * len(titles)


def _numbered(
    processes: Sequence[ProgramFacts], titles: Sequence[str], names: Sequence[str]
) -> list[str]:
    """Number the titles of programs that nothing else tells apart: they have one pid as well."""
    alike: dict[Hashable, list[int]] = {}
    for at, (each, title) in enumerate(zip(processes, titles, strict=True)):
        if each.pid:
            alike.setdefault((each.machine, each.pid, title), []).append(at)
    found = list(titles)
    for members in alike.values():
        in_order = sorted(members, key=lambda at: processes[at].started_unix_ns)
        for number, at in enumerate(in_order if len(members) > 1 else (), 1):
            found[at] = f"{titles[at] or names[at]} #{number}"
    return found


def _differ_by_ranks(processes: Sequence[ProgramFacts], commands: Sequence[_Command]) -> bool:
    """Say whether ranks tell all of these apart, so that no rank has two sets of arguments."""
    if any(process.rank is None for process in processes):
        return False
    seats = {
        (process.role, process.rank, command.arguments)
        for process, command in zip(processes, commands, strict=True)
    }
    return len(seats) == len({seat[:2] for seat in seats})


def _options(arguments: Sequence[str]) -> list[str]:
    """Return each option with its value; what is none stands alone."""
    found: list[str] = []
    for argument in arguments:
        takes_value = bool(found) and found[-1].startswith("-") and not set("= ") & set(found[-1])
        if takes_value and not (argument.startswith("-") and not _is_number(argument)):
            found[-1] += f" {argument}"
        else:
            found.append(argument)
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TITLE else f"{text[: LONGEST_TITLE - 1].rstrip()}…"


def _groups(processes: Sequence[ProgramFacts], commands: Sequence[_Command]) -> list[int]:
    """Number the groups of processes that do one job in parallel, by their first members."""
    rows: dict[Hashable, list[int]] = {}
    heirs = _heirs(processes)
    for at, process in enumerate(processes):
        rows.setdefault(_job(at, process, commands[at], is_heir=at in heirs), []).append(at)
    found = [0] * len(processes)
    for members in rows.values():
        for group in _at_one_time([(at, processes[at]) for at in members]):
            for at in group:
                found[at] = min(group)
    return found


def _job(at: int, facts: ProgramFacts, command: _Command, *, is_heir: bool) -> Hashable:
    """Return what is equal for processes that may do one job in parallel.

    A launcher that numbers processes says so. Without one, the same command started several times
    does; children that a program forks or spawns are its workers, each with tasks of its own.
    """
    if is_heir:
        return at
    if facts.rank is not None:
        return "ranks", team(facts.role)
    if facts.is_fork or command.is_alone:
        return at
    return "command", command.script, command.arguments


def _heirs(processes: Sequence[ProgramFacts]) -> set[int]:
    """Return those that have their rank from a process that started them."""
    claimants: dict[Hashable, list[ProgramFacts]] = {}
    for process in processes:
        if process.rank is not None:
            claimants.setdefault(_claim(process), []).append(process)
    return {
        at
        for at, process in enumerate(processes)
        if process.rank is not None
        and any(_may_inherit(process, other) for other in claimants[_claim(process)])
    }


def _may_inherit(facts: ProgramFacts, other: ProgramFacts) -> bool:
    """Say whether another process of this rank started it, or both were forked at that rank."""
    if other.pid == facts.pid:
        return False
    start, end = _life(facts)
    other_start, other_end = _life(other)
    return facts.ppid == other.pid or (facts.is_fork and other_start < end and start < other_end)


def _claim(facts: ProgramFacts) -> Hashable:
    return facts.machine, facts.role, facts.rank


class _Common:
    """Processes that lived at one time, and when that was, by machine: clocks may differ."""

    def __init__(self) -> None:
        self.members: list[int] = []
        self._times: dict[Hashable, tuple[float, float, float]] = {}

    def take(self, at: int, facts: ProgramFacts) -> bool:
        """Add a process if it lived with all others long enough; say whether it did."""
        start, end = _life(facts)
        machine = None if facts.rank is None else facts.machine
        begin, until, shortest = self._times.get(machine, (-math.inf, math.inf, math.inf))
        begin, until = max(begin, start), min(until, end)
        shortest = min(shortest, end - start)
        is_short = math.isfinite(shortest) and until - begin < _LEAST_COMMON_RATIO * shortest
        if until < begin or is_short:
            return False
        self._times[machine] = begin, until, shortest
        self.members.append(at)
        return True


def _life(facts: ProgramFacts) -> tuple[float, float]:
    if not facts.started_unix_ns:
        return -math.inf, math.inf
    end_ns = facts.end_unix_ns
    end = math.inf if end_ns is None else max(end_ns, facts.started_unix_ns)
    return facts.started_unix_ns, end


def _at_one_time(members: Sequence[tuple[int, ProgramFacts]]) -> list[list[int]]:
    """Divide processes into those that lived at one time; of a rank the latest start counts."""
    starts = sorted(members, key=lambda member: -member[1].started_unix_ns)
    earlier: Counter[Hashable] = Counter()
    order: list[tuple[int, float, int, ProgramFacts]] = []
    for at, facts in starts:
        start, end = _life(facts)
        order.append((earlier[_claim(facts)], start - end, at, facts))
        earlier[_claim(facts)] += facts.rank is not None
    found: list[_Common] = []
    for _, _, at, facts in sorted(order, key=lambda each: each[:3]):
        if not any(each.take(at, facts) for each in found):
            found.append(_Common())
            found[-1].take(at, facts)
    return [each.members for each in found]


WORKERS = "workers"
# Where problems lie that are of ranks: who is absent, who is there twice. Nothing is lost by them.
RANKS = "ranks"
# Launchers that know no roles tell none, or that all are workers.
_NUMBERED_TOGETHER = ("chief", "master", "worker")


def team(role: str | None) -> str:
    """Return whose row it is: WORKERS, or a role that counts from 0 on by itself."""
    return WORKERS if not role or role in _NUMBERED_TOGETHER else role


@dataclass(frozen=True, slots=True)
class Claim:
    """What a process that has a rank tells of itself. Its machine is told by whatever is equal."""

    machine: Hashable
    pid: int
    ppid: int | None
    is_fork: bool
    has_steps: bool


def heads(claims: Sequence[Claim]) -> list[int]:
    """Return which of the claims to one rank count, by their positions.

    Left out are who was started by another of them, and who has no steps, as the TensorBoard that
    a rank's script starts.
    """
    pids = {(claim.machine, claim.pid) for claim in claims}
    return [
        at
        for at, claim in enumerate(claims)
        if claim.has_steps and not claim.is_fork and (claim.machine, claim.ppid) not in pids
    ]
