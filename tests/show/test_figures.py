"""Kinds of charts, as plotly gets them."""

from __future__ import annotations

from holdfast.show.chart import Box, Chart, Curve
from holdfast.show.figures import figure

CURVE = Curve(0, "length", (0.1, 1.0), (2.0, 3.0), (1.0, 2.5), (3.0, 3.5))


def layout(chart: Chart) -> dict[str, dict[str, object]]:
    drawn: dict[str, dict[str, object]] = figure(chart, ["a"], "chart").spec["layout"]
    return drawn


def test_boxes_have_five_numbers_a_name_without_tags_and_the_colour_of_their_run() -> None:
    chart = Chart("Lengths", "", (), False, boxes=(Box(1, "<b>", 1.0, 2.0, 3.0, 4.0, 5.0),))
    (trace,) = figure(chart, ["a", "b"], "chart").spec["data"]
    assert [trace[name] for name in ("lowerfence", "q1", "median", "q3", "upperfence")] == [[1], [2], [3], [4], [5]]
    assert trace["name"] == "&lt;b&gt;"
    assert trace["line"]["color"] == "var(--series-1)"
    (alone,) = figure(chart, ["a"], "chart").spec["data"]
    assert alone["line"]["color"] == "var(--series-0)"


def test_long_names_of_boxes_get_the_height_that_they_need() -> None:
    def height(*names: str) -> object:
        return layout(Chart("", "", (), False, boxes=tuple(Box(0, name, 1, 2, 3, 4, 5) for name in names)))["height"]

    assert height("a" * 20) == height()
    assert height("a" * 20, "b" * 30) == 320 + 6 * 30


def test_logarithmic_axes_have_few_positions_as_ticks() -> None:
    drawn = layout(Chart("", "", (CURVE,), False, log_x=True, log_y=True))
    assert (drawn["xaxis"]["type"], drawn["xaxis"]["tickvals"]) == ("log", [0.1, 1.0])
    assert drawn["yaxis"]["type"] == "log"
    many = Curve(0, "", tuple(float(x) for x in range(1, 14)), (0.0,) * 13)
    assert "tickvals" not in layout(Chart("", "", (many,), False, log_x=True))["xaxis"]
    assert "type" not in layout(Chart("", "", (CURVE,), False))["xaxis"]


def test_a_logarithmic_axis_of_values_has_powers_of_ten_where_they_are_several() -> None:
    def ticks(*values: float) -> object:
        curve = Curve(0, "", tuple(map(float, range(len(values)))), values)
        return layout(Chart("", "", (curve,), False, log_y=True))["yaxis"].get("dtick")

    assert (ticks(1.0, 300.0), ticks(1.0, 3.0), ticks(1.0, 1e9), ticks(0.0)) == (1, None, None, None)


def test_positions_may_be_shares_and_values_need_not_begin_at_zero() -> None:
    drawn = layout(Chart("", "", (CURVE,), True, whole=False, x_share=True, from_zero=False))
    assert drawn["xaxis"]["tickformat"] == drawn["yaxis"]["tickformat"] == ".1~%"
    assert drawn["xaxis"]["rangemode"] == drawn["yaxis"]["rangemode"] == "normal"
    assert layout(Chart("", "", (CURVE,), True))["yaxis"]["rangemode"] == "tozero"


def test_a_ribbon_is_an_area_behind_the_line_instead_of_bars() -> None:
    (bars,) = figure(Chart("", "", (CURVE,), False), ["a"], "chart").spec["data"]
    assert bars["error_y"]["array"] == [1.0, 0.5]
    ribbon = Curve(**{**vars(CURVE), "ribbon": True})
    area, line = figure(Chart("", "", (ribbon,), False), ["a"], "chart").spec["data"]
    assert (area["x"], area["y"], area["fill"]) == ([0.1, 1.0, 1.0, 0.1], [3.0, 3.5, 2.5, 1.0], "toself")
    assert "error_y" not in line
