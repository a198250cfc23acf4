"""What must hold before anything runs: selection owner, code pins and claims, budgets."""

from collections.abc import Mapping
from itertools import pairwise

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop05_dynamic.diagnostics import (
    AMBIGUOUS_OWNER,
    CLAIM,
    DECLARED_BUDGET,
    HEAD_MAP_LENGTH,
    HEAD_MAP_RANGE,
    LAYER_BUDGET,
    OWNER_COUNT,
    PARTITION,
    RECENT_WIDTH,
    REDUCTION,
    SOURCE_PIN,
    UNREAD_HEAD,
)
from kvaudit.loops.loop05_dynamic.state import METHODS, Method, Owner
from kvaudit.model import Document, pointer
from kvaudit.policies import h2o, keyformer, scissorhands
from kvaudit.policies.geometry import Geometry

# No official Scissorhands repository is pinned.
SOURCES: dict[str, Mapping[str, str | None]] = {
    "scissorhands": {"repository": None, "commit": None, "file": None},
    "h2o": h2o.SOURCE,
    "keyformer": keyformer.SOURCE,
}


def judge_owners(fixture: Document) -> tuple[Owner, ...]:
    """Return the selection owners, layer by layer, or raise what is wrong with the head map or the declared owner."""
    cache, selection = fixture["cache"], fixture["selection"]
    head_map, where = cache["q_to_kv_head_map"], pointer("cache", "q_to_kv_head_map")
    if len(head_map) != cache["query_heads"]:
        raise ContractViolation(
            HEAD_MAP_LENGTH, where, f"expected {cache['query_heads']} entries, found {len(head_map)}"
        )
    mapped: dict[int, list[int]] = {}
    for query_head, kv_head in enumerate(head_map):
        if kv_head >= cache["kv_heads"]:
            reason = f"expected a K/V head below {cache['kv_heads']}, found {kv_head}"
            raise ContractViolation(HEAD_MAP_RANGE, where + pointer(query_head), reason)
        mapped.setdefault(kv_head, []).append(query_head)
    if len(mapped) != cache["kv_heads"]:
        missing = next(kv_head for kv_head in range(cache["kv_heads"]) if kv_head not in mapped)
        raise ContractViolation(UNREAD_HEAD, where, f"expected a query head for K/V head {missing}, found none")
    kind, reduction = selection["owner"], selection["reduction"]
    if kind == "kv_head" and len(head_map) != cache["kv_heads"]:
        reason = f"{len(head_map)} query heads read {cache['kv_heads']} K/V heads: name a reduction or query_head"
        raise ContractViolation(AMBIGUOUS_OWNER, pointer("selection", "owner"), reason)
    if (kind == "reduced_query_heads") != (reduction is not None):
        reason = f"the owner {kind} goes {'with' if reduction is None else 'without'} a reduction, found {reduction}"
        raise ContractViolation(REDUCTION, pointer("selection", "reduction"), reason)
    groups: list[tuple[int, tuple[int, ...]]] = [(head, (head,)) for head in range(len(head_map))]
    if kind != "query_head":
        groups = [(kv_head, tuple(mapped[kv_head])) for kv_head in range(cache["kv_heads"])]
    for name in METHODS:
        stated, expected = len(fixture[name]["run"]["parent"]["owners"]), cache["layers"] * len(groups)
        if stated != expected:
            place = pointer(name, "run", "parent", "owners")
            raise ContractViolation(OWNER_COUNT, place, f"expected {expected} owners, found {stated}")
    return tuple(Owner(layer, head, heads) for layer in range(cache["layers"]) for head, heads in groups)


def judge_sources(fixture: Document) -> None:
    for name, pinned in SOURCES.items():
        for member, expected in pinned.items():
            found = fixture["sources"][name][member]
            if found != expected:
                place = pointer("sources", name, member)
                raise ContractViolation(SOURCE_PIN, place, f"expected {expected}, found {found}")
    for name, status in fixture["claims"].items():
        if status != "hypothesis":
            raise ContractViolation(CLAIM, pointer("claims", name), f"expected hypothesis, found {status}")


def judge_budgets(fixture: Document, owners: tuple[Owner, ...]) -> dict[str, Method]:
    budget, cache = fixture["budget"], fixture["cache"]
    rows, recent = budget["rows_per_owner"], budget["recent_rows"]
    if recent > rows:
        raise ContractViolation(
            RECENT_WIDTH, pointer("budget", "recent_rows"), f"expected at most {rows} rows, found {recent}"
        )
    for name in METHODS:
        found = fixture[name]["policy"]["recent_rows"]
        if found != recent:
            raise ContractViolation(
                PARTITION, pointer(name, "policy", "recent_rows"), f"expected {recent}, found {found}"
            )
    for name, member in (("h2o", "heavy_rows"), ("keyformer", "key_rows")):
        found = fixture[name]["policy"][member]
        if found + recent != rows:
            reason = f"{found} rows and {recent} recent ones are not the budget of {rows}"
            raise ContractViolation(PARTITION, pointer(name, "policy", member), reason)
    _judge_declared_budgets(fixture["keyformer"]["policy"])
    layer_budgets = _judge_layer_budgets(fixture, len(owners) // cache["layers"])
    geometry = Geometry(
        batch=1,
        layers=cache["layers"],
        kv_heads=len(owners) // cache["layers"],
        head_dimension=cache["head_dimension"],
        key_scalar_bytes=cache["key_scalar_bytes"],
        value_scalar_bytes=cache["value_scalar_bytes"],
    )
    return {
        name: Method(
            name=name,
            policy=fixture[name]["policy"],
            owners=owners,
            owner_kind="query head" if fixture["selection"]["owner"] == "query_head" else "K/V head",
            reduction=fixture["selection"]["reduction"],
            budgets=tuple(layer_budgets[owner.layer] if name == "scissorhands" else rows for owner in owners),
            geometry=geometry,
            score_bytes=cache["score_bytes"],
            mass_tolerance=fixture["tolerances"]["attention_mass"],
            receipt_tolerance=fixture["tolerances"]["receipt"],
        )
        for name in METHODS
    }


def _judge_declared_budgets(policy: Document) -> None:
    declared, where = policy["declared_budgets"], pointer("keyformer", "policy", "declared_budgets")
    if declared and policy["beyond_schedule"] != keyformer.RECOMPUTE:
        reason = f"{policy['beyond_schedule']} has one schedule, found {len(declared)} later ones"
        raise ContractViolation(DECLARED_BUDGET, where, reason)
    for index, (one, following) in enumerate(pairwise(declared)):
        if following["from_transaction"] <= one["from_transaction"]:
            reason = f"expected a transaction after {one['from_transaction']}, found {following['from_transaction']}"
            raise ContractViolation(DECLARED_BUDGET, where + pointer(index + 1, "from_transaction"), reason)


def _judge_layer_budgets(fixture: Document, owners_per_layer: int) -> list[int]:
    """Return B of one owner in each layer."""
    stated, where = fixture["scissorhands"]["policy"]["layer_budget_rows"], "/scissorhands/policy/layer_budget_rows"
    layers, budget = fixture["cache"]["layers"], fixture["budget"]
    if len(stated) != layers:
        raise ContractViolation(LAYER_BUDGET, where, f"expected {layers} layers, found {len(stated)}")
    shares = []
    for layer, rows in enumerate(stated):
        try:
            shares.append(scissorhands.owner_budget(rows, owners_per_layer))
        except ValueError as error:
            raise ContractViolation(LAYER_BUDGET, where + pointer(layer), str(error)) from None
        if shares[-1] < budget["recent_rows"]:
            reason = f"expected at least {budget['recent_rows']} rows a owner, found {shares[-1]}"
            raise ContractViolation(RECENT_WIDTH, where + pointer(layer), reason)
    total = budget["rows_per_owner"] * owners_per_layer * layers
    if sum(stated) != total:
        raise ContractViolation(LAYER_BUDGET, where, f"expected {total} rows over all layers, found {sum(stated)}")
    return shares
