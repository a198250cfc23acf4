"""The shared ledger of 0x10C and its one-control cases (0x10D).

The ledger emulates no method. It is one small policy (sinks, recent rows and the best scored rows of a prompt, every
generated row kept) over which a single control is moved, so that what follows from the control can be seen alone.

Decided here:
- A case states every input and not only the one that it moves; the oracle finds what changed by comparing it with the
  base. What all cases share, the attention, is stated once and cannot differ between them.
- `uniform` is a value of the two budget controls: K H_kv rows a layer, and an even split over the heads of a layer.
  Without it the number K could not be moved alone. Explicit budgets add up to the same total.
- Attention is given for the last queries of the prompt, counted from its end, over original positions and the query's
  own row. A longer prompt moves the queries and their own rows, and leaves the history where it is. It is shared by
  all owners, so that a difference between two owners can only come from their budgets.
- A refused case has no ledger: null, and not zero. The checkpoint is judged before the backend, and both before any
  byte is counted. An admitted case is `unmeasured`: nothing here could make it valid or degraded.
- Terms are compared as exact values, those of owners owner by owner; where the number of owners itself is moved, by
  the share of owners that have each value. The visibility of the reference is a share of the owners. A control that
  moves no term is a legal case: its list of terms is empty.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence.canonical import reported
from kvaudit.evidence.summary import summarised
from kvaudit.loops.loop11_papers.diagnostics import (
    ATTENTION_MASS,
    ATTENTION_ORDER,
    AXIS_REPEATED,
    BASE_REFUSED,
    BUDGET_ABOVE_PROMPT,
    CHANGED_TERMS,
    CONTROL_MISNAMED,
    CONTROL_UNCHANGED,
    HEAD_BUDGET,
    LAYER_BUDGET,
    LEDGER_MISSING,
    LEDGER_OF_REFUSED,
    OUTCOME,
    PAYLOAD,
    PROTECTED_ROWS,
    REFERENCE,
    SEVERAL_CONTROLS,
    UNMEASURED_QUALITY,
    VISIBILITY,
    WINDOW,
)
from kvaudit.model import Document, LedgerRow, joined, pointer
from kvaudit.policies.geometry import Geometry

UNIFORM = "uniform"
UNMEASURED = "unmeasured"
CHECKPOINT_INCOMPATIBLE = "checkpoint-incompatible"
BACKEND_INCOMPATIBLE = "backend-incompatible"

# The terms of the ledger that a control may move, each with what it is a term of.
TERMS = {
    "admission": "admission",
    "owners": "payload",
    "row_bytes": "payload",
    "full_payload": "payload",
    "policy_payload": "payload",
    "payload_ratio": "payload",
    "owner_budgets": "budget",
    "score_rows": "budget",
    "scores": "signal",
    "visible_prompt_rows": "visibility",
    "reference_visibility": "visibility",
}
# The terms that are numbers, so that a difference of two of them means something.
NUMBERS = ("owners", "row_bytes", "full_payload", "policy_payload", "payload_ratio", "reference_visibility")
# The terms that have a value for each owner.
BY_OWNER = ("owner_budgets", "score_rows", "visible_prompt_rows")

Owners = tuple[tuple[Any, ...], ...]  # one item for each layer and K/V head


@dataclass(frozen=True, slots=True)
class Weights:
    """The attention of one prompt query: the mass on its own row and on original positions before it.

    Whole multiples of one unit that all queries share: scores are only added, ranked and compared.
    """

    own: int
    history: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class State:
    """What follows from one set of inputs. `refusal` is an outcome; then nothing else exists."""

    refusal: str | None
    terms: Mapping[str, Any]
    layer_budgets: tuple[int, ...] = ()
    owner_budgets: Owners = ()
    selected: Owners = ()


def judge_attention(sensitivity: Document) -> tuple[Weights, ...]:
    """Return the attention of the last prompt queries, the last query first, or raise `ContractViolation`."""
    prompt = min(each["prompt_rows"] for each in _every_inputs(sensitivity))
    units = math.lcm(
        *(
            Fraction(weight).denominator
            for row in sensitivity["attention"]
            for weight in (row["own"], *(item["weight"] for item in row["history"]))
        )
    )
    weights = []
    for index, row in enumerate(sensitivity["attention"]):
        place = pointer("sensitivity", "attention", index)
        query = prompt - 1 - index
        history: dict[int, int] = {}
        for number, item in enumerate(row["history"]):
            position = item["position"]
            if position >= query or position in history:
                expected = f"a position before query {query} of the shortest prompt, named once"
                raise ContractViolation(
                    ATTENTION_ORDER,
                    place + pointer("history", number, "position"),
                    f"expected {expected}; found {position}",
                )
            history[position] = int(item["weight"] * units)
        own = int(row["own"] * units)
        mass = Fraction(own + sum(history.values()), units)
        if mass != 1:
            raise ContractViolation(ATTENTION_MASS, place, f"expected a mass of 1, found {reported(mass)}")
        weights.append(Weights(own, history))
    return tuple(weights)


def _every_inputs(sensitivity: Document) -> Iterator[Document]:
    yield sensitivity["base"]
    for group in ("cases", "further_cases"):
        yield from (case["inputs"] for case in sensitivity[group].values())


def derive(inputs: Document, attention: tuple[Weights, ...], where: str) -> State:
    """Return what follows from a set of inputs, or raise the first `ContractViolation`, in the order of the ledger."""
    if not inputs["checkpoint_compatible"]:
        return State(CHECKPOINT_INCOMPATIBLE, {"admission": CHECKPOINT_INCOMPATIBLE})
    if not inputs["backend_reads_ragged_rows"]:
        return State(BACKEND_INCOMPATIBLE, {"admission": BACKEND_INCOMPATIBLE})
    prompt, window = inputs["prompt_rows"], inputs["observation_queries"]
    if window > min(prompt, len(attention)):
        message = f"expected at most {min(prompt, len(attention))} queries, found {window}"
        raise ContractViolation(WINDOW, where + pointer("observation_queries"), message)
    if inputs["reference_position"] >= prompt:
        message = f"expected a prompt position below {prompt}, found {inputs['reference_position']}"
        raise ContractViolation(REFERENCE, where + pointer("reference_position"), message)
    layer_budgets = _layer_budgets(inputs, where)
    budgets = _owner_budgets(inputs, layer_budgets, where)
    protected = inputs["sink_rows"] + inputs["recent_rows"]
    for rows in (rows for layer in budgets for rows in layer):
        if rows > prompt:
            message = f"an owner is to keep {rows} of {prompt} prompt rows"
            raise ContractViolation(BUDGET_ABOVE_PROMPT, where + pointer("rows_per_owner"), message)
        if protected > rows:
            message = f"{protected} sink and recent rows do not fit an owner of {rows} rows"
            raise ContractViolation(PROTECTED_ROWS, where + pointer("rows_per_owner"), message)
    scores = _scores(attention[:window], prompt)
    ranked = sorted(
        range(inputs["sink_rows"], prompt - inputs["recent_rows"]),
        key=lambda position: (-scores.get(position, 0), position),
    )
    always = (*range(inputs["sink_rows"]), *range(prompt - inputs["recent_rows"], prompt))
    kept = {  # owners of one budget keep the same rows
        rows: tuple(sorted((*always, *ranked[: rows - protected])))
        for rows in {rows for layer in budgets for rows in layer}
    }
    selected = tuple(tuple(kept[rows] for rows in layer) for layer in budgets)
    return State(None, _terms(inputs, budgets, scores, selected), layer_budgets, budgets, selected)


def _terms(inputs: Document, budgets: Owners, scores: Mapping[int, int], selected: Owners) -> dict[str, Any]:
    geometry = Geometry(
        batch=1,
        layers=inputs["layers"],
        kv_heads=inputs["kv_heads"],
        head_dimension=inputs["head_dimension"],
        key_scalar_bytes=inputs["scalar_bytes"],
        value_scalar_bytes=inputs["scalar_bytes"],
    )
    owners, row, generated = geometry.owners(), geometry.row_bytes(), inputs["decode_rows"]
    full = geometry.full_payload_bytes(inputs["prompt_rows"] + generated)
    policy = row * (sum(map(sum, budgets)) + owners * generated)
    protected, reference = inputs["sink_rows"] + inputs["recent_rows"], inputs["reference_position"]
    return {
        "admission": "admitted",
        "owners": owners,
        "row_bytes": row,
        "full_payload": full,
        "policy_payload": policy,
        "payload_ratio": Fraction(full, policy),
        "owner_budgets": budgets,
        "score_rows": tuple(tuple(rows - protected for rows in layer) for layer in budgets),
        "scores": scores,
        "visible_prompt_rows": selected,
        "reference_visibility": Fraction(sum(reference in rows for layer in selected for rows in layer), owners),
    }


def _scores(attention: tuple[Weights, ...], prompt: int) -> dict[int, int]:
    """Return s_j = sum of a_qj over the observed queries, for the positions that received any."""
    scores: dict[int, int] = {}
    for index, row in enumerate(attention):
        for position, weight in (*row.history.items(), (prompt - 1 - index, row.own)):
            if weight:
                scores[position] = scores.get(position, 0) + weight
    return scores


def _layer_budgets(inputs: Document, where: str) -> tuple[int, ...]:
    layers: int = inputs["layers"]
    stated, heads, rows_per_owner = inputs["layer_budget_rows"], inputs["kv_heads"], inputs["rows_per_owner"]
    if stated == UNIFORM:
        return (rows_per_owner * heads,) * layers
    total = rows_per_owner * heads * layers
    if len(stated) != layers or sum(stated) != total:
        message = f"expected {layers} layers that share {total} rows, found {joined(stated)}"
        raise ContractViolation(LAYER_BUDGET, where + pointer("layer_budget_rows"), message)
    if inputs["head_budget_rows"] == UNIFORM:
        for layer, rows in enumerate(stated):
            if rows % heads:
                message = f"{rows} rows do not split evenly over {heads} K/V heads"
                raise ContractViolation(LAYER_BUDGET, where + pointer("layer_budget_rows", layer), message)
    return tuple(stated)


def _owner_budgets(inputs: Document, layer_budgets: tuple[int, ...], where: str) -> Owners:
    stated, heads = inputs["head_budget_rows"], inputs["kv_heads"]
    if stated == UNIFORM:
        return tuple((rows // heads,) * heads for rows in layer_budgets)
    at = where + pointer("head_budget_rows")
    if len(stated) != inputs["layers"]:
        raise ContractViolation(HEAD_BUDGET, at, f"expected {inputs['layers']} layers, found {len(stated)}")
    for layer, (rows, budget) in enumerate(zip(stated, layer_budgets, strict=True)):
        if len(rows) != heads or sum(rows) != budget:
            message = f"expected {heads} K/V heads that share {budget} rows, found {joined(rows)}"
            raise ContractViolation(HEAD_BUDGET, at + pointer(layer), message)
    return tuple(map(tuple, stated))


def judge_cases(sensitivity: Document) -> tuple[State, Document]:
    """Return the state of the base, and the results of the base and of every case, or raise `ContractViolation`."""
    attention = judge_attention(sensitivity)
    inputs = sensitivity["base"]
    base = derive(inputs, attention, pointer("sensitivity", "base"))
    if base.refusal:
        member = "checkpoint_compatible" if base.refusal == CHECKPOINT_INCOMPATIBLE else "backend_reads_ragged_rows"
        message = f"expected a base that is admitted, found {base.refusal}"
        raise ContractViolation(BASE_REFUSED, pointer("sensitivity", "base", member), message)
    groups: dict[str, Document] = {}
    for group in ("cases", "further_cases"):
        groups[group] = {}
        moved: dict[str, str] = {}
        for name, case in sensitivity[group].items():
            where = pointer("sensitivity", group, name)
            control = _judge_control(case, inputs, where)
            if moved.setdefault(control, name) != name:
                message = f"{moved[control]} moves {control} already"
                raise ContractViolation(AXIS_REPEATED, where + pointer("control"), message)
            state = derive(case["inputs"], attention, where + pointer("inputs"))
            groups[group][name] = _judge_receipt(case, inputs, base, state, where)
    results = {
        "inputs": inputs,
        "base": _state_results(base),
        **groups,
        "axes": len({case["control"] for case in groups["cases"].values()}),
        "equal_bytes": _equal_bytes(groups["cases"]),
    }
    return base, results


def _judge_control(case: Document, base: Document, where: str) -> str:
    """Return the one control that a case moves, or raise `ContractViolation`."""
    changed = [name for name in base if not _same(case["inputs"][name], base[name])]
    if not changed:
        raise ContractViolation(CONTROL_UNCHANGED, where + pointer("inputs"), "every input is that of the base")
    if len(changed) > 1:
        message = f"expected one input that differs from the base, found {', '.join(changed)}"
        raise ContractViolation(SEVERAL_CONTROLS, where + pointer("inputs"), message)
    if case["control"] != changed[0]:
        message = f"the case moves {changed[0]}, not {case['control']}"
        raise ContractViolation(CONTROL_MISNAMED, where + pointer("control"), message)
    return changed[0]


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _judge_receipt(case: Document, base_inputs: Document, base: State, state: State, where: str) -> Document:
    """Return the results of a case, or raise where its receipt departs from what the inputs give."""
    receipt, at = case["receipt"], where + pointer("receipt")
    outcome = state.refusal or UNMEASURED
    if receipt["outcome"] != outcome:
        promoted = not state.refusal and receipt["outcome"].startswith("quality")
        message = f"expected {outcome}, found {receipt['outcome']}"
        raise ContractViolation(UNMEASURED_QUALITY if promoted else OUTCOME, at + pointer("outcome"), message)
    if state.refusal and receipt["ledger"] is not None:
        message = f"expected null for a case that is {state.refusal}"
        raise ContractViolation(LEDGER_OF_REFUSED, at + pointer("ledger"), message)
    if not state.refusal:
        _judge_ledger(receipt["ledger"], state, at)
    changed = ["admission"] if state.refusal else [term for term in TERMS if _moved(term, state, base)]
    if receipt["changed_terms"] != changed:
        message = f"expected {joined(changed)}, found {joined(receipt['changed_terms'])}"
        raise ContractViolation(CHANGED_TERMS, at + pointer("changed_terms"), message)
    control = case["control"]
    return {
        "control": control,
        "from": base_inputs[control],
        "to": case["inputs"][control],
        "outcome": outcome,
        "changed_terms": changed,
        "changed_families": list(dict.fromkeys(TERMS[term] for term in changed)),
        "state": None if state.refusal else _state_results(state),
        "difference": None if state.refusal else {term: state.terms[term] - base.terms[term] for term in NUMBERS},
    }


def _moved(term: str, state: State, base: State) -> bool:
    one, other = state.terms[term], base.terms[term]
    if term in BY_OWNER and [len(layer) for layer in one] != [len(layer) for layer in other]:
        return _shares(one) != _shares(other)
    return bool(one != other)


def _shares(owners: Owners) -> dict[Any, Fraction]:
    """Return each value that an owner has, with the share of the owners that have it."""
    values = [value for layer in owners for value in layer]
    return {value: Fraction(count, len(values)) for value, count in Counter(values).items()}


def _seeing(state: State) -> int:
    return int(state.terms["reference_visibility"] * state.terms["owners"])


def _judge_ledger(ledger: Any, state: State, at: str) -> None:
    if ledger is None:
        raise ContractViolation(LEDGER_MISSING, at + pointer("ledger"), "an admitted case has a ledger; found null")
    for member, term in (("full_payload_bytes", "full_payload"), ("policy_payload_bytes", "policy_payload")):
        if ledger[member] != state.terms[term]:
            message = f"expected {state.terms[term]} B, found {ledger[member]} B"
            raise ContractViolation(PAYLOAD, at + pointer("ledger", member), message)
    seeing = _seeing(state)
    if ledger["owners_seeing_reference"] != seeing:
        message = f"expected {seeing} owners, found {ledger['owners_seeing_reference']}"
        raise ContractViolation(VISIBILITY, at + pointer("ledger", "owners_seeing_reference"), message)
    place = at + pointer("ledger", "first_owner_prompt_positions")
    if tuple(ledger["first_owner_prompt_positions"]) != state.selected[0][0]:
        message = f"expected {joined(state.selected[0][0])}, found {joined(ledger['first_owner_prompt_positions'])}"
        raise ContractViolation(VISIBILITY, place, message)


def _state_results(state: State) -> Document:
    return {
        "owners": state.terms["owners"],
        "row_bytes": state.terms["row_bytes"],
        "full_payload_bytes": state.terms["full_payload"],
        "policy_payload_bytes": state.terms["policy_payload"],
        "payload_ratio": state.terms["payload_ratio"],
        "layer_budget_rows": summarised(state.layer_budgets),
        "head_budget_rows": summarised(state.owner_budgets),
        "score_rows": summarised(state.terms["score_rows"]),
        "visible_prompt_rows": _grouped(state.selected),
        "owners_seeing_reference": _seeing(state),
    }


def _grouped(selected: Owners) -> list[Document]:
    """Return the selected positions, once for all the owners that share them, by the first of these owners."""
    groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for layer, owners in enumerate(selected):
        for head, positions in enumerate(owners):
            groups.setdefault(positions, []).append((layer, head))
    return [
        {"first_owner": list(owners[0]), "owners": len(owners), "positions": summarised(positions)}
        for positions, owners in groups.items()
    ]


def _equal_bytes(cases: Mapping[str, Document]) -> Document:
    """Return which cases keep both payloads of the base, and what each of these changes all the same."""
    payload = ("full_payload", "policy_payload")
    same = {
        name: case
        for name, case in cases.items()
        if case["state"] is not None and not any(term in case["changed_terms"] for term in payload)
    }
    return {
        "cases": list(same),
        "other_visible_rows": [name for name, case in same.items() if "visible_prompt_rows" in case["changed_terms"]],
        "other_reference_visibility": [
            name for name, case in same.items() if "reference_visibility" in case["changed_terms"]
        ],
    }


def ledgers(base: State) -> tuple[LedgerRow, ...]:
    """Return the ledger of the base."""
    terms = base.terms
    return (
        LedgerRow("owners", terms["owners"], "owners", "N_o = L * H_kv"),
        LedgerRow("row", terms["row_bytes"], "B", "r = 2 * d_h * b"),
        LedgerRow("full_payload", terms["full_payload"], "B", "N_o * (S + G) * r"),
        LedgerRow("policy_payload", terms["policy_payload"], "B", "r * (sum of K_lh + N_o * G)"),
        LedgerRow("payload_ratio", terms["payload_ratio"], "x", "full payload / policy payload"),
    )
