"""What would be recorded of each framework that an interpreter has, and what would not, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tfprobe.launch.doctor.checks import OTHER_TOOLS, Check, State
from tfprobe.launch.settings import Settings

_OLDEST_TENSORFLOW, _NEWEST_TENSORFLOW = (1, 14), (2, 21)
_OLDEST_TORCH, _NEWEST_TORCH = (2, 1), (2, 14)
_OLDEST_JAX, _NEWEST_JAX = (0, 4, 30), (0, 12)
# As in the agent: a session of an older jaxlib prints to stderr.
_OLDEST_TRACED_JAXLIB = (0, 6)
_TITLES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX"}
_NO_DEVICE_LEFT_OUT = (
    "its profiler cannot leave out the device, as --trace-level software asks",
    "Use --trace-level full.",
)
_TRUE = ("1", "true", "yes", "on", "y", "t")


@dataclass(frozen=True, slots=True)
class Package:
    """A package on the path of the interpreter; `error` says why it does not import, if tried."""

    origin: str
    version: str | None
    error: str | None = None

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Return the leading numbers of the version; None if it is unknown."""
        match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", self.version or "")
        return None if match is None else tuple(int(part or 0) for part in match.groups())


@dataclass(frozen=True, slots=True)
class Installed:
    """What the interpreter has, and which framework its Keras 3 would compute with."""

    packages: Mapping[str, Package]
    keras_backend: str


def framework_checks(
    installed: Installed, *, settings: Settings, environment: Mapping[str, str]
) -> list[Check]:
    """Judge each framework. Without any there is no recording; without some it still is one."""
    packages = installed.packages
    checks = []
    if "tensorflow" in packages:
        checks.append(_tensorflow(packages["tensorflow"]))
    if "torch" in packages:
        checks.append(_torch(packages["torch"], settings, environment))
    if "jax" in packages:
        checks.append(_jax(packages, settings, environment))
    if not checks:
        return [
            Check.failed(
                "frameworks",
                "It has none of TensorFlow, PyTorch and JAX, so there is nothing to record.",
                "Name an interpreter that has one, as in `tfprobe doctor -- /venv/bin/python`.",
            )
        ]
    recorded = {check.name for check in checks if check.state is not State.FAILED}
    if recorded:
        checks = [_as_warning(check) for check in checks]
    if "keras" in packages:
        checks.append(_keras(packages["keras"], installed.keras_backend, recorded))
    return checks


def _as_warning(check: Check) -> Check:
    return replace(check, state=State.WARNING) if check.state is State.FAILED else check


def _tensorflow(package: Package) -> Check:
    numbers = package.numbers
    problem = _broken("tensorflow", "TensorFlow", package)
    if problem is not None or numbers is None:
        return problem or _unknown("tensorflow", "TensorFlow", package)
    name = f"TensorFlow {package.version}"
    if numbers[:2] < _OLDEST_TENSORFLOW:
        return Check.failed("tensorflow", f"{name} is too old.", "Use 1.14 or later.")
    if numbers[:2] > _NEWEST_TENSORFLOW:
        return _untested("tensorflow", name)
    return Check.passed("tensorflow", f"{name} at {package.origin}.{_untraced(numbers)}")


def _untraced(numbers: tuple[int, ...]) -> str:
    if numbers < (2, 0):
        return (
            " Eager steps and calls of tf.functions are counted and timed but not traced: "
            "its profiler sees Sessions only."
        )
    if numbers >= (2, 17):
        return (
            " Steps of workers of a cluster are counted and timed but not traced: "
            "its profiler sometimes crashes such a process."
        )
    return ""


def _torch(package: Package, settings: Settings, environment: Mapping[str, str]) -> Check:
    numbers = package.numbers
    problem = _broken("torch", "PyTorch", package)
    if problem is not None or numbers is None:
        return problem or _unknown("torch", "PyTorch", package)
    name = f"PyTorch {package.version}"
    if numbers[:2] < _OLDEST_TORCH:
        return Check.warning(
            "torch",
            f"{name} is older than the versions tested.",
            "Use 2.1 or later, or check the step counts in the report.",
        )
    if numbers[:2] > _NEWEST_TORCH:
        return _untested("torch", name)
    untraced = _untraced_torch(settings, environment)
    if untraced is not None:
        why, action = untraced
        return Check.warning("torch", f"Steps of {name} are counted but not traced: {why}.", action)
    return Check.passed("torch", f"{name} at {package.origin}.")


def _untraced_torch(settings: Settings, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why no step of PyTorch is traced, and what to do about it."""
    if settings.trace_level == "software":
        return _NO_DEVICE_LEFT_OUT
    if "KINETO_USE_DAEMON" in environment:
        why = "KINETO_USE_DAEMON is set, so a daemon may start a trace at any time"
        return why, "Unset KINETO_USE_DAEMON for a recording with ops."
    for variable, tool in OTHER_TOOLS:
        if environment.get(variable):
            return f"{variable} is set, so {tool} may use the profiler", f"Run without {tool}."
    return None


def _jax(
    packages: Mapping[str, Package], settings: Settings, environment: Mapping[str, str]
) -> Check:
    package = packages["jax"]
    numbers = package.numbers
    problem = _broken("jax", "JAX", package)
    if problem is not None:
        return problem
    if "jaxlib" not in packages:
        return Check.failed(
            "jax",
            f"JAX at {package.origin} has no jaxlib, so it does not import.",
            "Install jaxlib of the same version.",
        )
    if numbers is None:
        return _unknown("jax", "JAX", package)
    name = f"JAX {package.version}"
    if numbers < _OLDEST_JAX:
        return Check.warning(
            "jax",
            f"{name} is older than the versions tested.",
            "Use 0.4.30 or later, or check the step counts in the report.",
        )
    if numbers[:2] > _NEWEST_JAX:
        return _untested("jax", name)
    untraced = _untraced_jax(packages["jaxlib"], settings, environment)
    if untraced is not None:
        why, action = untraced
        return Check.warning("jax", f"Steps of {name} are counted but not traced: {why}.", action)
    return Check.passed("jax", f"{name} at {package.origin}.")


def _untraced_jax(
    jaxlib: Package, settings: Settings, environment: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return why no step of JAX is traced, and what to do about it."""
    numbers = jaxlib.numbers
    if numbers is not None and numbers[:2] < _OLDEST_TRACED_JAXLIB:
        why = f"each profiler session of jaxlib before 0.6 prints to stderr ({jaxlib.version})"
        return why, "Use jaxlib 0.6 or later to see ops."
    if settings.trace_level == "software":
        return _NO_DEVICE_LEFT_OUT
    if environment.get("JAX_ENABLE_PGLE", "").lower() in _TRUE:
        why = "JAX_ENABLE_PGLE is set, so JAX collects profiles for its compiler"
        return why, "Unset JAX_ENABLE_PGLE for a recording with ops."
    return None


def _keras(package: Package, backend: str, recorded: set[str]) -> Check:
    numbers = package.numbers
    if package.error is not None:
        return _as_warning(_failing_import("Keras", "keras", package, package.error))
    if numbers is None:
        return _unknown("keras", "Keras", package)
    if numbers < (3, 0):
        backend = "tensorflow"
    name = f"Keras {package.version}"
    title = _TITLES.get(backend)
    if title is None:
        return Check.warning(
            "keras",
            f"{name} computes with {backend}, of which nothing is recorded.",
            "Set KERAS_BACKEND to tensorflow, torch or jax, if the job can use it.",
        )
    if backend not in recorded:
        return Check.warning(
            "keras",
            f"{name} computes with {title}, of which nothing would be recorded here.",
            f"Make sure that {title} is recorded, or set KERAS_BACKEND to another framework.",
        )
    return Check.passed("keras", f"{name} at {package.origin}, which computes with {title}.")


def _broken(check: str, title: str, package: Package) -> Check | None:
    if package.error is None:
        return None
    return _failing_import(title, check, package, package.error)


def _failing_import(title: str, check: str, package: Package, error: str) -> Check:
    return Check.failed(
        check,
        f"{title} at {package.origin} does not import: {error}.",
        "Fix the installation; the job would fail with the same error.",
    )


def _unknown(check: str, title: str, package: Package) -> Check:
    return Check.warning(
        check,
        f"The version of {title} at {package.origin} is unknown.",
        "Run again with --deep, which imports it.",
    )


def _untested(check: str, name: str) -> Check:
    return Check.warning(
        check,
        f"{name} is newer than the versions tested.",
        "It most likely works; check the step counts in the report.",
    )
