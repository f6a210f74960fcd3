"""The wheel, installed alone, is the whole program; the sdist is the whole project."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.process.launching import ROOT, Launcher

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
