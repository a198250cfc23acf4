"""Loop 2, the visibility manifest: what one retained row means, and that packing keeps it (0x00C, 0x01A).

Five records stay apart, so that no subsystem can reinterpret another's state: the logical *cache ABI* and the *policy
manifest* define meaning, the *policy state* is one successor snapshot under it, the *packed view* materialises that
state, the *physical mapping* stores the view. A selection update makes a new state; it never edits the manifest.

The contracts are judged in the order of `oracle`: identity and tensor contract, head map, impossible combinations,
packed layout, state, selection, omitted rows, packed view, physical mapping.

Decided here: protection is a rule (first and newest positions), not a list, so that one manifest serves every frontier;
`ordering` is a manifest field, so that a policy that packs by score is not an unsorted one; an owner's positions may
be in any order under `selector_order`, but never twice. Where the selection unit shares one set between owners
(`token`, `layer_token`, `head_token`), the sets must be equal. A representation that replaces rows is outside this
oracle: there is no original row that its packed rows could be compared with.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence.canonical import canonical_sha256
from kvaudit.evidence.summary import summarised
from kvaudit.model import (
    Boundary,
    Comparison,
    Diagnostic,
    Document,
    Evidence,
    LedgerRow,
    Loop,
    Snapshot,
    Table,
    joined,
    pointer,
)
from kvaudit.policies import heads, layouts, packing
from kvaudit.policies.geometry import SCALAR_BYTES, Geometry
from kvaudit.policies.manifest import IDENTITY_FIELDS
from kvaudit.policies.protection import protected_positions

RECORDS = ("cache_abi", "manifest", "policy_state", "packed_view", "physical_mapping")

CACHE_ABI_DIGEST = Diagnostic(
    code="visibility.cache-abi-digest-mismatch",
    contract="manifest.logical_cache_abi_sha256 is the canonical SHA-256 of the cache ABI.",
    why="A policy admitted for another cache layout reads rows by the wrong axes, widths or heads.",
    fix="Admit the policy anew under this cache ABI; do not copy the digest over.",
)
CHECKPOINT_GENERATION = Diagnostic(
    code="visibility.checkpoint-generation-mismatch",
    contract="The manifest and the cache ABI name the same checkpoint generation.",
    why="K/V rows of one set of weights are meaningless to another, whatever their shape.",
    fix="Rebuild the manifest for the checkpoint that fills the cache.",
)
TENSOR_SHAPE = Diagnostic(
    code="visibility.tensor-shape-mismatch",
    contract="Layers, query heads, K/V heads and head dimension agree between manifest and cache ABI.",
    why="A wrong count still yields rows, but those of another layer or head.",
    fix="Take the counts from the checkpoint's configuration.",
)
AXES = Diagnostic(
    code="visibility.axis-mismatch",
    contract="The manifest names the source axes in the order in which the cache ABI stores them.",
    why="Model families place the sequence axis differently; swapped axes gather shape-correct nonsense.",
    fix="Name the axes of this model family's cache.",
)
SCALAR = Diagnostic(
    code="visibility.scalar-mismatch",
    contract="K and V scalars have the representation that the cache ABI stores.",
    why="Bytes read as another type are other numbers, and every byte ledger is off.",
    fix="Name the stored type; a conversion is a change of representation and needs its own contract.",
)
POSITION_STAGE = Diagnostic(
    code="visibility.position-stage-mismatch",
    contract="Key and value stages (before or after positional encoding) agree between manifest and cache ABI.",
    why="A post-RoPE key already carries its position; rotating it again, or not at all, shifts every distance.",
    fix="Name the stage at which the cache stores keys.",
)
HEAD_MAP_MISSING = Diagnostic(
    code="visibility.head-map-missing",
    contract="A selection unit per K/V head has an explicit q_to_kv_head_map.",
    why="Without it a query head cannot find the packed slice that it must read.",
    fix="Write the map, one K/V head for each query head.",
)
HEAD_MAP_LENGTH = Diagnostic(
    code="visibility.head-map-length",
    contract="q_to_kv_head_map has one entry for each query head.",
    why="A query head without an entry has no K/V rows; an extra entry belongs to no head.",
    fix="Give the map exactly query_heads entries.",
)
HEAD_MAP_RANGE = Diagnostic(
    code="visibility.head-map-out-of-range",
    contract="Every entry of q_to_kv_head_map is a K/V head of the cache.",
    why="The query head would read past the packed view.",
    fix="Use K/V heads 0 to kv_heads - 1.",
)
HEAD_MAP_OWNERSHIP = Diagnostic(
    code="visibility.head-map-ownership",
    contract="Under contiguous_gqa, query head q maps to K/V head q // (query_heads / kv_heads), which divides evenly.",
    why="A query head that reads its neighbour's K/V head attends to rows that were never projected for it.",
    fix="Correct the map, or name head_map_mode `explicit` if the checkpoint groups its heads otherwise.",
)
SUBSET_REPLACEMENT = Diagnostic(
    code="visibility.subset-with-replacement-rows",
    contract="A lossy_subset (or exact) policy stores original rows.",
    why="Selecting rows and replacing them are different approximations; a merged row has no original position.",
    fix="Name semantic_class `lossy_replacement` with a consumer schema, or store original rows.",
)
NO_CONSUMER = Diagnostic(
    code="visibility.replacement-without-consumer",
    contract="A lossy_replacement names the schema by which its rows are consumed.",
    why="Nobody can interpret the packed object; a kernel would read merged rows as original ones.",
    fix="Name replacement_consumer_schema.",
)
REPLACEMENT_VIEW = Diagnostic(
    code="visibility.replacement-view",
    contract="A packed view of this loop gathers original rows.",
    why="A replacement row equals no source row, so the gather identity that this oracle proves does not exist for it.",
    fix="Audit the policy with the representation loop.",
)
NO_HANDOFF = Diagnostic(
    code="visibility.recallable-without-handoff",
    contract="A recallable_nonresident policy names the hand-off that finds and moves the omitted rows.",
    why="`Recoverable` without lookup, movement and fallback is lost state under a better name.",
    fix="Name handoff_id, or call the omitted rows irrecoverable.",
)
RECALL_ACTION = Diagnostic(
    code="visibility.recall-without-recallable-state",
    contract="An action that recalls omitted rows needs a recallable_nonresident policy.",
    why="The fallback would wait for rows that no longer exist anywhere.",
    fix="Choose another action, or make the omitted rows recallable.",
)
LAYOUT_MIXED = Diagnostic(
    code="visibility.layout-mixed",
    contract="The packed view uses the materialisation and the offset convention that the cache ABI admits.",
    why="Layouts are different ABIs: global offsets read as head-local ones give shape-correct rows of another head.",
    fix="Pack by the admitted convention, or admit the other one.",
)
MANIFEST_DIGEST = Diagnostic(
    code="visibility.manifest-digest-mismatch",
    contract="State and view name the canonical SHA-256 over the ten identity fields of the manifest.",
    why="The state was derived under another meaning of the policy.",
    fix="Derive the state anew under this manifest.",
)
POLICY_GENERATION = Diagnostic(
    code="visibility.policy-generation-mismatch",
    contract="The state carries the policy generation of the manifest.",
    why="A state of an earlier policy would be published as one of this policy.",
    fix="Derive the state anew under the current policy generation.",
)
REQUEST_ID = Diagnostic(
    code="visibility.request-mismatch",
    contract="State and source cache belong to one request.",
    why="One request would attend to the rows of another: wrong output and a leak.",
    fix="Use the state that was derived for this request.",
)
REQUEST_GENERATION = Diagnostic(
    code="visibility.request-generation-stale",
    contract="State and source cache have the same request generation.",
    why="The request was cancelled, forked or recycled since; equal token counts do not make it the same.",
    fix="Discard the state and derive it from the current request.",
)
CACHE_GENERATION = Diagnostic(
    code="visibility.cache-generation-stale",
    contract="State and view were derived from the cache generation that is published.",
    why="The cache has moved on; the selection ignores rows that exist or keeps rows that do not.",
    fix="Retry the selection on the current cache generation, or discard it.",
)
STATE_GENERATION = Diagnostic(
    code="visibility.state-generation-stale",
    contract="The view materialises the state generation that is published.",
    why="A late worker would overwrite a newer view with an older one.",
    fix="Discard the view and pack the current state.",
)
NOT_SUCCESSOR = Diagnostic(
    code="visibility.state-not-a-successor",
    contract="A state generation is larger than that of its parent.",
    why="A state edited in place has no parent to fall back to, and readers cannot tell old from new.",
    fix="Publish a successor with a new state generation.",
)
FRONTIER = Diagnostic(
    code="visibility.committed-frontier-mismatch",
    contract="The state observed the committed frontier and position origin of the source cache.",
    why="Rows past its frontier were never considered; rows before it may be gone.",
    fix="Derive the state from the committed frontier.",
)
SELECTION_SHAPE = Diagnostic(
    code="visibility.selection-shape",
    contract="Selected positions and omitted intervals have one list for each layer and K/V head.",
    why="An owner without a list has no rows; the lists after it belong to the wrong owner.",
    fix="Write layers lists of kv_heads lists.",
)
PROTECTED_SET = Diagnostic(
    code="visibility.protected-set-mismatch",
    contract="The state's protected positions are those that the manifest's rule gives at this frontier.",
    why="A protected position that moved or vanished changes the policy without a new generation.",
    fix="Recompute the protected positions from the rule and the frontier.",
)
OUT_OF_RANGE = Diagnostic(
    code="visibility.position-out-of-range",
    contract="Every selected position p satisfies origin <= p < origin + committed frontier.",
    why="There is no committed row there; the gather would read free or foreign memory.",
    fix="Select committed positions only.",
)
DUPLICATE = Diagnostic(
    code="visibility.duplicate-position",
    contract="A position occurs once in the selection of one layer and K/V head.",
    why="The row would be attended to twice and charged twice.",
    fix="Remove the repetition.",
)
ORDER = Diagnostic(
    code="visibility.position-order",
    contract="Under `ascending` ordering, an owner's positions ascend.",
    why="A consumer that relies on the order (a causal mask, a binary search) reads the wrong rows.",
    fix="Sort the positions, or declare ordering `selector_order`.",
)
BUDGET = Diagnostic(
    code="visibility.row-budget-exceeded",
    contract="The selected rows within the budget's scope number at most maximum_rows.",
    why="The capacity reserved for the view is too small; another request's rows are overwritten or admission fails.",
    fix="Select fewer rows, or raise the budget in a new policy generation.",
)
PROTECTED_MISSING = Diagnostic(
    code="visibility.protected-position-missing",
    contract="Every owner selects every protected position.",
    why="Sinks and the newest rows are protected because dropping them breaks decoding at once.",
    fix="Keep the protected positions; let other rows go first.",
)
UNIT = Diagnostic(
    code="visibility.selection-unit-mismatch",
    contract="Owners that share a selection by the declared unit (token, layer_token, head_token) select one set.",
    why="A consumer that reads one shared set would use it for owners that keep other rows.",
    fix="Make the sets equal, or declare the unit layer_head_token.",
)
EXACT_OMITS = Diagnostic(
    code="visibility.exact-class-omits-rows",
    contract="A full_cache_exact policy omits no committed row.",
    why="Results would be cited as those of the full cache although history is missing.",
    fix="Call the policy lossy_subset, or keep every row.",
)
OMITTED_SUMMARY = Diagnostic(
    code="visibility.omitted-summary-drift",
    contract="The omitted intervals are exactly the committed positions that are not selected.",
    why="What is released, recalled or reported as lost would not be what is missing.",
    fix="Recompute the intervals from the selection.",
)
AMBIGUOUS_SOURCE = Diagnostic(
    code="visibility.ambiguous-source-rows",
    contract="The symbolic source gives every (tensor, layer, K/V head, position, channel) a value of its own.",
    why="Two equal scalars hide a gather from the wrong row, and the identity check proves nothing.",
    fix="Enlarge the strides, or use fewer positions.",
)
PACKED_SHAPE = Diagnostic(
    code="visibility.packed-shape",
    contract="The packed view has a K row, a V row and a map entry of the right width for each selected row.",
    why="A partly filled buffer is workspace; published, it is read past its end.",
    fix="Publish the view after every row is packed.",
)
OFFSET_DRIFT = Diagnostic(
    code="visibility.row-offset-drift",
    contract="The row offsets are those of the selection's lengths, monotone, ending at the number of packed rows.",
    why="An owner would read rows of the owner before or after it.",
    fix="Recompute the offsets from the lengths, by the admitted convention.",
)
MAP_DRIFT = Diagnostic(
    code="visibility.position-map-drift",
    contract="The original-position map repeats the selected positions in packing order.",
    why="A packed index taken for a position breaks causality, RoPE distances and every later score.",
    fix="Copy the selected positions; never number the packed rows anew.",
)
FUTURE = Diagnostic(
    code="visibility.future-position-visible",
    contract="A query at original position t reads packed rows with original position at most t.",
    why="Compared by packed row, a future token looks causal, and the model sees what it should predict.",
    fix="Mask by original position, or move the query to a later position.",
)
GATHER = Diagnostic(
    code="visibility.gather-misaligned",
    contract="Every packed K and V scalar equals that of its layer, K/V head, original position and channel.",
    why="A wrong layer, head, token, K for V or shifted channel is a silent wrong answer.",
    fix="Gather K, V and position by one index list.",
)
MAPPING_STALE = Diagnostic(
    code="visibility.mapping-stale",
    contract="The physical mapping stores the view of the published state and cache generation.",
    why="The pages hold the rows of an earlier view.",
    fix="Map the pages of the current view.",
)
PAGE_REUSED = Diagnostic(
    code="visibility.page-reused",
    contract="A page occurs once in the physical mapping of a view.",
    why="The second use overwrites the rows of the first.",
    fix="Allocate a page of its own for each part of the view.",
)
PAGE_CAPACITY = Diagnostic(
    code="visibility.page-capacity-short",
    contract="The mapped pages hold at least the packed rows.",
    why="The last rows of the view have no storage.",
    fix="Map more pages before packing.",
)
DRIFT = Diagnostic(
    code="visibility.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix="Find out which of the two is wrong; if the fixture's inputs are right, "
    "run `kvaudit regenerate --redeclare` and review the difference.",
)

DIAGNOSTICS = (
    CACHE_ABI_DIGEST,
    CHECKPOINT_GENERATION,
    TENSOR_SHAPE,
    AXES,
    SCALAR,
    POSITION_STAGE,
    HEAD_MAP_MISSING,
    HEAD_MAP_LENGTH,
    HEAD_MAP_RANGE,
    HEAD_MAP_OWNERSHIP,
    SUBSET_REPLACEMENT,
    NO_CONSUMER,
    REPLACEMENT_VIEW,
    NO_HANDOFF,
    RECALL_ACTION,
    LAYOUT_MIXED,
    MANIFEST_DIGEST,
    POLICY_GENERATION,
    REQUEST_ID,
    REQUEST_GENERATION,
    CACHE_GENERATION,
    STATE_GENERATION,
    NOT_SUCCESSOR,
    FRONTIER,
    SELECTION_SHAPE,
    PROTECTED_SET,
    OUT_OF_RANGE,
    DUPLICATE,
    ORDER,
    BUDGET,
    PROTECTED_MISSING,
    UNIT,
    EXACT_OMITS,
    OMITTED_SUMMARY,
    AMBIGUOUS_SOURCE,
    PACKED_SHAPE,
    OFFSET_DRIFT,
    MAP_DRIFT,
    FUTURE,
    GATHER,
    MAPPING_STALE,
    PAGE_REUSED,
    PAGE_CAPACITY,
    DRIFT,
)


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a visibility fixture, or raise the first `ContractViolation` in the order given above."""
    _judge_identity(fixture["cache_abi"], fixture["manifest"])
    _judge_head_map(fixture["manifest"])
    _judge_combinations(fixture["manifest"])
    _judge_layout(fixture["cache_abi"], fixture["packed_view"])
    _judge_state(fixture)
    _judge_selection(fixture)
    _judge_omitted(fixture)
    _judge_view(fixture)
    _judge_mapping(fixture)
    return _evidence(fixture)


def manifest_sha256(manifest: Mapping[str, Any]) -> str:
    """Return the policy identity: the canonical SHA-256 over the ten identity fields and nothing else."""
    return canonical_sha256({name: manifest[name] for name in IDENTITY_FIELDS})


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture with the digests of its cache ABI and manifest recomputed wherever they are named."""
    manifest = {**fixture["manifest"], "logical_cache_abi_sha256": canonical_sha256(fixture["cache_abi"])}
    digest = {"policy_manifest_sha256": manifest_sha256(manifest)}
    return {
        **fixture,
        "manifest": manifest,
        "policy_state": {**fixture["policy_state"], **digest},
        "packed_view": {**fixture["packed_view"], **digest},
    }


def _judge_identity(abi: Document, manifest: Document) -> None:
    stated = manifest["logical_cache_abi_sha256"]
    recomputed = canonical_sha256(abi)
    if stated != recomputed:
        where = pointer("manifest", "logical_cache_abi_sha256")
        raise ContractViolation(CACHE_ABI_DIGEST, where, f"expected {recomputed}, found {stated}")
    _require_equal(CHECKPOINT_GENERATION, manifest, abi, "checkpoint_generation", pointer("manifest"))
    tensor, where = manifest["tensor_contract"], pointer("manifest", "tensor_contract")
    for name in ("layers", "query_heads", "kv_heads", "head_dimension"):
        _require_equal(TENSOR_SHAPE, tensor, abi, name, where)
    _require_equal(AXES, tensor, abi, "source_axes", where)
    for name in ("key_scalar", "value_scalar"):
        _require_equal(SCALAR, tensor, abi, name, where)
    for name in ("key_position_stage", "value_stage"):
        _require_equal(POSITION_STAGE, tensor, abi, name, where)


def _judge_head_map(manifest: Document) -> None:
    tensor = manifest["tensor_contract"]
    head_map, where = tensor["q_to_kv_head_map"], pointer("manifest", "tensor_contract", "q_to_kv_head_map")
    unit = manifest["selection_contract"]["selection_unit"]
    if head_map is None:
        if unit in ("head_token", "layer_head_token"):
            raise ContractViolation(HEAD_MAP_MISSING, where, f"the selection unit {unit} needs a map, found null")
        return
    if len(head_map) != tensor["query_heads"]:
        reason = f"expected {tensor['query_heads']} entries, found {len(head_map)}"
        raise ContractViolation(HEAD_MAP_LENGTH, where, reason)
    for query_head, kv_head in enumerate(head_map):
        if kv_head >= tensor["kv_heads"]:
            reason = f"query head {query_head} maps to K/V head {kv_head}; the cache has {tensor['kv_heads']}"
            raise ContractViolation(HEAD_MAP_RANGE, where + pointer(query_head), reason)
    if tensor["head_map_mode"] == "contiguous_gqa":
        try:
            expected = heads.contiguous_gqa(tensor["query_heads"], tensor["kv_heads"])
        except ValueError as error:
            raise ContractViolation(HEAD_MAP_OWNERSHIP, where, str(error)) from None
        for query_head, (found, owner) in enumerate(zip(head_map, expected, strict=True)):
            if found != owner:
                reason = f"expected K/V head {owner} for query head {query_head}, found {found}"
                raise ContractViolation(HEAD_MAP_OWNERSHIP, where + pointer(query_head), reason)


def _judge_combinations(manifest: Document) -> None:
    representation, where = manifest["representation_contract"], pointer("manifest", "representation_contract")
    kind, rows = representation["semantic_class"], representation["stored_rows"]
    if kind != "lossy_replacement" and rows == "replacement_rows":
        reason = f"the semantic class {kind} stores original_rows, found replacement_rows"
        raise ContractViolation(SUBSET_REPLACEMENT, where + "/stored_rows", reason)
    if kind == "lossy_replacement":
        if representation["replacement_consumer_schema"] is None:
            reason = "lossy_replacement needs a consumer schema, found null"
            raise ContractViolation(NO_CONSUMER, where + "/replacement_consumer_schema", reason)
        raise ContractViolation(REPLACEMENT_VIEW, where + "/semantic_class", "expected a class of original rows")
    recovery, where = manifest["recoverability_contract"], pointer("manifest", "recoverability_contract")
    recallable = recovery["omitted_rows"] == "recallable_nonresident"
    if recallable and recovery["handoff_id"] is None:
        raise ContractViolation(NO_HANDOFF, where + "/handoff_id", "recallable rows need a hand-off, found null")
    for name, action in manifest["quality_and_fallback"].items():
        if action == "recall_omitted_rows" and not recallable:
            reason = f"{action} needs recallable rows; omitted rows are {recovery['omitted_rows']}"
            raise ContractViolation(RECALL_ACTION, pointer("manifest", "quality_and_fallback", name), reason)


def _judge_layout(abi: Document, view: Document) -> None:
    for name in ("materialization", "offset_convention"):
        _require_equal(LAYOUT_MIXED, view, abi["packed_layout"], name, pointer("packed_view"))


def _judge_state(fixture: Document) -> None:
    manifest, state, cache = fixture["manifest"], fixture["policy_state"], fixture["source_cache"]
    where = pointer("policy_state")
    _require_digest(state, manifest, where)
    _require_equal(POLICY_GENERATION, state, manifest, "policy_generation", where)
    _require_equal(REQUEST_ID, state, cache, "request_id", where)
    _require_equal(REQUEST_GENERATION, state, cache, "request_generation", where)
    _require_equal(CACHE_GENERATION, state, cache, "cache_generation", where)
    _require_equal(FRONTIER, state, cache, "committed_frontier", where)
    _require_equal(FRONTIER, state, cache, "position_origin", where)
    parent = state["parent_state_generation"]
    if parent is not None and state["state_generation"] <= parent:
        reason = f"state {state['state_generation']} does not come after its parent {parent}"
        raise ContractViolation(NOT_SUCCESSOR, where + "/state_generation", reason)


def _judge_selection(fixture: Document) -> None:
    tensor, contract = fixture["manifest"]["tensor_contract"], fixture["manifest"]["selection_contract"]
    state = fixture["policy_state"]
    origin, frontier = state["position_origin"], state["committed_frontier"]
    for name in ("selected_original_positions", "omitted_intervals"):
        _require_owner_lists(state[name], tensor, pointer("policy_state", name))
    protected = protected_positions(**contract["protected_positions"], origin=origin, frontier=frontier)
    if state["protected_original_positions"] != protected:
        reason = f"expected {joined(protected)}, found {joined(state['protected_original_positions'])}"
        raise ContractViolation(PROTECTED_SET, pointer("policy_state", "protected_original_positions"), reason)
    selected = state["selected_original_positions"]
    for layer, kv_head, positions in packing.owners(selected):
        where = pointer("policy_state", "selected_original_positions", layer, kv_head)
        _judge_positions(positions, origin, frontier, contract["ordering"], where)
        for position in protected:
            if position not in positions:
                reason = f"expected the protected position {position} in {joined(positions)}"
                raise ContractViolation(PROTECTED_MISSING, where, reason)
    _judge_budget(selected, contract)
    _judge_unit(selected, contract["selection_unit"])


def _judge_positions(positions: Sequence[int], origin: int, frontier: int, ordering: str, where: str) -> None:
    seen: set[int] = set()
    for index, position in enumerate(positions):
        if not origin <= position < origin + frontier:
            reason = f"expected a position in [{origin}, {origin + frontier}), found {position}"
            raise ContractViolation(OUT_OF_RANGE, where + pointer(index), reason)
        if position in seen:
            raise ContractViolation(DUPLICATE, where + pointer(index), f"position {position} is selected twice")
        if ordering == "ascending" and index and position < positions[index - 1]:
            reason = f"expected a position after {positions[index - 1]}, found {position}"
            raise ContractViolation(ORDER, where + pointer(index), reason)
        seen.add(position)


def _judge_budget(selected: packing.Selection, contract: Document) -> None:
    scope, limit = contract["budget_scope"], contract["maximum_rows"]
    where = pointer("policy_state", "selected_original_positions")
    rows = packing.lengths(selected)
    if scope == "per_layer_kv_head":
        counts = [(where + pointer(layer, head), n) for layer, row in enumerate(rows) for head, n in enumerate(row)]
    elif scope == "per_layer":
        counts = [(where + pointer(layer), sum(row)) for layer, row in enumerate(rows)]
    else:
        counts = [(where, sum(map(sum, rows)))]
    for place, count in counts:
        if count > limit:
            raise ContractViolation(BUDGET, place, f"expected at most {limit} rows {scope}, found {count}")


def _judge_unit(selected: packing.Selection, unit: str) -> None:
    for layer, kv_head, positions in packing.owners(selected):
        first = {
            "token": selected[0][0],
            "token_group": selected[0][0],
            "layer_token": selected[layer][0],
            "head_token": selected[0][kv_head],
            "layer_head_token": positions,
        }[unit]
        if list(first) != list(positions):
            where = pointer("policy_state", "selected_original_positions", layer, kv_head)
            reason = f"the unit {unit} shares {joined(first)}, found {joined(positions)}"
            raise ContractViolation(UNIT, where, reason)


def _judge_omitted(fixture: Document) -> None:
    state, origin = fixture["policy_state"], fixture["policy_state"]["position_origin"]
    exact = fixture["manifest"]["representation_contract"]["semantic_class"] == "full_cache_exact"
    for layer, kv_head, positions in packing.owners(state["selected_original_positions"]):
        omitted = packing.omitted_intervals(positions, origin, state["committed_frontier"])
        if exact and omitted:
            where = pointer("manifest", "representation_contract", "semantic_class")
            reason = f"full_cache_exact, but layer {layer} K/V head {kv_head} omits {joined(omitted)}"
            raise ContractViolation(EXACT_OMITS, where, reason)
        stated = state["omitted_intervals"][layer][kv_head]
        if stated != omitted:
            where = pointer("policy_state", "omitted_intervals", layer, kv_head)
            raise ContractViolation(OMITTED_SUMMARY, where, f"expected {joined(omitted)}, found {joined(stated)}")


def _judge_view(fixture: Document) -> None:
    state, view, abi = fixture["policy_state"], fixture["packed_view"], fixture["cache_abi"]
    _require_digest(view, fixture["manifest"], pointer("packed_view"))
    _require_equal(CACHE_GENERATION, view, state, "cache_generation", pointer("packed_view"))
    _require_equal(STATE_GENERATION, view, state, "state_generation", pointer("packed_view"))
    _judge_source(fixture)
    selected = state["selected_original_positions"]
    expected = packing.position_map(selected)
    for name, width in (("packed_key_rows", abi["head_dimension"]), ("packed_value_rows", abi["head_dimension"])):
        if len(view[name]) != len(expected):
            reason = f"expected {len(expected)} rows, found {len(view[name])}"
            raise ContractViolation(PACKED_SHAPE, pointer("packed_view", name), reason)
        for row, scalars in enumerate(view[name]):
            if len(scalars) != width:
                reason = f"expected {width} scalars, found {len(scalars)}"
                raise ContractViolation(PACKED_SHAPE, pointer("packed_view", name, row), reason)
    _judge_offsets(view, packing.lengths(selected))
    _judge_map(view["original_position_map"], expected, fixture["decode_query"]["original_position"])
    for name, tensor in (("packed_key_rows", "key"), ("packed_value_rows", "value")):
        rows = packing.gather(_source(fixture, tensor), selected, state["position_origin"])
        _judge_rows(view[name], rows, expected, pointer("packed_view", name))


def _judge_source(fixture: Document) -> None:
    abi, content = fixture["cache_abi"], fixture["source_cache"]["symbolic_content"]
    where = pointer("source_cache", "symbolic_content")
    span = abi["head_dimension"]
    counts = {
        "position_stride": fixture["source_cache"]["committed_frontier"],
        "kv_head_stride": abi["kv_heads"],
        "layer_stride": abi["layers"],
        "value_offset": 2,
    }
    for name, count in counts.items():
        if content[name] < span:
            raise ContractViolation(
                AMBIGUOUS_SOURCE, where + pointer(name), f"expected at least {span}, found {content[name]}"
            )
        span += (count - 1) * content[name]


def _judge_offsets(view: Document, rows: list[list[int]]) -> None:
    expected = _offsets(view["offset_convention"], rows)
    where = pointer("packed_view", "row_offsets")
    difference = _first_difference(expected, view["row_offsets"], where)
    if difference is not None:
        place, wanted, found = difference
        raise ContractViolation(OFFSET_DRIFT, place, f"expected {wanted}, found {found}")


def _judge_map(stated: list[int], expected: list[int], query_position: int) -> None:
    where = pointer("packed_view", "original_position_map")
    if len(stated) != len(expected):
        raise ContractViolation(PACKED_SHAPE, where, f"expected {len(expected)} entries, found {len(stated)}")
    for row, (found, position) in enumerate(zip(stated, expected, strict=True)):
        if found != position:
            reason = f"packed row {row} holds position {position}, the map says {found}"
            raise ContractViolation(MAP_DRIFT, where + pointer(row), reason)
        if position > query_position:
            reason = f"packed row {row} holds position {position}, which the query at {query_position} cannot see yet"
            raise ContractViolation(FUTURE, where + pointer(row), reason)


def _judge_rows(packed: list[list[int]], expected: list[Any], positions: list[int], where: str) -> None:
    for row, (found, source) in enumerate(zip(packed, expected, strict=True)):
        if found != source:
            channel = next(index for index, (one, other) in enumerate(zip(found, source, strict=True)) if one != other)
            reason = (
                f"packed row {row} gathers position {positions[row]}: channel {channel} is {source[channel]} "
                f"in the source, {found[channel]} in the view"
            )
            raise ContractViolation(GATHER, where + pointer(row, channel), reason)


def _judge_mapping(fixture: Document) -> None:
    mapping, state, where = fixture["physical_mapping"], fixture["policy_state"], pointer("physical_mapping")
    _require_equal(MAPPING_STALE, mapping, state, "state_generation", where)
    _require_equal(MAPPING_STALE, mapping, state, "cache_generation", where)
    pages = mapping["pages"]
    for index, page in enumerate(pages):
        if page in pages[:index]:
            raise ContractViolation(PAGE_REUSED, where + pointer("pages", index), f"page {page} is mapped twice")
    rows = len(fixture["packed_view"]["original_position_map"])
    capacity = len(pages) * mapping["rows_per_page"]
    if capacity < rows:
        reason = f"{len(pages)} pages of {mapping['rows_per_page']} rows hold {capacity}, the view has {rows}"
        raise ContractViolation(PAGE_CAPACITY, where + "/pages", reason)


def _evidence(fixture: Document) -> Evidence:
    abi, state, manifest = fixture["cache_abi"], fixture["policy_state"], fixture["manifest"]
    selected = state["selected_original_positions"]
    geometry = _geometry(abi)
    layout, frontier = abi["packed_layout"], state["committed_frontier"]
    rows = sum(map(sum, packing.lengths(selected)))
    map_bytes = rows * layout["position_entry_bytes"]
    offset_bytes = layouts.offset_entries(layout["offset_convention"], geometry) * layout["offset_entry_bytes"]
    full, payload = geometry.full_payload_bytes(frontier), rows * geometry.row_bytes()
    ledgers = (
        LedgerRow("full_payload", full, "B", "L * H_kv * T * d_h * (b_K + b_V)"),
        LedgerRow("selected_payload", payload, "B", "R_total * d_h * (b_K + b_V)"),
        LedgerRow("position_map", map_bytes, "B", "R_total * position_entry_bytes"),
        LedgerRow("row_offsets", offset_bytes, "B", _OFFSET_FORMULAS[layout["offset_convention"]]),
        LedgerRow("ragged_total", payload + map_bytes + offset_bytes, "B", "payload + position map + row offsets"),
    )
    return Evidence(
        results=_results(fixture, geometry, rows),
        ledgers=ledgers,
        snapshots=tuple(
            Snapshot(
                policy=manifest["policy_manifest_id"],
                step=state["decision_phase"],
                owner=f"layer {layer} K/V head {kv_head}",
                state_generation=state["state_generation"],
                cache_generation=state["cache_generation"],
                selected_original_positions=positions,
                selected_row_count=len(positions),
                published=True,
            )
            for layer, kv_head, positions in packing.owners(selected)
        ),
        comparisons=(
            Comparison(
                "payload_bytes", "B", "one request, one tensor, payload only", ("full_payload", "selected_payload")
            ),
        ),
    )


def _results(fixture: Document, geometry: Geometry, rows: int) -> Document:
    abi, state, manifest = fixture["cache_abi"], fixture["policy_state"], fixture["manifest"]
    selected, view = state["selected_original_positions"], fixture["packed_view"]
    lengths = packing.lengths(selected)
    content = fixture["source_cache"]["symbolic_content"]
    base, local = packing.layer_base_offsets(lengths)
    return {
        "records": list(RECORDS),
        "identity": {
            "schema_version": manifest["schema_version"],
            "hashed_fields": list(IDENTITY_FIELDS),
            "policy_manifest_sha256": manifest_sha256(manifest),
            "logical_cache_abi_sha256": manifest["logical_cache_abi_sha256"],
            "policy_generation": manifest["policy_generation"],
        },
        "tensor": {
            "layers": abi["layers"],
            "query_heads": abi["query_heads"],
            "kv_heads": abi["kv_heads"],
            "head_dimension": abi["head_dimension"],
            "key_scalar_bytes": geometry.key_scalar_bytes,
            "value_scalar_bytes": geometry.value_scalar_bytes,
            "committed_positions": state["committed_frontier"],
            "q_to_kv_head_map": manifest["tensor_contract"]["q_to_kv_head_map"],
        },
        "budget": {
            "maximum_rows": manifest["selection_contract"]["maximum_rows"],
            "scope": manifest["selection_contract"]["budget_scope"],
        },
        "protected_original_positions": state["protected_original_positions"],
        "selected_original_positions": summarised(selected),
        "packed_rows": rows,
        "original_position_map": summarised(view["original_position_map"]),
        "row_offsets": {
            packing.GLOBAL_ROWS_PER_LAYER: summarised(packing.global_offsets_per_layer(lengths)),
            packing.FLAT: summarised(packing.flat_offsets(lengths)),
            packing.LAYER_BASE_HEAD_LOCAL: {"layer_base": summarised(base), "head_local": summarised(local)},
        },
        "probes": {name: _probe(fixture, probe) for name, probe in fixture["probes"].items()},
        "gather_scalars_checked": 2 * rows * abi["head_dimension"],
        "largest_unambiguous_positions": (content["kv_head_stride"] - abi["head_dimension"])
        // content["position_stride"]
        + 1,
        "materializations": _materializations(abi, lengths, state["committed_frontier"], geometry),
    }


def _probe(fixture: Document, probe: Document) -> Document:
    """Return what one owner-local packed row holds: its flat row, original position, K row and V row."""
    selected = fixture["policy_state"]["selected_original_positions"]
    lengths = packing.lengths(selected)
    layer, kv_head, row = probe["layer"], probe["kv_head"], probe["packed_row"]
    if not (layer < len(lengths) and kv_head < len(lengths[layer]) and row < lengths[layer][kv_head]):
        return {"flat_row": None, "original_position": None, "key_row": None, "value_row": None}
    flat_row = packing.global_offsets_per_layer(lengths)[layer][kv_head] + row
    view = fixture["packed_view"]
    return {
        "flat_row": flat_row,
        "original_position": view["original_position_map"][flat_row],
        "key_row": summarised(view["packed_key_rows"][flat_row]),
        "value_row": summarised(view["packed_value_rows"][flat_row]),
    }


def _materializations(abi: Document, lengths: list[list[int]], frontier: int, geometry: Geometry) -> Document:
    """Return the layouts that could hold the same selection: other ABIs, other digests, other bytes."""
    layout = abi["packed_layout"]
    rows, owners = sum(map(sum, lengths)), geometry.owners()
    slots, full = owners * max(map(max, lengths)), owners * frontier
    entry = layout["position_entry_bytes"]
    offsets = layouts.offset_entries(layout["offset_convention"], geometry) * layout["offset_entry_bytes"]
    shapes = {
        "flat_ragged": (rows, rows * entry + offsets),
        "padded": (slots, slots * entry + layouts.bitmap_bytes(slots)),
        "tombstone": (full, layouts.bitmap_bytes(full)),
        "source_indices": (full, rows * entry + offsets),
    }
    return {
        name: {
            "abi_sha256": canonical_sha256({**abi, "packed_layout": {**layout, "materialization": name}}),
            "admitted": name == layout["materialization"],
            "row_slots": row_slots,
            "payload_bytes": row_slots * geometry.row_bytes(),
            "metadata_bytes": metadata,
        }
        for name, (row_slots, metadata) in shapes.items()
    }


_OFFSET_FORMULAS = {
    packing.GLOBAL_ROWS_PER_LAYER: "L * (H_kv + 1) * offset_entry_bytes",
    packing.FLAT: "(L * H_kv + 1) * offset_entry_bytes",
    packing.LAYER_BASE_HEAD_LOCAL: "(L + L * (H_kv + 1)) * offset_entry_bytes",
}


def _offsets(convention: str, lengths: list[list[int]]) -> list[Any]:
    """Return the offsets in the form in which a view of this convention carries them, always a list of lists."""
    if convention == packing.GLOBAL_ROWS_PER_LAYER:
        return packing.global_offsets_per_layer(lengths)
    if convention == packing.FLAT:
        return [packing.flat_offsets(lengths)]
    base, local = packing.layer_base_offsets(lengths)
    return [base, *local]


def _geometry(abi: Document) -> Geometry:
    return Geometry(
        batch=1,
        layers=abi["layers"],
        kv_heads=abi["kv_heads"],
        head_dimension=abi["head_dimension"],
        key_scalar_bytes=SCALAR_BYTES[abi["key_scalar"]],
        value_scalar_bytes=SCALAR_BYTES[abi["value_scalar"]],
    )


def _source(fixture: Document, tensor: str) -> Any:
    """Return the symbolic source tensor as a function of (layer, K/V head, source row) to a row of d_h integers."""
    content, width = fixture["source_cache"]["symbolic_content"], fixture["cache_abi"]["head_dimension"]
    offset = content["value_offset"] if tensor == "value" else 0

    def row(layer: int, kv_head: int, source_row: int) -> list[int]:
        first = (
            offset
            + layer * content["layer_stride"]
            + kv_head * content["kv_head_stride"]
            + source_row * content["position_stride"]
        )
        return list(range(first, first + width))

    return row


def _require_equal(diagnostic: Diagnostic, found: Document, expected: Document, name: str, where: str) -> None:
    if found[name] != expected[name]:
        reason = f"expected {name} {expected[name]}, found {found[name]}"
        raise ContractViolation(diagnostic, where + pointer(name), reason)


def _require_digest(record: Document, manifest: Document, where: str) -> None:
    recomputed = manifest_sha256(manifest)
    if record["policy_manifest_sha256"] != recomputed:
        reason = f"expected {recomputed}, found {record['policy_manifest_sha256']}"
        raise ContractViolation(MANIFEST_DIGEST, where + "/policy_manifest_sha256", reason)


def _require_owner_lists(lists: list[Any], tensor: Document, where: str) -> None:
    if len(lists) != tensor["layers"]:
        raise ContractViolation(SELECTION_SHAPE, where, f"expected {tensor['layers']} layers, found {len(lists)}")
    for layer, owners in enumerate(lists):
        if len(owners) != tensor["kv_heads"]:
            reason = f"expected {tensor['kv_heads']} K/V heads, found {len(owners)}"
            raise ContractViolation(SELECTION_SHAPE, where + pointer(layer), reason)


def _first_difference(expected: list[Any], found: list[Any], where: str) -> tuple[str, Any, Any] | None:
    """Return (pointer, expected, found) of the first entry in which two nested lists of offsets differ."""
    if len(expected) != len(found):
        return where, f"{len(expected)} lists", f"{len(found)}"
    for row, (wanted, stated) in enumerate(zip(expected, found, strict=True)):
        if len(wanted) != len(stated):
            return where + pointer(row), f"{len(wanted)} offsets", f"{len(stated)}"
        for column, (one, other) in enumerate(zip(wanted, stated, strict=True)):
            if one != other:
                return where + pointer(row, column), one, other
    return None


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the packed views a owner, and the alternative materialisations."""
    owners = Table(
        "Packed views",
        ("owner", "rows", "original positions", "state", "cache"),
        tuple(
            (
                snapshot["owner"],
                str(snapshot["selected_row_count"]),
                str(snapshot["selected_original_positions"]),
                str(snapshot["state_generation"]),
                str(snapshot["cache_generation"]),
            )
            for snapshot in report["snapshots"]
        ),
    )
    alternatives = Table(
        "Materialisations of the same selection, each another ABI",
        ("layout", "admitted", "row slots", "payload B", "metadata B"),
        tuple(
            (
                name,
                "yes" if layout["admitted"] else "no",
                str(layout["row_slots"]),
                str(layout["payload_bytes"]),
                str(layout["metadata_bytes"]),
            )
            for name, layout in report["results"]["materializations"].items()
        ),
    )
    return owners, alternatives


LOOP = Loop(
    id="loop02_visibility",
    command="visibility",
    title="visibility manifest, policy state and tensor identity",
    section="0x01A",
    fixture_schema="kvaudit.fixture.visibility/1",
    report_schema="kvaudit.report.visibility/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "manifest digest or policy generation",
        "stale request, cache or state generation",
        "committed frontier",
        "query-head map",
        "axis, dtype, position stage or representation",
        "selected positions",
        "row offsets or position map",
        "gather alignment",
        "exact class with omitted rows",
        "replacement without consumer schema",
        "recallable without hand-off",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=("manifest identity", "state validation", "ragged packing", "scalar-by-scalar gather check"),
        not_executed=(
            "model",
            "attention scores or any paper's selector",
            "allocator",
            "attention kernel",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)
