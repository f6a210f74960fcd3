"""A test build of the agent in which every function can be made to raise, one at a time."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.tf.laboratory import environment_of_a_job

HOOKS = Path(__file__).parents[2] / "sitecustomize_hooks"

# Functions that the interpreter or the job calls: each contains the call of the original, which the
# agent must not fail, and everything of the agent that it calls is made to raise in turn. `failed`
# handles errors; alone it is never called.
ENTRY_POINTS = frozenset(
    {
        "activities:activity.__call__",
        "activities:activity.__call__.named",
        "activities:activity.__enter__",
        "activities:activity.__exit__",
        "activities:activity.__init__",
        "activities:noted.around.call",
        "boot:Finder.find_spec",
        "boot:Finder._find_with_others",
        "boot:Finder._may_watch",
        "boot:Finder._watch.begin",
        "boot:Finder._watch.end",
        "boot:Finder._watch.ready",
        "boot:_find_nothing",
        "boot:import_and_let_through",
        "core.step_wrapper:make.around.step_wrapper",
        "core.step_wrapper:_settle",
        "hooks:_around_after_fork.after_fork",
        "core.guard:failed",
        "core.guard:never_raise.guarded",
        "core.guard:never_raise_noting.guarded",
        "frameworks.tensorflow.__init__:_around_server.start",
        "frameworks.jax.compiles:_Timer.__enter__",
        "frameworks.jax.compiles:_Timer.__exit__",
        "frameworks.jax.compiles:_Timer.__init__",
        "frameworks.jax.compiles:_around_enter.enter",
        "frameworks.jax.compiles:_around_exit.leave",
        "frameworks.jax.compiles:_around_lookup.get_executable_and_time",
        "frameworks.jax.compiles:_around_timer.log_elapsed_time",
        "frameworks.jax.functions:_around_eval_shape.eval_shape",
        "frameworks.jax.functions:_around_maker.wrapped",
        "frameworks.jax.stand_in:CompiledFunction.__copy__",
        "frameworks.jax.stand_in:CompiledFunction.__deepcopy__",
        "frameworks.jax.stand_in:CompiledFunction.__dir__",
        "frameworks.jax.stand_in:CompiledFunction.__get__",
        "frameworks.jax.stand_in:CompiledFunction.__getattr__",
        "frameworks.jax.stand_in:CompiledFunction.__reduce_ex__",
        "frameworks.jax.stand_in:CompiledFunction.__repr__",
        "frameworks.jax.stand_in:CompiledFunction._copied",
        "frameworks.jax.stand_in:_PassingFor.__hash__",
        "frameworks.jax.waits:_around.wait",
        "frameworks.keras.models:_adopting.around.make",
        "frameworks.keras.models:_execution_function.around.make",
        "frameworks.keras.models:_in_phase.around.method",
        "frameworks.torch.callables:_Call.__deepcopy__",
        "frameworks.torch.callables:_Call.__reduce_ex__",
        "frameworks.torch.callables:_around_compile.compile",
        "frameworks.torch.optimizers:around_step.step",
        "frameworks.torch.callables:_around_compiler.init",
        "frameworks.torch.callables:_around_replicate.replicate",
        "frameworks.torch.callables:_around_train.train",
        "frameworks.torch.callables:_waiting.call",
        "frameworks.torch.callables:_wrap.call",
        "frameworks.torch.gradients:_around.around.take_gradient",
        "frameworks.torch.gradients:around_preparation.prepare",
        "frameworks.torch.inputs:_around_next.take",
        "frameworks.torch.optimizers:_around_scaler.step",
        "frameworks.torch.optimizers:_begin",
        "frameworks.torch.optimizers:end_step",
        "frameworks.torch.optimizers:_hooks.after_step",
        "frameworks.torch.optimizers:_hooks.before_step",
        "frameworks.torch.profiler:_ThreadEnd.__del__",
        "frameworks.torch.profiler:_around_begin.begin",
        "frameworks.torch.profiler:_between_instructions",
        "frameworks.torch.profiler:_around_end.end",
        "frameworks.torch.compiles:_around_compile.compile_frame",
        "frameworks.torch.compiles:_around_enter.enter",
        "frameworks.torch.compiles:_around_record.record_compilation_metrics",
        "frameworks.torch.profiler:before_fork",
        "frameworks.torch.saves:_around.save",
        "frameworks.tensorflow.optimizers:_around.apply",
        "frameworks.tensorflow.optimizers:_around_gradient.gradient",
        "frameworks.tensorflow.optimizers:_around_tape.enter",
        "frameworks.job_profiler:around_start.start",
        "frameworks.job_profiler:around_start_server.start_server",
        "frameworks.tensorflow.python_ops:_around.call",
        "frameworks.tensorflow.session:_with_made.around.make",
        "frameworks.tensorflow.session:_with_role.call",
    }
)

_FAULTS = '''
"""Which function is to raise, and which have been entered."""
import os

armed = os.environ.get("TEST_FAULT")
entered = {}


class Injected(Exception):
    """The planted error."""


def enter(name):
    entered[name] = entered.get(name, 0) + 1
    if name == armed:
        raise Injected(name)
'''


def build(boot: Path, *, trace_level: str = "full") -> list[str]:
    """Write the faulty agent into `boot`; return the names of all functions it can make raise."""
    agent = boot / "tfprobe_agent"
    agent.mkdir(parents=True)
    shutil.copy(HOOKS / "sitecustomize.py", boot)
    (agent / "faults.py").write_text(_FAULTS)
    names: list[str] = []
    for source in sorted((HOOKS / "tfprobe_agent").rglob("*.py")):
        path = source.relative_to(HOOKS / "tfprobe_agent")
        tree = ast.parse(source.read_text())
        # The module that decides whose an error is calls no other, and runs only together with
        # `failed`.
        has_functions = any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))
        if has_functions and source.stem != "interruptions":
            _Plant(".".join(path.with_suffix("").parts), names).visit(tree)
            at = 1 if ast.get_docstring(tree) is not None else 0
            tree.body.insert(at, ast.parse("from tfprobe_agent import faults as _faults").body[0])
        (agent / path).parent.mkdir(exist_ok=True)
        (agent / path).write_text(ast.unparse(ast.fix_missing_locations(tree)))
    config = {"schema": "tfprobe.config/1", "steps": None, "every": 1, "budget": 0.01}
    config["trace_level"] = trace_level
    (boot / "config.json").write_text(json.dumps(config))
    return names


class _Plant(ast.NodeTransformer):
    """Insert `_faults.enter(name)` at the top of each function but the entry points."""

    def __init__(self, module: str, names: list[str]) -> None:
        self._path = [module + ":"]
        self._names = names

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._inside(node)
        name = self._path[0] + ".".join([*self._path[1:], node.name])
        if name not in ENTRY_POINTS:
            self._names.append(name)
            at = 1 if ast.get_docstring(node) is not None else 0
            node.body.insert(at, ast.parse(f"_faults.enter({name!r})").body[0])
        return node

    def _inside(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()
        return node


def assert_harmless(command: list[str], boot: Path, *, patience_s: float) -> None:
    """Assert that a job prints the same bare as with the faulty agent in `boot`, for each fault."""
    bare = _run(command, {}, patience_s)
    faulty = _run(command, {"PYTHONPATH": str(boot)}, patience_s)

    assert bare.stdout == faulty.stdout
    tried = next(line for line in faulty.stderr.splitlines() if line.startswith("FAULTS "))
    assert int(tried.split()[1]) > 60


def _run(
    command: list[str], extra: dict[str, str], patience_s: float
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        env=environment_of_a_job(extra),
        capture_output=True,
        text=True,
        timeout=patience_s,
        cwd=os.path.sep,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done
