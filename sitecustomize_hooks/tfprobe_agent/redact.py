"""Mask what looks like a secret in command lines and settings, by names and shapes alone. Python 3.6.

The agent and the analyser run this one file. The time grows with the length of a text, whatever it contains: each
pattern begins at a character that no earlier match of it has passed, and each name is examined once. Masking twice
changes nothing more.

A text is searched as it stands, and once more in each quoted part, without its quotes and escapes: where the value of a
secret ends depends on how many shells and parsers have yet to read it.
"""

import bisect
import collections
import re

MASK = "***"

# --- Names. A name is split into words: `hf_token` is a secret, `tokenizer` and `token_type_ids` are not.

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Most names contain none of these and need no further checks.
_STEM = re.compile(r"pass|pw|secret|token|auth|key|cred|cookie|bearer|jwt|otp", re.IGNORECASE)
# Secret wherever they occur, also inside a word: `dbpassword`, `mysecretkey`.
_INSIDE = re.compile(r"passw(?:or)?d|passphrase|passcode|secret(?!ar)|credential|apikey|accesskey|privatekey")
_WHOLE = frozenset(
    ["auth", "authorization", "bearer", "cookie", "cookies", "cred", "creds", "jwt", "oauth", "otp", "pw"]
)
_AT_THE_END = ("pwd", "token")
# Before `key`; a key of anything else is one of a dictionary, of attention or of a sort.
_BEFORE_KEY = frozenset(
    ["access", "account", "admin", "api", "app", "auth", "crypt", "decryption", "deploy", "encrypt", "encryption"]
    + ["hmac", "license", "master", "oauth", "priv", "private", "root", "rsa", "secret", "session", "shared", "sign"]
    + ["signing", "ssh", "ssl", "storage", "subscription", "tls", "webhook"]
    + ["anthropic", "aws", "azure", "cohere", "comet", "consumer", "fernet", "gcp", "github", "gitlab", "google"]
    + ["groq", "hf", "kaggle", "mistral", "neptune", "ngc", "openai", "replicate", "wandb"]
)
# Before `pass`; a pass of anything else is one over data.
_BEFORE_PASS = frozenset(
    ["admin", "db", "ftp", "http", "imap", "keystore", "ldap", "login", "mail", "mongo", "my", "mysql", "pg"]
    + ["postgres", "proxy", "redis", "root", "smtp", "ssh", "ssl", "sudo", "truststore", "user"]
)
_BEFORE_TOKENS = ("access", "api", "auth", "bearer", "refresh")
# Tokens of text, as models have them: `pad_token`, `max_token`, `mask_token`.
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
# A name with such an ending is about a secret but does not hold it: `password_file`, `token_type`, `auth_method`.
_ABOUT = frozenset(
    ["column", "count", "dim", "dims", "dir", "endpoint", "expiry", "field", "file", "files", "folder", "fraction"]
    + ["frames", "heads", "host", "layer", "layers", "len", "length", "limit", "method", "mode", "name", "names", "num"]
    + ["path", "points", "policy", "port", "prob", "provider", "rate", "ratio", "scope", "size", "strategy", "timeout"]
    + ["ttl", "type", "types", "user", "username"]
)
# In the query of a URL these also grant access: signed URLs of storage services, keys of services.
_IN_QUERY = re.compile(r"key\Z|(?:.*[._-])?(?:sig|signature)\Z", re.IGNORECASE)
# `--use-auth --lr 1`: a switch takes no value, though a word that follows it may still be one.
_OF_SWITCHES = frozenset(
    ["allow", "ask", "disable", "enable", "has", "ignore", "is", "no", "not", "require", "skip", "use"]
)

# --- Shapes. A pattern that may fail only after a long text begins where no other such text continues.

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
# Also as it appears inside another quoted text: escaped, or as a shell writes its own quote.
_ANY_QUOTE = r"(?:'\"'\"'|'\\''|\\*[\"'])"
_QUOTE = re.compile(_ANY_QUOTE)
_ASSIGN = re.compile(_ANY_QUOTE + r"?\]?\s*(?::=|=>|==?|:(?!//))\s*")
_BLANK = re.compile(_ANY_QUOTE + r"?\s+")
_COMMA = re.compile(_ANY_QUOTE + r"\s*,\s*(?=" + _ANY_QUOTE + ")")
_PLAIN_QUOTE = re.compile(r"[\"']")
_SCHEME = re.compile(r"(?:Bearer|Basic|Digest|Negotiate|Token)\s+", re.IGNORECASE)
_AGAIN = re.compile(r"\s*=\s*")  # after a type: `password: str = "x"`
_LINE = re.compile(r"[^\n\"']*")
_ESCAPED = re.compile(r"\\.?", re.DOTALL)
_ESCAPED_MORE_THAN_ONCE = re.compile(r"\\+.?", re.DOTALL)
_QUOTE_OR_ESCAPE = re.compile(r"\\.|[\"']", re.DOTALL)
_ESCAPED_DOUBLE, _ESCAPED_SINGLE, _SINGLE = r"[^\"\\]*(?:\\.[^\"\\]*)*", r"[^'\\]*(?:\\.[^'\\]*)*", r"[^']*"
# In single quotes a backslash is an escape in Python and in $'...', and a letter in a shell and in YAML.
_LITERAL_QUOTED = {'"': re.compile(_ESCAPED_DOUBLE, re.DOTALL), "'": re.compile(_ESCAPED_SINGLE, re.DOTALL)}
_SHELL_QUOTED = {'"': _LITERAL_QUOTED['"'], "'": re.compile(_SINGLE)}
# How to read a value: what opens a quoted text in it, what the quoted text contains, what a backslash escapes, and what
# ends the value after a quoted text.
_Reading = collections.namedtuple("_Reading", ["opening", "quoted", "escaped", "closers"])
_OF_DOCUMENT = (
    _Reading(_QUOTE, _LITERAL_QUOTED, _ESCAPED_MORE_THAN_ONCE, ",:)]}"),
    _Reading(_QUOTE, _SHELL_QUOTED, _ESCAPED_MORE_THAN_ONCE, ",:)]}"),
)
_OF_ASSIGNMENT = (*_OF_DOCUMENT, _Reading(_PLAIN_QUOTE, _SHELL_QUOTED, _ESCAPED, ",:)]}"))
_OF_OPTION = tuple(reading._replace(closers=")") for reading in _OF_ASSIGNMENT)
_BRACKET_OR_QUOTE = re.compile(r"[\[\](){}\"']")
_PLAIN = re.compile(r"[^\s;&|,\"'\\\[({]+")
_STARS = re.compile(r"\*{3,}")
_NEXT_PAIR = re.compile(r",[\w.-]+=")
_HEADERS = ("authorization", "cookie")
_LONGEST_NAME = 200

# --- Quoted parts of a text, as a shell and as Python or JSON reads them.

_DEPTH = 3
_SHELL_PIECE = re.compile(
    r"(?P<between>[\s;&|()<>]+|(?<=[\"'])[,:\]}]+)|(?P<plain>(?:[^\s;&|()<>'\"\\$]|\$(?!'))+)|\\(?P<escape>.?)"
    r"|'(?P<single>"
    + _SINGLE
    + r")'?|\"(?P<double>"
    + _ESCAPED_DOUBLE
    + r")\"?|\$'(?P<ansi>"
    + _ESCAPED_SINGLE
    + r")'?",
    re.DOTALL,
)
_LITERAL = re.compile(
    r"\"(?P<double>" + _ESCAPED_DOUBLE + r")\"?|'(?P<single>" + _ESCAPED_SINGLE + r")'?",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_OF_SHELL = re.compile(r"\\([\"\\$`\n])")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_MAY_HOLD_SECRET = re.compile(_STEM.pattern + "|://", re.IGNORECASE)
# A text that masking still changes after this many passes is masked as a whole.
_MOST_PASSES = 6


def arguments(words):
    """Return the command line with everything that looks secret replaced by `***`."""
    shown = []
    before = None  # the option whose value this word is, if that is a secret
    for word in words:
        is_option = _OPTION.match(word) is not None and is_secret(word)
        if before is not None and not (_is_switch(before) and word.startswith("-")):
            # A value may begin with dashes. If it looks like another such option it may be one as well.
            shown.append(MASK)
        else:
            shown.append(text(word))
        before = word if is_option else None
    return shown


def text(value):
    """Mask what looks secret inside one argument, which may be a whole script or document."""
    for _ in range(_MOST_PASSES):
        masked = _replaced(value, _secrets(value, _DEPTH))
        if masked == value:
            return value
        value = masked
    return MASK


def is_secret(name):
    """Return whether a name holds a secret, judged by its words."""
    if _STEM.search(name) is None:
        return False
    words = [word.lower() for word in _WORD.findall(name[2:] if name.startswith("-D") else name)]
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _ABOUT:
        return False
    return any([_is_secret_word(words, index) for index in range(len(words))])


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
    """Return whether this is a token of text, as models have them, not one that grants access."""
    before = words[index][: -len("token")] or (words[index - 1] if index else "")
    return before in _BEFORE_WORD_TOKEN or not _AFTER_WORD_TOKEN.isdisjoint(words[index + 1 :])


def _is_switch(option):
    return _WORD.findall(option)[0].lower() in _OF_SWITCHES


def _secrets(value, depth):
    """Return the spans of secrets in a text, in any order; they may overlap."""
    whole = _WHOLE_ARGUMENT.match(value)
    if whole is not None and is_secret(whole.group(1)):
        return [(whole.end(), len(value))]
    secrets, rest = [], value
    # Names before shapes: a shape may extend into a name, whose value would then be left visible.
    for find in (_logins, _private_keys, _named, _shapes):
        spans = find(rest)
        rest = _blanked(rest, spans)
        secrets += spans
    if depth:
        for part in _quoted_parts(value):
            if _MAY_HOLD_SECRET.search(part.text) is not None:
                secrets += [part.outside(start, end) for start, end in _secrets(part.text, depth - 1) if start < end]
    return secrets


def _replaced(value, spans):
    return _filled(value, spans, lambda start, end: MASK)


def _blanked(value, spans):
    """Replace masked spans by as many stars, so that what follows stays in place."""
    return _filled(value, spans, lambda start, end: "*" * (end - start))


def _filled(value, spans, fill):
    parts, done = [], 0
    for start, end in _joined(spans):
        parts += [value[done:start], fill(start, end)]
        done = end
    return "".join(parts) + value[done:]


def _joined(spans):
    joined = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _private_keys(value):
    return [match.span() for match in _PRIVATE_KEY.finditer(value)]


def _shapes(value):
    spans = [(match.end(1), match.end()) for match in _BEARER.finditer(value)]
    return spans + [match.span() for match in _SHAPE.finditer(_blanked(value, spans))]


def _logins(value):
    """Find the credentials in URLs: the password; of http, where a token may stand alone, the user name as well."""
    spans, done = [], 0
    index = value.find("://")
    while index >= 0:
        start = index + 3
        end = _AUTHORITY.match(value, start).end()
        last = value.rfind("@", start, end)
        if last < 0:
            last = _after_slashes(value, start, end)
        if last >= 0:
            is_http = value[max(0, index - 5) : index].lower().endswith(("http", "https"))
            first = start if is_http else value.find(":", start, last) + 1
            if first:
                spans.append((first, last))
            done = last
        index = value.find("://", max(start, end - 1, done))
    return spans


def _after_slashes(value, start, end):
    """Find the `@` of a password with slashes in it, or -1; digits after a colon are a port."""
    host, _, port = value[start:end].partition(":")
    if not port or port.isdigit() or host.startswith("["):
        return -1
    rest = _REST_OF_URL.match(value, end).end()
    another = value.find("://", end - 1, rest)
    return value.rfind("@", end, rest if another < 0 else another)


def _named(value):
    """Find the values of secret names anywhere in a text."""
    spans, position, quote = [], 0, ""
    while True:
        name = _NAME.search(value, position)
        if name is None:
            return spans
        quote = _quote_at(value, position, name.start(), quote)
        position = name.end()
        separator = _separator(value, name) if _is_secret_here(value, name) else None
        if separator is None or separator.end() == len(value):
            continue
        start = separator.end()
        quote = _quote_at(value, position, start, quote)
        position = _value_end(value, name.group(), separator.group(), start, quote)
        spans.append(_without_quotes(value, start, position))


def _quote_at(value, start, end, quote):
    """Return the quote that is open at `end`, given the one at `start`; "" for none."""
    for match in _QUOTE_OR_ESCAPE.finditer(value, start, end):
        if match.group() == quote:
            quote = ""
        elif not quote and len(match.group()) == 1:
            quote = match.group()
    return quote


def _is_secret_here(value, name):
    start, word = name.start(), name.group()
    before = value[start - 1 : start]
    if before and before in "?&#" and _IN_QUERY.match(word) is not None:
        return True
    # The n of an escaped newline is not part of the name.
    return is_secret(word) or (before == "\\" and word[0] in "nrt" and is_secret(word[1:]))


def _separator(value, name):
    """Match what separates a name from its value, or return None if the name has no value."""
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
    """Return where a value ends, and in doubt a later place: masking too much does no harm."""
    readings = _readings(name, separator, quote)
    is_header = ":" in separator and name.lower().endswith(_HEADERS)
    if is_header and _QUOTE.match(value, start) is None:
        position = _LINE.match(value, start).end()
    else:
        position = _word_end(value, start, quote, readings)
    while True:
        again = _AGAIN.match(value, position) if ":" in separator else None
        following = _value_of_last_name(value, start, position) if again is None else again.end()
        if following is None or following == len(value):
            return position
        start, position = following, _word_end(value, following, quote, readings)
        if is_header:
            position = _LINE.match(value, position).end()


def _readings(name, separator, quote):
    is_of_shell = ":" not in separator or separator[0].isspace()
    if not is_of_shell or _PLAIN_QUOTE.search(separator) is not None:
        return _OF_DOCUMENT
    readings = _OF_ASSIGNMENT if _OPTION.match(name) is None else _OF_OPTION
    # A shell reads a quoted text only once it is out of its quotes, see _quoted_parts.
    return readings[:2] if quote else readings


def _value_of_last_name(value, start, end):
    """Return where the value of another secret begins whose name ends the masked text, or None."""
    names = list(_NAME.finditer(value, max(start, end - _LONGEST_NAME), end))
    if not names or not is_secret(names[-1].group()):
        return None
    separator = _separator(value, names[-1])
    return separator.end() if separator is not None and separator.end() >= end else None


def _word_end(value, start, quote, readings):
    scheme = _SCHEME.match(value, start)
    start = start if scheme is None else scheme.end()
    return max(_word_end_by(reading, value, start, quote) for reading in readings)


def _word_end_by(reading, value, start, quote):
    """Return the end of a word as a shell reads it: plain text, quoted text and brackets in any order."""
    position = start
    is_closed = False  # a quoted text or a bracket has just ended: what ends a value of JSON ends this one
    while position < len(value):
        letter = value[position]
        if letter.isspace() or letter in ";&|" or (is_closed and letter in reading.closers):
            break
        opening = reading.opening.match(value, position)
        is_closed = False
        if value.startswith(MASK, position):  # read again after masking: perhaps it was quoted or in brackets
            position, is_closed = _STARS.match(value, position).end(), True
        elif opening is not None:
            if position > start and _closes_outer(value, opening, quote):
                break
            position, is_closed = _after_quoted(reading.quoted, value, opening), True
        elif letter == "\\":
            position = reading.escaped.match(value, position).end()
        elif letter in "[({":
            position, is_closed = _after_bracket(reading.quoted, value, position), True
        elif letter != ",":
            position = _PLAIN.match(value, position).end()
        elif "," in reading.closers and _NEXT_PAIR.match(value, position) is not None:
            break
        else:
            position += 1
    return position


def _closes_outer(value, quoting, quote):
    """Return whether a quote ends the text around a value, rather than being part of the value."""
    if len(quoting.group()) == 1:
        return quoting.group() == quote
    after = value[quoting.end() : quoting.end() + 1]
    return not after or after.isspace() or after in ",;:&|)]}"


def _after_quoted(quoted, value, opening):
    quoting = opening.group()
    if len(quoting) == 1:
        return min(quoted[quoting].match(value, opening.end()).end() + 1, len(value))
    end = value.find(quoting, opening.end())
    while end > 0 and value[end - 1] == "\\":
        end = value.find(quoting, end + 1)
    return len(value) if end < 0 else end + len(quoting)


def _after_bracket(quoted, value, position):
    depth = 0
    while True:
        match = _BRACKET_OR_QUOTE.search(value, position)
        if match is None:
            return len(value)
        position = match.end()
        if match.group() in "\"'":
            position = _after_quoted(quoted, value, match)
        elif match.group() in "[({":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return position


def _without_quotes(value, start, end):
    """Keep the quotes of a value that is one quoted text, so that JSON stays valid."""
    opening = _QUOTE.match(value, start, end)
    if opening is None or not value.endswith(opening.group(), opening.end(), end):
        return start, end
    if _after_quoted(_LITERAL_QUOTED, value, opening) != end:
        return start, end
    return opening.end(), end - len(opening.group())


class _Part:
    """A quoted part of a text without its quotes and escapes, and where each letter of it came from."""

    __slots__ = ("_pieces", "_starts", "text")

    def __init__(self, pieces):
        """`pieces` are (offset, length, text, quoting); a length longer than the text's is that of an escape."""
        self.text = "".join(piece[2] for piece in pieces)
        self._pieces = pieces
        self._starts = []
        start = 0
        for piece in pieces:
            self._starts.append(start)
            start += len(piece[2])

    def outside(self, start, end):
        """Translate a span of the part. Both ends must lie in quotes of one kind, so that a shell can still read it."""
        starts = [self._letter(start)[::2]]
        ends = [self._letter(end - 1)[1:]]
        if start:
            starts.append(self._letter(start - 1)[1:])
        if end < len(self.text):
            ends.append(self._letter(end)[::2])
        alike = [(a[0], b[0]) for a in starts for b in ends if a[1] == b[1]]
        return alike[0] if alike else (starts[-1][0], ends[-1][0])

    def _letter(self, position):
        """Return the span of a letter in the outer text, and the quoting there."""
        index = bisect.bisect_right(self._starts, position) - 1
        offset, length, text, quoting = self._pieces[index]
        if length > len(text):
            return offset, offset + length, quoting
        offset += position - self._starts[index]
        return offset, offset + 1, quoting


def _quoted_parts(value):
    if _QUOTE_OR_ESCAPE.search(value) is None:
        return
    for pieces in _shell_words(value):
        yield _Part(pieces)
    if "\\" in value:  # else both read the same
        for match in _LITERAL.finditer(value):
            yield _Part(list(_unescaped(value, *match.span(match.lastgroup), _ESCAPE, match.lastgroup)))


def _shell_words(value):
    """Yield the pieces of each word that is quoted or contains quoted text."""
    pieces, is_quoted = [], False
    for match in _SHELL_PIECE.finditer(value):
        kind = match.lastgroup
        if kind == "between":
            if is_quoted:
                yield pieces
            pieces, is_quoted = [], False
            continue
        is_quoted |= kind != "plain"
        start, end = match.span(kind)
        if kind in ("double", "ansi"):
            pieces += _unescaped(value, start, end, _ESCAPE_OF_SHELL if kind == "double" else _ESCAPE, kind)
        elif start < end:
            pieces.append((start, end - start, value[start:end], kind))
    if is_quoted:
        yield pieces


def _unescaped(value, start, end, escape, quoting):
    for match in escape.finditer(value, start, end):
        if start < match.start():
            yield start, match.start() - start, value[start : match.start()], quoting
        yield match.start(), 2, _CONTROLS.get(match.group(1), match.group(1)), quoting
        start = match.end()
    if start < end:
        yield start, end - start, value[start:end], quoting
