"""Frontiers as a picture: resident bytes against tokens per second, one panel a set.

Needs matplotlib (the extra `plots`), which is imported here and nowhere else. The same sets give the same bytes: the
style is matplotlib's default whatever the user's settings, and no date, version or random identifier is written.
"""

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvaudit.errors import KvauditError
from kvaudit.loops.loop13_spherical.frontier import Drawn
from kvaudit.policies.frontier import Frontier, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = ("png", "svg")

# Okabe and Ito's colours, which stay apart for colour-blind readers and in print; shapes say the same once more.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SHAPES = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#8a8a8a"


def picture(sets: Sequence[Drawn], file_format: str) -> bytes:
    """Return a picture of the sets that have a frontier, as the bytes of a PNG or SVG file.

    Raises `KvauditError` if matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib import style
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise KvauditError("--plot needs matplotlib; install it with: pip install 'kvaudit[plots]'") from None
    with style.context("default"), mpl.rc_context({"svg.hashsalt": "kvaudit", "font.size": 9.0}):
        shown = [each for each in sets if each.frontier is not None]
        columns = min(2, len(shown))
        rows = math.ceil(len(shown) / columns)
        figure = Figure(figsize=(6.4 * columns, 5.2 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        # A method keeps its colour and shape in every panel of the picture.
        methods = sorted({method for each in shown if each.frontier is not None for method in each.frontier.methods})
        for index, place in enumerate(axes.flat):
            if index < len(shown):
                _draw(place, shown[index], methods)
            else:
                place.set_axis_off()
        stream = io.BytesIO()
        metadata: dict[str, Any] = {"Software": None} if file_format == "png" else {"Date": None, "Creator": "kvaudit"}
        figure.savefig(stream, format=file_format, dpi=150, metadata=metadata)
    return stream.getvalue()


def _draw(axes: "Axes", each: Drawn, methods: Sequence[str]) -> None:
    found = each.frontier
    assert found is not None
    retained, outside = found.overall.retained, found.outside
    if outside:
        axes.scatter(*_plane(outside), marker="x", s=28, color=_GREY, label="outside the tolerance", zorder=2)
    envelope = found.overall.envelope
    right = max(float(point.resident_bytes_per_token or 0) for point in (*retained, *outside)) * 1.06
    xs, ys = _plane(envelope)
    axes.step([*xs, right], [*ys, ys[-1]], where="post", color="#444444", linewidth=1.2, label="envelope", zorder=1)
    for method, summary in found.methods.items():
        index = methods.index(method)
        colour, shape = _COLOURS[index % len(_COLOURS)], _SHAPES[index % len(_SHAPES)]
        size = max(132 - 24 * index, 32)  # so that of two equal points the one below still shows
        on = [point for point in summary.retained if point in envelope]
        off = [point for point in summary.retained if point not in envelope]
        if on:
            axes.scatter(*_plane(on), marker=shape, s=size, color=colour, label=method, zorder=3)
        if off:
            label = f"{method}, dominated"
            axes.scatter(
                *_plane(off), marker=shape, s=size, facecolors="white", edgecolors=colour, label=label, zorder=3
            )
    _mark(axes, found)
    axes.set_xlim(0, right)
    top = max(float(point.tokens_per_second or 0) for point in (*retained, *outside)) or 1.0
    axes.set_ylim(-0.03 * top, 1.08 * top)
    axes.set_xlabel("resident K/V bytes per token, paging and metadata included [B]")
    axes.set_ylabel("decode throughput [tokens/s]")
    reference = found.reference
    assert reference is not None
    limit = f"{float(reference.quality or 0):.6g} - {float(found.quality_tolerance):.6g}"
    axes.set_title(f"{each.id}: quality at least {limit}\none cohort, {each.evidence_class}", fontsize=9.5)
    axes.grid(visible=True, color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False, fontsize=8)


def _mark(axes: "Axes", found: Frontier) -> None:
    """Ring the dense reference and put a star on the representative."""
    if found.reference is not None:
        axes.scatter(
            *_plane([found.reference]),
            marker="o",
            s=170,
            facecolors="none",
            edgecolors="black",
            linewidths=1.1,
            label=f"reference {found.reference.id}",
            zorder=4,
        )
    star = found.overall.representative
    if star is not None:
        axes.scatter(
            *_plane([star]),
            marker="*",
            s=260,
            facecolors="none",
            edgecolors="black",
            linewidths=1.1,
            label=f"representative {star.id}",
            zorder=5,
        )


def _plane(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return (
        [float(point.resident_bytes_per_token or 0) for point in points],
        [float(point.tokens_per_second or 0) for point in points],
    )
