"""Keyformer: key tokens by accumulated Gumbel-softmax, at a rising temperature (arXiv 2403.09054; 0x06G and 0x06H).

    y_t = x_t + zeta_t        f_t = f_(t-1) + softmax(y_t / tau_t)        tau_t = tau_0 + t (tau_T - tau_0) / T

The score selects which rows stay. Attention itself is the ordinary softmax of x and is no part of it. t counts scored
transactions of the request: the prompt is 0.

Code is that of d-matrix-ai/keyformer-llm at commit f327831056a9909b133aaa14a48f2bd0722acede,
models/mpt-keyformer-lib/attention_keyformer_new_bias.py. It sums the rows over batch and queries into one score a head
(`batch_and_query_sum`, a labelled variant), draws fresh noise in every forward, and lets the temperature rise past T.

Decided here: what happens past T is declared, one of `clamp`, `continue_rising` and `recompute`; the noise is an input.
Several prompt query rows are each a causal softmax over their own visible rows, and their increments add up. An
increment is kept to 50 significant digits, so that the score of a long generation does not grow a digit a step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

from kvaudit.policies.attention import DIGITS, softmax
from kvaudit.policies.retention import Number, Rows, largest_and_recent, summed_over_queries

SOURCE = {
    "repository": "d-matrix-ai/keyformer-llm",
    "commit": "f327831056a9909b133aaa14a48f2bd0722acede",
    "file": "models/mpt-keyformer-lib/attention_keyformer_new_bias.py",
}

CLAMP, CONTINUE, RECOMPUTE = "clamp", "continue_rising", "recompute"

_SIGNIFICANT = Context(prec=DIGITS)

# Two quotients of numbers at 50 digits are equal if they agree to this share.
_AGREEMENT = Fraction(1, 10**40)


@dataclass(frozen=True, slots=True)
class Schedule:
    """tau_0, tau_T, the generation length T that the schedule expects, and what holds beyond it.

    `budgets` maps a transaction number to the T' that was declared there (`recompute` only): it holds from then on.
    """

    initial: Number
    final: Number
    expected_transactions: int
    beyond: str
    budgets: Mapping[int, int]

    def temperature(self, transaction: int) -> Fraction | None:
        """Return tau_t, or None where t is past T under `recompute` and nobody has declared a new T'."""
        expected = self.expected_transactions
        for declared_at in sorted(self.budgets):
            if declared_at <= transaction:
                expected = self.budgets[declared_at]
        if transaction > expected and self.beyond == RECOMPUTE:
            return None
        reached = min(transaction, expected) if self.beyond == CLAMP else transaction
        return self.initial + Fraction(reached * (self.final - self.initial)) / expected


def regularised(logits: Sequence[Number], gumbel: Sequence[Number]) -> tuple[Number, ...]:
    """Return y = x + zeta, one a visible row."""
    return tuple(logit + noise for logit, noise in zip(logits, gumbel, strict=True))


def gumbel_softmax(logits: Sequence[Number], temperature: Number) -> tuple[Fraction, ...]:
    """Return softmax(y / tau) of regularised logits y, shape [n]: the increment that one query row gives."""
    shares = softmax([Fraction(logit) / temperature for logit in logits])
    return tuple(_rounded(share) for share in shares)


def increments(rows: Sequence[Sequence[Number]], temperature: Number, candidates: int) -> tuple[Number, ...]:
    """Return delta_t(j), the sum of the Gumbel-softmax of every query row of one query head, shape [candidates]."""
    return summed_over_queries([gumbel_softmax(row, temperature) for row in rows], candidates)


def select(candidate: Rows, key_rows: int, recent_rows: int) -> tuple[int, ...]:
    """Return the w newest rows and the k - w historical rows with the largest cumulative score, ascending."""
    return largest_and_recent(candidate, key_rows, recent_rows)


def batch_and_query_sum(
    sequences: Sequence[Sequence[Sequence[Number]]], temperature: Number, candidates: int
) -> tuple[Number, ...]:
    """Return the increment of the pinned code, which sums over batch and queries (`gumbel_score.sum(0).sum(1)`).

    `sequences` is [batch][query rows][visible rows] of one head. Every sequence is then given one and the same score.
    """
    return increments([row for rows in sequences for row in rows], temperature, candidates)


def exponential_odds(logits: Sequence[Number], temperature: Number, row: int, other: int) -> Fraction:
    """Return exp((y_i - y_j) / tau), which the odds of two increments of one query row equal (0x06H)."""
    share, other_share = softmax([Fraction(logits[row]) / temperature, Fraction(logits[other]) / temperature])
    return share / other_share


def agrees(one: Fraction, other: Fraction) -> bool:
    """Return whether two positive numbers that were computed at 50 digits are equal up to that precision."""
    return abs(one - other) <= _AGREEMENT * max(one, other)


def pair_count(rows: int) -> int:
    """Return n (n - 1) / 2, the pairs of n rows."""
    return rows * (rows - 1) // 2


def pairs_with_exponential_odds(values: Sequence[Number], logits: Sequence[Number], temperature: Number) -> int:
    """Return for how many of the n (n - 1) / 2 pairs values_i / values_j = exp((y_i - y_j) / tau).

    That is so exactly where values_i / exp(y_i / tau) is one number for both, so each row is divided by its exponential
    once and equal quotients are counted: every pair is judged, and none of them is formed.
    """
    highest = logits.index(max(logits))
    quotients = sorted(
        Fraction(value) / exponential_odds(logits, temperature, row, highest)
        for row, value in enumerate(values)
        if value > 0
    )
    pairs, alike = 0, 0
    for row, quotient in enumerate(quotients):
        alike = alike + 1 if row and agrees(quotients[row - 1], quotient) else 0
        pairs += alike
    return pairs


def _rounded(share: Fraction) -> Fraction:
    return Fraction(_SIGNIFICANT.divide(Decimal(share.numerator), Decimal(share.denominator)))
