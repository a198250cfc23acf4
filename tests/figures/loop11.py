"""Where the report of loop 11 says each figure of the specification."""

SUITE = "fixtures/loop11_papers/invalid.json"
BASE_INPUTS = (
    "layers",
    "kv_heads",
    "head_dimension",
    "scalar_bytes",
    "prompt_rows",
    "decode_rows",
    "rows_per_owner",
    "sink_rows",
    "recent_rows",
)
CASES = (
    "total_budget",
    "recent_window",
    "sink_count",
    "observation_window",
    "prompt_length",
    "decode_length",
    "layer_budget",
    "head_budget",
    "delayed_reference",
    "checkpoint_compatible",
    "backend_ragged_support",
)
# Besides the eight groups of coordinates a record is identified by its source, the place in it and the value.
IDENTITY = {"version", "location", "as_printed"}


def results(report):
    return report["results"]


def count(name):
    return lambda r: results(r)["counts"][name]


def ledger(name):
    return lambda r: r["ledgers"][name]["value"]


def sensitivity(report):
    return results(report)["sensitivity"]


def base(report):
    return sensitivity(report)["base"]


def effect(name):
    """Both payloads, ratio, owners that see the reference and rows of the first owner; or why there is none."""

    def read(report):
        case = sensitivity(report)["cases"][name]
        state = case["state"]
        if state is None:
            return [case["outcome"]]
        return [
            state["full_payload_bytes"],
            state["policy_payload_bytes"],
            round(state["payload_ratio"], 6),
            state["owners_seeing_reference"],
            state["visible_prompt_rows"][0]["positions"],
        ]

    return read


def spare(report):
    cases = sensitivity(report)["further_cases"]
    return [
        [
            name,
            cases[name]["state"]["full_payload_bytes"],
            cases[name]["state"]["policy_payload_bytes"],
            round(cases[name]["state"]["payload_ratio"], 6),
        ]
        for name in ("scalar_bytes", "kv_heads")
    ]


def result_fields(report):
    reported = results(report)["reported_results"]
    record = next(iter(reported["records"].values()))
    return len(reported["coordinates"]) + len(IDENTITY.intersection(record))


def setup_coordinates_only(report):
    """Whether pairs are judged without what identifies a record, which no two of them could share."""
    reported = results(report)["reported_results"]
    return reported["comparable_pairs_policy_set_aside"] == 0 and not IDENTITY.intersection(reported["coordinates"])


FIGURES = {
    # The specification states it with loop 10; it needs the suite of this loop.
    "L10.cumulative": lambda r: r["results"]["counts"]["cases_in_all"],
    "L11.contract_fields": count("contract_coordinates"),
    "L11.result_fields": result_fields,
    "L11.contracts": lambda r: [
        *count("contracts")(r).values(),
        sum(count("contracts")(r).values()),
    ],
    "L11.results": count("primary_results"),
    "L11.result_pairs": count("primary_pairs"),
    "L11.comparable_pairs": count("comparable_primary_pairs"),
    "L11.local_reproductions": count("local_reproductions"),
    "L11.comparable_domain": setup_coordinates_only,
    "L11.base_inputs": lambda r: [sensitivity(r)["inputs"][name] for name in BASE_INPUTS],
    "L11.score_slots": lambda r: base(r)["score_rows"][0][0],
    "L11.layer_budgets": lambda r: base(r)["layer_budget_rows"],
    "L11.head_budgets": lambda r: base(r)["head_budget_rows"],
    "L11.owners": ledger("owners"),
    "L11.row": ledger("row"),
    "L11.full": ledger("full_payload"),
    "L11.policy": ledger("policy_payload"),
    "L11.ratio": lambda r: round(ledger("payload_ratio")(r), 6),
    "L11.selected": lambda r: base(r)["visible_prompt_rows"][0]["positions"],
    "L11.ref14_visible_owners": lambda r: base(r)["owners_seeing_reference"],
    **{f"L11.case.{name}": effect(name) for name in CASES},
    "L11.spare": spare,
    "L11.axes": count("sensitivity_axes"),
    "L11.classes": count("failure_classes"),
    "L11.rules": count("validator_rules"),
    "L11.mutations": lambda r: r["invalid_suites"][SUITE]["rejected_as_expected"],
}
