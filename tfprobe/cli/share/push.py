"""`tfprobe push`: a run goes to remote storage."""

from __future__ import annotations

import click

from tfprobe.cli import common
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.printable import printable


@click.command("push")
@click.argument("words", nargs=-1, required=True, metavar="[RUN] URL")
@common.output_option
@common.json_option
def command(words: tuple[str, ...], output: str | None, as_json: bool) -> int:
    """Copy a run to URL/<run id> in remote storage, where all other commands can read it.

    URL is s3://BUCKET/DIR, gs://, sftp:// or anything else that fsspec supports. An interrupted
    push resumes where it stopped. Readers find no run there until the push is complete.
    """
    run, url = _run_and_url(words)
    from tfprobe.runs.catalogue import glance
    from tfprobe.runs.liveness import LIVE, this_machine
    from tfprobe.runs.remote.pushing import push

    folder = common.chosen_run(run, output)
    entry = glance(folder, this_machine())
    if entry.state in LIVE:
        raise NoAnswer(f"Run {folder.id} is {entry.state}.", hint="Push it after it has ended.")
    with common.progress("Pushing") as watch:
        done = push(folder, url, watch)
    if as_json:
        common.show_json(
            {
                "schema": "tfprobe.push/1",
                "id": folder.id,
                "url": done.url,
                "files": done.files,
                "bytes": done.size_bytes,
                "already_there": done.already_there,
            }
        )
        return 0
    there = f", {done.already_there} were there" if done.already_there else ""
    common.show(f"{printable(done.url)}: {done.files} files, {done.size_bytes:,} bytes{there}\n")
    return 0


def _run_and_url(words: tuple[str, ...]) -> tuple[str, str]:
    *runs, url = words
    if len(runs) > 1 or not common.is_url(url) or any(map(common.is_url, runs)):
        hint = "Use `tfprobe push [RUN] s3://BUCKET/DIR`."
        from tfprobe.runs.remote.storage import shown

        said = " ".join(map(shown, words))
        raise UsageError(f"Expected a local run and a URL, but got {said}.", hint=hint)
    return (runs[0] if runs else common.default_run()), url
