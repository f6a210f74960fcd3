"""The fix of threads: TensorFlow computes with as many as the trial says."""

from __future__ import annotations

import os

SESSION = """
class BaseSession:
    def __init__(self, target="", graph=None, config=None):
        self.config = config
class Session(BaseSession):
    def __init__(self, target="", graph=None, config=None):
        super().__init__(target, graph, config=config)
"""
CONFIG = """
set_to = []
def set_intra_op_parallelism_threads(num_threads):
    set_to.append(num_threads)
def set_inter_op_parallelism_threads(num_threads):
    set_to.append(num_threads)
"""


class Config:
    """A ConfigProto with two of its fields."""

    def __init__(self, intra=0, inter=0):
        self.intra_op_parallelism_threads = intra
        self.inter_op_parallelism_threads = inter

    def CopyFrom(self, other):  # noqa: N802 - the name in protobuf
        self.__dict__.update(other.__dict__)


def test_a_session_computes_with_these_threads(make_module, fix):
    """Only what its options name is another; the program's own object stays as it is."""
    module = make_module("tensorflow.python.client.session", SESSION)
    note = fix("threads", module, 2)
    asked = Config(intra=64)

    session = module.Session("", None, asked)

    assert vars(session.config) == vars(Config(intra=2))
    assert asked.intra_op_parallelism_threads == 64
    assert note.times == 1


def test_a_session_that_asks_for_none_is_left(make_module, fix):
    """The variables of the arm count for it."""
    module = make_module("tensorflow.python.client.session", SESSION)
    note = fix("threads", module, 2)
    asked = Config(inter=2)

    assert module.Session().config is None
    assert module.Session(config=asked).config is asked
    assert (note.times, note.reasons) == (0, {"asks for no other number": 1})


def test_numbers_of_the_program_are_replaced(make_module, fix):
    """Of both functions of tf.config.threading; the variables have applied before."""
    module = make_module("tensorflow.python.framework.config", CONFIG)
    others = len(os.sched_getaffinity(0)) + 1
    note = fix("threads", module, others)
    before = note.times

    module.set_intra_op_parallelism_threads(64)
    module.set_inter_op_parallelism_threads(num_threads=others)

    assert module.set_to == [others, others]
    assert (before, note.times) == (1, 2)
