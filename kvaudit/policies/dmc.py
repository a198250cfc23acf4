"""Dynamic Memory Compression: append a row or accumulate it into the newest segment (specification 0x0CB to 0x0CE).

    alpha_t = 0  appends: a new segment (k_t, v_t) with mass z_t = omega_t
    alpha_t = 1  accumulates: z_t = z + omega_t, and key and value become (z old + omega_t new) / z_t

So a segment holds the importance-weighted means of its rows. Decision and weight come from a control channel that is
zeroed before attention; the rows here are payload after that. Everything is exact but the logistic function.

Source: arXiv 2403.09636, equations 8 to 10 and algorithm 1. Pinned code: NVIDIA/Megatron-LM, branch dmc, at
d36bf8d5333b60c3d6b871128644c2b87d241d0b, megatron/contrib/dmc/ (`pinned_*` below).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies.transcendental import Number, logistic, to_places

Row = Sequence[Number]

APPEND = 0
ACCUMULATE = 1

# megatron/contrib/dmc/inference.py compares in bfloat16: a margin below the offset, and one unit in the last place of 1
# added to each weight.
PINNED_DECISION_MARGIN = Fraction("0.00785")
PINNED_WEIGHT_SHIFT = Fraction(1, 128)


@dataclass(frozen=True, slots=True)
class Segment:
    """One stored row: the source rows `first` to `last` (both included) as their weighted means.

    `mass` is the sum of their weights. `last` is also the anchor, the position that the runtime gives the stored row;
    that does not make it the row of the newest token.
    """

    first: int
    last: int
    mass: Fraction
    key: tuple[Fraction, ...]
    value: tuple[Fraction, ...]


def decision(logit: Number) -> int:
    """Return alpha = round(sigmoid(logit)), where exactly one half rounds up: logit 0 accumulates."""
    return ACCUMULATE if logit >= 0 else APPEND


def weight(logit: Number) -> Fraction:
    """Return omega = sigmoid(logit), strictly between 0 and 1."""
    return logistic(logit)


def pinned_decision(logit: Number, offset: Number) -> int:
    """Return the decision of the pinned inference code, which keeps the training offset and appends at a tie."""
    return ACCUMULATE if logit - offset - PINNED_DECISION_MARGIN >= 0 else APPEND


def pinned_weight(logit: Number, offset: Number) -> Fraction:
    """Return the weight of the pinned inference code, sigmoid(logit + offset) plus 1/128, which may exceed 1."""
    return logistic(logit + offset) + PINNED_WEIGHT_SHIFT


def without_channel(row: Row, channel: int) -> tuple[Number, ...]:
    """Return a row whose control channel is zeroed; -1 is the last channel."""
    control = channel % len(row)
    return tuple(0 if index == control else scalar for index, scalar in enumerate(row))


def segments(
    alpha: Sequence[int], omega: Sequence[Number], keys: Sequence[Row], values: Sequence[Row], first_position: int = 0
) -> tuple[Segment, ...]:
    """Return the segments after the last row, oldest first, by the running update.

    All four sequences have one entry a source row. The first row is appended whatever its decision says, because there
    is nothing to accumulate into.
    """
    stored: list[Segment] = []
    for index, (decided, importance, key, value) in enumerate(zip(alpha, omega, keys, values, strict=True)):
        position = first_position + index
        if decided == APPEND or not stored:
            stored.append(Segment(position, position, Fraction(importance), _fractions(key), _fractions(value)))
            continue
        tail = stored.pop()
        mass = tail.mass + importance
        stored.append(
            Segment(
                tail.first,
                position,
                mass,
                _mixed(tail.mass, tail.key, importance, key, mass),
                _mixed(tail.mass, tail.value, importance, value, mass),
            )
        )
    return tuple(stored)


def pinned_segments(
    alpha: Sequence[int], omega: Sequence[Number], keys: Sequence[Row], values: Sequence[Row], window_rows: int
) -> tuple[Segment, ...]:
    """Return the segments of the pinned inference code: means over at most the last `window_rows` of each segment.

    The span stays that of the whole segment; mass, key and value are those of its newest rows.
    """
    windowed = []
    for whole in segments(alpha, omega, keys, values):
        begin = max(whole.first, whole.last + 1 - window_rows)
        newest = slice(begin, whole.last + 1)
        accumulated = [ACCUMULATE] * (whole.last + 1 - begin)
        (recent,) = segments(accumulated, omega[newest], keys[newest], values[newest], begin)
        windowed.append(Segment(whole.first, whole.last, recent.mass, recent.key, recent.value))
    return tuple(windowed)


def appended_rows(alpha: Sequence[int]) -> int:
    """Return T_DMC = sum of (1 - alpha_t). It is the number of segments only if the first decision is an append."""
    return sum(1 - decided for decided in alpha)


def compression_ratio(source_rows: int, stored_rows: int) -> Fraction:
    """Return CR = n / T_DMC. `stored_rows` is positive."""
    return Fraction(source_rows, stored_rows)


def payload_bytes(batch: int, lengths: Sequence[Sequence[int]], row_bytes: int) -> int:
    """Return M = B * row_bytes * sum of T_lh over layers and K/V heads; `row_bytes` is 2 d_h b for K and V together."""
    return batch * row_bytes * sum(map(sum, lengths))


def padded_payload_bytes(batch: int, lengths: Sequence[Sequence[int]], row_bytes: int) -> int:
    """Return the payload if every owner is padded to the longest one, which gives back part of the saving."""
    owners = sum(map(len, lengths))
    return batch * row_bytes * owners * max(map(max, lengths))


def pages_ceil(lengths: Sequence[Sequence[int]], page_rows: int) -> int:
    """Return the pages of all owners, each rounded up on its own: ceil(T_lh / page_rows)."""
    return sum(-(-length // page_rows) for heads in lengths for length in heads)


@dataclass(frozen=True, slots=True)
class RelaxedState:
    """One retained training state: its partial decision, running mass, key and value."""

    alpha: Fraction
    mass: Fraction
    key: tuple[Fraction, ...]
    value: tuple[Fraction, ...]


def gumbel_sigmoid(logit: Number, offset: Number, noise: Number, temperature: Number) -> Fraction:
    """Return the relaxed decision sigmoid((logit - c + noise) / tau), between 0 and 1, to 40 places (0x0CD).

    `noise` is the difference of two Gumbel samples, fixed in a fixture; `temperature` is positive.
    """
    return to_places(logistic(Fraction(logit - offset + noise) / temperature))


def relaxed_states(
    alpha: Sequence[Number], omega: Sequence[Number], keys: Sequence[Row], values: Sequence[Row]
) -> tuple[RelaxedState, ...]:
    """Return the state after every row of z_i = alpha_i z_(i-1) + omega_i and the means with it (0x0CD).

    Training keeps all of them, so it is another graph than the cache: with decisions 0 and 1 the state of the last row
    of a segment is that segment, and the states before it no longer exist at inference.
    """
    states: list[RelaxedState] = []
    for decided, importance, key, value in zip(alpha, omega, keys, values, strict=True):
        carried = decided * states[-1].mass if states else Fraction(0)
        mass = carried + importance
        old_key = states[-1].key if states else (Fraction(0),) * len(key)
        old_value = states[-1].value if states else (Fraction(0),) * len(value)
        states.append(
            RelaxedState(
                Fraction(decided),
                mass,
                _mixed(carried, old_key, importance, key, mass),
                _mixed(carried, old_value, importance, value, mass),
            )
        )
    return tuple(states)


def surviving_shares(alpha: Sequence[Number]) -> tuple[Fraction, ...]:
    """Return how far the newest query still sees each training state: 1 - alpha_(i+1), and 1 for the newest.

    The additive attention mask of training is the logarithm of it. With decisions 0 and 1 exactly the last row of each
    segment is seen.
    """
    return (*(1 - Fraction(decided) for decided in alpha[1:]), Fraction(1))


def compression_loss(appended: Number, decisions: int, target_ratio: Number) -> Fraction:
    """Return max(0, appended - LHT / CR_target) / LHT, where LHT is the number of decisions.

    One-sided: a model that appends fewer rows than the target allows is not pulled back.
    """
    return max(Fraction(0), appended - Fraction(decisions) / target_ratio) / decisions


def _mixed(old_mass: Fraction, old: Row, importance: Number, new: Row, mass: Fraction) -> tuple[Fraction, ...]:
    return tuple((old_mass * one + importance * other) / mass for one, other in zip(old, new, strict=True))


def _fractions(row: Row) -> tuple[Fraction, ...]:
    return tuple(Fraction(scalar) for scalar in row)
