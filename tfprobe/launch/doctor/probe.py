"""Runs inside the interpreter under test, as text after -c: says what it finds there, as JSON.

Parses on Python 2.7, so that an old interpreter can say its version. Imports TensorFlow only when
asked to (the word "deep" after the marker).
"""

import json
import os
import re
import sys

# Distributions that hold the package `tensorflow`; tensorflow_estimator and the like do not.
DISTRIBUTION = re.compile(
    r"^(?:tensorflow(?:_cpu|_gpu|_macos|_rocm|_intel|_aarch64|_cpu_aws)?|intel_tensorflow"
    r"|tf_nightly(?:_cpu|_gpu)?)-([0-9][^-]*)\.(?:dist|egg)-info$"
)


def find(name, path):
    """Give the file of a top-level module as found on `path`, without importing it."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, path)
    return spec.origin if spec is not None else None


def installed_version(origin):
    """Read TensorFlow's version from the metadata beside it."""
    site_packages = os.path.dirname(os.path.dirname(origin))
    for entry in sorted(os.listdir(site_packages)):
        match = DISTRIBUTION.match(entry)
        if match:
            return match.group(1)
    return None


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
    found["tensorflow"] = find("tensorflow", others)
    if found["tensorflow"]:
        found["tensorflow_version"] = installed_version(found["tensorflow"])
    if is_deep and found["tensorflow"]:
        try:
            import tensorflow

            found["tensorflow_version"] = tensorflow.__version__
        except Exception as problem:  # whatever a broken installation raises
            found["tensorflow_error"] = "{}: {}".format(type(problem).__name__, problem)
    return found


MARKER, BOOT = sys.argv[1:3]
sys.stdout.write("\n" + MARKER + json.dumps(survey(BOOT, "deep" in sys.argv[3:])) + "\n")
