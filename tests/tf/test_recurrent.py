"""Of a real recurrent model parameters are those of the model, and FLOPs those inside its loops."""

from __future__ import annotations

from tests.tf.laboratory import Laboratory, tfprobe_json
from tests.tf.requirements import need_tensorflow

BATCH, TIME, WIDTH, UNITS = 32, 6, 8, 16
# Of each direction, at each time: the products of the input and of the state, to four gates.
FORWARD = 2 * TIME * (2 * BATCH * (WIDTH + UNITS) * 4 * UNITS)
# Gradients of the weights are as many products; those of the state one more, of the input none.
BACKWARD = FORWARD + 2 * TIME * (2 * BATCH * UNITS * 4 * UNITS)


def test_a_recurrent_model_has_its_parameters_and_products(laboratory: Laboratory) -> None:
    """The loop's body reads the variables that the layer reads, under names of its own."""
    need_tensorflow(laboratory, (2, 12))
    recorded = laboratory.start("recurrent_fit.py", record=["--steps", "5"]).outcome()
    assert recorded.status == 0, recorded.stderr[-3000:]
    told = recorded.stdout.decode().split()
    expected = int(told[told.index("PARAMETERS") + 1])

    found = tfprobe_json("scope", str(recorded.run))

    [root] = [place for place in found["places"] if place["parent"] is None]
    assert root["total"]["params"] == expected
    assert root["total"]["float_ops"] >= FORWARD + BACKWARD
    assert found["float_ops_coverage"]["float_ops"] > 0.95, found["float_ops_coverage"]
