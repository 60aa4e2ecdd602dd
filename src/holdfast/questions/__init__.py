"""Questions about networks: one unit for each, found by its name without importing torch."""

from holdfast.families import QUESTIONS
from holdfast.questions.question import Question

__all__ = ["QUESTIONS", "Question"]
