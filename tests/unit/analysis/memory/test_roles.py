"""What memory is for, by the names and types of ops."""

from __future__ import annotations

import pytest

from tfprobe.analysis.memory.memory_peak import Role, lasting_bytes, role_of
from tfprobe.profile.graph import Node

ROLES = {
    ("dense/kernel", "VariableV2"): Role.PARAMETERS,
    ("dense/kernel/Adam_1", "VariableV2"): Role.OPTIMIZER_STATE,
    ("dense/kernel/Momentum", "VarHandleOp"): Role.OPTIMIZER_STATE,
    ("adam/dense/kernel/velocity", "VarHandleOp"): Role.OPTIMIZER_STATE,
    ("adam/Mul_19", "Mul"): Role.UPDATE,
    ("GradientDescent/update_w/ApplyGradientDescent", "ApplyGradientDescent"): Role.UPDATE,
    ("Adam/Adam/update/ResourceApplyAdam", "ResourceApplyAdam"): Role.UPDATE,
    ("gradient_tape/dense/MatMul", "MatMul"): Role.GRADIENTS,
    ("gradients/dense/MatMul_grad/MatMul_1", "MatMul"): Role.GRADIENTS,
    ("training/Adam/gradients/loss_grad/Mul", "Mul"): Role.GRADIENTS,
    ("IteratorGetNext", "IteratorGetNext"): Role.INPUT,
    ("x", "Placeholder"): Role.INPUT,
    ("CollectiveReduceV2", "CollectiveReduceV2"): Role.COMMUNICATION,
    ("dense/MatMul", "MatMul"): Role.ACTIVATIONS,
    ("madam/MatMul", "MatMul"): Role.ACTIVATIONS,
}


@pytest.mark.parametrize(("op", "expected"), ROLES.items())
def test_the_role_follows_from_name_and_type(op, expected) -> None:
    """Anything else is an activation."""
    assert role_of(*op) is expected


def test_slots_of_an_optimizer_are_variables_of_tensorflow_1() -> None:
    """Adam keeps two numbers for each parameter."""
    names = ("w", "w/Adam", "w/Adam_1")
    nodes = [Node(name, "VariableV2", shape=(10, 10), dtypes=("DT_FLOAT",)) for name in names]

    assert lasting_bytes(nodes, {}) == {Role.PARAMETERS: 400, Role.OPTIMIZER_STATE: 800}


def test_slots_that_no_variable_shows_follow_from_the_update() -> None:
    """A function of TensorFlow 2 gets them as arguments and never reads them itself."""
    nodes = [
        Node("read", "ReadVariableOp", {0: "w"}, output_shapes={0: (10, 10)}, dtypes=("DT_HALF",)),
        Node("grad", "MatMul", output_shapes={0: (10, 10)}, dtypes=("DT_HALF",)),
        Node("update", "ResourceApplyMomentum", {0: "w", 1: "v", 2: "lr", 3: "grad"}),
    ]

    assert lasting_bytes(nodes, {}) == {Role.PARAMETERS: 200, Role.OPTIMIZER_STATE: 200}
