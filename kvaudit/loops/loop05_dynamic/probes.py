"""Questions to finished runs, and state that requests must not share."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from kvaudit.errors import ContractViolation
from kvaudit.evidence.summary import summarised
from kvaudit.loops.loop05_dynamic.diagnostics import (
    BEAM_PERMUTATION,
    BEAM_RANGE,
    COVERAGE,
    EVIDENCE_SHAPE,
    FRONTIERS_DIFFER,
    NOISE_SHAPE,
    NOT_OVER_CANDIDATE,
    ODDS,
    PARENT_STATE,
    PROBE_RANGE,
    SCORE_LEAK,
    SHARED_SCORES,
    VISIBILITY,
)
from kvaudit.loops.loop05_dynamic.requirements import (
    require_ascending,
    require_count,
    require_mass,
    require_row,
    require_spread,
    shown,
    within,
)
from kvaudit.loops.loop05_dynamic.state import METHODS, Method, State, Step, Trace, single_row
from kvaudit.model import Document, joined, pointer
from kvaudit.policies import h2o, keyformer, scissorhands
from kvaudit.policies.retention import Number, Rows
from kvaudit.policies.scissorhands import AttentionRow

# A report writes numbers as binary64.
_LARGEST_QUOTIENT = 10**150


def judge_frontiers(traces: Mapping[str, Trace]) -> int:
    """Return the frontier at which all runs end."""
    frontier = traces[METHODS[0]].final.frontier
    for name in METHODS[1:]:
        found = traces[name].final.frontier
        if found != frontier:
            reason = f"expected the frontier {frontier} of {METHODS[0]}, found {found}"
            raise ContractViolation(FRONTIERS_DIFFER, pointer(name, "run", "records"), reason)
    return frontier


def persistence_probes(fixture: Document, method: Method, trace: Trace) -> Document:
    """Return the coverage of a later pivotal set by the earlier ones, for each probe."""
    results = {}
    for name, probe in fixture["scissorhands"]["persistence_probes"].items():
        where = pointer("scissorhands", "persistence_probes", name)
        rows = _history_of(method, trace.final, probe["layer"], probe["query_head"], where)
        first, later = probe["first_query_position"], probe["later_query_position"]
        for member in ("first_query_position", "later_query_position"):
            if probe[member] not in rows:
                reason = f"expected the position of a query row in the history, found {probe[member]}"
                raise ContractViolation(PROBE_RANGE, where + pointer(member), reason)
        if first >= later:
            reason = f"expected a position after {first}, found {later}"
            raise ContractViolation(PROBE_RANGE, where + "/later_query_position", reason)
        sets = {at: scissorhands.pivotal(row, probe["threshold"]) for at, row in rows.items() if first <= at <= later}
        pivotal = sets.pop(later)
        coverage = scissorhands.coverage(sets.values(), pivotal)
        stated, close = probe["coverage"], within(method.receipt_tolerance)
        if (stated is None) != (coverage is None) or (coverage is not None and not close(coverage, stated)):
            reason = f"expected {shown(coverage)}, found {shown(stated)}"
            raise ContractViolation(COVERAGE, where + "/coverage", reason)
        results[name] = {
            "pivotal_positions": summarised(sorted(pivotal)),
            "earlier_pivotal_positions": summarised(sorted(frozenset().union(*sets.values()))),
            "coverage": coverage,
        }
    return results


def _history_of(method: Method, state: State, layer: int, query_head: int, where: str) -> dict[int, AttentionRow]:
    for owner, history in zip(method.owners, state.history, strict=True):
        if owner.layer == layer and query_head in owner.query_heads:
            return {row.query_position: row for row in history[owner.query_heads.index(query_head)]}
    raise ContractViolation(PROBE_RANGE, where + "/query_head", f"there is no query head {query_head} in layer {layer}")


def prompt_variant(fixture: Document, method: Method) -> Document | None:
    """Return what the bulk hand-off of the pinned code keeps of a prompt, beside a one-entry successor."""
    variant = fixture["h2o"]["prompt_variant"]
    if variant is None:
        return None
    rows, where = variant["attention_rows"], "/h2o/prompt_variant/attention_rows"
    for query, row in enumerate(rows):
        require_count(row, query + 1, "weights", NOT_OVER_CANDIDATE, where + pointer(query))
        require_mass(row, method.mass_tolerance, where + pointer(query))
    heavy, recent = method.policy["heavy_rows"], method.policy["recent_rows"]
    bulk, single = h2o.prompt_in_bulk(rows, heavy, recent), h2o.prompt_row_by_row(rows, heavy, recent)
    return {
        "rows": len(rows),
        "rows_dropped_at_once": len(rows) - len(bulk),
        "kept_in_bulk": summarised(bulk),
        "kept_row_by_row": None if single is None else summarised(single),
    }


def odds_probes(fixture: Document, method: Method, trace: Trace) -> Document:
    """Return for each probed pair its odds in one step and in total, and what is said to be an exponential."""
    results = {}
    for name, probe in fixture["keyformer"]["odds_probes"].items():
        where = pointer("keyformer", "odds_probes", name)
        owner = _owner_at(method, probe["layer"], probe["head"], where)
        if probe["transaction"] >= len(trace.steps):
            reason = f"expected one of {len(trace.steps)} published transactions, found {probe['transaction']}"
            raise ContractViolation(PROBE_RANGE, where + "/transaction", reason)
        step = trace.steps[probe["transaction"]]
        pair = []
        for index, position in enumerate(probe["positions"]):
            if position not in step.scored.rows[owner].positions or position in probe["positions"][:index]:
                reason = f"expected two different positions of the candidate, found {position}"
                raise ContractViolation(PROBE_RANGE, where + pointer("positions", index), reason)
            pair.append(step.scored.rows[owner].positions.index(position))
        single = single_row(step, owner)
        if single is not None:
            for index, temperature in enumerate(probe["temperatures"]):
                require_spread(single, temperature, where + pointer("temperatures", index))
        results[name] = result = _odds(step, owner, pair, single, probe)
        for scope, odds in (("increment", result["increment_odds"]), ("cumulative", result["cumulative_odds"])):
            exponential = result["exponential"]
            holds = exponential is not None and odds is not None and keyformer.agrees(odds, exponential)
            member = f"{scope}_odds_are_exponential"
            if probe[member] != holds:
                reason = f"expected {holds}: the odds are {shown(odds)}, the exponential is {shown(exponential)}"
                raise ContractViolation(ODDS, where + pointer(member), reason)
    return results


def _odds(step: Step, owner: int, pair: list[int], single: Sequence[Number] | None, probe: Document) -> Document:
    scored, temperature = step.scored, step.scored.temperature
    assert scored.increments is not None
    assert temperature is not None
    increments = [scored.increments[owner][row] for row in pair]
    cumulative = [scored.rows[owner].scores[row] for row in pair]
    carried = [score - delta for score, delta in zip(cumulative, increments, strict=True)]
    exponential = None if single is None else keyformer.exponential_odds(single, temperature, *pair)
    cumulative_odds, carried_odds = _quotient(cumulative), _quotient(carried)
    step_odds = _quotient(increments)
    between = None
    if cumulative_odds is not None and carried_odds is not None and step_odds is not None:
        between = min(carried_odds, step_odds) <= cumulative_odds <= max(carried_odds, step_odds)
    return {
        "positions": probe["positions"],
        "regularised_logits": None if single is None else [single[row] for row in pair],
        "carried_scores": carried,
        "carried_odds": carried_odds,
        "increments": increments,
        "increment_odds": step_odds,
        "exponential": exponential,
        "cumulative_scores": cumulative,
        "cumulative_odds": cumulative_odds,
        "cumulative_over_exponential": None
        if exponential is None or cumulative_odds is None
        else cumulative_odds / exponential,
        "cumulative_lies_between": between,
        "gap_changes": [
            {"temperature": other, "gap_change": _gap_change(single, pair, other)} for other in probe["temperatures"]
        ],
    }


def _gap_change(single: Sequence[Number] | None, pair: list[int], temperature: Number) -> Fraction | None:
    """Return by how much this step would change the gap of two scores at another temperature."""
    if single is None:
        return None
    shares = keyformer.gumbel_softmax(single, temperature)
    return shares[pair[0]] - shares[pair[1]]


def _quotient(pair: Sequence[Number]) -> Fraction | None:
    """Return the odds of a pair, or None where the second is zero or the quotient is beyond what a report can write."""
    if not pair[1]:
        return None
    quotient = Fraction(pair[0]) / Fraction(pair[1])
    return quotient if quotient < _LARGEST_QUOTIENT else None


def batch_variant(fixture: Document) -> Document | None:
    """Return what the pinned Keyformer code selects, which sums the increments of a batch into one score a head."""
    variant, policy = fixture["keyformer"]["batch_variant"], fixture["keyformer"]["policy"]
    if variant is None:
        return None
    positions, temperature, where = variant["positions"], variant["temperature"], "/keyformer/batch_variant"
    require_ascending(positions, None, EVIDENCE_SHAPE, where + "/positions")
    sequences = []
    for index, sequence in enumerate(variant["sequences"]):
        place = where + pointer("sequences", index)
        require_count(sequence["gumbel"], len(sequence["logits"]), "query rows", NOISE_SHAPE, place + "/gumbel")
        rows = []
        for query, (logits, gumbel) in enumerate(zip(sequence["logits"], sequence["gumbel"], strict=True)):
            if not 0 < len(logits) <= len(positions):
                reason = f"expected 1 to {len(positions)} visible rows, found {len(logits)}"
                raise ContractViolation(EVIDENCE_SHAPE, place + pointer("logits", query), reason)
            require_count(gumbel, len(logits), "visible rows", NOISE_SHAPE, place + pointer("gumbel", query))
            rows.append(keyformer.regularised(logits, gumbel))
            require_spread(rows[-1], temperature, place + pointer("logits", query))
        sequences.append(rows)

    def kept(increments: Sequence[Number]) -> list[int]:
        rows = Rows(tuple(positions), tuple(increments))
        return list(keyformer.select(rows, policy["key_rows"], policy["recent_rows"]))

    total = keyformer.batch_and_query_sum(sequences, temperature, len(positions))
    every_row = [row for rows in sequences for row in rows]
    return {
        "increments": summarised(total),
        "kept_of_the_sum": summarised(kept(total)),
        "kept_of_each_sequence": summarised(
            [kept(keyformer.increments(rows, temperature, len(positions))) for rows in sequences]
        ),
        "pairs": keyformer.pair_count(len(positions)),
        "pairs_of_query_rows_with_exponential_odds": summarised(
            [
                keyformer.pairs_with_exponential_odds(keyformer.gumbel_softmax(row, temperature), row, temperature)
                for row in every_row
            ]
        ),
        "pairs_of_the_sum_with_exponential_odds": summarised(
            [keyformer.pairs_with_exponential_odds(total[: len(row)], row, temperature) for row in every_row]
        ),
    }


def future_probes(
    fixture: Document, methods: Mapping[str, Method], traces: Mapping[str, Trace], frontier: int
) -> Document:
    """Return for each probe which methods still see a position that a later query would give weight to."""
    results = {}
    for name, probe in fixture["future_probes"].items():
        where, position = pointer("future_probes", name), probe["position"]
        owner = _owner_at(methods["h2o"], probe["layer"], probe["head"], where)
        if position >= frontier:
            reason = f"expected a position below the frontier {frontier}, found {position}"
            raise ContractViolation(PROBE_RANGE, where + "/position", reason)
        visible = [method for method in METHODS if position in traces[method].final.rows[owner].positions]
        if sorted(probe["visible_to"]) != sorted(visible):
            reason = f"expected {joined(visible)}, found {joined(probe['visible_to'])}"
            raise ContractViolation(VISIBILITY, where + "/visible_to", reason)
        results[name] = {
            "position": position,
            "hypothetical_weight": probe["hypothetical_weight"],
            "visible_to": visible,
            # An evicted row is absent from the softmax: it gets no weight, which is not a weight of zero.
            "observed_weight": {
                method: probe["hypothetical_weight"] if method in visible else None for method in METHODS
            },
        }
    return results


def beam_reorder(fixture: Document) -> Document | None:
    """Return the beams after a reorder, and how many rows had a foreign score if K and V moved alone."""
    reorder = fixture["beam_reorder"]
    if reorder is None:
        return None
    beams, index, where = reorder["beams"], reorder["beam_index"], "/beam_reorder"
    for beam, stated in enumerate(beams):
        require_count(
            stated["scores"], len(stated["positions"]), "scores", PARENT_STATE, where + pointer("beams", beam, "scores")
        )
    for beam, source in enumerate(index):
        if source >= len(beams):
            reason = f"expected one of {len(beams)} beams, found {source}"
            raise ContractViolation(BEAM_RANGE, where + pointer("beam_index", beam), reason)
    for name in ("key", "value", "score", "position"):
        require_row(BEAM_PERMUTATION, index, reorder["reordered"][name], where + pointer("reordered", name))
    foreign = sum(len(beams[source]["positions"]) for beam, source in enumerate(index) if source != beam)
    return {
        "positions": summarised([beams[source]["positions"] for source in index]),
        "scores": summarised([beams[source]["scores"] for source in index]),
        "rows_with_a_foreign_score_if_only_kv_moves": foreign,
    }


def shared_prefix(fixture: Document) -> Document | None:
    """Return the scores of requests on one prefix, and what one shared buffer would hold instead."""
    shared = fixture["shared_prefix"]
    if shared is None:
        return None
    rows, where = len(shared["positions"]), "/shared_prefix/requests"
    close = within(fixture["tolerances"]["receipt"])
    buffers: set[str] = set()
    for index, request in enumerate(shared["requests"]):
        place = where + pointer(index)
        if request["score_buffer"] in buffers:
            reason = f"the score buffer {request['score_buffer']} belongs to another request already"
            raise ContractViolation(SHARED_SCORES, place + "/score_buffer", reason)
        buffers.add(request["score_buffer"])
        for name in ("scores_before", "attention", "scores_after"):
            require_count(request[name], rows, "rows", EVIDENCE_SHAPE, place + pointer(name))
        expected = [
            score + weight for score, weight in zip(request["scores_before"], request["attention"], strict=True)
        ]
        require_row(SCORE_LEAK, expected, request["scores_after"], place + "/scores_after", close)
    requests = shared["requests"]
    first = requests[0]["scores_before"]
    return {
        "kv_buffers": len({request["kv_buffer"] for request in requests}),
        "score_buffers": len(buffers),
        "scores": summarised([request["scores_after"] for request in requests]),
        "scores_if_one_buffer_were_shared": summarised(
            [first[row] + sum(request["attention"][row] for request in requests) for row in range(rows)]
        ),
    }


def _owner_at(method: Method, layer: int, head: int, where: str) -> int:
    for index, owner in enumerate(method.owners):
        if (owner.layer, owner.head) == (layer, head):
            return index
    raise ContractViolation(PROBE_RANGE, where + "/head", f"there is no selection owner {head} in layer {layer}")
