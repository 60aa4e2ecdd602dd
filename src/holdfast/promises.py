"""Whether an object satisfies the protocol of its family, and if not, what is missing."""

from __future__ import annotations

import inspect
import re
import types
import typing
from typing import Any

from torch import nn

from holdfast.errors import RecipeError
from holdfast.types import Architecture, Attack, Certifier, Corruption, Loss, Objective

CHECK = "an attack, certifier or corruption"


def require_attack(value: Any, place: str = "attack") -> Any:
    """Refuse what is no attack, saying what is missing."""
    return require_protocol(Attack, value, place)


def require_objective(value: Any, place: str = "objective") -> Any:
    """Refuse what is no objective, saying what is missing."""
    return require_protocol(Objective, value, place)


def require_certifier(value: Any, place: str = "certifier") -> Any:
    """Refuse what is no certifier, saying what is missing."""
    return require_protocol(Certifier, value, place)


def require_check(value: Any, place: str = "check") -> Any:
    """Refuse what is neither attack nor certifier nor corruption, saying what is missing."""
    return require_protocol(None, value, place)


def require_protocol(protocol: Any, value: Any, place: str) -> Any:
    """Refuse an object that breaks a promise of its protocol.

    Args:
        protocol: such as `Attack`; a union or None for a check.
        value: the object.
        place: where it is, for the message.

    Raises:
        RecipeError: which part is missing.
    """
    if problem := broken_promise(protocol, value):
        raise RecipeError(f"{place}: {problem}")
    return value


def broken_promise(protocol: Any, value: Any) -> str | None:
    """Which part of a protocol an object lacks, in one sentence; None if it has all of it.

    Args:
        protocol: such as `Attack`; a union or None for a check.
        value: the object.
    """
    is_check = protocol is None or typing.get_origin(protocol) is types.UnionType
    expected = CHECK if is_check else _described(protocol)
    if isinstance(value, type):
        return f"expected {expected}; got the class {value.__name__}; make an instance, {value.__name__}(...)"
    if type(value).__module__.partition(".")[0] == "holdfast" and is_check:
        return None  # checks that others make ready, such as transferred attacks, are no attacks yet
    if protocol is Architecture and isinstance(value, nn.Module):
        return f"expected {expected}, which makes a network; got a network; train it with holdfast.fit"
    missing = missing_part(_nearest(value) if is_check else protocol, value)
    return f"expected {expected}; {missing}" if missing else None


def _described(protocol: Any) -> str:
    """What people call a member of a family: the name of its protocol with an article."""
    words = "loss" if protocol is Loss else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", protocol.__name__).lower()
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _nearest(value: Any) -> Any:
    """The kind of check that an object most looks like."""
    if hasattr(value, "threat"):
        return Attack
    if hasattr(value, "smoothed") or hasattr(value, "norm"):
        return Certifier
    return {2: Certifier, 3: Attack}.get(_positional(value), Corruption)


def _positional(value: Any) -> int:
    """How many arguments without names a call takes at least."""
    try:
        parameters = inspect.signature(_call(value)).parameters.values()
    except (TypeError, ValueError):
        return 0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in kinds and each.default is inspect.Parameter.empty for each in parameters)


def missing_part(protocol: Any, value: Any) -> str | None:
    """The first part of a protocol that an object lacks."""
    own = getattr(value, "__name__", type(value).__name__)
    wanted = vars(protocol).get("__call__") if isinstance(protocol, type) else _loss
    if wanted is not None and not callable(value):
        return f"{own} cannot be called"
    for name in members(protocol):
        if not hasattr(value, name):
            return f"{own} has no `{name}`"
        static = inspect.getattr_static(protocol, name, None)
        method = getattr(type(value), name, None)
        if isinstance(static, staticmethod) and (problem := signature_problem(static.__func__, method, name)):
            return f"{own}: {problem}; make it a static method"
    return None if wanted is None else signature_problem(wanted, _call(value), own)


def members(protocol: Any) -> list[str]:
    """Attributes and methods that a protocol promises beside the call."""
    classes = [each for each in getattr(protocol, "__mro__", ()) if getattr(each, "_is_protocol", False)]
    names = [name for each in classes for name in (*vars(each), *getattr(each, "__annotations__", {}))]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _loss(logits: Any, y: Any, /) -> Any:
    """The call of a loss, whose protocol is no class."""


def _call(value: Any) -> Any:
    """What has the signature of a call: of a module its `forward`, since its own call takes anything."""
    return value.forward if isinstance(value, nn.Module) and type(value).__call__ is nn.Module.__call__ else value


def signature_problem(wanted: Any, function: Any, name: str) -> str | None:
    """Why a function cannot be called as that of a protocol is called."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # written in C; calling it will show
    own = signature.parameters.values()
    parameters = [each for each in inspect.signature(wanted).parameters.values() if each.name != "self"]
    keywords = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    anything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in own)
    for keyword in keywords:
        if keyword not in signature.parameters and not anything:
            return f"{name}: its call does not accept `{keyword}`"
    names = [each.name for each in parameters if each.name not in keywords]
    try:
        signature.bind(*names, **dict.fromkeys(keywords))
    except TypeError:
        given = ", ".join([*names, *(f"{keyword}=..." for keyword in keywords)])
        return f"{name} must accept ({given}); its signature is {signature}"
    return None
