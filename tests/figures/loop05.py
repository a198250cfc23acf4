"""Where the report of loop 5 says each figure of the specification."""


def run(r, method):
    return r["results"]["runs"][method]


def step(r, method, index):
    return run(r, method)["steps"][index]


def scissorhands(r):
    return r["results"]["scissorhands"]


def probe(r, name="rows-3-and-2"):
    return r["results"]["keyformer"]["odds_probes"][name]


def h2o_step(r, index):
    one = step(r, "h2o", index)
    return [one["kept_positions"][0], one["evicted_positions"][0], one["kept_scores"][0]]


def rounded(values, digits):
    return [round(value, digits) for value in values]


def score_table(r):
    decode = step(r, "keyformer", 1)
    columns = (decode[name][0] for name in ("candidate_positions", "carried_scores", "increments", "scores"))
    return [[position, *rounded(scores, 6)] for position, *scores in zip(*columns, strict=True)]


FIGURES = {
    "L5.paper_scissorhands": lambda r: list(r["results"]["source_reported"]["scissorhands_settings"].values()),
    "L5.k_recent": lambda r: list(r["results"]["budget"].values()),
    "L5.sc.threshold": lambda r: scissorhands(r)["compression"]["baseline"],
    "L5.sc.low": lambda r: scissorhands(r)["compression"]["low_score_counts"][0],
    "L5.sc.protected": lambda r: step(r, "scissorhands", 0)["protected_positions"][0],
    "L5.sc.drop": lambda r: scissorhands(r)["compression"]["dropped_positions"][0],
    "L5.sc.publish": lambda r: run(r, "scissorhands")["final_positions"][0],
    "L5.sc.printed_slice_keep": lambda r: scissorhands(r)["alternatives"]["printed_slice"]["kept_positions"][0],
    "L5.sc.slice": lambda r: scissorhands(r)["alternatives"]["printed_slice"]["evicts_a_recent_row"],
    "L5.sc.window_terms": lambda r: not scissorhands(r)["alternatives"]["printed_window"]["is_the_declared_width"],
    "L5.sc.assert_vacuous": lambda r: not scissorhands(r)["compression"]["printed_bound_excludes_a_drop"],
    "L5.h2o.start": lambda r: [run(r, "h2o")["parent_positions"][0], run(r, "h2o")["parent_scores"][0]],
    "L5.h2o.step1": lambda r: h2o_step(r, 0),
    "L5.h2o.step2": lambda r: h2o_step(r, 1),
    "L5.h2o.stale_order_evicts": lambda r: r["results"]["h2o"]["alternatives"]["select_before_scoring"][0][
        "evicted_positions"
    ][0],
    "L5.h2o.max_change": lambda r: [one["most_rows_entered"] for one in run(r, "h2o")["steps"]],
    "L5.kf.taus": lambda r: [
        *(one["temperature"] for one in run(r, "keyformer")["steps"]),
        r["results"]["keyformer"]["schedule"]["final_temperature"],
    ],
    "L5.kf.prompt_scores": lambda r: rounded([step(r, "keyformer", 0)["scores"][0][row] for row in (0, 2, 3)], 4),
    "L5.kf.prompt_odds": lambda r: round(probe(r, "prompt-rows-3-and-2")["increment_odds"], 3),
    "L5.kf.prompt_select": lambda r: step(r, "keyformer", 0)["kept_positions"][0],
    "L5.kf.candidates": lambda r: step(r, "keyformer", 1)["candidate_positions"][0],
    "L5.kf.decode_select": lambda r: step(r, "keyformer", 1)["kept_positions"][0],
    "L5.kf.gather_index": lambda r: step(r, "keyformer", 1)["gather_rows"][0],
    "L5.kf.y3_y2": lambda r: probe(r)["regularised_logits"],
    "L5.kf.delta3": lambda r: round(probe(r)["increments"][0], 4),
    "L5.kf.delta2": lambda r: round(probe(r)["increments"][1], 4),
    "L5.kf.step_odds": lambda r: round(probe(r)["increment_odds"], 3),
    "L5.kf.cum3": lambda r: round(probe(r)["cumulative_scores"][0], 4),
    "L5.kf.cum2": lambda r: round(probe(r)["cumulative_scores"][1], 4),
    "L5.kf.cum_odds": lambda r: round(probe(r)["cumulative_odds"], 3),
    "L5.kf.factor32": lambda r: round(probe(r)["cumulative_over_exponential"], 3),
    "L5.kf.factor02": lambda r: round(probe(r, "rows-0-and-2")["cumulative_over_exponential"], 3),
    "L5.kf.gap1": lambda r: round(probe(r)["gap_changes"][0]["gap_change"], 4),
    "L5.kf.gap15": lambda r: round(probe(r)["gap_changes"][1]["gap_change"], 4),
    "L5.kf.gap2": lambda r: round(probe(r)["gap_changes"][2]["gap_change"], 4),
    "L5.kf.y_decode": lambda r: step(r, "keyformer", 1)["regularised_logits"][0],
    "L5.kf.y_prompt": lambda r: step(r, "keyformer", 0)["regularised_logits"][0],
    "L5.kf.one_decimal_solutions": lambda r: r["results"]["provenance"]["keyformer_one_decimal_solutions"],
    "L5.kf.all_scores": score_table,
    "L5.kf.raw_attention_select": lambda r: r["results"]["keyformer"]["alternatives"]["ordinary_attention"][
        "kept_positions"
    ][0],
    "L5.final_sets": lambda r: {method: one["final_positions"][0] for method, one in r["results"]["runs"].items()},
    "L5.row": lambda r: r["results"]["geometry"]["row_bytes"],
    "L5.source": lambda r: r["ledgers"]["source_rows"]["value"],
    "L5.published": lambda r: r["ledgers"]["published_rows"]["value"],
    "L5.peak": lambda r: r["ledgers"]["append_before_evict_peak"]["value"],
    "L5.score_bytes": lambda r: r["ledgers"]["score_state"]["value"],
    "L5.peak_definition": lambda r: not r["results"]["payload"]["h2o"]["candidate_is_whole_peak"],
    "L5.peak_under_loop3_rule": lambda r: r["results"]["payload"]["h2o"]["candidate_plus_successor_bytes"],
    "L5.snapshots": lambda r: len(r["snapshots"]),
    "L5.probes": lambda r: [[one["position"], one["visible_to"]] for one in r["results"]["future_probes"].values()],
    "L5.mutations": lambda r: r["invalid_suites"]["fixtures/loop05_dynamic/invalid.json"]["rejected_as_expected"],
}
