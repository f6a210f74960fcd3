"""Reports fit their page: numbers whole and aligned, no colour unless asked, no trailing blanks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.paths import SHORT_PATHS
from tests.support.profiles import Step, loop, op, process, profile, timed_loop
from tests.support.rundir import MONO_NS, UNIX_NS
from tfprobe.analysis.compare.comparison import Diff, diff
from tfprobe.analysis.compare.gate import judge
from tfprobe.analysis.steps.step_times import HistogramBar
from tfprobe.errors import Missing
from tfprobe.findings.engine import advise
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.capture_tables import Place
from tfprobe.profile.profile import Problem, StepQueue
from tfprobe.profile.snapshots import RunLine
from tfprobe.report.diff import pair as diff_layout
from tfprobe.report.documents.run_report import Report, gather_report, queue_note
from tfprobe.report.documents.step_report import gather_steps as step_gather
from tfprobe.report.format import page
from tfprobe.report.format.page import histogram_sparkline
from tfprobe.report.text import markdown, runs, steps
from tfprobe.report.text import report as report_layout

LONG = "gradients/layer/" * 12
MS = 1_000_000


def report_text(report: Report, **page) -> str:
    return report_layout.render_report(report, advise(profile()), **page)


def full_report() -> Report:
    rows = [op("MatMul", 0, 40, bytes=2**20), op("MatMul", 10, 20, Place.ACCELERATOR)]
    loops = [
        loop([3_000_000] * 20_000, remembered=50, kind="train_on_batch", name=LONG, raised=[7]),
        loop([], index=1, name="empty"),
    ]
    problems = (Problem("node7/4711-1/captures/x.pb", "This capture was skipped: it is empty."),)
    return gather_report(profile([Step(rows)], loops=loops, problems=problems))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            f"{'of a step ' * 5}it is 4.6 % wait",
            ["of a step of a step of a step of a step of a step it is", "4.6 % wait"],
        ),
        (
            f"{'of a step ' * 5}took 8.18 ms.",
            ["of a step of a step of a step of a step of a step took", "8.18 ms."],
        ),
        (
            f"{'of a step ' * 5}took 12 steps",
            ["of a step of a step of a step of a step of a step took 12", "steps"],
        ),
    ],
)
def test_a_number_and_its_unit_stay_on_one_line(text: str, lines: list[str]):
    assert page.render([page.paragraph(text, indent=0)], width=60, colour=False) == "".join(
        f"{line}\n" for line in lines
    )


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_page(width):
    """At 80, 100 and 120 columns nothing wraps by accident."""
    text = report_text(full_report(), width=width, colour=False)

    assert max(map(len, text.splitlines())) <= width
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [60, 70, 80])
def test_a_work_is_one_line_on_a_narrow_page(width):
    """Columns are left out before a row takes two lines."""
    text = report_text(full_report(), width=width, colour=False)

    (row,) = [line for line in text.splitlines() if "train_on_batch" in line]
    assert "19,999" in row
    assert "60.0 s" in row
    assert "p50" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_numbers_are_never_cut(width):
    """Names give way on a narrow page; counts and times stay whole."""
    text = report_text(full_report(), width=width, colour=False)

    assert "19,999" in text
    assert "60.0 s" in text
    assert "1.00 MiB" in text


def test_quantiles_that_are_about_right_say_so():
    """Quantiles of a long job come from a histogram and are marked with ~."""
    text = report_text(full_report(), width=120, colour=False)

    assert "~3.00 ms" in text


def test_there_is_no_colour_unless_asked():
    """What goes to a file or a pipe holds no escape sequence."""
    report = full_report()

    assert "\x1b" not in report_text(report, width=80, colour=False)
    assert "\x1b" in report_text(report, width=80, colour=True)


def test_markup_in_names_is_text():
    """A name with brackets is shown as it is."""
    report = gather_report(profile(loops=[loop(name="[bold]loss[/bold] :smile:")]))

    assert "[bold]loss[/bold] :smile:" in report_text(report, width=120, colour=False)


def test_names_cannot_steer_the_terminal():
    """Escape sequences and line breaks in a fetch name stay one line of text."""
    report = gather_report(profile(loops=[loop(name="a\x1b[31m\nb\udcff")]))

    assert "a\\x1b[31m\\nb\\udcff" in report_text(report, width=120, colour=False)


def test_a_run_without_a_completed_step_is_not_said_to_be_fast() -> None:
    """A job that failed in its first step needs to work before it needs to be faster."""
    failed = report_text(
        gather_report(profile(loops=[loop([10], raised=[0])])), width=80, colour=False
    )
    finished = report_text(gather_report(profile(loops=[loop([10])])), width=80, colour=False)

    assert "What to change" not in failed
    assert "What to change" in finished


def test_what_is_of_the_run_stands_apart_from_the_last_of_several_processes() -> None:
    """Else the machine's use reads as that of one process."""
    unknown = dict.fromkeys(ResourceSample.__dataclass_fields__, Missing("not told"))
    known = {"process": 0, "user_ns": 0, "system_ns": 0, "resident_bytes": 10**6, "devices": ()}
    resource_samples = tuple(
        ResourceSample(**{**unknown, **known, "at_ns": at * 10**9, "steps": at}) for at in range(3)
    )
    for count in (1, 2):
        members = [process(index=at, pid=4000 + at) for at in range(count)]
        whole = gather_report(
            profile(processes=members, loops=[loop()], resource_samples=resource_samples)
        )

        before, found, _ = report_text(whole, width=80, colour=False).partition("\n  machine")

        assert found
        assert before.endswith("\n") == (count > 1)


def test_the_listing_shows_a_run_a_line():
    """`ls` has one line per run, also where run.json is lost."""
    known = RunLine("r2", "/runs/r2", ("python", "a b.py"), "2026", "node7", 2, 20_049, "running")
    lost = RunLine("r1", "/runs/r1", Missing("x"), Missing("x"), Missing("x"), 0, 0, "unknown")

    text = runs.render_runs([known, lost], 10**18, width=80, colour=False)

    assert text.splitlines()[1] == "r2   running  now          2  20,049  python 'a b.py'"
    assert text.splitlines()[2] == "r1   unknown    –          0       0  ?"


def test_sizes_are_listed_where_they_were_measured():
    """A column of its own, which a listing without them does not have."""
    run = RunLine("r2", "/runs/r2", ("python", "a.py"), "2026", "node7", 2, 20_049, "killed")
    sized = replace(run, size_bytes=3 << 20, active_unix_ns=10**18)

    text = runs.render_runs([sized, run], 10**18 + 90 * 60 * 10**9, width=80, colour=False)

    lines = text.splitlines()
    assert lines[0] == "run  state      age  processes   steps      size  command"
    assert lines[1] == "r2   killed  90 min          2  20,049  3.00 MiB  python a.py"
    assert lines[2] == "r2   killed       –          2  20,049         –  python a.py"


def test_a_run_of_the_future_has_no_age():
    """One of two clocks is wrong, by more than clocks of machines differ."""
    run = RunLine("r2", "/runs/r2", ("python",), "2026", "node7", 2, 9, "killed")
    ahead = [replace(run, active_unix_ns=10**18 + s * 10**9) for s in (30, 3600)]

    text = runs.render_runs(ahead, 10**18, width=80, colour=False)

    assert [line.split()[2] for line in text.splitlines()[1:]] == ["now", "–"]


def test_steps_show_the_latest():
    """Each loop has its summary and its latest steps."""
    report = step_gather(profile(loops=[timed_loop([5_000_000] * 30, sampled=[29])]), last=2)

    text = steps.render_steps(report, width=80, colour=False)

    assert "30 steps, 1 traced" in text
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["28", "29"]
    assert text.splitlines()[-1].endswith("traced")


def test_markdown_has_the_same_numbers():
    """--md writes tables a pull request shows; pipes in names do not break them."""
    text = markdown.render_report_markdown(
        gather_report(profile(loops=[loop(name="a|b")])), advise(profile())
    )

    assert "| session_run | a\\|b | 10 |" in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_page_of_steps_fits(width):
    """Phases, times, what stands out and the latest steps: no line is wider than the page."""
    gaps = [50_000] * 400
    gaps[100::100] = [80_000_000] * 3
    loops = [
        timed_loop([2_000_000_000, *[10_000_000] * 399], gaps, kind="fit", name=LONG),
        loop([3_000_000] * 20_000, remembered=50, index=1, name="long"),
        loop([], index=2, name="empty"),
        timed_loop([5_000_000] * 3, index=3, name="short"),
        timed_loop([1_000_000] * 3, index=4, name="unseen"),
    ]
    one = process(unix_minus_monotonic_ns=UNIX_NS - MONO_NS)

    text = steps.render_steps(
        step_gather(profile(loops=loops, processes=[one]), last=2), width=width, colour=False
    )

    assert max(map(len, text.splitlines())) <= width
    assert "Phases of" in text
    assert "~3.00 ms" in text
    assert "the first step" in text
    assert "and 2 more kinds of step" in text


def test_a_histogram_is_drawn_on_one_line():
    """The most frequent time is highest, a rare one is seen, and none is blank."""
    bars = (HistogramBar(1.0, 1.06, 80), HistogramBar(1.06, 1.12, 1), HistogramBar(1.31, 1.37, 10))

    assert histogram_sparkline(bars, 40) == "█▁  ▂"


def two_runs() -> Diff:
    before = [op("MatMul", 0, 40, bytes=2**20), op("Conv2D", 10, 20)]
    after = [op("MatMul", 0, 80, bytes=2**22), op("_FusedConv2D", 10, 20)]
    names = {"kind": "train_on_batch", "name": LONG}
    found = diff(
        profile([Step(before)] * 8, loops=[timed_loop([MS, MS + 9] * 50, **names)]),
        profile(
            [Step(after)] * 8,
            loops=[timed_loop([2 * MS, 2 * MS + 9] * 50, **names)],
            processes=[process(tensorflow="2.20.0", python="3.10.1")],
        ),
    )
    assert isinstance(found, Diff)
    return found


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_page_of_a_comparison_fits(width):
    """What differs, the answer, step times and ops: no line is wider than the page."""
    found = two_runs()

    text = diff_layout.render_diff(
        found,
        [("steps", judge(found, on="steps", allowed_ratio=0.05, strict=True))],
        width=width,
        colour=False,
    )

    assert max(map(len, text.splitlines())) <= width
    assert "2.20.0" in text
    assert "+100.0 %" in text
    assert "MatMul" in text
    assert "Only in B: _FusedConv2D" in text
    assert "FAIL (steps)" in text


def test_many_processes_are_put_together():
    """Above eight processes a report shows what they have in common; a thousand fit a screen."""
    processes = [process(index=at, pid=4000 + at, rank=at, role="worker") for at in range(1000)]
    loops = [loop(process=at, kind="fit", name="resnet") for at in range(1000)]
    report = gather_report(profile(processes=processes, loops=loops))

    text = report_text(report, width=100, colour=False)
    page = markdown.render_report_markdown(report, advise(profile()))

    assert "1,000 processes on 1 host · finished · TensorFlow 2.21.0" in text
    assert "pid 4711" not in text
    assert len(text.splitlines()) < 60
    assert "## 1,000 processes on 1 host" in page
    assert len(page.splitlines()) < 60


def test_many_reasons_for_silence_are_not_all_shown():
    """Of a thousand processes without steps a screen has room for three."""
    processes = [process(index=at, pid=4000 + at) for at in range(1000)]

    text = report_text(gather_report(profile(processes=processes)), width=100, colour=False)

    assert "and 997 more processes without steps; --json says why" in text


@pytest.mark.parametrize(("path", "expected"), SHORT_PATHS)
def test_an_installed_file_is_shown_with_its_package(path: str, expected: str) -> None:
    """Else a file of Keras, `tensorflow/trainer.py`, reads as one of TensorFlow."""
    assert page.short_path(path) == expected


def test_a_rank_and_how_it_ended_are_shown():
    """A worker of a distributed job is named as one."""
    report = gather_report(profile(processes=[process(rank=1, role="worker", state="killed")]))

    text = report_text(report, width=100, colour=False)

    assert "worker 1" in text
    assert "killed" in text


@pytest.mark.parametrize(("waits", "is_told"), [(19, False), (20, True)])
def test_what_a_call_takes_is_the_mean_of_many(waits: int, *, is_told: bool) -> None:
    """Of a few calls that the program waited for, one that compiles would be most of it."""
    queue = StepQueue(0, 10.0, waits, 0, waits * 10**6)

    note = queue_note(loop([10**9], kind="jit", name="step", queue=queue), queue)

    assert ("(a call takes 1.00 ms in the mean)" in note) == is_told


def test_loops_that_take_little_share_one_note_of_their_queues() -> None:
    """Only what takes a tenth of the time has a note of its own, or is the first."""
    queue = StepQueue(0, 1.0, 0, 0, 0)
    loops = [
        loop([10**9], index=0, kind="jit", name="step", queue=queue),
        loop([10**6], index=1, kind="jit", name="loss", queue=queue),
        loop([10**6], index=2, kind="jit", name="batch", queue=queue),
    ]

    text = report_text(gather_report(profile(loops=loops)), width=200, colour=False)

    assert "Calls of jit step only queue its steps; a step ends when" in text
    assert "Calls of jit loss, jit batch only queue their steps, too; `tfprobe steps`" in text
