"""Methods for holdfast, found by it through the entry points in `pyproject.toml`."""
