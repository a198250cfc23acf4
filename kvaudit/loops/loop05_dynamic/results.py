"""What the report says of the runs: steps, payload, and the labelled alternatives with their consequence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from kvaudit.evidence.summary import summarised
from kvaudit.loops.loop05_dynamic.state import (
    METHODS,
    TITLES,
    Method,
    Step,
    Trace,
    kept_positions,
    low_score_counts,
    schedule,
    single_row,
)
from kvaudit.model import Document, LedgerRow, Snapshot
from kvaudit.policies import keyformer, packing, retention, scissorhands
from kvaudit.policies.retention import PHASES, Number, Rows


def run_results(fixture: Document, methods: Mapping[str, Method], traces: Mapping[str, Trace]) -> Document:
    """Return the results that follow from the replay alone; the probes' answers are added by the oracle."""
    cache, method = fixture["cache"], methods["h2o"]
    finals = {name: tuple(rows.positions for rows in trace.final.rows) for name, trace in traces.items()}
    return {
        "geometry": {
            "layers": cache["layers"],
            "query_heads": cache["query_heads"],
            "kv_heads": cache["kv_heads"],
            "selection_owners": len(method.owners),
            "head_dimension": cache["head_dimension"],
            "row_bytes": method.geometry.row_bytes(),
            "score_bytes": method.score_bytes,
        },
        "selection": fixture["selection"],
        "budget": fixture["budget"],
        "phase_order": list(PHASES),
        "sources": fixture["sources"],
        "claims": fixture["claims"],
        "source_reported": fixture["source_reported"],
        "provenance": fixture["provenance"],
        "runs": {name: _run(trace) for name, trace in traces.items()},
        "final_frontier": traces["h2o"].final.frontier,
        "distinct_final_sets": len(set(finals.values())),
        "permanent_deletion": {name: _permanent_deletion(trace) for name, trace in traces.items()},
        "payload": {name: _payload(methods[name], traces[name]) for name in METHODS},
        "scissorhands": _scissorhands_results(methods["scissorhands"], traces["scissorhands"]),
        "h2o": {"alternatives": {"select_before_scoring": _select_before_scoring(method, traces["h2o"])}},
        "keyformer": {
            "schedule": _schedule_results(methods["keyformer"].policy),
            "odds": [_step_odds(step) for step in traces["keyformer"].steps],
            "alternatives": {"ordinary_attention": _ordinary_attention(methods["keyformer"], traces["keyformer"])},
        },
    }


def _run(trace: Trace) -> Document:
    return {
        "parent_positions": summarised([rows.positions for rows in trace.parent.rows]),
        "parent_scores": summarised([rows.scores for rows in trace.parent.rows]),
        "steps": [_step(step) for step in trace.steps],
        "cancelled_transactions": trace.cancelled,
        "rolled_back_transactions": trace.rolled_back,
        "final_positions": summarised([rows.positions for rows in trace.final.rows]),
        "final_scores": summarised([rows.scores for rows in trace.final.rows]),
    }


def _step(step: Step) -> Document:
    rows, before = step.scored.rows, step.before.rows
    entered = [len(set(kept) - set(old.positions)) for kept, old in zip(step.kept, before, strict=True)]
    new_rows = step.after.frontier - step.before.frontier
    return {
        "record": step.record,
        "step": step.label,
        "speculative": step.speculative,
        "state_generation": step.after.state_generation,
        "cache_generation": step.after.cache_generation,
        "temperature": step.scored.temperature,
        "candidate_positions": summarised([owner.positions for owner in rows]),
        "regularised_logits": _regularised_logits(step),
        "carried_scores": summarised([(*owner.scores, *(0,) * new_rows) for owner in before]),
        "increments": None if step.scored.increments is None else summarised(step.scored.increments),
        "scores": summarised([owner.scores for owner in rows]),
        "protected_positions": summarised(step.protected),
        "kept_positions": summarised(step.kept),
        "evicted_positions": summarised(step.evicted()),
        "gather_rows": summarised(step.gather_rows),
        "kept_scores": summarised([owner.scores for owner in step.after.rows]),
        "most_rows_entered": max(entered),
    }


def _regularised_logits(step: Step) -> Any:
    """Return y for each owner, or None where the method has none or several query rows make up the increment."""
    singles = [single_row(step, owner) for owner in range(len(step.kept))] if step.scored.logits else []
    rows = [row for row in singles if row is not None]
    return summarised(rows) if rows and len(rows) == len(singles) else None


def _permanent_deletion(trace: Trace) -> Document:
    """Return which processed positions are gone for each owner, and how often a later candidate had one of them."""
    returned = sum(
        1
        for step in trace.steps
        for candidate, before in zip(step.scored.rows, step.before.rows, strict=True)
        for position in set(candidate.positions) - set(before.positions)
        if position < step.before.frontier
    )
    frontier = trace.final.frontier
    return {
        "deleted_intervals": summarised(
            [packing.omitted_intervals(rows.positions, 0, frontier) for rows in trace.final.rows]
        ),
        "deleted_rows_in_later_candidates": returned,
    }


def _payload(method: Method, trace: Trace) -> Document:
    """Return the bytes of the largest candidate and of the last published state, and of candidate plus successor."""
    row_bytes = method.geometry.row_bytes()
    final_rows = sum(len(rows.positions) for rows in trace.final.rows)
    sizes = [(sum(len(rows.positions) for rows in step.scored.rows), sum(map(len, step.kept))) for step in trace.steps]
    candidate, successor = max(sizes, default=(None, None))
    both = None if candidate is None or successor is None else row_bytes * (candidate + successor)
    return {
        "candidate_bytes": None if candidate is None else row_bytes * candidate,
        "published_bytes": row_bytes * final_rows,
        "score_bytes": method.score_bytes * final_rows,
        "candidate_plus_successor_bytes": both,
        "candidate_is_whole_peak": None if candidate is None else successor == 0,
    }


def _scissorhands_results(method: Method, trace: Trace) -> Document:
    budgets = method.policy["layer_budget_rows"]
    per_layer = len(method.owners) // len(budgets)
    compressions = [step for step in trace.steps if any(step.evicted())]
    last = compressions[-1] if compressions else None
    return {
        "layer_budgets": {
            "rows": summarised(budgets),
            "rows_per_owner": summarised([scissorhands.owner_budget(rows, per_layer) for rows in budgets]),
            "uniform": len(set(budgets)) == 1,
            "later_layers_have_less": any(later < earlier for earlier, later in pairwise(budgets)),
        },
        "drop_share_of_budget": summarised(
            [Fraction(method.policy["drop_rows"] * per_layer, rows) for rows in budgets]
        ),
        "compression": None if last is None else _compression(method, last),
        "alternatives": {
            "printed_slice": None if last is None else _printed_slice(method, last),
            "printed_window": None if last is None else _printed_window(method, last),
            "baseline_per_step": None if last is None else _baseline_per_step(method, last),
        },
    }


def _compression(method: Method, step: Step) -> Document:
    recent, drop = method.policy["recent_rows"], method.policy["drop_rows"]
    sizes = [len(rows.positions) for rows in step.scored.rows]
    limits = [scissorhands.drop_limits(n, budget, recent) for n, budget in zip(sizes, method.budgets, strict=True)]
    return {
        "record": step.record,
        "baseline": Fraction(1, step.after.frontier),
        "history_rows": max(
            len(rows[-method.policy["history_rows"] :]) for heads in step.after.history for rows in heads
        ),
        "low_score_counts": summarised([rows.scores for rows in step.scored.rows]),
        "dropped_positions": summarised(step.evicted()),
        "least_drop_rows": summarised([least for least, _ in limits]),
        "largest_drop_rows": summarised([largest for _, largest in limits]),
        "rows_left_by_dropping_one": summarised([n - 1 for n in sizes]),
        # 0 < m <= n - B + m, as the pseudocode prints the bound on m.
        "printed_bound_excludes_a_drop": not all(
            0 < m <= n - budget + m
            for n, budget in zip(sizes, method.budgets, strict=True)
            if n > budget
            for m in (1, drop, n)
        ),
    }


def _recompressed(
    method: Method, step: Step, counts: Sequence[Sequence[Number]], rule: Callable[..., tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Return what every owner keeps under other counts or another rule; owners within their budget keep everything."""
    recent, drop = method.policy["recent_rows"], method.policy["drop_rows"]
    return [
        rule(rows.positions, owner_counts, recent, drop) if len(rows.positions) > budget else rows.positions
        for rows, owner_counts, budget in zip(step.scored.rows, counts, method.budgets, strict=True)
    ]


def _printed_slice(method: Method, step: Step) -> Document:
    counts = [rows.scores for rows in step.scored.rows]
    kept = _recompressed(method, step, counts, scissorhands.compress_as_printed)
    evicts = any(set(protected) - set(rows) for protected, rows in zip(step.protected, kept, strict=True))
    return {"kept_positions": summarised(kept), "evicts_a_recent_row": evicts}


def _printed_window(method: Method, step: Step) -> Document:
    """The sum from t - w to t, as 0x06B prints it, has one row more than the window of w rows."""
    t, window = step.after.frontier, method.policy["history_rows"]
    printed = len(range(t - window, t + 1))
    counts = [
        low_score_counts(method, rows.positions, history, printed, t)
        for rows, history in zip(step.scored.rows, step.after.history, strict=True)
    ]
    kept = _recompressed(method, step, counts, scissorhands.compress)
    return {
        "rows": printed,
        "is_the_declared_width": printed == window,
        "low_score_counts": summarised(counts),
        "kept_positions": summarised(kept),
    }


def _baseline_per_step(method: Method, step: Step) -> Document:
    """Counts that are maintained while generating compare each row with its own 1/t, not with that of the event."""
    window = method.policy["history_rows"]
    counts = [
        retention.reduced(
            [scissorhands.low_score_counts_per_step(rows.positions, head[-window:]) for head in history],
            method.reduction,
        )
        for rows, history in zip(step.scored.rows, step.after.history, strict=True)
    ]
    kept = _recompressed(method, step, counts, scissorhands.compress)
    return {"low_score_counts": summarised(counts), "kept_positions": summarised(kept)}


def _select_before_scoring(method: Method, trace: Trace) -> list[Document]:
    """Return what each step would keep if it selected by the carried scores, before the current query has voted."""
    alternatives = []
    for step in trace.steps:
        new_rows = range(step.before.frontier, step.after.frontier)
        stale = [rows.appended(new_rows) for rows in step.before.rows]
        kept = [kept_positions(method, owner, rows) for owner, rows in enumerate(stale)]
        evicted = [sorted(set(rows.positions) - set(one)) for rows, one in zip(stale, kept, strict=True)]
        alternatives.append(
            {"record": step.record, "kept_positions": summarised(kept), "evicted_positions": summarised(evicted)}
        )
    return alternatives


def _schedule_results(policy: Document) -> Document:
    past = policy["expected_transactions"] + 1
    rules = (keyformer.CLAMP, keyformer.CONTINUE, keyformer.RECOMPUTE)
    temperatures = {
        rule: schedule({**policy, "declared_budgets": [], "beyond_schedule": rule}).temperature(past) for rule in rules
    }
    return {
        "initial_temperature": policy["initial_temperature"],
        "final_temperature": policy["final_temperature"],
        "expected_transactions": policy["expected_transactions"],
        "beyond_schedule": policy["beyond_schedule"],
        "one_past_the_schedule": {"transaction": past, **temperatures},
    }


def _step_odds(step: Step) -> Document:
    """Return for how many pairs of a step the odds are the exponential: of query rows, and of cumulative scores."""
    temperature = step.scored.temperature
    assert temperature is not None
    rows = [row for heads in step.scored.logits for queries in heads for row in queries]
    singles = [single_row(step, owner) for owner in range(len(step.scored.rows))]
    cumulative = [
        (keyformer.pair_count(len(single)), keyformer.pairs_with_exponential_odds(scored.scores, single, temperature))
        for scored, single in zip(step.scored.rows, singles, strict=True)
        if single is not None
    ]
    summed = len(cumulative) < len(singles)
    return {
        "record": step.record,
        "query_rows": len(rows),
        "pairs": sum(keyformer.pair_count(len(row)) for row in rows),
        "pairs_of_increments_with_exponential_odds": sum(
            keyformer.pairs_with_exponential_odds(keyformer.gumbel_softmax(row, temperature), row, temperature)
            for row in rows
        ),
        "pairs_of_cumulative_scores": None if summed else sum(pairs for pairs, _ in cumulative),
        "pairs_of_cumulative_scores_with_exponential_odds": None if summed else sum(alike for _, alike in cumulative),
    }


def _ordinary_attention(method: Method, trace: Trace) -> Document | None:
    """Return what the last step would keep if ordinary attention had been accumulated over the same candidates."""
    if not trace.steps:
        return None
    totals: list[dict[int, Number]] = [
        dict(zip(rows.positions, rows.scores, strict=True)) for rows in trace.parent.rows
    ]
    last: list[Rows] = []
    for step in trace.steps:
        last = []
        for owner, (rows, heads) in enumerate(zip(step.scored.rows, step.evidence, strict=True)):
            per_head = [
                # Ordinary attention is the same softmax, without noise and at temperature 1.
                keyformer.increments(queries, 1, len(rows.positions))
                for queries in heads
            ]
            weights = retention.reduced(per_head, method.reduction)
            scores = [
                totals[owner].get(position, 0) + weight
                for position, weight in zip(rows.positions, weights, strict=True)
            ]
            totals[owner] = dict(zip(rows.positions, scores, strict=True))
            last.append(Rows(rows.positions, tuple(scores)))
    return {
        "scores": summarised([rows.scores for rows in last]),
        "kept_positions": summarised([kept_positions(method, owner, rows) for owner, rows in enumerate(last)]),
    }


def ledgers(fixture: Document, method: Method, frontier: int) -> tuple[LedgerRow, ...]:
    """Return the payload of a one-entry successor at the common budget k and the frontier F, over all owners."""
    budget, token_bytes = fixture["budget"]["rows_per_owner"], method.geometry.token_bytes()
    published = min(budget, frontier)
    return (
        LedgerRow("source_rows", token_bytes * frontier, "B", "L * H_owner * F * B_row"),
        LedgerRow(
            "append_before_evict_peak",
            token_bytes * min(budget + 1, frontier),
            "B",
            "L * H_owner * min(k + 1, F) * B_row, the candidate of a one-entry successor; its payload only",
        ),
        LedgerRow("published_rows", token_bytes * published, "B", "L * H_owner * min(k, F) * B_row"),
        LedgerRow(
            "score_state",
            method.geometry.owners() * published * method.score_bytes,
            "B",
            "L * H_owner * min(k, F) * score_bytes",
        ),
    )


def snapshots(methods: Mapping[str, Method], traces: Mapping[str, Trace]) -> Iterator[Snapshot]:
    """Yield every state that was published for good, by method, transaction and owner."""
    for name, trace in traces.items():
        for step in trace.steps:
            for owner, kept in enumerate(step.kept):
                yield Snapshot(
                    policy=TITLES[name],
                    step=step.label,
                    owner=methods[name].owner_name(owner),
                    state_generation=step.after.state_generation,
                    cache_generation=step.after.cache_generation,
                    selected_original_positions=kept,
                    selected_row_count=len(kept),
                    published=True,
                )
