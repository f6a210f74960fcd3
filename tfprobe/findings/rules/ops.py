"""Find expensive ops, and ops that do more work than is needed."""

from __future__ import annotations

from tfprobe.analysis.ops.step_ops import StepOps
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding, Severity
from tfprobe.findings.rule import LoopAnalysis, Verdict, lacking, much
from tfprobe.findings.thresholds import Thresholds

_SHOWN = 3


def expensive_ops(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return the type of op that takes longest; the bound is the time in which one of them runs."""
    if isinstance(loop.ops, Missing):
        return loop.ops
    types = loop.ops.device or loop.ops.host
    if not types:
        return None
    longest = types[0]
    gain = loop.gain(loop.of_steps(longest.busy_ns), 0)
    if gain.high_ratio < limits.expensive_ratio:
        return None
    return Finding(
        title=f"{longest.type} takes {much(longest.busy_ns, loop.ops.step_ns)} of a step",
        severity=Severity.INFO,
        evidence=(
            *(
                Evidence(
                    f"{use.type}, wall time per step",
                    time_ns=round(use.busy_ns),
                    node=use.node,
                    op_type=use.type,
                )
                for use in types[:_SHOWN]
            ),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action="This may be necessary. It gets cheaper with smaller sizes, 16 bits or a fused op.",
        gain=gain,
        part="compute",
    )


_ALL_RATIO = 0.9


def expensive_lines(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return the line that takes longest; the bound is the time in which any op of it runs."""
    if isinstance(loop.lines, Missing) or isinstance(loop.ops, Missing):
        return lacking(loop.lines, loop.ops)
    # A line that made nearly all ops, such as model.fit, is no help.
    telling = [use for use in loop.lines if use.busy_ns < _ALL_RATIO * loop.ops.busy_ns]
    if not telling:
        return None
    longest = telling[0]
    gain = loop.gain(loop.of_steps(longest.busy_ns), 0)
    if gain.high_ratio < limits.expensive_ratio:
        return None
    return Finding(
        title=f"One line of Python made {much(longest.busy_ns, loop.ops.busy_ns)} of what runs",
        severity=Severity.INFO,
        evidence=(
            *(
                Evidence(
                    "wall time per step",
                    time_ns=round(use.busy_ns),
                    source=use.source,
                    node=use.node,
                )
                for use in telling[:_SHOWN]
            ),
            loop.shown_by("code"),
        ),
        action="Start there: a smaller size, fewer calls, or a cheaper op of the same kind.",
        gain=gain,
        part="compute",
    )


def expensive_scopes(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return the layer that takes longest; the bound is the time in which any op of it runs."""
    if isinstance(loop.scopes, Missing) or isinstance(loop.ops, Missing):
        return lacking(loop.scopes, loop.ops)
    if not loop.scopes:
        return None
    longest = loop.scopes[0]
    gain = loop.gain(loop.of_steps(longest.busy_ns), 0)
    if gain.high_ratio < limits.expensive_ratio:
        return None
    return Finding(
        title=f"Layer {longest.name} takes {much(longest.busy_ns, loop.ops.step_ns)} of a step",
        severity=Severity.INFO,
        evidence=(
            *(
                Evidence(
                    f"{use.name}, wall time per step",
                    time_ns=round(use.busy_ns),
                    node=use.node,
                    scope=use.name,
                )
                for use in loop.scopes[:_SHOWN]
            ),
            loop.shown_by("scope --by-layer"),
        ),
        action="Start with this layer: its width, its strides, or a cheaper replacement.",
        gain=gain,
        part="compute",
    )


# Half the bytes, and twice the numbers per instruction: half of the time. Transcendental functions
# gain more.
BOUND = 0.75
LIKELY = 0.5


def float64_math(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if ops in 64 bits take long; the bound is most of their time."""
    double = loop.double_precision
    if isinstance(double, Missing) or isinstance(loop.ops, Missing):
        return lacking(double, loop.ops)
    if loop.ops.has_accelerator:
        return None
    busy_ns = loop.of_steps(double.busy_ns)
    gain = loop.gain(BOUND * busy_ns, LIKELY * busy_ns)
    if gain.high_ratio < limits.double_ratio:
        return None
    return Finding(
        title="Ops compute in 64 bits",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "ops of type float64 per step",
                time_ns=round(double.busy_ns),
                source=double.source,
                node=double.node,
            ),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action="Convert arrays once with .astype('float32') (NumPy makes float64), and leave "
        "tf.keras.backend.set_floatx('float64') out, where the problem does not need 64 bits.",
        gain=gain,
        part="precision",
    )


def dense_gradient(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if a sparse gradient is made dense; the bound is the time of what follows.

    That is the update of all rows, and ops that compute the whole table before rows are looked up.
    """
    dense = loop.dense_gradients
    if isinstance(dense, Missing):
        return dense
    gain_ns = loop.of_steps(dense.busy_ns)
    # A batch looks up a small part of a large table.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.dense_ratio:
        return None
    return Finding(
        title="A sparse gradient is converted to a dense one",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "ops on the whole table, per step",
                time_ns=round(dense.busy_ns),
                source=dense.source,
                node=dense.node,
            ),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action="Look rows up first, tf.gather(table, ids), and compute on those alone; then the "
        "gradient is IndexedSlices, and SGD and Adagrad update only these rows (Adam moves all). "
        "tf.convert_to_tensor, sums and norms of the gradient make it dense.",
        gain=gain,
        part="compute",
    )


# A look-up copies a row, and the product multiplies with the whole table.
ONE_HOT_PRODUCT_LIKELY = 0.8


def one_hot_product(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if one-hot vectors take long; the bound includes their products."""
    one_hot = loop.one_hot_products
    if isinstance(one_hot, Missing):
        return one_hot
    gain_ns = loop.of_steps(one_hot.busy_ns)
    gain = loop.gain(gain_ns, ONE_HOT_PRODUCT_LIKELY * gain_ns)
    if gain.high_ratio < limits.one_hot_ratio:
        return None
    return Finding(
        title="Embedding rows are looked up by multiplying with one-hot vectors",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                "one-hot vectors and products with them, per step",
                time_ns=round(one_hot.busy_ns),
                source=one_hot.source,
                node=one_hot.node,
            ),
            *loop.traced_step(),
            loop.shown_by("op"),
        ),
        action="Look the rows up by their numbers: tf.gather(table, ids), tf.nn.embedding_lookup "
        "or tf.keras.layers.Embedding in place of tf.matmul(tf.one_hot(ids, N), table).",
        gain=gain,
        part="compute",
    )


_NS_PER_US = 1000
# TensorFlow's executor takes some us to schedule an op, and some tens for an eager op: longer gaps
# between ops have other reasons.
_MOST_NS_AN_OP = 50_000
# The parts that depend on the number of ops.
_OWN = ("host_compute", "idle", "fetch")


def tiny_ops(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding for many tiny ops; the bound is the time without larger ops.

    It counts from the first op to the last. If the usual step is so short that its ops must be
    tiny, it is all of the step but its larger ops, so that ops count that TensorFlow 2 does not
    trace because they are cheap. An op costs at most 50 us. With an accelerator, see launch_bound.
    """
    ops = loop.ops
    if isinstance(ops, Missing):
        return ops
    if loop.is_pytorch:
        return _loop_of_ops(loop, ops, limits)
    count = max(ops.per_step, 0 if isinstance(loop.nodes, Missing) else loop.nodes)
    if ops.has_accelerator or count < limits.tiny_ops_least:
        return None
    # A thread that lost its CPU, or waited, ran no tiny ops in that time.
    whole_ns, small_ns = ops.step_ns, ops.span_ns - ops.large_ns - ops.paused_ns
    if loop.timing.usual_step_ns < count * limits.tiny_op_us * _NS_PER_US:
        whole_ns = loop.timing.usual_step_ns
        # A traced step takes longer, and so do its larger ops.
        large_ratio = min(ops.large_ns / ops.span_ns, 1.0) if ops.span_ns else 1.0
        small_ns = whole_ns - min(ops.large_ns, large_ratio * whole_ns)
    small_ns = min(small_ns, count * _MOST_NS_AN_OP)
    steps_ns = loop.timing.regular_step_ns
    gain_ns = small_ns / whole_ns * steps_ns if whole_ns else 0.0
    # A step that waits for its input is long for another reason.
    if not isinstance(loop.parts, Missing):
        gain_ns = min(gain_ns, loop.parts.of_all_steps(*_OWN))
    if not steps_ns or gain_ns < limits.tiny_ratio * steps_ns:
        return None
    # Larger batches spread the cost over more examples.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="The step consists of tiny ops",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{count:.0f} ops per step; typical step",
                time_ns=round(whole_ns),
                source=loop.ops_source,
            ),
            Evidence("time with only tiny ops or no op", time_ns=round(small_ns)),
            *loop.traced_step(),
            loop.shown_by("op -order_by occurrence"),
        ),
        action="Give each op more to do: larger batches, whole tensors instead of loops over their "
        "parts (tf.stack, tf.vectorized_map).",
        gain=gain,
        part="host_compute",
    )


# One op for all parts is left, which computes as much.
LOOP_OF_OPS_LIKELY = 0.8


def _loop_of_ops(loop: LoopAnalysis, ops: StepOps, limits: Thresholds) -> Verdict:
    """Return a finding if a loop of Python calls tiny ops of PyTorch; the bound is their time.

    That is their time up to the next op. Small steps whose ops are called once each are what they
    are: how much larger batches would win is not known.
    """
    repeated = ops.repeated
    if repeated is None or ops.has_accelerator or repeated.per_step < limits.tiny_ops_least:
        return None
    gain_ns = min(loop.of_steps(repeated.turn_ns), _besides_computing_ns(loop, ops))
    if gain_ns < limits.tiny_ratio * loop.timing.regular_step_ns:
        return None
    gain = loop.gain(gain_ns, LOOP_OF_OPS_LIKELY * gain_ns)
    return Finding(
        title="The step consists of tiny ops, called in a loop",
        severity=limits.severity(gain),
        evidence=(
            Evidence(
                f"{repeated.per_step:,.0f} ops per step are called over and over again, their time",
                time_ns=round(repeated.turn_ns),
                source=loop.repeated_source or loop.ops_source,
                node=repeated.node,
            ),
            *loop.traced_step(),
            loop.shown_by("op -order_by occurrence"),
        ),
        action="Compute on whole tensors in place of a loop over their parts.",
        gain=gain,
        part="host_compute",
    )


def _besides_computing_ns(loop: LoopAnalysis, ops: StepOps) -> float:
    """Return the time of all steps without larger ops, which tracing makes no longer."""
    return max(loop.timing.regular_step_ns - ops.computing_ns * loop.timing.steps, 0.0)


# AdamW and Adam of 40 to 200 parameters took 60 to 80 % less with fused=True, in PyTorch 2.13 on
# two CPUs. foreach=True won nothing there, and SGD by neither.
UPDATE_LIKELY = 0.6
_FUSED = ("Adam", "AdamW")
_IN_UPDATE = ("optimizer", "between ops, optimizer")


def optimizer_ops(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if an optimizer updates parameters one by one; the bound is that time."""
    ops, parts = loop.ops, loop.parts
    if not loop.is_pytorch:
        return None
    if isinstance(ops, Missing) or isinstance(parts, Missing):
        return lacking(ops, parts)
    name = loop.timing.name.partition(" ")[0]
    if ops.has_accelerator or name not in _FUSED or ops.updates < limits.tiny_ops_least:
        return None
    update_ns = sum(cause.duration_ns for cause in parts.causes if cause.what in _IN_UPDATE)
    gain_ns = update_ns / parts.cycle_ns * parts.total_ns if parts.cycle_ns else 0.0
    gain_ns = min(gain_ns, _besides_computing_ns(loop, ops))
    gain = loop.gain(gain_ns, UPDATE_LIKELY * gain_ns)
    if gain.high_ratio < limits.update_ratio:
        return None
    return Finding(
        title=f"{name} updates each parameter by ops of its own",
        severity=limits.severity(gain),
        evidence=(
            Evidence(f"{ops.updates:,.0f} ops per step update parameters", time_ns=update_ns),
            *loop.traced_step(),
            loop.shown_by("breakdown"),
        ),
        action=f"torch.optim.{name}(..., fused=True) updates all parameters in one op.",
        gain=gain,
        part="update",
    )
