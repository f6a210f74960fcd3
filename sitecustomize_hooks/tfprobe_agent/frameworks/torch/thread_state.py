"""What a thread is in the middle of, as far as its steps are those of PyTorch."""

import weakref

from tfprobe_agent.core.threads import THREAD

# Of so many loaders at most batches are timed.
_MOST_LOADERS = 8
# So many batches make a mean; it is that of about the latest ones of these.
_LEAST_BATCHES, _LATEST_BATCHES = 3, 256
# A mean stands for a batch if most of them take about as long as the one before.
_ALIKE_RATIO = 0.8


class Batches:
    """How long batches of one loader take while nothing is traced. The loader's sampler stands for it."""

    __slots__ = ("alike", "count", "latest_ns", "sampler", "whole_ns")

    def __init__(self, sampler):
        self.sampler = weakref.ref(sampler)
        self.count = self.whole_ns = self.alike = self.latest_ns = 0

    def add(self, took_ns):
        """Note how long one took."""
        if self.count >= _LATEST_BATCHES:
            self.count, self.whole_ns, self.alike = self.count // 2, self.whole_ns // 2, self.alike // 2
        self.count += 1
        self.whole_ns += took_ns
        latest_ns, self.latest_ns = self.latest_ns or took_ns, took_ns
        self.alike += latest_ns <= 2 * took_ns and took_ns <= 2 * latest_ns

    def mean_ns(self):
        """Return how long a batch usually takes, None if that is unknown or they vary."""
        is_known = self.count >= _LEAST_BATCHES and self.alike >= _ALIKE_RATIO * self.count
        return self.whole_ns // self.count if is_known else None


class TorchThread:
    """The marks of a thread's optimizers, its open window, and calls that may turn out to be steps."""

    __slots__ = (
        "batches",
        "differentiating",
        "due",
        "follows",
        "gradients",
        "lone_calls",
        "mark_ns",
        "marked",
        "switching",
        "taken",
        "taking",
        "update_ns",
        "updating",
        "waited",
        "whole_steps",
        "window",
        "window_end",
    )

    def __init__(self):
        self.updating = self.update_ns = 0  # steps of optimizers under way, one in another; when the outermost began
        self.mark_ns = 0  # when the latest of them ended, or the recording's work after it
        self.marked = None  # the loop of the latest one
        self.follows = {}  # by loop: the one whose step ended where the latest step of this loop began
        self.due = None  # the loop whose next step is to be traced
        self.waited = 0  # marks at which some loop was due since then
        self.window = self.window_end = None  # the open window between two marks, and what ends it with the thread
        self.lone_calls = None  # calls without gradients since the latest mark, while these may belong to a step
        self.whole_steps = []  # calls of compiled functions; True once these are steps, False with an optimizer
        self.gradients = []  # those that may turn out to end steps, with the times of these; None once they do
        self.differentiating = False  # a gradient is being taken
        self.switching = False  # a module is changing to evaluation or back
        self.batches = {}  # by the id of the loader's sampler: how long its batches take
        self.taken = []  # those of the batches in the open window
        self.taking = False  # a batch is being taken, perhaps by one of another loader

    def batches_of(self, sampler):
        """Return what is known of the batches of a loader, None if its sampler cannot be followed, such as a list."""
        if not type(sampler).__weakrefoffset__:
            return None
        known = self.batches.get(id(sampler))
        if known is None or known.sampler() is not sampler:
            if len(self.batches) >= _MOST_LOADERS:
                self.batches = {}
            known = self.batches[id(sampler)] = Batches(sampler)
        return known

    def traced_batch_ns(self):
        """Return how long a batch as those in the window that ends now usually takes, None if that is unknown."""
        taken, self.taken = self.taken, []
        means_ns = [batches.mean_ns() for batches in taken]
        return None if not means_ns or None in means_ns else sum(means_ns) // len(means_ns)


def torch_thread():
    """Return the state of the calling thread."""
    current = THREAD.current
    if current.torch is None:
        current.torch = TorchThread()
    return current.torch
