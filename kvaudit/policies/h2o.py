"""H2O: heavy hitters by accumulated attention, one row in and one row out (arXiv 2306.14048; 0x06E and 0x06F).

    h_(t,j) = h_(t-1,j) + a_(t,j)  for every candidate j        S_t = (S_(t-1) + {t}) - {u},  |S_t| = k

The recent partition is protected and the largest scores of the rest are kept; with an additive set score that is the
paper's removal rule, because dropping the smallest score leaves the largest sum. That attention is (approximately)
submodular, on which the paper's guarantee rests, is a hypothesis: nothing here tests or uses it.

Code is that of FMInference/H2O at commit ac75c2a8a9e76832b2a4139b9363373b56336bfb,
h2o_hf/utils_real_drop/modify_llama.py (H2OKVCache_LayerWise). It is a one-entry successor in decode only: at the end
of the prompt it drops all rows past the budget at once, after every prompt query has voted. That hand-off is
`prompt_in_bulk`, a labelled variant beside `prompt_row_by_row`.
"""

from collections.abc import Sequence
from fractions import Fraction

from kvaudit.policies.retention import Number, Rows, largest_and_recent, packed_rows, summed_over_queries

SOURCE = {
    "repository": "FMInference/H2O",
    "commit": "ac75c2a8a9e76832b2a4139b9363373b56336bfb",
    "file": "h2o_hf/utils_real_drop/modify_llama.py",
}


def accumulated(candidate: Rows, attention: Sequence[Number]) -> Rows:
    """Return the candidate with h_t = h_(t-1) + a_t; `attention` has one weight a candidate row."""
    scores = tuple(score + weight for score, weight in zip(candidate.scores, attention, strict=True))
    return Rows(candidate.positions, scores)


def select(candidate: Rows, heavy_rows: int, recent_rows: int) -> tuple[int, ...]:
    """Return S_t, ascending. With no recent rows the new row itself may be the one that leaves."""
    return largest_and_recent(candidate, heavy_rows, recent_rows)


def prompt_in_bulk(attention: Sequence[Sequence[Number]], heavy_rows: int, recent_rows: int) -> tuple[int, ...]:
    """Return what the pinned code keeps of a prompt: every query votes over all of it, then all rows past k leave.

    `attention` is a causal triangle: row t has the t + 1 weights of the query at position t.
    """
    rows = len(attention)
    return select(Rows(tuple(range(rows)), summed_over_queries(attention, rows)), heavy_rows, recent_rows)


def prompt_row_by_row(
    attention: Sequence[Sequence[Number]], heavy_rows: int, recent_rows: int
) -> tuple[int, ...] | None:
    """Return what a one-entry successor keeps of the same prompt, fed a row at a time.

    An evicted row is absent from every later softmax, so that the weights of the survivors are renormalised. None where
    a query gives no weight to any row that is left: its attention over them is then not known.
    """
    state = Rows((), ())
    for position, weights in enumerate(attention):
        candidate = state.appended([position])
        mass = sum((weights[row] for row in candidate.positions), Fraction(0))
        if not mass:
            return None
        candidate = accumulated(candidate, [Fraction(weights[row]) / mass for row in candidate.positions])
        state = candidate.gathered(packed_rows(candidate.positions, select(candidate, heavy_rows, recent_rows)))
    return state.positions
