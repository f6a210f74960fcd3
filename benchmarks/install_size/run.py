"""Measure what an installation of tfprobe takes on disk, by package.

    python benchmarks/install_size/run.py                 # `pip install .`, and with all extras
    python benchmarks/install_size/run.py --base REV      # and what a revision took, in one call

Each installation is made in a new environment that holds neither pip nor setuptools, so all of its
site-packages belongs to tfprobe. Sizes are what `du -m` prints: blocks on disk in units of 2^20
bytes, with the bytecode that pip compiles. They depend on the file system, so the lengths of the
files are given as well.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Sizes that POSIX gives in blocks are in blocks of 512 bytes, whatever the file system has.
BLOCK_BYTES = 512
MB = 2**20
TARGET_BYTES = 200 * MB
# Packages below are summed up.
SMALL_BYTES = 2 * MB


def main() -> int:
    """Print a table for each installation; the status is 1 where the plain one is too large."""
    parser = argparse.ArgumentParser(description="Measure what an installation takes on disk.")
    parser.add_argument("--base", metavar="REV", help="measure this revision of git first")
    base = parser.parse_args().base
    with tempfile.TemporaryDirectory(prefix="tfprobe-install-") as folder:
        place = Path(folder)
        if base is not None:
            show(f"pip install . at {base}", installed(checked_out(base, place), place / "base"))
        total_bytes = show("pip install .", installed(str(ROOT), place / "plain"))
        show("pip install '.[all]'", installed(f"{ROOT}[all]", place / "all"))
    return 0 if total_bytes <= TARGET_BYTES else 1


def checked_out(revision: str, place: Path) -> str:
    """Write the files of a revision to a folder of their own; return its path."""
    target = place / "source"
    target.mkdir()
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", revision], check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "-x", "-C", target], check=True, input=archive.stdout)
    return str(target)


def installed(requirement: str, folder: Path) -> Path:
    """Install into a new environment; return its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--quiet"]
    subprocess.run([*pip, "install", "--no-input", requirement], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    return site_packages


def show(title: str, site_packages: Path) -> int:
    """Print the packages by size; return the size of all that is there."""
    paths = [site_packages, *site_packages.rglob("*")]
    total_bytes = on_disk(*paths)
    length_bytes = sum(path.lstat().st_size for path in paths if path.is_file())
    print(
        f"\n{title}: {total_bytes / MB:.1f} MB on disk, {length_bytes / MB:.1f} MB of files, "
        f"Python {platform.python_version()}"
    )
    sizes = {each.name: bytes_of(each) for each in distributions(path=[str(site_packages)])}
    for name, size_bytes in sorted(sizes.items(), key=lambda item: -item[1]):
        if size_bytes >= SMALL_BYTES:
            print(f"  {size_bytes / MB:6.1f} MB  {name}")
    small = [size_bytes for size_bytes in sizes.values() if size_bytes < SMALL_BYTES]
    print(f"  {sum(small) / MB:6.1f} MB  in {len(small)} smaller packages")
    return total_bytes


def bytes_of(distribution: Distribution) -> int:
    """Return what the files of a package take, as its record lists them."""
    return on_disk(*(Path(str(file.locate())) for file in distribution.files or ()))


def on_disk(*paths: Path) -> int:
    """Return what files and folders themselves take on disk."""
    return sum(path.lstat().st_blocks * BLOCK_BYTES for path in paths)


if __name__ == "__main__":
    sys.exit(main())
