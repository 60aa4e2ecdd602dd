"""YAML from strangers is read to the end, or refused at once."""

import pytest
import yaml

from holdfast.errors import RecipeError
from holdfast.recipe import DataRecipe, parse, parse_recipes, read_checks
from holdfast.yaml_text import MOST_VALUES, load_mapping, load_yaml


def laughs(levels, width=9):
    """The text of a value that aliases repeat `width ** levels` times."""
    lines = ["a0: &a0 x"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("levels", [6, 30])
def test_aliases_that_stand_for_too_many_values_are_refused_at_once(levels):
    with pytest.raises(yaml.YAMLError, match="got more than 100,000 values; split the file, or leave out aliases"):
        load_yaml(laughs(levels))
    with pytest.raises(RecipeError, match=r"bad\.yaml: expected YAML; got more than"):
        parse_recipes(laughs(levels), file="bad.yaml")


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 30, "0x" + "f" * 5000, "1" + ":59" * 40, str(2**64)])
def test_a_whole_number_that_no_field_can_hold_is_refused_with_its_place(number):
    with pytest.raises(
        RecipeError, match=r"bad\.yaml:2: expected YAML; the number .*\.\.\. of \d+ digits is too large"
    ):
        parse_recipes(f"name: x\nseed: {number}\n", file="bad.yaml")


def test_whole_numbers_of_every_base_are_values():
    assert load_yaml("[18446744073709551615, -7, 0x1F, 0b11, 017, 1_000, 1:30]") == [2**64 - 1, -7, 31, 3, 15, 1000, 90]


def test_ordinary_aliases_are_values():
    assert load_yaml(laughs(2, 2))["a2"] == [["x", "x"], ["x", "x"]]
    assert load_yaml("base: &b {x: 1}\nmore: {<<: *b, y: 2}")["more"] == {"x": 1, "y": 2}


def test_the_number_of_values_is_counted_exactly():
    exact = MOST_VALUES - 1  # and the list itself
    assert len(load_yaml(f"[{','.join('1' * exact)}]")) == exact
    with pytest.raises(yaml.YAMLError, match="got more than"):
        load_yaml(f"[{','.join('1' * (exact + 1))}]")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("&a [*a]", "got values nested without end"),
        ("&a {x: {y: *a}}", "got values nested without end"),
        ("[" * 5000 + "]" * 5000, "got values nested too deeply"),
        ("9" * 5000, "Exceeds the limit|digits"),
        ("2024-13-45", "month must be"),
        (b"\xff\xfe\x00", "unacceptable character|can't decode|invalid"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: 1\na: 2", "'a' is given twice"),
        ("!!timestamp 9", "object has no attribute"),
        ('a: "x\\ud800"', "half a character"),
        ('"\\udfff": 1', "half a character"),
    ],
)
def test_what_is_no_plain_value_is_one_kind_of_error(text, what):
    with pytest.raises(yaml.YAMLError) as caught:
        load_yaml(text)
    assert any(part in str(caught.value) for part in what.split("|")), caught.value


def test_sweeps_seeds_and_variants_have_an_end():
    sweep = f"{{gaussian_noise: {{sigma: {{each: [{', '.join(str(n / 2000) for n in range(1001))}]}}}}}}"
    with pytest.raises(RecipeError, match=r"checks\.0: expected at most 1000 combinations; got 1001; leave"):
        read_checks(f"[{sweep}]")
    base = "data: digits\nmodel: linear\n"
    with pytest.raises(RecipeError, match="seeds: expected at most 1000; got 20000; split the recipe"):
        parse_recipes(f"{base}seeds: [{', '.join(map(str, range(20000)))}]")
    with pytest.raises(RecipeError, match="variants: expected at most 1000; got 1001; split the recipe"):
        parse_recipes(f"{base}variants: {{{', '.join(f'v{n}: {{}}' for n in range(1001))}}}")
    with pytest.raises(RecipeError, match="epochs and batch_size must be at most 1,000,000, got 1000000000000000000"):
        parse_recipes(f"{base}train: {{epochs: 1000000000000000000}}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variants: 3", "variants: expected names with what they change; got int"),
        ("variants: [a, b]", "variants: expected names with what they change; got list"),
        ("evaluate: {budget: " + "9" * 19 + "}", "expected a time such as 90s, 10min or 1.5h"),
        ("checks: [{gaussian_noise: 1e308}]", None),
    ],
)
def test_values_of_another_type_or_size_are_one_line(text, message):
    base = "data: digits\nmodel: linear\n"
    if message is None:
        parse_recipes(base + text)
        return
    with pytest.raises(RecipeError, match=message) as caught:
        parse_recipes(base + text)
    assert len(str(caught.value).splitlines()) == 1


def test_what_a_message_quotes_may_be_half_a_character():
    with pytest.raises(RecipeError, match=r"unknown name '\\ud800'"):
        parse(DataRecipe, {"source": "digits", "\ud800": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1]", "a: expected fields; got list"), ("", "a: expected fields; got NoneType"), ("{", "a: expected YAML; ")],
)
def test_fields_are_no_other_value(text, message):
    assert load_mapping("b: 1", "a") == {"b": 1}
    with pytest.raises(RecipeError, match=message):
        load_mapping(text, "a")
