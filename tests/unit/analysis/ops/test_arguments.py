"""Which arguments of a program are parameters of the model, by their names or by their use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.golden import golden
from tests.support.hlo import instruction, module
from tfprobe.analysis.core.names import by_layer
from tfprobe.analysis.memory.memory_peak import Role, Variable, variables
from tfprobe.analysis.ops.arguments import (
    UNTOLD,
    Argument,
    arguments,
    model_arguments,
    with_parameters,
)
from tfprobe.analysis.ops.op_stats import AT, known_columns, total_costs
from tfprobe.analysis.ops.parameters import Use
from tfprobe.errors import Missing
from tfprobe.formats.xspace import ran_programs, read
from tfprobe.profile.hlo import HloModule, RanProgram
from tfprobe.profile.reader.file import whole_file

FORWARD, BACKWARD = "jit(step)/jvp(Net)/first/dot_general", "jit(step)/transpose(jvp(Net))/mul"


def given(name: str, number: int, made: str = "f32[3,4]") -> Any:
    return instruction(f"p{number}", "parameter", made, op_name=name, parameter=number)


def uses(program: HloModule) -> dict[str, Use | None]:
    found = arguments(program)
    assert not isinstance(found, Missing), found
    return {each.name: each.use for each in found}


def called(*names: str, made: str = "f32[3,4]") -> HloModule:
    return module([given(name, at, made) for at, name in enumerate(names)])


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("params['dense']['kernel']", Use.PARAMETERS),
        ("state.params['dense']['kernel']", Use.PARAMETERS),
        ("model.layers[0].weight", Use.PARAMETERS),
        ("state.opt_state[0].mu['params']['kernel']", Use.OPTIMIZER_STATE),
        ("opt[0].nu['params']['first']['bias']", Use.OPTIMIZER_STATE),
        ("variables['batch_stats']['norm']['mean']", Use.STATE),
        ("batch['image']", None),
        ("x", None),
    ],
)
def test_names(name: str, use: Use | None) -> None:
    """Those of flax, optax, haiku and equinox say what an argument is."""
    assert uses(called("params['other']['w']", name))[name] is use


def test_leaves_say_it_where_nothing_else_does() -> None:
    assert uses(called("layers[0].kernel", "x"))["layers[0].kernel"] is Use.PARAMETERS
    assert uses(called("params['scale']", "kernel"))["kernel"] is None


def test_whole_numbers_are_no_parameters() -> None:
    program = module([given("params['w']", 0), given("params['table']", 1, "s32[7]")])
    assert uses(program)["params['table']"] is None


def test_names_that_say_nothing() -> None:
    """A number would be a guess, so there is none."""
    assert arguments(called("a", "b", "x")) == UNTOLD
    assert isinstance(arguments(module([])), Missing)
    assert isinstance(arguments(HloModule("jit_f", {}, 5)), Missing)


def step() -> list[Any]:
    """A training step whose arguments have only numbers: weight, momentum, images, rate."""
    return [
        given("state[0][0]", 0),
        given("state[1][0]", 1),
        given("data[0]", 2),
        given("state[1][1]", 3, "f32[]"),
        instruction("forward", "multiply", "f32[3,4]", "p2", "p0", op_name=FORWARD),
        instruction("gradient", "multiply", "f32[3,4]", "forward", "p2", op_name=BACKWARD),
        instruction("speed", "add", "f32[3,4]", "p1", "gradient", op_name="jit(step)/add"),
        instruction("scaled", "broadcast", "f32[3,4]", "p3", op_name="jit(step)/mul"),
        instruction("update", "multiply", "f32[3,4]", "speed", "scaled", op_name="jit(step)/mul"),
        instruction("weight", "subtract", "f32[3,4]", "p0", "update", op_name="jit(step)/sub"),
        instruction("all", "tuple", "(f32[3,4], f32[3,4], f32[])", "weight", "speed", "p3"),
    ]


def test_a_training_step_says_it_itself() -> None:
    """As of Keras and nnx, whose arguments have no names."""
    assert uses(module(step())) == {
        "state[0][0]": Use.PARAMETERS,
        "state[1][0]": Use.OPTIMIZER_STATE,
        "data[0]": None,
        "state[1][1]": Use.OPTIMIZER_STATE,
    }


def test_a_step_without_a_backward_pass_says_nothing() -> None:
    """An evaluation returns no new values."""
    forward = [each for each in step() if each[0] != "gradient"]
    assert arguments(module(forward)) == UNTOLD


def test_an_argument_is_read_in_the_scope_of_its_layer() -> None:
    """Also where a fusion reads it whose name is that of another layer."""
    program = module(
        [
            given("params['bias']", 0, "f32[4]"),
            instruction(
                "fused", "fusion", "f32[3,4]", "p0", called=("inside",), op_name="jit(f)/relu/max"
            ),
        ],
        inside=[
            instruction("q0", "parameter", "f32[4]"),
            instruction("wide", "broadcast", "f32[3,4]", "q0"),
            instruction("sum", "add", "f32[3,4]", "wide", "wide", op_name="jit(f)/second/add"),
        ],
    )

    found = arguments(program)

    assert not isinstance(found, Missing)
    assert found == (Argument(0, "params['bias']", found[0].shape, Use.PARAMETERS, "second/add"),)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_real_step(is_named: bool) -> None:
    """Both ways find the parameters of the MLP, and Adam's two moments and its counter."""
    content = golden("frameworks", "jax_cpu_flax_mlp_3steps.xplane.pb").read_bytes()
    (program,) = ran_programs(content, read(content).programs)
    entry = program.module.computations[program.module.entry]
    if not is_named:
        instructions = [
            replace(each, op_name=f"args[{each.parameter}]") if each.opcode == "parameter" else each
            for each in entry.instructions
        ]
        entry = replace(entry, instructions=tuple(instructions))

    found = arguments(
        replace(program.module, computations={**program.module.computations, entry.id: entry})
    )

    assert not isinstance(found, Missing)
    elements = {
        use: sum(each.shape.elements for each in found if each.use is use)
        for use in (Use.PARAMETERS, Use.OPTIMIZER_STATE)
    }
    assert elements == {Use.PARAMETERS: 399_370, Use.OPTIMIZER_STATE: 2 * 399_370 + 1}
    assert {each.reader.rpartition("/")[0] for each in found if each.use is Use.PARAMETERS} == {
        f"Net/{layer}" for layer in ("first", "second", "head")
    }


def test_programs_of_one_loop_have_one_model() -> None:
    """An evaluation step of the same model, whose arguments have other names, adds nothing."""
    train, evaluate = called("state.params['w']"), called("params['w']", made="f32[3]")
    programs = [RanProgram(number, each, {}) for number, each in enumerate((evaluate, train))]

    found = model_arguments(programs)

    assert not isinstance(found, Missing)
    assert [each.name for each in found] == ["state.params['w']"]
    assert isinstance(model_arguments([]), Missing)
    assert model_arguments([RanProgram(0, called("a", "b"), {})]) == UNTOLD


def test_parameters_are_in_the_layers_that_read_them() -> None:
    """As the variables of TensorFlow are."""
    _, traced = whole_file(golden("frameworks", "jax_cpu_flax_mlp_3steps.xplane.pb"))
    assert "params" not in known_columns(traced, None)

    found = with_parameters(traced)

    assert "params" in known_columns(found, None)
    by_node = total_costs(found).rows[:, AT["params"]].tolist()
    layers: dict[str, int] = {}
    for node, params in zip(by_layer(found.graph).nodes, by_node, strict=True):
        if params:
            layer = node.name.rpartition("/")[0]
            layers[layer] = layers.get(layer, 0) + params
    assert layers == {"Net/first": 131_584, "Net/second": 262_656, "Net/head": 5_130}
    own = variables(found.graph.nodes)
    name = "params['params']['second']['kernel']"
    assert own[0] == Variable(f"Net/second/{name}", Role.PARAMETERS, 2**18, 2**20)
    assert len(own) == 3 * 6 + 1
