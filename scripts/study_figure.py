"""Draw docs/figures/study.svg from the records of the shipped study. Needs matplotlib (the extra `plots`).

    python scripts/study_figure.py reports/study docs/figures/study.svg

One column is one cohort: the records whose claim is resident bytes, with the question outside or inside the compressed
prompt. The columns have axes of their own, because their values must not be compared. The same records give the same
file wherever matplotlib is the same.
"""

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kvaudit.model import Document
from kvaudit.reconcile.measurements import Cohort, grouped, mean_reference
from kvaudit.suite import measurements

CLAIM = "resident_bytes"
PLACES = {
    "outside_compressed_prompt": "question outside the compressed prompt",
    "inside_compressed_prompt": "question inside the compressed prompt",
}
FAR_TOKENS = 900

# Okabe and Ito's colours, which stay apart for colour-blind readers and in print; shapes say the same once more.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7f7f7f")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "<")
SIZES = (5, 5, 5, 5, 5, 10, 4, 5)  # the two forms of streaming nearly coincide: one shows around the other


def main(folder: Path, target: Path) -> None:
    """Draw the records in `folder`."""
    records, findings = measurements.read([folder])
    if findings:
        sys.exit("\n".join(f"{each.path}{each.pointer}: {each.message}" for each in findings))
    cohorts = {
        cohort.stated["workload.query_visibility"]: cohort
        for cohort in grouped(records).cohorts
        if cohort.stated.get("claim.type") == CLAIM and "kl_divergence" in cohort.metrics
    }
    with style.context("default"), mpl.rc_context({"svg.hashsalt": "kvaudit", "font.size": 9.0}):
        figure = Figure(figsize=(10.4, 7.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(2, 2, squeeze=False)
        for column, (place, title) in enumerate(PLACES.items()):
            draw(axes[0][column], axes[1][column], cohorts[place], title)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8.5)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, metadata={"Date": None, "Creator": "kvaudit"})


def draw(above: Any, below: Any, cohort: Cohort, title: str) -> None:
    """Draw one cohort: divergence above, the delayed reference far back below."""
    by_policy: dict[str, list[Document]] = {}
    for record in cohort.records:
        by_policy.setdefault(record["policy"]["name"], []).append(record)
    [full] = by_policy.pop("full")
    for index, policy in enumerate(sorted(by_policy)):
        each = sorted(by_policy[policy], key=lambda record: Fraction(record["request"]["budget"]["value"]))
        kept = [float(Fraction(record["request"]["budget"]["value"])) for record in each]
        look = {
            "color": COLOURS[index],
            "marker": SHAPES[index],
            "markersize": SIZES[index],
            "linewidth": 1.1,
            "label": policy,
        }
        above.plot(kept, [float(record["metrics"]["kl_divergence"]["value"]) for record in each], **look)
        below.plot(kept, [_known(mean_reference(record, FAR_TOKENS)) for record in each], **look)
    below.axhline(_known(mean_reference(full, FAR_TOKENS)), color="#444444", linewidth=1, linestyle="--", label="full")
    below.annotate(
        "full cache",
        (1 / 8, _known(mean_reference(full, FAR_TOKENS))),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=8,
    )
    below.set_ylim(top=1.5)
    above.set_title(f"one cohort: {title}", fontsize=9.5)
    above.set_yscale("log")
    above.set_ylabel("mean KL from the full cache [nat]")
    below.set_ylabel(f"mean log-probability of an answer\nsaid about {FAR_TOKENS} tokens back [nat]")
    for each in (above, below):
        each.set_xscale("log", base=2)
        each.set_xticks([1 / 8, 1 / 4, 1 / 2], ["1/8", "1/4", "1/2"])
        each.set_xlabel("budget: fraction of prompt rows kept, each K/V head")
        each.grid(visible=True, color="#e4e4e4", linewidth=0.7)
        each.set_axisbelow(True)


def _known(value: Fraction | None) -> float:
    return float("nan") if value is None else float(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
