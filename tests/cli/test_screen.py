"""What the verbs show, and how they stop."""

import errno
import os
import signal
import time

import pytest
import typer

from holdfast.cli.screen import between_steps, interrupt_on_kill, resumable, table
from holdfast.errors import HoldfastError


def send(number):
    """Send this process a signal and give its handler time to run."""
    os.kill(os.getpid(), number)
    signal.sigtimedwait([], 0.1)


@pytest.fixture
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    interrupt_on_kill()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_the_first_signal_waits_for_the_step_and_the_second_does_not():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with between_steps() as stop:
        assert not stop.requested
        send(signal.SIGTERM)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_interruption_of_what_is_saved_says_how_to_resume(capsys, handlers):
    with pytest.raises(typer.Exit) as end, resumable():
        raise KeyboardInterrupt
    assert end.value.exit_code == 130
    said = "holdfast: interrupted; everything done is saved, repeat the same command to resume\n"
    assert capsys.readouterr() == ("", said)
    with pytest.raises(ZeroDivisionError), resumable():
        raise ZeroDivisionError


def test_a_signal_after_the_work_is_no_error_of_ours(handlers):
    with resumable():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == 2 * [signal.SIG_DFL]


def test_a_full_disk_under_what_is_saved_says_how_to_resume(handlers):
    with pytest.raises(HoldfastError) as caught, resumable():
        raise OSError(errno.ENOSPC, "No space left on device", "a")
    expected = "a: No space left on device; free some space; everything done before is saved, repeat the same command"
    assert str(caught.value).startswith(expected)
    with pytest.raises(FileExistsError), resumable():  # the same command cannot succeed
        raise FileExistsError(errno.EEXIST, "File exists", "a")


def test_handlers_come_back_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), between_steps():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_kill_is_an_interruption(handlers, number):
    with pytest.raises(KeyboardInterrupt):
        send(number)


@pytest.mark.parametrize("module", ["polars.somewhere", "pydantic.main"])
def test_an_interruption_waits_until_compiled_code_is_done(handlers, module):
    # Raised in there it would be swallowed, or turned into another error.
    namespace = {"__name__": module, "send": send, "signal": signal}
    exec("def work():\n    send(signal.SIGINT)\n    return 'done'", namespace)
    assert namespace["work"]() == "done"
    with pytest.raises(KeyboardInterrupt):
        time.sleep(5)


def test_tables_show_brackets_and_odd_names_as_they_are(capsys):
    table(["", "[bold]x[/bold]"], [["a :smile: [red]", "1.0 % [0.1, 2.0]"], ["b" * 150, "2"]], title="t")
    out = capsys.readouterr().out
    assert "[bold]x[/bold]" in out
    assert "a :smile: [red]" in out
    assert "b" * 150 in out
    assert "\x1b" not in out
