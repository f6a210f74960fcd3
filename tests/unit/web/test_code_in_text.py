"""What of a piece of advice can be copied is told from its words."""

from __future__ import annotations

import pytest

from tfprobe.web.pages.findings import code_parts


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "Try TF_XLA_FLAGS='--tf_xla_auto_jit=2', or wait.",
            ["TF_XLA_FLAGS='--tf_xla_auto_jit=2'"],
        ),
        (
            "dataset.apply(tf.data.experimental.prefetch_to_device('/GPU:0')), or else",
            ["dataset.apply(tf.data.experimental.prefetch_to_device('/GPU:0'))"],
        ),
        ("Set A_B=4 C_D=4. Where", ["A_B=4", "C_D=4"]),
        ("Read at every step (.numpy(), float()) now", [".numpy()", "float()"]),
        ("says why (`tfprobe doctor`).", ["tfprobe doctor"]),
        ("Put it there: @tf.function above it.", ["@tf.function"]),
        ("`tfprobe report --rank` shows", ["tfprobe report --rank"]),
        ("num_parallel_calls=tf.data.AUTOTUNE.", ["num_parallel_calls=tf.data.AUTOTUNE"]),
        ("hand them to jax.device_put before", ["jax.device_put"]),
        ("place of jax.nn.one_hot(ids, N).", ["jax.nn.one_hot(ids, N)"]),
        ("Save less often (to a local disk), only weights.", []),
        ("", []),
    ],
)
def test_code_is_found(text, code):
    """Calls, arguments, variables of the environment, flags and names of TensorFlow."""
    assert [part for part, is_code in code_parts(text) if is_code] == code


def test_nothing_is_lost():
    """All parts together are the text."""
    text = "Try TF_XLA_FLAGS='--x=2', or jit_compile=True for the step (tf.function(f))."

    assert "".join(part for part, _ in code_parts(text)) == text


def test_an_open_bracket_takes_no_time():
    """A hostile text is searched in time that grows with its length."""
    assert code_parts("f(" * 5_000)[0][0]
