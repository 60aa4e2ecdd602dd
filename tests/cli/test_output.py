"""Foreign names cannot steer a terminal, and JSON for machines is what the standard says."""

import ast
import json
import math
import re
from pathlib import Path

import pytest

import holdfast
import holdfast.cli
from holdfast.cli.output import echo, echo_json, echo_lines, strict
from holdfast.cli.screen import say, table
from holdfast.show.text import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cat", "cat"),
        ("été 猫 ε = 8/255 \u2264 ✓", "été 猫 ε = 8/255 \u2264 ✓"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\rb\x08c\x7f\x9b1m", "a\\rb\\x08c\\x7f\\x9b1m"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("two\nlines\t.", "two\nlines\t."),
    ],
)
def test_controls_are_written_out_and_letters_stay(text, shown, capsys):
    assert visible(text) == shown
    assert one_line(text) == shown.replace("\n", "\\n").replace("\t", "\\t")
    echo_lines(text)
    assert capsys.readouterr().out == shown
    echo(text)
    assert capsys.readouterr().out == f"{one_line(text)}\n"


def test_cells_cannot_forge_a_row(capsys):
    table(["run", "accuracy"], [["good\nevil  99 %", "\x1b[31m1 %"]], title="a\nb")
    lines = capsys.readouterr().out.splitlines()
    assert "\\x1b[31m1 %" in "".join(lines)
    assert [line.split() for line in lines if "evil" in line] == [["good\\nevil", "99", "%", "\\x1b[31m1", "%"]]


def test_json_has_no_numbers_that_the_standard_does_not_know(capsys):
    value = {"a": math.nan, "b": [math.inf, 1.5, {"c": -math.inf}], "d": (1, None, "NaN")}
    assert strict(value) == {"a": None, "b": [None, 1.5, {"c": None}], "d": [1, None, "NaN"]}
    echo_json(value, spelled=True)
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": ["inf", 1.5, {"c": "-inf"}], "d": [1, None, "NaN"]}


def test_everything_is_printed_through_one_filter():
    for file in Path(holdfast.cli.__file__).parent.rglob("*.py"):
        if file.name == "output.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write"), file


def test_nothing_writes_spreadsheets_whose_cells_could_start_a_formula():
    # Who adds an export must write a quote before cells that begin with = + - @, tab or carriage return.
    exports = re.compile(
        r"\b(write_csv|sink_csv|to_csv|write_excel|to_excel|csv\.writer|DictWriter|openpyxl|xlsxwriter)\b"
    )
    package = Path(holdfast.__file__).parent
    files = [file for kind in ("py", "js", "j2") for file in package.rglob(f"*.{kind}")]
    assert not [file for file in files if exports.search(file.read_text(encoding="utf-8"))]


def test_a_name_cannot_begin_a_line_of_its_own(capsys):
    say("run a\nholdfast: everything is certified: report")
    assert capsys.readouterr().out == "run a\\nholdfast: everything is certified: report\n"
