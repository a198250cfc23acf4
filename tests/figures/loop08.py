"""Where the report of loop 8 says each figure of the specification."""


def dmc(r):
    return r["results"]["dmc"]


def mini(r):
    return r["results"]["minicache"]


def lckv(r):
    return r["results"]["lckv"]


def six(values):
    """Lists of irrational numbers are given with six decimals."""
    return [round(value, 6) for value in values]


FIGURES = {
    "L8.dmc.alpha_omega": lambda r: [dmc(r)["alpha"], dmc(r)["omega"]],
    "L8.dmc.segments": lambda r: [
        [[s["first"], s["last"]], s["mass"], s["key"], s["value"], s["anchor"]] for s in dmc(r)["segments"]
    ],
    "L8.dmc.rows": lambda r: [dmc(r)["keys"], dmc(r)["values"]],
    "L8.dmc.length": lambda r: dmc(r)["stored_rows"],
    "L8.dmc.cr": lambda r: dmc(r)["compression_ratio"],
    "L8.dmc.bytes": lambda r: [
        r["ledgers"]["dmc_source_payload"]["value"],
        r["ledgers"]["dmc_segment_payload"]["value"],
    ],
    "L8.dmc.omega_range": lambda r: (
        dmc(r)["relative_weights"]["some_weight_outside_sigmoid_range"] and dmc(r)["relative_weights"]["same_means"]
    ),
    "L8.dmc.control_channel": lambda r: dmc(r)["control_channel"]["payload_rows_cannot_hold_it"],
    "L8.dmc.first_alpha": lambda r: dmc(r)["first_decision_accumulates"]["formula_undercounts"],
    "L8.mini.exceptions": lambda r: mini(r)["prefill"]["exception_positions"],
    "L8.mini.d_K": lambda r: six(mini(r)["prefill"]["key"]["distances"]),
    "L8.mini.d_V": lambda r: six(mini(r)["prefill"]["value"]["distances"]),
    "L8.mini.shared": lambda r: mini(r)["prefill"]["key"]["directions"][0],
    "L8.mini.restored0": lambda r: [mini(r)["restored"]["low_key"][0], mini(r)["restored"]["high_key"][0]],
    "L8.mini.error0": lambda r: six(
        [mini(r)["prefill"]["key"]["low_errors"][0], mini(r)["prefill"]["key"]["high_errors"][0]]
    ),
    "L8.mini.parallel_exact": lambda r: mini(r)["parallel_rows_restore_exactly"],
    "L8.mini.ledger_small": lambda r: [
        r["ledgers"]["layer_pair_full"]["value"],
        r["ledgers"]["layer_pair_merged"]["value"],
    ],
    "L8.mini.ledger_large": lambda r: [
        mini(r)["running_pair"]["ledger"]["full_bytes"],
        mini(r)["running_pair"]["ledger"]["merged_bytes"],
    ],
    "L8.lckv.producers_map": lambda r: [lckv(r)["producers"], lckv(r)["consumer_map"]],
    "L8.lckv.ratio": lambda r: lckv(r)["payload_ratio"],
    "L8.lckv.m_b_iterations": lambda r: [
        lckv(r)["forward_iterations"],
        lckv(r)["backward_iterations"],
        lckv(r)["prompt_iterations"],
    ],
    "L8.lckv.bytes": lambda r: [
        r["ledgers"]["standard_layer_caches"]["value"],
        r["ledgers"]["condensed_layer_caches"]["value"],
    ],
    "L8.lckv.sandwich_w2_map": lambda r: lckv(r)["sandwich"]["consumer_map"],
    "L8.lckv.sandwich": lambda r: (
        lckv(r)["sandwich"]["no_even_warmup_gives_this_map"] and lckv(r)["sandwich"]["producers"] == [0, 4, 5]
    ),
    "L8.summary_example": lambda r: r["results"]["summaries"]["stated_size"]["summary_vectors"],
    "L8.snapshots": lambda r: len(r["snapshots"]),
    "L8.mutations": lambda r: r["invalid_suites"]["fixtures/loop08_representation/invalid.json"][
        "rejected_as_expected"
    ],
}
