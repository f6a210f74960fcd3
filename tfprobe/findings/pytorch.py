"""Say what to do in PyTorch, of whose traces the rules ask the same questions."""

from __future__ import annotations

from dataclasses import replace

from tfprobe.findings.finding import Finding

_ON_DEVICE = (
    "Move it to the device (.to('cuda')), or its data earlier: a DataLoader with workers and "
    "pin_memory=True, .to(..., non_blocking=True). torch.compile and CUDA graphs take less of the "
    "host. The first op on a device makes its context, which takes seconds: look at a later step."
)
_LAUNCHES = (
    "Launch fewer kernels: torch.compile fuses them, CUDA graphs (mode='reduce-overhead') launch "
    "them as one; larger batches make them longer."
)
# By the rule, and of one rule by the part that it names.
_ACTIONS: dict[tuple[str, str], str] = {
    ("accelerator_idle", ""): "Look at what the host does meanwhile: `tfprobe breakdown`.",
    ("accelerator_idle", "host_compute"): _ON_DEVICE,
    ("accelerator_idle", "kernel_launch"): _LAUNCHES,
    ("accelerator_idle", "idle"): "Look for Python between ops, waits for a DataLoader, and for "
    ".item(), .cpu() and prints, which wait for the device; torch.compile leaves less Python.",
    ("collectives_exposed", ""): "Look first whether one rank is late. Then let "
    "DistributedDataParallel hide more of it (bucket_cap_mb, no_sync() while gradients are "
    "accumulated), reduce in 16 bits (bf16_compress_hook), or take larger batches.",
    (
        "copies_many",
        "",
    ): "Put what goes over the bus into one tensor, keep it on the device between "
    "steps, and make tensors there (device='cuda').",
    ("copies_pageable", ""): "Let the DataLoader pin batches (pin_memory=True) and copy them with "
    ".to('cuda', non_blocking=True).",
    ("data_layout", ""): "Give model and input .to(memory_format=torch.channels_last).",
    ("launch_bound", ""): _LAUNCHES,
    ("op_on_host", ""): _ON_DEVICE,
    ("precision_wide", ""): "torch.autocast('cuda', dtype=torch.bfloat16) around the forward pass; "
    "for TF32 torch.set_float32_matmul_precision('high').",
    (
        "tiny_ops",
        "",
    ): "Give each op more to do: larger batches, whole tensors instead of loops over "
    "their parts; or fuse: torch.compile.",
    ("xla_off", ""): "Fuse them: torch.compile.",
}


def in_pytorch(finding: Finding) -> Finding:
    """Return a finding of a rule with what to do about it in PyTorch."""
    if finding.rule == "launch_bound" and not _is_of_many(finding):
        return finding
    known = _ACTIONS.get((finding.rule, finding.part)) or _ACTIONS.get((finding.rule, ""))
    return finding if known is None else replace(finding, action=known)


def _is_of_many(finding: Finding) -> bool:
    """Say whether launches are many: of one slow op no gain is likely."""
    return bool(getattr(finding.gain, "low_ns", 0))
