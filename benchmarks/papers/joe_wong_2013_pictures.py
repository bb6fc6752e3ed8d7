"""Pictures in the manner of Joe-Wong et al.'s (2013) Figs. 7 to 16; `joe_wong` measures what they draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

# Okabe and Ito's palette, told apart with any colour vision.
COLOURS = {"FDS": "#0072B2", "GFJ": "#E69F00", "DRF": "#009E73"}
STYLES = {"FDS": "-", "GFJ": "--", "DRF": "-."}
LEFT = "left over (CPUs + GB)"


def heterogeneity(m: Any, names: Sequence[str], path: Path) -> None:
    """Figs. 7 to 10: leftover and efficiency by the variances of tau and sigma."""
    fig, axes = plt.subplots(2, 2, figsize=(10, 6.4), sharex="col", sharey="row", layout="constrained")
    for column, (of, spread, at_3) in enumerate((("tau", m.tau, 0.5), ("sigma", m.sigma, 4.5))):
        for row, (what, values) in enumerate(((LEFT, m.left.sum(axis=2)), ("efficiency (%)", m.efficiency))):
            ax = axes[row, column]
            for k, name in enumerate(names):
                ax.plot(spread, values[:, k], STYLES[name], color=COLOURS[name], label=name)
            ax.axvline(at_3, color="#808080", lw=0.8, ls=":")
            ax.set_title(f"Fig. {7 + 2 * row + column}")
            _tidy(ax)
            if column == 0:
                ax.set_ylabel(what)
        axes[1, column].set_xlabel(f"sample variance of {of}")
    fig.suptitle("User 2 needs 1 to 13 GB per task (dotted: 3 GB); beta = 2, lambda = -0.5")
    _legend(fig, axes[0, 0])
    _save(fig, path)


def users(numbers: Sequence[int], left: Any, names: Sequence[str], path: Path) -> None:
    """Fig. 11: leftover by number of users, mean and quartiles over seeds."""
    fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    total = left.sum(axis=3)
    for k, name in enumerate(names):
        ax.plot(numbers, total[..., k].mean(axis=1), STYLES[name], color=COLOURS[name], marker="o", ms=3, label=name)
        low, high = np.quantile(total[..., k], (0.25, 0.75), axis=1)
        ax.fill_between(numbers, low, high, color=COLOURS[name], alpha=0.15, lw=0)
    ax.set(xscale="log", xlabel="number of users", ylabel=LEFT, title="Fig. 11: mean and middle half of the draws")
    ax.set_xticks(numbers, labels=[str(n) for n in numbers])
    ax.minorticks_off()
    _tidy(ax)
    _legend(fig, ax)
    _save(fig, path)


def ranges(rams: Any, found: dict[str, Any], path: Path) -> None:
    """Fig. 12: efficiency attained over beta and lambda, by RAM capacity."""
    fig, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for name, hatch in (("GFJ", None), ("FDS", "////")):
        low, high = np.transpose([(f["efficiency"].min(), f["efficiency"].max()) for f in found[name]])
        ax.fill_between(rams, low, high, facecolor="none" if hatch else COLOURS[name], alpha=1 if hatch else 0.35,
                        edgecolor=COLOURS[name], hatch=hatch, lw=1, label=name)  # fmt: skip
    ax.plot(rams, [f.references["DRF"][1] for f in found["FDS"]], color=COLOURS["DRF"], lw=2, label="DRF")
    ax.set(xlabel="RAM capacity (GB)", ylabel="efficiency (%)", title="Fig. 12: attained efficiency")
    _tidy(ax)
    _legend(fig, ax)
    _save(fig, path)


def along_alpha(found: dict[str, Any], crossing: float, path: Path) -> None:
    """Figs. 13 and 14: tasks, fairness and efficiency by beta."""
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    curves = {name: (f["alpha"], f["fairness"], f["efficiency"], f.tasks_by_user.T) for name, f in found.items()}
    f = found["FDS"]
    fairness, efficiency, tasks = f.references["DRF"]
    level = np.ones(len(f))
    curves["DRF"] = f["alpha"], fairness * level, efficiency * level, np.outer(tasks, level)
    for name, (alphas, fair, efficient, by_user) in curves.items():
        for j, style in enumerate(("-", "--")):
            axes[0].plot(alphas, by_user[j], style, color=COLOURS[name], label=f"{name}, user {j + 1}")
        for of, values, style in (("fairness", fair, "-"), ("efficiency", efficient, "--")):
            axes[1].plot(alphas, values, style, color=COLOURS[name], label=f"{name}, {of}")
    for ax, what, title in zip(axes, ("tasks", "%"), ("Fig. 13", "Fig. 14"), strict=True):
        ax.axvline(crossing, color="#808080", lw=0.8, ls=":")
        ax.set(xlabel="beta, lambda = (1 - beta) / beta", ylabel=what, title=title)
        _tidy(ax)
        ax.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    _save(fig, path)


def contours(rams: Any, found: dict[str, Any], shown: Sequence[float], path: Path) -> None:
    """Figs. 15 and 16: efficiency against fairness, a line per RAM capacity."""
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), sharey=True, layout="constrained")
    for ax, (name, frontiers), figure in zip(axes, found.items(), (15, 16), strict=True):
        for k, ram in enumerate(shown):
            f = frontiers[int(np.argmin(abs(rams - ram)))]
            order = np.argsort(f.tasks_by_user[:, 0] / f.tasks_by_user.sum(axis=1))
            ax.plot(f["fairness"][order], f["efficiency"][order], ".-", ms=4, lw=1,
                    color=matplotlib.colormaps["viridis"](k / len(shown)), label=f"{ram:.4g} GB")  # fmt: skip
        ax.set(title=f"Fig. {figure}: {name}", xlabel="fairness (% of DRF's)")
        _tidy(ax)
    axes[0].set_ylabel("efficiency (%)")
    _legend(fig, axes[0], columns=len(shown))
    _save(fig, path)


def _tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#E0E0E0", lw=0.6)
    ax.set_axisbelow(True)


def _legend(fig: Any, ax: Any, columns: int = 4) -> None:
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), columns), frameon=False)


def _save(fig: Any, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)
