"""Runs inside the interpreter under test, as text after -c: says what it finds there, as JSON.

Parses on Python 2.7, so that an old interpreter can say its version. Imports frameworks only when
asked to (the word "deep" after the marker).
"""

import json
import os
import re
import sys

# Distributions that hold each package; tensorflow_estimator, keras_hub and the like do not.
DISTRIBUTIONS = {
    "tensorflow": r"tensorflow(?:_cpu|_gpu|_macos|_rocm|_intel|_aarch64|_cpu_aws)?"
    r"|intel_tensorflow|tf_nightly(?:_cpu|_gpu)?",
    "torch": "torch",
    "jax": "jax",
    "jaxlib": "jaxlib|jaxlib_nightly",
    "keras": "keras|keras_nightly",
}
# Keras last: it imports the framework that it computes with.
IMPORTED = ("tensorflow", "torch", "jax", "keras")


def find(name, path):
    """Give the file of a top-level module as found on `path`, without importing it."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, path)
    return spec.origin if spec is not None else None


def installed_version(name, origin):
    """Read the version of a package from the metadata beside it."""
    pattern = re.compile(r"^(?:%s)-([0-9][^-]*)\.(?:dist|egg)-info$" % DISTRIBUTIONS[name])
    site_packages = os.path.dirname(os.path.dirname(origin))
    for entry in sorted(os.listdir(site_packages)):
        match = pattern.match(entry)
        if match:
            return match.group(1)
    return None


def keras_backend():
    """Read which framework Keras 3 computes with, as Keras does."""
    home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    chosen = os.environ.get("KERAS_BACKEND")
    if not chosen:
        try:
            with open(os.path.join(home, "keras.json")) as file:
                chosen = json.load(file).get("backend")
        except (OSError, ValueError, AttributeError):
            pass
    return str(chosen or "tensorflow")


def survey(boot, is_deep):
    """Collect what a run would meet in this interpreter."""
    found = {
        "version": list(sys.version_info[:3]),
        "executable": sys.executable,
        "implementation": getattr(getattr(sys, "implementation", None), "name", "cpython"),
        "ignore_environment": sys.flags.ignore_environment,
        "no_site": sys.flags.no_site,
        "pythonpath": os.environ.get("PYTHONPATH"),
    }
    if sys.version_info < (3, 6):
        return found
    others = [entry for entry in sys.path if entry != boot]
    found["sitecustomize"] = find("sitecustomize", others)
    found["keras_backend"] = keras_backend()
    packages = found["packages"] = {}
    for name in DISTRIBUTIONS:
        origin = find(name, others)
        if origin:
            packages[name] = {"origin": origin, "version": installed_version(name, origin)}
    for name in IMPORTED:
        if is_deep and name in packages:
            try:
                packages[name]["version"] = str(__import__(name).__version__)
            except Exception as problem:  # whatever a broken installation raises
                packages[name]["error"] = "{}: {}".format(type(problem).__name__, problem)
    return found


MARKER, BOOT = sys.argv[1:3]
sys.stdout.write("\n" + MARKER + json.dumps(survey(BOOT, "deep" in sys.argv[3:])) + "\n")
