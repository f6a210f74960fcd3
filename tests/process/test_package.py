"""The wheel, installed alone, is the whole program; the sdist is the whole project."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.process.launching import ROOT, Launcher
from tfprobe.launch.doctor.checks import EXTRAS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from an sdist, built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return folder


def test_the_wheel_holds_the_agent_inside_the_package(distributions: Path) -> None:
    """A sitecustomize at the top of site-packages would run in every interpreter."""
    (wheel,) = distributions.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()

    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    hooks = ROOT / "sitecustomize_hooks"
    agent = {str(path.relative_to(hooks)) for path in hooks.rglob("tfprobe_agent/**/*.py")}
    folder = "tfprobe/sitecustomize_hooks/"
    packed = {name[len(folder) :] for name in names if name.startswith(folder + "tfprobe_agent/")}
    assert tops == {"tfprobe"}
    assert folder + "sitecustomize.py" in names
    assert packed == agent
    assert "tfprobe/py.typed" in names


def test_only_what_most_users_need_is_installed_by_default(distributions: Path) -> None:
    """`pip install .` takes at most 200 MB: a package joins this list with its size in mind."""
    assert {
        "click", "duckdb", "google-re2", "numpy", "nvidia-ml-py", "orjson", "prometheus-client",
        "protobuf", "pytz", "rich", "starlette", "textual", "tomli", "uvicorn",
    } == _requirements(distributions)[""]  # fmt: skip


def test_all_has_every_extra_of_users(distributions: Path) -> None:
    """But TensorFlow, which users have in a build of their own, and what tests of tfprobe need."""
    packages = _requirements(distributions)
    extras = packages.keys() - {"", "all", "tensorflow", "test", "test-web"}

    assert packages["all"] == set().union(*(packages[extra] for extra in extras))
    assert packages["all"] <= packages["test"]
    assert packages["all"].isdisjoint(packages[""])
    assert extras == dict(EXTRAS).keys()
    assert all(package.replace("_", "-") in packages[extra] for extra, package in EXTRAS)


def _requirements(distributions: Path) -> dict[str, set[str]]:
    """Return the names of the packages by extra, "" for those that are always installed."""
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    packages: dict[str, set[str]] = {extra: set() for extra in metadata.get_all("Provides-Extra")}
    packages[""] = set()
    for requirement in metadata.get_all("Requires-Dist"):
        extra = re.search(r"extra == '([^']*)'", requirement)
        package = re.match(r"[\w.-]+", requirement)
        packages[extra[1] if extra else ""].add(package[0])
    return packages


def test_the_sdist_is_complete(distributions: Path) -> None:
    """Tests, docs and examples travel with the source."""
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"LICENSE", "docs/design.md", "sitecustomize_hooks/sitecustomize.py"} <= names
    assert "tests/process/test_package.py" in names


def test_the_installed_wheel_records(
    distributions: Path, launcher: Launcher, tmp_path: Path
) -> None:
    """In an environment of its own, far from this checkout."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("installing the wheel needs pip in this environment")
    (wheel,) = distributions.glob("*.whl")
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    (site_packages,) = venv.glob("lib/python*/site-packages")
    # Our dependencies come from the environment of the tests, so no network is needed.
    site_packages.joinpath("libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"]
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    installed = Launcher(venv / "bin" / "tfprobe", launcher.output, launcher.work)

    ended = installed.run("--report", "--", python, "-c", "import tfprobe; print(tfprobe.__file__)")

    assert ended.stdout.decode() == f"{site_packages}/tfprobe/__init__.py\n"
    assert len(ended.run.joinpath("boot", "interpreters.tsv").read_text().splitlines()) == 1
    assert b"Traceback" not in ended.stderr
