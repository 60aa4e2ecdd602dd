"""Executable mathematics: statements of the papers as functions, corrected where they are printed wrong."""
