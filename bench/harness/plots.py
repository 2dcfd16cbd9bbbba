"""Plots without a display, and those of run.py: time by link; time by connections on link G."""

from pathlib import Path

from bench.harness import tables
from bench.harness.contenders import Run
from bench.harness.links import LINKS


def subplots(*arguments, **options) -> tuple:
    """`pyplot.subplots` of a matplotlib that needs no display."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt.subplots(*arguments, layout="constrained", **options)


def write(folder: Path, runs: list[Run]) -> None:
    plot_links(folder / "links.png", runs)
    if tables.contenders(runs, marked=True):
        plot_connections(folder / "connections.png", runs)


def plot_links(path: Path, runs: list[Run]) -> None:
    heads = [head for head in tables.columns(runs) if head[1] == "cubic"]
    names = [n for n in tables.contenders(runs, marked=False) if " process" not in n]
    if not heads or not names:
        return
    figure, axes = subplots(figsize=(11, 6))
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        values = [tables.median(tables.select(runs, *head, name), "seconds") for head in heads]
        at = [x + (i - (len(names) - 1) / 2) * width for x, value in enumerate(values) if value is not None]
        axes.bar(at, [value for value in values if value is not None], width, label=name)
    axes.set_yscale("log")
    axes.set_xticks(range(len(heads)), [f"{link}\n{LINKS[link].label.replace(', ', chr(10))}" for link, _ in heads])
    axes.set_ylabel("seconds, from opening the URL to the result")
    axes.set_title("two columns of 152 from a remote file of 275 MB (medians; a missing bar did not finish)")
    figure.legend(loc="outside lower center", ncols=4, fontsize="small")  # beside the bars, never over them
    figure.savefig(path, dpi=120)


def plot_connections(path: Path, runs: list[Run]) -> None:
    figure, axes = subplots(figsize=(7, 5))
    for how, line in (("cubic", "-"), ("bbr", "--")):
        for who, colour in (("hither", "tab:blue"), ("raw", "tab:grey")):
            points = []
            for name in tables.contenders(runs, marked=True):
                kind, _, count = name.partition(" @")
                value = tables.median(tables.select(runs, "G", how, name), "seconds")
                if kind == who and value is not None:
                    points.append((int(count), value))
            if points:
                axes.plot(*zip(*sorted(points), strict=True), line, marker="o", color=colour, label=f"{who}, {how}")
    axes.set_xscale("log", base=2)
    counts = sorted({int(n.partition("@")[2]) for n in tables.contenders(runs, marked=True)})
    axes.set_xticks(counts, list(map(str, counts)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("connections")
    axes.set_ylabel("seconds, from opening the URL to the result")
    axes.set_title("240 ms, unlimited rate")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)
