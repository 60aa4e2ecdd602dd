"""What to write into a test so that a counter-example stays: printed after a run that met one."""

import ast
import re

import pytest

PREFIX = re.compile(r"(Falsifying example|Failing test case): ")
ARGUMENT = re.compile(r"^    (?=\w+=)", re.MULTILINE)


def example_lines(error, given):
    """The `@example` decorators of an error's counter-examples, of the arguments that hypothesis gives."""
    notes = list(getattr(error, "__notes__", ()))
    for inner in getattr(error, "exceptions", ()):
        notes += getattr(inner, "__notes__", ())
    return list(dict.fromkeys(_example(note, given) for note in notes if PREFIX.match(note)))


def _example(note, given):
    """The call of a test as a decorator, without fixtures and comments on values that may vary."""
    arguments = [text.removesuffix(")") for text in ARGUMENT.split(note)[1:]]
    kept = [_expression(text) for text in arguments if text.split("=")[0] in given]
    return f"@example({', '.join(kept)})"


def _expression(argument):
    try:
        return ast.unparse(ast.parse(f"f({argument})")).removeprefix("f(").removesuffix(")")
    except SyntaxError:  # a value that Python cannot read back
        return " ".join(argument.split()).rstrip(",")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Keep the decorators with the report, which travels between processes."""
    report = yield
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if call.excinfo is not None and handle is not None:
        given = handle._given_kwargs
        report.user_properties += [("pin", line) for line in example_lines(call.excinfo.value, given)]
    return report


def pytest_terminal_summary(terminalreporter, config):
    """Say for each counter-example what to add to the test, and how to meet it again."""
    failed = [(r.nodeid, [line for key, line in r.user_properties if key == "pin"]) for r in _failed(terminalreporter)]
    if not any(lines for _, lines in failed):
        return
    seed = config.getoption("--hypothesis-seed")
    again = f" --hypothesis-profile=search --hypothesis-seed={seed}" if seed is not None else ""
    terminalreporter.section("pin these examples")
    for nodeid, lines in failed:
        for line in lines:
            terminalreporter.write_line(f"{nodeid}\n    {line}\n    pytest '{nodeid}'{again}")


def _failed(terminalreporter):
    return [report for report in terminalreporter.stats.get("failed", []) if hasattr(report, "user_properties")]
