"""Pictures in the manner of Hamzeh et al.'s (2021) Figs. 4 to 11; `hffmra` measures what they draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

# Okabe and Ito's palette, told apart with any colour vision.
USERS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
BUNDLES, TASKS, DRF = "#0072B2", "#009E73", "#D55E00"
LINES = ((BUNDLES, "-", "H-FFMRA, bundles", "H-FFMRA", "bundles"), (TASKS, "-", "H-FFMRA, tasks", "H-FFMRA", "tasks"),
         (DRF, "--", "DRF per server", "DRF per server", "tasks"))  # fmt: skip
RESOURCES = ("CPU", "RAM")


def allocations(run: Any, path: Path) -> None:
    """Figs. 4 and 5: what each of four users gets."""
    columns = [("H-FFMRA, bundles", "H-FFMRA", "bundles"), ("H-FFMRA, tasks", "H-FFMRA", "tasks"),
               ("DRF per server", "DRF per server", "tasks"), ("DRFH", "DRFH", "tasks")]  # fmt: skip
    fig, axes = plt.subplots(2, 4, figsize=(12, 5.2), sharex=True, sharey="row", layout="constrained")
    for row, resource in enumerate(RESOURCES):
        for ax, (title, policy, of) in zip(axes[row], columns, strict=True):
            held = run.series[policy][f"units of {of}"][..., row] / 1000
            for j, colour in enumerate(USERS):
                ax.plot(run.rounds, held[:, j], color=colour, lw=0.5, alpha=0.3)
                ax.plot(run.rounds, _smooth(held[:, j]), color=colour, lw=1.5, label=f"user {j + 1}")
            if row == 0:
                ax.set_title(title)
            _tidy(ax)
        axes[row, 0].set_ylabel(f"{resource} per user (1,000 units)")
        axes[row, 0].set_ylim(bottom=0)
    for ax in axes[1]:
        ax.set_xlabel("round")
    fig.suptitle(
        "Figs. 4 and 5: what users get (running means); RAM goes away from round 700 on, CPU requests grow from 800 on"
    )
    _legend(fig, axes[0, 0])
    _save(fig, path)


def utilisation(run: Any, path: Path) -> None:
    """Fig. 6: how full the servers are on average."""
    fig, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
    for i, (ax, resource) in enumerate(zip(axes, RESOURCES, strict=True)):
        _shade(ax, run)
        for colour, style, label, policy, of in LINES:
            use = run.series[policy][f"utilisation of {of}"][:, i]
            ax.plot(run.rounds, 100 * use, style, color=colour, label=label)
        ax.set(title=resource, xlabel="round", ylim=(0, 104))
        _tidy(ax)
    axes[0].set_ylabel("mean utilisation of servers (%)")
    fig.suptitle("Fig. 6: what is handed out, and what the tasks in it use")
    _legend(fig, axes[0])
    _save(fig, path)


def beta(run: Any, path: Path) -> None:
    """Figs. 7 to 9: shares of capacity that groups hold, and how far apart they are."""
    fig, axes = plt.subplots(2, 3, figsize=(12, 6), sharex=True, layout="constrained")
    kinds = [("H-FFMRA, bundles", "H-FFMRA", "bundles", BUNDLES), ("H-FFMRA, tasks", "H-FFMRA", "tasks", TASKS),
             ("DRF per server", "DRF per server", "tasks", DRF)]  # fmt: skip
    for g, group in enumerate(("dominant", "non-dominant")):
        for label, policy, of, colour in kinds:
            s = run.series[policy]
            shares = s[f"group shares of {of}"][:, g]
            for i, style in enumerate(("-", ":")):
                axes[g, 0].plot(run.rounds, shares[:, i], style, color=colour, label=f"{label}, {RESOURCES[i]}")
            axes[g, 1].plot(run.rounds, s[f"beta between resources of {of}"][:, g], color=colour)
            axes[g, 2].plot(run.rounds, s[f"beta of {of}"][:, g].max(axis=1), color=colour)
        axes[g, 0].set_title(f"{group}: mean of servers (Fig. {7 + g})")
        axes[g, 1].set_title(f"{group}: CPU against RAM (Fig. 9)")
        axes[g, 2].set_title(f"{group}: over servers (eq. {12 + g})")
        for ax in axes[g]:
            _shade(ax, run)
            _tidy(ax)
        axes[g, 0].set_ylabel("share of capacity")
        axes[g, 1].set_ylabel("beta, 0 is even")
        axes[g, 0].set_ylim(0, 1)
        axes[g, 1].set_ylim(-0.01, 0.6)
        axes[g, 2].set_ylim(-0.01, 0.6)
    for ax in axes[1]:
        ax.set_xlabel("round")
    fig.suptitle("Figs. 7 to 9: shares of capacity that groups hold, and beta-fairness")
    _legend(fig, axes[0, 0])
    _save(fig, path)


def jain(run: Any, path: Path) -> None:
    """Figs. 10 and 11: how evenly each group's resource is held, server by server."""
    fig, axes = plt.subplots(2, 2, figsize=(10, 6), sharex=True, sharey="row", layout="constrained")
    for g, group in enumerate(("dominant", "non-dominant")):
        for i, (ax, resource) in enumerate(zip(axes[g], RESOURCES, strict=True)):
            _shade(ax, run)
            for colour, style, label, policy, of in LINES:
                ax.plot(run.rounds, run.series[policy][f"Jain of {of}"][:, g, i], style, color=colour, label=label)
            ax.set_title(f"{group}, {resource} (Fig. {10 + g})")
            _tidy(ax)
        axes[g, 0].set_ylabel("Jain's index, mean of servers")
    for ax in axes[1]:
        ax.set_xlabel("round")
    fig.suptitle("Figs. 10 and 11: how evenly a group holds its resource (users who dominate it, and the others)")
    _legend(fig, axes[0, 0])
    _save(fig, path)


def _smooth(values: Any) -> Any:
    """Running means over a tenth of the rounds, of what there is near the ends."""
    window = np.ones(2 * (len(values) // 20) + 1)
    return np.convolve(values, window, "same") / np.convolve(np.ones(len(values)), window, "same")


def _shade(ax: Any, run: Any) -> None:
    """Grey where requests exceed some server."""
    between = (run.rounds[1:] + run.rounds[:-1]) / 2
    edges = [run.rounds[0], *between, run.rounds[-1]]
    label = "requests exceed some server"
    for k in (run.short > 0).any(axis=1).nonzero()[0]:
        ax.axvspan(edges[k], edges[k + 1], color="#E6E6E6", lw=0, label=label)
        label = "_"  # one entry in the legend


def _tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#E0E0E0", lw=0.6)
    ax.set_axisbelow(True)


def _legend(fig: Any, ax: Any) -> None:
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)


def _save(fig: Any, path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    fig.savefig(path, dpi=130)
    plt.close(fig)
