"""Loops with a planted cost, in PyTorch: each prints its results and writes what is true of it.

What is printed is the same in every run. What is true is known by construction, or measured by the
program's own clock and by CUDA events, between two moments at which the device had nothing left to
do. A step is one of an optimizer, or the call of a module without gradients.
"""

import inspect
import os
import pathlib
import statistics
import time

import numpy as np
import torch

import planted

# Five times fifty: two of these have a traced step, and one comes after such steps.
QUEUED_STEPS = 250


class Job(planted.Job):
    """A job of PyTorch, in which steps end where their calls return."""

    def __init__(self, device, is_quick):
        super().__init__(device, is_quick)
        self.device = torch.device("cuda" if self.is_gpu else "cpu")
        self.truth["steps_end"] = "calls"
        torch.manual_seed(7)
        if not self.is_gpu:  # on a busy machine, threads would wait for each other
            torch.set_num_threads(1)

    def wait(self, _value):
        if self.is_gpu:
            torch.cuda.synchronize()

    def mark(self):
        if not self.is_gpu:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_ns(self, mark, later):
        return None if mark is None else mark.elapsed_time(later) * 1e6

    def matrix(self, rows, columns, dtype=None):
        """Return a random matrix by which products keep their size."""
        dtype = dtype or (torch.bfloat16 if self.is_gpu else torch.float32)
        return torch.from_numpy(self.normal(rows, columns)).to(self.device, dtype)

    def called(self, module):
        """Return a module whose calls are steps."""
        return module.to(self.device).eval()

    def trained(self, layers):
        """Return layers, and the optimizer whose steps are the loop `SGD`."""
        module = torch.nn.Sequential(*layers).to(self.device)
        return module, torch.optim.SGD(module.parameters(), lr=1e-3)

    def copy_ns(self, host):
        """Return how long a copy to the device takes alone, ns: the median of nine."""
        times = []
        for _ in range(9):
            mark = self.mark()
            copied = host.to(self.device, non_blocking=True)
            later = self.mark()
            self.wait(copied)
            times.append(self.between_ns(mark, later))
        return sorted(times)[len(times) // 2]


class Products(torch.nn.Module):
    """Products of a value and the same weights, one after the other."""

    def __init__(self, weights, products):
        super().__init__()
        self.weights, self.products = weights, products

    def forward(self, value):
        for _ in range(self.products):
            value = value @ self.weights
        return value


class MarkedProducts(Products):
    """The same, with marks before the first and after the last."""

    def __init__(self, weights, products, job):
        super().__init__(weights, products)
        self.mark, self.marks = job.mark, []

    def forward(self, value):
        mark = self.mark()
        value = super().forward(value)
        self.marks.append((mark, self.mark()))
        return value


@torch.no_grad()
def kernel_bound(job):
    """Large products, of which fifty are queued before a wait."""
    n, products = job.size(8192, 512), 4
    module = job.called(MarkedProducts(job.matrix(n, n), products, job))
    value = job.timed(module, job.matrix(n, n), QUEUED_STEPS, "MarkedProducts", wait_every=50)
    if job.is_gpu:
        job.truth["step_device_ns"] = [job.between_ns(*pair) for pair in module.marks]
    job.truth["float_ops"] = products * 2 * n**3
    show(value)


def host_bound(job):
    """Training steps so small that the device waits for Python between their kernels."""
    batch = torch.ones(8, 8, device=job.device)
    module, optimizer = job.trained([torch.nn.Linear(8, 8)])

    def step(_):
        return update(module, optimizer, batch)

    job.timed(step, None, 2000, "SGD", wait_every=100)
    show(*module.parameters())


class SlowDataset(torch.utils.data.Dataset):
    """Batches that come after 10 ms."""

    def __init__(self, batch):
        self.batch, self.times_ns = batch, []

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        began_ns = time.perf_counter_ns()
        time.sleep(0.010)
        self.times_ns.append(time.perf_counter_ns() - began_ns)
        return self.batch


def input_bound(job):
    """A DataLoader without workers takes 10 ms for each batch, and the loss is read."""
    n = job.size(4096, 384)
    dataset = SlowDataset(torch.from_numpy(job.normal(n, n)).to(torch.float32))
    batches = iter(torch.utils.data.DataLoader(dataset, batch_size=None))
    module, optimizer = job.trained([torch.nn.Linear(n, n) for _ in range(2)])

    def step(_):
        batch = next(batches)
        return update(module, optimizer, batch.to(job.device)).item()

    job.timed(step, None, job.steps(), "SGD", wait_every=1)
    cycle_ns = statistics.median(taken_ns for _, _, taken_ns in job.truth["stretches"])
    job.truth["input_ratio"] = statistics.median(dataset.times_ns) / cycle_ns
    job.truth["input_line"] = first_line(SlowDataset.__getitem__)
    show(*module.parameters())


def sync_bound(job):
    """A training step reads the result of each of its twenty layers."""
    n, parts = job.size(512, 96), 20
    batch = job.matrix(n, n, torch.float32)
    module, optimizer = job.trained([torch.nn.Linear(n, n) for _ in range(parts)])

    def step(_):
        optimizer.zero_grad()
        value = batch
        for layer in module:
            value = layer(value)
            value.mean().item()
        loss = value.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    job.timed(step, None, job.steps(110, 110), "SGD", wait_every=1)
    job.truth["waits"] = parts
    job.truth["wait_line"] = first_line(step)
    show(*module.parameters())


class PageableCopy(torch.nn.Module):
    """Copies its argument to the device of a value."""

    def forward(self, value, host):
        return value + host.to(value.device, non_blocking=True)[:8]


class PinnedCopy(PageableCopy):
    """The same, under another name."""


@torch.no_grad()
def copy_bound(job):
    """An array of the host goes to the device with each step: pageable, then pinned."""
    host = torch.arange(job.size(64 * 2**20, 2**20), dtype=torch.float32)
    job.truth["bytes"] = host.nbytes
    job.truth["pinned"] = None if job.is_gpu else "needs a GPU"
    for kind in (PageableCopy, PinnedCopy) if job.is_gpu else (PageableCopy,):
        if kind is PinnedCopy:
            host = host.pin_memory()
        module = job.called(kind())
        value = torch.zeros(8, device=job.device)
        value = job.timed(
            lambda value, module=module, host=host: module(value, host),
            value,
            job.steps(100, 110),
            kind.__name__,
            wait_every=1,
        )
        if job.is_gpu:
            job.truth["pinned_copy_ns" if kind is PinnedCopy else "copy_ns"] = job.copy_ns(host)
        show(value)


class Overlapped(Products):
    """A copy on a stream of its own beside products that do not need it."""

    def __init__(self, weights, products):
        super().__init__(weights, products)
        self.stream = torch.cuda.Stream()

    def forward(self, value, host):
        with torch.cuda.stream(self.stream):
            copied = host.to("cuda", non_blocking=True)
        value = super().forward(value)
        torch.cuda.current_stream().wait_stream(self.stream)
        copied.record_stream(torch.cuda.current_stream())
        return value + copied[0].to(value.dtype)


@torch.no_grad()
def overlap(job):
    """A copy from pinned memory beside products; needs a GPU."""
    n = 8192
    host = torch.ones(16 * 2**20).pin_memory()
    module = job.called(Overlapped(job.matrix(n, n), 4))
    value = job.timed(
        lambda value: module(value, host),
        job.matrix(n, n),
        QUEUED_STEPS,
        "Overlapped",
        wait_every=50,
    )
    job.truth["pinned"] = None
    job.truth["bytes"] = host.nbytes
    job.truth["copy_ns"] = job.copy_ns(host)
    show(value)


def asynchronous(job):
    """Fifty training steps without a wait, then one."""
    n = job.size(4096, 256)
    batch = job.matrix(n, n, torch.float32)
    module, optimizer = job.trained([torch.nn.Linear(n, n, bias=False) for _ in range(2)])

    def step(_):
        return update(module, optimizer, batch)

    job.timed(step, None, QUEUED_STEPS, "SGD", wait_every=50)
    show(*module.parameters())


class Chain(Products):
    """Many small kernels, one after the other."""

    def forward(self, value):
        for _ in range(self.products):
            value = torch.tanh(value @ self.weights)
        return value


def cuda_graph(job):
    """Many small kernels a step, which torch.compile replays as one CUDA graph."""
    chain(job, "reduce-overhead")


def no_cuda_graph(job):
    """The same kernels, each launched."""
    chain(job, "default")


@torch.no_grad()
def chain(job, mode):
    n = job.size(256, 64)
    module = torch.compile(job.called(Chain(job.matrix(n, n, torch.float32), 40)), mode=mode)
    batch = job.matrix(n, n, torch.float32)
    # The next replay overwrites what this one returns, so each step has the same argument.
    value = job.timed(lambda _: module(batch), None, QUEUED_STEPS, "Chain", wait_every=50)
    show(value)


class Holding(torch.nn.Module):
    """Holds a large array, and needs two more of its size."""

    def __init__(self, held_bytes):
        super().__init__()
        self.register_buffer("held", torch.ones(held_bytes // 4))

    def forward(self, value):
        return value + (self.held * 2.0 + value[0]).max() * 1e-9


@torch.no_grad()
def memory(job):
    """A large array is held while steps run; none is freed before their end."""
    held_bytes = job.size(4 * 2**30, 64 * 2**20)
    module = job.called(Holding(held_bytes))
    value = torch.zeros(1024, device=job.device)
    value = job.timed(module, value, job.steps(), "Holding", wait_every=1)
    job.truth["step_bytes"] = 3 * held_bytes
    job.truth["peak_bytes"] = torch.cuda.max_memory_allocated() if job.is_gpu else None
    show(value)


def training(job):
    """A small network trained as programs are: what recording it costs."""
    width, rows = job.size(2048, 192), job.size(2048, 128)
    batch = job.matrix(rows, width, torch.float32)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(width, width), torch.nn.Tanh())]
    module, optimizer = job.trained(layers)

    def step(_):
        return update(module, optimizer, batch)

    steps = 300 if job.is_quick else job.size(1500, 3000)
    loss = job.timed(step, None, steps, "SGD", wait_every=10)
    show(*module.parameters())
    print("loss", loss.item().hex())


@torch.no_grad()
def own_profiler(job):
    """The program profiles five of its steps itself."""
    n = job.size(2048, 128)
    module = job.called(Products(job.matrix(n, n, torch.float32), 1))
    value = job.matrix(n, n, torch.float32)
    steps = job.steps(150, 110)
    value = job.timed(module, value, steps // 2, "Products", wait_every=1)
    with torch.profiler.profile() as profile:
        for _ in range(5):
            with torch.profiler.record_function("planted"):
                value = module(value)
                job.wait(value)
    job.count("Products", 5)
    value = job.timed(module, value, steps - steps // 2, "Products", wait_every=1)
    path = pathlib.Path("profile.json")
    profile.export_chrome_trace(str(path))
    marks = sum(event.name == "planted" for event in profile.events())
    is_whole = b'"planted"' in path.read_bytes() and marks >= 5
    print("profiles 1 marks", is_whole)
    show(value)


def update(module, optimizer, batch):
    """Train with one batch, and return the loss without waiting for it."""
    optimizer.zero_grad()
    loss = module(batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


def first_line(function):
    """Return the file and first line of a function, by which PyTorch names it in a trace."""
    return [os.path.basename(__file__), inspect.getsourcelines(function)[1]]


def show(*tensors):
    """Print a digest of tensors."""
    planted.show(np.asarray(tensor.detach().float().cpu()) for tensor in tensors)


LOOPS = (
    kernel_bound,
    host_bound,
    input_bound,
    sync_bound,
    copy_bound,
    overlap,
    asynchronous,
    cuda_graph,
    no_cuda_graph,
    memory,
    training,
    own_profiler,
)


if __name__ == "__main__":
    planted.main(__doc__, Job, LOOPS)
