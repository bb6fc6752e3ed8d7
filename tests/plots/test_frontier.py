"""The corners of what two users can run, against linear programs."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairopt.plots.region import frontier

units = st.integers(0, 6)
LIMITS = st.just(np.inf) | units


@st.composite
def questions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_servers, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    numbers = st.lists(units, min_size=m, max_size=m)
    demands = np.array([[draw(numbers)] * n_servers for _ in range(2)], dtype=float)
    demands[(demands == 0).all(axis=2)] = 1.0  # every user needs something
    out = np.array([[draw(st.booleans()) for _ in range(n_servers)] for _ in range(2)])
    demands[out] = np.inf
    left = np.array([draw(numbers) for _ in range(n_servers)], dtype=float)
    limits = np.array([draw(LIMITS) for _ in range(2)], dtype=float)
    return demands, left, limits


def most(question: tuple[np.ndarray, np.ndarray, np.ndarray], a: float, b: float) -> float:
    """The largest a x + b y, by a program over tasks by server."""
    demands, left, limits = question
    n_servers, m = left.shape
    allowed = np.isfinite(demands).all(axis=2)
    rows, bounds = [], [(0, None if ok else 0) for ok in allowed.ravel()]
    for s, i in itertools.product(range(n_servers), range(m)):
        row = np.zeros((2, n_servers))
        row[:, s] = np.where(allowed[:, s], np.where(np.isfinite(demands[:, s, i]), demands[:, s, i], 0), 0)
        rows.append((row.ravel(), left[s, i]))
    for j in range(2):
        if np.isfinite(limits[j]):
            row = np.zeros((2, n_servers))
            row[j] = 1
            rows.append((row.ravel(), limits[j]))
    found = linprog(-np.repeat([a, b], n_servers), np.array([r for r, _ in rows]), [c for _, c in rows], bounds=bounds)
    assert found.status == 0
    return float(-found.fun)


@settings(max_examples=8)  # six programs each
@given(questions())
def test_the_corners_reach_as_far_as_any_program_in_every_direction(question: tuple) -> None:
    corners = frontier(*question)
    for a, b in ((1, 0), (0, 1), (1, 1), (1, 3), (5, 2), (7, 1)):
        assert np.isclose((corners @ [a, b]).max(), most(question, a, b), atol=1e-9)


@given(questions())
def test_the_edge_starts_at_one_axis_ends_at_the_other_and_bends_inwards(question: tuple) -> None:
    corners = frontier(*question)
    assert corners[0, 0] == 0 and corners[-1, 1] == 0
    steps = np.diff(corners, axis=0)
    assert (steps[:, 0] >= 0).all() and (steps[:, 1] <= 1e-12).all()
    turns = steps[:-1, 0] * steps[1:, 1] - steps[:-1, 1] * steps[1:, 0]
    assert (turns <= 1e-9).all()


def test_two_servers_give_the_sum_of_their_polygons() -> None:
    demands = np.array([[[1.0, 2.0]] * 2, [[2.0, 1.0]] * 2])
    one = frontier(demands[:, :1], np.array([[6.0, 6.0]]), np.full(2, np.inf))
    two = frontier(demands, np.array([[6.0, 6.0]] * 2), np.full(2, np.inf))
    assert one.tolist() == [[0, 3], [2, 2], [3, 0]]
    assert np.unique(two, axis=0).tolist() == [[0, 6], [2, 5], [4, 4], [5, 2], [6, 0]]
