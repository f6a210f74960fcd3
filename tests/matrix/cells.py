"""The cells of the matrix: which Python, which framework, and whether a change needs it green."""

from __future__ import annotations

from typing import NamedTuple


class Cell(NamedTuple):
    """One environment. `first` goes in before the requirements: a bundled pip may fail or be slow.

    Every cell asks whether jobs are recorded rightly and undisturbed. `more` names the tests of
    FURTHER that it asks beside these: what does not differ between versions is asked once.
    `is_between`: versions before and after it are asked at each change; this one is not where
    CI=true, so that a change takes less than an hour, but by `make matrix`.
    """

    name: str
    python: str
    requirements: tuple[str, ...]
    required: bool = False
    is_between: bool = False
    # That of Python 3.10 tries versions for ten minutes where a later one needs seconds.
    first: tuple[str, ...] = ("pip>=24",)
    more: tuple[str, ...] = ()
    # The folder of tests, and the packages of which one is the framework.
    tests: str = "tests/tf"
    packages: tuple[str, ...] = ("tensorflow", "tensorflow-cpu", "tensorflow_cpu")


# What tfprobe's Python interface needs beside TensorFlow, which brings numpy and protobuf.
INTERFACE = "google-re2>=1.1.20240702"

# What views and advice say of real jobs: of a kind of recording one TensorFlow tells enough.
READING = (
    "test_advice.py",
    "test_memory.py",
    "test_steps.py",
    "test_tiers.py",
)
# Clusters are made in another way by each line of TensorFlow, and input by TensorFlow 1 and 2.
CLUSTERS = ("test_distributed.py", "test_transfers.py")
INPUT = ("test_input.py",)
# The Python interface, formulas, and TensorFlow's own tools, which answer the same from any cell.
TOOLS = (
    "test_engine.py",
    "test_float_ops.py",
    "test_profile_proto.py",
    "test_python_api_page.py",
    "test_schema.py",
    "test_step_timelines.py",
    "test_tfprof_context.py",
    "test_tfprof_interface.py",
)
# Every function of the agent is made to raise: that does not differ but between TensorFlow 1 and 2.
FAULTS = ("test_faults.py",)
# How a process ends is Python's more than TensorFlow's: the oldest, the newest, and one between.
ENDINGS = ("test_endings.py",)
# The examples run what the other tests count, in the sizes of a demonstration: with TensorFlow 1,
# and with the last one that has Estimator and can trace workers of a cluster.
EXAMPLES = ("test_examples.py",)
# What trials change in real programs: in the oldest and newest TensorFlow, and with Keras 2.
FIXES = ("test_fixes.py",)
# What the oldest and the newest JAX are asked, and PyTorch: it does not differ between.
EDGES = ("test_example.py", "test_planted_loops.py", "test_programs.py", "test_trial.py")
FURTHER = READING + CLUSTERS + INPUT + TOOLS + FAULTS + ENDINGS + EXAMPLES + FIXES + EDGES

# What programs of JAX are made with; flax brings orbax, which stores checkpoints. Their newest
# releases call what an older JAX does not have, and do not say so in their requirements.
AROUND_JAX = ("flax", "optax", "equinox", "dm-haiku", "cloudpickle")
AROUND_JAX_0_4 = ("flax==0.8.5", "orbax-checkpoint==0.5.20", "dm-haiku==0.0.12")

# TensorFlow 1 predates protobuf 4 and h5py 3 and does not say so in its own requirements.
CELLS = (
    Cell(
        "tf1.14-py3.6",
        "3.6",
        ("tensorflow==1.14.0", "protobuf<3.20", "h5py<3", "termcolor<2"),
        first=("pip>=21,<22", "setuptools<60", "wheel<0.38"),
        more=ENDINGS,
    ),
    Cell(
        "tf1.15-py3.7",
        "3.7",
        ("tensorflow==1.15.5", "protobuf<3.21", "keras==2.3.1", "h5py<3", "scikit-learn"),
        required=True,
        more=READING
        + CLUSTERS
        + INPUT
        + FAULTS
        + EXAMPLES
        + FIXES
        + ("test_float_ops.py", "test_profile_proto.py"),
    ),
    Cell("tf2.4-py3.8", "3.8", ("tensorflow-cpu==2.4.4", "protobuf<3.21"), is_between=True),
    Cell("tf2.12-py3.8", "3.8", ("tensorflow-cpu==2.12.1",), required=True),
    Cell(
        "tf2.15-py3.11",
        "3.11",
        ("tensorflow-cpu==2.15.*", "protobuf>=4.25", INTERFACE),
        required=True,
        more=CLUSTERS + ENDINGS + EXAMPLES + FIXES,
    ),
    Cell(
        "tf2.16-py3.12",
        "3.12",
        ("tensorflow-cpu==2.16.*", "tf_keras==2.16.*", "protobuf>=4.25", INTERFACE),
        is_between=True,
    ),
    Cell(
        "tf2.21-py3.11",
        "3.11",
        ("tensorflow-cpu==2.21.*", "tf_keras==2.21.*", "tensorboard", INTERFACE),
        required=True,
        more=READING + CLUSTERS + INPUT + TOOLS + FAULTS + FIXES,
    ),
    Cell(
        "tf2.21-py3.13",
        "3.13",
        ("tensorflow-cpu==2.21.*", "tensorboard", INTERFACE),
        required=True,
        more=ENDINGS,
    ),
    Cell(
        "jax0.4-py3.10",
        "3.10",
        (
            "jax==0.4.30",
            "jaxlib==0.4.30",
            "numpy<2",
            *AROUND_JAX_0_4,
            "optax",
            "equinox",
            "cloudpickle",
        ),
        required=True,
        more=EDGES,
        tests="tests/jax",
        packages=("jax",),
    ),
    Cell(
        "jax0.5-py3.12",
        "3.12",
        ("jax==0.5.3", "jaxlib==0.5.3", "orbax-checkpoint==0.11.10", *AROUND_JAX),
        is_between=True,
        tests="tests/jax",
        packages=("jax",),
    ),
    Cell(
        "jax0.10-py3.11",
        "3.11",
        ("jax==0.10.2", *AROUND_JAX),
        is_between=True,
        tests="tests/jax",
        packages=("jax",),
    ),
    Cell(
        "jax0.12-py3.13",
        "3.13",
        ("jax==0.12.*", *AROUND_JAX),
        required=True,
        more=EDGES,
        tests="tests/jax",
        packages=("jax",),
    ),
    Cell(
        "keras3-jax-py3.13",
        "3.13",
        ("keras==3.*", "jax==0.12.*"),
        required=True,
        more=FAULTS,
        tests="tests/keras",
        packages=("keras",),
    ),
    Cell(
        "torch2.13-py3.11",
        "3.11",
        ("torch==2.13.0+cpu", "numpy", "keras==3.*"),
        required=True,
        more=FAULTS + EDGES,
        tests="tests/torch",
        packages=("torch",),
    ),
    Cell(
        "notebook-py3.11",
        "3.11",
        ("jax==0.10.2", "ipykernel", "nbconvert", "papermill"),
        required=True,
        tests="tests/notebooks",
        packages=("ipykernel",),
    ),
)
