"""Whether an object keeps the protocol of its family, and if not, what is missing."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any

from holdfast.errors import RecipeError
from holdfast.types import Attack, Certifier, Corruption, Loss, Objective

WORDS: dict[Any, str] = {
    Attack: "an attack",
    Certifier: "a certifier",
    Corruption: "a corruption",
    Loss: "a loss",
    Objective: "an objective",
}
"""What people call the families; the others by the names of their protocols."""

CHECK = "an attack, certifier or corruption"


def require_attack(value: Any, place: str = "attack") -> Any:
    """Refuse what is no attack, saying what is missing."""
    return require_kept(Attack, value, place)


def require_objective(value: Any, place: str = "objective") -> Any:
    """Refuse what is no objective, saying what is missing."""
    return require_kept(Objective, value, place)


def require_certifier(value: Any, place: str = "certifier") -> Any:
    """Refuse what is no certifier, saying what is missing."""
    return require_kept(Certifier, value, place)


def require_check(value: Any, place: str = "check") -> Any:
    """Refuse what is neither attack nor certifier nor corruption, saying what is missing."""
    return require_kept(None, value, place)


def require_kept(protocol: Any, value: Any, place: str) -> Any:
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
    """Which part of a protocol an object lacks, in one sentence; None if it keeps it.

    Args:
        protocol: such as `Attack`; a union or None for a check.
        value: the object.
    """
    is_check = protocol is None or typing.get_origin(protocol) is types.UnionType
    expected = CHECK if is_check else WORDS.get(protocol, f"a {getattr(protocol, '__name__', 'method').lower()}")
    if isinstance(value, type):
        return f"expected {expected}; got the class {value.__name__}; make an instance, {value.__name__}(...)"
    if type(value).__module__.partition(".")[0] == "holdfast" and is_check:
        return None  # checks that others make ready, such as transferred attacks, are no attacks yet
    missing = _missing(_nearest(value) if is_check else protocol, value)
    name = getattr(value, "__name__", type(value).__name__)
    return f"expected {expected}; {name} {missing}" if missing else None


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
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return 0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in kinds and each.default is inspect.Parameter.empty for each in parameters)


def _missing(protocol: Any, value: Any) -> str | None:
    """The first part of a protocol that an object lacks."""
    wanted = vars(protocol).get("__call__") if isinstance(protocol, type) else _loss
    if wanted is not None and not callable(value):
        return "cannot be called"
    for name in _members(protocol):
        if not hasattr(value, name):
            return f"has no `{name}`"
    return None if wanted is None else _misfit(inspect.signature(wanted), value)


def _members(protocol: Any) -> list[str]:
    """Attributes and methods that a protocol promises beside the call."""
    classes = [each for each in getattr(protocol, "__mro__", ()) if getattr(each, "_is_protocol", False)]
    names = [name for each in classes for name in (*vars(each), *getattr(each, "__annotations__", {}))]
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _loss(logits: Any, y: Any, /) -> Any:
    """The call of a loss, whose protocol is no class."""


def _misfit(wanted: inspect.Signature, value: Any) -> str | None:
    """Why an object cannot be called as a protocol calls it."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None  # written in C; calling it will show
    own = signature.parameters.values()
    parameters = [each for each in wanted.parameters.values() if each.name != "self"]
    keywords = [each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY]
    anything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in own)
    for name in keywords:
        if name not in signature.parameters and not anything:
            return f"takes no `{name}` in its call"
    names = [each.name for each in parameters if each.name not in keywords]
    try:
        signature.bind(*names, **dict.fromkeys(keywords))
    except TypeError:
        given = ", ".join([*names, *(f"{name}=..." for name in keywords)])
        return f"cannot be called with ({given}), but with {signature}"
    return None
