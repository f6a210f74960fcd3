"""What may be stored of a command and an environment."""

from __future__ import annotations

import pytest

from tfprobe.launch.secrets import is_secret, mask_arguments, mask_text, recorded_environment


@pytest.mark.parametrize(
    "name",
    [
        *("--password", "hf_token", "API-KEY", "secretKey", "AWS_SECRET_ACCESS_KEY", "apiKey"),
        *("auth", "WANDB_API_KEY", "private_key", "credentials"),
    ],
)
def test_names_of_secrets_are_known(name) -> None:
    """By their words, in any spelling."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name", ["--tokenizer", "max_tokens", "author", "num_passes", "key", "keyboard", "--bypass"]
)
def test_names_that_only_look_alike_are_kept(name) -> None:
    """A word inside a word says nothing."""
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        (["--password", "x", "--lr", "1"], ["--password", "***", "--lr", "1"]),
        (["--token", "-x"], ["--token", "***"]),
        (["--auth", "--lr", "1"], ["--auth", "--lr", "1"]),
        (["--api-key=x y", "token=x"], ["--api-key=***", "token=***"]),
        (["--tokenizer", "bert"], ["--tokenizer", "bert"]),
    ],
)
def test_values_of_secret_arguments_are_masked(arguments, stored) -> None:
    """Both `--name value` and `name=value`; nothing else is touched."""
    assert mask_arguments(arguments) == stored


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("export HF_TOKEN=abc; python t.py", "export HF_TOKEN=***; python t.py"),
        ("python t.py --api-key zz --lr 3", "python t.py --api-key *** --lr 3"),
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("mysql://me:pw@host/db", "mysql://me:***@host/db"),
        ("mysql://me:p@w@host/db", "mysql://me:***@host/db"),
        ("ghp_abcdefghijklmnopqrst", "***"),
        ('{"password": "hunter2"}', '{"password": ***'),
        ("lr=0.1 batch: 3", "lr=0.1 batch: 3"),
        ("http://host:80/path", "http://host:80/path"),
    ],
)
def test_secrets_inside_one_argument_are_masked(text, stored) -> None:
    """Scripts, headers, addresses and tokens known by their shape."""
    assert mask_text(text) == stored


def test_the_environment_is_an_allow_list() -> None:
    """What is not known to matter is not stored; nor is what matters but looks secret."""
    environment = {
        "TF_XLA_FLAGS": "--tf_xla_auto_jit=2",
        "TF_PASSWORD": "x",
        "SLURM_PROCID": "3",
        "HOME": "/root",
        "TF_URL": "https://me:pw@host",
    }

    stored = recorded_environment(environment)

    assert stored == {"SLURM_PROCID": "3", "TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}
