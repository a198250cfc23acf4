"""From prompt to decode under a bounded policy: two designs that end in one view (specification 0x04).

A retrofitted policy materialises K/V of the whole prompt, publishes its view, and then releases the rows outside. An
architecture trained with local attention never holds a globally visible prompt cache, so it has nothing to release. The
views agree; prefill graph, temporary peak and training do not.
"""

from collections.abc import Callable

from kvaudit.policies.intervals import EMPTY, Intervals, difference

MATERIALISE_THEN_PUBLISH = "materialise_then_publish"
NEVER_MATERIALISED = "never_materialised"
DESIGNS = (MATERIALISE_THEN_PUBLISH, NEVER_MATERIALISED)


def release_intent(design: str, source: Intervals, published: Intervals) -> Intervals:
    """Return the prompt rows that the allocator may release once the view is published.

    They are rows that the source holds and the view omits. They were never in a published view, so none of them was
    removed from a parent view.
    """
    return difference(source, published) if design == MATERIALISE_THEN_PUBLISH else EMPTY


def peak_rows(design: str, prompt_rows: int, chunk_rows: int, visible_rows: Callable[[int], int]) -> int:
    """Return the most rows that one layer and K/V head holds while a prompt is prefilled in chunks of `chunk_rows`.

    `visible_rows(F)` is the size of the policy's view at frontier F, which never shrinks as F grows. A materialised
    prompt grows to its whole length. Otherwise each chunk stands beside the view that the chunks before it left, and
    the peak comes with the last full chunk or with the shorter one after it.
    """
    if design == MATERIALISE_THEN_PUBLISH:
        return prompt_rows
    full_chunks, rest = divmod(prompt_rows, chunk_rows)
    peak = visible_rows(prompt_rows - rest) + rest
    if full_chunks:
        peak = max(peak, visible_rows(prompt_rows - rest - chunk_rows) + chunk_rows)
    return peak
