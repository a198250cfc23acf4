"""Where the report of loop 9 says each figure of the specification."""

FIGURES = {
    "L9.phases": lambda r: r["results"]["scheduler_admission"]["phases"],
    "L9.phase_order": lambda r: list(r["results"]["phases"]),
    "L9.ids": lambda r: [
        r["results"]["identity"]["request_generation"],
        r["results"]["identity"]["policy_generation"],
        r["results"]["identity"]["parent_state_generation"],
        r["results"]["identity"]["successor_state_generation"],
        r["results"]["identity"]["parent_cache_generation"],
        r["results"]["identity"]["successor_cache_generation"],
        r["results"]["identity"]["parent_frontier"],
        r["results"]["identity"]["successor_frontier"],
        *r["results"]["identity"]["accepted_positions"],
    ],
    "L9.protected": lambda r: r["results"]["protected_original_positions"],
    "L9.budget": lambda r: r["results"]["budget"]["maximum_rows"],
    "L9.lengths": lambda r: r["results"]["budget"]["successor_owner_lengths"],
    "L9.dense_rows": lambda r: r["results"]["backend"]["dense_rows"],
    "L9.successor_rows": lambda r: r["results"]["budget"]["successor_rows"],
    "L9.parent_rows": lambda r: r["results"]["budget"]["parent_rows"],
    "L9.row": lambda r: r["results"]["budget"]["row_bytes"],
    "L9.parent_bytes": lambda r: r["ledgers"]["parent_payload"]["value"],
    "L9.successor_bytes": lambda r: r["ledgers"]["successor_payload"]["value"],
    "L9.workspaces": lambda r: [
        r["ledgers"][name]["value"] for name in ("selector_workspace", "backend_workspace", "allocator_metadata")
    ],
    "L9.peak": lambda r: r["ledgers"]["transaction_peak"]["value"],
    "L9.compaction": lambda r: [
        r["ledgers"][name]["value"] for name in ("compaction_read", "compaction_write", "compaction_traffic")
    ],
    "L9.new_kv": lambda r: r["results"]["newly_admitted_bytes"],
    "L9.amplification": lambda r: r["results"]["compaction_amplification"],
    "L9.churn": lambda r: [round(churn, 6) for churn in r["results"]["churn_by_owner"]],
    # Contradictions: each flag says that the resolution is in the report, beside the other reading.
    "L9.parent_over_budget": lambda r: (
        not r["results"]["budget"]["parent_within_post_compaction_budget"]
        and r["results"]["budget"]["compaction_trigger_rows"] == 6
    ),
    "L9.shared_manifest": lambda r: (
        r["results"]["identity"]["schema_version"] == "kv_visibility_policy_manifest/1"
        and r["results"]["identity"]["policy_generation"] == 7
    ),
    "L9.scheduler_phase": lambda r: r["results"]["scheduler_admission"]["recorded_in"] == "allocator_reserve",
    "L9.rollback_chain": lambda r: (
        r["results"]["retry_after_rejection"]["accepted_with_chain"]
        and not r["results"]["retry_after_rejection"]["accepted_with_equality"]
    ),
    "L9.mutations": lambda r: r["invalid_suites"]["fixtures/loop09_transaction/invalid.json"]["rejected_as_expected"],
}
