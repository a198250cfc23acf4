"""The score phase, by the rule of each method."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop05_dynamic.diagnostics import (
    NOISE,
    NOISE_SHAPE,
    SCORE_VALUE,
    TEMPERATURE,
    TEMPERATURE_PAST,
    TEMPERATURE_SIGN,
)
from kvaudit.loops.loop05_dynamic.requirements import (
    every_query_row,
    require_evidence,
    require_lists,
    require_spread,
    shown,
    within,
)
from kvaudit.loops.loop05_dynamic.state import Method, Scored, State, low_score_counts, schedule
from kvaudit.model import Document, pointer
from kvaudit.policies import h2o, keyformer, retention
from kvaudit.policies.retention import Number, Rows
from kvaudit.policies.scissorhands import AttentionRow


def judge_score(
    method: Method,
    state: State,
    candidate: tuple[Rows, ...],
    attended: tuple[Document, Any, tuple[list[int], ...]],
    event: Document,
    where: str,
) -> Scored:
    """Return the candidate scored by the method's rule, if the stated scores are those.

    `attended` is the attend event, its evidence, and how many rows each query of each owner sees.
    """
    attend, evidence, visible = attended
    if method.name == "scissorhands":
        scored = _scissorhands_scores(method, state, candidate, attend["query_positions"], evidence)
    elif method.name == "h2o":
        scored = _h2o_scores(method, candidate, evidence)
    else:
        temperature = _judge_temperature(method, state.scored, event["temperature"], where + "/temperature")
        require_evidence(method, event["gumbel"], visible, NOISE_SHAPE, where + "/gumbel")
        noise = _judge_noise(method, state, candidate, event["gumbel"], where + "/gumbel")
        scored = _keyformer_scores(method, candidate, evidence, event["gumbel"], temperature, noise, where)
    expected = [rows.scores for rows in scored.rows]
    close = within(method.receipt_tolerance)
    require_lists(SCORE_VALUE, expected, event["scores"], where + "/scores", close)
    return scored


def _scissorhands_scores(
    method: Method, state: State, candidate: tuple[Rows, ...], queries: list[int], evidence: Any
) -> Scored:
    history = tuple(
        tuple(
            (*old, *(attention_row(query, rows.positions, row) for query, row in zip(queries, new, strict=True)))
            for old, new in zip(owner_history, heads, strict=True)
        )
        for owner_history, heads, rows in zip(state.history, evidence, candidate, strict=True)
    )
    window, t = method.policy["history_rows"], queries[-1] + 1
    scored = tuple(
        Rows(rows.positions, low_score_counts(method, rows.positions, owner_history, window, t))
        for rows, owner_history in zip(candidate, history, strict=True)
    )
    return Scored(scored, None, None, (), history, state.noise)


def _h2o_scores(method: Method, candidate: tuple[Rows, ...], evidence: Any) -> Scored:
    increments = tuple(
        retention.reduced(
            [retention.summed_over_queries(rows, len(owner.positions)) for rows in heads], method.reduction
        )
        for owner, heads in zip(candidate, evidence, strict=True)
    )
    scored = tuple(h2o.accumulated(rows, weights) for rows, weights in zip(candidate, increments, strict=True))
    return Scored(scored, increments, None, (), tuple(() for _ in candidate), tuple(() for _ in candidate))


def _judge_temperature(method: Method, transaction: int, stated: Number, where: str) -> Fraction:
    temperature = schedule(method.policy).temperature(transaction)
    if temperature is None:
        reason = f"transaction {transaction} is past the schedule, and no new generation length was declared"
        raise ContractViolation(TEMPERATURE_PAST, where, reason)
    if temperature <= 0:
        reason = f"expected a temperature above zero, the schedule gives {shown(temperature)}"
        raise ContractViolation(TEMPERATURE_SIGN, where, reason)
    if not within(method.receipt_tolerance)(temperature, stated):
        reason = f"expected {shown(temperature)} for transaction {transaction}, found {shown(stated)}"
        raise ContractViolation(TEMPERATURE, where, reason)
    return temperature


def _judge_noise(
    method: Method, state: State, candidate: tuple[Rows, ...], gumbel: Any, where: str
) -> tuple[tuple[Mapping[int, Number], ...], ...]:
    """Return the noise of each position, where it is drawn once; a position keeps it for as long as it is retained."""
    if method.policy["noise"] != "once":
        return state.noise
    drawn = []
    for owner, (heads, rows) in enumerate(zip(state.noise, candidate, strict=True)):
        known = [dict(head) for head in heads]
        for head, draws in enumerate(gumbel[owner]):
            for query, values in enumerate(draws):
                for position, (column, value) in zip(rows.positions, enumerate(values), strict=False):
                    if known[head].setdefault(position, value) != value:
                        reason = f"the noise of position {position} was drawn before, found another value"
                        raise ContractViolation(NOISE, where + pointer(owner, head, query, column), reason)
        drawn.append(tuple(known))
    return tuple(drawn)


def _keyformer_scores(
    method: Method,
    candidate: tuple[Rows, ...],
    evidence: Any,
    gumbel: Any,
    temperature: Fraction,
    noise: tuple[tuple[Mapping[int, Number], ...], ...],
    where: str,
) -> Scored:
    logits = tuple(
        tuple(
            tuple(keyformer.regularised(row, zeta) for row, zeta in zip(rows, zetas, strict=True))
            for rows, zetas in zip(heads, noises, strict=True)
        )
        for heads, noises in zip(evidence, gumbel, strict=True)
    )
    for place, row in every_query_row(logits, where + "/gumbel"):
        require_spread(row, temperature, place)
    increments = tuple(
        retention.reduced(
            [keyformer.increments(rows, temperature, len(owner.positions)) for rows in heads], method.reduction
        )
        for owner, heads in zip(candidate, logits, strict=True)
    )
    scored = tuple(
        Rows(rows.positions, tuple(score + delta for score, delta in zip(rows.scores, deltas, strict=True)))
        for rows, deltas in zip(candidate, increments, strict=True)
    )
    return Scored(scored, increments, temperature, logits, tuple(() for _ in candidate), noise)


def attention_row(query: int, positions: Sequence[int], weights: Sequence[Number]) -> AttentionRow:
    """Return the attention of one query over the positions that it sees, a prefix of `positions`."""
    return AttentionRow(query, dict(zip(positions, weights, strict=False)))
