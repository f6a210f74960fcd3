"""The agent's own copy of the launcher's rules for secrets."""

from __future__ import annotations

import pytest

from tests.support.agent import load
from tests.unit.launch import test_secrets
from tfprobe.launch.secrets import is_secret, mask_arguments, mask_text

redact = load("redact")


def _cases(test: object) -> list[object]:
    return [case for mark in test.pytestmark for case in mark.args[1]]


NAMES = [
    *_cases(test_secrets.test_names_of_secrets_are_known),
    *_cases(test_secrets.test_names_that_only_look_alike_are_kept),
]
LINES = [case[0] for case in _cases(test_secrets.test_values_of_secret_arguments_are_masked)]
TEXTS = [case[0] for case in _cases(test_secrets.test_secrets_inside_one_argument_are_masked)]
FURTHER = [
    ["python", "-c", "connect(password='x y', token = \"abc\")"],
    ["--secret"],
    ["--password", "--lr", "--token", "a", "b"],
    ["-p", "x", "-pw", "x", "--pwd=", "=x", "=", "--=x", ""],
    ["--opt", "a=b=c", "--auth-token=a=b", "x;token=1&key=2|pw=3"],
    ["--header", "Authorization: Basic abc", "https://:p@w@host", "s3://AKIAABCDEFGHIJKLMNOP/x"],
    ["run --password hunter2 --lr 1", "eyJhbGciOiJI.abc.def", "--apiKey", "é", "\udcff"],
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_judged_as_by_the_launcher(name) -> None:
    """The same words make a secret."""
    assert redact._is_secret(name) == is_secret(name)


@pytest.mark.parametrize("line", [*LINES, *FURTHER, *([text] for text in TEXTS)])
def test_lines_are_masked_as_by_the_launcher(line) -> None:
    """process.json shows no more than run.json does, and no less."""
    assert redact.arguments(line) == mask_arguments(line)


@pytest.mark.parametrize("text", TEXTS)
def test_single_arguments_are_masked_as_by_the_launcher(text) -> None:
    """What looks secret inside a longer text."""
    assert redact.text(text) == mask_text(text)
