"""`tfprobe capture`: a run of a job that tfprobe did not start, or a paragraph why not."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import profiler_service
from tests.support.profiler_service import Answer, empty, left, sent, sent_as_tool, serving, trace
from tfprobe import open_run
from tfprobe.attach.service import client as remote_service
from tfprobe.attach.service import exchange
from tfprobe.cli.main import main


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory for runs."""
    return tmp_path / "runs"


@pytest.fixture(autouse=True)
def _is_short_of_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that never comes is waited for as shortly as can be."""
    monkeypatch.setattr(exchange, "PATIENCE_S", 0.2)


def capture(runs: Path, *arguments: str) -> int:
    return main(["capture", "-o", str(runs), *arguments])


def refusal(runs: Path, capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> str:
    """Return why nothing was recorded, after a look that nothing is left."""
    assert capture(runs, *arguments) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert (said.err.count("\n"), said.err[:9]) == (1, "tfprobe: ")
    assert not runs.is_dir() or list(runs.iterdir()) == []
    return said.err


def _leaves(request, context):
    return left(request, trace(12))


ANSWERS: dict[str, Answer | bytes] = {
    "in the response, as late versions do": sent(trace(12)),
    "as a tool, as 2.3 does": sent_as_tool(trace(12)),
    "in a file, as 2.4 to 2.20 do": _leaves,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_job_is_recorded_however_its_trace_comes(
    answer: Answer | bytes, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run holds the trace and its steps, is finished, and belongs to nobody else."""
    with serving(answer) as service:
        assert capture(runs, service.address, "--steps", "10", "--json") == 0

    document = json.loads(capsys.readouterr().out)
    (process,) = document["processes"]
    assert (process["service"], process["steps"]) == (service.address, 12)
    assert [each.name for each in runs.iterdir()] == [document["id"]]
    (kept,) = Path(document["dir"]).glob("*/*/captures/*")
    assert kept.read_bytes() == trace(12)
    assert all(each.stat().st_mode & 0o077 == 0 for each in runs.rglob("*"))


@pytest.fixture
def run(runs: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A run with the steps 40 to 51 of a service."""
    with serving(sent(trace(12, first=40))) as service:
        assert capture(runs, service.address, "--json") == 0
    return Path(json.loads(capsys.readouterr().out)["dir"])


def test_the_steps_of_a_service_are_captures_of_a_work(run: Path) -> None:
    """They keep the numbers that the program gave them."""
    profile = open_run(run).profile()

    (loop,) = profile.loops
    assert (loop.kind, loop.name, loop.count, loop.sampled) == ("service", "train", 12, 12)
    assert [each.step for each in profile.captures] == list(range(40, 52))
    assert (profile.run.state, profile.processes[0].state) == ("finished", "finished")
    assert (loop.times.sum_ns, loop.gaps.sum_ns) == (12_000_000, 1_100_000)
    assert profile.problems == ()


def test_a_step_and_the_time_to_the_next_are_divided(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One trace has both, so nothing of a cycle is missing."""
    assert main(["breakdown", str(run), "--json"]) == 0

    (loop,) = json.loads(capsys.readouterr().out)["works"]
    assert (loop["steps"], loop["cycle_us"]) == (12, 1100.0)
    causes = {each["what"]: each["duration_us"] for each in loop["causes"]}
    assert causes == {"before the first op": 250.0, "Python": 100.0}


ANSWERED = (
    "advise", "breakdown", "input", "op", "op -step 41", "op -select float_ops", "report", "scope",
    "steps", "tiers", "export --to chrome", "export --to step-timeline",
    "export --to profile-proto", "export --to models-profiler", "export --to speedscope --by scope",
)  # fmt: skip
REFUSED = ("code", "export --to pprof", "graph", "memory", "op -step 3", "transfers")


@pytest.mark.parametrize("asked", ANSWERED)
def test_every_reading_command_reads_it(
    asked: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is a run as any other."""
    command, *options = asked.split()

    status = main([command, str(run), *options])

    said = capsys.readouterr()
    assert (status, said.err) == (0, "")
    assert said.out


@pytest.mark.parametrize("asked", REFUSED)
def test_what_a_service_does_not_tell_is_refused_with_the_reason(
    asked: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither code nor graphs, nor memory of a CPU."""
    command, *options = asked.split()

    status = main([command, str(run), *options])

    said = capsys.readouterr()
    assert (status, said.out, said.err.count("\n")) == (1, "", 1)


def test_ls_lists_it_with_its_steps(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is finished, though this very process, which recorded it, is not."""
    assert main(["ls", str(run.parent), "--json"]) == 0

    (line,) = json.loads(capsys.readouterr().out)["runs"]
    assert (line["state"], line["steps"], line["processes"]) == ("finished", 12, 1)


def test_it_may_be_removed_at_once(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing writes into it any more."""
    assert main(["rm", "--yes", str(run)]) == 0

    assert not run.exists()


def test_a_service_is_named_by_its_port(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody told its pid."""
    port = next(run.glob("localhost/*")).name.split("-")[0]

    assert main(["report", str(run)]) == 0
    text = capsys.readouterr().out
    assert main(["report", str(run), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert f"localhost · port {port}" in text
    assert document["processes"][0]["pid"] is None


def test_it_is_compared_with_what_another_way_recorded(
    run: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run, a file and a service nobody needs to say which steps are the same."""
    path = tmp_path / "trace.xplane.pb"
    path.write_bytes(trace(20))

    assert main(["diff", str(run), str(path), "--json"]) == 0

    (pair,) = json.loads(capsys.readouterr().out)["works"]
    assert pair["name"] == "train"


def test_steps_that_begin_anew_are_counted_through(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keras numbers those of each epoch from 0 on."""
    space = profiler_service.message_class("tfprobe.xplane.XSpace")
    first, second = space.FromString(trace(3)), space.FromString(trace(3))
    for event in second.planes[0].lines[0].events:
        event.offset_ps += 10**10
    first.planes[0].lines[0].events.extend(second.planes[0].lines[0].events)
    content = first.SerializeToString()
    with serving(sent(content)) as service:
        assert capture(runs, service.address, "--steps", "6") == 0

    profile = open_run("latest", output=runs).profile()

    assert [each.step for each in profile.captures] == [0, 1, 2, 3, 4, 5]


def test_services_of_several_workers_are_ranks_of_one_run(runs: Path) -> None:
    """They are recorded at the same time, and their work is the same."""
    meet = threading.Barrier(2, timeout=30)

    def answer(steps: int) -> Answer:
        def answered(request, context):
            meet.wait()
            return sent(trace(steps))

        return answered

    with serving(answer(12)) as one, serving(answer(15)) as other:
        assert capture(runs, f"{one.address},{other.address}") == 0

    profile = open_run("latest", output=runs).profile()
    assert sorted(each.rank for each in profile.processes) == [0, 1]
    assert sorted(each.count for each in profile.loops) == [12, 15]
    assert {each.name for each in profile.loops} == {"train"}


def test_of_several_services_none_is_kept_without_the_others(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of some ranks would pass for the whole."""
    with serving(sent(trace(12))) as one:
        said = refusal(runs, capsys, 3, f"{one.address},localhost:1")

    assert "localhost:1 cannot be reached" in said


def test_fewer_steps_than_wanted_are_kept_and_told(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status says that it is not all."""
    with serving(sent(trace(2))) as service:
        assert capture(runs, service.address, "--steps", "3", "--timeout", "0.3") == 1

    said = capsys.readouterr()
    assert "2 of 3 requested steps" in said.err
    assert "2 whole steps" in said.out
    assert len(list(runs.iterdir())) == 1


def test_a_duration_needs_no_step(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that marks none, and calls no function, is one step as a whole."""
    content = profiler_service.unmarked()
    with serving(sent(content)) as service:
        assert capture(runs, service.address, "--duration", "0.2") == 0

    assert "no whole step" in capsys.readouterr().out
    (loop,) = open_run("latest", output=runs).profile().loops
    assert (loop.name, loop.count) == ("the whole recording", 1)


def test_a_program_without_steps_gives_none(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a step is, is said, and what to do without."""
    content = profiler_service.unmarked()
    with serving(sent(content)) as service:
        said = refusal(runs, capsys, 1, service.address, "--timeout", "0.3")

    assert "no whole step was seen in 0.3 s" in said
    assert "--duration" in said


def test_an_idle_program_gives_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It ran no op while it was recorded."""
    with serving(empty()) as service:
        said = refusal(runs, capsys, 1, service.address, "--duration", "0.1")

    assert "ran no op in 0.1 s" in said


def test_where_nothing_listens_there_is_no_service(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job has ended, or another port is meant."""
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        said = refusal(runs, capsys, 3, f"localhost:{unused.getsockname()[1]}")

    assert "nothing listens there" in said
    assert "server.start" in said


def test_a_host_without_an_address_is_told(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its name is wrong, or known elsewhere only."""
    assert "its host has no address" in refusal(runs, capsys, 3, "no-such-host.invalid:6009")


@pytest.fixture
def web_port() -> Iterator[int]:
    """A port where a web server listens."""

    class Silent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("localhost", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def test_a_web_server_is_no_profiler_service(
    web_port: int, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorBoard's port is not the job's."""
    assert "does not speak gRPC" in refusal(runs, capsys, 3, f"localhost:{web_port}")


def test_what_accepts_and_says_nothing_is_given_up(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process, or another kind of server."""
    monkeypatch.setattr(remote_service, "_CONNECT_MS", 300)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        said = refusal(runs, capsys, 3, f"127.0.0.1:{mute.getsockname()[1]}")

    assert "does not answer" in said


def test_a_server_of_something_else_has_no_profiler_service(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """gRPC serves many things."""
    with serving(b"", method="Predict") as service:
        said = refusal(runs, capsys, 3, service.address)

    assert "has no profiler service" in said


def test_another_profiler_in_the_job_is_waited_for_by_the_person(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorFlow has one at a time in a process."""
    with serving(_failing("Another profiler session is active.")) as service:
        said = refusal(runs, capsys, 1, service.address)

    assert "Another profiler is active" in said


def test_a_job_that_dies_leaves_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It went away while it was recorded."""

    def dies(request, context):
        service.die()
        return b""

    with serving(dies) as service:
        said = refusal(runs, capsys, 3, service.address)

    assert "went away while it recorded" in said


@pytest.mark.parametrize("content", [b"no XSpace", b"\xff\xff"])
def test_what_is_no_trace_is_refused(
    content: bytes, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service may send anything."""
    with serving(sent(content)) as service:
        said = refusal(runs, capsys, 3, service.address)

    assert "is not a trace" in said


def test_what_is_no_response_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor may its answer be one."""
    with serving(b"\xff\xff") as service:
        refusal(runs, capsys, 1, service.address)


def test_a_trace_on_another_file_system_is_told(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said where it is and how to share a folder."""
    with serving(profiler_service.sent(b"")) as service:
        said = refusal(runs, capsys, 1, service.address)

    assert service.orders[0].repository_root in said
    assert "--server-directory REMOTE=LOCAL" in said


def test_a_folder_closed_to_the_job_is_told(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It runs as another user, or in a container without it."""
    with serving(_failing("/data/x; Permission denied")) as service:
        said = refusal(runs, capsys, 1, service.address)

    assert "cannot write its trace" in said
    assert "--server-directory" in said


def test_a_shared_folder_has_two_names(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One in the container of the job and one here; whoever the job is may write into it."""
    here = tmp_path / "mounted"
    here.mkdir()
    modes = []

    def answer(request, context):
        assert request.repository_root.startswith("/data/tfprobe-")
        modes.extend(each.stat().st_mode & 0o777 for each in here.glob("*/*"))
        return left(request, trace(12), there="/data", here=str(here))

    with serving(answer) as service:
        assert capture(runs, service.address, "--server-directory", f"/data={here}") == 0

    assert modes == [0o777]
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere"], "not the address"),
        (["a:1", "--steps", "3", "--duration", "1"], "cannot be combined"),
        (["a:1", "--timeout", "3", "--duration", "1"], "--timeout"),
        (["a:1", "--steps", "0"], "--steps"),
        (["a:1", "--duration", "0"], "--duration"),
        (["a:1", "--duration", "nan"], "--duration"),
        (["a:1", "--timeout", "inf"], "--timeout"),
        (["a:1", "--server-directory", "here"], "cannot find"),
        (["a:1", "--server-directory", "/there=/nowhere/here"], "not a directory here"),
    ],
)
def test_orders_that_make_no_sense_are_refused(
    arguments: list[str], why: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is asked or written."""
    assert why in refusal(runs, capsys, 2, *arguments)


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the job is asked for anything."""
    (tmp_path / "file").write_text("")
    with serving(sent(trace(12))) as service:
        said = refusal(tmp_path / "file" / "runs", capsys, 2, service.address)

    assert service.orders == []
    assert "-o" in said


def _failing(details: str) -> Answer:
    def answer(request, context):
        context.abort(profiler_service.grpc.StatusCode.INTERNAL, details)

    return answer
