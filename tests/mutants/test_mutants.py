"""Mutants are what they say, run on a copy, and are remembered."""

import ast
from pathlib import Path

import pytest

from tests.mutants import choice, trial
from tests.mutants.operators import mutants
from tests.mutants.record import KILLED, SURVIVED, Record

ROOT = Path(__file__).parents[2]


def changes(text):
    return [mutant.change[1] for mutant in mutants("a.py", text.encode())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = a + b", ["y = a - b"]),
        ("y = (a) * (b)", ["y = (a) / (b)"]),
        ("y = a ** b // c", ["y = a * b // c", "y = a ** b * c"]),
        ("y = a < b <= c", ["y = a <= b <= c", "y = a < b < c"]),
        ("y = a is not b", ["y = a is b"]),
        ("y = a not  in b", ["y = a in b"]),
        ("y = a and b and not c", ["y = a or b and not c", "y = a and b or not c", "y = a and b and  c"]),
        ("y -= a", ["y += a"]),
        ("y = ~a", ["y = a"]),
        ("y = (3, 0.5, 0.0, True)", ["y = (4, 0.5, 0.0, True)", "y = (3, 1.0, 0.0, True)", "y = (3, 0.5, 1.0, True)",
                                     "y = (3, 0.5, 0.0, False)"]),
        ("y = x.amax(d) if f else max(x)", ["y = x.amin(d) if f else max(x)", "y = x.amax(d) if not f else max(x)",
                                            "y = x.amax(d) if f else min(x)"]),
        ("def f(x):\n    if bad(x):\n        raise E\n    check(x)", ["if False:", "None"]),
    ],
)  # fmt: skip
def test_each_mutant_changes_one_place(text, expected):
    assert changes(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""Doc 1 + 2."""',
        "def f(x: Literal[1] = None) -> Literal[2]: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "raise ValueError(1 + 2)",
        "y = f'{a + 1}'",
        "__all__ = ['a' + 'b']",
        "y = zip(a, b, strict=True)",
        "if TYPE_CHECKING:\n    y = 1",
    ],
)
def test_what_carries_no_behaviour_is_left_alone(text):
    assert changes(text) == []


def test_every_mutant_of_the_library_is_python_and_differs_from_it():
    pile = choice.sample(ROOT, ("trust", "threat/l2.py"), 0)
    assert len(pile) > 100
    for mutant in pile:
        assert ast.dump(ast.parse(mutant.mutated)) != ast.dump(ast.parse(mutant.source))


def test_positions_count_bytes_where_lines_have_other_letters():
    (mutant,) = mutants("a.py", "y = 'Björck' + z".encode())
    assert mutant.change == ("y = 'Björck' + z", "y = 'Björck' - z")


def test_packages_take_turns_and_the_order_is_that_of_the_seed():
    packages = ("trust", "certify")
    pile = choice.sample(ROOT, packages, 3)
    assert [Path(mutant.file).parts[2] for mutant in pile[:6]] == [*packages] * 3
    assert pile == choice.sample(ROOT, packages, 3) != choice.sample(ROOT, packages, 4)


def test_a_name_that_is_no_package_is_one_line():
    with pytest.raises(SystemExit, match=r"mutants: nothing: expected a package or file below src/holdfast"):
        choice.sample(ROOT, ("nothing",), 0)


def test_tests_of_a_file_begin_with_its_own():
    tests = choice.tests_of(ROOT, "src/holdfast/certify/sampling.py")
    assert tests[0] == "tests/certify/test_sampling.py"
    rest = tests[tests.index("tests/contracts/test_certifiers.py") + 1 :]
    assert "tests/certify/test_mixture_radii.py" in rest  # which does not name it
    assert len(set(tests)) == len(tests)
    without_own = choice.tests_of(ROOT, "src/holdfast/lipschitz/graph.py")
    assert set(without_own) == {str(path.relative_to(ROOT)) for path in (ROOT / "tests/lipschitz").glob("test_*.py")}


def test_declared_equivalents_are_mutants_that_there_are():
    declared = choice.declared_equivalent()
    files = {file for file, _, _ in declared}
    real = {(file, *m.change) for file in files for m in mutants(file, (ROOT / file).read_bytes())}
    assert declared.keys() <= real
    assert all(declared.values())


@pytest.fixture
def project(tmp_path):
    for name in (*trial.FOLDERS, "src/holdfast/a", "tests/a"):
        (tmp_path / "project" / name).mkdir(parents=True)
    for name in trial.FILES:
        (tmp_path / "project" / name).write_text("")
    for package in ("src/holdfast", "src/holdfast/a"):
        (tmp_path / "project" / package / "__init__.py").write_text("")
    (tmp_path / "project/src/holdfast/a/b.py").write_text("def f(x):\n    return 2 * x\n")
    test = "from holdfast.a.b import f\n\n\ndef test_f():\n    assert f(2) == 4\n"
    (tmp_path / "project/tests/a/test_b.py").write_text(test)
    (tmp_path / "project/tests/a/test_slow.py").write_text("import time\n\n\ndef test():\n    time.sleep(60)\n")
    (tmp_path / "project/tests/a/test_oracle.py").write_text("import pytest\n\npytest.importorskip('no_library')\n")
    (tmp_path / "copy").mkdir()
    return tmp_path / "project"


def test_a_mutant_runs_on_a_copy_and_is_killed_by_its_tests(project):
    copy = trial.copy_tree(project, project.parent / "copy")
    pile = mutants("src/holdfast/a/b.py", (project / "src/holdfast/a/b.py").read_bytes())
    tests = choice.tests_of(copy, "src/holdfast/a/b.py")
    assert tests == ("tests/a/test_b.py", "tests/a/test_oracle.py", "tests/a/test_slow.py")
    tests = tests[:2]
    assert trial.passes(copy, tests, 60)
    survivors = [m.change[1] for m in pile if trial.survives(copy, m, tests, 60)]
    assert [m.change[1] for m in pile] == ["return 3 * x", "return 2 / x"]
    assert survivors == []
    assert trial.passes(copy, tests, 60)  # the copy is as it was
    assert (project / "src/holdfast/a/b.py").read_text() == "def f(x):\n    return 2 * x\n"
    assert not trial.passes(copy, ["tests/a/test_slow.py"], 0.5)
    assert trial.passes(copy, ["tests/a/test_oracle.py"], 60)  # skipped: there is nothing to fail


def test_outcomes_are_kept_while_the_file_and_for_survivors_the_tests_are_the_same(tmp_path):
    first, second = mutants("a.py", b"y = a + b - c")
    record = Record(tmp_path / "new" / "record.jsonl")
    record.add(first, KILLED, "tests 1")
    record.add(second, SURVIVED, "tests 1")
    again = Record(tmp_path / "new" / "record.jsonl")
    assert [again.outcome(mutant, "tests 1") for mutant in (first, second)] == [KILLED, SURVIVED]
    assert [again.outcome(mutant, "tests 2") for mutant in (first, second)] == [KILLED, None]
    edited, _ = mutants("a.py", b"y = a + b - d")
    assert again.outcome(edited, "tests 1") is None
    again.add(second, KILLED, "tests 2")
    assert Record(tmp_path / "new" / "record.jsonl").outcome(second, "tests 2") == KILLED
