"""What a transaction compares each receipt with (specification 0x0EC to 0x0EI).

Each function raises `Refused` for the first member that is not what the transaction knows; none changes anything.
"""

from kvaudit.policies import compaction, packing
from kvaudit.policies.receipts import (
    Admission,
    Allocation,
    AppendReceipt,
    Binding,
    Capability,
    Owners,
    Parent,
    Reason,
    RecoveryHandoff,
    Refused,
    SchedulerHandoff,
    Score,
    TransferHandoff,
    require,
)
from kvaudit.policies.transaction_records import Costs, SourceHistory, Transaction


def append_chain(claimed: tuple[AppendReceipt, ...], committed: list[AppendReceipt]) -> None:
    """Require one receipt for each row that was committed since the parent state, in order and unbroken."""
    for index, receipt in enumerate(claimed):
        if not receipt.committed:
            reason = f"position {receipt.position} was never accepted"
            raise Refused(Reason.APPEND_UNCOMMITTED, reason, ("receipts", index, "committed"))
    for index, (receipt, known) in enumerate(zip(claimed, committed, strict=False)):
        for member in ("position", "parent_cache_generation", "cache_generation"):
            found, expected = getattr(receipt, member), getattr(known, member)
            require(Reason.APPEND_CHAIN, found, expected, "receipts", index, member)
    if len(claimed) != len(committed):
        reason = f"{len(committed)} rows were committed since the state, found receipts of {len(claimed)}"
        raise Refused(Reason.APPEND_CHAIN, reason, ("receipts",))


def score(transaction: Transaction, receipt: Score, observes: bool) -> None:
    """Require evidence of this epoch, policy and frontier; without fresh scores, the evidence of the parent."""
    parent = transaction.parent
    expected = {
        "decision_epoch": parent.decision_epoch + observes,
        "policy_generation": transaction.policy.generation,
        "observed_frontier": transaction.committed_frontier,
        "observed_cache_generation": transaction.cache_generation,
    }
    for member, value in expected.items():
        require(Reason.SCORE_STALE, getattr(receipt, member), value, member)
    if not observes:
        require(Reason.SCORE_STALE, receipt.evidence_receipt_id, parent.evidence_receipt_id, "evidence_receipt_id")


def unchanged(selected: Owners, kept: Owners) -> None:
    """Require that a transaction that does not compact keeps every row of its parent and adds the appended ones."""
    if [len(heads) for heads in selected] != [len(heads) for heads in kept]:
        reason = "the selection has not the owners of the parent"
        raise Refused(Reason.NO_OP_CHANGED, reason, ("selected_original_positions",))
    for (layer, head, found), (_, _, expected) in zip(packing.owners(selected), packing.owners(kept), strict=True):
        require(Reason.NO_OP_CHANGED, found, expected, "selected_original_positions", layer, head)


def candidate(transaction: Transaction, origin: int) -> None:
    """Judge a candidate owner by owner, then its budget. A fault lies in the receipt of `select`."""
    parent, selected = transaction.parent, transaction.selected
    if len(selected) != len(parent.selected):
        raise _fault(Reason.SELECTION_SHAPE, f"expected {len(parent.selected)} layers, found {len(selected)}")
    for layer, (heads, before) in enumerate(zip(selected, parent.selected, strict=True)):
        if len(heads) != len(before):
            raise _fault(Reason.SELECTION_SHAPE, f"expected {len(before)} K/V heads, found {len(heads)}", layer)
        for head, (positions, kept) in enumerate(zip(heads, before, strict=True)):
            _judge_owner(transaction, origin, positions, kept, layer, head)
    limit = transaction.policy.bound(transaction.compacts)
    for path, rows in compaction.unit_rows(packing.lengths(selected), transaction.policy.budget_scope):
        if rows > limit:
            raise _fault(Reason.BUDGET, f"expected at most {limit} rows, found {rows}", *path)


def _judge_owner(
    transaction: Transaction, origin: int, positions: tuple[int, ...], kept: tuple[int, ...], layer: int, head: int
) -> None:
    frontier, tail, resident = transaction.committed_frontier, transaction.parent.committed_frontier, set(kept)
    seen: set[int] = set()
    for index, position in enumerate(positions):
        path = (layer, head, index)
        if not origin <= position < frontier:
            message = f"expected a position in [{origin}, {frontier}), found {position}"
            raise _fault(Reason.OUT_OF_RANGE, message, *path)
        if position in seen:
            raise _fault(Reason.DUPLICATE, f"position {position} is selected twice", *path)
        if index and position < positions[index - 1]:
            message = f"expected a position after {positions[index - 1]}, found {position}"
            raise _fault(Reason.ORDER, message, *path)
        if position < tail and position not in resident:
            message = f"position {position} is neither in the parent's view nor appended since"
            raise _fault(Reason.NOT_RESIDENT, message, *path)
        seen.add(position)
    for position in transaction.protected:
        if position not in seen:
            message = f"expected the protected position {position}"
            raise _fault(Reason.PROTECTED_MISSING, message, layer, head)


def _fault(reason: Reason, message: str, *path: int) -> Refused:
    return Refused(reason, message, ("selected_original_positions", *path), "select")


def capability(transaction: Transaction, receipt: Capability, origin: int) -> None:
    """Require that the backend consumes the requested view as it is, or names what is done instead (0x0ED)."""
    lengths = transaction.owner_lengths()
    require(Reason.REPRESENTATION, receipt.representation, transaction.policy.representation, "representation")
    require(Reason.LENGTHS, receipt.owner_lengths, lengths, "owner_lengths")
    if not receipt.admitted:
        _judge_fallback(transaction, receipt, origin)
        return
    for feature in ("ragged_owner_lengths", "explicit_original_positions", "mask_and_position_semantics"):
        require(Reason.CAPABILITY, getattr(receipt, feature), True, feature)
    require(Reason.HIDDEN_DENSE, receipt.materialized_rows, sum(lengths), "materialized_rows")
    if receipt.fallback is not None:
        message = f"the view is admitted; found the fallback {receipt.fallback.action}"
        raise Refused(Reason.FALLBACK_UNUSED, message, ("fallback",))


def _judge_fallback(transaction: Transaction, receipt: Capability, origin: int) -> None:
    fallback = receipt.fallback
    if fallback is None:
        raise Refused(Reason.FALLBACK_MISSING, "the backend refuses the view, found no fallback", ("fallback",))
    if fallback.action == "full_view" and not transaction.policy.full_view_declared:
        message = "the manifest declares no full_cache_fallback, found full_view"
        raise Refused(Reason.FALLBACK_UNDECLARED, message, ("fallback", "action"))
    lengths = transaction.owner_lengths()
    charged = {
        "full_view": len(lengths) * (transaction.committed_frontier - origin),
        "padded_view": len(lengths) * max(lengths, default=0),
    }.get(fallback.action)
    require(Reason.FALLBACK_CHARGE, fallback.charged_rows, charged, "fallback", "charged_rows")


def admission(transaction: Transaction, receipt: Admission, costs: Costs) -> None:
    """Require the scheduler's consent to exactly this transaction's identity and work."""
    expected = {
        "transaction": transaction.name,
        "request_generation": transaction.request_generation,
        "state_generation": transaction.state_generation,
        "peak_bytes": transaction.peak_bytes,
        "compaction_bytes": 2 * transaction.fresh_rows * costs.row_bytes,
    }
    for member, value in expected.items():
        require(Reason.ADMISSION, getattr(receipt, member), value, "scheduler_admission", member)
    if not receipt.admitted:
        message = "the scheduler does not admit the work"
        raise Refused(Reason.NOT_ADMITTED, message, ("scheduler_admission", "admitted"))


def allocation(transaction: Transaction, receipt: Allocation) -> None:
    """Require a reservation that is bound to this transaction and that no reader can see."""
    expected = {
        "transaction": transaction.name,
        "request_generation": transaction.request_generation,
        "parent_state_generation": transaction.parent.state_generation,
        "successor_cache_generation": transaction.cache_generation,
        "owner_lengths": transaction.owner_lengths(),
        "representation": transaction.policy.representation,
        "fresh_rows": transaction.fresh_rows,
    }
    for member, value in expected.items():
        require(Reason.ALLOCATION, getattr(receipt, member), value, "allocation", member)
    require(Reason.RESERVATION_VISIBLE, receipt.visible, False, "allocation", "visible")


def binding(transaction: Transaction, receipt: Binding, live: Parent) -> None:
    """Compare what a publication binds: parent fields with the live parent, the others with the transaction (0x0EF)."""
    parent = {
        "request_generation": live.request_generation,
        "policy_generation": live.policy_generation,
        "parent_state_generation": live.state_generation,
        "parent_cache_generation": live.cache_generation,
        "parent_frontier": live.committed_frontier,
    }
    for member, value in parent.items():
        require(Reason.STALE, getattr(receipt, member), value, member)
    successor = {
        "state_generation": transaction.state_generation,
        "cache_generation": transaction.cache_generation,
        "committed_frontier": transaction.committed_frontier,
        "policy_manifest_sha256": transaction.policy.manifest_sha256,
        "packed_view_sha256": transaction.packed_view_sha256,
        "capability_receipt_id": transaction.capability.receipt_id if transaction.capability else None,
        "evidence_receipt_id": transaction.evidence_receipt_id,
    }
    for member, expected in successor.items():
        require(Reason.BINDING, getattr(receipt, member), expected, member)
    every = tuple(range(len(transaction.selected)))
    require(Reason.PARTIAL, receipt.published_layers, every, "published_layers")


def scheduler_handoff(
    transaction: Transaction, handoff: SchedulerHandoff, costs: Costs, cache_is_current: bool
) -> None:
    """Require this state's work, and no readiness before every foreign owner has confirmed (0x0EH)."""
    identity = {"state_generation": transaction.state_generation, "policy_generation": transaction.policy.generation}
    for member, generation in identity.items():
        require(Reason.HANDOFF, getattr(handoff, member), generation, "scheduler", member)
    work: dict[str, object] = {
        "persistent_payload_bytes": sum(transaction.owner_lengths()) * costs.row_bytes,
        "persistent_metadata_bytes": costs.allocator_metadata_bytes,
        "transaction_peak_bytes": transaction.peak_bytes,
        "compaction_bytes": 2 * transaction.copied_rows * costs.row_bytes,
        "fallback_class": "none",
    }
    for member, value in work.items():
        require(Reason.WORK, getattr(handoff, member), value, "scheduler", member)
    waiting = [owner for owner, confirmed in handoff.foreign_readiness if not confirmed]
    if not cache_is_current:
        waiting.append("the committed cache, which is ahead")
    if handoff.decode_ready and waiting:
        message = f"decode still waits for {', '.join(waiting)}"
        raise Refused(Reason.READINESS, message, ("scheduler", "decode_ready"))


def recovery_handoff(
    transaction: Transaction, handoff: RecoveryHandoff, history: SourceHistory | None, origin: int
) -> None:
    """Require that omitted rows are called recallable only where a source history holds all of them (0x0EI)."""
    identity = {
        "state_generation": transaction.state_generation,
        "source_frontier": transaction.committed_frontier,
    }
    for member, value in identity.items():
        require(Reason.HANDOFF, getattr(handoff, member), value, "recovery", member)
    frontier = transaction.committed_frontier
    covered = history is not None and history.begin <= origin and frontier <= history.end
    recallable = covered and transaction.policy.omitted_rows == "recallable_nonresident"
    if all(length == frontier - origin for length in transaction.owner_lengths()):
        omitted = "none"
    else:
        omitted = "recallable_nonresident" if recallable else "omitted_irrecoverable"
    named = history if omitted == "recallable_nonresident" else None
    expected = {
        "omitted_state_class": omitted,
        "source_history_contract_id": named.contract_id if named else None,
        "retrieval_plan_id": named.retrieval_plan_id if named else None,
    }
    for member, label in expected.items():
        require(Reason.RECOVERABILITY, getattr(handoff, member), label, "recovery", member)


def transfer_handoff(transaction: Transaction, handoff: TransferHandoff, request_id: str, costs: Costs) -> None:
    """Require the identity of the published object, not of the request alone (0x0EI)."""
    expected = {
        "request_id": request_id,
        "request_generation": transaction.request_generation,
        "state_generation": transaction.state_generation,
        "cache_generation": transaction.cache_generation,
        "packed_view_sha256": transaction.packed_view_sha256,
        "representation": transaction.policy.representation,
    }
    for member, value in expected.items():
        require(Reason.HANDOFF, getattr(handoff, member), value, "transfer", member)
    payload = sum(transaction.owner_lengths()) * costs.row_bytes
    require(Reason.WORK, handoff.payload_bytes, payload, "transfer", "payload_bytes")
