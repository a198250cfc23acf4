"""Where the report of loop 7 says each figure of the specification."""


def _section(report, *path):
    value = report["results"]
    for name in path:
        value = value[name]
    return value


FIGURES = {
    "L7.pyramid.inputs": lambda r: [_section(r, "pyramidkv", name) for name in ("layers", "total_rows", "beta")],
    "L7.zigzag.inputs": lambda r: [
        _section(r, "zigzagkv", name) for name in ("lmba_rows", "mean_rows_per_layer", "minimum_rows_per_layer")
    ],
    "L7.zigzag.mba_share": lambda r: _section(r, "zigzagkv", "attention_share"),
    "L7.headkv.inputs": lambda r: [_section(r, "headkv", name) for name in ("mean_rows_per_head", "beta")],
    "L7.prefix_protected": lambda r: [
        _section(r, "source", "prefix_positions"),
        _section(r, "source", "protected_positions"),
    ],
    "L7.q_to_kv": lambda r: _section(r, "source", "q_to_kv_head_map"),
    "L7.uniform": lambda r: _section(r, "uniform", "split_of_published_layers"),
    "L7.pyramid.ends": lambda r: [_section(r, "pyramidkv", name) for name in ("top_rows", "bottom_rows")],
    "L7.pyramid.targets": lambda r: _section(r, "pyramidkv", "targets"),
    # The table writes fractions, the report 12 significant digits.
    "L7.zigzag.u": lambda r: [
        f"1/{round(1 / share)}" if abs(share * round(1 / share) - 1) < 1e-11 else share
        for share in _section(r, "zigzagkv", "shares")
    ],
    "L7.zigzag.targets": lambda r: _section(r, "zigzagkv", "targets"),
    "L7.zigzag.integers": lambda r: _section(r, "zigzagkv", "budgets"),
    "L7.source_shape": lambda r: _section(r, "source", "shape_per_layer"),
    "L7.ada.alpha": lambda r: [_section(r, "adakv", "alpha"), _section(r, "adakv", "paper_alpha")],
    "L7.ada.raw": lambda r: _section(r, "adakv", "raw_counts"),
    "L7.ada.integers": lambda r: _section(r, "published", "owner_budgets"),
    "L7.layer_totals": lambda r: _section(r, "published", "layer_budgets"),
    "L7.prefix_total": lambda r: _section(r, "published", "prefix_rows"),
    "L7.owner_positions": lambda r: [
        positions for heads in _section(r, "published", "owner_positions") for positions in heads
    ],
    "L7.lengths": lambda r: _section(r, "published", "lengths"),
    "L7.offsets": lambda r: _section(r, "published", "offsets"),
    "L7.pos5_owners": lambda r: next(
        probe["visible_owners"] for probe in _section(r, "probes") if probe["original_position"] == 5
    ),
    "L7.layer1_tie_at_cut": lambda r: _section(r, "adakv", "tied_at_cut", 1),
    "L7.row": lambda r: _section(r, "published", "row_bytes"),
    "L7.full": lambda r: r["ledgers"]["full_prompt_payload"]["value"],
    "L7.allocated": lambda r: r["ledgers"]["allocated_payload"]["value"],
    "L7.row_split": lambda r: [_section(r, "published", name) for name in ("prefix_rows", "protected_rows")],
    "L7.position_map": lambda r: r["ledgers"]["position_map"]["value"],
    "L7.offset_bytes": lambda r: r["ledgers"]["cumulative_offsets"]["value"],
    "L7.headkv.S": lambda r: _section(r, "headkv", "importances"),
    "L7.headkv.targets": lambda r: _section(r, "headkv", "targets"),
    "L7.headkv.integers": lambda r: _section(r, "headkv", "budgets"),
    "L7.headkv.layers": lambda r: _section(r, "headkv", "layer_totals"),
    "L7.fastgen": lambda r: [head["policy"] for head in _section(r, "fastgen", "choices").values()],
    "L7.ada.bound_trials": lambda r: _section(r, "adakv", "bound_trials", "held"),
    # The kind of receipt is shared with loop 6, the prompt is not.
    "L7.from_loop6_receipt": lambda r: _section(r, "source", "receipt_kind") == "full_prompt_observation",
    "L7.pack_order": lambda r: _section(r, "published", "pack_order") == "ascending",
    "L7.snapshots": lambda r: len(r["snapshots"]),
    "L7.mutations": lambda r: r["invalid_suites"]["fixtures/loop07_allocation/invalid.json"]["rejected_as_expected"],
}
