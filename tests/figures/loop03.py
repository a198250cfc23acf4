"""Where the report of loop 3 says each figure of the specification."""

from itertools import product
from math import comb

import pytest


def _ledger(name):
    return lambda r: r["ledgers"][name]["value"]


def _result(*path):
    def read(r):
        found = r["results"]
        for step in path:
            found = found[step]
        return found

    return read


def _cancellation(*path):
    return _result("attention", "cancellation", *path)


def _selection(name):
    """Return positions, mass and error of one selection; the report rounds to 12 digits, the table does not."""

    def read(r):
        selection = _cancellation("selections", name)(r)
        error = pytest.approx(selection["output_error"], rel=1e-11, abs=0)
        return [selection["positions"], selection["retained_mass"], error]

    return read


def _natural_splits(r):
    """Count the ways in which natural widths and encodings add up to the ragged total, by trying all of them.

    Payload and receipt are given, and so is the score state: 0x02G reads it once in a scan of 128 B. What is left is a
    position map of one entry a row, offsets of one of two shapes, validity and protected encodings.
    """
    retained, geometry = r["results"]["retention"], r["results"]["geometry"]
    rows, slots = retained["retained_rows"], retained["committed_rows"]
    layers, kv_heads, positions = geometry["layers"], geometry["kv_heads"], geometry["positions"]
    given = sum(r["ledgers"][name]["value"] for name in ("ragged_payload", "score_scan_read", "ragged_receipt"))
    widths = (2, 4, 8)
    offset_shapes = (layers * (kv_heads + 1), layers * kv_heads + 1)
    validity = (0, -(-rows // 8), rows)  # none, a bit a row, a byte a row
    protected = (0, -(-positions // 8), positions, -(-slots // 8), slots)  # bits or bytes, shared or an owner each
    return sum(
        given + rows * position + shape * offset + valid + kept == r["ledgers"]["ragged_total"]["value"]
        for position, shape, offset, valid, kept in product(widths, offset_shapes, widths, validity, protected)
    )


FIGURES = {
    "L3.row_running": _result("running_shape", "row_bytes"),
    "L3.token_running": _result("running_shape", "token_bytes"),
    "L3.token_running_kib": _result("running_shape", "token_kib"),
    "L3.running_table": lambda r: [
        [context["positions"], context["full_payload_bytes"]] for context in r["results"]["running_shape"]["contexts"]
    ],
    "L3.counts": _result("retention", "rows_per_owner", 0),
    "L3.count_sum": _result("retention", "retained_rows"),
    "L3.row_toy": _result("geometry", "row_bytes"),
    "L3.kmax": _result("retention", "largest_owner_rows"),
    "L3.slots": _result("layouts", "padded", "row_slots"),
    "L3.full_rows": _result("layouts", "full", "row_slots"),
    "L3.eta": _result("padding_efficiency"),
    "L3.full_payload": _ledger("full_payload"),
    "L3.receipt": _ledger("ragged_receipt"),
    "L3.score_state": _ledger("ragged_score_state"),
    "L3.ragged.position": _ledger("ragged_position_map"),
    "L3.ragged.offset": _ledger("ragged_offsets"),
    "L3.protected_bytes": _ledger("ragged_protected_bits"),
    "L3.ragged.validity": _result("layouts", "ragged", "terms", "validity"),
    "L3.ragged.total": _ledger("ragged_total"),
    "L3.ragged.natural_splits": _natural_splits,
    "L3.padded.payload": _ledger("padded_payload"),
    "L3.padded.position": _ledger("padded_position_map"),
    "L3.padded.validity": _ledger("padded_validity"),
    "L3.padded.total": _ledger("padded_total"),
    "L3.tombstone.payload": _ledger("tombstone_payload"),
    "L3.tombstone.validity": _ledger("tombstone_validity"),
    "L3.tombstone.total": _ledger("tombstone_total"),
    "L3.topk_workspace": _ledger("topk_workspace"),
    "L3.peak.full_to_ragged": _ledger("peak_full_to_ragged"),
    "L3.peak.ragged_to_ragged": _ledger("peak_ragged_to_ragged"),
    "L3.backend_workspace": _ledger("backend_workspace"),
    "L3.score_scan": _ledger("score_scan_read"),
    "L3.selected_read": _ledger("selected_payload_read"),
    "L3.persistent_write": _ledger("persistent_write"),
    "L3.publication_traffic": _ledger("publication_traffic"),
    "L3.new_token": _result("update_traffic", "new_token_bytes"),
    "L3.compaction_amp": _result("update_traffic", "compaction_amplification"),
    "L3.publication_amp": _result("update_traffic", "publication_amplification"),
    "L3.unique_read": _ledger("unique_read_per_query_step"),
    "L3.expanded_read": _ledger("query_expanded_demand"),
    "L3.decode.T0_G": lambda r: [r["results"]["decode"]["initial_rows"], r["results"]["decode"]["generated_tokens"]],
    "L3.decode.instances": _result("decode", "full_row_time_instances"),
    "L3.decode.full_tib": _result("decode", "full_read_tib"),
    "L3.decode.bounded_gib": _result("decode", "bounded_read_gib"),
    "L3.decode.bounded_rows": _result("decode", "bounded_rows"),
    "L3.decode.ratio": _result("decode", "reduction_ratio"),
    "L3.cancel.p": _cancellation("dense_probabilities"),
    "L3.cancel.v": lambda r: [value for (value,) in _cancellation("values")(r)],
    "L3.cancel.dense": _cancellation("dense_output", 0),
    "L3.cancel.A": _selection("two_heaviest"),
    "L3.cancel.B": _selection("two_zero_values"),
    "L3.cancel.two_row_zero_sets": lambda r: comb(len(_cancellation("zero_value_positions")(r)), 2),
    "L3.cancel.recall": lambda r: [selection["top_k_recall"] for selection in _cancellation("selections")(r).values()],
    "L3.cancel.relative_error": _cancellation("selections", "two_heaviest", "relative_error"),
    "L3.mutations": lambda r: r["invalid_suites"]["fixtures/loop03_cost/invalid.json"]["rejected_as_expected"],
}
