"""A machine's accelerators are sampled beside the job, by a process that is none of the job's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.process.launching import Launcher, environment

SOURCE = Path(__file__).parents[1] / "support" / "nvml.c"
# A meter looks four times a second whether its job is there; a loaded machine takes its time.
GONE_S = 60


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library that answers as NVML does."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make an NVML of")
    folder = tmp_path_factory.mktemp("driver")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", target, SOURCE], check=True)
    return folder


@pytest.fixture
def metered(driver: Path) -> dict[str, str]:
    """The environment of a machine with an accelerator."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed here")
    return {"LD_LIBRARY_PATH": str(driver)}


def _meters(run_or_output: Path) -> list[int]:
    """The meters of a run that are there, by pid."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            continue
        words = [os.fsdecode(word) for word in command]
        is_ours = any(word.startswith(str(run_or_output)) for word in words)
        if "tfprobe.attach.meter" in words and is_ours and state != b"Z":
            found.append(int(entry.name))
    return found


def _wait_until_gone(output: Path) -> None:
    deadline = time.monotonic() + GONE_S
    while _meters(output) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _meters(output) == []


def _samples(run: Path) -> list[dict[str, object]]:
    (file,) = (run / "machine").iterdir()
    assert file.name == f"{os.uname().nodename}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


WATCHING = """
import glob, os, time
started = time.monotonic()
while time.monotonic() - started < 60:
    files = glob.glob({output!r} + "/*/machine/*.jsonl")
    if any(open(file).read().count("\\n") >= 2 for file in files): break
    time.sleep(0.05)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child")
"""


def test_accelerators_are_sampled_while_the_job_runs(launcher: Launcher, python, metered) -> None:
    """Once a second, in the units of the contract; the job has no child it did not make."""
    code = WATCHING.format(output=str(launcher.output))

    ended = launcher.run("--", python, "-c", code, env=metered)

    assert (ended.status, ended.lines(), ended.own_stderr) == (0, ["no child"], b"")
    _wait_until_gone(launcher.output)
    first, second, *_ = _samples(ended.run)
    assert first["devices"] == [
        {
            "index": 0,
            "name": "Toy H200",
            "utilization_ratio": 0.75,
            "memory_used_bytes": 3 << 30,
            "memory_total_bytes": 1 << 37,
            "power_watts": 350.5,
            "power_limit_watts": None,
            "sm_clock_hz": 1_755_000_000,
            "max_sm_clock_hz": 1_980_000_000,
            "temperature_celsius": 51,
            "pcie_sent_bytes_per_s": 10_000,
            "pcie_received_bytes_per_s": 20_000,
            "throttle_reasons": ["power cap"],
        }
    ]
    assert 0.9e9 < int(str(second["unix_ns"])) - int(str(first["unix_ns"])) < 5e9
    assert (ended.run / "machine").stat().st_mode & 0o777 == 0o700


def test_a_meter_has_nothing_of_the_jobs(launcher: Launcher, metered) -> None:
    """Not its session, its terminal, its directory or any of its descriptors; it says nothing."""
    reader, writer = os.pipe()
    job = subprocess.Popen(
        [launcher.program, "run", "-q", "-o", launcher.output, "--", "sleep", "60"],
        cwd=launcher.work,
        env=environment(metered),
        pass_fds=[writer],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.close(writer)
    deadline = time.monotonic() + GONE_S
    while not list(launcher.output.glob("*/machine/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    (meter,) = _meters(launcher.output)
    links = {os.readlink(f"/proc/{meter}/fd/{fd}") for fd in os.listdir(f"/proc/{meter}/fd")}
    session, place = os.getsid(meter), os.readlink(f"/proc/{meter}/cwd")
    parent = int(Path(f"/proc/{meter}/stat").read_text().rpartition(")")[2].split()[1])

    job.kill()
    said = job.communicate()[0]
    os.set_blocking(reader, False)

    assert said == b""
    assert os.read(reader, 1) == b""  # closed by all who had it, while the meter may still be there
    assert (session, place) == (os.getsid(meter) if _meters(launcher.output) else session, "/")
    assert session not in (os.getsid(0), job.pid)
    assert parent != job.pid
    assert {link for link in links if "/machine/" not in link} == {"/dev/null"}
    _wait_until_gone(launcher.output)
    os.close(reader)


def test_a_meter_ends_with_what_was_recorded_of_the_job(launcher: Launcher, metered) -> None:
    """A job that dies at once takes its meter along."""
    launcher.run("--", "sh", "-c", "kill -9 $$", env=metered)

    _wait_until_gone(launcher.output)


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_the_meter_can_be_switched_off(launcher: Launcher, metered, way) -> None:
    """--no-meter, TFPROBE_METER=0, or meter = false in tfprobe.toml."""
    if way == "file":
        launcher.write("tfprobe.toml", "[run]\nmeter = false\n")
    flags = ["--no-meter"] if way == "flag" else []
    variables = {"TFPROBE_METER": "0"} if way == "variable" else {}

    ended = launcher.run(*flags, "--", "sleep", "0.5", env={**metered, **variables})

    assert (ended.status, ended.own_stderr) == (0, b"")
    assert not (ended.run / "machine").exists()


def test_without_a_driver_nothing_is_started(launcher: Launcher, python) -> None:
    """A machine without accelerators has no other process than before."""
    children = "open(f'/proc/self/task/{os.getpid()}/children').read()"
    code = f"import os, time; time.sleep(0.5); print([{children}])"

    ended = launcher.run("--", python, "-c", code)

    if (ended.run / "machine").exists():
        pytest.skip("this machine has NVML")
    assert (ended.status, ended.lines()) == (0, ["['']"])
    assert _meters(launcher.output) == []


ADOPTING = """
import ctypes, os, sys
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_job_that_adopts_orphans_has_no_meter(launcher: Launcher, python, metered) -> None:
    """It would be the meter's parent, and may wait for all its children."""
    command = [launcher.program, "run", "-q", "-o", launcher.output, "--", "sleep", "0.5"]

    ended = launcher.bare(python, "-c", ADOPTING, *command, env=metered)

    assert (ended.status, ended.stderr) == (0, b"")
    (run,) = launcher.runs()
    assert not (run / "machine").exists()


def test_the_first_process_of_a_container_leaves_none_behind(launcher: Launcher, metered) -> None:
    """Orphans of a pid namespace become children of its first process."""
    command = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no pid namespace can be made here")
    launch = [launcher.program, "run", "-q", "-o", launcher.output, "--", "sleep", "0.5"]

    ended = launcher.bare(*command, *launch, env=metered)

    assert ended.status == 0
    (run,) = launcher.runs()
    assert not (run / "machine").exists()


def test_a_meter_by_itself_takes_what_it_is_given(tmp_path: Path) -> None:
    """Without a job, without a driver, it ends without a word."""
    command = [
        sys.executable,
        "-m",
        "tfprobe.attach.meter",
        str(tmp_path / "gone"),
        "host",
        "999999999",
    ]

    ended = subprocess.run(command, capture_output=True, check=False, cwd=Path(__file__).parents[2])

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []
