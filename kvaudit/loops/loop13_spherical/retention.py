"""Rate-distortion retention: tiers, states and the receipt of one allocation, the gap to the optimum, and the ablation.

The order of judgement: page size, trees of the tiers and their order, phases, states with their protection and
distortions, budget, the steps one by one, the pages, page bytes, the budgets of the sweep, the arms.

Decided here:
- Row bits of a tier are its coded key and the dense value row. A row is protected if its token is a sink or recent.
- The receipt states every step. It is replayed, so that a step is judged where it stands: first whether it may be
  taken at all, then whether it is the next one.
- The optimum is exact up to `EXACT_STATES` counts of rows by tier; past that it is null, and the Lagrangian bound
  (kvaudit/policies/rate_distortion.py) says how much could have been missed.
- Of the six ablation arms, what was read of the paper gives what A1, A2, A3 and A5 certify. A0 as the dense reference
  and A4 as the page layout are *this project's contract*; so is the rule that a control differs in one lever.
- An arm's bytes, traffic and distortion follow from its configuration here. Throughput and quality are not computed,
  and the gate of A5 is judged in the stability section.
- A reconstructed logit writes every kept key densely and reads it back; a page of mixed tiers costs a page of its
  safest row. Both are contracts of this project, for what the paper calls a densification tax and homogeneous pages.
- The levers do not add up at a budget where the joint allocation has less distortion than the best of the single ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence.summary import summarised
from kvaudit.loops.loop13_spherical.diagnostics import (
    ARM_CONFIGURATION,
    ARM_CONTROL,
    ARM_LEVER,
    ARM_SET,
    BELOW_PROTECTED,
    BUDGET,
    DISTORTION_COUNT,
    DISTORTION_ORDER,
    DROP_DISTORTION,
    DROP_FIRST,
    NOT_CHEAPEST,
    PAGE_BYTES,
    PAGE_MIXED,
    PAGE_ORDER,
    PAGE_OVERFULL,
    PAGE_STATE,
    PAST_BUDGET,
    PHASE_ORDER,
    PROTECTED_STEP,
    PROTECTION,
    RAISED,
    SKIPPED,
    STATE_ORDER,
    STATE_UNKNOWN,
    STEP_SOURCE,
    SWEEP,
    TIE,
    TIER_ORDER,
)
from kvaudit.loops.loop13_spherical.judging import judge_dimension, judge_page, judge_tree, require_count, shown
from kvaudit.model import Document, LedgerRow, Snapshot, Table, pointer
from kvaudit.policies import protection as protection_rule
from kvaudit.policies import rate_distortion as policy
from kvaudit.policies import spherical
from kvaudit.policies.rate_distortion import Allocation, State, Step, Tiers

CATEGORIES = (
    "tier order",
    "protection order",
    "states and distortions",
    "budget",
    "greedy order",
    "page homogeneity",
    "page bytes",
    "ablation arms",
)

PHASES = ("protect", "score", "lower", "drop", "pack")
EXACT_STATES = 20_000

DENSE, RECONSTRUCTED, DIRECT = "dense", "reconstructed", "direct"
# Each arm with its lever, who says so, and what a difference to its controls certifies.
ARMS: dict[str, tuple[str | None, str, str]] = {
    "A0": (None, "this project's contract", "the dense reference of the other arms"),
    "A1": ("compute", "the paper", "direct compressed-domain logits lower the densification tax of reconstruction"),
    "A2": (
        "control",
        "the paper",
        "joint keep/drop and tiering against retention alone, precision alone and decoupled control at one budget",
    ),
    "A3": ("allocation", "the paper", "an adaptive allocation is useful where the context is long"),
    "A4": ("pages", "this project's contract", "tier-homogeneous pages keep the bytes that lower tiers save"),
    "A5": ("gate", "the paper", "the gate answers dangerous steps without thrashing; see the stability section"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What was judged: the states, the tiers with the bits of a coded key, and the allocation of the receipt."""

    states: tuple[State, ...]
    tiers: Tiers
    key_bits: tuple[int, ...]
    allocation: Allocation


def judge(section: Document, at: str) -> Plan:
    """Return the plan of a retention section at the pointer `at`, or raise the first `ContractViolation`."""
    judge_page(section["pages"], at + pointer("pages"))
    tiers, key_bits = _judge_tiers(section, at)
    for index, (expected, found) in enumerate(zip(PHASES, section["phases"], strict=False)):
        if found != expected:
            reason = f"expected {expected}, found {found}"
            raise ContractViolation(PHASE_ORDER, at + pointer("phases", index), reason)
    require_count(PHASE_ORDER, section["phases"], len(PHASES), "phases", at + pointer("phases"))
    states = _judge_states(section, len(tiers.row_bits), at)
    least = _protected_bytes(states, tiers)
    _judge_budget(section["budget_bytes"], least, at + pointer("budget_bytes"))
    allocation = policy.allocate(states, tiers, section["budget_bytes"])
    receipt = section["receipt"]
    _judge_steps(receipt["steps"], states, tiers, allocation, at + pointer("receipt", "steps"))
    _judge_packing(receipt, tiers, allocation, at + pointer("receipt"))
    before = -1
    for index, budget in enumerate(section["sweep_budgets_bytes"]):
        where = at + pointer("sweep_budgets_bytes", index)
        if budget <= before:
            raise ContractViolation(SWEEP, where, f"expected more than {before}, found {budget}")
        before = budget
        _judge_budget(budget, least, where)
    _judge_arms(section["arms"], at + pointer("arms"))
    return Plan(states, tiers, key_bits, allocation)


def _judge_tiers(section: Document, at: str) -> tuple[Tiers, tuple[int, ...]]:
    judge_dimension(section["dimension"], at + pointer("dimension"))
    pages, value_bits = section["pages"], 8 * section["value_row_bytes"]
    key_bits: list[int] = []
    for index, tier in enumerate(section["tiers"]):
        where = at + pointer("tiers", index)
        tree = judge_tree(section["dimension"], tier["level_widths_bits"], where + pointer("level_widths_bits"))
        bits = spherical.key_row_bits(tree, spherical.RADIUS_FORMATS[tier["radius_format"]])
        if key_bits and bits >= key_bits[-1]:
            raise ContractViolation(TIER_ORDER, where, f"expected fewer than {key_bits[-1]} key bits, found {bits}")
        key_bits.append(bits)
    row_bits = tuple(bits + value_bits for bits in key_bits)
    page_bytes = tuple(
        spherical.page_bytes(bits, pages["tokens"], pages["header_bytes"], pages["alignment_bytes"])
        for bits in row_bits
    )
    return Tiers(row_bits, page_bytes, pages["tokens"]), tuple(key_bits)


def _judge_states(section: Document, tiers: int, at: str) -> tuple[State, ...]:
    geometry, rule = section["geometry"], section["protection"]
    layers, heads, tokens = geometry["layers"], geometry["kv_heads"], geometry["tokens"]
    require_count(STATE_ORDER, section["states"], layers * heads * tokens, "states", at + pointer("states"))
    protected = set(protection_rule.protected_positions(rule["sink_tokens"], rule["recent_tokens"], 0, tokens))
    expected = [(layer, head, token) for layer in range(layers) for head in range(heads) for token in range(tokens)]
    states = []
    for index, (place, stated) in enumerate(zip(expected, section["states"], strict=True)):
        where = at + pointer("states", index)
        found = (stated["layer"], stated["kv_head"], stated["token"])
        if found != place:
            raise ContractViolation(STATE_ORDER, where, f"expected layer, K/V head and token {place}, found {found}")
        if stated["protected"] != (place[2] in protected):
            reason = f"expected {str(place[2] in protected).lower()} for token {place[2]}"
            raise ContractViolation(PROTECTION, where + pointer("protected"), reason)
        states.append(_judge_state(stated, tiers, where))
    return tuple(states)


def _judge_state(stated: Document, tiers: int, where: str) -> State:
    values, dropped = stated["distortions"], stated["drop_distortion"]
    require_count(DISTORTION_COUNT, values, tiers, "distortions", where + pointer("distortions"))
    for tier in range(1, tiers):
        if values[tier] < values[tier - 1]:
            reason = f"expected at least {shown(values[tier - 1])}, found {shown(values[tier])}"
            raise ContractViolation(DISTORTION_ORDER, where + pointer("distortions", tier), reason)
    if dropped < values[-1]:
        reason = f"expected at least {shown(values[-1])}, found {shown(dropped)}"
        raise ContractViolation(DROP_DISTORTION, where + pointer("drop_distortion"), reason)
    return State(tuple(values), dropped, stated["protected"])


def _protected_bytes(states: Sequence[State], tiers: Tiers) -> int:
    return policy.page_bytes(policy.counts([0 for state in states if state.protected], tiers), tiers)


def _judge_budget(budget: int, least: int, where: str) -> None:
    if budget < least:
        raise ContractViolation(BELOW_PROTECTED, where, f"expected at least {least} bytes, found {budget}")


def _judge_steps(
    stated: Sequence[Document], states: Sequence[State], tiers: Tiers, allocation: Allocation, where: str
) -> None:
    at: list[int | None] = [0] * len(states)
    last = len(tiers.row_bits) - 1
    for index, found in enumerate(stated):
        place = where + pointer(index)
        if found["state"] >= len(states):
            reason = f"expected a state below {len(states)}, found {found['state']}"
            raise ContractViolation(STATE_UNKNOWN, place + pointer("state"), reason)
        state, source, target = found["state"], found["source_tier"], found["target_tier"]
        if states[state].protected:
            raise ContractViolation(PROTECTED_STEP, place + pointer("state"), f"state {state} is protected")
        if source != at[state]:
            reason = f"state {state} is at tier {shown(at[state])}, found {source}"
            raise ContractViolation(STEP_SOURCE, place + pointer("source_tier"), reason)
        _judge_target(source, target, last, place + pointer("target_tier"))
        lowerable = (i for i, tier in enumerate(at) if tier not in (None, last) and not states[i].protected)
        if target is None and (held := next(lowerable, None)) is not None:
            reason = f"state {held} can be lowered from tier {at[held]}"
            raise ContractViolation(DROP_FIRST, place + pointer("target_tier"), reason)
        _judge_choice(index, found, states[state], tiers, allocation, place)
        at[state] = target
    if len(stated) < len(allocation.steps):
        size = policy.page_bytes(policy.counts(at, tiers), tiers)
        raise ContractViolation(BUDGET, where, f"after {len(stated)} steps the pages take {size} bytes")


def _judge_target(source: int, target: int | None, last: int, where: str) -> None:
    if target is None:
        return
    if target <= source:
        raise ContractViolation(RAISED, where, f"expected a tier after {source}, found {target}")
    if target > source + 1 or target > last:
        raise ContractViolation(SKIPPED, where, f"expected tier {source + 1} of {last}, found {target}")


def _judge_choice(index: int, found: Document, state: State, tiers: Tiers, allocation: Allocation, place: str) -> None:
    """Raise unless the step is the next one of the allocation. It is admissible, so only its price can be wrong."""
    if index >= len(allocation.steps):
        reason = f"the pages fit the budget after {len(allocation.steps)} steps"
        raise ContractViolation(PAST_BUDGET, place, reason)
    expected = allocation.steps[index]
    if found["state"] == expected.state:
        return
    price = policy.step_of(state, tiers, found["state"], found["source_tier"], found["target_tier"]).price
    if price == expected.price:
        reason = f"states {expected.state} and {found['state']} have the price {shown(price)}; the lower one goes first"
        raise ContractViolation(TIE, place + pointer("state"), reason)
    reason = f"state {expected.state} has the price {shown(expected.price)}, state {found['state']} {shown(price)}"
    raise ContractViolation(NOT_CHEAPEST, place + pointer("state"), reason)


def _judge_packing(receipt: Document, tiers: Tiers, allocation: Allocation, where: str) -> None:
    assignment, seen = allocation.assignment, set[int]()
    for index, page in enumerate(receipt["pages"]):
        place = where + pointer("pages", index)
        for slot, state in enumerate(page["states"]):
            at = place + pointer("states", slot)
            if state in seen or state >= len(assignment) or assignment[state] is None:
                raise ContractViolation(PAGE_STATE, at, f"state {state} is unknown, dropped or on a page already")
            seen.add(state)
            if assignment[state] != page["tier"]:
                reason = f"state {state} is of tier {assignment[state]}, the page of tier {page['tier']}"
                raise ContractViolation(PAGE_MIXED, at, reason)
        if len(page["states"]) > tiers.page_tokens:
            reason = f"expected at most {tiers.page_tokens} rows, found {len(page['states'])}"
            raise ContractViolation(PAGE_OVERFULL, place + pointer("states"), reason)
    kept = sum(tier is not None for tier in assignment)
    if len(seen) != kept:
        raise ContractViolation(PAGE_STATE, where + pointer("pages"), f"expected {kept} states, found {len(seen)}")
    expected = policy.packed(assignment, tiers)
    for index, (page, (tier, members)) in enumerate(zip(receipt["pages"], expected, strict=False)):
        if page["tier"] != tier or page["states"] != members:
            reason = f"expected states {members} of tier {tier}, found {page['states']} of {page['tier']}"
            raise ContractViolation(PAGE_ORDER, where + pointer("pages", index), reason)
    require_count(PAGE_ORDER, receipt["pages"], len(expected), "pages", where + pointer("pages"))
    if receipt["page_bytes"] != allocation.page_bytes:
        reason = f"expected {allocation.page_bytes}, found {receipt['page_bytes']}"
        raise ContractViolation(PAGE_BYTES, where + pointer("page_bytes"), reason)


def _judge_arms(arms: Sequence[Document], where: str) -> None:
    for index, (expected, arm) in enumerate(zip(ARMS, arms, strict=False)):
        if arm["arm"] != expected:
            reason = f"expected {expected}, found {arm['arm']}"
            raise ContractViolation(ARM_SET, where + pointer(index, "arm"), reason)
    require_count(ARM_SET, arms, len(ARMS), "arms", where)
    for index, arm in enumerate(arms):
        place, lever = where + pointer(index), ARMS[arm["arm"]][0]
        _judge_configuration(arm["configuration"], place + pointer("configuration"))
        if (lever is None) == bool(arm["controls"]):
            reason = f"expected {'no control' if lever is None else 'a control'}, found {len(arm['controls'])}"
            raise ContractViolation(ARM_CONTROL, place + pointer("controls"), reason)
        for at, control in enumerate(arm["controls"]):
            here = place + pointer("controls", at)
            changed = [name for name, value in control.items() if value != arm["configuration"][name]]
            if changed != [lever]:
                reason = f"expected a change of {lever} alone, found {', '.join(changed) or 'none'}"
                raise ContractViolation(ARM_LEVER, here, reason)
            _judge_configuration(control, here)
            if control in arm["controls"][:at]:
                raise ContractViolation(ARM_CONTROL, here, "this control is stated before")


def _judge_configuration(configuration: Document, where: str) -> None:
    dense = configuration["keys"] == DENSE
    if dense != (configuration["compute"] == DENSE):
        reason = f"{configuration['keys']} keys do not go with {configuration['compute']} logits"
        raise ContractViolation(ARM_CONFIGURATION, where + pointer("compute"), reason)
    if dense and configuration["control"] not in ("none", "retention"):
        reason = f"dense keys have no tiers for {configuration['control']} control"
        raise ContractViolation(ARM_CONFIGURATION, where + pointer("control"), reason)


def results(section: Document, plan: Plan) -> Document:
    """Return the results of a section that was judged."""
    states, tiers, allocation = plan.states, plan.tiers, plan.allocation
    prefixes = _page_bytes_by_step(states, tiers, allocation.steps)
    return {
        "geometry": section["geometry"],
        "protection": section["protection"],
        "tiers": [
            {
                "name": tier["name"],
                "level_widths_bits": tier["level_widths_bits"],
                "radius_format": tier["radius_format"],
                "key_row_bits": plan.key_bits[index],
                "row_bits": tiers.row_bits[index],
                "page_bytes": tiers.page_bytes[index],
            }
            for index, tier in enumerate(section["tiers"])
        ],
        "allocation": {
            "budget_bytes": section["budget_bytes"],
            "page_bytes": allocation.page_bytes,
            "row_bytes": Fraction(policy.row_bits(policy.counts(allocation.assignment, tiers), tiers), 8),
            "pages": len(policy.packed(allocation.assignment, tiers)),
            "steps": len(allocation.steps),
            "drops": sum(step.target is None for step in allocation.steps),
            "steps_that_raised_page_bytes": sum(after > before for before, after in pairwise(prefixes)),
            "states_of_each_tier": list(policy.counts(allocation.assignment, tiers)),
            "protected_states": sum(state.protected for state in states),
            "tier_of_each_state": summarised(allocation.assignment),
            "distortion": policy.distortion(states, allocation.assignment),
        },
        "optimum": _optimum_result(section, plan),
        "sweep": _sweep_result(section, plan),
        "arms": [_arm_result(section, plan, arm) for arm in section["arms"]],
    }


def _page_bytes_by_step(states: Sequence[State], tiers: Tiers, steps: Sequence[Step]) -> list[int]:
    assignment: list[int | None] = [0] * len(states)
    sizes = [policy.page_bytes(policy.counts(assignment, tiers), tiers)]
    for step in steps:
        assignment[step.state] = step.target
        sizes.append(policy.page_bytes(policy.counts(assignment, tiers), tiers))
    return sizes


def _optimum_result(section: Document, plan: Plan) -> Document:
    """Return the gaps to the best assignments: under the page budget, and of row bits alone without drops.

    The second budget is that of the first in bits; only there, with convex distortions, is the gap promised.
    """
    states, tiers, budget = plan.states, plan.tiers, section["budget_bytes"]
    exact = policy.optimum_size(len(states), len(tiers.row_bits)) <= EXACT_STATES
    least = {
        may_drop: policy.least_distortions(states, tiers, may_drop=may_drop) if exact else {}
        for may_drop in (False, True)
    }
    greedy = policy.distortion(states, plan.allocation.assignment)
    of_pages = {
        name: _gap(greedy, policy.optimum(least[may_drop], tiers, policy.page_bytes, budget))
        for name, may_drop in (("without_drops", False), ("with_drops", True))
    }
    bits = section["row_budget_bits"]
    rows = policy.within_row_bits(states, tiers, bits)
    convex = all(policy.is_convex(state, tiers) for state in states if not state.protected)
    of_rows: Document | None = None
    if rows is not None:
        value = policy.distortion(states, rows.assignment)
        last = rows.steps[-1].added_distortion if rows.steps else Fraction(0)
        of_rows = {
            "distortion": value,
            "last_step": last,
            "without_drops": _gap(value, policy.optimum(least[False], tiers, policy.row_bits, bits)),
            "with_drops": _gap(value, policy.optimum(least[True], tiers, policy.row_bits, bits)),
            "lagrangian_bound_without_drops": policy.relaxed_optimum(states, tiers, bits, may_drop=False),
            "gap_promised_within_last_step": convex,
        }
    return {
        "exact": exact,
        "distortions_convex": convex,
        "page_budget_bytes": budget,
        "greedy_distortion": greedy,
        **of_pages,
        "lagrangian_bound_with_drops": policy.relaxed_optimum(states, tiers, 8 * budget, may_drop=True),
        "row_budget_bits": bits,
        "row_budget": of_rows,
    }


def _gap(found: Fraction, best: Fraction | None) -> Document:
    return {"distortion": best, "gap": None if best is None else found - best}


def _control(name: str, section: Document) -> Callable[[Sequence[State], Tiers, int], Allocation | None]:
    """Return the allocation of a control by its name; all but `joint` may find none."""
    if name == "decoupled":
        share = section["decoupled_dropped_share"]
        return lambda states, tiers, budget: policy.decoupled(states, tiers, budget, share)
    named: dict[str, Callable[[Sequence[State], Tiers, int], Allocation | None]] = {
        "joint": policy.allocate,
        "retention": policy.retention_only,
        "precision": policy.lowering_only,
        "uniform": policy.uniform_only,
    }
    return named[name]


def _sweep_result(section: Document, plan: Plan) -> list[Document]:
    def value(control: str, budget: int) -> Fraction | None:
        found = _control(control, section)(plan.states, plan.tiers, budget)
        return None if found is None else policy.distortion(plan.states, found.assignment)

    points = []
    for budget in section["sweep_budgets_bytes"]:
        values = {name: value(name, budget) for name in ("joint", "retention", "precision", "uniform", "decoupled")}
        joint = policy.distortion(plan.states, policy.allocate(plan.states, plan.tiers, budget).assignment)
        single = [each for each in (values["retention"], values["precision"]) if each is not None]
        apart = [*single, *([] if values["decoupled"] is None else [values["decoupled"]])]
        points.append(
            {
                "budget_bytes": budget,
                "distortion": values,
                "best_single_lever": min(single, default=None),
                "joint_below_best_single_lever": joint < min(single) if single else None,
                "joint_below_decoupled_too": joint < min(apart) if apart else None,
            }
        )
    return points


def _arm_result(section: Document, plan: Plan, arm: Document) -> Document:
    lever, owner, certifies = ARMS[arm["arm"]]
    return {
        "arm": arm["arm"],
        "lever": lever,
        "owner": owner,
        "certifies": certifies,
        "configuration": _system(section, plan, arm["configuration"]),
        "controls": [_system(section, plan, control) for control in arm["controls"]],
    }


def _system(section: Document, plan: Plan, configuration: Document) -> Document:
    """Return a configuration with its bytes, the bytes that a decode step reads and writes, and its distortion.

    Null where the control finds no allocation within the budget. Dense keys have no code and so no distortion of one:
    only drops count.
    """
    pages, states = section["pages"], plan.states
    dense_row = section["dimension"] * section["dense_key_scalar_bytes"] + section["value_row_bytes"]
    tiers = plan.tiers
    if configuration["keys"] == DENSE:
        page = spherical.page_bytes(8 * dense_row, pages["tokens"], pages["header_bytes"], pages["alignment_bytes"])
        tiers = Tiers((8 * dense_row,), (page,), pages["tokens"])
        states = tuple(State((0,), state.drop_distortion, state.protected) for state in states)
    found: Allocation | None
    if configuration["control"] == "none":
        whole = tuple(0 for _ in states)
        found = Allocation((), whole, policy.page_bytes(policy.counts(whole, tiers), tiers))
    else:
        name = configuration["control"]
        if configuration["allocation"] == "uniform" and name in ("joint", "precision"):
            name = "uniform"
        found = _control(name, section)(states, tiers, section["budget_bytes"])
    if found is None:
        return {**configuration, "page_bytes": None, "step_traffic_bytes": None, "kept_rows": None, "distortion": None}
    mixed = configuration["pages"] == "mixed"
    size = policy.mixed_page_bytes(found.assignment, tiers) if mixed else found.page_bytes
    kept = sum(tier is not None for tier in found.assignment)
    rebuilt = section["dimension"] * section["dense_key_scalar_bytes"] * kept
    return {
        **configuration,
        "page_bytes": size,
        "step_traffic_bytes": size + (2 * rebuilt if configuration["compute"] == RECONSTRUCTED else 0),
        "kept_rows": kept,
        "distortion": policy.distortion(states, found.assignment),
    }


def ledgers(section: Document, plan: Plan) -> tuple[LedgerRow, ...]:
    """Return the bytes of the allocation: dense, at the safe tier, within the budget, and what pages add to rows."""
    states, tiers, allocation = plan.states, plan.tiers, plan.allocation
    dense = section["dimension"] * section["dense_key_scalar_bytes"] + section["value_row_bytes"]
    safe = policy.page_bytes(policy.counts([0] * len(states), tiers), tiers)
    row_bits = policy.row_bits(policy.counts(allocation.assignment, tiers), tiers)
    count = len(policy.packed(allocation.assignment, tiers))
    pointers = count * section["pages"]["pointer_entry_bytes"]
    return (
        LedgerRow("retention_dense_row_bytes", len(states) * dense, "B", "states x (dense key + value row)"),
        LedgerRow("retention_safe_page_bytes", safe, "B", "every state at the safe tier"),
        LedgerRow("retention_protected_page_bytes", _protected_bytes(states, tiers), "B", "protected states alone"),
        LedgerRow("retention_budget_bytes", section["budget_bytes"], "B", "hard budget on page bytes"),
        LedgerRow("retention_page_bytes", allocation.page_bytes, "B", "sum over tiers of pages x page bytes"),
        LedgerRow("retention_row_bits", row_bits, "bit", "sum over tiers of rows x row bits"),
        LedgerRow(
            "retention_page_overhead_bytes",
            allocation.page_bytes - Fraction(row_bits, 8),
            "B",
            "page bytes - row bits / 8: headers, padding, empty slots",
        ),
        LedgerRow("retention_pointer_table_bytes", pointers, "B", "pages x pointer entry"),
        LedgerRow("retention_distortion", policy.distortion(states, allocation.assignment), "1", "sum over states"),
    )


def snapshots(section: Document, plan: Plan) -> tuple[Snapshot, ...]:
    """Return the tokens that each owner keeps."""
    geometry, kept = section["geometry"], plan.allocation.assignment
    found = []
    for owner in range(geometry["layers"] * geometry["kv_heads"]):
        layer, head = divmod(owner, geometry["kv_heads"])
        begin = owner * geometry["tokens"]
        positions = [token for token in range(geometry["tokens"]) if kept[begin + token] is not None]
        found.append(
            Snapshot(
                policy="rate_distortion_retention",
                step="allocation",
                owner=f"layer {layer}, K/V head {head}",
                state_generation=None,
                cache_generation=None,
                selected_original_positions=positions,
                selected_row_count=len(positions),
                published=True,
            )
        )
    return tuple(found)


def tables(found: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the sweep of budgets and the ablation arms."""
    sweep = Table(
        "Distortion within each budget; none where a control finds no allocation",
        (
            "budget B",
            "joint",
            "retention alone",
            "precision alone",
            "uniform",
            "decoupled",
            "joint below single levers",
        ),
        tuple(
            (
                str(point["budget_bytes"]),
                *(_text(value) for value in point["distortion"].values()),
                _yes(point["joint_below_best_single_lever"]),
            )
            for point in found["sweep"]
        ),
    )
    rows = []
    for arm in found["arms"]:
        for index, system in enumerate([arm["configuration"], *arm["controls"]]):
            rows.append(
                (
                    arm["arm"] if index == 0 else f"{arm['arm']} control",
                    arm["lever"] or "none",
                    "none" if arm["lever"] is None else str(system[arm["lever"]]),
                    _text(system["page_bytes"]),
                    _text(system["step_traffic_bytes"]),
                    _text(system["distortion"]),
                )
            )
    arms = Table(
        "Ablation arms at the budget of the allocation",
        ("arm", "lever", "setting", "page B", "step traffic B", "distortion"),
        tuple(rows),
    )
    return sweep, arms


def _text(value: object) -> str:
    return "none" if value is None else str(value)


def _yes(value: bool | None) -> str:
    return "none" if value is None else "yes" if value else "no"
