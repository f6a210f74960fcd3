"""What may be stored of a command and an environment."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.agent import load
from tfprobe.launch.secrets import recorded_environment
from tfprobe.runs import agent_files
from tfprobe.runs.agent_files import is_secret, mask_arguments, mask_text
from tfprobe.runs.manifests import read_process, read_run

# Stands for a secret of no shape of its own.
S = "hunter2Zq"

SECRET_NAMES = [
    *("--password", "hf_token", "API-KEY", "secretKey", "AWS_SECRET_ACCESS_KEY", "apiKey", "auth"),
    *("WANDB_API_KEY", "private_key", "credentials", "dbpassword", "DB_PASSWORD", "mysecretkey"),
    *("authtoken", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "userpass", "--pass", "oauth_token"),
    *("TF_TOKEN_app_terraform_io", "password1", "GITHUB_TOKEN_2", "-Dpwd", "-Dapi.key", "sshkey"),
    *("OPENAI_KEY", "access_tokens", "OAuthToken", "APIKey", "spring.datasource.password", "pw"),
    *("AWS_ACCESS_KEY_ID", "x-api-key", "client_secret", "refresh-token", "--use_auth_token"),
    *("--kaggle_key", "fernet-key", "consumerKey", "--session_key", "--target-token", "hf_token_p"),
    *("Set-Cookie", "Proxy-Authorization", "encryptionKey", "sas_token", "DOCKER_AUTH_CONFIG"),
]
OTHER_NAMES = [
    *("--tokenizer", "max_tokens", "author", "num_passes", "key", "keyboard", "--bypass", "keys"),
    *("--num_tokens", "--max-tokens", "--authors", "--secretary", "--keys", "--key-dim", "passes"),
    *("--monkey", "--passes", "token_type_ids", "pad_token", "--eos-token-id", "mask_token"),
    *("max_token", "num_token", "token_dropout", "hotkey", "primary_key", "compass", "one_pass"),
    *("password_file", "auth_method", "token-embedding-dim", "design_key", "forward_pass", "path"),
    *("prompt_token", "--visual_token", "token_keep_rate", "token_ratio", "--secret_layer"),
    *("session_key_frames", "master_key_points", "token_heads", "n_token", "token_masking_prob"),
    *("tokens_per_batch", "detokenize", "authenticity", "keypoints", "passthrough", "--key_size"),
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets_are_known(name) -> None:
    """By their words, in any spelling, also where a word is joined to others."""
    assert is_secret(name)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_that_only_look_alike_are_kept(name) -> None:
    """A model's tokens, keys and passes, and what is about a secret and not the secret itself."""
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        (["--password", S, "--lr", "1"], ["--password", "***", "--lr", "1"]),
        (["--token", "-x"], ["--token", "***"]),
        (["--password", f"--{S}", "--lr", "1"], ["--password", "***", "--lr", "1"]),
        (["--password", "--token", S, "b"], ["--password", "***", "***", "b"]),
        (["--password", f"{S} {S}"], ["--password", "***"]),
        (["--use-auth", "--lr", "1"], ["--use-auth", "--lr", "1"]),
        (["--api-key=x y", f"token={S}"], ["--api-key=***", "token=***"]),
        (["--pwd=", "=x", "=", "--=x", ""], ["--pwd=***", "=x", "=", "--=x", ""]),
        (
            ["-Dpassword=" + S, "-e", f"DB_PASSWORD={S}"],
            ["-Dpassword=***", "-e", "DB_PASSWORD=***"],
        ),
        (["--set", f"db.password={S}"], ["--set", "db.password=***"]),
        (["--config=" + f"lr=1,token={S}"], ["--config=lr=1,token=***"]),
        (["-password", S, "x"], ["-password", "***", "x"]),
        (["--secret"], ["--secret"]),
        (["--tokenizer", "bert"], ["--tokenizer", "bert"]),
        (
            ["--num_tokens", "512", "--max-tokens=4096"],
            ["--num_tokens", "512", "--max-tokens=4096"],
        ),
        (["--authors", "x", "--secretary", "y"], ["--authors", "x", "--secretary", "y"]),
        (["--keys", "4", "--key-dim", "64"], ["--keys", "4", "--key-dim", "64"]),
        (["--monkey", "3", "--passes", "3"], ["--monkey", "3", "--passes", "3"]),
        (["python", "train.py?", "/data/token/x"], ["python", "train.py?", "/data/token/x"]),
        (["--password-file", "/run/pw"], ["--password-file", "/run/pw"]),
    ],
)
def test_values_of_secret_arguments_are_masked(arguments, stored) -> None:
    """Both `--name value` and `name=value`, whatever the value; nothing else is touched."""
    assert mask_arguments(arguments) == stored


SHAPES = [
    # Shell.
    (f"export HF_TOKEN={S}; python t.py", "export HF_TOKEN=***; python t.py"),
    (f"python t.py --api-key {S} --lr 3", "python t.py --api-key *** --lr 3"),
    (f"python t.py --password '{S} y' --lr 3", "python t.py --password '***' --lr 3"),
    (f'python t.py --password="{S} y" --lr 3', 'python t.py --password="***" --lr 3'),
    (
        f"export TOKEN={S}; python train.py --password 'x {S}'",
        "export TOKEN=***; python train.py --password '***'",
    ),
    (f"python t.py --password --{S} --lr 3", "python t.py --password *** --lr 3"),
    (f"python t.py --password --token {S} --lr 3", "python t.py --password *** --lr 3"),
    (f"run --token a'b {S}'c --lr 3", "run --token *** --lr 3"),
    (f"run --token a\\ {S} --lr 3", "run --token *** --lr 3"),
    (f"""run --token 'it'"'"'s {S}' --lr 3""", "run --token *** --lr 3"),
    (f"TOKEN=$(echo {S}) python t.py", "TOKEN=***"),
    (f"env A=1 TOKEN=$(echo {S}) python t.py", "env A=1 TOKEN=*** python t.py"),
    (f"setenv HF_TOKEN {S}; python t.py", "setenv HF_TOKEN ***; python t.py"),
    (f"a && DB_PASSWORD={S} python t.py", "a && DB_PASSWORD=*** python t.py"),
    (f"java -Ddb.password={S} -jar x", "java -Ddb.password=*** -jar x"),
    (f"host=db password='{S} b' dbname=x", "host=db password='***' dbname=x"),
    (f'sh -c "run --token {S}" x', 'sh -c "run --token ***" x'),
    # Behind a comma, a question mark and an ampersand.
    (f"lr=0.1,token={S},batch=3", "lr=0.1,token=***,batch=3"),
    (f"a;token={S}&key=2|pw={S}", "a;token=***&key=***|pw=***"),
    (f"https://h/p?api_key={S}&lr=1&token={S}", "https://h/p?api_key=***&lr=1&token=***"),
    (f"https://h/p?lr=1&key={S}#top", "https://h/p?lr=1&key=***"),
    (f"https://h/p?X-Amz-Signature={S}&sig={S}", "https://h/p?X-Amz-Signature=***&sig=***"),
    (f"https://h/cb#access_token={S}", "https://h/cb#access_token=***"),
    (f"jdbc:mysql://h/db?user=a&password={S}", "jdbc:mysql://h/db?user=a&password=***"),
    (f"AccountName=x;AccountKey={S}==;Suffix=y", "AccountName=x;AccountKey=***;Suffix=y"),
    # Who a URL logs in as.
    (f"mysql://me:{S}@host/db", "mysql://me:***@host/db"),
    (f"mysql://me:p@{S}@host/db", "mysql://me:***@host/db"),
    (f"redis://:{S}@host:6379/0", "redis://:***@host:6379/0"),
    (f"s3://key:{S}@bucket/a", "s3://key:***@bucket/a"),
    (f"s3://key:a/{S}@bucket/a", "s3://key:***@bucket/a"),
    (f"https://me:{S}@host/", "https://***@host/"),
    (f"https://{S}@host/x.git", "https://***@host/x.git"),
    (f"git+https://{S}@host/x.git", "git+https://***@host/x.git"),
    (f"curl 'https://a:{S}@h' http://b:{S}@h", "curl 'https://***@h' http://***@h"),
    # Documents.
    (f'{{"password": "{S}", "lr": 1}}', '{"password": "***", "lr": 1}'),
    (f'{{"password": "a\\"{S}", "lr": 1}}', '{"password": "***", "lr": 1}'),
    (f"{{'token': '{S} b', 'lr': 1}}", "{'token': '***', 'lr': 1}"),
    (
        f'"{{\\"password\\": \\"{S} b\\", \\"lr\\": 1}}"',
        '"{\\"password\\": \\"***\\", \\"lr\\": 1}"',
    ),
    (f'{{"credentials": {{"user": "a", "x": "{S}"}}, "lr": 1}}', '{"credentials": ***, "lr": 1}'),
    (f'{{"passwords": ["a]", "{S}"], "lr": 1}}', '{"passwords": ***, "lr": 1}'),
    (f'["--password", "{S} x", "--lr", "1"]', '["--password", "***", "--lr", "1"]'),
    (f"a: 1\npassword: {S}\nlr: 1", "a: 1\npassword: ***\nlr: 1"),
    (f'{{"args": "--password {S}", "lr": 1}}', '{"args": "--password ***", "lr": 1}'),
    (f"A=1\\nPASSWORD={S}", "A=1\\nPASSWORD=***"),
    # Python.
    (f"connect(password='{S} y', lr=1)", "connect(password='***', lr=1)"),
    (f'x = 1; token = "{S} y"; run()', 'x = 1; token = "***"; run()'),
    (f"import os; os.environ['TOKEN'] = '{S} y'", "import os; os.environ['TOKEN'] = '***'"),
    (f'import os; os.putenv("TOKEN", "{S} y")', 'import os; os.putenv("TOKEN", "***")'),
    (f"class A:\n  password: str = '{S}'", "class A:\n  password: ***"),
    # Headers.
    (f"Authorization: Bearer {S}", "Authorization: ***"),
    (f"-H 'Authorization: Basic {S}' u", "-H 'Authorization: ***' u"),
    (f'-H "Cookie: a={S}; b={S}" u', '-H "Cookie: ***" u'),
    (f"X-Api-Key: {S}", "X-Api-Key: ***"),
    (f'{{"Authorization": "Bearer {S}"}}', '{"Authorization": "***"}'),
    (f"x Bearer {S}", "x Bearer ***"),
    # Known by their shape.
    ("run ghp_abcdefghijklmnopqrst", "run ***"),
    ("--id AKIAABCDEFGHIJKLMNOP", "--id ***"),
    ("x sk-abcdefghijklmnopqrstuvwx y", "x *** y"),
    (f"run nvapi-{'a1' * 20}", "run ***"),
    (f"run gsk_{'a1' * 20} r8_{'a1' * 18} dapi{'a1' * 16}", "run *** *** ***"),
    (f"--to https://hooks.slack.com/services/T0/B0/{S} x", "--to https://*** x"),
    (f"--to https://discord.com/api/webhooks/1/{S} x", "--to https://*** x"),
    (
        f"https://api.telegram.org/bot123456789:{S}{'a' * 30}/get",
        "https://api.telegram.org/***/get",
    ),
    ("eyJhbGciOiJI.eyJzdWIi.abc-_", "***"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- x", "*** x"),
]
KEPT = [
    *("lr=0.1 batch: 3", "http://host:80/path", "http://host:80/path@x", "http://[::1]:80/a@b"),
    *("ssh://git@github.com/a/b", "git@github.com:a/b", "train.py?", "a?b&c", "https://h/@scope/x"),
    *("python t.py --tokenizer bert --num_tokens 512 --max-tokens=4096", "--keys=4 --key-dim 64"),
    *(
        '{"token_type_ids": [1, 2], "pad_token": "<pad>"}',
        "/data/token/part-1",
        "monkey=3, passes=3",
    ),
    *('{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 0}}', "key=1"),
    *(
        "--xla_dump_to=gs://bucket/x --tf_xla_auto_jit=2",
        "token",
        "password",
        "a --token",
        "é\udcff",
    ),
    *(
        "for token in tokens: print(token)",
        "task-with-a-very-long-name-of-its-own",
        "x secretary y",
    ),
]


@pytest.mark.parametrize(("text", "stored"), SHAPES)
def test_secrets_inside_one_argument_are_masked(text, stored) -> None:
    """Scripts, documents, headers, addresses, and tokens known by their shape."""
    assert mask_text(text) == stored
    assert S not in stored


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_is_kept(text) -> None:
    """A command is of use as long as it can be read."""
    assert mask_text(text) == text


@pytest.mark.parametrize("text", [*(text for text, _ in SHAPES), *KEPT])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: text,
        lambda text: f"sh -c {shlex.quote(text)} x",
        lambda text: json.dumps({"command": text, "lr": 1}),
        lambda text: f"cd /x && {text}",
    ],
    ids=["bare", "shell", "json", "behind"],
)
def test_a_text_around_it_hides_no_secret(text, wrap) -> None:
    """One more pair of quotes is no way past."""
    assert S not in mask_text(wrap(text))


_WORDS = st.sampled_from(
    [
        *("--token", "password", "lr", "x", "://", "***", "http", "é", "#", "Bearer ", "setenv "),
        *("Authorization", "--use-auth", "eyJabcdefghi.", "sk-", '", "', "('"),
        *"'\"\\ =:,;&|?@/-[]{}()\n",
    ]
)
_TEXTS = st.lists(_WORDS, max_size=25).map("".join)


@settings(derandomize=True, deadline=None)
@given(st.lists(_TEXTS, max_size=4))
@example(["--use-auth:-=\n=@&?lr]Bearer ["])
@example(['password:"***\'***{http://}-\n\\\\(--token"} {"'])
@example(["- ,Authorization\\***|lr@[Authorization: ]Bearer =password:'#--use-auth',"])
@example(['(Authorization:", "@ #-x[***{&Authorization \nhttp'])
def test_masking_again_changes_nothing(arguments) -> None:
    """What is read is masked as what is written was; both must be the same command."""
    once = mask_arguments(arguments)

    assert mask_arguments(once) == once


@settings(derandomize=True, deadline=None)
@given(_TEXTS, _TEXTS)
@example("", '\\\'", "')
@example("", ",sk-=")
@example("", ")x\\'setenv x('] x")
@example("", "'\"' 'a\" '' b1 x")
@example("password]:, = ", "lr")
@example("Authorization: ", "x")
def test_a_quoted_value_of_a_secret_never_shows(before, value) -> None:
    """Whatever it holds, as long as a shell or JSON reads it as one value."""
    # Text in front that opens a quote of its own leaves no value that could be told.
    quiet = "".join(letter for letter in before if letter not in "'\"\\[({")
    quoted = json.dumps(value + S)

    assert S not in mask_text(f"{quiet} --password {quoted} --lr 1")
    assert S not in mask_text(f'{quiet} {{"password": {quoted}, "lr": 1}}')
    assert S not in mask_text(f"{quiet} --password {shlex.quote(value + S)}")


def _in_double_quotes(text: str) -> str:
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def _in_single_quotes(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _in_ansi_quotes(text: str) -> str:
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _escaped(text: str) -> str:
    return re.sub(r"([^\w\n])", r"\\\1", text).replace("\n", "'\n'")


def _in_yaml_quotes(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_SHELL_QUOTINGS = (shlex.quote, _in_double_quotes, _in_single_quotes, _in_ansi_quotes, _escaped)
_VALUES_BY_PLACE = {
    **dict.fromkeys(
        ["run --password {} --lr 1", "run --password={} --lr 1", "PASSWORD={} python t.py"],
        _SHELL_QUOTINGS,
    ),
    **dict.fromkeys(
        [
            *('{{"password": {}, "lr": 1}}', "connect(lr=1, password={}, x=1)"),
            *('["--password", {}, "--lr"]', "os.environ['TOKEN'] = {}; run()"),
        ],
        (json.dumps, repr),
    ),
    "lr: 1\npassword: {}\nx: 1": (json.dumps, _in_yaml_quotes),
}
_AROUND = {
    "nothing": lambda text: text,
    "shell": lambda text: f"sh -c {shlex.quote(text)} x",
    "shell, escaped": lambda text: f"sh -c {_in_single_quotes(text)} x",
    "shell, double": lambda text: f"sh -c {_in_double_quotes(text)}",
    "JSON": lambda text: json.dumps({"command": text, "lr": 1}),
    "Python": lambda text: repr([text]),
    "a shell in JSON": lambda text: json.dumps([f"sh -c {shlex.quote(text)}"]),
    "JSON in a shell": lambda text: f"run {shlex.quote(json.dumps({'c': text}))} x",
}


@pytest.mark.parametrize("around", _AROUND.values(), ids=_AROUND)
@pytest.mark.parametrize("place", _VALUES_BY_PLACE)
@settings(derandomize=True, deadline=None, max_examples=10)
@given(value=_TEXTS)
@example(value="' ")
@example(value="\\' \"x ")
@example(value="\"'{('-#&http,")
@example(value='\\", "')
@example(value="('://),")
def test_no_way_to_quote_hides_where_a_value_ends(place, around, value) -> None:
    """Where a shell, Python, JSON or YAML ends it, also inside the quotes of another one."""
    shown = [
        text
        for quote in _VALUES_BY_PLACE[place]
        if S in mask_text(text := around(place.format(quote(value + S))))
    ]

    assert shown == []


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (
            f"""sh -c 'run --password "'"'"'{S}" --lr 1' x""",
            """sh -c 'run --password "***" --lr 1' x""",
        ),
        (f"""['run --password "\\\\" {S}" --lr 1']""", """['run --password "***" --lr 1']"""),
        (
            f"""{{"c": "run 'it\\"s' --password '{S} y' x"}}""",
            """{"c": "run 'it\\"s' --password '***' x"}""",
        ),
        (f'{{"url": "http:\\/\\/a:{S}@h"}}', '{"url": "http:\\/\\/***@h"}'),
        (f"sh -c run\\ --password\\ {S}\\ --lr\\ 1", "sh -c run\\ --password\\ ***\\ --lr\\ 1"),
    ],
)
def test_a_masked_command_is_quoted_as_before(text, stored) -> None:
    """What stands around a value in nested quotes stays readable."""
    assert mask_text(text) == stored


@pytest.mark.parametrize(
    "unit",
    [
        *("a", "A", "-", ".", " ", "'", '"', "\\", "=", ":", ",", "&", "[", "(", "@", "://", "\n"),
        *(
            "token ",
            "token",
            "token=",
            "--token ",
            "token:'",
            "token[",
            "'token",
            "a=",
            ",a",
            "a:@",
        ),
        *("eyJ-", "eyJaaaaaaaa.", "sk-", "SG.a", "SG.aaaaaaaaaaaaaaaa.", "Bearer ", "bearer"),
        *("-----BEGIN ", "-----BEGIN PRIVATE KEY", "a://a:b/", "://a", "http://a@", "token=,a"),
        *('token="', "token: a=", 'token\\"', "tokenKey", "('", "setenv ", "token=\\", 'token=a"'),
        *(
            '\\"',
            "'\\''",
            "$'\\'",
            "a\\ ",
            '"token=a b" ',
            '"\\"token=\'',
            "Authorization: token='",
        ),
    ],
)
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_argument_of_a_megabyte_takes_linear_time(unit) -> None:
    """Quadratic work on a megabyte would not end within the limit of the test by far."""
    text = unit * (500_000 // len(unit))

    (masked,) = mask_arguments([f"{text} --token {text}"])

    assert len(masked) < 2_000_000


def test_the_agent_and_the_analyser_run_the_same_file() -> None:
    """There are no two sets of rules."""
    agents, ours = load("redact"), agent_files._redact()

    assert Path(str(agents.__file__)).samefile(str(ours.__file__))
    assert "tfprobe_redact" not in sys.modules


def test_old_recordings_are_masked_as_they_are_read(tmp_path: Path) -> None:
    """What an earlier version stored leaves by no command, page or table."""
    run = {"schema": "tfprobe.run/1", "id": "r", "pid": 1, "started_unix_ns": 1}
    run |= {"command": ["t.py", f"--dbpassword={S}"], "environment": {"TF_URL": f"http://a:{S}@h"}}
    process = {"schema": "tfprobe.process/1", "host": "h", "pid": 1, "started_unix_ns": 1}
    process |= {"argv": ["t.py", "--dbpassword", S], "program": ["t.py", "--dbpassword", S]}
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / "process.json").write_text(json.dumps(process))

    told = read_run(tmp_path / "run.json")

    assert told.command == ("t.py", "--dbpassword=***")
    assert told.environment == {"TF_URL": "http://***@h"}
    process_told = read_process(tmp_path / "process.json")
    assert process_told.argv == process_told.program == ("t.py", "--dbpassword", "***")


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


def test_the_agents_variables_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the speed depends on may name a storage, with who logs in to it."""
    monkeypatch.setenv("XLA_FLAGS", f"--xla_dump_to=s3://key:{S}@bucket --xla_x=1")

    told = load("config").speed_variables()["XLA_FLAGS"]

    assert told == "--xla_dump_to=s3://key:***@bucket --xla_x=1"
