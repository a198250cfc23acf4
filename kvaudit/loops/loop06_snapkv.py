"""Loop 6, SnapKV prompt compression: one selection after the full prefill, then an append-only decode (0x07, 0x13).

A fixture states what a runtime did: the observation attention that it read, votes, pooled votes and selected positions
of each owner, the compressed view, the compression receipt, the visible generations after each phase, cancelled
attempts, decode appends and prefix-index entries. The oracle derives each of them anew from the attention.

The contracts are judged in the order of `oracle`: head map, policy, capacity branch, phase order, observation,
selection, compressed view, receipt, publication of the layers, cancellations, decode, visible generations, prefix
index, and last the tables of branches, rates and payload claims.

Decided here: an owner is a K/V head under the owner contracts `mean` (shipped) and `max`, and a query head under
`none`, which is the pinned code's repeat_kv before selection; the reduction works on votes, before pooling. A prompt
shorter than the capacity leaves before any budget is formed: it has no observation and no selection, and publishes the
source cache itself. A prompt of exactly the capacity is selected from, and keeps all rows in another order, so it is no
exact prefix either. Decode appends make cache generations and no state generation: the state fences the prompt part
[0, T), and the tail [T, frontier) is admitted by an append-only rule. Loop 2's rule of equal frontiers would call that
state stale; the report keeps it as a labelled alternative. Owner offsets are one flat list; a row of offsets for each
layer, as in loops 2 and 3, is another convention and is refused. Cancellations are alternative histories of the one
parent, so they consume no generation of the published history. Stated votes are compared at the 12 digits of a report,
because a mean over three query heads has no finite decimal; selection itself compares exact numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence.canonical import reported
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
from kvaudit.policies import attention, heads, packing, snapkv
from kvaudit.policies.geometry import Geometry

# Past this gap a weight is below exp(-200) of the largest one: no score, and an exponential that only costs digits.
WIDEST_LOGIT_GAP = 200

# The phases between the prefill and the first decode step, for each branch.
_PHASES = {
    snapkv.SELECTION: ("observe", "select", "gather", "publish"),
    snapkv.FULL_CACHE: ("publish",),
}
_OWNER_AXIS = {
    "full_prompt_payload": "layer, K/V head",
    "compressed_prompt_payload": "layer, K/V head",
    "expanded_full_payload": "layer, query head",
    "expanded_compressed_payload": "layer, query head",
}

HEAD_MAP_LENGTH = Diagnostic(
    code="snapkv.head-map-length",
    contract="q_to_kv_head_map has one entry for each query head.",
    why="A query head without an entry casts no vote, and nobody knows which rows it reads.",
    fix="Give the map exactly query_heads entries.",
)
HEAD_MAP_RANGE = Diagnostic(
    code="snapkv.head-map-out-of-range",
    contract="Every entry of q_to_kv_head_map is a K/V head of the cache.",
    why="The votes of that query head would be counted for an owner that stores nothing.",
    fix="Use K/V heads 0 to kv_heads - 1.",
)
HEAD_MAP_UNSERVED = Diagnostic(
    code="snapkv.head-map-unserved",
    contract="Every K/V head is read by at least one query head.",
    why="A K/V head without readers has no votes: its mean is undefined and its top-k arbitrary.",
    fix="Correct the map, or drop the K/V head from the geometry.",
)
HEAD_MAP_OWNERSHIP = Diagnostic(
    code="snapkv.head-map-ownership",
    contract="Under contiguous_gqa, query head q maps to K/V head q // (query_heads / kv_heads), which divides evenly.",
    why="Votes of another group select the rows of this one: every shape is right and the rows are wrong.",
    fix="Correct the map, or name head_map_mode `explicit` if the checkpoint groups its heads otherwise.",
)
EVEN_KERNEL = Diagnostic(
    code="snapkv.even-kernel",
    contract="A pooling kernel has an odd number of rows.",
    why=(
        "With padding r // 2 an even kernel returns one score too many, half a row to the right; its last index is "
        "already in the window."
    ),
    fix="Use an odd kernel.",
)
KERNEL_WITHOUT_POOLING = Diagnostic(
    code="snapkv.kernel-without-pooling",
    contract="Pooling `none` has kernel_rows 1.",
    why=(
        "A width that nothing uses makes two equal policies look different, and a later reader believes that it "
        "smooths."
    ),
    fix="Write kernel_rows 1, or name the pooling that uses the kernel.",
)
TIE_RULE = Diagnostic(
    code="snapkv.tie-rule-open",
    contract="The policy says which of several equal scores is taken first.",
    why="top-k of the runtime may take any of them: the same prompt keeps other rows on another device.",
    fix="Declare lowest_position_first and select by it.",
)
DECODE_RULE = Diagnostic(
    code="snapkv.decode-rule-composed",
    contract="The decode rule is append_only.",
    why=(
        "Evicting generated rows is a second policy with its own scores and state; its results would carry the name "
        "SnapKV."
    ),
    fix="Audit the composition as a policy of its own, or append.",
)
CAPACITY = Diagnostic(
    code="snapkv.capacity-within-window",
    contract="The prompt capacity is larger than the observation window.",
    why="The window is kept whole; a capacity within it selects nothing, or drops part of the window.",
    fix="Enlarge the capacity, or shorten the window.",
)
PHASE_ORDER = Diagnostic(
    code="snapkv.phase-order",
    contract=(
        "Phases run in order: prefill (once, or chunk by chunk), observe, select, gather, publish, decode; a short "
        "prompt skips the middle three."
    ),
    why=(
        "Scores read from a partial prompt, or a decode step before publication, come from a cache that is not the "
        "one selected from."
    ),
    fix="Finish the prefill, compress once, publish, then decode.",
)
PARTIAL_PROMPT = Diagnostic(
    code="snapkv.partial-prompt-observed",
    contract="The prefill materialises every prompt row before anything is observed, in chunks that only grow.",
    why=(
        "Compressed chunk by chunk, the cache keeps one budget a chunk, and early chunks never meet the queries of "
        "the prompt's end."
    ),
    fix="Run the whole prefill first.",
)
SHORT_PROMPT = Diagnostic(
    code="snapkv.short-prompt-compressed",
    contract="A prompt shorter than the capacity keeps its full cache: no observation, no selection receipts.",
    why=(
        "It has more selection slots than prefix rows; formed anyway, the budget raises, reads into the window or "
        "reorders rows for nothing."
    ),
    fix="Return the full cache before a budget is formed.",
)
NO_OBSERVATION = Diagnostic(
    code="snapkv.observation-missing",
    contract="A prompt of at least the capacity has an observation and selection receipts.",
    why="Without them nobody can say by which attention these rows were kept.",
    fix="Record the observation attention and a receipt for each owner.",
)
OBSERVATION_SHAPE = Diagnostic(
    code="snapkv.observation-shape",
    contract="Observation attention has shape [layers][query_heads][observation_window_rows][prompt_rows].",
    why="A missing query or key shifts every later vote to another owner or position.",
    fix="Record one row of prompt_rows entries for each layer, query head and window query.",
)
OBSERVATION_WINDOW = Diagnostic(
    code="snapkv.observation-window-moved",
    contract="The observation queries are the last observation_window_rows positions of the prompt.",
    why="Other queries ask for other rows, and the window that is protected is not the one that voted.",
    fix="Observe with the last rows of the prompt.",
)
PREFIX_SOFTMAX = Diagnostic(
    code="snapkv.prefix-only-softmax",
    contract="Attention is normalised over every key that a query sees, window keys included.",
    why="Over the prefix alone, a query that hardly looks at the prefix votes as loudly as one that does.",
    fix="Take the softmax first and discard the window columns afterwards.",
)
FUTURE_KEY = Diagnostic(
    code="snapkv.future-key-observed",
    contract="A window query gives no probability, and has no logit, for a key after itself.",
    why="The query would see tokens that come later; its votes answer a question that decoding never asks.",
    fix="Apply the causal mask inside the window: probability 0, logit null.",
)
KEY_MISSING = Diagnostic(
    code="snapkv.visible-key-missing",
    contract="Every key that a window query sees has a probability or a logit.",
    why="A softmax without that key is larger everywhere else.",
    fix="Record the entry; null is for masked keys only.",
)
NOT_NORMALISED = Diagnostic(
    code="snapkv.attention-not-normalised",
    contract="The probabilities of a query are not negative and sum to exactly one.",
    why="Votes of rows with more mass outweigh the others; the selection follows an accident of scaling.",
    fix="Record the softmax output with decimals that sum to one, or record logits.",
)
LOGIT_GAP = Diagnostic(
    code="snapkv.logit-gap-too-wide",
    contract="The visible logits of a query lie within 200 of its largest one.",
    why="A weight below exp(-200) cannot be told from a masked key, and is a masking constant rather than a score.",
    fix="Write null for masked keys, and the scaled scores otherwise.",
)
RECEIPT_SHAPE = Diagnostic(
    code="snapkv.selection-receipt-shape",
    contract=(
        "There is a selection receipt for each layer and owner, with a vote and a pooled vote for each prefix position."
    ),
    why=(
        "An owner without a receipt keeps rows for a reason that nobody recorded; later receipts belong to the wrong "
        "owner."
    ),
    fix="Write one receipt for each owner of the declared owner contract.",
)
VOTES = Diagnostic(
    code="snapkv.vote-drift",
    contract=(
        "A vote is the sum over window queries of the attention to a prefix position, reduced over query heads by "
        "the owner contract."
    ),
    why="Normalised, masked or reduced otherwise, the votes are those of another method.",
    fix="Sum first, then reduce over the query heads of the owner; check the head map and the window.",
)
POOLED = Diagnostic(
    code="snapkv.pooled-drift",
    contract="A pooled vote follows the declared pooling and kernel, from votes that are already reduced.",
    why=(
        "Padding counted or not decides whether the first and last positions survive; maximum before reduction is "
        "not maximum after it."
    ),
    fix="Pool the owner's votes, with the declared treatment of the border.",
)
SELECTED_RANGE = Diagnostic(
    code="snapkv.selected-outside-prompt",
    contract="A selected prefix position is a position of the prompt.",
    why="There is no committed row there; the gather reads free or foreign memory.",
    fix="Select prefix positions only.",
)
SELECTED_IN_WINDOW = Diagnostic(
    code="snapkv.selected-inside-window",
    contract="A selected prefix position lies before the observation window.",
    why="The window is kept anyway: the row would be attended to twice, and a prefix row lost its place.",
    fix="Leave the window out of the competition.",
)
SELECTED_TWICE = Diagnostic(
    code="snapkv.selected-twice",
    contract="An owner selects a prefix position once.",
    why="The row would be attended to twice and charged twice.",
    fix="Remove the repetition; pick the next score.",
)
SELECTED_COUNT = Diagnostic(
    code="snapkv.selected-count",
    contract="An owner selects exactly capacity minus window rows.",
    why="The reserved capacity is short, or part of the paid budget is empty.",
    fix="Select C_prompt - W_obs prefix rows.",
)
NOT_TOP_K = Diagnostic(
    code="snapkv.selection-not-top-k",
    contract="The selected prefix positions are the best pooled votes of their owner.",
    why="A row with less credit displaced one with more: the policy that ran is not the one that is named.",
    fix="Select by pooled votes, owner by owner; equal scores from the lowest position.",
)
SELECTED_ORDER = Diagnostic(
    code="snapkv.selection-order",
    contract="Selected positions are in descending pooled order, equal scores by lowest position.",
    why="Packed rows follow this order; a map in another order hands every row the position of its neighbour.",
    fix="Keep the order of the top-k; do not sort by position.",
)
WINDOW_ROW_MISSING = Diagnostic(
    code="snapkv.window-row-missing",
    contract="An owner keeps every row of the observation window, in order.",
    why="The most recent prompt rows carry the question; without them the first generated token is already wrong.",
    fix="Append the whole window after the selected prefix.",
)
AMBIGUOUS_SOURCE = Diagnostic(
    code="snapkv.ambiguous-source-rows",
    contract="The symbolic source gives every (tensor, layer, K/V head, position, channel) a value of its own.",
    why="Two equal scalars hide a gather from the wrong row, and the identity check proves nothing.",
    fix="Enlarge the strides, or use fewer positions.",
)
OFFSET_CONVENTION = Diagnostic(
    code="snapkv.offset-convention-mixed",
    contract="Owner offsets are one flat list of owners + 1 entries.",
    why="Read by the other convention, the same numbers are rows of another owner.",
    fix="Write one flat list, and name the convention `flat`.",
)
OFFSETS = Diagnostic(
    code="snapkv.owner-offset-drift",
    contract="Owner i holds the packed rows from offset i up to offset i + 1, all owners equally many.",
    why="An owner would read rows of the owner before or after it.",
    fix="Recompute the offsets from the rows an owner keeps.",
)
PACKED_SHAPE = Diagnostic(
    code="snapkv.packed-shape",
    contract=(
        "A view has a K row, a V row and a position for each packed row, and a decode step a K row and a V row for "
        "each owner, each of head_dimension scalars."
    ),
    why="A partly filled buffer is workspace; published, it is read past its end.",
    fix="Publish after every row is packed.",
)
PACKED_TWICE = Diagnostic(
    code="snapkv.packed-twice",
    contract="An owner packs an original position once.",
    why="The row counts twice in the softmax, and another one is lost.",
    fix="Gather by the receipt's positions.",
)
MAP_DRIFT = Diagnostic(
    code="snapkv.position-map-drift",
    contract="The original-position map repeats selected positions and window of each owner, in packing order.",
    why="A packed index taken for a position breaks every distance; packed row 0 is not token 0.",
    fix="Copy the positions of the receipt; never number or sort the packed rows.",
)
GATHER = Diagnostic(
    code="snapkv.gather-misaligned",
    contract=(
        "Every packed or appended K and V scalar equals that of its layer, K/V head, original position and channel."
    ),
    why="K by one index list and V by another has the right shape and the wrong attention.",
    fix="Gather K, V and position by one index list.",
)
LOGICAL_LENGTH = Diagnostic(
    code="snapkv.logical-length-drift",
    contract="The logical length is the number of positions processed, whatever is stored.",
    why="Taken from the shortened cache, the next token is rotated to a position inside the prompt.",
    fix="Track the logical length apart from the rows in the cache.",
)
PHYSICAL_LENGTH = Diagnostic(
    code="snapkv.physical-length-drift",
    contract="The physical length is the rows an owner stores: capacity (or the short prompt) plus appended rows.",
    why="Attention reads past the packed rows, or leaves out the newest ones.",
    fix="Count stored rows; the capacity bounds the prompt part only.",
)
REQUEST_ID = Diagnostic(
    code="snapkv.request-mismatch",
    contract="The compression receipt belongs to the request of the source cache.",
    why="One request would attend to the rows of another: wrong output and a leak.",
    fix="Use the receipt that was written for this request.",
)
REQUEST_GENERATION = Diagnostic(
    code="snapkv.request-generation-stale",
    contract="The compression receipt has the request generation of the source cache.",
    why="The request was cancelled, forked or recycled since; its rows are not these.",
    fix="Discard the receipt and compress anew.",
)
SOURCE_STALE = Diagnostic(
    code="snapkv.source-generation-stale",
    contract="The compression started from the cache and state generations that are published as its source.",
    why="The cache has moved on; rows exist that nobody observed.",
    fix="Discard the candidate and compress the current source.",
)
POLICY_GENERATION = Diagnostic(
    code="snapkv.policy-generation-mismatch",
    contract="The receipt carries the policy generation of the policy.",
    why="Rows kept under another window, capacity or pooling would pass for this policy's.",
    fix="Compress anew under the current policy generation.",
)
NOT_SUCCESSOR = Diagnostic(
    code="snapkv.not-a-successor",
    contract=(
        "A selection publishes cache and state generations after its source; a short prompt publishes the source "
        "cache itself under a new state."
    ),
    why="A generation used twice names two caches: nobody can tell the compressed one from its source.",
    fix="Issue new generations for the compressed cache and its state.",
)
FRONTIER = Diagnostic(
    code="snapkv.prompt-frontier-mismatch",
    contract="The receipt's exclusive prompt frontier is the number of prompt rows.",
    why="Rows past it were never considered; the first generated token gets a position that is taken.",
    fix="Write the frontier of the full prompt, not the rows that were kept.",
)
BRANCH = Diagnostic(
    code="snapkv.branch-mismatch",
    contract=(
        "The branch is full_cache if the prompt is shorter than the capacity, and selection otherwise, equality "
        "included."
    ),
    why="Runs of a short prompt would count as evidence for a policy that never ran.",
    fix="Record the branch that T_prompt < C_prompt gives.",
)
OWNER_COUNT = Diagnostic(
    code="snapkv.owner-count-mismatch",
    contract="The receipt counts layers times the owners of the owner contract.",
    why="Query-head owners counted as K/V heads understate the cache by the group size.",
    fix="Count the owners of the declared contract.",
)
ROWS_PER_OWNER = Diagnostic(
    code="snapkv.rows-per-owner-mismatch",
    contract="Each owner stores the smaller of prompt rows and capacity after compression.",
    why="The capacity reserved for decoding is wrong for every owner.",
    fix="Count selected prefix rows and window rows.",
)
MAP_ABSENT = Diagnostic(
    code="snapkv.position-map-absent",
    contract="A compressed cache carries an original-position map.",
    why="Score-ordered rows without a map have lost their positions for good.",
    fix="Publish the map with the rows.",
)
NOT_MATERIALIZED = Diagnostic(
    code="snapkv.prompt-not-materialized",
    contract="The receipt says that the full prompt was materialised before compression.",
    why="The peak of the prefill is then planned for the compressed cache, and does not fit.",
    fix="Record it: compression lowers what decode stores, not what prefill needs.",
)
NOT_PUBLISHED = Diagnostic(
    code="snapkv.receipt-not-published",
    contract="The receipt that decode starts from is published.",
    why="A staged or cancelled view is workspace that may be released at any time.",
    fix="Publish, or keep decoding from the source cache.",
)
EXACT_REUSE = Diagnostic(
    code="snapkv.exact-reuse-claimed",
    contract="A compressed cache does not claim exact prefix reuse.",
    why="Another request would get rows chosen for this one's question, as if they were its full prefix.",
    fix="Say false; reuse needs an approximate contract.",
)
VIEW_STALE = Diagnostic(
    code="snapkv.view-generation-stale",
    contract="The compressed view carries the cache and state generations of the receipt.",
    why="A late worker would put an older view under the new name.",
    fix="Discard the view and gather for the published state.",
)
LAYERS_PUBLISHED = Diagnostic(
    code="snapkv.layer-not-published",
    contract="Every layer is published once, in layer order.",
    why="A layer without a view reads nothing, or whatever lay there before.",
    fix="Publish all layers in one step.",
)
PARTIAL_PUBLICATION = Diagnostic(
    code="snapkv.layers-at-different-generations",
    contract="All layers are published under the generations of the receipt.",
    why="Some layers read the compressed cache while others read the source: no cache that ever existed.",
    fix="Publish all layers at once, or none.",
)
VISIBLE = Diagnostic(
    code="snapkv.visible-generation-mismatch",
    contract=(
        "Until publication the source generations are visible, at publication those of the receipt, after a decode "
        "step those of the step."
    ),
    why="A reader between the phases gets staged rows, or rows that were replaced.",
    fix="Switch what is visible by the publication alone.",
)
CANCEL_PHASE = Diagnostic(
    code="snapkv.cancelled-at-wrong-phase",
    contract=(
        "A cancellation comes after a phase that this prompt runs before publication, and only a gather has staged "
        "layers."
    ),
    why="After publication readers hold the new state; it is compensated, not cancelled.",
    fix="Cancel before publication, or publish a successor.",
)
CANCEL_VISIBLE = Diagnostic(
    code="snapkv.cancellation-changed-visible-state",
    contract="A cancelled compression leaves the source cache and state generations visible.",
    why="A reader would find a cache that was never completed.",
    fix="Restore nothing and publish nothing: the parent was visible all along.",
)
CANCEL_LEAK = Diagnostic(
    code="snapkv.cancelled-rows-kept",
    contract="A cancelled compression releases its staged rows.",
    why="They occupy capacity that admission believes to be free.",
    fix="Release the staged rows with the candidate.",
)
APPEND_PARENT = Diagnostic(
    code="snapkv.append-parent-stale",
    contract="A decode step appends to the cache generation published before it.",
    why="Two appends to one parent lose one of their rows.",
    fix="Append to the newest cache generation.",
)
APPEND_GENERATION = Diagnostic(
    code="snapkv.append-not-a-successor",
    contract="A decode step publishes a cache generation after its parent.",
    why="A row added in place changes a cache that others still read.",
    fix="Issue a new cache generation for the append.",
)
RESELECTED = Diagnostic(
    code="snapkv.decode-reselected",
    contract="A decode step leaves the state generation of the compression unchanged.",
    why="The prompt selection was made once; a new state says that rows were chosen again from a prompt that is gone.",
    fix="Append only; keep the compressed state.",
)
APPEND_POSITION = Diagnostic(
    code="snapkv.append-position-mismatch",
    contract="A decode step appends the original position at the logical frontier.",
    why="A gap or a repeated position breaks causality for all later tokens.",
    fix="Append the next logical position.",
)
ROTARY = Diagnostic(
    code="snapkv.rotary-position-mismatch",
    contract="A generated row is rotated at its original position, not at its packed row.",
    why="Counted from the shortened cache, the token lands among prompt positions and every distance is wrong.",
    fix="Rotate by the logical length.",
)
TAIL = Diagnostic(
    code="snapkv.tail-outside-fence",
    contract=(
        "The tail of a decode step is [prompt frontier, cache frontier): the state fences the prompt, the "
        "append-only rule the rest."
    ),
    why="A row in neither part is invisible; a row in both is seen twice.",
    fix="Start the tail at the prompt frontier and end it at the new cache frontier.",
)
EXACT_INDEX = Diagnostic(
    code="snapkv.compressed-in-exact-index",
    contract="The exact-prefix index holds the source cache, never a compressed cache or what was appended to one.",
    why="The next request with this prefix silently gets a lossy cache.",
    fix="Index the source cache, or list the compressed one as approximate.",
)
APPROXIMATE_IDENTITY = Diagnostic(
    code="snapkv.approximate-entry-identity",
    contract=(
        "An approximate entry carries cache, source, policy and state generation of the compression, and a position "
        "map."
    ),
    why="Without them nobody can tell for which policy and question the rows were kept.",
    fix="Copy the identity from the compression receipt.",
)
APPROXIMATE_CONTRACT = Diagnostic(
    code="snapkv.approximate-entry-without-contract",
    contract="An approximate entry names the contract under which it may be reused.",
    why="Ordinary prefix matching is no such contract: equal tokens do not make equal rows.",
    fix="Name reuse_contract, or drop the entry.",
)
PREFIX_ORDER = Diagnostic(
    code="snapkv.prefix-order-claim",
    contract=(
        "A full cache keeps the prefix in source order; a selection has it in score order, at a prompt of exactly "
        "the capacity too."
    ),
    why="A consumer that takes row r for position r is right on short prompts and wrong from the capacity on.",
    fix="State the order that the branch gives, and read positions from the map.",
)
RATE_COUNT = Diagnostic(
    code="snapkv.rate-count-mismatch",
    contract=(
        "A rate selects floor((1 - p) L) prefix rows if it counts removed rows, floor(p L) if it counts kept rows, "
        "of exact decimals."
    ),
    why="The two readings of one rate keep opposite shares, and binary64 loses a row at 0.9 of 100.",
    fix="Say what the rate counts, and round the exact product down.",
)
RATIO_AXIS = Diagnostic(
    code="snapkv.claim-across-owner-axes",
    contract="A payload claim divides payloads of one owner axis, both of which exist.",
    why="Fewer rows of more owners can be as many bytes: after repeat_kv a ratio of rows is no ratio of memory.",
    fix="Compare K/V heads with K/V heads, or query heads with query heads.",
)
RATIO = Diagnostic(
    code="snapkv.payload-claim-drift",
    contract="A payload claim is the quotient of the two payloads in bytes.",
    why="The reduction that is cited is not the one that these rows give.",
    fix="Recompute the ratio from the ledger.",
)
DRIFT = Diagnostic(
    code="snapkv.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix=(
        "Find out which of the two is wrong; if the fixture's inputs are right, run `kvaudit regenerate --redeclare` "
        "and review the difference."
    ),
)

DIAGNOSTICS = (
    HEAD_MAP_LENGTH,
    HEAD_MAP_RANGE,
    HEAD_MAP_UNSERVED,
    HEAD_MAP_OWNERSHIP,
    EVEN_KERNEL,
    KERNEL_WITHOUT_POOLING,
    TIE_RULE,
    DECODE_RULE,
    CAPACITY,
    PHASE_ORDER,
    PARTIAL_PROMPT,
    SHORT_PROMPT,
    NO_OBSERVATION,
    OBSERVATION_SHAPE,
    OBSERVATION_WINDOW,
    PREFIX_SOFTMAX,
    FUTURE_KEY,
    KEY_MISSING,
    NOT_NORMALISED,
    LOGIT_GAP,
    RECEIPT_SHAPE,
    VOTES,
    POOLED,
    SELECTED_RANGE,
    SELECTED_IN_WINDOW,
    SELECTED_TWICE,
    SELECTED_COUNT,
    NOT_TOP_K,
    SELECTED_ORDER,
    WINDOW_ROW_MISSING,
    AMBIGUOUS_SOURCE,
    OFFSET_CONVENTION,
    OFFSETS,
    PACKED_SHAPE,
    PACKED_TWICE,
    MAP_DRIFT,
    GATHER,
    LOGICAL_LENGTH,
    PHYSICAL_LENGTH,
    REQUEST_ID,
    REQUEST_GENERATION,
    SOURCE_STALE,
    POLICY_GENERATION,
    NOT_SUCCESSOR,
    FRONTIER,
    BRANCH,
    OWNER_COUNT,
    ROWS_PER_OWNER,
    MAP_ABSENT,
    NOT_MATERIALIZED,
    NOT_PUBLISHED,
    EXACT_REUSE,
    VIEW_STALE,
    LAYERS_PUBLISHED,
    PARTIAL_PUBLICATION,
    VISIBLE,
    CANCEL_PHASE,
    CANCEL_VISIBLE,
    CANCEL_LEAK,
    APPEND_PARENT,
    APPEND_GENERATION,
    RESELECTED,
    APPEND_POSITION,
    ROTARY,
    TAIL,
    EXACT_INDEX,
    APPROXIMATE_IDENTITY,
    APPROXIMATE_CONTRACT,
    PREFIX_ORDER,
    RATE_COUNT,
    RATIO_AXIS,
    RATIO,
    DRIFT,
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the capacity branch decides for this prompt. `prefix_rows` and `selected_rows` are None in a full cache.

    `capacity_rows` is None where a rate meets a prompt within its window: there is no prefix to take a share of.
    """

    branch: str
    prompt_rows: int
    capacity_rows: int | None
    prefix_rows: int | None
    selected_rows: int | None
    rows_per_owner: int


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a SnapKV fixture, or raise the first `ContractViolation` in the order given above."""
    _judge_head_map(fixture["geometry"])
    _judge_policy(fixture["policy"])
    plan = _plan(fixture)
    _judge_branch(fixture, plan)
    _judge_phase_order(fixture, plan)
    votes, selected = _judge_selection(fixture, plan)
    packed = _packed(fixture, plan, selected)
    _judge_view(fixture, plan, packed)
    _judge_receipt(fixture, plan)
    _judge_layers(fixture)
    _judge_cancellations(fixture, plan)
    _judge_decode(fixture, plan)
    _judge_visible(fixture)
    _judge_prefix_index(fixture, plan)
    _judge_branch_receipts(fixture["branch_receipts"])
    _judge_rate_receipts(fixture["rate_receipts"])
    ledgers = _ledgers(fixture, plan)
    _judge_claims(fixture["payload_claims"], {row.name: row.value for row in ledgers})
    return _evidence(fixture, plan, votes, packed, ledgers)


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture as it is: no member of it is a digest of another."""
    return fixture


def _judge_head_map(geometry: Document) -> None:
    head_map, where = geometry["q_to_kv_head_map"], pointer("geometry", "q_to_kv_head_map")
    query_heads, kv_heads = geometry["query_heads"], geometry["kv_heads"]
    if len(head_map) != query_heads:
        reason = f"expected {query_heads} entries, found {len(head_map)}"
        raise ContractViolation(HEAD_MAP_LENGTH, where, reason)
    for query_head, kv_head in enumerate(head_map):
        if kv_head >= kv_heads:
            reason = f"query head {query_head} maps to K/V head {kv_head}; the cache has {kv_heads}"
            raise ContractViolation(HEAD_MAP_RANGE, where + pointer(query_head), reason)
    served = set(head_map)
    for kv_head in range(kv_heads):
        if kv_head not in served:
            raise ContractViolation(HEAD_MAP_UNSERVED, where, f"no query head reads K/V head {kv_head}")
    if geometry["head_map_mode"] == "contiguous_gqa":
        try:
            expected = heads.contiguous_gqa(query_heads, kv_heads)
        except ValueError as error:
            raise ContractViolation(HEAD_MAP_OWNERSHIP, where, str(error)) from None
        for query_head, owner in enumerate(expected):
            _require(HEAD_MAP_OWNERSHIP, head_map[query_head], owner, where + pointer(query_head))


def _judge_policy(policy: Document) -> None:
    where, pooling = pointer("policy"), policy["pooling"]
    if pooling["kernel_rows"] % 2 == 0:
        reason = f"expected an odd kernel, found {pooling['kernel_rows']}"
        raise ContractViolation(EVEN_KERNEL, where + "/pooling/kernel_rows", reason)
    if pooling["kind"] == snapkv.NO_POOLING:
        _require(KERNEL_WITHOUT_POOLING, pooling["kernel_rows"], 1, where + "/pooling/kernel_rows")
    _require(TIE_RULE, policy["tie_rule"], "lowest_position_first", where + "/tie_rule")
    _require(DECODE_RULE, policy["decode_rule"], "append_only", where + "/decode_rule")


def _plan(fixture: Document) -> _Plan:
    """Return what the capacity branch decides, or raise `CAPACITY` where no prefix row would be selected."""
    policy, prompt_rows = fixture["policy"], fixture["source_cache"]["prompt_rows"]
    window_rows, budget = policy["observation_window_rows"], policy["budget"]
    capacity_rows = _capacity_rows(budget, window_rows, prompt_rows)
    if capacity_rows is not None:
        _judge_capacity(capacity_rows, window_rows, pointer("policy", "budget", budget["form"]))
    if capacity_rows is None or snapkv.branch(prompt_rows, capacity_rows) == snapkv.FULL_CACHE:
        return _Plan(snapkv.FULL_CACHE, prompt_rows, capacity_rows, None, None, prompt_rows)
    return _Plan(
        branch=snapkv.SELECTION,
        prompt_rows=prompt_rows,
        capacity_rows=capacity_rows,
        prefix_rows=prompt_rows - window_rows,
        selected_rows=snapkv.selected_rows_of_capacity(capacity_rows, window_rows),
        rows_per_owner=capacity_rows,
    )


def _capacity_rows(budget: Document, window_rows: int, prompt_rows: int) -> int | None:
    if budget["form"] == "capacity_rows":
        capacity_rows: int = budget["capacity_rows"]
        return capacity_rows
    if prompt_rows <= window_rows:
        return None
    return window_rows + _rate_rows(budget, prompt_rows - window_rows)


def _rate_rows(rate: Document, prefix_rows: int) -> int:
    """Return the prefix rows that a rate selects, rounded down as each of the two functions is named."""
    if rate["rate_counts"] == "removed_rows":
        return snapkv.selected_rows_floor_of_removed_share(rate["rate"], prefix_rows)
    return snapkv.selected_rows_floor_of_kept_share(rate["rate"], prefix_rows)


def _judge_capacity(capacity_rows: int, window_rows: int, where: str) -> None:
    if capacity_rows <= window_rows:
        reason = f"expected more than the {window_rows} rows of the window, found {capacity_rows}"
        raise ContractViolation(CAPACITY, where, reason)


def _judge_branch(fixture: Document, plan: _Plan) -> None:
    """Judge that a selection has its evidence, and that a short prompt has none: no budget is formed for it."""
    rows = f"{plan.prompt_rows} prompt rows and a capacity of {_shown(plan.capacity_rows)}"
    for name in ("observation", "selection_receipts"):
        if plan.branch == snapkv.FULL_CACHE and fixture[name] is not None:
            raise ContractViolation(SHORT_PROMPT, pointer(name), f"expected null with {rows}, found a value")
        if plan.branch == snapkv.SELECTION and fixture[name] is None:
            raise ContractViolation(NO_OBSERVATION, pointer(name), f"expected a value with {rows}, found null")


def _judge_phase_order(fixture: Document, plan: _Plan) -> None:
    phases = fixture["phases"]
    names = [each["phase"] for each in phases]
    chunks = next((index for index, name in enumerate(names) if name != "prefill"), len(names))
    expected = ["prefill"] * max(chunks, 1) + list(_PHASES[plan.branch]) + ["decode"] * len(fixture["decode_steps"])
    for index, (found, wanted) in enumerate(zip(names, expected, strict=False)):
        _require(PHASE_ORDER, found, wanted, pointer("phases", index, "phase"))
    if len(names) != len(expected):
        reason = f"expected {len(expected)} phases, found {len(names)}"
        raise ContractViolation(PHASE_ORDER, pointer("phases"), reason)
    before = 0
    for index, chunk in enumerate(phases[:chunks]):
        where = pointer("phases", index, "cache_frontier")
        if chunk["cache_frontier"] <= before:
            reason = f"expected a frontier after {before}, found {chunk['cache_frontier']}"
            raise ContractViolation(PARTIAL_PROMPT, where, reason)
        before = chunk["cache_frontier"]
    _require(PARTIAL_PROMPT, before, plan.prompt_rows, pointer("phases", chunks - 1, "cache_frontier"))


def _judge_selection(
    fixture: Document, plan: _Plan
) -> tuple[list[list[list[Fraction]]] | None, list[list[tuple[int, ...]]] | None]:
    """Return the query-head votes [L][H_q][L_prefix] and the selected positions [L][O], None in a full cache."""
    if plan.prefix_rows is None or plan.selected_rows is None:
        return None, None
    votes = _judge_observation(fixture, plan.prompt_rows, plan.prefix_rows)
    receipts, owners = fixture["selection_receipts"], _owners_per_layer(fixture)
    _require_length(RECEIPT_SHAPE, receipts, fixture["geometry"]["layers"], "layers", "/selection_receipts")
    selected = []
    for layer, of_layer in enumerate(receipts):
        _require_length(RECEIPT_SHAPE, of_layer, owners, "owners", pointer("selection_receipts", layer))
        owner_votes = _owner_votes(fixture, votes[layer], fixture["policy"]["owner_contract"])
        positions = []
        for owner, receipt in enumerate(of_layer):
            where = pointer("selection_receipts", layer, owner)
            positions.append(_judge_owner(receipt, owner_votes[owner], fixture["policy"]["pooling"], plan, where))
        selected.append(positions)
    return votes, selected


def _judge_observation(fixture: Document, prompt_rows: int, prefix_rows: int) -> list[list[list[Fraction]]]:
    observation, geometry = fixture["observation"], fixture["geometry"]
    window = list(range(prefix_rows, prompt_rows))
    place = pointer("observation")
    _require_length(
        OBSERVATION_SHAPE, observation["query_positions"], len(window), "queries", place + "/query_positions"
    )
    for index, position in enumerate(window):
        where = place + pointer("query_positions", index)
        _require(OBSERVATION_WINDOW, observation["query_positions"][index], position, where)
    _require(PREFIX_SOFTMAX, observation["normalised_over"], "all_visible_keys", place + "/normalised_over")
    place += "/attention"
    _require_length(OBSERVATION_SHAPE, observation["attention"], geometry["layers"], "layers", place)
    votes = []
    for layer, of_layer in enumerate(observation["attention"]):
        _require_length(OBSERVATION_SHAPE, of_layer, geometry["query_heads"], "query heads", place + pointer(layer))
        of_heads = []
        for query_head, of_head in enumerate(of_layer):
            where = place + pointer(layer, query_head)
            _require_length(OBSERVATION_SHAPE, of_head, len(window), "queries", where)
            rows: list[Sequence[attention.Number]] = []
            for index, row in enumerate(of_head):
                _require_length(OBSERVATION_SHAPE, row, prompt_rows, "keys", where + pointer(index))
                rows.append(_visible(row, window[index], observation["kind"], where + pointer(index)))
            weights = snapkv.observation_attention(rows) if observation["kind"] == "logits" else rows
            of_heads.append(snapkv.prefix_votes(weights, prefix_rows))
        votes.append(of_heads)
    return votes


def _visible(row: list[Any], query_position: int, kind: str, where: str) -> Sequence[attention.Number]:
    """Return the entries of the keys that a query sees, or raise the first violation among the entries of its row."""
    masked = 0 if kind == "probabilities" else None
    for position, entry in enumerate(row):
        if position > query_position and entry != masked:
            reason = f"the query at {query_position} sees position {position}: expected {_shown(masked)}"
            raise ContractViolation(FUTURE_KEY, where + pointer(position), f"{reason}, found {_shown(entry)}")
        if position <= query_position and entry is None:
            reason = f"the query at {query_position} sees position {position}: expected a number, found null"
            raise ContractViolation(KEY_MISSING, where + pointer(position), reason)
    visible = row[: query_position + 1]
    if kind == "probabilities":
        for position, probability in enumerate(visible):
            if probability < 0:
                reason = f"expected no negative probability, found {_shown(probability)}"
                raise ContractViolation(NOT_NORMALISED, where + pointer(position), reason)
        total = sum(visible)
        if total != 1:
            raise ContractViolation(NOT_NORMALISED, where, f"expected a sum of exactly 1, found {_shown(total)}")
        return visible
    largest = max(visible)
    for position, logit in enumerate(visible):
        if largest - logit > WIDEST_LOGIT_GAP:
            reason = f"expected a logit within {WIDEST_LOGIT_GAP} of {_shown(largest)}, found {_shown(logit)}"
            raise ContractViolation(LOGIT_GAP, where + pointer(position), reason)
    return visible


def _judge_owner(
    receipt: Document, votes: list[Fraction], pooling: Document, plan: _Plan, where: str
) -> tuple[int, ...]:
    """Return the positions that an owner selects, or raise the first violation in its receipt."""
    scores = snapkv.pooled(votes, pooling["kind"], pooling["kernel_rows"])
    for name, diagnostic, recomputed in (("votes", VOTES, votes), ("pooled_votes", POOLED, scores)):
        _require_length(RECEIPT_SHAPE, receipt[name], len(recomputed), "prefix positions", where + pointer(name))
        for position, (found, expected) in enumerate(zip(receipt[name], recomputed, strict=True)):
            _require(diagnostic, reported(found), reported(expected), where + pointer(name, position))
    assert plan.selected_rows is not None
    expected_positions = snapkv.selected_prefix(scores, plan.selected_rows)
    _judge_selected(receipt["selected_prefix_positions"], expected_positions, len(votes), plan, where)
    window = list(range(len(votes), plan.prompt_rows))
    _require(WINDOW_ROW_MISSING, receipt["observation_positions"], window, where + "/observation_positions")
    return expected_positions


def _judge_selected(found: list[int], expected: tuple[int, ...], prefix_rows: int, plan: _Plan, where: str) -> None:
    where += "/selected_prefix_positions"
    seen: set[int] = set()
    for index, position in enumerate(found):
        if position >= plan.prompt_rows:
            reason = f"expected a position below {prefix_rows}, found {position}, which is not in the prompt"
            raise ContractViolation(SELECTED_RANGE, where + pointer(index), reason)
        if position >= prefix_rows:
            reason = f"expected a position below {prefix_rows}, found {position}, which is in the window"
            raise ContractViolation(SELECTED_IN_WINDOW, where + pointer(index), reason)
        if position in seen:
            raise ContractViolation(SELECTED_TWICE, where + pointer(index), f"position {position} is selected twice")
        seen.add(position)
    if len(found) != len(expected):
        reason = f"expected {len(expected)} positions, found {len(found)}"
        raise ContractViolation(SELECTED_COUNT, where, reason)
    if seen != set(expected):
        raise ContractViolation(NOT_TOP_K, where, f"expected {joined(expected)}, found {joined(found)}")
    if tuple(found) != expected:
        raise ContractViolation(SELECTED_ORDER, where, f"expected {joined(expected)}, found {joined(found)}")


def _owner_votes(fixture: Document, votes: list[list[Fraction]], contract: str) -> list[list[Fraction]]:
    geometry = fixture["geometry"]
    return snapkv.owner_votes(votes, geometry["q_to_kv_head_map"], geometry["kv_heads"], contract)


def _owners_per_layer(fixture: Document) -> int:
    by_query_head = fixture["policy"]["owner_contract"] == snapkv.NONE
    count: int = fixture["geometry"]["query_heads" if by_query_head else "kv_heads"]
    return count


def _packed(fixture: Document, plan: _Plan, selected: list[list[tuple[int, ...]]] | None) -> Sequence[Any]:
    """Return the original positions of the packed rows, shape [L][O][rows per owner]."""
    if selected is None or plan.prefix_rows is None:
        return [[list(range(plan.prompt_rows))] * _owners_per_layer(fixture)] * int(fixture["geometry"]["layers"])
    return [
        [snapkv.packed_positions(positions, plan.prefix_rows, plan.prompt_rows) for positions in of_layer]
        for of_layer in selected
    ]


def _judge_view(fixture: Document, plan: _Plan, packed: packing.Selection) -> None:
    view, place = fixture["compressed_view"], pointer("compressed_view")
    _judge_source(fixture)
    _require(LOGICAL_LENGTH, view["logical_rows"], plan.prompt_rows, place + "/logical_rows")
    found = view["physical_rows_per_owner"]
    _require(PHYSICAL_LENGTH, found, plan.rows_per_owner, place + "/physical_rows_per_owner")
    _require(OFFSET_CONVENTION, view["offset_convention"], packing.FLAT, place + "/offset_convention")
    offsets = packing.flat_offsets(packing.lengths(packed))
    _require_length(OFFSETS, view["owner_offsets"], len(offsets), "offsets", place + "/owner_offsets")
    for index, offset in enumerate(offsets):
        _require(OFFSETS, view["owner_offsets"][index], offset, place + pointer("owner_offsets", index))
    width = fixture["geometry"]["head_dimension"]
    _require_length(PACKED_SHAPE, view["original_position_map"], offsets[-1], "rows", place + "/original_position_map")
    for name in ("packed_key_rows", "packed_value_rows"):
        _require_rows(view[name], offsets[-1], width, place + pointer(name))
    _judge_map(view["original_position_map"], packed)
    positions = packing.position_map(packed)
    for name, tensor in (("packed_key_rows", "key"), ("packed_value_rows", "value")):
        expected = packing.gather(_source(fixture, tensor), packed, 0)
        _judge_rows(view[name], expected, positions, place + pointer(name))


def _judge_map(found: list[int], packed: packing.Selection) -> None:
    row = 0
    for layer, owner, expected in packing.owners(packed):
        stated = found[row : row + len(expected)]
        seen: set[int] = set()
        for index, position in enumerate(stated):
            if position in seen:
                reason = f"layer {layer} owner {owner} packs position {position} twice"
                raise ContractViolation(
                    PACKED_TWICE, pointer("compressed_view", "original_position_map", row + index), reason
                )
            seen.add(position)
        for index, position in enumerate(expected):
            where = pointer("compressed_view", "original_position_map", row + index)
            _require(MAP_DRIFT, stated[index], position, where)
        row += len(expected)


def _judge_rows(found: list[list[int]], expected: Sequence[Sequence[int]], positions: list[int], where: str) -> None:
    for row, (stated, source) in enumerate(zip(found, expected, strict=True)):
        if stated != source:
            channel = next(index for index, scalar in enumerate(source) if stated[index] != scalar)
            reason = f"row {row} holds position {positions[row]}: expected {source[channel]} in channel {channel}"
            raise ContractViolation(GATHER, where + pointer(row, channel), f"{reason}, found {stated[channel]}")


def _judge_source(fixture: Document) -> None:
    geometry, content = fixture["geometry"], fixture["source_cache"]["symbolic_content"]
    span = geometry["head_dimension"]
    counts = {
        "position_stride": fixture["source_cache"]["prompt_rows"] + len(fixture["decode_steps"]),
        "kv_head_stride": geometry["kv_heads"],
        "layer_stride": geometry["layers"],
        "value_offset": 2,
    }
    for name, count in counts.items():
        if content[name] < span:
            where = pointer("source_cache", "symbolic_content", name)
            raise ContractViolation(AMBIGUOUS_SOURCE, where, f"expected at least {span}, found {content[name]}")
        span += (count - 1) * content[name]


def _source(fixture: Document, tensor: str) -> Any:
    """Return the symbolic source tensor as a function of (layer, owner, position) to a row of d_h integers.

    An owner that is a query head keeps rows of the K/V head that it reads.
    """
    content, geometry = fixture["source_cache"]["symbolic_content"], fixture["geometry"]
    offset = content["value_offset"] if tensor == "value" else 0
    contract, head_map = fixture["policy"]["owner_contract"], geometry["q_to_kv_head_map"]

    def row(layer: int, owner: int, position: int) -> list[int]:
        kv_head = snapkv.kv_head_of_owner(owner, head_map, contract)
        first = (
            offset
            + layer * content["layer_stride"]
            + kv_head * content["kv_head_stride"]
            + position * content["position_stride"]
        )
        return list(range(first, first + geometry["head_dimension"]))

    return row


def _judge_receipt(fixture: Document, plan: _Plan) -> None:
    receipt, source, view = fixture["compression_receipt"], fixture["source_cache"], fixture["compressed_view"]
    place = pointer("compression_receipt")
    for name, diagnostic, expected in (
        ("request_id", REQUEST_ID, source["request_id"]),
        ("request_generation", REQUEST_GENERATION, source["request_generation"]),
        ("source_cache_generation", SOURCE_STALE, source["cache_generation"]),
        ("parent_state_generation", SOURCE_STALE, source["state_generation"]),
        ("policy_generation", POLICY_GENERATION, fixture["policy"]["policy_generation"]),
        ("prompt_frontier", FRONTIER, plan.prompt_rows),
        ("branch", BRANCH, plan.branch),
        ("owner_count", OWNER_COUNT, fixture["geometry"]["layers"] * _owners_per_layer(fixture)),
        ("rows_per_owner", ROWS_PER_OWNER, plan.rows_per_owner),
        ("original_position_map_present", MAP_ABSENT, True),
        ("source_prompt_materialized_in_full", NOT_MATERIALIZED, True),
        ("publication_status", NOT_PUBLISHED, "published"),
    ):
        _require(diagnostic, receipt[name], expected, place + pointer(name))
    if plan.branch == snapkv.SELECTION:
        _require(EXACT_REUSE, receipt["exact_prefix_reuse"], False, place + "/exact_prefix_reuse")
        _require_later(NOT_SUCCESSOR, receipt, "compressed_cache_generation", source["cache_generation"], place)
    else:
        where, found = place + "/compressed_cache_generation", receipt["compressed_cache_generation"]
        _require(NOT_SUCCESSOR, found, source["cache_generation"], where)
    _require_later(NOT_SUCCESSOR, receipt, "compressed_state_generation", source["state_generation"], place)
    for name in ("cache_generation", "state_generation"):
        _require(VIEW_STALE, view[name], receipt[f"compressed_{name}"], pointer("compressed_view", name))


def _judge_layers(fixture: Document) -> None:
    receipt, layers = fixture["compression_receipt"], fixture["layer_publications"]
    _require_length(LAYERS_PUBLISHED, layers, fixture["geometry"]["layers"], "layers", "/layer_publications")
    for layer, publication in enumerate(layers):
        where = pointer("layer_publications", layer)
        _require(LAYERS_PUBLISHED, publication["layer"], layer, where + "/layer")
        for name in ("cache_generation", "state_generation"):
            _require(PARTIAL_PUBLICATION, publication[name], receipt[f"compressed_{name}"], where + pointer(name))


def _judge_visible(fixture: Document) -> None:
    """Judge what is visible after each phase. Chunks of the prefill are caches of their own, in ascending order."""
    source, receipt, phases = fixture["source_cache"], fixture["compression_receipt"], fixture["phases"]
    cache, state, frontier = source["cache_generation"], source["state_generation"], source["prompt_rows"]
    steps = iter(fixture["decode_steps"])
    before = -1
    for index, phase in enumerate(phases):
        where = pointer("phases", index)
        if phase["phase"] == "publish":
            cache, state = receipt["compressed_cache_generation"], receipt["compressed_state_generation"]
        elif phase["phase"] == "decode":
            cache, frontier = next(steps)["cache_generation"], frontier + 1
        if phase["phase"] == "prefill" and phase["cache_frontier"] < frontier:
            visible = phase["visible_cache_generation"]
            if not before < visible < cache:
                reason = f"expected a generation between {before} and {cache} for a chunk, found {visible}"
                raise ContractViolation(VISIBLE, where + "/visible_cache_generation", reason)
            before = visible
        else:
            _require(VISIBLE, phase["visible_cache_generation"], cache, where + "/visible_cache_generation")
            _require(VISIBLE, phase["cache_frontier"], frontier, where + "/cache_frontier")
        _require(VISIBLE, phase["visible_state_generation"], state, where + "/visible_state_generation")


def _judge_cancellations(fixture: Document, plan: _Plan) -> None:
    source, layers = fixture["source_cache"], fixture["geometry"]["layers"]
    phases = ["prefill", *_PHASES[plan.branch][:-1]]
    for index, attempt in enumerate(fixture["cancellations"]):
        where = pointer("cancellations", index)
        if attempt["after_phase"] not in phases:
            reason = f"expected one of {joined(phases)}, found {attempt['after_phase']}"
            raise ContractViolation(CANCEL_PHASE, where + "/after_phase", reason)
        most = layers if attempt["after_phase"] == "gather" else 0
        if attempt["staged_layers"] > most:
            reason = f"expected at most {most} after {attempt['after_phase']}, found {attempt['staged_layers']}"
            raise ContractViolation(CANCEL_PHASE, where + "/staged_layers", reason)
        for name in ("cache_generation", "state_generation"):
            _require(CANCEL_VISIBLE, attempt[f"visible_{name}"], source[name], where + pointer(f"visible_{name}"))
        _require(CANCEL_LEAK, attempt["staged_rows_released"], True, where + "/staged_rows_released")


def _judge_decode(fixture: Document, plan: _Plan) -> None:
    receipt, geometry = fixture["compression_receipt"], fixture["geometry"]
    cache = receipt["compressed_cache_generation"]
    for index, step in enumerate(fixture["decode_steps"]):
        where, frontier = pointer("decode_steps", index), plan.prompt_rows + index
        _require(APPEND_PARENT, step["parent_cache_generation"], cache, where + "/parent_cache_generation")
        _require_later(APPEND_GENERATION, step, "cache_generation", cache, where)
        cache = step["cache_generation"]
        for name, diagnostic, expected in (
            ("state_generation", RESELECTED, receipt["compressed_state_generation"]),
            ("original_position", APPEND_POSITION, frontier),
            ("rotary_position", ROTARY, frontier),
            ("tail", TAIL, [plan.prompt_rows, frontier + 1]),
            ("logical_rows", LOGICAL_LENGTH, frontier + 1),
            ("physical_rows_per_owner", PHYSICAL_LENGTH, plan.rows_per_owner + index + 1),
        ):
            _require(diagnostic, step[name], expected, where + pointer(name))
        owners, layers = _owners_per_layer(fixture), geometry["layers"]
        appended = [[[frontier]] * owners] * layers
        for name, tensor in (("appended_key_rows", "key"), ("appended_value_rows", "value")):
            _require_rows(step[name], layers * owners, geometry["head_dimension"], where + pointer(name))
            rows = packing.gather(_source(fixture, tensor), appended, 0)
            _judge_rows(step[name], rows, [frontier] * len(rows), where + pointer(name))


def _judge_prefix_index(fixture: Document, plan: _Plan) -> None:
    receipt, steps = fixture["compression_receipt"], fixture["decode_steps"]
    exact = {receipt["source_cache_generation"]}
    if plan.branch == snapkv.FULL_CACHE:
        exact |= {step["cache_generation"] for step in steps}
    for index, entry in enumerate(fixture["prefix_index"]["exact"]):
        if entry["cache_generation"] not in exact:
            where = pointer("prefix_index", "exact", index, "cache_generation")
            reason = f"expected one of {joined(sorted(exact))}, found {entry['cache_generation']}"
            raise ContractViolation(EXACT_INDEX, where, reason)
    for index, entry in enumerate(fixture["prefix_index"]["approximate"]):
        where = pointer("prefix_index", "approximate", index)
        for name, expected in (
            ("cache_generation", receipt["compressed_cache_generation"]),
            ("source_cache_generation", receipt["source_cache_generation"]),
            ("policy_generation", receipt["policy_generation"]),
            ("state_generation", receipt["compressed_state_generation"]),
            ("original_position_map_present", True),
        ):
            _require(APPROXIMATE_IDENTITY, entry[name], expected, where + pointer(name))
        if entry["reuse_contract"] is None:
            reason = "expected the contract of approximate reuse, found null"
            raise ContractViolation(APPROXIMATE_CONTRACT, where + "/reuse_contract", reason)


def _judge_branch_receipts(receipts: list[Document]) -> None:
    for index, receipt in enumerate(receipts):
        where, capacity_rows = pointer("branch_receipts", index), receipt["capacity_rows"]
        _judge_capacity(capacity_rows, receipt["observation_window_rows"], where + "/capacity_rows")
        branch = snapkv.branch(receipt["prompt_rows"], capacity_rows)
        _require(BRANCH, receipt["branch"], branch, where + "/branch")
        stored = min(receipt["prompt_rows"], capacity_rows)
        _require(ROWS_PER_OWNER, receipt["stored_rows_per_owner"], stored, where + "/stored_rows_per_owner")
        order = "source" if branch == snapkv.FULL_CACHE else "score"
        _require(PREFIX_ORDER, receipt["prefix_order"], order, where + "/prefix_order")


def _judge_rate_receipts(receipts: list[Document]) -> None:
    for index, receipt in enumerate(receipts):
        expected = _rate_rows(receipt, receipt["prefix_rows"])
        where = pointer("rate_receipts", index, "selected_rows")
        _require(RATE_COUNT, receipt["selected_rows"], expected, where)


def _judge_claims(claims: list[Document], payloads: Mapping[str, Any]) -> None:
    for index, claim in enumerate(claims):
        where = pointer("payload_claims", index)
        for name in ("before", "after"):
            if payloads[claim[name]] is None:
                reason = f"expected a payload that exists, found {claim[name]}, whose owners store nothing"
                raise ContractViolation(RATIO_AXIS, where + pointer(name), reason)
        axis = _OWNER_AXIS[claim["before"]]
        if _OWNER_AXIS[claim["after"]] != axis:
            reason = f"expected a payload of the owners ({axis}), found {claim['after']}"
            raise ContractViolation(RATIO_AXIS, where + "/after", reason)
        ratio = Fraction(payloads[claim["before"]], payloads[claim["after"]])
        _require(RATIO, reported(claim["ratio"]), reported(ratio), where + "/ratio")


def _ledgers(fixture: Document, plan: _Plan) -> tuple[LedgerRow, ...]:
    """Return the ledger. Where query heads own the rows, no compressed payload is stored per K/V head: None."""
    geometry, owners = fixture["geometry"], _owners_per_layer(fixture)
    stored = fixture["geometry"]["layers"] * owners
    by_query_head = fixture["policy"]["owner_contract"] == snapkv.NONE
    unique, expanded = _shape(geometry, geometry["kv_heads"]), _shape(geometry, geometry["query_heads"])
    row = "d_h * (b_K + b_V)"
    return (
        LedgerRow(
            "full_prompt_payload", unique.full_payload_bytes(plan.prompt_rows), "B", f"B * L * H_kv * T_prompt * {row}"
        ),
        LedgerRow(
            "compressed_prompt_payload",
            None if by_query_head else unique.full_payload_bytes(plan.rows_per_owner),
            "B",
            f"B * L * H_kv * T_kept * {row}",
        ),
        LedgerRow(
            "expanded_full_payload",
            expanded.full_payload_bytes(plan.prompt_rows),
            "B",
            f"B * L * H_q * T_prompt * {row}",
        ),
        LedgerRow(
            "expanded_compressed_payload",
            expanded.full_payload_bytes(plan.rows_per_owner),
            "B",
            f"B * L * H_q * T_kept * {row}",
        ),
        LedgerRow(
            "position_map",
            stored * plan.rows_per_owner * geometry["position_entry_bytes"],
            "B",
            "owners * T_kept * position_entry_bytes",
        ),
        LedgerRow(
            "owner_offsets", (stored + 1) * geometry["offset_entry_bytes"], "B", "(owners + 1) * offset_entry_bytes"
        ),
        LedgerRow(
            "first_append", stored * unique.row_bytes() if fixture["decode_steps"] else None, "B", f"owners * {row}"
        ),
    )


def _shape(geometry: Document, kv_heads: int) -> Geometry:
    """Return the geometry of a cache that stores `kv_heads` heads: H_kv, or H_q after repeat_kv."""
    return Geometry(
        batch=geometry["batch"],
        layers=geometry["layers"],
        kv_heads=kv_heads,
        head_dimension=geometry["head_dimension"],
        key_scalar_bytes=geometry["key_scalar_bytes"],
        value_scalar_bytes=geometry["value_scalar_bytes"],
    )


def _evidence(
    fixture: Document,
    plan: _Plan,
    votes: list[list[list[Fraction]]] | None,
    packed: packing.Selection,
    ledgers: tuple[LedgerRow, ...],
) -> Evidence:
    by_query_head = fixture["policy"]["owner_contract"] == snapkv.NONE
    full, compressed = (
        ("expanded_full_payload", "expanded_compressed_payload")
        if by_query_head
        else ("full_prompt_payload", "compressed_prompt_payload")
    )
    shared = f"one request, one prompt, payload only, owners are ({_OWNER_AXIS[full]})"
    return Evidence(
        results=_results(fixture, plan, votes, packed, {row.name: row.value for row in ledgers}),
        ledgers=ledgers,
        snapshots=_snapshots(fixture, plan, packed),
        comparisons=(Comparison("prompt_payload_bytes", "B", shared, (full, compressed)),),
    )


def _snapshots(fixture: Document, plan: _Plan, packed: packing.Selection) -> tuple[Snapshot, ...]:
    """Return the published prompt state of each owner, and its first decode append where there is one."""
    receipt = fixture["compression_receipt"]
    head = "query head" if fixture["policy"]["owner_contract"] == snapkv.NONE else "K/V head"
    published = [("prompt publication", receipt["compressed_cache_generation"], range(0))]
    for step in fixture["decode_steps"][:1]:
        first = range(plan.prompt_rows, plan.prompt_rows + 1)
        published.append(("first decode append", step["cache_generation"], first))
    return tuple(
        Snapshot(
            policy="snapkv",
            step=name,
            owner=f"layer {layer} {head} {owner}",
            state_generation=receipt["compressed_state_generation"],
            cache_generation=cache_generation,
            selected_original_positions=[*positions, *tail],
            selected_row_count=len(positions) + len(tail),
            published=True,
        )
        for name, cache_generation, tail in published
        for layer, owner, positions in packing.owners(packed)
    )


def _results(
    fixture: Document,
    plan: _Plan,
    votes: list[list[list[Fraction]]] | None,
    packed: packing.Selection,
    payloads: Mapping[str, Any],
) -> Document:
    geometry, policy, receipt = fixture["geometry"], fixture["policy"], fixture["compression_receipt"]
    by_query_head = policy["owner_contract"] == snapkv.NONE
    owners = geometry["layers"] * _owners_per_layer(fixture)
    rows = owners * plan.rows_per_owner
    window = None if plan.prefix_rows is None else summarised(range(plan.prefix_rows, plan.prompt_rows))
    return {
        "shape": {
            **{name: geometry[name] for name in _SHAPE_MEMBERS},
            "q_to_kv_head_map": summarised(geometry["q_to_kv_head_map"]),
        },
        "prompt": {
            "branch": plan.branch,
            "prompt_rows": plan.prompt_rows,
            "observation_window_rows": policy["observation_window_rows"],
            "capacity_rows": plan.capacity_rows,
            "prefix_rows": plan.prefix_rows,
            "selected_prefix_rows": plan.selected_rows,
            "observation_positions": window,
        },
        "owners": {
            "contract": policy["owner_contract"],
            "axis": "layer, query head" if by_query_head else "layer, K/V head",
            "count": owners,
            "rows_per_owner": plan.rows_per_owner,
        },
        "pooling": _pooling_result(policy["pooling"]),
        "selection": None if votes is None else _selection_result(fixture, plan, votes),
        "packed_original_positions": summarised(packed),
        "owner_offsets": summarised(fixture["compressed_view"]["owner_offsets"]),
        "offset_conventions": {
            packing.FLAT: {"bytes": payloads["owner_offsets"], "admitted": True},
            packing.GLOBAL_ROWS_PER_LAYER: {
                "bytes": (owners + geometry["layers"]) * geometry["offset_entry_bytes"],
                "admitted": False,
            },
        },
        "gather": {
            "scalars_checked": 2 * (rows + owners * len(fixture["decode_steps"])) * geometry["head_dimension"],
            "probes": [_gather_probe(fixture, probe, packed) for probe in fixture["probes"]["owners"]],
        },
        "generations": {name: receipt[name] for name in _GENERATION_MEMBERS},
        "phases": [each["phase"] for each in fixture["phases"]],
        "cancellations": [
            {name: value for name, value in attempt.items() if name != "staged_rows_released"}
            for attempt in fixture["cancellations"]
        ],
        "decode": _decode_result(fixture, plan, packed),
        "lengths": _lengths_result(plan, len(fixture["decode_steps"])),
        "branches": [_branch_result(each) for each in fixture["branch_receipts"]],
        "rate_counts": fixture["rate_receipts"],
        "payload_ratios": [
            {
                "before": claim["before"],
                "after": claim["after"],
                "owner_axis": _OWNER_AXIS[claim["before"]],
                "ratio": Fraction(payloads[claim["before"]], payloads[claim["after"]]),
            }
            for claim in fixture["payload_claims"]
        ],
        "visibility": _visibility_result(fixture["probes"]["original_positions"], packed, plan.prompt_rows),
        "prefix_index": {
            "exact_entries": len(fixture["prefix_index"]["exact"]),
            "approximate_entries": len(fixture["prefix_index"]["approximate"]),
            "compressed_cache_is_exact": plan.branch == snapkv.FULL_CACHE,
        },
    }


_SHAPE_MEMBERS = (
    "batch",
    "layers",
    "query_heads",
    "kv_heads",
    "head_dimension",
    "key_scalar_bytes",
    "value_scalar_bytes",
)
_GENERATION_MEMBERS = (
    "request_generation",
    "source_cache_generation",
    "compressed_cache_generation",
    "policy_generation",
    "parent_state_generation",
    "compressed_state_generation",
    "prompt_frontier",
)


def _pooling_result(pooling: Document) -> Document:
    """Return what a pooled score is made of. The divisor is None where there is none, or where it varies."""
    counted = pooling["kind"] == snapkv.AVERAGE_PADDING_COUNTED
    return {
        "kind": pooling["kind"],
        "kernel_rows": pooling["kernel_rows"],
        "padding_rows_each_side": pooling["kernel_rows"] // 2,
        "divisor_rows": pooling["kernel_rows"] if counted else None,
    }


def _selection_result(fixture: Document, plan: _Plan, votes: list[list[list[Fraction]]]) -> Document:
    """Return votes, scores and positions, and what the other poolings and owner contracts would have selected."""
    policy = fixture["policy"]
    contract, kind, kernel_rows = policy["owner_contract"], policy["pooling"]["kind"], policy["pooling"]["kernel_rows"]
    selected_rows = plan.selected_rows
    assert selected_rows is not None

    def owner_votes(by: str) -> list[list[list[Fraction]]]:
        return [_owner_votes(fixture, of_layer, by) for of_layer in votes]

    def scores(owners: list[list[list[Fraction]]], pooling: str) -> list[list[list[Fraction]]]:
        return [[snapkv.pooled(each, pooling, kernel_rows) for each in of_layer] for of_layer in owners]

    def selected(pooled: list[list[list[Fraction]]]) -> list[Any] | Document:
        return summarised([[snapkv.selected_prefix(each, selected_rows) for each in layer] for layer in pooled])

    owners = owner_votes(contract)
    pooled = scores(owners, kind)
    return {
        "observation_kind": fixture["observation"]["kind"],
        "votes": summarised(owners),
        "pooled_votes": summarised(pooled),
        "selected_prefix_positions": selected(pooled),
        "owners_with_a_tie_at_the_cut": sum(
            _tied_at_cut(each, selected_rows) for of_layer in pooled for each in of_layer
        ),
        "other_poolings": {other: selected(scores(owners, other)) for other in snapkv.POOLINGS if other != kind},
        "other_owner_contracts": {
            other: selected(scores(owner_votes(other), kind)) for other in snapkv.OWNER_CONTRACTS if other != contract
        },
    }


def _tied_at_cut(scores: Sequence[Fraction], selected_rows: int) -> bool:
    """Return whether a position that is not selected scores as much as the last one that is."""
    ranked = sorted(scores, reverse=True)
    return selected_rows < len(ranked) and ranked[selected_rows - 1] == ranked[selected_rows]


def _gather_probe(fixture: Document, probe: Document, packed: packing.Selection) -> Document:
    layer, owner = probe["layer"], probe["owner"]
    result: Document = {**probe, "original_positions": None, "key_rows": None, "value_rows": None}
    if layer < len(packed) and owner < len(packed[layer]):
        positions = packed[layer][owner]
        result["original_positions"] = summarised(positions)
        for name, tensor in (("key_rows", "key"), ("value_rows", "value")):
            source = _source(fixture, tensor)
            result[name] = summarised([source(layer, owner, position) for position in positions])
    return result


def _decode_result(fixture: Document, plan: _Plan, packed: packing.Selection) -> Document:
    """Return the cache after the last append.

    The first generated token is sampled by the prefill, over the full cache; only later ones see the compressed one.
    The alternative is Loop 2's rule, by which a state is stale once the cache has a frontier of its own.
    """
    receipt, steps = fixture["compression_receipt"], fixture["decode_steps"]
    frontier = plan.prompt_rows + len(steps)
    tail = range(plan.prompt_rows, frontier)
    return {
        "appended_rows_per_owner": len(steps),
        "rows_per_owner": plan.rows_per_owner + len(steps),
        "cache_generation": steps[-1]["cache_generation"] if steps else receipt["compressed_cache_generation"],
        "cache_frontier": frontier,
        "state_generation": receipt["compressed_state_generation"],
        "state_frontier": plan.prompt_rows,
        "tail": [plan.prompt_rows, frontier],
        "packed_original_positions": summarised(
            [[[*positions, *tail] for positions in of_layer] for of_layer in packed]
        ),
        "tokens_sampled_over_the_full_cache": 1,
        "tokens_sampled_over_the_compressed_cache": len(steps),
        "append_only_tail_admitted": True,
        "equal_frontier_alternative": {
            "rule": "the state's frontier equals the cache's",
            "state_admitted_after_append": not steps,
        },
    }


def _lengths_result(plan: _Plan, steps: int) -> list[Document]:
    names = ["prompt publication", *(["decode steps appended"] if steps else [])]
    return [
        {
            "step": name,
            "logical_rows": plan.prompt_rows + appended,
            "physical_rows_per_owner": plan.rows_per_owner + appended,
        }
        for name, appended in zip(names, (0, steps), strict=False)
    ]


def _branch_result(receipt: Document) -> Document:
    """Return a branch with the budget that it would have had: on a short prompt more slots than prefix rows."""
    window_rows = receipt["observation_window_rows"]
    return {
        **receipt,
        "selected_rows_if_formed": snapkv.selected_rows_of_capacity(receipt["capacity_rows"], window_rows),
        "prefix_rows_if_formed": receipt["prompt_rows"] - window_rows,
    }


def _visibility_result(probes: list[int], packed: packing.Selection, prompt_rows: int) -> Document:
    """Return how many owners keep each prompt position, and which ones keep the positions that are probed."""
    keepers: dict[int, list[list[int]]] = {position: [] for position in range(prompt_rows)}
    owners = 0
    for layer, owner, positions in packing.owners(packed):
        owners += 1
        for position in positions:
            keepers[position].append([layer, owner])
    return {
        "owners_that_keep_each_position": summarised([len(each) for each in keepers.values()]),
        "probes": [
            {
                "original_position": position,
                "owners": summarised(keepers.get(position, [])),
                "kept_by_every_owner": len(keepers.get(position, [])) == owners,
                "task_quality": None,
            }
            for position in probes
        ],
    }


def _require(diagnostic: Diagnostic, found: object, expected: object, where: str) -> None:
    if found != expected:
        raise ContractViolation(diagnostic, where, f"expected {_shown(expected)}, found {_shown(found)}")


def _require_later(diagnostic: Diagnostic, record: Document, name: str, before: int, where: str) -> None:
    if record[name] <= before:
        reason = f"expected a generation after {before}, found {record[name]}"
        raise ContractViolation(diagnostic, where + pointer(name), reason)


def _require_length(diagnostic: Diagnostic, found: Sequence[Any], expected: int, noun: str, where: str) -> None:
    if len(found) != expected:
        raise ContractViolation(diagnostic, where, f"expected {expected} {noun}, found {len(found)}")


def _require_rows(rows: list[list[int]], count: int, width: int, where: str) -> None:
    _require_length(PACKED_SHAPE, rows, count, "rows", where)
    for index, row in enumerate(rows):
        _require_length(PACKED_SHAPE, row, width, "scalars", where + pointer(index))


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return str(reported(value))
    return "null" if value is None else str(value)


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the packed positions of each owner, the capacity branches, and the logical and physical lengths."""
    owners = Table(
        "Packed original positions: selected prefix by score, then the observation window, then the decode tail",
        ("owner", "step", "cache", "state", "rows", "original positions"),
        tuple(
            (
                snapshot["owner"],
                snapshot["step"],
                str(snapshot["cache_generation"]),
                str(snapshot["state_generation"]),
                str(snapshot["selected_row_count"]),
                str(snapshot["selected_original_positions"]),
            )
            for snapshot in report["snapshots"]
        ),
    )
    results = report["results"]
    branches = Table(
        "Capacity branches: prefix rows and slots are those of a budget that a full cache never forms",
        ("prompt rows", "window", "capacity", "branch", "stored rows", "prefix order", "slots", "prefix rows"),
        tuple(
            (
                str(row["prompt_rows"]),
                str(row["observation_window_rows"]),
                str(row["capacity_rows"]),
                row["branch"],
                str(row["stored_rows_per_owner"]),
                row["prefix_order"],
                str(row["selected_rows_if_formed"]),
                str(row["prefix_rows_if_formed"]),
            )
            for row in results["branches"]
        ),
    )
    lengths = Table(
        "Logical and physical length",
        ("step", "logical rows", "physical rows per owner"),
        tuple(
            (row["step"], str(row["logical_rows"]), str(row["physical_rows_per_owner"])) for row in results["lengths"]
        ),
    )
    return owners, branches, lengths


LOOP = Loop(
    id="loop06_snapkv",
    command="snapkv",
    title="SnapKV prompt compression",
    section="0x07",
    fixture_schema="kvaudit.fixture.snapkv/1",
    report_schema="kvaudit.report.snapkv/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "phase order",
        "observation attention",
        "votes and pooling",
        "head map and owners",
        "capacity and short prompt",
        "selected prefix positions",
        "observation rows",
        "packed positions and offsets",
        "K/V gather",
        "compression receipt and generations",
        "cancellation",
        "cross-layer publication",
        "decode append",
        "logical and physical length",
        "exact prefix reuse",
        "payload claims",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "observation votes, owner reduction, pooling and top-k",
            "scalar-by-scalar gather check",
            "compression receipt, publication and cancellation",
            "first decode append",
            "byte ledgers",
        ),
        not_executed=(
            "model",
            "the pinned SnapKV code itself",
            "production cache or allocator",
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
