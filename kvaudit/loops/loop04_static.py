"""Loop 4, static retention: full cache, sliding window, and sinks plus recents (0x03, 0x04 and 0x05).

A fixture states what a runtime published: the views of each event, the rows released at the prompt hand-off, ring
slots, attention positions, reservations, rows read. The oracle derives each of them anew from the frontier and the
policies' widths, and never from a list of positions, so that a view of 131,072 positions costs what one of three does.
A view is written as half-open intervals [begin, end), ascending and as few as possible, as the frontier is exclusive.

The contracts are judged in the order of `oracle`: what each policy is, the variants it must not be taken for, cache
layouts, bytes a token, the frontier table, the events, the prompt hand-off, chunked prefill, ring slots, attention
positions, reservations, decode steps, delayed references.

Decided here: `omitted_from_source` is every committed position that a view lacks, `removed_from_parent` only what the
parent's view had; a prompt row that was never published is in the first and not in the second. A cancel restores its
parent state whole, with the receipts of that state. Generations only grow, and a cancelled one is not issued again. A
staged candidate is cancelled or published as it was staged, and nothing else may happen before that. A content id
names K/V rows as they were computed, not token text: rows that are computed again get a new one. The frontier table
has to hold an early overlap, the first upper bound and the first middle omission, because a table that begins after
saturation cannot tell a right policy from several wrong ones. The query of an attention position receipt is that of
the newest row in the view.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kvaudit.errors import ContractViolation
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
from kvaudit.policies import full_cache, prompt_handoff, sliding_window, streaming_llm
from kvaudit.policies.geometry import Geometry
from kvaudit.policies.intervals import Intervals, contains, difference, interval, size

POLICIES = ("full", "sliding_window", "sink_recent")
BOUNDED_POLICIES = ("sliding_window", "sink_recent")

ARCHITECTURE_LOCAL = "architecture_local"
RETROFIT = "retrofit_after_full_prefill"
TRAINED_SINK_TOKEN = "trained_sink_token"  # noqa: S105 - a kind of sink, not a secret
NO_SINK = "none"

# What identifies a state, and with it the rows that brought it about.
_STATE_MEMBERS = (
    "cache_generation",
    "state_generation",
    "parent_cache_generation",
    "parent_state_generation",
    "frontier",
)
_CANDIDATE_MEMBERS = (*_STATE_MEMBERS, "appended", "content_id")

UNKNOWN_CHECKPOINT = Diagnostic(
    code="static.checkpoint-unknown",
    contract="A policy names a checkpoint of the fixture.",
    why="Whether a window was trained, and which normalisation was, cannot be told without the checkpoint.",
    fix="Name one of `checkpoints`, or declare the missing one.",
)
RETROFIT_AS_LOCAL = Diagnostic(
    code="static.retrofit-called-architecture-local",
    contract="An architecture_local policy has a checkpoint that was trained with local attention.",
    why="A checkpoint trained on full attention never learned to carry evicted facts through stacked local layers, so "
    "quality results of local architectures do not transfer to it.",
    fix="Call the policy retrofit_after_full_prefill, or use a checkpoint trained with this window.",
)
LOCAL_AS_RETROFIT = Diagnostic(
    code="static.architecture-local-called-retrofit",
    contract="A retrofit_after_full_prefill policy has a checkpoint that was trained with full causal attention.",
    why="The window is then part of the model; calling it a cache policy credits the cache with what training did.",
    fix="Call the policy architecture_local, or use a checkpoint trained with full attention.",
)
LOCAL_WINDOW = Diagnostic(
    code="static.local-window-mismatch",
    contract="An architecture_local policy keeps as many recent rows as its checkpoint's trained window has.",
    why="A narrower window hides rows that the model expects; a wider one shows rows that it never saw in training.",
    fix="Take the window from the checkpoint's configuration, and count the query's own row in it.",
)
NORMALISATION = Diagnostic(
    code="static.normalisation-not-trained",
    contract="A policy uses the attention normalisation that its checkpoint was trained with.",
    why="Softmax-off-by-one changes every attention weight of every layer; it is a model, not a choice of rows.",
    fix="Keep the trained normalisation; use another checkpoint to study another one.",
)
SINK_KIND = Diagnostic(
    code="static.sink-kind-mismatch",
    contract="Sinks are trained_sink_token exactly if the checkpoint was trained with such tokens, as many as it has; "
    "a policy of kind none keeps no sink row.",
    why="A dedicated sink placeholder exists only after pre-training with it. Switched on like a cache flag, it is an "
    "untrained token in front of every sequence.",
    fix="Call first rows of an ordinary checkpoint retained_rows, or use the checkpoint trained with sink tokens.",
)
KEY_PATH = Diagnostic(
    code="static.key-stage-without-path",
    contract="Stock attention reads post_rope_absolute keys, a position_shift path reads pre_rope_repositioned ones.",
    why="Stock attention would read pre-RoPE keys unrotated; a position-shift path would rotate absolute keys twice.",
    fix="Install the attention path that belongs to the stage at which keys are stored.",
)
VARIANT_CLAIM = Diagnostic(
    code="static.variant-misclaimed",
    contract="A variant is claimed as a different contract exactly if a contract fact differs from the policy that it "
    "resembles, and as retention otherwise.",
    why="A result of a model with a trained sink or another softmax would be cited as a result of keeping first rows.",
    fix="Claim it as a different contract, or remove the difference.",
)
SEQUENCE_AXIS = Diagnostic(
    code="static.sequence-axis-mismatch",
    contract="K and V are cut along the axis that holds positions in this model family's cache.",
    why="MPT keeps K as [batch, head, channel, position]: cut on Llama's axis, it loses channels and keeps every row.",
    fix="Use the family's axes for K and for V, which may differ.",
)
TOKEN_BYTES = Diagnostic(
    code="static.token-bytes-mismatch",
    contract="token_bytes is layers x K/V heads x head dimension x (K + V bytes a scalar).",
    why="Every byte of the payload and read ledgers is a multiple of it.",
    fix="Count persistent K/V heads, not query heads, and both K and V.",
)
FULL_SET = Diagnostic(
    code="static.full-set-mismatch",
    contract="The full cache at the exclusive frontier F shows the positions 0 to F - 1, F rows.",
    why="Read as inclusive, the frontier shows a row that is not committed, or hides the newest one.",
    fix="Count committed rows; the frontier is the next position, not the last.",
)
WINDOW_SET = Diagnostic(
    code="static.window-set-mismatch",
    contract="A window of W rows shows the positions max(0, F - W) to F - 1, min(F, W) rows, the newest included.",
    why="One backend counts the query's own row in the window, another does not: W + 1 rows overrun a ring of W, and "
    "outputs differ between backends of one configuration.",
    fix="Count the newest row in the window.",
)
SINK_RECENT_SET = Diagnostic(
    code="static.sink-recent-set-mismatch",
    contract="Sinks plus recents show the first K_s positions and the newest W, each position once.",
    why="A dropped sink destabilises decoding at once; a dropped or extra middle row is another policy.",
    fix="Take the union of sinks and recents at this frontier.",
)
OVERLAP = Diagnostic(
    code="static.overlap-mismatch",
    contract="The overlap is max(0, min(K_s, F) - max(0, F - W)) rows.",
    why="While the sequence is short, rows are sink and recent at once; capacity planned without it is wrong early.",
    fix="Intersect sinks and recents at this frontier.",
)
COUNTED_TWICE = Diagnostic(
    code="static.sink-counted-twice",
    contract="Sinks plus recents are min(K_s, F) + min(W, F) - overlap rows, at most K_s + W.",
    why="A row counted twice is reserved, read and attended to twice.",
    fix="Subtract the overlap; K_s + W holds only once sinks and recents are apart.",
)
EARLY_FRONTIERS = Diagnostic(
    code="static.early-frontiers-missing",
    contract="The frontier table holds a frontier with overlap, the first with K_s + W rows, and the first with a "
    "middle omission.",
    why="A table that begins after saturation agrees with policies that count sinks twice or evict too early.",
    fix="Add receipts at these frontiers.",
)
LANDMARK = Diagnostic(
    code="static.landmark-mismatch",
    contract="The upper bound is first reached at F = K_s + W; the first middle omission comes one row later.",
    why="Between the two the cache is full and has lost nothing; an alarm or a test set one row off misses the loss.",
    fix="Recompute both from the widths.",
)
EVENT_NAME = Diagnostic(
    code="static.event-name-repeated",
    contract="An event name occurs once in a trace.",
    why="A snapshot is found by the name of its event; two of one name cannot be told apart.",
    fix="Rename one of them.",
)
ORIGIN = Diagnostic(
    code="static.origin-mismatch",
    contract="A trace begins with its only origin: frontier 0, no parent, no rows.",
    why="Without the empty state, the first rows have no parent, and no cancel can restore it.",
    fix="Begin the trace with the state before the prompt.",
)
PUBLISHED_FLAG = Diagnostic(
    code="static.published-flag-mismatch",
    contract="Staged candidates are unpublished; every other event leaves a published state.",
    why="Readers would attend to rows that may still be cancelled, or wait for rows that are there.",
    fix="Publish the candidate in an event of its own.",
)
CANDIDATE_PENDING = Diagnostic(
    code="static.candidate-pending",
    contract="After a stage, the next event cancels the candidate or publishes exactly it.",
    why="Another successor of the same parent would race with the candidate for the same slot and position.",
    fix="Cancel the candidate first, or publish it unchanged.",
)
NO_CANDIDATE = Diagnostic(
    code="static.cancel-without-candidate",
    contract="A cancel follows the stage whose candidate it discards.",
    why="A published state has readers; cancelling it would take rows from under them.",
    fix="Stage before cancelling; undo a published state with a successor.",
)
RESTORED = Diagnostic(
    code="static.restored-state-differs",
    contract="A cancel restores the published parent: its generations, parents and frontier, with no row added.",
    why="A frontier that kept the candidate's row exposes K/V that was discarded; new generations hide that it is the "
    "old state.",
    fix="Return the parent state unchanged.",
)
PARENT = Diagnostic(
    code="static.parent-mismatch",
    contract="A successor names the cache and state generation that are published when it is derived.",
    why="Derived from a cancelled or older state, it would bring back rows that are gone or lose rows that are there.",
    fix="Derive the successor from the published state.",
)
GENERATION = Diagnostic(
    code="static.generation-reissued",
    contract="A new state has cache and state generations above every one issued before, cancelled ones included.",
    why="One generation for two states lets a late reader take the K/V of the cancelled rows for the new ones.",
    fix="Issue fresh generations; a cancelled one is spent.",
)
NO_CONTENT = Diagnostic(
    code="static.append-without-content",
    contract="An event that appends rows names their content.",
    why="Positions alone cannot tell rows of a cancelled token from those of its replacement.",
    fix="Give the rows a content id when they are computed.",
)
CANCELLED_CONTENT = Diagnostic(
    code="static.cancelled-content-published",
    contract="Rows whose candidate was cancelled are never appended again.",
    why="The positions are right and the K/V stale: the model attends to a token that was taken back.",
    fix="Compute the rows anew after resume, under a new content id.",
)
CONTENT_REUSED = Diagnostic(
    code="static.content-id-reused",
    contract="A content id names the rows of one event.",
    why="Two appends of one content cannot both be the rows that were computed at their position.",
    fix="Give each append its own content id.",
)
APPEND = Diagnostic(
    code="static.append-not-at-frontier",
    contract="A successor appends one interval of at least one row that begins at its parent's frontier.",
    why="A gap leaves a position without K/V that every later view counts as committed; an overlap writes one twice.",
    fix="Append the positions that follow the frontier.",
)
FRONTIER = Diagnostic(
    code="static.frontier-mismatch",
    contract="A successor's frontier is the exclusive end of the rows that it appends.",
    why="Every view is derived from the frontier; one off, it hides the newest row or shows one that is not there.",
    fix="Advance the frontier by the number of accepted rows.",
)
OMITTED = Diagnostic(
    code="static.omitted-from-source-mismatch",
    contract="omitted_from_source is every committed position that the view lacks.",
    why="Recall and loss reports rest on it; a row missing here is believed visible.",
    fix="Subtract the view from the positions 0 to F - 1.",
)
REMOVED = Diagnostic(
    code="static.removed-from-parent-mismatch",
    contract="removed_from_parent is what the parent's view shows and this view does not.",
    why="A prompt row that was never published has no reader to wait for; listed here, reclamation waits for one, or "
    "frees a row twice.",
    fix="Subtract the view from the parent's view, not from all committed positions.",
)
HANDOFF_PROMPT = Diagnostic(
    code="static.handoff-prompt-mismatch",
    contract="The hand-off names the event that publishes the last prompt row, and all prompt rows as the source.",
    why="Rows of a later event would be released as if no decode step had seen them.",
    fix="Name the publish event whose frontier is the number of prompt rows.",
)
HANDOFF_DESIGN = Diagnostic(
    code="static.handoff-design-mismatch",
    contract="A retrofit after full prefill materialises the prompt before it publishes its view.",
    why="Its prefill holds every prompt row; planned without that peak, admission runs out of memory.",
    fix="Declare materialise_then_publish, or use an architecture that never builds the full prompt cache.",
)
RELEASE = Diagnostic(
    code="static.release-intent-mismatch",
    contract="A materialised prompt releases the source rows that its view omits; another one releases none.",
    why="Rows that are not released leak until the request ends; rows that never existed free foreign memory.",
    fix="Release the source minus the published view.",
)
CHUNK_SUM = Diagnostic(
    code="static.chunks-do-not-partition-prompt",
    contract="The chunks of a prefill add up to the prompt.",
    why="Another number of rows ends at another frontier, and its view proves nothing about this prompt.",
    fix="Cut the whole prompt into chunks.",
)
CHUNK_CLOSURE = Diagnostic(
    code="static.chunk-closure-broken",
    contract="Chunked prefill ends in the views of the total frontier, however the prompt is cut.",
    why="A window that restarts in each chunk depends on the scheduler's chunk size; outputs change with load.",
    fix="Derive the view from the total committed frontier.",
)
RING_SLOT = Diagnostic(
    code="static.ring-slot-mismatch",
    contract="A ring of W rows stores original position p in slot p mod W.",
    why="Another slot belongs to another position; its row is overwritten or read instead.",
    fix="Address by the original position, modulo the rows of the ring.",
)
RING_GONE = Diagnostic(
    code="static.ring-slot-overwritten",
    contract="A ring holds only positions that its window shows at this frontier.",
    why="The slot was reused by a newer position; what lies there is that row.",
    fix="Look up positions of the current window only.",
)
SLOT_AS_POSITION = Diagnostic(
    code="static.slot-used-as-position",
    contract="The attention position of a row in a ring follows its original position and key stage, never its slot.",
    why="Slots wrap around: the newest row can lie in slot 0 and would be taken for the first token.",
    fix="Keep the original position beside the slot.",
)
PACKED_ROWS = Diagnostic(
    code="static.packed-rows-mismatch",
    contract="A retained view has one packed row for each visible position.",
    why="kv_len sizes masks and position tables; counted otherwise, attention reads free rows or misses the newest.",
    fix="Count the rows of the view.",
)
KEY_POSITIONS = Diagnostic(
    code="static.key-position-mismatch",
    contract="Attention takes absolute keys at their original positions, and repositioned ones at 0 to kv_len - 1.",
    why="Absolute keys relabelled by packed row claim distances that their rotation does not have; a repositioned "
    "cache whose newest key keeps its text position has a gap that grows each step.",
    fix="Leave rotated keys alone; under position shift, renumber every key, the newest included.",
)
QUERY_POSITION = Diagnostic(
    code="static.query-position-mismatch",
    contract="The newest row's query stands at F - 1 for absolute keys, and at kv_len - 1 for repositioned ones.",
    why="Rotated by the number of stored rows, the query stands before keys that it should follow.",
    fix="Keep the count of tokens seen apart from the count of stored rows.",
)
EVICTED_EARLY = Diagnostic(
    code="static.evicted-without-need",
    contract="A reservation evicts nothing while resident and incoming rows fit the capacity.",
    why="History is lost although there was room for it.",
    fix="Evict only when resident + incoming > K_s + W.",
)
OVERSIZED = Diagnostic(
    code="static.reservation-exceeds-recent",
    contract="More incoming rows than the recent partition are refused, or appended in pieces of at most W rows.",
    why="The slice of old recent rows is empty: every recent row is lost, and the append still overruns the cache.",
    fix="Refuse the reservation or take the chunk path; do not reserve a whole reply at once.",
)
DECISION = Diagnostic(
    code="static.reservation-decision-mismatch",
    contract="Where rows must be evicted and the incoming ones fit the recent partition, old recent rows make room; "
    "more incoming rows take the declared oversize path.",
    why="Without room the append overruns the cache; on another path than declared, callers see lost or refused rows.",
    fix="Follow the reservation rule for these counts.",
)
RESERVED_ROWS = Diagnostic(
    code="static.reservation-rows-mismatch",
    contract="An evicting reservation of n rows keeps the sinks and the newest W - n resident rows; after the append "
    "the cache holds at most K_s + W rows.",
    why="A wrong row kept is a wrong view after the append; a wrong count overruns the cache or wastes rows.",
    fix="Keep [0, K_s) and [resident - W + n, resident).",
)
PINNED = Diagnostic(
    code="static.pinned-reservation-mismatch",
    contract="The labelled alternative is what evict_for_space of the pinned StreamingLLM code leaves, overrun too.",
    why="A deviation that is reported wrongly can be neither checked for nor worked around.",
    fix="Follow the slices of the pinned code, which neither checks nor refuses.",
)
HISTORY_READ = Diagnostic(
    code="static.history-read-mismatch",
    contract="A decode step reads the cached view at its history frontier; the current row is counted for no policy.",
    why="The current row charged to one policy and not to another makes the difference between them wrong.",
    fix="Count the rows of the view before the append.",
)
RECOMPUTE_WORK = Diagnostic(
    code="static.recompute-work-mismatch",
    contract="A recomputation step projects n = min(W, F) rows and attends n (n + 1) / 2 causal pairs, at the frontier "
    "F after the step.",
    why="W^2 counts pairs that causality forbids; W rows during warm-up counts rows that do not exist.",
    fix="Count the causal triangle of the rows in the window.",
)
RETAINED_WORK = Diagnostic(
    code="static.retained-work-mismatch",
    contract="A retained step projects one row and attends the view after the step, self included.",
    why="Without self the retained side is flattered by one pair a step against a baseline that counts it.",
    fix="Count the visible rows at the frontier after the step.",
)
NOT_COMMITTED = Diagnostic(
    code="static.reference-not-committed",
    contract="A delayed reference asks for a committed position.",
    why="A position past the frontier is invisible to every policy, so the question separates none of them.",
    fix="Ask for a position below the frontier.",
)
VISIBILITY = Diagnostic(
    code="static.visibility-misreported",
    contract="A position is visible under a policy exactly if its view at this frontier shows it.",
    why="A fact that is said to be visible and is not will be looked for in the model instead of in the cache.",
    fix="Derive visibility from the view; a sink keeps its own row, not the rows between.",
)
QUALITY = Diagnostic(
    code="static.quality-claimed",
    contract="Delayed references decide visibility; task_quality is null.",
    why="Newer value rows may carry some of a hidden fact, and a visible one may go unused; only running the "
    "checkpoint tells.",
    fix="Leave task_quality null, and measure quality on the checkpoint.",
)
DRIFT = Diagnostic(
    code="static.declared-drift",
    contract="The declared results of the fixture are those that the oracle recomputes.",
    why="A number that is cited is no longer the number that the evidence gives.",
    fix="Find out which of the two is wrong; if the fixture's inputs are right, "
    "run `kvaudit regenerate --redeclare` and review the difference.",
)

DIAGNOSTICS = (
    UNKNOWN_CHECKPOINT,
    RETROFIT_AS_LOCAL,
    LOCAL_AS_RETROFIT,
    LOCAL_WINDOW,
    NORMALISATION,
    SINK_KIND,
    KEY_PATH,
    VARIANT_CLAIM,
    SEQUENCE_AXIS,
    TOKEN_BYTES,
    FULL_SET,
    WINDOW_SET,
    SINK_RECENT_SET,
    OVERLAP,
    COUNTED_TWICE,
    EARLY_FRONTIERS,
    LANDMARK,
    EVENT_NAME,
    ORIGIN,
    PUBLISHED_FLAG,
    CANDIDATE_PENDING,
    NO_CANDIDATE,
    RESTORED,
    PARENT,
    GENERATION,
    NO_CONTENT,
    CANCELLED_CONTENT,
    CONTENT_REUSED,
    APPEND,
    FRONTIER,
    OMITTED,
    REMOVED,
    HANDOFF_PROMPT,
    HANDOFF_DESIGN,
    RELEASE,
    CHUNK_SUM,
    CHUNK_CLOSURE,
    RING_SLOT,
    RING_GONE,
    SLOT_AS_POSITION,
    PACKED_ROWS,
    KEY_POSITIONS,
    QUERY_POSITION,
    EVICTED_EARLY,
    OVERSIZED,
    DECISION,
    RESERVED_ROWS,
    PINNED,
    HISTORY_READ,
    RECOMPUTE_WORK,
    RETAINED_WORK,
    NOT_COMMITTED,
    VISIBILITY,
    QUALITY,
    DRIFT,
)

_SET_DIAGNOSTICS = {"full": FULL_SET, "sliding_window": WINDOW_SET, "sink_recent": SINK_RECENT_SET}


@dataclass(frozen=True, slots=True)
class _Widths:
    """The row counts of the two bounded policies."""

    window_rows: int
    sink_rows: int
    recent_rows: int

    def view(self, policy: str, frontier: int) -> Intervals:
        """Return what a policy shows at a frontier."""
        if policy == "full":
            return full_cache.visible(frontier)
        if policy == "sliding_window":
            return sliding_window.visible(frontier, self.window_rows)
        return streaming_llm.visible(frontier, self.sink_rows, self.recent_rows)

    def rows(self, policy: str, frontier: int) -> int:
        """Return how many rows a policy shows at a frontier, by its formula and not by counting the view."""
        if policy == "full":
            return full_cache.visible_rows(frontier)
        if policy == "sliding_window":
            return sliding_window.visible_rows(frontier, self.window_rows)
        return streaming_llm.visible_rows(frontier, self.sink_rows, self.recent_rows)


@dataclass(frozen=True, slots=True)
class _Step:
    """An event of a trace, and the frontier of the state from which the event's state descends."""

    event: Document
    parent_frontier: int


def oracle(fixture: Document) -> Evidence:
    """Return the evidence of a static-retention fixture, or raise the first `ContractViolation` in the order above."""
    widths = _widths(fixture["policies"])
    for policy in POLICIES:
        _judge_contract(fixture["policies"][policy], fixture["checkpoints"], pointer("policies", policy))
    _judge_variants(fixture)
    _judge_layouts(fixture["cache_layouts"])
    geometry = _geometry(fixture["geometry"])
    _require(TOKEN_BYTES, fixture["geometry"]["token_bytes"], geometry.token_bytes(), "/geometry/token_bytes")
    _judge_frontiers(fixture, widths)
    steps = _trace(fixture["events"])
    _judge_views(steps, widths)
    prompt = _judge_handoff(fixture, steps, widths)
    _judge_chunks(fixture["chunked_prefill"], prompt.event["frontier"], widths)
    _judge_ring(fixture, widths)
    _judge_positions(fixture["attention_positions"], widths)
    _judge_reservations(fixture["reservations"])
    _judge_decode_steps(fixture["decode_steps"], widths)
    _judge_references(fixture["delayed_reference"], widths)
    return _evidence(fixture, steps, prompt, widths, geometry)


def refresh_digests(fixture: Document) -> Document:
    """Return the fixture as it is: no member of it is a digest of another."""
    return fixture


def _judge_contract(contract: Document, checkpoints: Document, where: str) -> None:
    checkpoint = checkpoints.get(contract["checkpoint"])
    if checkpoint is None:
        reason = f"expected one of {joined(checkpoints)}, found {contract['checkpoint']}"
        raise ContractViolation(UNKNOWN_CHECKPOINT, where + "/checkpoint", reason)
    _judge_design(contract, checkpoint["trained_window_rows"], where)
    _require(NORMALISATION, contract["normalisation"], checkpoint["normalisation"], where + "/normalisation")
    if "sink_kind" in contract:
        _judge_sink_kind(contract, checkpoint["trained_sink_tokens"], where)
    path = streaming_llm.ATTENTION_PATHS[contract["key_stage"]]
    _require(KEY_PATH, contract["attention_path"], path, where + "/attention_path")


def _judge_design(contract: Document, trained_window_rows: int | None, where: str) -> None:
    design = contract.get("design")  # the full cache has none: it bounds nothing
    if design == ARCHITECTURE_LOCAL and trained_window_rows is None:
        reason = f"the checkpoint {contract['checkpoint']} was trained with full attention: expected {RETROFIT}"
        raise ContractViolation(RETROFIT_AS_LOCAL, where + "/design", f"{reason}, found {design}")
    if design == RETROFIT and trained_window_rows is not None:
        reason = f"the checkpoint {contract['checkpoint']} was trained with a window: expected {ARCHITECTURE_LOCAL}"
        raise ContractViolation(LOCAL_AS_RETROFIT, where + "/design", f"{reason}, found {design}")
    if design == ARCHITECTURE_LOCAL:
        width = "window_rows" if "window_rows" in contract else "recent_rows"
        _require(LOCAL_WINDOW, contract[width], trained_window_rows, where + pointer(width))


def _judge_sink_kind(contract: Document, trained_sink_tokens: int, where: str) -> None:
    kind, rows = contract["sink_kind"], contract["sink_rows"]
    if kind == NO_SINK:
        _require(SINK_KIND, rows, 0, where + "/sink_rows")
        return
    if (kind == TRAINED_SINK_TOKEN) != (trained_sink_tokens > 0):
        reason = f"the checkpoint was trained with {trained_sink_tokens} sink tokens, found {kind}"
        raise ContractViolation(SINK_KIND, where + "/sink_kind", reason)
    if kind == TRAINED_SINK_TOKEN:
        _require(SINK_KIND, rows, trained_sink_tokens, where + "/sink_rows")


def _contract_facts(contract: Document, checkpoints: Document) -> Document:
    """Return what makes a policy the policy it is, so that two can be compared fact by fact."""
    checkpoint = checkpoints[contract["checkpoint"]]
    return {
        "trained_window_rows": checkpoint["trained_window_rows"],
        "trained_sink_tokens": checkpoint["trained_sink_tokens"],
        "normalisation": contract["normalisation"],
        "design": contract.get("design"),
        "sink_kind": contract.get("sink_kind", NO_SINK),
        "sink_rows": contract.get("sink_rows", 0),
        "recent_rows": contract.get("recent_rows", contract.get("window_rows")),
        "key_stage": contract["key_stage"],
        "attention_path": contract["attention_path"],
    }


def _judge_variants(fixture: Document) -> None:
    for name, variant in fixture["contract_variants"].items():
        where = pointer("contract_variants", name)
        _judge_contract(variant["contract"], fixture["checkpoints"], where + "/contract")
        different = _differences(fixture, variant)
        expected = "different_contract" if different else "retention"
        if variant["claimed_as"] != expected:
            reason = f"expected {expected}, found {variant['claimed_as']}; it differs in {joined(different)}"
            raise ContractViolation(VARIANT_CLAIM, where + "/claimed_as", reason)


def _differences(fixture: Document, variant: Document) -> list[str]:
    """Return the contract facts in which a variant differs from the policy that it resembles."""
    own = _contract_facts(variant["contract"], fixture["checkpoints"])
    other = _contract_facts(fixture["policies"][variant["resembles"]], fixture["checkpoints"])
    return [name for name in own if own[name] != other[name]]


def _judge_layouts(layouts: Document) -> None:
    for family, (key_axis, value_axis) in streaming_llm.SEQUENCE_AXES.items():
        for tensor, axis in (("key", key_axis), ("value", value_axis)):
            where = pointer("cache_layouts", family, tensor)
            layout = layouts[family][tensor]
            _require(SEQUENCE_AXIS, layout["sequence_axis"], axis, where + "/sequence_axis")
            found = layout["dimensions"].index("position")
            if found != axis:
                reason = f"expected positions on axis {axis}, found them on axis {found}"
                raise ContractViolation(SEQUENCE_AXIS, where + "/dimensions", reason)


def _judge_frontiers(fixture: Document, widths: _Widths) -> None:
    sinks, recents = widths.sink_rows, widths.recent_rows
    table = fixture["frontier_receipts"]
    for index, receipt in enumerate(table):
        where, frontier = pointer("frontier_receipts", index), receipt["frontier"]
        overlap = streaming_llm.overlap_rows(frontier, sinks, recents)
        _require(FULL_SET, receipt["full_rows"], widths.rows("full", frontier), where + "/full_rows")
        for policy in BOUNDED_POLICIES:
            _require_view(policy, receipt[policy], widths.view(policy, frontier), where + pointer(policy))
        rows = widths.rows("sliding_window", frontier)
        _require(WINDOW_SET, receipt["sliding_window_rows"], rows, where + "/sliding_window_rows")
        _require(OVERLAP, receipt["overlap_rows"], overlap, where + "/overlap_rows")
        rows = widths.rows("sink_recent", frontier)
        _require(COUNTED_TWICE, receipt["sink_recent_rows"], rows, where + "/sink_recent_rows")
    full = streaming_llm.first_upper_bound(sinks, recents)
    omission = streaming_llm.first_middle_omission(sinks, recents)
    _require(LANDMARK, fixture["landmarks"]["first_upper_bound"], full, "/landmarks/first_upper_bound")
    _require(LANDMARK, fixture["landmarks"]["first_middle_omission"], omission, "/landmarks/first_middle_omission")
    frontiers = {receipt["frontier"] for receipt in table}
    for wanted in (full, omission):
        if wanted not in frontiers:
            raise ContractViolation(EARLY_FRONTIERS, "/frontier_receipts", f"expected a receipt at frontier {wanted}")
    if not any(receipt["overlap_rows"] for receipt in table):
        raise ContractViolation(EARLY_FRONTIERS, "/frontier_receipts", "expected a receipt with overlap, found none")


def _trace(events: list[Document]) -> tuple[_Step, ...]:
    """Return the events as steps, or raise the first violation of origin, successor, stage, cancel or resume."""
    _judge_origin(events[0])
    published = _Step(events[0], 0)
    steps, newest = [published], events[0]
    candidate: Document | None = None
    names = {events[0]["event"]}
    contents: set[str] = set()
    cancelled: set[str] = set()
    for index, event in enumerate(events[1:], start=1):
        where = pointer("events", index)
        kind = event["kind"]
        if event["event"] in names:
            raise ContractViolation(EVENT_NAME, where + "/event", f"a second event is called {event['event']}")
        if kind == "origin":
            raise ContractViolation(ORIGIN, where + "/kind", "expected no origin but the first event")
        _require(PUBLISHED_FLAG, event["published"], kind != "stage", where + "/published")
        if kind == "cancel":
            if candidate is None:
                raise ContractViolation(NO_CANDIDATE, where + "/kind", "expected a staged candidate, found none")
            _judge_restored(event, published.event, where)
            cancelled.add(candidate["content_id"])
            step, candidate = _Step(event, published.parent_frontier), None
        elif candidate is not None:
            _judge_publication_of_candidate(event, candidate, where)
            step, candidate = _Step(event, published.event["frontier"]), None
        else:
            _judge_successor(event, published.event, newest, where)
            _judge_content(event["content_id"], contents, cancelled, where + "/content_id")
            step, newest = _Step(event, published.event["frontier"]), event
            candidate = event if kind == "stage" else None
            contents.add(event["content_id"])
        if event["published"]:
            published = step
        names.add(event["event"])
        steps.append(step)
    return tuple(steps)


def _judge_origin(event: Document) -> None:
    where = pointer("events", 0)
    expected: Document = {
        "kind": "origin",
        "appended": [],
        "content_id": None,
        "parent_cache_generation": None,
        "parent_state_generation": None,
        "frontier": 0,
    }
    for name, value in expected.items():
        _require(ORIGIN, event[name], value, where + pointer(name))
    _require(PUBLISHED_FLAG, event["published"], True, where + "/published")


def _judge_restored(event: Document, parent: Document, where: str) -> None:
    for name in _STATE_MEMBERS:
        _require(RESTORED, event[name], parent[name], where + pointer(name))
    _require(RESTORED, event["appended"], [], where + "/appended")
    _require(RESTORED, event["content_id"], None, where + "/content_id")


def _judge_publication_of_candidate(event: Document, candidate: Document, where: str) -> None:
    if event["kind"] != "publish":
        reason = f"expected {candidate['event']} to be cancelled or published, found {event['kind']}"
        raise ContractViolation(CANDIDATE_PENDING, where + "/kind", reason)
    for name in _CANDIDATE_MEMBERS:
        _require(CANDIDATE_PENDING, event[name], candidate[name], where + pointer(name))


def _judge_successor(event: Document, parent: Document, newest: Document, where: str) -> None:
    for name in ("cache_generation", "state_generation"):
        _require(PARENT, event[f"parent_{name}"], parent[name], where + pointer(f"parent_{name}"))
    for name in ("cache_generation", "state_generation"):
        if event[name] <= newest[name]:
            reason = f"expected a generation above {newest[name]}, found {event[name]}"
            raise ContractViolation(GENERATION, where + pointer(name), reason)
    appended, frontier = event["appended"], parent["frontier"]
    if len(appended) != 1 or appended[0][0] != frontier or appended[0][1] <= frontier:
        reason = f"expected one interval of rows from {frontier} on, found {joined(appended)}"
        raise ContractViolation(APPEND, where + "/appended", reason)
    _require(FRONTIER, event["frontier"], appended[0][1], where + "/frontier")


def _judge_content(content_id: str | None, contents: set[str], cancelled: set[str], where: str) -> None:
    if content_id is None:
        raise ContractViolation(NO_CONTENT, where, "expected the content id of the appended rows, found null")
    if content_id in cancelled:
        raise ContractViolation(CANCELLED_CONTENT, where, f"{content_id} belongs to a cancelled candidate")
    if content_id in contents:
        raise ContractViolation(CONTENT_REUSED, where, f"{content_id} already names the rows of another event")


def _judge_views(steps: Sequence[_Step], widths: _Widths) -> None:
    for index, step in enumerate(steps):
        for policy in POLICIES:
            where, stated = pointer("events", index, "views", policy), step.event["views"][policy]
            view, omitted, removed = _view_facts(step, policy, widths)
            _require_view(policy, stated["selected"], view, where + "/selected")
            _require(OMITTED, stated["omitted_from_source"], _pairs(omitted), where + "/omitted_from_source")
            _require(REMOVED, stated["removed_from_parent"], _pairs(removed), where + "/removed_from_parent")


def _view_facts(step: _Step, policy: str, widths: _Widths) -> tuple[Intervals, Intervals, Intervals]:
    """Return what a state shows, which committed positions it omits, and which of its parent's it no longer shows."""
    frontier = step.event["frontier"]
    view = widths.view(policy, frontier)
    removed = difference(widths.view(policy, step.parent_frontier), view)
    return view, difference(interval(0, frontier), view), removed


def _judge_handoff(fixture: Document, steps: Sequence[_Step], widths: _Widths) -> _Step:
    """Return the step that publishes the last prompt row; chunks before it may have been published on their own."""
    handoff = fixture["prompt_handoff"]
    rows = handoff["prompt_rows"]
    prompt = next((step for step in steps if step.event["event"] == handoff["event"]), None)
    if prompt is None or prompt.event["kind"] != "publish" or prompt.event["frontier"] != rows:
        reason = f"expected the event that publishes frontier {rows}, found {handoff['event']}"
        raise ContractViolation(HANDOFF_PROMPT, "/prompt_handoff/event", reason)
    source = interval(0, rows)
    _require(HANDOFF_PROMPT, handoff["source"], _pairs(source), "/prompt_handoff/source")
    for policy in BOUNDED_POLICIES:
        where, stated = pointer("prompt_handoff", policy), handoff[policy]
        design = fixture["policies"][policy]["design"]
        if design == RETROFIT and stated["design"] != prompt_handoff.MATERIALISE_THEN_PUBLISH:
            reason = f"{design} needs {prompt_handoff.MATERIALISE_THEN_PUBLISH}, found {stated['design']}"
            raise ContractViolation(HANDOFF_DESIGN, where + "/design", reason)
        view = widths.view(policy, rows)
        _require_view(policy, stated["published"], view, where + "/published")
        release = prompt_handoff.release_intent(stated["design"], source, view)
        _require(RELEASE, stated["release_intent"], _pairs(release), where + "/release_intent")
    return prompt


def _judge_chunks(prefills: Document, prompt_rows: int, widths: _Widths) -> None:
    for name, prefill in prefills.items():
        where = pointer("chunked_prefill", name)
        total = sum(prefill["chunk_rows"])
        if total != prompt_rows:
            reason = f"expected chunks of {prompt_rows} rows in all, found {total}"
            raise ContractViolation(CHUNK_SUM, where + "/chunk_rows", reason)
        for policy in POLICIES:
            view = _pairs(widths.view(policy, prompt_rows))
            _require(CHUNK_CLOSURE, prefill["final_views"][policy], view, where + pointer("final_views", policy))


def _judge_ring(fixture: Document, widths: _Widths) -> None:
    ring = fixture["ring"]
    view = widths.view("sliding_window", ring["frontier"])
    for index, row in enumerate(ring["rows"]):
        where, position = pointer("ring", "rows", index), row["original_position"]
        if not contains(view, position):
            reason = f"expected a position of the window {joined(_pairs(view))}, found {position}"
            raise ContractViolation(RING_GONE, where + "/original_position", reason)
        _require(RING_SLOT, row["slot"], sliding_window.ring_slot(position, widths.window_rows), where + "/slot")
        consumed = _attention_position(position, view, fixture["policies"]["sliding_window"]["key_stage"])
        _require(SLOT_AS_POSITION, row["attention_position"], consumed, where + "/attention_position")


def _attention_position(position: int, view: Intervals, key_stage: str) -> int:
    """Return the position at which attention takes the key of one position of a window, which is one interval."""
    first, _ = view[0]
    keys, _ = streaming_llm.key_positions(view, key_stage)[0]
    return keys + position - first


def _judge_positions(receipts: Document, widths: _Widths) -> None:
    for name, receipt in receipts.items():
        where = pointer("attention_positions", name)
        policy, frontier, stage = receipt["policy"], receipt["frontier"], receipt["key_stage"]
        path = streaming_llm.ATTENTION_PATHS[stage]
        _require(KEY_PATH, receipt["attention_path"], path, where + "/attention_path")
        view = widths.view(policy, frontier)
        _require_view(policy, receipt["original_positions"], view, where + "/original_positions")
        _require(PACKED_ROWS, receipt["packed_rows"], widths.rows(policy, frontier), where + "/packed_rows")
        keys = _pairs(streaming_llm.key_positions(view, stage))
        _require(KEY_POSITIONS, receipt["key_attention_positions"], keys, where + "/key_attention_positions")
        query = streaming_llm.query_position(frontier, view, stage)
        _require(QUERY_POSITION, receipt["query_attention_position"], query, where + "/query_attention_position")


def _judge_reservations(reservations: Document) -> None:
    for name, case in reservations.items():
        where, stated, pinned = pointer("reservations", name), case["contract"], case["pinned_code"]
        expected = _reservation(case)
        decision, found = expected.decision, stated["decision"]
        if found != decision:
            diagnostic = DECISION
            if decision == streaming_llm.FITS:
                diagnostic = EVICTED_EARLY
            elif case["incoming_rows"] > case["recent_rows"] and found in (streaming_llm.FITS, streaming_llm.EVICT):
                diagnostic = OVERSIZED
            reason = f"expected {decision} for {_reservation_words(case)}, found {found}"
            raise ContractViolation(diagnostic, where + "/contract/decision", reason)
        _require(RESERVED_ROWS, stated["kept_rows"], _pairs(expected.kept), where + "/contract/kept_rows")
        rows = expected.rows_after_append
        _require(RESERVED_ROWS, stated["rows_after_append"], rows, where + "/contract/rows_after_append")
        kept, rows = _pinned(case)
        _require(PINNED, pinned["kept_rows"], _pairs(kept), where + "/pinned_code/kept_rows")
        _require(PINNED, pinned["rows_after_append"], rows, where + "/pinned_code/rows_after_append")


def _reservation(case: Document) -> streaming_llm.Reservation:
    return streaming_llm.reserve(
        case["resident_rows"], case["incoming_rows"], case["sink_rows"], case["recent_rows"], case["oversize_path"]
    )


def _pinned(case: Document) -> tuple[Intervals, int]:
    return streaming_llm.pinned_evict_for_space(
        case["resident_rows"], case["incoming_rows"], case["sink_rows"], case["recent_rows"]
    )


def _reservation_words(case: Document) -> str:
    return (
        f"{case['incoming_rows']} rows on {case['resident_rows']} in a cache of "
        f"{case['sink_rows']} sinks and {case['recent_rows']} recents"
    )


def _judge_decode_steps(steps: list[Document], widths: _Widths) -> None:
    for index, step in enumerate(steps):
        where, frontier = pointer("decode_steps", index), step["history_frontier"]
        for policy in POLICIES:
            rows = widths.rows(policy, frontier)
            _require(HISTORY_READ, step["history_rows"][policy], rows, where + pointer("history_rows", policy))
        work = _step_work(frontier, widths)
        for name, value in work.items():
            diagnostic = RECOMPUTE_WORK if name.startswith("recompute") else RETAINED_WORK
            _require(diagnostic, step["work"][name], value, where + pointer("work", name))


def _step_work(history_frontier: int, widths: _Widths) -> dict[str, int]:
    """Return the work of the decode step that appends the row at `history_frontier`, recomputed and retained."""
    after = history_frontier + 1
    return {
        "recompute_rows": sliding_window.recomputed_rows(after, widths.window_rows),
        "recompute_pairs": sliding_window.recomputed_pairs(after, widths.window_rows),
        "retained_rows": streaming_llm.PROJECTED_ROWS_A_STEP,
        "retained_pairs": streaming_llm.retained_pairs(after, widths.sink_rows, widths.recent_rows),
    }


def _judge_references(reference: Document, widths: _Widths) -> None:
    frontier = reference["frontier"]
    for index, asked in enumerate(reference["references"]):
        where, position = pointer("delayed_reference", "references", index), asked["original_position"]
        if position >= frontier:
            reason = f"expected a position below the frontier {frontier}, found {position}"
            raise ContractViolation(NOT_COMMITTED, where + "/original_position", reason)
        for policy in POLICIES:
            visible = contains(widths.view(policy, frontier), position)
            _require(VISIBILITY, asked["visible"][policy], visible, where + pointer("visible", policy))
    if reference["task_quality"] is not None:
        raise ContractViolation(QUALITY, "/delayed_reference/task_quality", "expected null, found a number")


def _evidence(
    fixture: Document, steps: tuple[_Step, ...], prompt: _Step, widths: _Widths, geometry: Geometry
) -> Evidence:
    decode, instances = fixture["decode_steps"], _read_instances(fixture)
    work = {
        name: sum(step["work"][name] for step in decode)
        for name in ("recompute_rows", "recompute_pairs", "retained_rows", "retained_pairs")
    }
    token_bytes = geometry.token_bytes()
    read = "visible rows, summed over history frontiers, * token_bytes"
    ledgers = (
        LedgerRow("cached_history_read_full", instances["full"] * token_bytes, "B", read),
        LedgerRow("cached_history_read_window", instances["sliding_window"] * token_bytes, "B", read),
        LedgerRow("cached_history_read_sink_recent", instances["sink_recent"] * token_bytes, "B", read),
        LedgerRow("recompute_rows_projected", work["recompute_rows"], "rows", "sum of min(W, F + 1)"),
        LedgerRow("recompute_pairs", work["recompute_pairs"], "pairs", "sum of n (n + 1) / 2, n = min(W, F + 1)"),
        LedgerRow("retained_rows_projected", work["retained_rows"], "rows", "1 a step"),
        LedgerRow("retained_pairs", work["retained_pairs"], "pairs", "sum of visible sink and recent rows at F + 1"),
    )
    return Evidence(
        results=_results(fixture, steps, prompt, widths, geometry),
        ledgers=ledgers,
        snapshots=tuple(_snapshot(step.event, policy, widths) for step in steps for policy in POLICIES),
        comparisons=(
            Comparison(
                "cached_history_read",
                "B",
                "one request, one geometry, the same history frontiers; logical payload without the current row",
                ("cached_history_read_full", "cached_history_read_window", "cached_history_read_sink_recent"),
            ),
            Comparison(
                "decode_attention_pairs",
                "pairs",
                "the same decode steps, one layer and query head; query-key pairs, self included",
                ("recompute_pairs", "retained_pairs"),
            ),
        ),
    )


def _read_instances(fixture: Document) -> dict[str, int]:
    """Return how many cached rows each policy reads over all decode steps; a row read in two steps counts twice."""
    return {policy: sum(step["history_rows"][policy] for step in fixture["decode_steps"]) for policy in POLICIES}


def _snapshot(event: Document, policy: str, widths: _Widths) -> Snapshot:
    frontier = event["frontier"]
    return Snapshot(
        policy=policy,
        step=event["event"],
        owner="every layer and K/V head",
        state_generation=event["state_generation"],
        cache_generation=event["cache_generation"],
        selected_original_positions=_positions(widths.view(policy, frontier)),
        selected_row_count=widths.rows(policy, frontier),
        published=event["published"],
    )


def _results(
    fixture: Document, steps: tuple[_Step, ...], prompt: _Step, widths: _Widths, geometry: Geometry
) -> Document:
    sinks, recents = widths.sink_rows, widths.recent_rows
    return {
        "widths": {"window_rows": widths.window_rows, "sink_rows": sinks, "recent_rows": recents},
        "token_bytes": geometry.token_bytes(),
        "frontiers": [_frontier_row(receipt["frontier"], widths) for receipt in fixture["frontier_receipts"]],
        "first_upper_bound": streaming_llm.first_upper_bound(sinks, recents),
        "first_middle_omission": streaming_llm.first_middle_omission(sinks, recents),
        "events": {step.event["event"]: _event_result(step, widths) for step in steps},
        "cancellations": _cancellations(steps, widths),
        "alternative_trace": _alternative(fixture["alternative_trace"]),
        "prompt_handoff": {policy: _handoff_result(fixture, policy, prompt, widths) for policy in BOUNDED_POLICIES},
        "chunked_prefill": {
            name: _chunk_result(prefill["chunk_rows"], widths) for name, prefill in fixture["chunked_prefill"].items()
        },
        "ring": _ring_result(fixture, widths),
        "attention_positions": {
            name: _position_result(receipt, widths) for name, receipt in fixture["attention_positions"].items()
        },
        "contract_variants": {
            name: _variant_result(fixture, variant, prompt.event["frontier"])
            for name, variant in fixture["contract_variants"].items()
        },
        "cache_shapes": _cache_shapes(fixture["cache_layouts"], geometry, sinks + recents),
        "reservations": {name: _reservation_result(case) for name, case in fixture["reservations"].items()},
        "decode_steps": len(fixture["decode_steps"]),
        "read_instances": _read_instances(fixture),
        "delayed_reference": _reference_result(fixture["delayed_reference"], widths),
        "running_shape": _running_shape(fixture["running_shape"], geometry),
    }


def _frontier_row(frontier: int, widths: _Widths) -> Document:
    return {
        "frontier": frontier,
        "full_rows": widths.rows("full", frontier),
        "sliding_window_rows": widths.rows("sliding_window", frontier),
        "sink_recent_rows": widths.rows("sink_recent", frontier),
        "overlap_rows": streaming_llm.overlap_rows(frontier, widths.sink_rows, widths.recent_rows),
        "sliding_window": _pairs(widths.view("sliding_window", frontier)),
        "sink_recent": _pairs(widths.view("sink_recent", frontier)),
    }


def _event_result(step: _Step, widths: _Widths) -> Document:
    event = step.event
    views = {}
    for policy in POLICIES:
        view, omitted, removed = _view_facts(step, policy, widths)
        views[policy] = {
            "selected": _pairs(view),
            "omitted_from_source": _pairs(omitted),
            "removed_from_parent": _pairs(removed),
        }
    return {
        "kind": event["kind"],
        "appended": event["appended"],
        "content_id": event["content_id"],
        "cache_generation": event["cache_generation"],
        "state_generation": event["state_generation"],
        "parent_frontier": step.parent_frontier,
        "frontier": event["frontier"],
        "published": event["published"],
        "views": views,
    }


def _cancellations(steps: tuple[_Step, ...], widths: _Widths) -> list[Document]:
    """Return each cancelled candidate with the parent before it, the state after it, and what took its place."""
    found = []
    for index, step in enumerate(steps):
        if step.event["kind"] != "cancel":
            continue
        # A cancel follows its stage at once, and the state before the stage is the published parent.
        parent, candidate = steps[index - 2].event, steps[index - 1].event
        resume = steps[index + 1].event if index + 1 < len(steps) else None
        found.append(
            {
                "parent": _state(parent, widths),
                "candidate": _state(candidate, widths),
                "restored": _state(step.event, widths),
                "visible_again": {
                    policy: _pairs(
                        difference(widths.view(policy, parent["frontier"]), widths.view(policy, candidate["frontier"]))
                    )
                    for policy in POLICIES
                },
                "resume": None if resume is None else _state(resume, widths),
                "cancelled_content_id": candidate["content_id"],
                "resumed_content_id": None if resume is None else resume["content_id"],
            }
        )
    return found


def _state(event: Document, widths: _Widths) -> Document:
    return {
        "event": event["event"],
        "cache_generation": event["cache_generation"],
        "state_generation": event["state_generation"],
        "frontier": event["frontier"],
        "views": {policy: _pairs(widths.view(policy, event["frontier"])) for policy in POLICIES},
    }


def _alternative(trace: Document) -> Document:
    """Return the [cache, state] generation pairs that another reading of the trace gives to two states.

    A publication of the candidate that was staged just before is the same state and issues no pair of its own.
    """
    states: Counter[tuple[int, int]] = Counter()
    staged = None
    for event in trace["events"]:
        pair = (event["cache_generation"], event["state_generation"])
        if event["kind"] in ("publish", "stage") and pair != staged:
            states[pair] += 1
        staged = pair if event["kind"] == "stage" else None
    return {
        "label": trace["label"],
        "events": len(trace["events"]),
        "generation_collisions": [list(pair) for pair, count in states.items() if count > 1],
    }


def _handoff_result(fixture: Document, policy: str, prompt: _Step, widths: _Widths) -> Document:
    design = fixture["prompt_handoff"][policy]["design"]
    view, omitted, removed = _view_facts(prompt, policy, widths)
    source = interval(0, prompt.event["frontier"])
    return {
        "design": design,
        "source": _pairs(source),
        "published": _pairs(view),
        "omitted_from_source": _pairs(omitted),
        "removed_from_parent": _pairs(removed),
        "release_intent": {
            each: _pairs(prompt_handoff.release_intent(each, source, view)) for each in prompt_handoff.DESIGNS
        },
    }


def _chunk_result(chunk_rows: list[int], widths: _Widths) -> Document:
    """Return the final views, and as a labelled alternative the window that only looks at the last chunk."""
    frontier, last = sum(chunk_rows), chunk_rows[-1]
    return {
        "chunks": len(chunk_rows),
        "frontier": frontier,
        "final_views": {policy: _pairs(widths.view(policy, frontier)) for policy in POLICIES},
        "window_if_restarted_in_each_chunk": _pairs(interval(frontier - widths.rows("sliding_window", last), frontier)),
    }


def _ring_result(fixture: Document, widths: _Widths) -> Document:
    frontier, stage = fixture["ring"]["frontier"], fixture["policies"]["sliding_window"]["key_stage"]
    view = widths.view("sliding_window", frontier)
    positions = [row["original_position"] for row in fixture["ring"]["rows"]]
    return {
        "frontier": frontier,
        "window": _pairs(view),
        "rows": [
            {
                "original_position": position,
                "slot": sliding_window.ring_slot(position, widths.window_rows),
                "attention_position": _attention_position(position, view, stage),
            }
            for position in positions
        ],
    }


def _position_result(receipt: Document, widths: _Widths) -> Document:
    frontier, stage = receipt["frontier"], receipt["key_stage"]
    view = widths.view(receipt["policy"], frontier)
    keys = streaming_llm.key_positions(view, stage)
    query = streaming_llm.query_position(frontier, view, stage)
    return {
        "policy": receipt["policy"],
        "key_stage": stage,
        "attention_path": receipt["attention_path"],
        "frontier": frontier,
        "original_positions": _pairs(view),
        "packed_rows": size(view),
        "key_attention_positions": _pairs(keys),
        "query_attention_position": query,
        "distance_to_first_key": query - keys[0][0],
    }


def _variant_result(fixture: Document, variant: Document, prompt_rows: int) -> Document:
    contract = variant["contract"]
    rows = streaming_llm.visible_rows(prompt_rows, contract["sink_rows"], contract["recent_rows"])
    return {
        "resembles": variant["resembles"],
        "claimed_as": variant["claimed_as"],
        "differs_in": _differences(fixture, variant),
        "visible_rows_after_prompt": rows,
        "mass_at_equal_logits": streaming_llm.mass_at_equal_logits(rows, contract["normalisation"]),
    }


def _cache_shapes(layouts: Document, geometry: Geometry, rows: int) -> Document:
    """Return the shape of K and V of one layer and sequence in each family once the cache holds `rows` rows."""
    lengths = {
        "batch": geometry.batch,
        "kv_head": geometry.kv_heads,
        "batch_kv_head": geometry.batch * geometry.kv_heads,
        "position": rows,
        "channel": geometry.head_dimension,
    }
    return {
        family: {
            tensor: {
                "sequence_axis": layout["sequence_axis"],
                "shape": [lengths[dimension] for dimension in layout["dimensions"]],
            }
            for tensor, layout in tensors.items()
        }
        for family, tensors in layouts.items()
    }


def _reservation_result(case: Document) -> Document:
    capacity = case["sink_rows"] + case["recent_rows"]
    reservation, (kept, rows) = _reservation(case), _pinned(case)
    pieces: tuple[int | None, int | None] = (None, None)
    if reservation.decision == streaming_llm.CHUNK:
        pieces = streaming_llm.pieces(case["incoming_rows"], case["recent_rows"])
    return {
        "capacity_rows": capacity,
        "resident_rows": case["resident_rows"],
        "incoming_rows": case["incoming_rows"],
        "contract": {
            "decision": reservation.decision,
            "kept_rows": _pairs(reservation.kept),
            "rows_after_append": reservation.rows_after_append,
            "pieces": pieces[0],
            "last_piece_rows": pieces[1],
        },
        "pinned_code": {
            "kept_rows": _pairs(kept),
            "rows_after_append": rows,
            "overrun_rows": max(0, rows - capacity),
        },
    }


def _reference_result(reference: Document, widths: _Widths) -> Document:
    views = {policy: widths.view(policy, reference["frontier"]) for policy in POLICIES}
    positions = [asked["original_position"] for asked in reference["references"]]
    return {
        "frontier": reference["frontier"],
        "references": [
            {
                "original_position": position,
                "visible": {policy: contains(view, position) for policy, view in views.items()},
            }
            for position in positions
        ],
        "task_quality": None,
    }


def _running_shape(shape: Document, geometry: Geometry) -> Document:
    """Return rows, payload and prefill peak of the policies at the frontier and widths of a real model."""
    widths = _Widths(shape["window_rows"], shape["sink_rows"], shape["recent_rows"])
    frontier, chunk_rows = shape["frontier"], shape["prefill_chunk_rows"]
    return {
        "frontier": frontier,
        "prefill_chunk_rows": chunk_rows,
        **{
            policy: {
                "rows": widths.rows(policy, frontier),
                "payload_bytes": geometry.full_payload_bytes(widths.rows(policy, frontier)),
                "prefill_peak_rows": {
                    design: prompt_handoff.peak_rows(design, frontier, chunk_rows, partial(widths.rows, policy))
                    for design in prompt_handoff.DESIGNS
                },
            }
            for policy in POLICIES
        },
    }


def _widths(policies: Document) -> _Widths:
    window, retained = policies["sliding_window"], policies["sink_recent"]
    return _Widths(window["window_rows"], retained["sink_rows"], retained["recent_rows"])


def _geometry(shape: Document) -> Geometry:
    return Geometry(
        batch=1,
        layers=shape["layers"],
        kv_heads=shape["kv_heads"],
        head_dimension=shape["head_dimension"],
        key_scalar_bytes=shape["key_scalar_bytes"],
        value_scalar_bytes=shape["value_scalar_bytes"],
    )


def _pairs(intervals: Intervals) -> list[list[int]]:
    """Return intervals as a fixture and a report write them."""
    return [[begin, end] for begin, end in intervals]


def _positions(view: Intervals) -> Sequence[int]:
    """Return the positions of a view; one interval stays a range, so that a full view is not written out here."""
    if len(view) == 1:
        return range(*view[0])
    return [position for begin, end in view for position in range(begin, end)]


def _require_view(policy: str, found: list[list[int]], expected: Intervals, where: str) -> None:
    _require(_SET_DIAGNOSTICS[policy], found, _pairs(expected), where)


def _require(diagnostic: Diagnostic, found: object, expected: object, where: str) -> None:
    if found != expected:
        raise ContractViolation(diagnostic, where, f"expected {_shown(expected)}, found {_shown(found)}")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def tables(report: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return what each frontier and event shows, and what hand-off, positions, reservations and references come to."""
    results = report["results"]
    frontiers = Table(
        "Visible rows by exclusive frontier",
        ("F", "full", "window", "sinks + recents", "overlap", "window view", "sink and recent view"),
        tuple(
            (
                str(row["frontier"]),
                str(row["full_rows"]),
                str(row["sliding_window_rows"]),
                str(row["sink_recent_rows"]),
                str(row["overlap_rows"]),
                _spans(row["sliding_window"]),
                _spans(row["sink_recent"]),
            )
            for row in results["frontiers"]
        ),
    )
    events = Table(
        "Events: what each state shows, omits of the source, and removed from its parent",
        ("event", "cache", "state", "F", "published", "policy", "selected", "omitted", "removed from parent"),
        tuple(
            (
                name,
                str(event["cache_generation"]),
                str(event["state_generation"]),
                str(event["frontier"]),
                "yes" if event["published"] else "no",
                policy,
                _spans(view["selected"]),
                _spans(view["omitted_from_source"]),
                _spans(view["removed_from_parent"]),
            )
            for name, event in results["events"].items()
            for policy, view in event["views"].items()
        ),
    )
    handoff = Table(
        "Prompt hand-off",
        ("policy", "design", "source", "published", "omitted", "removed from parent", "release intent"),
        tuple(
            (
                policy,
                row["design"],
                _spans(row["source"]),
                _spans(row["published"]),
                _spans(row["omitted_from_source"]),
                _spans(row["removed_from_parent"]),
                _spans(row["release_intent"][row["design"]]),
            )
            for policy, row in results["prompt_handoff"].items()
        ),
    )
    positions = Table(
        "Original, packed and attention positions of retained views",
        ("receipt", "key stage", "original", "packed rows", "keys at", "query at", "distance to first key"),
        tuple(
            (
                name,
                row["key_stage"],
                _spans(row["original_positions"]),
                str(row["packed_rows"]),
                _spans(row["key_attention_positions"]),
                str(row["query_attention_position"]),
                str(row["distance_to_first_key"]),
            )
            for name, row in results["attention_positions"].items()
        ),
    )
    variants = Table(
        "Variants, and the contract facts in which they differ from the policy that they resemble",
        ("variant", "resembles", "claimed as", "differs in"),
        tuple(
            (name, row["resembles"], row["claimed_as"], ", ".join(row["differs_in"]) or "none")
            for name, row in results["contract_variants"].items()
        ),
    )
    reservations = Table(
        "Reservations: the contract, and the pinned StreamingLLM code as a labelled alternative",
        ("case", "capacity", "resident", "incoming", "decision", "rows after", "pinned rows after", "pinned overrun"),
        tuple(
            (
                name,
                str(row["capacity_rows"]),
                str(row["resident_rows"]),
                str(row["incoming_rows"]),
                row["contract"]["decision"],
                str(row["contract"]["rows_after_append"]),
                str(row["pinned_code"]["rows_after_append"]),
                str(row["pinned_code"]["overrun_rows"]),
            )
            for name, row in results["reservations"].items()
        ),
    )
    references = Table(
        f"Delayed references at frontier {results['delayed_reference']['frontier']}: visibility, not quality",
        ("original position", *POLICIES),
        tuple(
            (
                str(row["original_position"]),
                *("visible" if row["visible"][policy] else "not visible" for policy in POLICIES),
            )
            for row in results["delayed_reference"]["references"]
        ),
    )
    return frontiers, events, handoff, positions, variants, reservations, references


def _spans(pairs: Sequence[Sequence[int]]) -> str:
    """Return intervals as `0..1, 4..6`, the last position included, and `none` for an empty set."""
    return ", ".join(str(begin) if end == begin + 1 else f"{begin}..{end - 1}" for begin, end in pairs) or "none"


LOOP = Loop(
    id="loop04_static",
    command="static",
    title="full cache, sliding window, sinks plus recents",
    section="0x03 to 0x05",
    fixture_schema="kvaudit.fixture.static/1",
    report_schema="kvaudit.report.static/1",
    diagnostics=DIAGNOSTICS,
    drift=DRIFT,
    categories=(
        "frontier and full set",
        "window set",
        "sink-recent set and overlap",
        "prompt hand-off",
        "chunked prefill",
        "ring slot",
        "architecture-local",
        "reservation",
        "sequence axis",
        "key stage and positions",
        "normalisation and trained sink",
        "work and read ledgers",
        "delayed reference",
        "events and generations",
        "cancel and resume",
        "declared results",
    ),
    boundary=Boundary(
        evidence_class="synthetic_oracle",
        executed=(
            "set formulas and their transitions",
            "stage, cancel and resume of one trace",
            "reservation rule and the slices of the pinned code on row numbers",
            "row, byte and pair counts",
        ),
        not_executed=(
            "model",
            "the pinned StreamingLLM code itself",
            "rotary embedding or any attention kernel",
            "perplexity",
            "memory traffic",
            "latency",
            "task quality",
        ),
    ),
    oracle=oracle,
    refresh_digests=refresh_digests,
    tables=tables,
)
