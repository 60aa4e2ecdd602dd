"""The contracts of holdfast as functions, for authors of plug-ins and for our own suite."""

from holdfast.testing.question import check_question

__all__ = ["check_question"]
