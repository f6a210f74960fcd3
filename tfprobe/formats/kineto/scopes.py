"""Name the places that ops of a trace were called at: modules, annotations, and lines of Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tfprobe.errors import UnreadableInput
from tfprobe.profile.graph import Frame

_MODULE = "nn.Module: "
_FRAME = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.+)\Z", re.DOTALL)
# Code of PyTorch, and of our agent, that calls what matters: a stack without it says the same.
_PASSING = re.compile(
    r"(?:.*/)?tfprobe_agent/|(?:.*/)?torch/(?:_compile|_jit_internal|_ops|_tensor|autograd/|_dynamo/|fx/|jit/|profiler/"
    r"|nn/modules/module\.py|utils/_contextlib|utils/_python_dispatch|overrides)"
    r"|<frozen|<string>"
)
# What enters a context, such as `record_function`.
_ENTERS = re.compile(
    r"(?:<built-in (?:method|function) |.*\(\d+\): )(?:__enter__|_record_function_enter\w*)\b",
    re.DOTALL,
)
_OPTIMIZER = re.compile(r"Optimizer\.(?P<call>step|zero_grad)#(?P<name>\w+)\.")
_LOADER = re.compile(r"enumerate\(DataLoader\)")
# Behind it stands a number that differs from run to run.
_COMPILED = re.compile(r"## Call (CompiledFxGraph) ")
LOADER = "DataLoader"
# Looks like the separator of scopes but is none.
_NO_SCOPE = "\N{DIVISION SLASH}"
# No model nests deeper.
_MOST_DEPTH = 200


class Module(NamedTuple):
    """A module as the recording names it: its attribute path from the outermost model, its class,
    and its parameters with their shapes and types.
    """

    path: str
    class_name: str
    parameters: tuple[tuple[str, tuple[int, ...], str], ...]


def read_modules(content: bytes) -> dict[str, Module]:
    """Return the modules of a model by the names that traces have for them.

    Raises UnreadableInput if the bytes are no such file.
    """
    try:
        document = json.loads(content)
        return {
            str(module["name"]): Module(
                str(module["path"]),
                str(module["class"]),
                tuple(
                    (str(name), tuple(map(int, shape)), str(dtype))
                    for name, shape, dtype in module["parameters"]
                ),
            )
            for module in document["modules"]
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise UnreadableInput(f"no list of modules ({type(exc).__name__}: {exc})") from exc


@dataclass(frozen=True, slots=True)
class _Scope:
    """A scope; `root` is the scope of the outermost model around it."""

    text: str
    root: str = ""
    depth: int = 0


class Places:
    """Numbers scopes and stacks of Python; 0 is the outermost of each."""

    def __init__(self, texts: Sequence[str], modules: Mapping[str, Module]) -> None:
        """Take the names of boxes, and the modules of the model, {} if they are not recorded."""
        self._texts = texts
        self._modules = modules
        self._frames: dict[int, tuple[str | None, Frame | None]] = {}
        self._scopes: list[_Scope] = [_Scope("")]
        self._scope_numbers: dict[tuple[int, object], int] = {}
        self._stacks: list[tuple[Frame, ...]] = [()]
        self._callers = [0]
        self._stack_numbers: dict[tuple[int, Frame], int] = {}

    def frame(self, name: int) -> tuple[str | None, Frame | None]:
        """Return what a function of Python is by its name: a module, or a frame, or neither."""
        known = self._frames.get(name)
        if known is None:
            known = self._frames[name] = _parsed(self._texts[name])
        return known

    def opens_annotation(self, name: int) -> bool:
        """Return whether a function enters a context: an annotation may begin in it and go on."""
        return _ENTERS.match(self._texts[name]) is not None

    def in_module(self, scope: int, name: str) -> int:
        """Return the scope of a module that is called in a scope."""
        return self._numbered(scope, name, lambda: self._module(self._scopes[scope], name))

    def in_annotation(self, scope: int, name: int) -> int:
        """Return the scope of an annotation in a scope; some only say what their ops say, too."""
        text = _annotation(self._texts[name])
        if not text:
            return scope
        return self._numbered(scope, name, lambda: _below(self._scopes[scope], text))

    def called(self, stack: int, frame: Frame) -> int:
        """Return a stack with one more frame."""
        key = stack, frame
        known = self._stack_numbers.get(key)
        if known is None:
            known = self._stack_numbers[key] = len(self._stacks)
            self._stacks.append((*self._stacks[stack], frame))
            self._callers.append(stack)
        return known

    def at_line(self, stack: int, file: str, line: int) -> int:
        """Return a stack whose innermost frame is at this line, if it is of that file."""
        frames = self._stacks[stack]
        if not frames or frames[-1].file != file or frames[-1].line == line:
            return stack
        return self.called(self._callers[stack], replace(frames[-1], line=line))

    def scope(self, number: int) -> str:
        """Return the text of a scope."""
        return self._scopes[number].text

    def stack(self, number: int) -> tuple[Frame, ...]:
        """Return the frames of a stack, outermost first."""
        return self._stacks[number]

    def _numbered(self, scope: int, key: object, make: Callable[[], _Scope]) -> int:
        known = self._scope_numbers.get((scope, key))
        if known is None:
            known = scope
            if self._scopes[scope].depth < _MOST_DEPTH:
                known = len(self._scopes)
                self._scopes.append(make())
            self._scope_numbers[scope, key] = known
        return known

    def _module(self, around: _Scope, name: str) -> _Scope:
        known = self._modules.get(name)
        if known is None:
            return _below(around, name.replace("/", _NO_SCOPE))
        if not known.path:
            found = _below(around, known.class_name.replace("/", _NO_SCOPE))
            return _Scope(found.text, found.text, found.depth)
        text = "/".join(filter(None, (around.root, *known.path.split("."))))
        return _Scope(text, around.root, around.depth + 1)


def _below(around: _Scope, name: str) -> _Scope:
    text = f"{around.text}/{name}" if around.text else name
    return _Scope(text, around.root, around.depth + 1)


def _parsed(text: str) -> tuple[str | None, Frame | None]:
    if text.startswith(_MODULE):
        return text.removeprefix(_MODULE), None
    if text.startswith("<built-in") or _PASSING.match(text):
        return None, None
    found = _FRAME.match(text)
    if found is None:
        return None, None
    # PyTorch notes where a function begins; the line in it is known from what it calls, if at all.
    line = int(found["line"])
    return None, Frame(found["file"], line, found["function"], line)


def _annotation(text: str) -> str:
    """Return the scope that an annotation stands for."""
    optimizer = _OPTIMIZER.match(text)
    if optimizer is not None:
        return f"{optimizer['name']}.{optimizer['call']}"
    if _LOADER.match(text):
        return LOADER
    if text.startswith(("nccl:", "gloo:")):
        return ""
    compiled = _COMPILED.match(text)
    if compiled is not None:
        return compiled[1]
    return text.replace("/", _NO_SCOPE)
