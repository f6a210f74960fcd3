"""Start the tasks of a cluster on this machine, each with its TF_CONFIG, as a launcher would."""

import json
import os
import socket
import subprocess
import sys


def prefix():
    """Return what comes before the command of each task, where each is recorded by itself."""
    return os.environ.get("EACH_TASK_BY", "").split()


def is_task():
    return "TF_CONFIG" in os.environ


def task():
    """Return the role of this task, and its number."""
    told = json.loads(os.environ["TF_CONFIG"])["task"]
    return told["type"], told["index"]


def run(**tasks):
    """Start so many tasks of each role; return the worst status of those that end by themselves.

    Parameter servers, and workers of a chief, serve until they are ended.
    """
    cluster = addresses(tasks)
    started = {}
    for role in cluster:
        for index in range(len(cluster[role])):
            told = {"cluster": cluster, "task": {"type": role, "index": index}}
            command = prefix() + [sys.executable] + sys.argv
            environment = dict(os.environ, TF_CONFIG=json.dumps(told))
            started[role, index] = subprocess.Popen(command, env=environment)
    serve = ("ps", "worker") if "chief" in cluster else ("ps",)
    statuses = [each.wait() for (role, _), each in started.items() if role not in serve]
    for (role, _), each in started.items():
        if role in serve:
            each.terminate()
            each.wait()
    return max(abs(status) for status in statuses)


def addresses(tasks):
    """Return so many free ports for each role."""
    sockets = []
    cluster = {}
    for role, count in tasks.items():
        for _ in range(count):
            each = socket.socket()
            each.bind(("127.0.0.1", 0))
            sockets.append(each)
            cluster.setdefault(role, []).append("127.0.0.1:%d" % each.getsockname()[1])
    for each in sockets:
        each.close()
    return cluster


def tell(name, value):
    """Print a fact in one write: tasks share their stdout."""
    sys.stdout.write("FACT %s\n" % json.dumps({"name": name, "value": value}))
    sys.stdout.flush()
