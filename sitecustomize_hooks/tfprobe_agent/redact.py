"""Mask what looks like a secret in command lines and settings, by names and shapes alone. Python 3.6.

The agent and the analyser run this one file. Whatever a text holds, the time grows with its length: each pattern begins
at a character that no earlier match of it has passed, and a name is looked at once. Masking twice changes nothing more.
"""

import re

MASK = "***"

# --- Names. A name is taken apart into words: `hf_token` is a secret, `tokenizer` and `token_type_ids` are not.

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Most names hold none of these, and are done with.
_STEM = re.compile(r"pass|pw|secret|token|auth|key|cred|cookie|bearer|jwt|otp", re.IGNORECASE)
# Secret wherever they stand, also inside a word: `dbpassword`, `mysecretkey`.
_INSIDE = re.compile(r"passw(?:or)?d|passphrase|passcode|secret(?!ar)|credential|apikey|accesskey|privatekey")
_WHOLE = frozenset(
    ["auth", "authorization", "bearer", "cookie", "cookies", "cred", "creds", "jwt", "oauth", "otp", "pw"]
)
_AT_THE_END = ("pwd", "token")
# Before `key`; a key of nothing is one of a dictionary, of attention or of a sort.
_BEFORE_KEY = frozenset(
    ["access", "account", "admin", "api", "app", "auth", "crypt", "decryption", "deploy", "encrypt", "encryption"]
    + ["hmac", "license", "master", "oauth", "priv", "private", "root", "rsa", "secret", "session", "shared", "sign"]
    + ["signing", "ssh", "ssl", "storage", "subscription", "tls", "webhook"]
    + ["anthropic", "aws", "azure", "cohere", "comet", "consumer", "fernet", "gcp", "github", "gitlab", "google"]
    + ["groq", "hf", "kaggle", "mistral", "neptune", "ngc", "openai", "replicate", "wandb"]
)
# Before `pass`; a pass of nothing else is one over data.
_BEFORE_PASS = frozenset(
    ["admin", "db", "ftp", "http", "imap", "keystore", "ldap", "login", "mail", "mongo", "my", "mysql", "pg"]
    + ["postgres", "proxy", "redis", "root", "smtp", "ssh", "ssl", "sudo", "truststore", "user"]
)
_BEFORE_TOKENS = ("access", "api", "auth", "bearer", "refresh")
# What a model calls a token: `pad_token`, `max_token`, `mask_token`.
_BEFORE_WORD_TOKEN = frozenset(
    ["audio", "blank", "bos", "class", "cls", "decoder", "dist", "distill", "distillation", "end", "eod"]
    + ["eos", "eot", "first", "image", "keep", "lang", "language", "last", "latent", "mask", "max", "mem"]
    + ["memory", "min", "n", "next", "num", "pad", "padding", "patch", "per", "prefix", "prompt", "query"]
    + ["register", "sentinel", "sep", "soft", "sos", "special", "start", "stop", "sub", "text", "unk", "video"]
    + ["vision", "visual", "word"]
)
_AFTER_WORD_TOKEN = frozenset(
    ["acc", "accuracy", "batch", "batches", "budget", "classification", "drop", "dropout", "emb", "embed", "embedding"]
    + ["embeddings", "hidden", "id", "ids", "index", "indices", "keep", "learner", "level", "loss", "mask", "masking"]
    + ["masks", "merge", "merging", "mixer", "mixing", "noise", "pool", "pooling", "pos", "position", "positions"]
    + ["pruning", "reduction", "shift", "vocab", "weight", "weights"]
)
# A name that ends so tells of a secret, and does not hold it: `password_file`, `token_type`, `auth_method`.
_ABOUT = frozenset(
    ["column", "count", "dim", "dims", "dir", "endpoint", "expiry", "field", "file", "files", "folder", "fraction"]
    + ["frames", "heads", "host", "layer", "layers", "len", "length", "limit", "method", "mode", "name", "names", "num"]
    + ["path", "points", "policy", "port", "prob", "provider", "rate", "ratio", "scope", "size", "strategy", "timeout"]
    + ["ttl", "type", "types", "user", "username"]
)
# In the query of a URL these, too, are what opens the door: signed URLs of storages, keys of services.
_IN_QUERY = re.compile(r"key\Z|(?:.*[._-])?(?:sig|signature)\Z", re.IGNORECASE)
# `--use-auth --lr 1`: a switch takes no value, though a word that follows it may still be one.
_OF_SWITCHES = frozenset(
    ["allow", "ask", "disable", "enable", "has", "ignore", "is", "no", "not", "require", "skip", "use"]
)

# --- Shapes. What may fail only after a long text begins where no other such text goes on.

_SHAPE = re.compile(
    r"\b(?:[sr]k_(?:live|test)_\w{10,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|hf_\w{16,}|(?:AKIA|ASIA)[0-9A-Z]{12,}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}|xox[abeprs]-[\w-]{10,}|xapp-[\w-]{10,}|gl(?:pat|dt|rt)-[\w-]{16,}"
    r"|nvapi-[\w-]{30,}|gsk_\w{30,}|r8_\w{30,}|dapi[0-9a-f]{32}"
    r"|hooks\.slack\.com/(?:services|workflows)/[\w/-]+|discord(?:app)?\.com/api/webhooks/[\w/-]+"
    r"|bot\d{8,10}:[\w-]{30,}"
    r"|npm_\w{30,}|dckr_pat_[\w-]{16,}|pypi-[\w-]{30,}|hvs\.[\w-]{16,})"
    r"|(?<![\w-])(?:sk-[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)"
)
_BEARER = re.compile(r"(?<![\w-])([Bb]earer\s+)[\w+/][\w.~+/=-]{7,}")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)

# --- URLs.

_AUTHORITY = re.compile(r"[^\s/?#\"'<>]*")
_REST_OF_URL = re.compile(r"[^\s\"'<>]{0,256}")

# --- Names and values inside one text: shell, JSON, YAML, Python, queries of URLs.

_OPTION = re.compile(r"--?[^\W\d][\w.-]*\Z")
_NAME = re.compile(r"[\w.-]+")
_WHOLE_ARGUMENT = re.compile(r"([\w.-]+)(?:=|:(?!//)\s*(?=[^\n]*\Z))")
# Also as it stands inside another quoted text: escaped, or as a shell writes its own quote.
_ANY_QUOTE = r"(?:'\"'\"'|'\\''|\\*[\"'])"
_QUOTE = re.compile(_ANY_QUOTE)
_ASSIGN = re.compile(_ANY_QUOTE + r"?\]?\s*(?::=|=>|==?|:(?!//))\s*")
_BLANK = re.compile(_ANY_QUOTE + r"?\s+")
_COMMA = re.compile(_ANY_QUOTE + r"\s*,\s*(?=" + _ANY_QUOTE + ")")
_SCHEME = re.compile(r"(?:Bearer|Basic|Digest|Negotiate|Token)\s+", re.IGNORECASE)
_AGAIN = re.compile(r"\s*=\s*")  # after a type: `password: str = "x"`
_LINE = re.compile(r"[^\n\"']*")
_BACKSLASHES = re.compile(r"\\+")
_QUOTE_OR_ESCAPE = re.compile(r"\\.|[\"']", re.DOTALL)
_QUOTED = {
    '"': re.compile(r"[^\"\\]*(?:\\.[^\"\\]*)*", re.DOTALL),
    "'": re.compile(r"[^'\\]*(?:\\.[^'\\]*)*", re.DOTALL),
}
_BRACKET_OR_QUOTE = re.compile(r"[\[\](){}\"']")
_PLAIN = re.compile(r"[^\s;&|,\"'\\\[({]+")
_NEXT_PAIR = re.compile(r",[\w.-]+=")
_HEADERS = ("authorization", "cookie")
_LONGEST_NAME = 200
_LAST_NAME = re.compile(r"([\w.-]+)(?:\s*[=:]\s*|\s+)\Z")


def arguments(words):
    """Return the command line with everything that looks secret replaced by `***`."""
    shown = []
    before = None  # the option whose value this word is, where that is a secret
    for word in words:
        is_option = _OPTION.match(word) is not None and is_secret(word)
        if before is not None and not (_is_switch(before) and word.startswith("-")):
            # A value may begin with dashes. If it looks like another such option it may be that, too.
            shown.append(MASK)
        else:
            shown.append(text(word))
        before = word if is_option else None
    return shown


def text(value):
    """Mask what looks secret inside one argument, which may be a whole script or document."""
    whole = _WHOLE_ARGUMENT.match(value)
    if whole is not None and is_secret(whole.group(1)):
        return whole.group() + MASK
    # Names before shapes: a shape may reach into a name, whose value then shows.
    value = _named(_PRIVATE_KEY.sub(MASK, _urls(value)))
    return _SHAPE.sub(MASK, _BEARER.sub(r"\1" + MASK, value))


def is_secret(name):
    """Tell by its words whether a name holds a secret."""
    if _STEM.search(name) is None:
        return False
    words = [word.lower() for word in _WORD.findall(name[2:] if name.startswith("-D") else name)]
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _ABOUT:
        return False
    return any(_is_secret_word(words, index) for index in range(len(words)))


def _is_secret_word(words, index):
    word, before = words[index], words[index - 1] if index else ""
    if word in _WHOLE or _INSIDE.search(word) is not None:
        return True
    if word.endswith(_AT_THE_END):
        return not (word.endswith("token") and _is_word_token(words, index))
    if word.endswith(("key", "keys")):
        return (word[: word.rindex("key")] or before) in _BEFORE_KEY
    if word == "tokens":
        return before in _BEFORE_TOKENS
    if word.endswith("pass"):
        return words == ["pass"] or (word[:-4] or before) in _BEFORE_PASS
    return False


def _is_word_token(words, index):
    """Tell a token of text, as a model has them, from one that opens a door."""
    before = words[index][: -len("token")] or (words[index - 1] if index else "")
    return before in _BEFORE_WORD_TOKEN or not _AFTER_WORD_TOKEN.isdisjoint(words[index + 1 :])


def _is_switch(option):
    return _WORD.findall(option)[0].lower() in _OF_SWITCHES


def _urls(value):
    """Mask who a URL logs in as: the password, and of http, where a token may stand alone, all of it."""
    parts, done = [], 0
    at = value.find("://")
    while at >= 0:
        start = at + 3
        end = _AUTHORITY.match(value, start).end()
        last = value.rfind("@", start, end)
        if last < 0:
            last = _after_slashes(value, start, end)
        if last >= 0:
            user, colon, _ = value[start:last].partition(":")
            is_http = value[max(0, at - 5) : at].lower().endswith(("http", "https"))
            parts += [value[done:start], MASK if is_http else user + (colon and ":" + MASK)]
            done = last
        at = value.find("://", max(start, end - 1, done))
    return "".join(parts) + value[done:]


def _after_slashes(value, start, end):
    """Find the `@` of a password with slashes in it, or -1; digits behind a colon are a port."""
    host, _, port = value[start:end].partition(":")
    if not port or port.isdigit() or host.startswith("["):
        return -1
    rest = _REST_OF_URL.match(value, end).end()
    another = value.find("://", end - 1, rest)
    return value.rfind("@", end, rest if another < 0 else another)


def _named(value):
    """Mask the values of secret names, wherever they stand in a text."""
    parts, done, position, quote = [], 0, 0, ""
    while True:
        name = _NAME.search(value, position)
        if name is None:
            return "".join(parts) + value[done:]
        quote = _quote_at(value, position, name.start(), quote)
        position = name.end()
        separator = _separator(value, name) if _is_secret_here(value, name) else None
        if separator is None or separator.end() == len(value):
            continue
        start = separator.end()
        quote = _quote_at(value, position, start, quote)
        position = _value_end(value, name.group(), separator.group(), start, quote)
        parts += [value[done:start], _masked(value[start:position])]
        done = position


def _quote_at(value, start, end, quote):
    """Return the quote that is open at `end`, given the one at `start`; "" for none."""
    for found in _QUOTE_OR_ESCAPE.finditer(value, start, end):
        if found.group() == quote:
            quote = ""
        elif not quote and len(found.group()) == 1:
            quote = found.group()
    return quote


def _is_secret_here(value, name):
    start, word = name.start(), name.group()
    before = value[start - 1 : start]
    if before and before in "?&#" and _IN_QUERY.match(word) is not None:
        return True
    # The n of a written-out newline is no part of the name.
    return is_secret(word) or (before == "\\" and word[0] in "nrt" and is_secret(word[1:]))


def _separator(value, name):
    """Match what stands between a name and its value, or return None where the name has none."""
    start, end = name.span()
    assigned = _ASSIGN.match(value, end)
    if assigned is not None:
        return assigned
    if _OPTION.match(name.group()) is not None:
        blank = _COMMA.match(value, end) or _BLANK.match(value, end)
        is_other = blank is not None and _is_switch(name.group()) and value.startswith("-", blank.end())
        return None if is_other else blank
    quoting = value[max(0, start - 8) : start]  # of a call: `putenv("TOKEN", "x")`
    if quoting.endswith(("'", '"')) and quoting.rstrip("\\\"'").endswith("("):
        return _COMMA.match(value, end)
    return _BLANK.match(value, end) if value.endswith("setenv ", 0, start) else None


def _value_end(value, name, separator, start, quote):
    """Return where a value ends. In doubt it is longer: what is masked too much harms nobody."""
    if ":" in separator and name.lower().endswith(_HEADERS) and _QUOTE.match(value, start) is None:
        end = _LINE.match(value, start).end()
        last = _LAST_NAME.search(value, max(start, end - _LONGEST_NAME), end)
        # The quote that ends the line begins the value of another secret.
        return _word_end(value, end, quote) if last is not None and is_secret(last.group(1)) else end
    end = _word_end(value, start, quote)
    scheme = _SCHEME.match(value, start, end)
    start = start if scheme is None else scheme.end()
    while _OPTION.match(value[start:end]) is not None and is_secret(value[start:end]):
        blank = _BLANK.match(value, end)  # the value looks like an option whose value is another secret
        if blank is None or blank.end() == len(value):
            return end
        start, end = blank.end(), _word_end(value, blank.end(), quote)
    again = _AGAIN.match(value, end) if ":" in separator else None
    return end if again is None else _word_end(value, again.end(), quote)


def _word_end(value, start, quote):
    """Return the end of a word as a shell has it: plain text, quoted text and brackets in any order."""
    scheme = _SCHEME.match(value, start)
    start = position = start if scheme is None else scheme.end()
    is_closed = False  # a quoted text or a bracket has just ended: what ends a value of JSON ends this one
    while position < len(value):
        letter = value[position]
        if letter.isspace() or letter in ";&|" or (is_closed and letter in ",:)]}"):
            break
        opening = _QUOTE.match(value, position)
        is_closed = False
        if value.startswith(MASK, position):  # as read again: what was quoted or in brackets, perhaps
            position, is_closed = position + len(MASK), True
        elif opening is not None:
            if position > start and _closes_outer(value, opening, quote):
                break
            position, is_closed = _after_quoted(value, opening), True
        elif letter == "\\":
            position = _BACKSLASHES.match(value, position).end() + 1
        elif letter in "[({":
            position, is_closed = _after_bracket(value, position), True
        elif letter != ",":
            position = _PLAIN.match(value, position).end()
        elif _NEXT_PAIR.match(value, position) is not None:
            break
        else:
            position += 1
    return min(position, len(value))


def _closes_outer(value, quoting, quote):
    """Tell a quote that ends the text around a value from one that is part of the value."""
    if len(quoting.group()) == 1:
        return quoting.group() == quote
    after = value[quoting.end() : quoting.end() + 1]
    return not after or after.isspace() or after in ",;:&|)]}"


def _after_quoted(value, opening):
    quoting = opening.group()
    if len(quoting) == 1:
        return min(_QUOTED[quoting].match(value, opening.end()).end() + 1, len(value))
    end = value.find(quoting, opening.end())
    while end > 0 and value[end - 1] == "\\":
        end = value.find(quoting, end + 1)
    return len(value) if end < 0 else end + len(quoting)


def _after_bracket(value, position):
    depth = 0
    while True:
        found = _BRACKET_OR_QUOTE.search(value, position)
        if found is None:
            return len(value)
        position = found.end()
        if found.group() in "\"'":
            position = _after_quoted(value, found)
        elif found.group() in "[({":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return position


def _masked(value):
    """Keep the quotes of a value that is one quoted text, so that JSON stays JSON."""
    opening = _QUOTE.match(value)
    if opening is None or _after_quoted(value, opening) != len(value) or not value.endswith(opening.group()):
        return MASK
    return opening.group() + MASK + opening.group()
