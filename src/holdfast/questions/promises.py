"""Whether an object is a question that can be measured, and if not, what is missing."""

from __future__ import annotations

import inspect
from typing import Any

from holdfast.errors import RecipeError
from holdfast.promises import broken_promise, members, missing_part, signature_problem
from holdfast.questions.question import InRecords, PerExample, Preparing, Question


def broken_question(value: Any) -> str | None:
    """Which part of a question an object lacks, in one sentence; None if it has all of it."""
    problem = broken_promise(Question, value)
    if problem is None and not isinstance(value, Preparing) and (missing := _unmeasured(value)):
        problem = f"expected a question; {missing}"
    return problem


def require_question(value: Any, place: str) -> None:
    """Refuse what is no question, saying what is missing.

    Raises:
        RecipeError: which part.
    """
    if problem := broken_question(value):
        raise RecipeError(f"{place}: {problem}")


def require_measurement(value: Any, place: str) -> None:
    """Refuse what measures neither columns nor records.

    Raises:
        RecipeError: which part is missing.
    """
    if missing := _unmeasured(value):
        raise RecipeError(f"{place}: expected a measurement in columns or in records; {missing}")


def _unmeasured(value: Any) -> str | None:
    """The first part that an object lacks to measure columns or, where it has any part of these, records."""
    protocol = InRecords if any(hasattr(value, name) for name in members(InRecords)) else PerExample
    if missing := missing_part(protocol, value):
        return missing
    methods = {name: method for name, method in vars(protocol).items() if inspect.isfunction(method)}
    public = {name: method for name, method in methods.items() if not name.startswith("_")}
    problems = (signature_problem(method, getattr(value, name), name) for name, method in public.items())
    return next(filter(None, problems), None)
