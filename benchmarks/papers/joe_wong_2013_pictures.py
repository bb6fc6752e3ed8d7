"""Pictures of Props. 2 and 3 and Figs. 7 to 16 of Joe-Wong et al. (2013); the other modules measure what they draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from published import COLOURS

NAMED = dict(zip(("FDS", "GFJ", "DRF"), COLOURS, strict=False))
STYLES = {"FDS": "-", "GFJ": "--", "DRF": "-."}
LEFT = "left (CPUs + GB)"


def proposition_2(users: Sequence[int], ratios: Sequence[Any]) -> Any:
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    names = "FDS: dominant share, of (1/n) 2m/(m+1)", "GFJ: tasks, of eq. 11's limit", "GFJ: tasks, of 2/(nu n)"
    for k, (name, style) in enumerate(zip(names, ("o-", "s--", "^-."), strict=True)):
        ax.plot(users, [abs(np.mean(r[:, k]) - 1) for r in ratios], style, color=COLOURS[k], ms=5, label=name)
    ax.plot(users, 0.6 / np.sqrt(users), ":", color="0.5", label="0.6 / sqrt(n)")
    ax.set(xscale="log", yscale="log", xlabel="number of users n", ylabel="distance from the limit, relative")
    ax.legend(frameon=False, fontsize=9)
    return _tidied(fig)


def proposition_3(betas: Any, lams: Any, efficient: Any, boundary: Callable[[Any], Any]) -> Any:
    fig, ax = plt.subplots(figsize=(7, 4.4), layout="constrained")
    points = np.meshgrid(betas, lams, indexing="ij")
    for kept, label, colour in ((efficient, "f rises", COLOURS[4]), (~efficient, "f falls for some pair", COLOURS[1])):
        ax.plot(*(of[kept] for of in points), "s", color=colour, ms=2.5, label=label)
    at = np.delete(np.linspace(0.125, 5, 400), 72)
    for sign, style, label in ((1, "-", "sign of 1 - beta"), (-1, "--", "other sign")):
        ax.plot(at, sign * np.sign(1 - at) * boundary(at), style, color="black", label=f"|1 - beta| / beta, {label}")
    ax.set(xlabel="beta", ylabel="lambda", ylim=(-3.1, 3.1), xlim=(0, 5.1))
    return _tidied(fig, 2)


def figures_7_to_10(tau: Any, sigma: Any, total: Any, efficiency: Any) -> Any:
    fig, axes = plt.subplots(2, 2, figsize=(6.4, 4.0), sharex="col", sharey="row", layout="constrained")
    for column, (of, spread, at_3) in enumerate((("tau", tau, 0.5), ("sigma", sigma, 4.5))):
        for row, values in enumerate((total, efficiency)):
            for (name, style), line in zip(STYLES.items(), values, strict=True):
                axes[row, column].plot(spread, line, style, color=NAMED[name], label=name)
            axes[row, column].axvline(at_3, color="0.5", lw=0.8, ls=":")
            axes[row, column].set_title(f"Fig. {7 + 2 * row + column}", fontsize=10)
        axes[1, column].set_xlabel(f"sample variance of {of}")
    axes[0, 0].set_ylabel(LEFT)
    axes[1, 0].set_ylabel("efficiency (%)")
    return _tidied(fig, 3)


def figure_11(users: Sequence[int], left: Sequence[Any]) -> Any:
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for k, (name, style) in enumerate(STYLES.items()):
        ax.plot(users, [x[k].mean() for x in left], style, color=NAMED[name], marker="o", ms=3, label=name)
        low, high = np.transpose([np.quantile(x[k], (0.25, 0.75)) for x in left])
        ax.fill_between(users, low, high, color=NAMED[name], alpha=0.15, lw=0)
    ax.set(xscale="log", xlabel="number of users", ylabel=LEFT)
    ax.set_xticks(users, labels=[str(n) for n in users])
    ax.minorticks_off()
    ax.legend(frameon=False)
    return _tidied(fig)


def figure_12(rams: Any, span: dict[str, Any], drf: Any) -> Any:
    fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    ax.fill_between(rams, *span["GFJ"].T, color=NAMED["GFJ"], alpha=0.35, label="GFJ")
    ax.fill_between(rams, *span["FDS"].T, facecolor="none", edgecolor=NAMED["FDS"], hatch="////", label="FDS")
    ax.plot(rams, drf, color=NAMED["DRF"], lw=2, label="DRF")
    ax.set(xlabel="RAM capacity (GB)", ylabel="efficiency (%)")
    ax.legend(frameon=False, loc="lower right")
    return _tidied(fig)


def figures_13_14(found: dict[str, Any], crossing: float) -> Any:
    fig, axes = plt.subplots(1, 2, figsize=(6.6, 3.6), layout="constrained")
    curves = {name: (*f.tasks_by_user.T, f["fairness"], f["efficiency"]) for name, f in found.items()}
    f = found["FDS"]
    curves["DRF"] = tuple(np.full(len(f), x) for x in (*f.drf["tasks_by_user"], f.drf["fairness"], f.drf["efficiency"]))
    for name, lines in curves.items():
        for k, line in enumerate(lines):
            axes[k // 2].plot(f["alpha"], line, "--" if k % 2 else "-", color=NAMED[name], label="" if k else name)
    titles = "Fig. 13: users 1 (solid), 2 (dashed)", "Fig. 14: fairness (solid),\nefficiency (dashed)"
    for ax, what, title in zip(axes, ("tasks", "%"), titles, strict=True):
        ax.axvline(crossing, color="0.5", lw=0.8, ls=":")
        ax.set(xlabel="beta, lambda = (1 - beta) / beta", ylabel=what)
        ax.set_title(title, fontsize=10)
    return _tidied(fig, 3)


def figures_15_16(rams: Any, found: dict[str, Any], shown: Sequence[float]) -> Any:
    fig, axes = plt.subplots(1, 2, figsize=(6.6, 3.6), sharey=True, layout="constrained")
    for ax, (name, frontiers), figure in zip(axes, found.items(), (15, 16), strict=True):
        for k, ram in enumerate(shown):
            f = frontiers[int(np.argmin(abs(rams - ram)))]
            order = np.argsort(f.tasks_by_user[:, 0] / f.tasks_by_user.sum(axis=1))
            colour = plt.colormaps["viridis"](k / len(shown))
            ax.plot(f["fairness"][order], f["efficiency"][order], ".-", ms=4, lw=1, color=colour, label=f"{ram:.4g} GB")
        ax.set_title(f"Fig. {figure}: {name}", fontsize=10)
        ax.set_xlabel("fairness (% of DRF's)")
    axes[0].set_ylabel("efficiency (%)")
    return _tidied(fig, 4)


def _tidied(fig: Any, columns: int = 0) -> Any:
    """Without frames, and with one legend below if it has columns."""
    for ax in fig.axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="#E0E0E0", lw=0.6)
        ax.set_axisbelow(True)
    if columns:
        fig.legend(*fig.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False)
    return fig
