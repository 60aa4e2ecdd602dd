"""Every command that the documentation shows exists, with its options; every verb is documented."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from holdfast.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if page.exists()]
FENCE = re.compile(r"^[ ]*```(?:sh|bash|console|shell)\b[^\n]*\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
COMMAND = typer.main.get_command(app)


def command_lines(text):
    """Words of every `holdfast ...` command in the shell blocks of a page; prompts, pipes and comments are cut off."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|\||[|;]", line.strip().removeprefix("$ ")):
                words = shlex.split(part, comments=True)
                while words and ("=" in words[0] or words[0] in ("time", "nohup")):  # OMP_NUM_THREADS=1 holdfast ...
                    words = words[1:]
                if words[:1] and words[0].rsplit("/", 1)[-1] == "holdfast":
                    yield words[1:]


def problem(words):
    """What is wrong with a command, or None; walks the verbs and looks up every option."""
    command, rest = COMMAND, list(words)
    while rest and hasattr(command, "commands") and not rest[0].startswith("-"):
        verb = rest.pop(0)
        if (below := command.get_command(None, verb)) is None:  # sections of the report are no fixed commands
            return f"unknown verb {verb}"
        command = below
    known = {name: option for option in command.params for name in option.opts if name.startswith("-")}
    while rest:
        word, separator, _ = rest.pop(0).partition("=")
        if word.startswith("-") and word not in ("-", "--help"):
            if word not in known:
                return f"unknown option {word}"
            if not known[word].is_flag and not separator:
                if not rest:
                    return f"option {word} without a value"
                rest.pop(0)
    return None


DOCUMENTED = [
    pytest.param(words, id=f"{page.name}: {' '.join(words)}")
    for page in PAGES
    for words in command_lines(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("words", DOCUMENTED)
def test_a_documented_command_exists(words):
    assert problem(words) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("holdfast run r.yaml --out=x", None),
        ("OMP_NUM_THREADS=1 .venv/bin/holdfast run r.yaml --set train.epochs=5 --json # twice", None),
        ("$ holdfast data make --from photos small.npz | tee log", None),
        ("holdfast --version", None),
        ("holdfast evaluate \\\n  --model x --weights y", None),
        ("holdfast rnu r.yaml", "unknown verb rnu"),
        ("holdfast data mkae x", "unknown verb mkae"),
        ("holdfast run r.yaml --epochs 3", "unknown option --epochs"),
        ("make x && holdfast run r.yaml --out", "option --out without a value"),
    ],
)
def test_the_check_itself_sees_slips(line, expected):
    (words,) = command_lines(f"Text\n```sh\nmkdir x\n{line}\n```\nholdfast nothing\n```python\nholdfast nothing\n```\n")
    assert problem(words) == expected


def test_every_verb_is_documented():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    if "holdfast run" not in text:
        pytest.skip("the README is not written yet")
    missing = [verb for verb in COMMAND.commands if not re.search(rf"\bholdfast {verb}\b", text)]
    assert not missing
