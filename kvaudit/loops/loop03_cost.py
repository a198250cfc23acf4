"""Loop 3, cost and accuracy: what a retained row costs to store, publish and read, and what omitting rows does (0x02).

Four ledgers stay apart, because no single "cache size" answers them all: *persistent state* survives between decode
steps, the *transaction peak* is what is alive while a successor is built, *traffic* is what an update or a decode step
moves, *accuracy* is the change of one local attention output, which is no task quality: that stays null.

The contracts are judged in the order of `oracle`: receipt, geometry and head map, retained rows, layouts, score and
protected state, workspace and transactions, update traffic, running shape and decode, fallback, attention.

Decided here: the ledgers count logical bytes of a declared algorithm, a rebuild that scans every candidate's score,
reads every retained row and writes the whole ragged state. The full state that is live in the first transaction is the
bare payload, without scores or a receipt of its own, as the specification adds it up. A bounded policy whose prefix is
still shorter than its bound reads the prefix. Retained rows are counts, not positions: what depends on which rows are
kept belongs to the other loops, except in the attention cases, which are small enough to name their positions.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations
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
from kvaudit.policies import attention, fallback, layouts, packing, traffic
from kvaudit.policies.geometry import Geometry

# The states between which an update moves: what is live, and what is built beside it.
TRANSACTIONS = {"full_to_ragged": ("full", "ragged"), "ragged_to_ragged": ("ragged", "ragged")}
PEAK_TERMS = ("live_state", "unpublished_successor", "topk_workspace", "backend_workspace")

# What each mode needs once it has rows, and what that is called when it is missing.
FALLBACK_NEEDS = {
    fallback.IRRECOVERABLE: {"quality_contract": "a quality contract that accepts the absence"},
    fallback.RECOMPUTABLE: {"model_path": "a model path", "source_tokens_per_sequence": "source tokens"},
    fallback.RECALLABLE: {"handoff_id": "a hand-off that finds and moves the rows"},
    fallback.FULL_CACHE: {
        "reserved_requests": "requests that may abandon the lossy path",
        "reserved_capacity_bytes": "reserved capacity",
    },
}

# Within these, and the magnitude of 10^12 that the schema allows, every mass, error and ratio of an attention case
# stays inside binary64, in which a report is written.
MOST_DECIMAL_PLACES = 30
WIDEST_LOGIT_GAP = 200

KIB, GIB, TIB = 2**10, 2**30, 2**40

RECEIPT_DIGEST = Diagnostic(
    code="cost.receipt-digest-mismatch",
    contract="The accounting receipt names the canonical SHA-256 of this geometry and of these retained counts.",
    why="Bytes that were counted for another shape or another selection would be cited for this one.",
    fix="Count anew for this geometry and these counts; do not copy the digests over.",
)
HEAD_MAP_LENGTH = Diagnostic(
    code="cost.head-map-length",
    contract="q_to_kv_head_map has one entry for each query head.",
    why="Demand is counted over query heads; a head without an entry reads nothing, an extra entry reads twice.",
    fix="Give the map exactly query_heads entries.",
)
HEAD_MAP_RANGE = Diagnostic(
    code="cost.head-map-out-of-range",
    contract="Every entry of q_to_kv_head_map is a K/V head of the cache.",
    why="The query head would read a K/V head that stores no row.",
    fix="Use K/V heads 0 to kv_heads - 1.",
)
UNREAD_HEAD = Diagnostic(
    code="cost.kv-head-unread",
    contract="Every stored K/V head is read by at least one query head.",
    why="Its rows would be paid for in every ledger and never attended to; usually the map is wrong.",
    fix="Correct the map, or take the K/V head out of the geometry.",
)
RETENTION_SHAPE = Diagnostic(
    code="cost.retention-shape",
    contract="rows_per_owner has one count for each sequence, layer and K/V head.",
    why="An owner without a count costs nothing on paper, and the counts after it belong to the wrong owner.",
    fix="Write batch lists of layers lists of kv_heads counts.",
)
QUERY_HEADS_STORED = Diagnostic(
    code="cost.query-heads-as-storage",
    contract="Rows are counted for K/V heads, which own them, never for query heads, which read them.",
    why="Under GQA every stored byte would be charged once for each query head of the group: 4 times for 32 over 8.",
    fix="Count one row for each position and K/V head; report query-head demand as demand.",
)
ROWS_ABOVE_COMMITTED = Diagnostic(
    code="cost.rows-above-committed",
    contract="An owner retains at most as many rows as there are committed positions.",
    why="The rows beyond do not exist; capacity is charged for tokens that were never admitted.",
    fix="Count selected positions once each, among the committed ones.",
)
NOTHING_RETAINED = Diagnostic(
    code="cost.nothing-retained",
    contract="At least one owner retains a row.",
    why="An empty view attends to nothing; its cost is that of metadata for no cache at all.",
    fix="Retain rows, or describe a request without a cache.",
)
ROW_BYTES = Diagnostic(
    code="cost.row-bytes-mismatch",
    contract="A stored row has d_h * b_K bytes of key and d_h * b_V bytes of value.",
    why="A forgotten value array halves every payload; a width of another dtype scales it. Admission then overcommits.",
    fix="Take head dimension and scalar widths from the cache that is allocated, for K and V separately.",
)
PADDED_SLOTS = Diagnostic(
    code="cost.padded-slots-short",
    contract="A padded layout has at least as many slots for each owner as the largest owner retains rows.",
    why="The largest owner's last rows have no slot; they overwrite a neighbour or are lost.",
    fix="Pad to the largest owner, or retain fewer rows there.",
)
LIVE_UNMARKED = Diagnostic(
    code="cost.live-slots-unmarked",
    contract="Where slots are empty or rows dead, validity bits or a sentinel position tell them from live ones.",
    why="A kernel cannot tell padding or evicted rows from live ones and attends to them.",
    fix="Give each slot or row a validity bit, or give empty padded slots a sentinel position.",
)
SENTINEL = Diagnostic(
    code="cost.sentinel-is-a-position",
    contract="The sentinel of empty padded slots is no committed position.",
    why="Every empty slot would look like the row of that token.",
    fix="Use a negative sentinel or one past the committed positions.",
)
ENTRY_WIDTH = Diagnostic(
    code="cost.entry-too-narrow",
    contract="Position, offset and index entries are wide enough for every value that they must hold.",
    why="A two-byte position wraps at 65,536: late tokens point at early rows, and the map looks half as large.",
    fix="Widen the entry; four bytes hold every position of a context below 2^32.",
)
RECALL_SCOPE = Diagnostic(
    code="cost.recallable-scope-without-handoff",
    contract="A selector scores recallable rows only where a hand-off can look them up and fetch them.",
    why="It would choose rows that nothing can bring back.",
    fix="Name the hand-off of the recallable rows, or score another scope.",
)
CANDIDATES = Diagnostic(
    code="cost.score-candidates-mismatch",
    contract="The score state has one score for each candidate of its declared scope.",
    why="A selector that claims to reconsider all history but pays for retained rows only understates its state, "
    "which may grow with the context.",
    fix="Count the candidates of the scope, or declare the scope that is really scored.",
)
PROTECTED_BITS = Diagnostic(
    code="cost.protected-bits-short",
    contract="A protected-position bitmap covers every committed position.",
    why="The newest positions have no bit and lose their protection: exactly the rows that decoding needs.",
    fix="Size the bitmap for the committed positions or more.",
)
WORKSPACE_ROWS = Diagnostic(
    code="cost.workspace-rows-short",
    contract="The top-k workspace holds at least the rows that are selected.",
    why="The selector writes past its output buffer, or silently selects fewer rows than the ledgers count.",
    fix="Reserve an entry for each selected row of every owner.",
)
WORKSPACE_BYTES = Diagnostic(
    code="cost.workspace-bytes-mismatch",
    contract="The stated top-k bytes are rows * (score entry + index entry).",
    why="A workspace without its indices, or without its scores, is too small by half at the moment of the peak.",
    fix="Count both entries of every row.",
)
BACKEND_MEASURED = Diagnostic(
    code="cost.backend-workspace-measured",
    contract="An analytic fixture does not call its backend workspace measured.",
    why="Zero here means `not included`; read as a measurement it says that the backend allocates nothing.",
    fix="Set backend_measured to false, and put real allocations into a measurement record.",
)
PEAK_TERM = Diagnostic(
    code="cost.peak-term-missing",
    contract="A transaction peak counts the old live state, the unpublished successor, top-k and backend workspace.",
    why="The old state stays readable until the successor is published; without it the reservation is too small and "
    "the update runs out of memory halfway.",
    fix="Count all four terms; a term that is not included is zero, not absent.",
)
NEW_TOKEN_ROWS = Diagnostic(
    code="cost.new-token-rows-mismatch",
    contract="A newly admitted position adds one row to every sequence, layer and K/V head.",
    why="It is the denominator of both amplifications: too many rows make an update look cheap, too few dear.",
    fix="Count batch * layers * kv_heads rows.",
)
TRAFFIC_ROWS = Diagnostic(
    code="cost.traffic-rows-mismatch",
    contract="A rebuild scans every candidate's score and reads and writes every retained row, once each.",
    why="Traffic that leaves rows out belongs to another algorithm (a ring, stable pages, an incremental heap).",
    fix="Count the candidates and the retained rows of all owners.",
)
CONTEXT_ORDER = Diagnostic(
    code="cost.context-lengths-order",
    contract="Context lengths ascend and none is given twice.",
    why="A table of cost over context that repeats or jumps back is read as a trend that is not there.",
    fix="Sort the lengths and remove repetitions.",
)
LAST_PREFIX = Diagnostic(
    code="cost.trajectory-length-mismatch",
    contract="The last of G decode steps reads a prefix of T_0 + G - 1 rows.",
    why="Off by one over every step, the cumulative read is wrong by G rows of every layer.",
    fix="The first step reads T_0 rows, and each step after it one more.",
)
CONTEXT_EXCEEDED = Diagnostic(
    code="cost.decode-exceeds-context",
    contract="The decode trajectory stays within the largest context length of its shape.",
    why="The steps beyond cannot run; their reads are no cost of this model.",
    fix="Generate fewer tokens, start earlier, or give the context length that the model really has.",
)
BOUND_NEVER_BINDS = Diagnostic(
    code="cost.bound-never-binds",
    contract="The bound is no larger than the longest prefix that the trajectory reads.",
    why="Such a policy never omits a row: its reduction is that of the full cache against itself.",
    fix="Lower the bound, or decode long enough to reach it.",
)
FALLBACK_ROWS = Diagnostic(
    code="cost.fallback-rows-mismatch",
    contract="Every omitted row has exactly one of the four fallback modes.",
    why="A row without a mode is silently irrecoverable; a row with two is paid for twice or trusted twice.",
    fix="Divide the omitted rows (committed minus retained) among the modes.",
)
FALLBACK_OWNER = Diagnostic(
    code="cost.fallback-owner",
    contract="Each mode belongs to the subsystem that can supply it.",
    why="The policy declares a fallback and the subsystem that must serve it has reserved nothing.",
    fix="Policy accepts absence, scheduler recomputes, recall fetches, allocator reserves a full cache.",
)
FALLBACK_NEED = Diagnostic(
    code="cost.fallback-need-missing",
    contract="A mode that has rows names its need: quality contract, source and model path, hand-off, or requests.",
    why="Without it the fallback exists in the policy's description only; on the day it is used, it fails.",
    fix="Name the need, or call the rows irrecoverable under a quality contract.",
)
FALLBACK_SOURCE = Diagnostic(
    code="cost.fallback-source-short",
    contract="Recomputation has the source tokens of the whole committed prefix.",
    why="A K/V row depends on every token before it; from a shortened prompt other rows come out.",
    fix="Keep the source tokens of every committed position, or call the rows irrecoverable.",
)
FALLBACK_CAPACITY = Diagnostic(
    code="cost.fallback-capacity-short",
    contract="A full-cache fallback reserves the full payload of each request of the batch that may use it.",
    why="The request that abandons the lossy path has nowhere to put its full cache, at the moment of highest load.",
    fix="Reserve the full payload of every such request, or allow the fallback to fewer requests.",
)
ATTENTION_SHAPE = Diagnostic(
    code="cost.attention-shape",
    contract="An attention case has one value row for each candidate, all of one width.",
    why="A score without its value, or a value of another width, gives an output that no attention computes.",
    fix="Give each candidate one value row of the head's width.",
)
NUMBER_RANGE = Diagnostic(
    code="cost.attention-number-range",
    contract="A score or value has at most 30 decimal places, and a logit lies within 200 of the largest one.",
    why="Beyond that a mass or an error leaves the range of binary64 and would be reported as exactly zero.",
    fix="Round or scale the numbers; leave out a logit whose row has no mass that anybody could measure.",
)
NEGATIVE_PROBABILITY = Diagnostic(
    code="cost.negative-probability",
    contract="A dense probability is not negative.",
    why="Retained mass could exceed one, and dropping a row would seem to add mass.",
    fix="Give probabilities, or declare the numbers as logits.",
)
PROBABILITY_SUM = Diagnostic(
    code="cost.probability-sum",
    contract="Dense probabilities sum to exactly one.",
    why="Retained and omitted mass have no common denominator otherwise.",
    fix="Give all probabilities with all their digits, or give the logits.",
)
TOP_K_RANGE = Diagnostic(
    code="cost.top-k-above-candidates",
    contract="top_k is at most the number of candidates.",
    why="The recall of rows that do not exist can never be one.",
    fix="Lower top_k, or give all candidates.",
)
SELECTED_RANGE = Diagnostic(
    code="cost.selected-position-out-of-range",
    contract="A selection names candidates of its case.",
    why="There is no dense probability to retain there.",
    fix="Use positions 0 to n - 1.",
)
SELECTED_TWICE = Diagnostic(
    code="cost.selected-position-twice",
    contract="A selection names a position once.",
    why="Its mass would count twice; retained mass can then exceed one.",
    fix="Remove the repetition.",
)
NO_MASS = Diagnostic(
    code="cost.no-retained-mass",
    contract="A selection retains some dense probability.",
    why="Renormalising divides by the retained mass: with none, a kernel returns NaN.",
    fix="Keep at least one row with a probability above zero.",
)
DRIFT = Diagnostic(
    code="cost.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix="Find out which of the two is wrong; if the fixture's inputs are right, "
    "run `kvaudit regenerate --redeclare` and review the difference.",
)

DIAGNOSTICS = (
    RECEIPT_DIGEST,
    HEAD_MAP_LENGTH,
    HEAD_MAP_RANGE,
    UNREAD_HEAD,
    RETENTION_SHAPE,
    QUERY_HEADS_STORED,
    ROWS_ABOVE_COMMITTED,
    NOTHING_RETAINED,
    ROW_BYTES,
    PADDED_SLOTS,
    LIVE_UNMARKED,
    SENTINEL,
    ENTRY_WIDTH,
    RECALL_SCOPE,
    CANDIDATES,
    PROTECTED_BITS,
    WORKSPACE_ROWS,
    WORKSPACE_BYTES,
    BACKEND_MEASURED,
    PEAK_TERM,
    NEW_TOKEN_ROWS,
    TRAFFIC_ROWS,
    CONTEXT_ORDER,
    LAST_PREFIX,
    CONTEXT_EXCEEDED,
    BOUND_NEVER_BINDS,
    FALLBACK_ROWS,
    FALLBACK_OWNER,
    FALLBACK_NEED,
    FALLBACK_SOURCE,
    FALLBACK_CAPACITY,
    ATTENTION_SHAPE,
    NUMBER_RANGE,
    NEGATIVE_PROBABILITY,
    PROBABILITY_SUM,
    TOP_K_RANGE,
    SELECTED_RANGE,
    SELECTED_TWICE,
    NO_MASS,
    DRIFT,
)


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a cost fixture, or raise the first `ContractViolation` in the order given above."""
    _judge_receipt(fixture)
    _judge_head_map(fixture["geometry"])
    _judge_retention(fixture)
    _judge_row_bytes(fixture)
    _judge_layouts(fixture)
    _judge_policy_state(fixture)
    _judge_workspace(fixture)
    _judge_update_traffic(fixture)
    _judge_decode(fixture)
    _judge_fallback(fixture)
    for name, case in fixture["attention"].items():
        _judge_attention(case, pointer("attention", name))
    return _evidence(fixture)


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture with the digests of its geometry and of its retained counts recomputed in the receipt."""
    return {**fixture, "receipt": {**fixture["receipt"], **_receipt_digests(fixture)}}


def _receipt_digests(fixture: Document) -> dict[str, str]:
    return {
        "geometry_sha256": canonical_sha256(fixture["geometry"]),
        "retention_sha256": canonical_sha256(fixture["retention"]),
    }


def _judge_receipt(fixture: Document) -> None:
    for name, recomputed in _receipt_digests(fixture).items():
        _require(RECEIPT_DIGEST, recomputed, fixture["receipt"][name], pointer("receipt", name))


def _judge_head_map(geometry: Document) -> None:
    head_map, where = geometry["q_to_kv_head_map"], pointer("geometry", "q_to_kv_head_map")
    if len(head_map) != geometry["query_heads"]:
        reason = f"expected {geometry['query_heads']} entries, found {len(head_map)}"
        raise ContractViolation(HEAD_MAP_LENGTH, where, reason)
    for query_head, kv_head in enumerate(head_map):
        if kv_head >= geometry["kv_heads"]:
            reason = f"expected a K/V head below {geometry['kv_heads']} for query head {query_head}, found {kv_head}"
            raise ContractViolation(HEAD_MAP_RANGE, where + pointer(query_head), reason)
    # All entries lie in range, so that a head is missing exactly when there are fewer different entries than heads.
    read = set(head_map)
    if len(read) < geometry["kv_heads"]:
        unread = next(kv_head for kv_head in range(len(read) + 1) if kv_head not in read)
        raise ContractViolation(UNREAD_HEAD, where, f"expected a query head for K/V head {unread}, found none")


def _judge_retention(fixture: Document) -> None:
    geometry, rows = fixture["geometry"], fixture["retention"]["rows_per_owner"]
    where = pointer("retention", "rows_per_owner")
    _require_length(rows, geometry["batch"], "sequences", where)
    for sequence, per_layer in enumerate(rows):
        _require_length(per_layer, geometry["layers"], "layers", where + pointer(sequence))
        for layer, counts in enumerate(per_layer):
            place = where + pointer(sequence, layer)
            if len(counts) == geometry["query_heads"] != geometry["kv_heads"]:
                reason = f"expected {geometry['kv_heads']} K/V heads, found the {len(counts)} query heads"
                raise ContractViolation(QUERY_HEADS_STORED, place, reason)
            _require_length(counts, geometry["kv_heads"], "K/V heads", place)
            for kv_head, count in enumerate(counts):
                if count > geometry["positions"]:
                    reason = f"expected at most the {geometry['positions']} committed positions, found {count} rows"
                    raise ContractViolation(ROWS_ABOVE_COMMITTED, place + pointer(kv_head), reason)
    if _retained_rows(fixture) == 0:
        raise ContractViolation(NOTHING_RETAINED, where, "expected at least one retained row, found none")


def _judge_row_bytes(fixture: Document) -> None:
    geometry, stated = fixture["geometry"], fixture["row_bytes"]
    for name in ("key", "value"):
        expected = geometry["head_dimension"] * geometry[f"{name}_scalar_bytes"]
        _require(ROW_BYTES, expected, stated[name], pointer("row_bytes", name), f"bytes for a {name} row")


def _judge_layouts(fixture: Document) -> None:
    ragged, padded = fixture["layouts"]["ragged"], fixture["layouts"]["padded"]
    positions, largest, where = fixture["geometry"]["positions"], _largest_owner(fixture), pointer("layouts")
    if padded["slots_per_owner"] < largest:
        reason = f"expected at least the {largest} rows of the largest owner, found {padded['slots_per_owner']} slots"
        raise ContractViolation(PADDED_SLOTS, where + "/padded/slots_per_owner", reason)
    sentinel = padded["position_sentinel"]
    empty_slots = _geometry(fixture).owners() * padded["slots_per_owner"] - _retained_rows(fixture)
    if empty_slots and sentinel is None and padded["validity_bits_per_slot"] == 0:
        reason = f"expected validity bits or a position sentinel for {empty_slots} empty slots, found neither"
        raise ContractViolation(LIVE_UNMARKED, where + "/padded/validity_bits_per_slot", reason)
    if _omitted_rows(fixture) and fixture["layouts"]["tombstone"]["validity_bits_per_row"] == 0:
        reason = f"expected validity bits for {_omitted_rows(fixture)} dead rows, found none"
        raise ContractViolation(LIVE_UNMARKED, where + "/tombstone/validity_bits_per_row", reason)
    if sentinel is not None and 0 <= sentinel < positions:
        reason = f"expected no position in [0, {positions}), found {sentinel}"
        raise ContractViolation(SENTINEL, where + "/padded/position_sentinel", reason)
    mark = 0 if sentinel is None else sentinel
    longest_view = max(sum(map(sum, layers)) for layers in fixture["retention"]["rows_per_owner"])
    _require_entry(ragged, "position_entry_bytes", 0, positions - 1, where + "/ragged")
    _require_entry(ragged, "offset_entry_bytes", 0, longest_view, where + "/ragged")
    _require_entry(padded, "position_entry_bytes", min(0, mark), max(positions - 1, mark), where + "/padded")
    _require_entry(fixture["workspace"], "topk_index_entry_bytes", 0, positions - 1, pointer("workspace"))


def _judge_policy_state(fixture: Document) -> None:
    score, protected = fixture["score_state"], fixture["protected_state"]
    if score["scope"] == layouts.RECALLABLE_ROWS and fixture["fallback"][fallback.RECALLABLE]["handoff_id"] is None:
        reason = "recallable rows are scored; expected a hand-off that fetches them, found null"
        raise ContractViolation(RECALL_SCOPE, pointer("score_state", "scope"), reason)
    candidates = _candidates(fixture, score["scope"])
    if score["candidates"] != candidates:
        reason = f"expected {candidates} candidates of the scope {score['scope']}, found {score['candidates']}"
        raise ContractViolation(CANDIDATES, pointer("score_state", "candidates"), reason)
    committed = fixture["geometry"]["positions"]
    if protected["encoding"] != "none" and protected["positions"] < committed:
        reason = f"expected bits for at least {committed} positions, found {protected['positions']}"
        raise ContractViolation(PROTECTED_BITS, pointer("protected_state", "positions"), reason)


def _judge_workspace(fixture: Document) -> None:
    workspace, where = fixture["workspace"], pointer("workspace")
    retained = _retained_rows(fixture)
    if workspace["topk_rows"] < retained:
        reason = f"expected room for at least {retained} selected rows, found {workspace['topk_rows']}"
        raise ContractViolation(WORKSPACE_ROWS, where + "/topk_rows", reason)
    _require(WORKSPACE_BYTES, _topk_bytes(workspace), workspace["topk_bytes"], where + "/topk_bytes", "bytes")
    if workspace["backend_measured"]:
        reason = "expected false: this fixture is analytic and measures nothing; found true"
        raise ContractViolation(BACKEND_MEASURED, where + "/backend_measured", reason)
    for name in TRANSACTIONS:
        counted = fixture["transactions"][name]["counted_terms"]
        for term in PEAK_TERMS:
            if term not in counted:
                reason = f"expected the term {term}, found only {joined(counted)}"
                raise ContractViolation(PEAK_TERM, pointer("transactions", name, "counted_terms"), reason)


def _judge_update_traffic(fixture: Document) -> None:
    stated, where = fixture["update_traffic"], pointer("update_traffic")
    retained = _retained_rows(fixture)
    owners, new_rows = _geometry(fixture).owners(), stated["new_token_rows"]
    _require(NEW_TOKEN_ROWS, owners, new_rows, where + "/new_token_rows", "rows, one for each K/V head")
    expected = {
        "score_candidates_read": fixture["score_state"]["candidates"],
        "selected_rows_read": retained,
        "selected_rows_written": retained,
    }
    for name, rows in expected.items():
        _require(TRAFFIC_ROWS, rows, stated[name], where + pointer(name), "rows")


def _judge_decode(fixture: Document) -> None:
    lengths, decode = fixture["running_shape"]["context_lengths"], fixture["decode"]
    for index in range(1, len(lengths)):
        if lengths[index] <= lengths[index - 1]:
            reason = f"expected a length above {lengths[index - 1]}, found {lengths[index]}"
            raise ContractViolation(CONTEXT_ORDER, pointer("running_shape", "context_lengths", index), reason)
    last = decode["initial_rows"] + decode["generated_tokens"] - 1
    _require(LAST_PREFIX, last, decode["last_prefix_rows"], pointer("decode", "last_prefix_rows"), "rows")
    if last > lengths[-1]:
        reason = f"expected a last prefix of at most {lengths[-1]} rows, found {last}"
        raise ContractViolation(CONTEXT_EXCEEDED, pointer("decode", "generated_tokens"), reason)
    if decode["bounded_rows"] > last:
        reason = f"expected at most {last} rows, the longest prefix; found a bound of {decode['bounded_rows']}"
        raise ContractViolation(BOUND_NEVER_BINDS, pointer("decode", "bounded_rows"), reason)


def _judge_fallback(fixture: Document) -> None:
    modes, geometry = fixture["fallback"], fixture["geometry"]
    where = pointer("fallback")
    rows, omitted = sum(mode["rows"] for mode in modes.values()), _omitted_rows(fixture)
    if rows != omitted:
        raise ContractViolation(FALLBACK_ROWS, where, f"expected modes for {omitted} omitted rows, found {rows}")
    for name, owner in fallback.OWNERS.items():
        mode = modes[name]
        _require(FALLBACK_OWNER, owner, mode["owner"], where + pointer(name, "owner"), f"to own {name}")
        for need, meaning in FALLBACK_NEEDS[name].items():
            if mode["rows"] and not mode[need]:
                reason = f"{mode['rows']} rows are {name}: expected {meaning}, found none"
                raise ContractViolation(FALLBACK_NEED, where + pointer(name, need), reason)
    recompute, full = modes[fallback.RECOMPUTABLE], modes[fallback.FULL_CACHE]
    if recompute["rows"] and recompute["source_tokens_per_sequence"] < geometry["positions"]:
        place = where + pointer(fallback.RECOMPUTABLE, "source_tokens_per_sequence")
        reason = f"expected all {geometry['positions']} tokens, found {recompute['source_tokens_per_sequence']}"
        raise ContractViolation(FALLBACK_SOURCE, place, reason)
    if full["reserved_requests"] > geometry["batch"]:
        reason = f"expected at most the {geometry['batch']} requests of the batch, found {full['reserved_requests']}"
        raise ContractViolation(FALLBACK_CAPACITY, where + pointer(fallback.FULL_CACHE, "reserved_requests"), reason)
    required = full["reserved_requests"] * _request_payload_bytes(fixture)
    if full["reserved_capacity_bytes"] < required:
        place = where + pointer(fallback.FULL_CACHE, "reserved_capacity_bytes")
        reason = f"expected at least {required} bytes, found {full['reserved_capacity_bytes']}"
        raise ContractViolation(FALLBACK_CAPACITY, place, reason)


def _judge_attention(case: Document, where: str) -> None:
    scores, values = case["scores"], case["values"]
    if len(values) != len(scores):
        reason = f"expected {len(scores)} value rows, found {len(values)}"
        raise ContractViolation(ATTENTION_SHAPE, where + "/values", reason)
    for row, channels in enumerate(values):
        if len(channels) != len(values[0]):
            reason = f"expected {len(values[0])} channels as in row 0, found {len(channels)}"
            raise ContractViolation(ATTENTION_SHAPE, where + pointer("values", row), reason)
        for channel, number in enumerate(channels):
            _require_decimal(number, where + pointer("values", row, channel))
    for position, number in enumerate(scores):
        _require_decimal(number, where + pointer("scores", position))
    if case["given_as"] == "probabilities":
        _judge_probabilities(scores, where + "/scores")
    else:
        _judge_logits(scores, where + "/scores")
    if case["top_k"] > len(scores):
        reason = f"expected at most {len(scores)} candidates, found top_k {case['top_k']}"
        raise ContractViolation(TOP_K_RANGE, where + "/top_k", reason)
    probabilities = _probabilities(case)
    for name, selected in case["selections"].items():
        _judge_selected(selected, probabilities, where + pointer("selections", name))


def _judge_probabilities(scores: Sequence[attention.Number], where: str) -> None:
    for position, probability in enumerate(scores):
        if probability < 0:
            reason = f"expected at least 0, found {float(probability)}"
            raise ContractViolation(NEGATIVE_PROBABILITY, where + pointer(position), reason)
    total = sum(scores)
    if total != 1:
        reason = f"expected a sum of exactly 1, found {float(total)}, off by {float(total - 1)}"
        raise ContractViolation(PROBABILITY_SUM, where, reason)


def _judge_logits(scores: Sequence[attention.Number], where: str) -> None:
    largest = max(scores)
    for position, logit in enumerate(scores):
        if largest - logit > WIDEST_LOGIT_GAP:
            reason = f"expected a logit within {WIDEST_LOGIT_GAP} of {float(largest)}, found {float(logit)}"
            raise ContractViolation(NUMBER_RANGE, where + pointer(position), reason)


def _judge_selected(selected: list[int], probabilities: Sequence[Fraction], where: str) -> None:
    seen: set[int] = set()
    for index, position in enumerate(selected):
        if position >= len(probabilities):
            reason = f"expected a position below {len(probabilities)}, found {position}"
            raise ContractViolation(SELECTED_RANGE, where + pointer(index), reason)
        if position in seen:
            raise ContractViolation(SELECTED_TWICE, where + pointer(index), f"position {position} is selected twice")
        seen.add(position)
    if attention.retained_mass(probabilities, selected) == 0:
        reason = f"expected some dense probability, found none in {joined(selected)}"
        raise ContractViolation(NO_MASS, where, reason)


def _evidence(fixture: Document) -> Evidence:
    states = _states(fixture)
    results = _results(fixture, states)
    return Evidence(
        results=results,
        ledgers=(
            *_state_ledgers(fixture, states),
            *_update_ledgers(fixture, results),
            *_read_ledgers(results),
        ),
        snapshots=(
            Snapshot(
                policy="accounting receipt",
                step="publication",
                owner="all sequences, layers and K/V heads",
                state_generation=None,
                cache_generation=None,
                selected_original_positions=None,
                selected_row_count=_retained_rows(fixture),
                published=False,
            ),
        ),
        comparisons=(
            Comparison(
                "layout_total_bytes",
                "B",
                "one selection with the same score state, protected bits and receipt",
                ("ragged_total", "padded_total", "tombstone_total"),
            ),
            Comparison(
                "transaction_peak_bytes",
                "B",
                "one ragged successor, one workspace; the live full state is the bare payload",
                ("peak_full_to_ragged", "peak_ragged_to_ragged"),
            ),
            Comparison(
                "cumulative_decode_read_bytes",
                "B",
                "one running shape and one trajectory, logical K/V reads only",
                ("cumulative_full_read", "cumulative_bounded_read"),
            ),
        ),
    )


def _state_ledgers(fixture: Document, states: Mapping[str, layouts.StateBytes]) -> tuple[LedgerRow, ...]:
    shared = {
        "score_state": "candidates * score entry_bytes",
        "protected_bits": "ceil(protected bits / 8)",
        "receipt": "receipt bytes",
    }
    # The terms that exist in each layout; the others are zero by the layout's definition.
    formulas = {
        "ragged": {
            "payload": "R_total * d_h * (b_K + b_V)",
            "position_map": "R_total * position_entry_bytes",
            "offsets": _OFFSET_FORMULAS[fixture["layouts"]["ragged"]["offset_convention"]],
            **shared,
        },
        "padded": {
            "payload": "B * L * H_kv * slots_per_owner * d_h * (b_K + b_V)",
            "position_map": "B * L * H_kv * slots_per_owner * position_entry_bytes",
            "validity": "ceil(B * L * H_kv * slots_per_owner * validity_bits_per_slot / 8)",
            **shared,
        },
        "tombstone": {
            "payload": "B * L * H_kv * T * d_h * (b_K + b_V)",
            "validity": "ceil(B * L * H_kv * T * validity_bits_per_row / 8)",
            **shared,
        },
    }
    rows = [LedgerRow("full_payload", states["full"].payload, "B", "B * L * H_kv * T * d_h * (b_K + b_V)")]
    for layout, terms in formulas.items():
        values = states[layout].terms()
        rows.extend(LedgerRow(f"{layout}_{term}", values[term], "B", formula) for term, formula in terms.items())
        rows.append(LedgerRow(f"{layout}_total", states[layout].total(), "B", " + ".join(terms)))
    return tuple(rows)


def _update_ledgers(fixture: Document, results: Document) -> tuple[LedgerRow, ...]:
    workspace, update, peaks = fixture["workspace"], results["update_traffic"], results["transactions"]
    publication = "score_scan_read + selected_payload_read + persistent_write"
    rows = {
        "topk_workspace": (_topk_bytes(workspace), "topk_rows * (score entry + index entry)"),
        "backend_workspace": (workspace["backend_bytes"], "declared, not measured; 0 means not included"),
        "peak_full_to_ragged": (peaks["full_to_ragged"]["peak_bytes"], _peak_formula("full_payload")),
        "peak_ragged_to_ragged": (peaks["ragged_to_ragged"]["peak_bytes"], _peak_formula("ragged_total")),
        "score_scan_read": (update["score_scan_bytes"], "score_candidates_read * score entry_bytes"),
        "selected_payload_read": (update["selected_read_bytes"], "selected_rows_read * d_h * (b_K + b_V)"),
        "persistent_write": (update["persistent_write_bytes"], "ragged_total"),
        "publication_traffic": (update["publication_bytes"], publication),
    }
    return tuple(LedgerRow(name, value, "B", formula) for name, (value, formula) in rows.items())


def _peak_formula(live: str) -> str:
    return f"{live} + ragged_total + topk_workspace + backend_workspace"


def _read_ledgers(results: Document) -> tuple[LedgerRow, ...]:
    reads, decode = results["reads"], results["decode"]
    expanded = "sum over b, l, q of K[b, l, head map(q)] * d_h * (b_K + b_V)"
    full = "running token bytes * (G * T_0 + G * (G - 1) / 2)"
    bounded = "running token bytes * sum over g of min(bounded_rows, T_0 + g)"
    rows = {
        "unique_read_per_query_step": (reads["unique_bytes"], "R_total * d_h * (b_K + b_V)"),
        "query_expanded_demand": (reads["query_expanded_bytes"], expanded),
        "cumulative_full_read": (decode["full_read_bytes"], full),
        "cumulative_bounded_read": (decode["bounded_read_bytes"], bounded),
    }
    return tuple(LedgerRow(name, value, "B", formula) for name, (value, formula) in rows.items())


def _results(fixture: Document, states: Mapping[str, layouts.StateBytes]) -> Document:
    geometry = _geometry(fixture)
    return {
        "geometry": {
            "batch": geometry.batch,
            "layers": geometry.layers,
            "query_heads": fixture["geometry"]["query_heads"],
            "kv_heads": geometry.kv_heads,
            "positions": fixture["geometry"]["positions"],
            "head_dimension": geometry.head_dimension,
            "owners": geometry.owners(),
            "row_bytes": geometry.row_bytes(),
            "token_bytes": geometry.token_bytes(),
        },
        "retention": {
            "rows_per_owner": summarised(fixture["retention"]["rows_per_owner"]),
            "committed_rows": _committed_rows(fixture),
            "retained_rows": _retained_rows(fixture),
            "omitted_rows": _omitted_rows(fixture),
            "largest_owner_rows": _largest_owner(fixture),
        },
        "layouts": {
            name: {
                "row_slots": state.row_slots,
                "terms": dict(state.terms()),
                "metadata_bytes": state.metadata(),
                "total_bytes": state.total(),
            }
            for name, state in states.items()
        },
        "padding_efficiency": layouts.padding_efficiency(_retained_rows(fixture), states["padded"].row_slots),
        "score_scopes": _score_scopes(fixture),
        "transactions": _transactions(fixture, states),
        "update_traffic": _update_traffic(fixture, states["ragged"]),
        "reads": _reads(fixture),
        "running_shape": _running_shape(fixture),
        "decode": _decode(fixture),
        "fallback": {mode: _fallback(fixture, mode) for mode in fallback.MODES},
        "attention": {name: _attention_results(case) for name, case in fixture["attention"].items()},
    }


def _score_scopes(fixture: Document) -> Document:
    """Return what each scope would cost, and how many omitted rows the selector could still reconsider under it."""
    score = fixture["score_state"]
    scopes = {}
    for scope in layouts.SCORE_SCOPES:
        candidates = _candidates(fixture, scope)
        scopes[scope] = {
            "declared": scope == score["scope"],
            "candidates": candidates,
            "score_bytes": candidates * score["entry_bytes"],
            "omitted_rows_reconsidered": candidates - _retained_rows(fixture),
        }
    return scopes


def _transactions(fixture: Document, states: Mapping[str, layouts.StateBytes]) -> Document:
    workspace, topk = fixture["workspace"], _topk_bytes(fixture["workspace"])
    transactions = {}
    for name, (live, successor) in TRANSACTIONS.items():
        before, after = states[live].total(), states[successor].total()
        transactions[name] = {
            "live_layout": live,
            "successor_layout": successor,
            "live_bytes": before,
            "unpublished_bytes": after,
            "topk_bytes": topk,
            "backend_bytes": workspace["backend_bytes"],
            "backend_measured": workspace["backend_measured"],
            "peak_bytes": traffic.transaction_peak_bytes(before, after, topk, workspace["backend_bytes"]),
        }
    return transactions


def _update_traffic(fixture: Document, successor: layouts.StateBytes) -> Document:
    stated, row = fixture["update_traffic"], _geometry(fixture).row_bytes()
    scan = stated["score_candidates_read"] * fixture["score_state"]["entry_bytes"]
    read, write = stated["selected_rows_read"] * row, stated["selected_rows_written"] * row
    new_token = stated["new_token_rows"] * row
    publication = traffic.publication_bytes(scan, read, successor.total())
    return {
        "scheme": stated["scheme"],
        "score_scan_bytes": scan,
        "selected_read_bytes": read,
        "selected_write_bytes": write,
        "persistent_write_bytes": successor.total(),
        "publication_bytes": publication,
        "new_token_bytes": new_token,
        "compaction_amplification": traffic.amplification(read + write, new_token),
        "publication_amplification": traffic.amplification(publication, new_token),
    }


def _reads(fixture: Document) -> Document:
    """Return what one query step reads: each stored row once, and once for each query head that maps to it."""
    rows, row_bytes = fixture["retention"]["rows_per_owner"], _geometry(fixture).row_bytes()
    unique = _retained_rows(fixture)
    expanded = traffic.query_expanded_rows(rows, fixture["geometry"]["q_to_kv_head_map"])
    return {
        "unique_rows": unique,
        "unique_bytes": unique * row_bytes,
        "query_expanded_rows": expanded,
        "query_expanded_bytes": expanded * row_bytes,
        "query_expansion": Fraction(expanded, unique),
    }


def _running_shape(fixture: Document) -> Document:
    """Return the payload of the running shape over its contexts, beside two score states: of all rows, and bounded.

    The first score state grows with the history although the visible rows of a bounded policy do not.
    """
    geometry, bound = _running_geometry(fixture), fixture["decode"]["bounded_rows"]
    score_of_a_position = geometry.owners() * fixture["score_state"]["entry_bytes"]
    return {
        "row_bytes": geometry.row_bytes(),
        "token_bytes": geometry.token_bytes(),
        "token_kib": Fraction(geometry.token_bytes(), KIB),
        "contexts": [
            {
                "positions": positions,
                "full_payload_bytes": geometry.full_payload_bytes(positions),
                "full_payload_gib": Fraction(geometry.full_payload_bytes(positions), GIB),
                "bounded_payload_bytes": geometry.full_payload_bytes(min(bound, positions)),
                "score_bytes_of_every_committed_position": positions * score_of_a_position,
                "score_bytes_of_bounded_rows": min(bound, positions) * score_of_a_position,
            }
            for positions in fixture["running_shape"]["context_lengths"]
        ],
    }


def _decode(fixture: Document) -> Document:
    decode, token = fixture["decode"], _running_geometry(fixture).token_bytes()
    initial, steps, bound = decode["initial_rows"], decode["generated_tokens"], decode["bounded_rows"]
    full_rows = traffic.cumulative_full_rows(initial, steps)
    bounded_rows = traffic.cumulative_bounded_rows(initial, steps, bound)
    return {
        "initial_rows": initial,
        "generated_tokens": steps,
        "last_prefix_rows": decode["last_prefix_rows"],
        "bounded_rows": bound,
        "steps_below_bound": traffic.steps_below_bound(initial, steps, bound),
        "full_row_time_instances": full_rows,
        "full_read_bytes": full_rows * token,
        "full_read_tib": Fraction(full_rows * token, TIB),
        "bounded_row_time_instances": bounded_rows,
        "bounded_read_bytes": bounded_rows * token,
        "bounded_read_gib": Fraction(bounded_rows * token, GIB),
        "reduction_ratio": Fraction(full_rows, bounded_rows),
    }


def _fallback(fixture: Document, mode: str) -> Document:
    """Return a mode's rows, owner and needs, and the capacity, movement and recomputation that its use takes.

    Rebuilt rows take room where they are rebuilt, recallable rows where they wait, a full-cache fallback the full
    payload of each request that may use it; an accepted absence takes none. Nothing here is policy state, and none of
    it was executed.
    """
    geometry, stated = fixture["geometry"], fixture["fallback"][mode]
    payload = stated["rows"] * _geometry(fixture).row_bytes()
    capacity, moved, token_layers, causal_pairs = 0, 0, 0, 0
    if mode == fallback.RECOMPUTABLE and stated["rows"]:
        shape = geometry["batch"], geometry["positions"], geometry["layers"]
        capacity = payload
        token_layers = fallback.recomputed_token_layers(*shape)
        causal_pairs = fallback.recomputed_causal_pairs(*shape, geometry["query_heads"])
    elif mode == fallback.RECALLABLE:
        capacity = moved = payload
    elif mode == fallback.FULL_CACHE:
        capacity = stated["reserved_requests"] * _request_payload_bytes(fixture)
    return {
        "rows": stated["rows"],
        "payload_bytes": payload,
        "owner": stated["owner"],
        "needs": {need: stated[need] for need in FALLBACK_NEEDS[mode]},
        "capacity_bytes": capacity,
        "moved_bytes": moved,
        "recomputed_token_layers": token_layers,
        "recomputed_causal_pairs": causal_pairs,
    }


def _attention_results(case: Document) -> Document:
    values, selections = case["values"], case["selections"]
    probabilities, top = _probabilities(case), attention.top_k(case["scores"], case["top_k"])
    dense = attention.output(probabilities, values)
    dense_norm = attention.norm(dense)
    masses, errors, reported = {}, {}, {}
    for name, selected in selections.items():
        masses[name] = attention.retained_mass(probabilities, selected)
        renormalised = attention.renormalised(probabilities, selected)
        output = attention.output(renormalised, [values[position] for position in selected])
        errors[name] = attention.difference(output, dense)
        output_error = attention.norm(errors[name])
        reported[name] = {
            "positions": summarised(selected),
            "retained_mass": masses[name],
            "omitted_mass": 1 - masses[name],
            "renormalised_probabilities": summarised(renormalised),
            "output": summarised(output),
            "output_error": output_error,
            "relative_error": attention.relative_error(output_error, dense_norm),
            "top_k_recall": attention.recall(selected, top),
        }
    return {
        "given_as": case["given_as"],
        "candidates": len(probabilities),
        "dense_probabilities": summarised(probabilities),
        "values": summarised(values),
        "zero_value_positions": summarised([row for row, channels in enumerate(values) if not any(channels)]),
        "dense_output": summarised(dense),
        "dense_output_norm": dense_norm,
        "oracle_top_k": summarised(top),
        "selections": reported,
        "more_mass_and_more_error": _disagreeing_pairs(masses, errors),
    }


def _disagreeing_pairs(masses: Mapping[str, Fraction], errors: Mapping[str, Sequence[Fraction]]) -> list[list[str]]:
    """Return the pairs of selections of which the first retains more mass and yet has the larger output error.

    Exact squares are compared, so that equal errors are equal. A pair says nothing about which selector to use.
    """
    squares = {name: attention.squared_norm(error) for name, error in errors.items()}
    pairs = []
    for one, other in combinations(masses, 2):
        more, less = (one, other) if masses[one] > masses[other] else (other, one)
        if masses[more] != masses[less] and squares[more] > squares[less]:
            pairs.append([more, less])
    return pairs


def _probabilities(case: Document) -> tuple[Fraction, ...]:
    if case["given_as"] == "probabilities":
        return tuple(Fraction(probability) for probability in case["scores"])
    return attention.softmax(case["scores"])


def _states(fixture: Document) -> dict[str, layouts.StateBytes]:
    """Return the four layouts of the fixture, each as bytes by term."""
    geometry, positions = _geometry(fixture), fixture["geometry"]["positions"]
    score, stated = fixture["score_state"], fixture["layouts"]
    policy = layouts.PolicyBytes(
        score_state=score["candidates"] * score["entry_bytes"],
        protected_bits=layouts.bitmap_bytes(_protected_bits(fixture)),
        receipt=fixture["receipt"]["bytes"],
    )
    ragged, padded, tombstone = stated["ragged"], stated["padded"], stated["tombstone"]
    return {
        "full": layouts.full(geometry, positions),
        "ragged": layouts.ragged(geometry, _retained_rows(fixture), policy, **ragged),
        "padded": layouts.padded(
            geometry,
            padded["slots_per_owner"],
            policy,
            position_entry_bytes=padded["position_entry_bytes"],
            validity_bits_per_slot=padded["validity_bits_per_slot"],
        ),
        "tombstone": layouts.tombstone(geometry, positions, policy, **tombstone),
    }


def _protected_bits(fixture: Document) -> int:
    protected, geometry = fixture["protected_state"], _geometry(fixture)
    positions: int = protected["positions"]
    bitmaps = {"none": 0, "shared_by_owners": geometry.batch, "per_owner": geometry.owners()}[protected["encoding"]]
    return bitmaps * positions


def _geometry(fixture: Document) -> Geometry:
    return _shape(fixture["geometry"])


def _running_geometry(fixture: Document) -> Geometry:
    return _shape(fixture["running_shape"])


def _shape(stated: Document) -> Geometry:
    return Geometry(
        batch=stated["batch"],
        layers=stated["layers"],
        kv_heads=stated["kv_heads"],
        head_dimension=stated["head_dimension"],
        key_scalar_bytes=stated["key_scalar_bytes"],
        value_scalar_bytes=stated["value_scalar_bytes"],
    )


def _counts(fixture: Document) -> list[int]:
    """Return the retained rows of every owner, one behind the other."""
    return [count for layers in fixture["retention"]["rows_per_owner"] for counts in layers for count in counts]


def _retained_rows(fixture: Document) -> int:
    return sum(_counts(fixture))


def _largest_owner(fixture: Document) -> int:
    return max(_counts(fixture))


def _committed_rows(fixture: Document) -> int:
    positions: int = fixture["geometry"]["positions"]
    return _geometry(fixture).owners() * positions


def _omitted_rows(fixture: Document) -> int:
    return _committed_rows(fixture) - _retained_rows(fixture)


def _candidates(fixture: Document, scope: str) -> int:
    recallable = fixture["fallback"][fallback.RECALLABLE]["rows"]
    return layouts.score_candidates(scope, _committed_rows(fixture), _retained_rows(fixture), recallable)


def _topk_bytes(workspace: Document) -> int:
    return traffic.topk_workspace_bytes(
        workspace["topk_rows"], workspace["topk_score_entry_bytes"], workspace["topk_index_entry_bytes"]
    )


def _request_payload_bytes(fixture: Document) -> int:
    """Return the full payload of one sequence of the batch."""
    geometry = _geometry(fixture)
    return geometry.full_payload_bytes(fixture["geometry"]["positions"]) // geometry.batch


_OFFSET_FORMULAS = {
    packing.GLOBAL_ROWS_PER_LAYER: "B * L * (H_kv + 1) * offset_entry_bytes",
    packing.FLAT: "B * (L * H_kv + 1) * offset_entry_bytes",
    packing.LAYER_BASE_HEAD_LOCAL: "B * (L + L * (H_kv + 1)) * offset_entry_bytes",
}


def _require(diagnostic: Diagnostic, expected: object, found: object, where: str, what: str = "") -> None:
    if found != expected:
        raise ContractViolation(diagnostic, where, f"expected {expected}{what and ' '}{what}, found {found}")


def _require_length(items: Sequence[Any], expected: int, what: str, where: str) -> None:
    if len(items) != expected:
        raise ContractViolation(RETENTION_SHAPE, where, f"expected {expected} {what}, found {len(items)}")


def _require_entry(record: Document, name: str, smallest: int, largest: int, where: str) -> None:
    if not layouts.integer_fits(record[name], smallest, largest):
        reason = f"expected an entry that holds {smallest} to {largest}, found {record[name]} bytes"
        raise ContractViolation(ENTRY_WIDTH, where + pointer(name), reason)


def _require_decimal(number: attention.Number, where: str) -> None:
    if (number * 10**MOST_DECIMAL_PLACES).denominator != 1:
        reason = f"expected at most {MOST_DECIMAL_PLACES} decimal places, found {float(number)}"
        raise ContractViolation(NUMBER_RANGE, where, reason)


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the layouts by term, the score scopes, the transactions, the fallback modes and the attention cases."""
    results = report["results"]
    terms = next(iter(results["layouts"].values()))["terms"]
    layout_table = Table(
        "Layouts of one selection, bytes by term; full is the bare payload",
        ("layout", "row slots", *(term.replace("_", " ") for term in terms), "total"),
        tuple(
            (name, str(layout["row_slots"]), *_cells(layout["terms"], *terms), str(layout["total_bytes"]))
            for name, layout in results["layouts"].items()
        ),
    )
    scopes = Table(
        "Score state by scope",
        ("scope", "declared", "candidates", "score B", "omitted rows that can be reconsidered"),
        tuple(
            (
                name.replace("_", " "),
                "yes" if scope["declared"] else "no",
                *_cells(scope, "candidates", "score_bytes", "omitted_rows_reconsidered"),
            )
            for name, scope in results["score_scopes"].items()
        ),
    )
    transactions = Table(
        "Transaction peaks; a backend workspace that was not measured is not included",
        ("transaction", "live B", "unpublished B", "top-k B", "backend B", "peak B"),
        tuple(
            (
                name.replace("_", " "),
                *_cells(each, "live_bytes", "unpublished_bytes", "topk_bytes", "backend_bytes", "peak_bytes"),
            )
            for name, each in results["transactions"].items()
        ),
    )
    work = "capacity_bytes", "moved_bytes", "recomputed_token_layers", "recomputed_causal_pairs"
    modes = Table(
        "Fallback modes of the omitted rows",
        ("mode", "owner", "rows", "payload B", "capacity B", "moved B", "token-layers", "causal pairs"),
        tuple(
            (name.replace("_", " "), *_cells(mode, "owner", "rows", "payload_bytes", *work))
            for name, mode in results["fallback"].items()
        ),
    )
    errors = "retained_mass", "omitted_mass", "output_error", "relative_error", "top_k_recall"
    selections = Table(
        "Dense against selected attention, one denominator; local output, not task quality",
        ("case", "selection", "positions", "retained mass", "omitted mass", "output error", "relative error", "recall"),
        tuple(
            (case_name, name, *_cells(selection, "positions", *errors))
            for case_name, case in results["attention"].items()
            for name, selection in case["selections"].items()
        ),
    )
    orders = Table(
        "Retained mass against output error; neither orders the other, and neither is task quality",
        ("case", "candidates", "top-k by dense probability", "more mass and more error", "less of both"),
        tuple(
            (case_name, *_cells(case, "candidates", "oracle_top_k"), *pair)
            for case_name, case in results["attention"].items()
            for pair in case["more_mass_and_more_error"] or [("none", "none")]
        ),
    )
    return layout_table, scopes, transactions, modes, selections, orders


def _cells(record: Mapping[str, Any], *names: str) -> tuple[str, ...]:
    return tuple("none" if record[name] is None else str(record[name]) for name in names)


LOOP = Loop(
    id="loop03_cost",
    command="cost",
    title="policy cost, traffic and local attention error",
    section="0x02",
    fixture_schema="kvaudit.fixture.cost/1",
    report_schema="kvaudit.report.cost/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "identity",
        "dimensions",
        "row counts",
        "padding",
        "scalar widths",
        "score state",
        "GQA ownership",
        "workspace",
        "decode trajectory",
        "attention selections",
        "declared-result drift",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "byte ledgers of four layouts",
            "transaction peaks",
            "logical update and decode traffic",
            "dense and selected attention of small cases",
        ),
        not_executed=(
            "model",
            "any paper's selector",
            "allocator",
            "attention kernel",
            "memory traffic",
            "latency",
            "any fallback",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)
