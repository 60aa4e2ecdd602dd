"""The progress bar: lines in a log, silence otherwise."""

import time

from holdfast.show.progress import Bar


def test_a_log_gets_regular_lines_with_a_unit_also_while_a_step_takes_long_and_a_quiet_one_none(capsys, monkeypatch):
    monkeypatch.setattr("holdfast.show.progress.FIRST", 0.05)
    monkeypatch.setattr("holdfast.show.progress.EVERY", 0.05)
    with Bar().stage("check a", "images x checks") as show:
        time.sleep(0.12)
        show(3, 9, "pgd")
        time.sleep(0.2)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0].startswith("check a  started, 0 s")
    assert sum(line.startswith("check a  pgd  3 of 9 images x checks, 0 s") for line in lines) >= 2
    with Bar(quiet=True).stage("train a") as show:
        show(1, 9)
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


def test_short_work_leaves_no_lines(capsys):
    with Bar().stage("train a", "steps") as show:
        show(1, 9)
    assert capsys.readouterr() == ("", "")


def test_the_bar_is_silent_where_there_is_no_terminal(capsys):
    with Bar().stage("train") as show:
        show(1, 2, "note")
    assert capsys.readouterr() == ("", "")


def test_progress_cannot_steer_the_terminal(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.show.progress.FIRST", 0.01)
    with Bar().stage("check \x1b[2J", "images") as show:
        show(1, 2, "\x1b]0;x\x07")
        for _ in range(200):
            if "1 of 2" in (said := capsys.readouterr().err):
                break
            time.sleep(0.01)
    assert "\x1b" not in said
    assert "\\x1b]0;x\\x07" in said
