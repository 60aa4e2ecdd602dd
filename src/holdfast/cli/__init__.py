"""The command line: one file per verb. Heavy imports happen inside the verbs, so that `--help` is instant."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import typer

from holdfast.budget import VARIABLE, parse_bytes
from holdfast.cli.locks import released_at_the_end
from holdfast.cli.memory import keep_freed_memory
from holdfast.cli.output import echo, echo_lines
from holdfast.cli.system_errors import in_words
from holdfast.errors import HoldfastError
from holdfast.halving import is_out_of_memory

VERBS = (
    "run", "train", "search", "evaluate", "attack", "certify", "corrupt", "mce", "audit", "report", "compare", "select",
    "list", "show", "schema",
)  # fmt: skip

OUT_OF_MEMORY = "out of memory: free some, or take fewer images at once (--batch-size) or another device (--device)"

CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="holdfast",
    help="Train image classifiers, evaluate them under attack, certify their robustness and analyse the reasons.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=CONTEXT,
)


def _version(requested: bool) -> None:
    if requested:
        import importlib.metadata

        echo(f"holdfast {importlib.metadata.version('holdfast')}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    max_bytes: str | None = typer.Option(
        None,
        "--max-bytes",
        metavar="SIZE",
        help="Most memory that reading one file may take, such as 8G (default: half of all memory).",
    ),
) -> None:
    if max_bytes is not None:
        os.environ[VARIABLE] = str(parse_bytes(max_bytes, "--max-bytes"))  # workers of a search read it, too
    elif VARIABLE in os.environ:
        parse_bytes(os.environ[VARIABLE], VARIABLE)  # before any work


for _verb in VERBS:
    _module = import_module(f"holdfast.cli.{_verb}")
    app.command(_verb, epilog=getattr(_module, "EPILOG", None))(_module.command)
for _group in ("analyse", "data"):
    app.add_typer(import_module(f"holdfast.cli.{_group}").app, name=_group)


def main() -> None:
    """Entry point: user errors are one line and exit code 2, an interruption is 130, bugs keep their traceback."""
    keep_freed_memory()
    usage_error: Any = typer.BadParameter.__mro__[1]  # typer has its own click inside and does not export this one
    try:
        with released_at_the_end():
            code = app(standalone_mode=False)
    except HoldfastError as error:
        _fail(" ".join(str(error).split()))
    except usage_error as error:
        message = str(error.format_message())
        if type(error).__name__ == "NoArgsIsHelpError":
            echo_lines(f"{message}\n")
            sys.exit(0)
        _fail(" ".join(message.split()))
    except (KeyboardInterrupt, typer.Abort):
        echo("holdfast: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        _fail(" ".join(in_words(error).split()))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        _fail(f"{OUT_OF_MEMORY} ({str(error).strip().partition(chr(10))[0] or type(error).__name__})")
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    echo(f"holdfast: {message}", err=True)
    sys.exit(2)
