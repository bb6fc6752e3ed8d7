"""The envy matrix as a kind of picture."""

from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt import plots
from fairopt.plots.common import new_figure
from fairopt.properties.envy import envy

pytest.importorskip("matplotlib", reason="matplotlib is in the extra plots")

TWO = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])


def cells(ax: Any) -> np.ndarray:
    return np.asarray(ax.images[0].get_array())


def test_an_allocation_and_the_witness_of_its_verdict_give_the_same_matrix() -> None:
    a = fo.KDF(2).allocate(TWO)
    expected = 100 * envy(a).matrix
    for ax in (plots.envy_matrix(envy(a)), a.plot("envy"), fo.check(a)["ef"].plot()):
        assert cells(ax) == pytest.approx(expected)
        assert [t.get_text() for t in ax.get_yticklabels()] == ["batch", "web"]
    given = new_figure(4, 3).subplots()
    assert a.plot("envy", ax=given) is given


def test_policies_side_by_side_have_one_scale_and_larger_envy_is_said_to_be_beyond_it() -> None:
    result = fo.compare(["drf", "most-tasks"], fo.datasets.demo())
    panels = result.plot("envy").axes[:2]
    assert [
        cells(p) == pytest.approx(100 * envy(a).matrix)
        for p, a in zip(panels, result.allocations.values(), strict=True)
    ] == [True, True]
    assert {p.images[0].get_clim() for p in panels} == {(-100.0, 100.0)}
    assert cells(panels[1]).max() > 100
    assert panels[0].images[0].colorbar.extend == "max" or panels[1].images[0].colorbar.extend == "max"
    assert panels[1].texts[0].get_text() == f"{cells(panels[1])[0, 1]:+.0f}"


def test_no_envy_is_light_and_said_and_envy_is_orange() -> None:
    result = fo.compare(["drf", "most-tasks"], fo.datasets.demo())
    panels = result.plot("envy").axes[:2]
    assert panels[0].get_title().endswith("no user envies another")
    number = len(envy(result.allocations["most tasks"]).pairs())
    assert number > 1 and panels[1].get_title().endswith(f"{number} of 10 users envy another")
    one = fo.MostTasks().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    assert one.plot("envy").get_title().replace("\n", " ").endswith("1 of 2 users envies another")
    assert result.allocations["DRF"].plot(kind="envy").get_title() == "DRF: envy\nno user envies another"
    image = panels[0].images[0]
    shades = image.to_rgba(np.array([-100.0, -50.0, 0.0, 50.0, 100.0]))[:, :3]
    assert (shades[:3].min(axis=1) > 0.85).all() and shades[2] == pytest.approx(np.ones(3), abs=0.01)
    assert (np.diff(shades[2:].mean(axis=1)) < -0.1).all()
    assert image.to_rgba(cells(panels[0]))[..., :3].min() > 0.8  # nothing dark where no user envies


def test_envy_that_is_small_is_seen() -> None:
    alike = fo.Instance([[1, 1], [1, 1]], [4, 4])
    a = fo.Allocation(alike, fo.DRF(), np.array([[2.0], [2.002]]), fo.Certificate(0, 0, "x"), 0.0)
    low, high = a.plot("envy").images[0].get_clim()
    assert 0.09 < high < 0.11 and low == -high


def test_many_users_have_no_names_and_too_many_or_none_are_refused_before_anything_is_solved() -> None:
    many = fo.datasets.log_uniform(40, 2, seed=1)
    ax = fo.DRF().allocate(many).plot(kind="envy")
    assert not ax.texts and cells(ax).shape == (40, 40)
    with pytest.raises(
        fo.errors.InvalidBlock, match="no envy matrix of 5,001 users to draw; give an instance with 1 to 5,000"
    ):
        plots.check(fo.Instance(np.ones((5001, 1)), [1]), "envy")
    with pytest.raises(fo.errors.InvalidBlock, match="no envy matrix of 0 users"):
        plots.check(fo.Instance(np.zeros((0, 1)), [1]), "envy")
