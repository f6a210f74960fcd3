"""Two processes under torchrun on CPUs: DistributedDataParallel, then fully_shard (FSDP2)."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.run import main as torchrun

RANKS, STEPS = 2, 60
LAUNCH = ("--standalone", f"--nproc-per-node={RANKS}")


class Replicated(torch.optim.SGD):
    """Of the model that each rank has whole."""


class Sharded(torch.optim.AdamW):
    """Of the model of which each rank has a part."""


def made() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))


def trained(model: Any, optimizer: Any) -> int:
    """Train, each rank on its own data; return the steps that were taken."""
    draw = torch.Generator().manual_seed(dist.get_rank())
    steps = 0
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(16, 32, generator=draw)).square().mean().backward()
        optimizer.step()
        steps += 1
    return steps


def digest(model: Any) -> str:
    """Return a digest of the whole weights."""
    whole = [getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters()]
    content = b"".join(p.detach().numpy().tobytes() for p in whole)
    return hashlib.sha256(content).hexdigest()[:16]


def work() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    replicated = nn.parallel.DistributedDataParallel(made())
    counts = {"Replicated": trained(replicated, Replicated(replicated.parameters(), 0.1))}
    sharded = made()
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(sharded)
    counts["Sharded"] = trained(sharded, Sharded(sharded.parameters(), 0.01))
    # One rank says all: lines of several would come in any order.
    of_ranks: list[Any] = [None] * RANKS
    dist.all_gather_object(of_ranks, counts)
    shown = digest(replicated), digest(sharded)
    if dist.get_rank() == 0:
        print("WEIGHTS", *shown)
        sums = {f"optimizer_step {name}": sum(c[name] for c in of_ranks) for name in counts}
        print("COUNTS", json.dumps(sums), flush=True)
    dist.destroy_process_group()
    # One process in ten ends by SIGABRT while PyTorch 2.13 is torn down ("terminate called without
    # an active exception"), recorded or not. Its exit functions are called, and nothing after them.
    sys.stdout.flush()
    atexit._run_exitfuncs()
    os._exit(0)


if "LOCAL_RANK" in os.environ:
    work()
else:
    os.environ["OMP_NUM_THREADS"] = "1"  # else torchrun says that it sets it
    sys.exit(torchrun([*LAUNCH, __file__]))
