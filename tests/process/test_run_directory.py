"""What the launcher leaves on disk: complete, separate, private, and nothing secret."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from pathlib import Path

from tests.process.launching import PATIENCE_S, Launcher, environment


def _manifest(run: Path) -> dict[str, object]:
    manifest: dict[str, object] = json.loads(run.joinpath("run.json").read_text())
    return manifest


def test_run_json_says_what_was_launched(launcher: Launcher) -> None:
    """Command, place, process, time and configuration, as the contract names them."""
    ended = launcher.run("--steps", "50,10-20", "--", "sh", "-c", "echo $$")

    manifest = _manifest(ended.run)
    config = {
        "schema": "tfprobe.config/1",
        "steps": [[10, 20], [50, 50]],
        "every": None,
        "budget": 0.01,
        "trace_level": "full",
    }
    assert manifest["schema"] == "tfprobe.run/1"
    assert manifest["id"] == ended.run.name
    assert manifest["command"] == ["sh", "-c", "echo $$"]
    assert manifest["cwd"] == str(launcher.work)
    assert manifest["host"] == socket.gethostname()
    assert manifest["pid"] == int(ended.stdout)
    assert manifest["config"] == config
    assert json.loads(ended.run.joinpath("boot", "config.json").read_text()) == config
    assert set(manifest) == {
        *("schema", "id", "command", "cwd", "host", "user", "pid", "boot_id", "pid_namespace"),
        *("pid_started_ticks", "started_unix_ns", "started", "tfprobe", "config", "environment"),
        *("name", "tags"),
    }
    assert (manifest["name"], manifest["tags"]) == (None, {})


def test_a_run_has_its_name_and_tags(launcher: Launcher) -> None:
    """Those of the command line and of the variable, with what looks secret masked."""
    token = "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
    ended = launcher.run(
        *("--name", f"night {token}", "--tag", "lr=0.1", "--tag=api_key=hidden", "--", "true"),
        env={"TFPROBE_TAG": f"cluster=west,note={token}"},
    )

    manifest = _manifest(ended.run)
    assert manifest["name"] == "night ***"
    assert manifest["tags"] == {"lr": "0.1", "api_key": "***", "cluster": "west", "note": "***"}
    assert token not in ended.run.joinpath("run.json").read_text()


def test_a_tag_that_is_none_costs_one_line(launcher: Launcher) -> None:
    """As an option it ends the launch; as a variable it costs the recording."""
    flag = launcher.bare(launcher.program, "run", "--tag", "lr", "--", "echo", "job")
    variable = launcher.bare(
        launcher.program, "run", "--", "echo", "job", env={"TFPROBE_TAG": "lr"}
    )

    assert (flag.status, flag.stdout, flag.stderr.count(b"\n")) == (2, b"", 1)
    assert b"--tag is ['lr']: use KEY=VALUE" in flag.stderr
    assert (variable.status, variable.stdout) == (0, b"job\n")
    assert b"TFPROBE_TAG is 'lr': use KEY=VALUE" in variable.stderr


def test_with_report_the_pid_is_the_jobs(launcher: Launcher) -> None:
    """The companion's own pid is nobody's business."""
    ended = launcher.run("--report", "--", "sh", "-c", "echo $$")

    assert _manifest(ended.run)["pid"] == int(ended.stdout)


def test_a_run_is_private(launcher: Launcher) -> None:
    """Directories are 0700 and files 0600, whatever the umask allows."""
    ended = launcher.bare(
        "sh", "-c", f"umask 0; {launcher.program} run -o {launcher.output} -- python -c pass"
    )

    paths = [launcher.output, *launcher.output.rglob("*")]
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in paths}
    assert ended.status == 0
    assert modes == {(True, 0o700), (False, 0o600)}


def test_the_boot_directory_holds_only_the_agent(launcher: Launcher) -> None:
    """Nothing there can shadow a module of the job."""
    ended = launcher.run("--", "true")

    names = {path.name for path in ended.run.joinpath("boot").iterdir()}
    modules = {"sitecustomize.py", "usercustomize.py", "tfprobe_agent"}
    assert names == {"config.json", "launcher.json", *modules}
    caches = {path.relative_to(ended.run / "boot").parts[0] for path in ended.run.rglob("*.pyc")}
    assert caches <= {"tfprobe_agent"}
    assert not list(ended.run.rglob(".tmp-*"))


def test_nothing_secret_is_stored(launcher: Launcher) -> None:
    """Of the environment an allow-list, of the command what does not look secret."""
    secret = "hunter2-is-the-secret"
    variables = {
        "AWS_SECRET_ACCESS_KEY": secret,
        "TF_API_TOKEN": secret,
        "TF_STORE": f"https://user:{secret}@host/",
        "TF_CONFIG": '{"task": {"index": 1}}',
        "CUDA_VISIBLE_DEVICES": "0,1",
        "OTHER": secret,
    }
    arguments = (
        *("--password", secret, f"--api-key={secret}", f"token={secret}"),
        *("--url", f"s3://me:{secret}@bucket", "--lr", "0.1"),
    )

    ended = launcher.run("--", "sh", "-c", "exit 0", "sh", *arguments, env=variables)

    stored = b"".join(path.read_bytes() for path in ended.run.rglob("*") if path.is_file())
    manifest = _manifest(ended.run)
    assert secret.encode() not in stored
    assert manifest["environment"] == {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "TF_CONFIG": '{"task": {"index": 1}}',
    }
    assert manifest["command"] == [
        *("sh", "-c", "exit 0", "sh", "--password", "***", "--api-key=***", "token=***"),
        *("--url", "s3://me:***@bucket", "--lr", "0.1"),
    ]


def test_launches_at_once_stay_separate(launcher: Launcher) -> None:
    """32 jobs into one directory that none of them finds there: 32 complete runs."""
    launches = [
        subprocess.Popen(
            [launcher.program, "run", "-q", "-o", launcher.output, "--", "sh", "-c", "echo $$"],
            stdout=subprocess.PIPE,
            cwd=launcher.work,
            env=environment({}),
        )
        for _ in range(32)
    ]
    pids = {int(launch.communicate(timeout=PATIENCE_S)[0]) for launch in launches}

    assert {launch.returncode for launch in launches} == {0}
    assert {_manifest(run)["pid"] for run in launcher.runs()} == pids
    assert all((run / "boot" / "tfprobe_agent" / "boot.py").exists() for run in launcher.runs())


def test_settings_come_from_the_strongest_source(launcher: Launcher) -> None:
    """Flags above variables above tfprobe.toml in the nearest directory above defaults."""
    launcher.write("tfprobe.toml", "[run]\noutput = 'kept'\nbudget = 0.02\ntrace_level = 'off'\n")
    launcher.write("deep/down/here", "")
    line = f"cd deep/down; {launcher.program} run --every 7 -- true"

    ended = launcher.bare("sh", "-c", line, env={"TFPROBE_STEPS": "1", "TFPROBE_TRACE_LEVEL": ""})

    config = _manifest(ended.run)["config"]
    assert isinstance(config, dict)
    assert ended.run.parent == launcher.work / "kept"
    assert (config["steps"], config["every"]) == (None, 7)
    assert (config["budget"], config["trace_level"]) == (0.01, "off")


def test_a_run_survives_being_moved(launcher: Launcher, python: str) -> None:
    """The agent finds its run by its own place, so no absolute path of ours is needed."""
    ended = launcher.run("--", "true")
    moved = launcher.work / "moved"
    os.rename(ended.run, moved)

    launcher.bare(python, "-c", "pass", env={"PYTHONPATH": f"{moved}/boot"})

    assert len((moved / "boot" / "interpreters.tsv").read_text().splitlines()) == 1
