"""Keep secrets out of the stored command line: the launcher's `secrets` in Python 3.6; a test compares the two."""

import re

_WORDS = frozenset(
    ["apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "passphrase", "passwd"]
    + ["password", "passwords", "pw", "pwd", "secret", "secrets", "token"]
)
_BEFORE_KEY = frozenset(["access", "account", "api", "auth", "encryption", "private", "secret", "signing"])
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Told by their shape: OpenAI, GitHub, Hugging Face, AWS, Slack, GitLab, JWT.
_SHAPE = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|AKIA[0-9A-Z]{12,}"
    r"|xox[abprs]-[\w-]{10,}|glpat-[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
)
_URL_PASSWORD = re.compile(r"(\w+://[^/\s:@]*:)[^/\s]+@")
_ASSIGNMENT = re.compile(r"(-{0,2}[A-Za-z][\w.-]*[\"']?)(\s*[=:]\s*)((?:Bearer\s+|Basic\s+)?[^\s;&|]+)")
_OPTION_IN_TEXT = re.compile(r"(--?[A-Za-z][\w.-]*)(\s+)([^\s;&|-][^\s;&|]*)")


def arguments(words):
    """Return the command line with everything that looks secret replaced by `***`."""
    shown = []
    is_value_secret = False
    for word in words:
        if is_value_secret and not word.startswith("--"):
            shown.append("***")
            is_value_secret = False
            continue
        shown.append(text(word))
        is_value_secret = word.startswith("-") and "=" not in word and _is_secret(word)
    return shown


def text(words):
    """Return a text with everything in it that looks secret replaced by `***`."""
    name, equals, _ = words.partition("=")
    if equals and re.match(r"-{0,2}[\w.-]+$", name) and _is_secret(name):
        return name + "=***"
    words = _SHAPE.sub("***", _URL_PASSWORD.sub(r"\1***@", words))
    return _OPTION_IN_TEXT.sub(_value, _ASSIGNMENT.sub(_value, words))


def _value(match):
    name, between, _ = match.groups()
    return name + between + "***" if _is_secret(name) else match.group()


def _is_secret(name):
    words = [word.lower() for word in _WORD.findall(name)]
    return not _WORDS.isdisjoint(words) or any(
        after == "key" and word in _BEFORE_KEY for word, after in zip(words, words[1:])
    )
