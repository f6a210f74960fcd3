"""Fetch the front end's libraries from npm, as `libraries.json` names them. No user needs it.

`python -m tfprobe.web.vendor` downloads each package by its exact version, compares it with the
digest that is noted, and keeps the few files that the pages need, and the package's own notices.
Their digests are kept next to it, for a test.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "static" / "vendor"
LIST = FOLDER / "libraries.json"


def main() -> int:
    """Fetch all."""
    for library in json.loads(LIST.read_text(encoding="utf-8")):
        _fetch(library)
        sys.stdout.write(f"{library['name']} {library['version']}\n")
    return 0


def digest(package: bytes) -> str:
    """Return npm's own digest of a package, as its registry and lock files give it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(package).digest()).decode()


def _fetch(library: dict[str, Any]) -> None:
    """Keep the files of one package. Any: a line of libraries.json."""
    named = f"{library['name']}@{library['version']}"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", named], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        package = next(Path(folder).glob("*.tgz")).read_bytes()
    if digest(package) != library["digest"]:
        raise SystemExit(f"{named} is not what it was: {digest(package)}")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        for kept, source in library["files"].items():
            member = archive.extractfile(f"package/{source}")
            if member is None:
                raise SystemExit(f"{named} has no {source}")
            (FOLDER / kept).write_bytes(member.read())


if __name__ == "__main__":
    sys.exit(main())
