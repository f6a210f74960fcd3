"""Say what to do in the framework of the job: rules speak of TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tfprobe.findings.finding import Finding, Gain

_PYTORCH_ON_DEVICE = (
    "Move it to the device (.to('cuda')), or its data earlier: a DataLoader with workers and "
    "pin_memory=True, .to(..., non_blocking=True). torch.compile and CUDA graphs take less of the "
    "host. The first op on a device makes its context, which takes seconds: look at a later step."
)
_PYTORCH_LAUNCHES = (
    "Launch fewer kernels: torch.compile fuses them, CUDA graphs (mode='reduce-overhead') launch "
    "them as one; larger batches make them longer."
)
_PYTORCH_LOADER = (
    "Let other processes load: DataLoader(num_workers=N, persistent_workers=True, "
    "prefetch_factor=4). Do less for each example in __getitem__, or prepare it once before "
    "training; a collate_fn can work on the whole batch at once."
)
# By rule and part; the part is "" for all other parts of the rule.
_PYTORCH: Mapping[tuple[str, str], str] = {
    ("accelerator_idle", ""): "Look at what the host does in that time: `tfprobe breakdown`.",
    ("accelerator_idle", "host_compute"): _PYTORCH_ON_DEVICE,
    ("accelerator_idle", "host_preprocess"): _PYTORCH_LOADER,
    ("accelerator_idle", "input_wait"): _PYTORCH_LOADER,
    ("accelerator_idle", "kernel_launch"): _PYTORCH_LAUNCHES,
    ("accelerator_idle", "idle"): "Look for Python between ops, waits for a DataLoader, and for "
    ".item(), .cpu() and prints, which wait for the device; torch.compile leaves less Python.",
    ("checkpoint_stalls", ""): "Save less often, only the state_dict, and to a fast disk; or copy "
    "it to the host and let another thread write it (torch.distributed.checkpoint.async_save).",
    ("collectives_exposed", ""): "First check whether one rank is late. Then let "
    "DistributedDataParallel hide more of it (bucket_cap_mb, no_sync() while gradients are "
    "accumulated), reduce in 16 bits (bf16_compress_hook), or take larger batches.",
    ("copies_many", ""): "Put what goes over the bus into one tensor, keep it on the device "
    "between steps, and make tensors there (device='cuda').",
    ("copies_pageable", ""): "Let the DataLoader pin batches (pin_memory=True) and copy them with "
    ".to('cuda', non_blocking=True).",
    ("data_layout", ""): "Give model and input .to(memory_format=torch.channels_last).",
    ("dense_gradient", ""): "nn.Embedding(..., sparse=True) with an optimizer that takes sparse "
    "gradients (SparseAdam, SGD) updates only the rows that were looked up.",
    ("evaluation_often", ""): "Evaluate less often or on fewer batches, under "
    "torch.inference_mode() and with larger batches than in training.",
    ("expensive_ops", ""): "This may be necessary. It gets cheaper with smaller sizes, 16 bits "
    "(torch.autocast) or fused ops (torch.compile, scaled_dot_product_attention).",
    ("float64_math", ""): "Make tensors float32 where the problem does not need 64 bits: those "
    "from NumPy are float64 (.float(), torch.from_numpy(a.astype('float32'))).",
    ("host_sync", ""): "Read losses and metrics at every Nth step: .item(), .cpu(), float() and "
    "print wait until the device has caught up. Sum them on the device (loss.detach()).",
    ("input_bound", ""): _PYTORCH_LOADER,
    ("input_bound", "copies"): "Let the DataLoader pin batches (pin_memory=True) and copy "
    "the next one with .to('cuda', non_blocking=True) while this step runs.",
    ("input_takes_cpus", ""): "Prepare the data once: write what it makes to files before "
    "training, or take a cheaper form of it; fewer workers leave the steps more CPUs.",
    ("launch_bound", ""): _PYTORCH_LAUNCHES,
    ("memory_full", ""): "Smaller batches, torch.utils.checkpoint around layers, torch.autocast, "
    "zero_grad(set_to_none=True), FSDP; PYTORCH_ALLOC_CONF=expandable_segments:True against "
    "fragments.",
    ("memory_growth", ""): "Keep no tensor that has a graph: total += loss.item() or "
    "loss.detach() in place of total += loss.",
    ("one_hot_product", ""): "Look the rows up by their numbers: nn.Embedding or table[ids] in "
    "place of a product with F.one_hot(ids).",
    ("op_on_host", ""): _PYTORCH_ON_DEVICE,
    ("own_profiler", ""): "Close it after some steps: a schedule (torch.profiler.schedule) and "
    "p.stop(); while it is open, tfprobe traces no step.",
    ("precision_wide", ""): "torch.autocast('cuda', dtype=torch.bfloat16) around the forward pass; "
    "for TF32 torch.set_float32_matmul_precision('high').",
    ("python_between_steps", ""): "Do it once before the loop, on whole tensors, or in the "
    "workers of the DataLoader; write logs and metrics at every Nth step, or in another thread.",
    ("python_between_steps", "sync"): "Read values at every Nth step, and all of them at once: "
    "torch.stack(values).tolist(); keep sums on the device (loss.detach()). Norms of gradients: "
    "torch.nn.utils.clip_grad_norm_, which reads none.",
    ("slow_start", ""): "Prepare the data once and keep it (torch.save, np.save), read it while "
    "steps run, and load no more than the steps take.",
    ("small_executions", ""): "Take larger batches, or let torch.compile and CUDA graphs "
    "(mode='reduce-overhead') run a step with less Python.",
    ("threads_few", ""): "Leave out torch.set_num_threads(...), OMP_NUM_THREADS and "
    "MKL_NUM_THREADS, or set them to the number of CPUs. torchrun sets OMP_NUM_THREADS=1.",
    ("threads_oversubscribed", ""): "Set torch.set_num_threads(N), or OMP_NUM_THREADS=N, so that "
    "all processes together use no more threads than there are CPUs.",
    ("tiny_ops", ""): "Compute on whole tensors in place of a Python loop over rows, steps of time "
    "or parts of a model: broadcasting, torch.stack once, nn.LSTM in place of cells, torch.vmap; "
    "or let torch.compile fuse the loop.",
}


_JAX_BACKGROUND = (
    "Make batches in the background, in a thread or in processes that fill a queue (grain, a "
    "DataLoader with workers, or tf.data with prefetch), and hand them to jax.device_put before "
    "the step that takes them."
)
_JAX: Mapping[tuple[str, str], str] = {
    ("accelerator_idle", ""): "Look at what the host does in that time: `tfprobe breakdown`.",
    ("collectives_exposed", ""): "First check whether one rank is late. Then let XLA hide more of "
    "it (--xla_gpu_enable_latency_hiding_scheduler=true in XLA_FLAGS), reduce in 16 bits, shard "
    "so that less is exchanged, or take larger batches.",
    ("copies_many", ""): "Put what goes over the bus into one array or one jax.device_put, and "
    "keep it on the device between steps.",
    ("copies_pageable", ""): "Call jax.device_put for the next batch before the step that runs "
    "now is waited for, so that its copy overlaps with that step.",
    ("data_layout", ""): "Keep arrays in the layout that XLA chooses: channels last, and no "
    "transposes between layers.",
    ("dense_gradient", ""): "Look rows up first, jnp.take(table, ids, axis=0), and compute on "
    "those alone; update these rows only: table.at[ids].add(...).",
    ("expensive_ops", ""): "This may be necessary. It gets cheaper with smaller sizes or 16 bits.",
    ("float64_math", ""): "Leave jax_enable_x64 out, or make arrays float32, where the problem "
    "does not need 64 bits.",
    ("host_sync", ""): "Read losses and metrics at every Nth step, or those of the step before: "
    "float(), .item(), print and block_until_ready wait until the step has run.",
    ("input_bound", ""): _JAX_BACKGROUND,
    ("input_takes_cpus", ""): "Prepare the data once: write what it makes to files before "
    "training, or take a cheaper form of it.",
    ("launch_bound", ""): "Let XLA launch fewer kernels: larger batches, jax.lax.scan over "
    "several steps in one call, and command buffers, which it uses by default.",
    ("memory_full", ""): "Smaller batches, jax.checkpoint around layers, donate_argnums for state "
    "that the step replaces, or 16 bits.",
    ("one_hot_product", ""): "Look the rows up by their numbers: jnp.take(table, ids, axis=0) in "
    "place of a product with jax.nn.one_hot(ids, N).",
    ("op_on_host", ""): "Move it into the compiled function, or its data to the device earlier: "
    "jax.device_put. A jax.pure_callback runs on the host at each step.",
    ("precision_wide", ""): "Compute in bfloat16, or let products use TensorFloat-32: "
    "jax.default_matmul_precision('tensorfloat32').",
    # nnx.jit takes the model apart in Python at each call: a step of 0.84 ms took 0.45 ms without.
    ("python_between_steps", ""): "Do it once before the loop, or on whole arrays, or inside the "
    "compiled function. With flax.nnx, nnx.cached_partial(train_step, model, optimizer) takes the "
    "objects apart once. If nothing waits for the step, it also costs nothing while the device "
    "computes.",
    ("slow_start", ""): "Prepare the data once and keep it (np.save), read it while steps run, "
    "and load no more than the steps take. Compiled programs can be kept, too: "
    "jax_compilation_cache_dir.",
    ("small_executions", ""): "Run several steps in one call: jax.lax.scan over batches, "
    "steps_per_execution in Keras; or take larger batches.",
    ("tiny_ops", ""): "Give each op more to do: larger batches, jax.vmap in place of loops.",
}
ACTIONS: Mapping[str, Mapping[tuple[str, str], str]] = {"jax": _JAX, "pytorch": _PYTORCH}
# Rules that do not apply to a framework, with the reason.
NOT_OF: Mapping[str, Mapping[str, str]] = {
    "jax": {
        "growing_graph": "JAX has no graph that grows",
        "many_runs": "JAX has no Session",
        "retracing": "recompiling looks at functions of JAX",
        "session_run_cost": "JAX has no Session",
        "threads_few": "the thread pools of XLA are not set by TensorFlow's settings",
        "threads_oversubscribed": "the thread pools of XLA are not set by these variables",
        "while_loop": "XLA compiles the loops of a program",
        "xla_off": "XLA compiles all steps of JAX",
    },
    "pytorch": {
        "eager_loop": "PyTorch has no tf.function; tiny_ops speaks of torch.compile",
        "growing_graph": "PyTorch has no graph that grows",
        "many_runs": "PyTorch has no Session",
        "memory_donation": "optimizers of PyTorch update in place",
        "retracing": "it looks at functions of TensorFlow",
        "session_run_cost": "PyTorch has no Session",
        "while_loop": "loops of PyTorch are Python's",
        "xla_off": "PyTorch does not compile with XLA; tiny_ops speaks of torch.compile",
    },
}


def in_words_of(framework: str, finding: Finding) -> Finding | None:
    """Return a finding with what to do about it in this framework; None if it does not apply."""
    if finding.rule in NOT_OF.get(framework, {}):
        return None
    if framework == "pytorch" and finding.rule == "launch_bound" and not _is_of_many(finding):
        return finding
    if finding.words_of == framework:
        return finding
    actions = ACTIONS.get(framework, {})
    known = actions.get((finding.rule, finding.part)) or actions.get((finding.rule, ""))
    return finding if known is None else replace(finding, action=known)


def _is_of_many(finding: Finding) -> bool:
    """Say whether there are many launches: a single slow op has no likely gain."""
    return isinstance(finding.gain, Gain) and bool(finding.gain.low_ns)
