"""The fixes that can be tried: what each changes, how, and which findings lead to it.

A fix is applied by the agent in the job (`sitecustomize_hooks/tfprobe_agent/trial/fixes`), or by
variables of its environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from tfprobe.errors import Missing, UsageError
from tfprobe.findings.finding import Finding

TENSORFLOW, KERAS, JAX, PYTORCH = "tensorflow", "keras", "jax", "torch"
# The kinds of step that Keras runs, on whatever backend.
KERAS_KINDS = frozenset(
    {"fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"}
)


class ResultsClass(Enum):
    """What a fix does to the results of a job."""

    IDENTICAL = "identical"
    ROUNDING = "rounding"
    # Runs only when it is named.
    SEMANTICS = "changes what the job does"


@dataclass(frozen=True, slots=True)
class Fix:
    """One change that can be applied to a job from outside.

    `value` is the default of its parameter, None if it has none. `change` says how to make it
    permanent, with `{value}` in place of the parameter; `alters` what else it changes. `rules` are
    the findings that lead to it, `frameworks` those that it applies to (all, if empty), `kinds` the
    kinds of loop of which it needs one (any, if empty); `is_for_accelerators`: it does nothing
    without one.
    `variables` are set in the environment of the job; `is_of_agent` says that the agent applies it,
    too, or alone. `is_batching`: one call runs `value` steps. `argument` is the call that makes it
    permanent (the last part of its name, alternatives with | between), its keyword and the value.
    `has_like_cpu_time`: CPU time of the job's process shows what it saves, which it does not if
    work moves to other processes, or if fewer threads wait spinning. `part`: of fixes of the same
    part, one is an alternative to another. `is_of_start`: it makes no step faster, only the start
    of a process, by files of those before; a trial gives it a directory as its value.
    """

    id: str
    summary: str
    results: ResultsClass
    change: str
    frameworks: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    value: int | str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    alters: str = ""
    part: str = ""
    is_of_agent: bool = True
    is_batching: bool = False
    argument: tuple[str, str, str] | None = None
    kinds: tuple[str, ...] = ()
    is_for_accelerators: bool = False
    has_like_cpu_time: bool = True
    is_of_start: bool = False

    def environment(self, value: int | str | None) -> dict[str, str]:
        """Return the variables to set."""
        return {name: text.format(value=value) for name, text in self.variables.items()}

    def permanent(self, value: int | str | None) -> str:
        """Say what to change to keep the fix."""
        if self.variables:
            pairs = self.environment(value).items()
            return "export " + " ".join(f"{name}={text}" for name, text in pairs)
        return self.change.format(value=value)


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


_ID, _RO, _SE = ResultsClass.IDENTICAL, ResultsClass.ROUNDING, ResultsClass.SEMANTICS
_TF = (TENSORFLOW, KERAS)
ALLOCATOR = "allocator"
# What calls of Keras with callbacks run.
_CALLS = ("fit", "evaluate", "predict")
_OPTIMIZERS = "Adam|AdamW|SGD|RMSprop|Adagrad|NAdam|RAdam|Adadelta|Adamax"

# Of a step, at most: less is lost among the processes of a trial, also on a quiet machine.
_LEAST_RATIO = 0.01

FIXES: tuple[Fix, ...] = (
    Fix(
        "run_eagerly_off",
        "compile the train step instead of running it op by op",
        _RO,
        "leave run_eagerly=True out of Model.compile, and tf.config.run_functions_eagerly(True) "
        "out of the program",
        _TF,
        ("eager_loop",),
        part="dispatch",
        argument=("compile", "run_eagerly", "False"),
    ),
    Fix(
        "function_step",
        "run the function that holds the train step as a tf.function",
        _RO,
        "decorate the function of the step with @tf.function(reduce_retracing=True)",
        (TENSORFLOW,),
        ("eager_loop",),
        part="dispatch",
        kinds=("eager",),
    ),
    Fix(
        "jit_step",
        "run the function that holds the train step, or the gradient, under jax.jit",
        _RO,
        "put jax.jit around the function of the step, or around the gradient: "
        "jax.jit(jax.value_and_grad(loss))",
        (JAX,),
        ("eager_loop",),
        part="dispatch",
        kinds=("grad",),
    ),
    Fix(
        "tensors_for_numbers",
        "pass numbers to tf.functions as tensors",
        _ID,
        "pass tf.constant(number) in place of a Python number",
        (TENSORFLOW,),
        ("retracing",),
        part="graph",
    ),
    Fix(
        "reduce_retracing",
        "trace tf.functions for all shapes at once",
        _RO,
        "tf.function(reduce_retracing=True)",
        (TENSORFLOW,),
        ("retracing",),
        part="graph",
    ),
    Fix(
        "steps_per_execution",
        "run several train steps in one call",
        _ID,
        "Model.compile(steps_per_execution={value})",
        (KERAS,),
        ("small_executions",),
        value=16,
        alters="callbacks see every {value}th batch only",
        part="dispatch",
        is_batching=True,
        argument=("compile", "steps_per_execution", "{value}"),
        kinds=_CALLS,
    ),
    Fix(
        "predict_direct",
        "predict batches in memory without the loop around them",
        _ID,
        "Model.predict_on_batch(x) in place of Model.predict(x)",
        (KERAS,),
        ("input_bound", "small_executions"),
        part="dispatch",
        kinds=("predict",),
    ),
    Fix(
        "callbacks_every",
        "call the job's own batch callbacks only every {value}th time",
        _SE,
        "return early in the callback but at every {value}th batch",
        (KERAS,),
        ("callbacks_slow",),
        value=10,
        alters="the callbacks of the job do their work less often",
        part="callbacks",
        kinds=_CALLS,
    ),
    Fix(
        "save_every",
        "save only every {value}th time",
        _SE,
        "save every {value} times less often",
        (),
        ("checkpoint_stalls",),
        value=10,
        alters="there are fewer checkpoints",
        part="checkpoints",
    ),
    Fix(
        "summaries_every",
        "write summaries only every {value}th step",
        _SE,
        "run the summary op, or write summaries, every {value} steps",
        _TF,
        ("callbacks_slow",),
        value=20,
        alters="there are fewer points in TensorBoard",
        part="callbacks",
    ),
    Fix(
        "prefetch",
        "prepare the next batches during a step",
        _ID,
        "dataset.prefetch(tf.data.AUTOTUNE) at the end of the pipeline",
        _TF,
        ("input_bound", "dataset_serial"),
        part="input",
    ),
    Fix(
        "parallel_map",
        "map and interleave in parallel",
        _ID,
        "Dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE)",
        _TF,
        ("input_bound", "dataset_serial", "input_takes_cpus"),
        part="input",
        argument=("map|interleave", "num_parallel_calls", "-1"),
    ),
    Fix(
        "cache",
        "keep in memory what the pipeline computes the same way in each epoch",
        _ID,
        "Dataset.cache() behind the last map without randomness",
        _TF,
        ("dataset_serial", "input_bound"),
        part="input",
    ),
    Fix(
        "jit_compile",
        "compile the train step with XLA",
        _RO,
        "Model.compile(jit_compile=True), or tf.function(jit_compile=True)",
        _TF,
        ("xla_off", "tiny_ops"),
        part="compute",
        argument=("compile|function", "jit_compile", "True"),
    ),
    Fix(
        "compile_model",
        "compile the model with torch.compile",
        _RO,
        "model = torch.compile(model)",
        (PYTORCH,),
        ("tiny_ops", "launch_bound", "eager_loop"),
        part="compute",
        kinds=("optimizer_step", "forward"),
    ),
    Fix(
        "dataloader_workers",
        "load batches in {value} processes",
        _ID,
        "DataLoader(..., num_workers={value}, persistent_workers=True)",
        (PYTORCH,),
        ("input_bound",),
        value=max(1, min(4, _cpus() - 1)),
        part="input",
        argument=("DataLoader", "num_workers", "{value}"),
        has_like_cpu_time=False,
    ),
    Fix(
        "persistent_workers",
        "keep the processes that load batches from one epoch to the next",
        _ID,
        "DataLoader(..., persistent_workers=True)",
        (PYTORCH,),
        (),
        part="epochs",
        argument=("DataLoader", "persistent_workers", "True"),
        has_like_cpu_time=False,
    ),
    Fix(
        "pin_memory",
        "copy batches from pinned memory",
        _ID,
        "DataLoader(..., pin_memory=True)",
        (PYTORCH,),
        ("copies_pageable",),
        part="transfers",
        argument=("DataLoader", "pin_memory", "True"),
        is_for_accelerators=True,
    ),
    Fix(
        "matmul_precision",
        "multiply 32-bit matrices in lower precision",
        _SE,
        "torch.set_float32_matmul_precision('high'), or "
        "jax_default_matmul_precision left at its default",
        (PYTORCH, JAX),
        ("precision_wide",),
        alters="products of 32-bit matrices have about three digits",
        part="compute",
    ),
    Fix(
        "autocast_bf16",
        "compute in bfloat16 where autocast allows it",
        _SE,
        "with torch.autocast(device_type, dtype=torch.bfloat16)",
        (PYTORCH,),
        ("precision_wide",),
        alters="most products have about two digits",
        part="compute",
    ),
    Fix(
        "cudnn_benchmark",
        "let cuDNN choose the fastest convolution",
        _RO,
        "torch.backends.cudnn.benchmark = True",
        (PYTORCH,),
        (),
        part="compute",
        is_for_accelerators=True,
    ),
    Fix(
        "channels_last",
        "store images with channels last",
        _RO,
        "model.to(memory_format=torch.channels_last), and the batches alike",
        (PYTORCH,),
        ("data_layout",),
        part="compute",
    ),
    Fix(
        "zero_grad_to_none",
        "drop gradients instead of filling them with zeros",
        _ID,
        "optimizer.zero_grad(set_to_none=True)",
        (PYTORCH,),
        (),
        part="compute",
        argument=("zero_grad", "set_to_none", "True"),
        kinds=("optimizer_step",),
    ),
    Fix(
        "foreach_optimizer",
        "update all parameters with a few kernels",
        _RO,
        "foreach=True in the optimizer",
        (PYTORCH,),
        (),
        part="optimizer",
        argument=(_OPTIMIZERS, "foreach", "True"),
        kinds=("optimizer_step",),
    ),
    Fix(
        "fused_optimizer",
        "update all parameters with one kernel",
        _RO,
        "fused=True in the optimizer",
        (PYTORCH,),
        ("optimizer_ops",),
        part="optimizer",
        argument=("Adam|AdamW|SGD|Adagrad", "fused", "True"),
        kinds=("optimizer_step",),
    ),
    Fix(
        "anomaly_off",
        "switch anomaly detection off",
        _ID,
        "leave torch.autograd.set_detect_anomaly(True) out",
        (PYTORCH,),
        ("anomaly_detection",),
        part="compute",
    ),
    Fix(
        "debug_nans_off",
        "leave the check of each result for NaN out",
        _ID,
        "jax.config.update('jax_debug_nans', False)",
        (JAX,),
        (),
        part="compute",
    ),
    Fix(
        "compilation_cache",
        "keep compiled programs on disk",
        _ID,
        "jax.config.update('jax_compilation_cache_dir', DIRECTORY)",
        (JAX,),
        (),
        alters="only the start gets faster, from the second run on",
        part="compile",
        is_of_start=True,
    ),
    Fix(
        "donate_arguments",
        "let a step's results take the memory of the arguments that they replace",
        _ID,
        "jax.jit(step, donate_argnums=...), of the arguments that the step returns anew",
        (JAX,),
        ("memory_donation",),
        alters="the program must not use such an argument after the call",
        part="memory",
        kinds=("jit",),
    ),
    Fix(
        "threads",
        "compute with {value} threads",
        _RO,
        "",
        (),
        ("threads_oversubscribed", "threads_few"),
        value=_cpus(),
        variables={
            "OMP_NUM_THREADS": "{value}",
            "MKL_NUM_THREADS": "{value}",
            "TF_NUM_INTRAOP_THREADS": "{value}",
            "TF_NUM_INTEROP_THREADS": "{value}",
        },
        part="threads",
        has_like_cpu_time=False,
    ),
    Fix(
        "onednn_off",
        "compute without oneDNN",
        _RO,
        "",
        (TENSORFLOW, KERAS),
        (),
        variables={"TF_ENABLE_ONEDNN_OPTS": "0"},
        part="compute",
        is_of_agent=False,
    ),
    Fix(
        "gpu_threads",
        "start kernels of each GPU from threads of its own",
        _ID,
        "",
        _TF,
        ("launch_bound",),
        variables={"TF_GPU_THREAD_MODE": "gpu_private"},
        part="launch",
        is_for_accelerators=True,
    ),
    Fix(
        "layout_optimizer",
        "let TensorFlow choose the layout of images",
        _RO,
        "leave layout_optimizer out of tf.config.optimizer.set_experimental_options, or of the "
        "rewrite options of the Session",
        _TF,
        ("data_layout",),
        part="compute",
        is_for_accelerators=True,
    ),
    Fix(
        ALLOCATOR,
        "allocate memory by tcmalloc or jemalloc",
        _ID,
        "",
        value="",
        variables={"LD_PRELOAD": "{value}"},
        part="allocator",
    ),
)
# What slows a part of a job down instead, to see what waits for it (`tfprobe try --delay PART`): of
# each part, how the agent does it, by the name of the part. The value is in percent of its time.
DELAYS: Mapping[str, Fix] = {
    part: Fix(f"delay_{part}", f"make {what} take {{value}} % longer", _ID, "", value=0, part=part)
    for part, what in (
        ("input", "the Python code that makes the input"),
        ("between", "what the program does between steps"),
        ("step", "the call that is a step"),
    )
}
BY_ID: Mapping[str, Fix] = {fix.id: fix for fix in FIXES}


@dataclass(frozen=True, slots=True)
class ChosenFix:
    """A fix with the value of its parameter."""

    fix: Fix
    value: int | str | None

    @property
    def text(self) -> str:
        """Return how a person names it: `steps_per_execution=16`."""
        has_value = self.value not in (None, "")
        return f"{self.fix.id}={self.value}" if has_value else self.fix.id

    @property
    def argument(self) -> tuple[str, str, str] | None:
        """The call, keyword and value that make it permanent; None if it is no argument."""
        if self.fix.argument is None:
            return None
        callee, keyword, value = self.fix.argument
        return callee, keyword, value.format(value=self.value)

    @property
    def units_a_call(self) -> int:
        """How many steps one call runs with it."""
        return self.value if self.fix.is_batching and isinstance(self.value, int) else 1

    @property
    def summary(self) -> str:
        return self.fix.summary.format(value=self.value)

    @property
    def change(self) -> str:
        return self.fix.permanent(self.value)

    @property
    def alters(self) -> str:
        return self.fix.alters.format(value=self.value)


def chosen(word: str) -> ChosenFix:
    """Read a FIX as it is typed: an id, or `ID=VALUE`. Raises UsageError."""
    name, equals, text = word.partition("=")
    fix = BY_ID.get(name)
    if fix is None:
        raise UsageError(
            f"There is no fix {name}.",
            hint="`tfprobe try --list` lists them; the command of the job follows after `--`.",
        )
    if not equals:
        return ChosenFix(fix, fix.value)
    if fix.value is None:
        raise UsageError(f"The fix {name} takes no value, and {text!r} was given.")
    if isinstance(fix.value, int):
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 10**6):
            raise UsageError(f"{word}: {name} takes a whole number from 1 on.")
        return ChosenFix(fix, int(text))
    return ChosenFix(fix, text)


def unasked(findings: Iterable[Finding]) -> tuple[ChosenFix, ...]:
    """Return the fixes of findings that are tried without being named, each once, in order.

    What changes what the job does is left out, and so is what promises less than a trial can see.
    """
    promising = (finding for finding in findings if _may_be_seen(finding))
    ids = dict.fromkeys(name for finding in promising for name in finding.fixes)
    return tuple(
        ChosenFix(fix, fix.value)
        for fix in map(BY_ID.__getitem__, ids)
        if fix.results is not ResultsClass.SEMANTICS
    )


def _may_be_seen(finding: Finding) -> bool:
    return isinstance(finding.gain, Missing) or finding.gain.high_ratio >= _LEAST_RATIO


def applies(fix: Fix, frameworks: tuple[str, ...]) -> bool:
    """Return whether a fix is for one of these frameworks."""
    return not fix.frameworks or bool(set(fix.frameworks) & set(frameworks))
