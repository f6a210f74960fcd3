"""What a thread is in the middle of, as far as its steps are those of PyTorch."""

from tfprobe_agent.core.threads import THREAD

# Of so many data sets at most batches are timed, and so many batches at least make a mean.
_MOST_DATA_SETS = 8
_LEAST_BATCHES = 3


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
        "traced_data",
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
        self.batches = {}  # by data set: how many batches were taken while nothing was traced, and how long that took
        self.traced_data = None  # the data set of the batches in the open window; 0 if there are several

    def took_batch(self, data, took_ns):
        """Note how long it took to take a batch of this data set."""
        known = self.batches.get(data)
        if known is None:
            if len(self.batches) >= _MOST_DATA_SETS:
                self.batches = {}
            self.batches[data] = 1, took_ns
        else:
            self.batches[data] = known[0] + 1, known[1] + took_ns

    def traced_batch_ns(self):
        """Return how long it usually takes to take a batch as in the window that ends now, None if that is unknown."""
        data, self.traced_data = self.traced_data, None
        count, whole_ns = self.batches.get(data, (0, 0))
        return whole_ns // count if count >= _LEAST_BATCHES else None


def torch_thread():
    """Return the state of the calling thread."""
    current = THREAD.current
    if current.torch is None:
        current.torch = TorchThread()
    return current.torch
