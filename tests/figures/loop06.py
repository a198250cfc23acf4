"""Where the report of loop 6 says each figure of the specification."""


def results(report):
    return report["results"]


def probe(report):
    (only,) = results(report)["gather"]["probes"]
    return only


def by_owner(positions):
    return {f"{layer},{owner}": each for layer, owners in enumerate(positions) for owner, each in enumerate(owners)}


def ledger(name):
    return lambda r: r["ledgers"][name]["value"]


SUITE = "fixtures/loop06_snapkv/invalid.json"
SHAPE = ("batch", "layers", "query_heads", "kv_heads", "head_dimension")
GENERATIONS = (
    "source_cache_generation",
    "compressed_cache_generation",
    "policy_generation",
    "parent_state_generation",
    "compressed_state_generation",
    "prompt_frontier",
)

FIGURES = {
    "L6.shape": lambda r: [results(r)["shape"][name] for name in SHAPE],
    "L6.q_to_kv": lambda r: results(r)["shape"]["q_to_kv_head_map"],
    "L6.T_W_C": lambda r: [
        results(r)["prompt"][name] for name in ("prompt_rows", "observation_window_rows", "capacity_rows")
    ],
    "L6.L_prefix_K_select": lambda r: [results(r)["prompt"][name] for name in ("prefix_rows", "selected_prefix_rows")],
    "L6.pool": lambda r: [
        results(r)["pooling"][name] for name in ("kernel_rows", "padding_rows_each_side", "divisor_rows")
    ],
    "L6.vote00": lambda r: results(r)["selection"]["votes"][0][0],
    "L6.pooled00": lambda r: [round(score, 6) for score in results(r)["selection"]["pooled_votes"][0][0]],
    "L6.sel00": lambda r: results(r)["selection"]["selected_prefix_positions"][0][0],
    "L6.packed00": lambda r: results(r)["packed_original_positions"][0][0],
    "L6.all_selected": lambda r: by_owner(results(r)["selection"]["selected_prefix_positions"]),
    "L6.all_packed": lambda r: by_owner(results(r)["packed_original_positions"]),
    "L6.raw_top2_00": lambda r: results(r)["selection"]["other_poolings"]["none"][0][0],
    "L6.pos3_owners": lambda r: [
        f"{layer},{owner}"
        for each in results(r)["visibility"]["probes"]
        if each["original_position"] == 3
        for layer, owner in each["owners"]
    ],
    "L6.K00": lambda r: probe(r)["key_rows"],
    "L6.V00": lambda r: probe(r)["value_rows"],
    "L6.request_generation": lambda r: results(r)["generations"]["request_generation"],
    "L6.generations": lambda r: [results(r)["generations"][name] for name in GENERATIONS],
    "L6.owners": lambda r: results(r)["owners"]["count"],
    "L6.after_append": lambda r: results(r)["decode"]["packed_original_positions"][0][0],
    "L6.frontier_after": lambda r: results(r)["decode"]["cache_frontier"],
    "L6.rows_after_g": lambda r: results(r)["decode"]["rows_per_owner"],
    "L6.append_frontier": lambda r: (
        results(r)["decode"]["append_only_tail_admitted"]
        and results(r)["decode"]["state_generation"] == 11
        and results(r)["decode"]["state_frontier"] == 6
        and not results(r)["decode"]["equal_frontier_alternative"]["state_admitted_after_append"]
    ),
    "L6.full": ledger("full_prompt_payload"),
    "L6.compressed": ledger("compressed_prompt_payload"),
    "L6.expanded_full": ledger("expanded_full_payload"),
    "L6.expanded_compressed": ledger("expanded_compressed_payload"),
    "L6.position_map": ledger("position_map"),
    "L6.offsets": ledger("owner_offsets"),
    "L6.append": ledger("first_append"),
    "L6.ratio": lambda r: results(r)["payload_ratios"][0]["ratio"],
    "L6.offset_convention": lambda r: (
        results(r)["offset_conventions"]
        == {"flat": {"bytes": 20, "admitted": True}, "global_rows_per_layer": {"bytes": 24, "admitted": False}}
    ),
    "L6.short_prompts": lambda r: [
        [
            row["prompt_rows"],
            row["selected_rows_if_formed"],
            row["prefix_rows_if_formed"],
            row["branch"] == "full_cache",
        ]
        for row in results(r)["branches"][:2]
    ],
    "L6.snapshots": lambda r: len(r["snapshots"]),
    "L6.mutations": lambda r: r["invalid_suites"][SUITE]["rejected_as_expected"],
}
