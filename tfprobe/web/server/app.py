"""What is answered under which address."""

from __future__ import annotations

import json
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tfprobe.store.layout import RunFolder
from tfprobe.store.liveness import this_machine
from tfprobe.web import front
from tfprobe.web.answers import answer, refresh
from tfprobe.web.opened import OpenRun
from tfprobe.web.question import Question


def application(directory: Path) -> Starlette:
    """Return the server of all runs below a directory, or of the one run that it is."""
    opened: dict[str, OpenRun] = {}

    def opened_run(name: str) -> OpenRun:
        if name not in opened:
            folder = RunFolder(directory if RunFolder(directory).is_run() else directory / name)
            opened[name] = OpenRun(folder, this_machine(), sibling=opened_run)
        return opened[name]

    def of_run(request: Request) -> Response:
        run = opened_run(request.path_params["run"])
        name = request.path_params["name"]
        refresh(run, name)
        found = answer(run, name, Question(dict(request.query_params)))
        text = json.dumps(found, allow_nan=False, ensure_ascii=False)
        return Response(text, media_type="application/json")

    def runs(_: Request) -> Response:
        alone = RunFolder(directory)
        folders = [alone] if alone.is_run() else [RunFolder(each) for each in directory.iterdir()]
        found = [{"id": each.id} for each in folders if each.is_run()]
        return Response(json.dumps({"runs": found}), media_type="application/json")

    def page(_: Request) -> Response:
        text = (front.STATIC / "index.html").read_text(encoding="utf-8")
        return Response(text, media_type="text/html")

    return Starlette(
        routes=[
            Route("/", page),
            Route("/page.js", lambda _: Response(front.script(), media_type="text/javascript")),
            Route("/page.css", lambda _: Response(front.style(), media_type="text/css")),
            Route(
                "/libraries.js", lambda _: Response(front.libraries(), media_type="text/javascript")
            ),
            Route("/api/runs", runs),
            Route("/api/run/{run}/{name}", of_run),
        ]
    )
