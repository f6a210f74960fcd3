"""Follow the arguments of a graph's functions: which tensor or variable each one is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprobe.formats.node_attributes import output_number
from tfprobe.profile.graph import LoopVariable, Output

# The first input of these chooses what runs; the arguments are the others.
_BRANCHES = ("If", "StatelessIf", "Case", "StatelessCase")
_LOOPS = ("While", "StatelessWhile")
_ARGUMENTS = ("Placeholder", "_Arg")
_HANDLES = ("VarHandleOp",)
# The output is the handle that came in.
_HANDS_ON = ("Enter", "Identity", "RefEnter", "RefSwitch", "Switch")
# Ops whose first inputs are handles of variables.
_USES = re.compile(r"ReadVariableOp\Z|Resource[A-Z]|Assign\w*VariableOp\Z")
_RESOURCE = 20  # DT_RESOURCE
_UNCLEAR: Output = ("", -1)


@dataclass(frozen=True, slots=True)
class Body:
    """The nodes of a graph, or of one of its functions; the graph itself has no name.

    `arguments` and `results` are in the order of the function's signature; a result is the text of
    an input. Any: message classes are made at run time.
    """

    name: str
    nodes: Mapping[str, Any]
    arguments: tuple[str, ...]
    results: tuple[str, ...]

    def output(self, text: str) -> Output:
        """Return the output that the text of an input names."""
        name, _, rest = text.removeprefix("^").partition(":")
        argument, _, number = rest.rpartition(":")
        node = self.nodes.get(name)
        at = int(number) if number.isascii() and number.isdigit() else 0
        return name, output_number("" if node is None else node.op, argument, at)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A node that runs a function: `inputs` are the texts of its arguments, in order."""

    caller: Body
    function: str
    node: str
    inputs: tuple[str, ...]
    is_plain: bool
    is_loop_body: bool


class FunctionCalls:
    """The bodies of a GraphDef and the calls among them, without functions that nothing calls."""

    def __init__(self, graph: Any) -> None:
        """Follow the calls from the graph's own nodes. Any: as in Body."""
        functions = {each.signature.name: each for each in graph.library.function}
        top = Body("", {node.name: node for node in graph.node}, (), ())
        self.bodies: dict[str, Body] = {"": top}
        self.of: dict[str, list[FunctionCall]] = {}
        self._roots: dict[tuple[str, str], frozenset[str]] = {}
        waiting = [top]
        while waiting:
            for call in _calls(waiting.pop()):
                self.of.setdefault(call.function, []).append(call)
                if call.function in functions and call.function not in self.bodies:
                    body = self.bodies[call.function] = _body(functions[call.function])
                    waiting.append(body)

    def variables(self, body: str, node: Any) -> tuple[str, ...]:
        """Return the variables that a node of a body uses, as names of the graph's nodes."""
        if body not in self.bodies or not _USES.match(node.op):
            return ()
        texts = (text for text in node.input if not text.startswith("^"))
        found = (self._handles(body, text) for text in texts)
        return tuple(dict.fromkeys(name for names in found for name in sorted(names)))

    def _handles(self, body: str, text: str) -> frozenset[str]:
        name = text.partition(":")[0]
        known = self._roots.get((body, name))
        if known is None:
            # A loop that passes its own argument on adds none.
            self._roots[body, name] = frozenset()
            known = self._roots[body, name] = self._found_handles(body, name)
        return known

    def _found_handles(self, body: str, name: str) -> frozenset[str]:
        node = self.bodies[body].nodes.get(name)
        if node is None:
            return frozenset(
                handle
                for call, text in self.passed(body, name)
                for handle in self._handles(call.caller.name, text)
            )
        if node.op in _HANDS_ON and node.input:
            return self._handles(body, node.input[0])
        if node.op in _HANDLES or (node.op in _ARGUMENTS and _may_be_handle(node)):
            return frozenset({name})
        return frozenset()

    def passed(self, body: str, argument: str) -> Iterator[tuple[FunctionCall, str]]:
        """Yield what each call of a function passes as one of its arguments."""
        names = self.bodies[body].arguments
        if argument not in names:
            return
        at = names.index(argument)
        for call in self.of.get(body, ()):
            if at < len(call.inputs):
                yield call, call.inputs[at]

    def arguments(self) -> dict[str, Output]:
        """Return which output is passed as each argument of functions, by the argument's name.

        Includes only plain calls, and names that stand for one output and for no node.
        """
        found: dict[str, set[Output]] = {}
        for body in self.bodies.values():
            for argument in body.arguments:
                for call, text in self.passed(body.name, argument):
                    made = call.caller.output(text) if call.is_plain else _UNCLEAR
                    found.setdefault(argument, set()).add(made)
        return {name: outputs.pop() for name, outputs in self._clear(found).items()}

    def insides(self) -> dict[str, frozenset[str]]:
        """Return, by each node that runs a function, the function's nodes that the graph lacks."""
        found: dict[str, frozenset[str]] = {}
        top = self.bodies[""].nodes.keys()
        for name, calls in self.of.items():
            inside = (
                frozenset(self.bodies[name].nodes) - top if name in self.bodies else frozenset()
            )
            for call in calls:
                found[call.node] = found.get(call.node, frozenset()) | inside
        return found

    def loop_variables(self) -> tuple[LoopVariable, ...]:
        """Return what loops carry between iterations, for names that stand for one thing."""
        found: dict[str, set[LoopVariable]] = {}
        for name, calls in self.of.items():
            body = self.bodies.get(name)
            if body is None:
                continue
            for call in (each for each in calls if each.is_loop_body):
                places = zip(body.arguments, body.results, call.inputs, strict=False)
                for at, (argument, result, initial) in enumerate(places):
                    variable = LoopVariable(
                        argument, call.caller.output(initial), body.output(result), (call.node, at)
                    )
                    found.setdefault(argument, set()).add(variable)
        return tuple(variables.pop() for variables in self._clear(found).values())

    def _clear(self, found: dict[str, set[Any]]) -> dict[str, set[Any]]:
        """Return the names that stand for one thing. Any: of any kind."""
        nodes = {name for body in self.bodies.values() for name in body.nodes}
        return {
            name: each
            for name, each in found.items()
            if len(each) == 1 and _UNCLEAR not in each and name not in nodes
        }


def _may_be_handle(node: Any) -> bool:
    return "dtype" not in node.attr or node.attr["dtype"].type in (0, _RESOURCE)


def _body(function: Any) -> Body:
    return Body(
        name=function.signature.name,
        nodes={node.name: node for node in function.node_def},
        arguments=tuple(each.name for each in function.signature.input_arg),
        results=tuple(function.ret[each.name] for each in function.signature.output_arg),
    )


def _calls(body: Body) -> Iterator[FunctionCall]:
    for node in body.nodes.values():
        first = 1 if node.op in _BRANCHES else 0
        inputs = tuple(text for text in node.input if not text.startswith("^"))[first:]
        for key, value in node.attr.items():
            names = [value.func.name] if value.HasField("func") else []
            for name in (*names, *(each.name for each in value.list.func)):
                yield FunctionCall(
                    caller=body,
                    function=name,
                    node=node.name,
                    inputs=inputs,
                    is_plain=node.op in ("PartitionedCall", "StatefulPartitionedCall"),
                    is_loop_body=node.op in _LOOPS and key == "body",
                )
