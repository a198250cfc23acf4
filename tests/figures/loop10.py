"""Where the report of loop 10 says each figure of the specification."""

SUITE = "fixtures/loop10_reconciliation/invalid.json"

FIGURES = {
    "L10.mutation_list": lambda r: list(r["results"]["prior_cases"]["specification"].values()),
    "L10.prior": lambda r: r["ledgers"]["prior_specification_cases"]["value"],
    "L10.own": lambda r: r["invalid_suites"][SUITE]["rejected_as_expected"],
    "L10.with_own": lambda r: (
        r["ledgers"]["prior_specification_cases"]["value"] + r["invalid_suites"][SUITE]["rejected_as_expected"]
    ),
    "L10.snapshots": lambda r: r["ledgers"]["state_snapshots"]["value"],
    "L10.snapshot_split": lambda r: [len(each["snapshots"]) for each in r["receipts"]["reports"].values()],
    # The free choice that was made: eight events of three views each, and five snapshots of loop 5.
    "L10.snapshot_options": lambda r: [
        [7, 8],
        [r["results"]["snapshots"]["loop04_static"] // 3, r["results"]["snapshots"]["loop05_dynamic"]],
        [9, 2],
    ],
    "L10.ledger_rows": lambda r: r["ledgers"]["ledger_rows"]["value"],
    "L10.ledger_split": lambda r: [len(each["ledger_rows"]) for each in r["receipts"]["reports"].values()],
    "L10.groups": lambda r: r["ledgers"]["comparison_groups"]["value"],
    "L10.reports": lambda r: r["ledgers"]["reports"]["value"],
    "L10.pairs": lambda r: len(r["receipts"]["pairs"]),
    "L10.lineage": lambda r: len(r["results"]["relations"]["shared_lineage"]),
    "L10.incompatible": lambda r: len(r["results"]["relations"]["incompatible"]),
    "L10.coordinate_keys": lambda r: len(r["results"]["required_coordinates"]),
    "L10.cross_report": lambda r: r["ledgers"]["cross_report_comparisons"]["value"],
}
