"""A network's forward pass, recorded as a graph and followed with a Lipschitz bound of each value."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from holdfast.errors import ModelError
from holdfast.lipschitz.convolution import OrthogonalConvolution
from holdfast.lipschitz.dense import OrthogonalDense
from holdfast.lipschitz.precision import PRECISIONS
from holdfast.lipschitz.rules import FUNCTIONS, IN_PLACE, OF_SEVERAL, RULES, layer_rule
from holdfast.lipschitz.rules.moves import attribute, described
from holdfast.lipschitz.tally import Rule, Site, Tally, place
from holdfast.lipschitz.values import Value, depends, read, values
from holdfast.modes import evaluating

ORTHOGONAL = (OrthogonalDense, OrthogonalConvolution)
"""Layers that are bounded as the ordinary ones that they replace."""


@dataclass(frozen=True)
class Walk:
    """A walk along a network's graph that applies the rule of each operation.

    Args:
        tally: record of the bound.
        path: path of the layer that is followed; empty for the whole network.
    """

    tally: Tally
    path: str = ""

    def __call__(self, model: nn.Module, value: Value) -> Any:
        """The model's output for a value."""
        root = Root(model)
        environment: dict[fx.Node, Any] = {}
        for node in trace(root, self.path).nodes:
            if node.op == "output":
                return fx.node.map_arg(node.args[0], environment.__getitem__)
            environment[node] = value if node.op == "placeholder" else self._visit(root, node, environment)
        raise AssertionError("a graph without an output")

    def _visit(self, root: nn.Module, node: fx.Node, environment: Mapping[fx.Node, Any]) -> Any:
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(root)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), environment.__getitem__)
        name = self.path or _below(next(reversed(node.meta.get("nn_module_stack", {})), ""))
        if node.op == "call_module":
            return self._layer(root.get_submodule(str(node.target)), name, args, kwargs)
        call, kind, rule = _operation(node)
        if not depends((args, kwargs)) or (kind in ("getattr", "getitem") and not isinstance(args[0], Value)):
            return call(*args, **kwargs)
        return _apply(Site(self.tally, name, kind, call), rule, args, kwargs)

    def _layer(self, module: nn.Module, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        site = Site(self.tally, name, type(module).__name__, module)
        if not depends((args, kwargs)):
            return module(*args, **kwargs)
        if module._forward_hooks or module._forward_pre_hooks:
            raise site.refuse("has hooks, which may change what it computes")
        if isinstance(module, ORTHOGONAL) and len(args) == 1 and isinstance(args[0], Value):
            plain = module.plain()
            with evaluating(plain):
                return Walk(self.tally, name)(plain, args[0])
        rule = layer_rule(module)
        return _apply(site, rule and functools.partial(rule, module), args, kwargs)


def _apply(site: Site, rule: Rule | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The output of an operation's rule."""
    if rule is None:
        raise site.refuse("no rule is known for this operation")
    if rule not in OF_SEVERAL and (depends((args[1:], kwargs)) or not isinstance(args[0], Value)):
        raise site.refuse("depends on the input in more than one way")
    try:
        tensors, named = fx.node.map_aggregate((tuple(args), dict(kwargs)), read)
        site = dataclasses.replace(site, output=site.call(*tensors, **named))
        inspect.signature(rule).bind(site, *args, **kwargs)
    except (ModelError, RuntimeError, TypeError) as error:
        raise site.refuse(_line(error)) from error
    if rule not in (attribute, described):
        _require_floats(site, args, kwargs)
    return rule(site, *args, **kwargs)


def _require_floats(site: Site, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse discontinuous values: indices, and values rounded to whole numbers or coarsely."""
    if not all(each.tensor.is_floating_point() for each in values((args, kwargs))):
        raise site.refuse("uses indices of the largest values, which jump")
    if isinstance(args[0], Value) and isinstance(site.output, Tensor) and site.output.dtype not in PRECISIONS:
        raise site.refuse(f"rounds to {str(site.output.dtype).removeprefix('torch.')}")


class Root(nn.Module):
    """A network as the only child, so that it is called like any other layer, with its default arguments."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        """The network's output."""
        return self.model(x)


class InPlace(fx.Proxy):
    """A stand-in for a value that records `y += z` as in place: other references to y see the change."""

    def __iadd__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.iadd, (self, other), {})

    def __isub__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.isub, (self, other), {})

    def __imul__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.imul, (self, other), {})

    def __itruediv__(self, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", operator.itruediv, (self, other), {})


class Tracer(fx.Tracer):
    """A recorder of forward passes down to torch's layers and those with a rule; it keeps where that failed."""

    failed = ""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether a layer is recorded as a whole."""
        has_rule = isinstance(m, ORTHOGONAL) or layer_rule(m) is not None
        return has_rule or super().is_leaf_module(m, module_qualified_name)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """The stand-in for a value."""
        return InPlace(node, self)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The stand-in for a layer's output in the record."""
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception:
            self.failed = self.failed or place(_below(self.path_of_module(m)), type(m).__name__)
            raise


STATES = (torch.no_grad, torch.enable_grad, torch.inference_mode)
"""Gradient modes in which a network may be called; it must compute the same in all."""


def trace(root: Root, path: str) -> fx.Graph:
    """The record of a forward pass, which must not depend on whether gradients are recorded."""
    generator = torch.get_rng_state()
    with torch.no_grad():
        graph = _record(root, path)
    for state in STATES[1:]:
        other = Root(root.model)
        with torch.random.fork_rng(devices=[]), state():
            torch.set_rng_state(generator)
            record = _record(other, path)
        if _listing(record, other) != _listing(graph, root):
            raise ModelError(
                f"lipschitz bound: {path or 'model'}: the forward pass differs under torch.{state.__name__}; expected "
                "one that does not depend on whether gradients are recorded"
            )
    return graph


def _record(root: Root, path: str) -> fx.Graph:
    tracer = Tracer()
    try:
        return tracer.trace(root)
    except Exception as error:  # a forward pass that meets a stand-in for its input may raise anything
        where = path or tracer.failed
        raise ModelError(
            f"lipschitz bound: {where}: cannot follow the forward pass: {_line(error).partition('. ')[0]}"
        ) from error


def _listing(graph: fx.Graph, root: Root) -> list[Any]:
    """The operations of a graph, for comparison, with the values of the constants that it creates."""
    constants = [getattr(root, name).tolist() for name in sorted(vars(root)) if name.startswith("_tensor_constant")]
    return [(node.op, node.target, str(node.args), str(node.kwargs)) for node in graph.nodes] + constants


def _operation(node: fx.Node) -> tuple[Callable[..., Any], str, Rule | None]:
    """The function that a node calls, its name and its rule; `add_` has the rule of `add`."""
    if node.op == "call_method":
        name = str(node.target)
        rule = RULES.get(name.removesuffix("_") if name in IN_PLACE else name)
        return lambda source, *args, **kwargs: getattr(source, name)(*args, **kwargs), name, rule
    assert callable(node.target)
    function = FUNCTIONS.get(node.target, "")
    return node.target, function or getattr(node.target, "__name__", str(node.target)), RULES.get(function)


def _below(path: str) -> str:
    """Path of a layer below the root."""
    return path.removeprefix("model").lstrip(".") or "model"


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
