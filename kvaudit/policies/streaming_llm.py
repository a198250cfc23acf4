"""StreamingLLM: initial sink rows and a rolling recent suffix (arXiv 2309.17453; specification 0x05).

Four things are kept apart here. The *set* is a union, so sinks and recents that overlap early count once. The
*reservation* makes room before several rows are appended. The *sequence axis* on which a cache is cut depends on the
model family. *Positions* come in three coordinates: the original position of a row, its packed row in the retained
cache, and the position that attention consumes.

Code is that of mit-han-lab/streaming-llm at commit 2e5042606d69933d88fbf909bd77907456b9b4dd.

Decided here: nothing is evicted while all rows fit, and only where something must be evicted do the incoming rows have
to fit the recent partition. More incoming rows than that are refused, or cut into pieces of W rows, the last one
shorter, each reserved and appended before the next. The pinned code does neither; what it does instead is
`pinned_evict_for_space`, an alternative for comparison and no contract.
"""

from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies.intervals import Interval, Intervals, interval, size, union

# The sequence axis of K and of V in a cache of each family (pinned code, enable_streaming_llm.py).
SEQUENCE_AXES = {"llama": (2, 2), "gpt_neox": (2, 2), "mpt": (3, 2), "falcon": (1, 1)}

# Which positions attention consumes follows from the stage at which keys are stored. Keys rotated at their original
# positions keep them, whatever row they are packed in. Keys stored before rotation are rotated at their packed row,
# which needs an attention path that does so.
POST_ROPE_ABSOLUTE = "post_rope_absolute"
PRE_ROPE_REPOSITIONED = "pre_rope_repositioned"
STOCK_ATTENTION = "stock"
POSITION_SHIFT_ATTENTION = "position_shift"
ATTENTION_PATHS = {POST_ROPE_ABSOLUTE: STOCK_ATTENTION, PRE_ROPE_REPOSITIONED: POSITION_SHIFT_ATTENTION}

# One decode step on the retained cache projects K and V of the accepted row and nothing else.
PROJECTED_ROWS_A_STEP = 1

FITS = "fits"
EVICT = "evict"
CHUNK = "chunk"
REJECT = "reject"


def visible(frontier: int, sink_rows: int, recent_rows: int) -> Intervals:
    """Return V_sink+recent(F) = {0, ..., min(K_s, F) - 1} union {max(0, F - W), ..., F - 1}."""
    sinks: Interval = (0, min(sink_rows, frontier))
    recent: Interval = (max(0, frontier - recent_rows), frontier)
    return union([sinks], [recent])


def overlap_rows(frontier: int, sink_rows: int, recent_rows: int) -> int:
    """Return I(F) = max(0, min(K_s, F) - max(0, F - W)), the rows that are both sink and recent."""
    return max(0, min(sink_rows, frontier) - max(0, frontier - recent_rows))


def visible_rows(frontier: int, sink_rows: int, recent_rows: int) -> int:
    """Return min(K_s, F) + min(W, F) - I(F). K_s + W is only its saturated upper bound."""
    overlap = overlap_rows(frontier, sink_rows, recent_rows)
    return min(sink_rows, frontier) + min(recent_rows, frontier) - overlap


def first_upper_bound(sink_rows: int, recent_rows: int) -> int:
    """Return the first frontier with K_s + W visible rows."""
    return sink_rows + recent_rows


def first_middle_omission(sink_rows: int, recent_rows: int) -> int:
    """Return the first frontier at which a committed row between sinks and recents is not visible."""
    return sink_rows + recent_rows + 1


def retained_pairs(frontier: int, sink_rows: int, recent_rows: int) -> int:
    """Return the query-key pairs of one decode step on the retained cache: one query, the view after it, self included.

    F is the frontier after the step.
    """
    return visible_rows(frontier, sink_rows, recent_rows)


def key_positions(view: Intervals, key_stage: str) -> Intervals:
    """Return the positions at which attention takes the keys of a view that is packed in ascending order."""
    return view if key_stage == POST_ROPE_ABSOLUTE else interval(0, size(view))


def query_position(frontier: int, view: Intervals, key_stage: str) -> int:
    """Return the position at which attention takes the newest row's query, whose own key is in the view.

    That is F - 1, the tokens seen before it, for absolute keys, and kv_len - 1 for repositioned ones. Neither is the
    number of stored rows.
    """
    return frontier - 1 if key_stage == POST_ROPE_ABSOLUTE else size(view) - 1


@dataclass(frozen=True, slots=True)
class Reservation:
    """What an append of several rows leaves of a cache.

    `kept` are the resident rows, numbered 0 to resident - 1, that remain when the append is done; `rows_after_append`
    counts them and the incoming rows that are in the cache then.
    """

    decision: str
    kept: Intervals
    rows_after_append: int


def reserve(
    resident_rows: int, incoming_rows: int, sink_rows: int, recent_rows: int, oversize_path: str
) -> Reservation:
    """Return how `incoming_rows` join `resident_rows` in a cache of K_s + W rows.

    `oversize_path` says what becomes of more incoming rows than W, where rows must be evicted: CHUNK or REJECT.
    """
    capacity = sink_rows + recent_rows
    if resident_rows + incoming_rows <= capacity:
        return Reservation(FITS, interval(0, resident_rows), resident_rows + incoming_rows)
    sinks: Interval = (0, min(sink_rows, resident_rows))
    if incoming_rows <= recent_rows:
        old_recent: Interval = (resident_rows - recent_rows + incoming_rows, resident_rows)
        return Reservation(EVICT, union([sinks], [old_recent]), capacity)
    if oversize_path == REJECT:
        return Reservation(REJECT, interval(0, resident_rows), resident_rows)
    # W incoming rows and more displace every old recent row, piece by piece.
    return Reservation(CHUNK, union([sinks]), capacity)


def pieces(incoming_rows: int, recent_rows: int) -> tuple[int, int]:
    """Return the number of pieces on the chunk path, each of W rows, and the rows of the last one."""
    count = -(-incoming_rows // recent_rows)
    return count, incoming_rows - (count - 1) * recent_rows


def pinned_evict_for_space(
    resident_rows: int, incoming_rows: int, start_size: int, recent_size: int
) -> tuple[Intervals, int]:
    """Return (kept resident rows, rows after append) as `StartRecentKVCache.evict_for_space` leaves them.

    With more incoming than recent rows, the slice of old recent rows begins behind the cache and is empty: only the
    sinks are kept, and the append overruns the capacity. Without incoming rows this is `StartRecentKVCache.__call__`.
    """
    if resident_rows + incoming_rows <= start_size + recent_size:
        kept = interval(0, resident_rows)
    else:
        start: Interval = (0, min(start_size, resident_rows))
        recent: Interval = (resident_rows - recent_size + incoming_rows, resident_rows)
        kept = union([start], [recent])
    return kept, size(kept) + incoming_rows


def mass_at_equal_logits(rows: int, normalisation: str) -> Fraction | None:
    """Return the attention mass that `rows` visible rows of equal logit zero receive together; None for no row.

    Softmax gives them all of it. Softmax-off-by-one, exp(x) / (1 + sum exp), gives n / (n + 1): a query may attend to
    nothing, without any retained row. Source: arXiv 2309.17453, section 3.3 (zero sink).
    """
    if rows == 0:
        return None
    return Fraction(rows, rows + 1) if normalisation == "softmax_off_by_one" else Fraction(1)
