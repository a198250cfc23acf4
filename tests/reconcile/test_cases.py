"""Field cases: comparisons that people made in public, each of which has to be refused for its reason.

The ids are those of the project's collection of field cases. Each case states only what its two sides said; everything
else is equal and declared, so that what is found is what kept the two apart. `differs` are the keys to be named as
different, `open_` those to be named as undeclared.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from kvaudit.reconcile.explain import explain
from kvaudit.reconcile.relation import INCOMPATIBLE
from kvaudit.render import explain as render
from kvaudit.render.tables import PIPE
from tests.reconcile.documents import full, subject

NONE: dict[str, Any] = {"state": "not_applicable"}


@dataclass
class Case:
    id: str
    metric: tuple[str, str]  # kind and unit
    values: tuple[Any, Any]
    a: dict[str, Any]
    b: dict[str, Any]
    differs: list[str]
    open_: list[str] = field(default_factory=list)
    says: str = ""  # a phrase that the explanation has to contain


PERCENT = ("task_score", "points")
BYTES = ("resident_bytes", "B")
ROWS = ("logical_rows", "rows")
SPEED = ("throughput", "tokens/s")
RATIO = ("ratio", "1")
LATENCY = ("latency", "ms")

CASES = [
    Case(
        "gqa-repeat-kv-no-saving",
        BYTES,
        (536870912, 536870912),
        {"cache.owner_granularity": "kv_head", "cache.owners": 256},
        {"cache.owner_granularity": "query_head", "cache.owners": 1024},
        ["cache.owner_granularity", "cache.owners"],
        says="If K/V was repeated to query heads before it was stored, the pruned cache can be as large",
    ),
    Case(
        "per-head-evict-frees-no-page",
        BYTES,
        (2, 4),
        {"claim.type": "logical_rows", "runtime.cache_layout": "ragged", "runtime.page_rows": NONE},
        {"claim.type": "resident_bytes", "runtime.cache_layout": "paged", "runtime.page_rows": 1},
        ["runtime.cache_layout", "runtime.page_rows", "claim.type"],
        says="Pages round the rows of each owner up",
    ),
    Case(
        "ratio-denominator-avg-length",
        RATIO,
        (Fraction(2857, 10000), Fraction(2381, 10000)),
        {"budget.denominator": "mean length of all samples"},
        {"budget.denominator": "sum of the rows of all samples"},
        ["budget.denominator"],
        says="The same runs give several headline ratios",
    ),
    Case(
        "ratio-vs-fixed-rows",
        PERCENT,
        (40, 41),
        {"budget.value": 128, "budget.unit": "rows", "budget.denominator": NONE},
        {"budget.value": Fraction(1, 2), "budget.unit": "fraction_removed", "budget.denominator": "prompt rows"},
        ["budget.value", "budget.unit", "budget.denominator"],
        says="compare where they coincide",
    ),
    Case(
        "heavy-recent-double-floor",
        ROWS,
        (2, 3),
        {"budget.scope": "heavy and recent shares, each rounded", "budget.rounding": "floor", "observed.rows": 2},
        {"budget.scope": "heavy and recent shares together", "budget.rounding": "floor", "observed.rows": 3},
        ["budget.scope", "observed.rows"],
    ),
    Case(
        "uncounted-extra-budget",
        PERCENT,
        (50, 45),
        {"budget.value": 256, "budget.scope": "scored rows; 128 local and outlier rows on top", "observed.rows": 384},
        {"budget.value": 256, "budget.scope": "all rows", "observed.rows": 256},
        ["budget.scope", "observed.rows"],
        says="A budget of 256 with 128 protected rows on top is a budget of 384",
    ),
    Case(
        "appended-rows-cost-budget",
        ROWS,
        (550, 500),
        {"budget.scope": "prompt rows; appended rows on top", "observed.rows": 550},
        {"budget.scope": "prompt and appended rows", "observed.rows": 500},
        ["budget.scope", "observed.rows"],
        says="rows appended after the compression all end up in this count",
    ),
    Case(
        "pyramid-silently-becomes-snapkv",
        PERCENT,
        (40, 42),
        {"policy.name": "pyramidkv", "policy.branch": "snapkv"},
        {"policy.name": "pyramidkv", "policy.branch": "pyramid"},
        ["policy.branch"],
        says="Record which branch ran for each sample",
    ),
    Case(
        "absolute-or-cache-relative",
        PERCENT,
        (30, 60),
        {"policy.name": "streaming_llm", "policy.position_semantics": "absolute"},
        {"policy.name": "streaming_llm", "policy.position_semantics": "cache_relative"},
        ["policy.position_semantics"],
        says="with rotary positions they are different attention, and so a different policy",
    ),
    Case(
        "h2o-window-not-accumulated",
        PERCENT,
        (30, 31),
        {"policy.name": "h2o", "policy.score_rule": "sum over all queries"},
        {"policy.name": "h2o", "policy.score_rule": "sum over the last two queries"},
        ["policy.score_rule"],
        says="Scores may run over all queries or a last window of them",
    ),
    Case(
        "chunk-simulation-sees-future-full-cache",
        PERCENT,
        (30, 31),
        {"phase.prefill_execution": "chunked_real"},
        {"phase.prefill_execution": "full_then_blockwise"},
        ["phase.prefill_execution"],
        says="call the blockwise one a simulation",
    ),
    Case(
        "compressed-once-in-200-samples",
        PERCENT,
        (70, 40),
        {"observed.coverage": Fraction(5, 1000)},
        {"observed.coverage": 1},
        ["observed.coverage"],
        says="its score is the score of the full cache",
    ),
    Case(
        "first-token-uses-full-cache",
        PERCENT,
        (70, 40),
        {"workload.decode_tokens": 1, "quality.generated_tokens": 1},
        {"workload.decode_tokens": 8, "quality.generated_tokens": 8},
        ["workload.decode_tokens", "quality.generated_tokens"],
        says="a run that stops there tests no compressed cache",
    ),
    Case(
        "code-metadata-not-counted",
        RATIO,
        (Fraction(5333, 1000), Fraction(4923, 1000)),
        {"metric.parts": "codes"},
        {"metric.parts": "codes and one norm"},
        ["metric.parts"],
        says="Codes without norms, scales, zero points and the residual window, or keys without values",
    ),
    Case(
        "zeroed-channels-save-nothing",
        BYTES,
        (1024, 614),
        {"claim.type": "simulated"},
        {"claim.type": "resident_bytes"},
        ["claim.type"],
        says="A simulated saving supports a claim about quality and none about memory",
    ),
    Case(
        "ragged-heads-padded-or-paged",
        BYTES,
        (56, 132),
        {"runtime.cache_layout": "ragged", "runtime.page_rows": NONE},
        {"runtime.cache_layout": "padded", "runtime.page_rows": NONE},
        ["runtime.cache_layout"],
        says="Ragged bytes follow the sum of the rows of all heads and padded bytes the longest head",
    ),
    Case(
        "lossy-prefix-other-question",
        PERCENT,
        (80, 40),
        {"workload.query_visibility": "inside_compressed_prompt"},
        {"workload.query_visibility": "outside_compressed_prompt"},
        ["workload.query_visibility"],
        says="nothing of a cache that is compressed once and asked many times",
    ),
    Case(
        "bench-hits-warm-prefix-cache",
        SPEED,
        (100, 186),
        {"runtime.prefix_cache": "cold", "runtime.prefix_cache_hit_rate": 0},
        {"runtime.prefix_cache": "warm", "runtime.prefix_cache_hit_rate": Fraction(92, 100)},
        ["runtime.prefix_cache", "runtime.prefix_cache_hit_rate"],
        says="Repeated runs over seeded prompts get faster by this alone",
    ),
    Case(
        "baseline-window-differs",
        PERCENT,
        (40, 38),
        {"policy.window": 8},
        {"policy.window": 32},
        ["policy.window"],
        says="A baseline that runs with another value has another budget to choose from",
    ),
    Case(
        "baseline-not-reproduced",
        PERCENT,
        (Fraction(433, 10), 50),
        {"workload.samples_per_item": 1, "workload.sampling": "temperature 1.0", "workload.items": 30},
        {"workload.samples_per_item": 64, "workload.sampling": "temperature 0.6", "workload.items": 30},
        ["workload.sampling", "workload.samples_per_item"],
        says="Draw the same number of outputs for each item",
    ),
    Case(
        "template-changes-score",
        PERCENT,
        (Fraction(9819, 100), Fraction(916, 10)),
        {"workload.prompt_template": "meta-chat"},
        {"workload.prompt_template": "llama3-headers"},
        ["workload.prompt_template"],
        says="The same question in another template keeps other rows",
    ),
    Case(
        "same-name-other-benchmark",
        PERCENT,
        (90, 80),
        {"workload.task": "ruler", "workload.suite": "nvidia"},
        {"workload.task": "ruler", "workload.suite": "helmet"},
        ["workload.suite"],
        says="Two suites ship task sets under one name",
    ),
    Case(
        "truncated-context-compared",
        PERCENT,
        (30, 40),
        {"workload.effective_tokens": 3500, "workload.truncation": "middle"},
        {"workload.effective_tokens": 31500, "workload.truncation": "none"},
        ["workload.effective_tokens", "workload.truncation"],
    ),
    Case(
        "metric-function-differs",
        PERCENT,
        (Fraction(1618, 100), Fraction(5744, 100)),
        {"metric.function": "qa_f1", "metric.scale": 100},
        {"metric.function": "substring_match", "metric.scale": 100},
        ["metric.function"],
        says="Token F1 and substring match",
    ),
    Case(
        "metric-function-differs (scale)",
        PERCENT,
        (1, 100),
        {"metric.scale": 1},
        {"metric.scale": 100},
        ["metric.scale"],
        says="Restate both on one scale",
    ),
    Case(
        "wrong-hardware-for-claim",
        SPEED,
        (150, 900),
        {"hardware.device": "L4", "hardware.memory_gib": 24, "runtime.max_batch_limited_by": "kv_memory"},
        {"hardware.device": "H100", "hardware.memory_gib": 80, "runtime.max_batch_limited_by": "compute"},
        ["hardware.device", "hardware.memory_gib", "runtime.max_batch_limited_by"],
        says="A device with memory to spare shows nothing of it",
    ),
    Case(
        "batch-and-flags-favour-one-side",
        SPEED,
        (100, 200),
        {"runtime.cuda_graphs": False, "runtime.memory_fraction": Fraction(8, 10), "workload.batch": "auto:4"},
        {"runtime.cuda_graphs": True, "runtime.memory_fraction": "default", "workload.batch": "auto"},
        ["runtime.cuda_graphs", "runtime.memory_fraction", "workload.batch"],
        says="an automatic batch is one only when the size it chose is recorded",
    ),
    Case(
        "output-lengths-differ",
        LATENCY,
        (900, 700),
        {"quality.generated_tokens": 128},
        {"quality.generated_tokens": 97},
        ["quality.generated_tokens"],
        says="runs that end early look fast",
    ),
    Case(
        "missing-sync-and-weak-baseline",
        LATENCY,
        (3, 9),
        {"runtime.device_sync": False, "baseline.attention_backend": "sdpa"},
        {"runtime.device_sync": True, "baseline.attention_backend": "flash_attention_2"},
        ["runtime.device_sync", "baseline.attention_backend"],
        says="times the launches and not the work",
    ),
    Case(
        "difference-inside-noise",
        PERCENT,
        (Fraction(6128, 10000), Fraction(6124, 10000)),
        {"workload.batch": 1},
        {"workload.batch": 8},
        ["workload.batch"],
        says="scores move by chance",
    ),
    Case(
        "zero-shared-rows-to-compare",
        SPEED,
        (512, 500),
        {"checkpoint.name": "/a/m.gguf", "checkpoint.revision": "x1"},
        {"checkpoint.name": "/b/m.gguf", "checkpoint.revision": "x1"},
        ["checkpoint.name"],
        says="If only the path differs, name the checkpoint by its public name and pin its revision",
    ),
    Case(
        "bench-all-requests-failed",
        LATENCY,
        (41, 55),
        {"observed.completed_fraction": Fraction(7, 10)},
        {"observed.completed_fraction": 1},
        ["observed.completed_fraction"],
        says="a mean over the survivors is a mean over an easier workload",
    ),
    Case(
        "lckv-current-token-kv",
        ROWS,
        (22, 1),
        {"cache.owner_granularity": "layer", "cache.owners": 22},
        {"cache.owner_granularity": "layer_group", "cache.owners": 1},
        ["cache.owner_granularity", "cache.owners"],
    ),
    Case(
        "zigzag-rounding-and-cap",
        BYTES,
        (31, 30),
        {"phase.budget_decision": "after a pass over the whole model", "budget.rounding": "half_even"},
        {"phase.budget_decision": "before the run", "budget.rounding": "largest_remainder"},
        ["phase.budget_decision", "budget.rounding"],
        says="its peak is the peak of no policy at all",
    ),
    Case(
        "dms-name-without-dms",
        BYTES,
        (4096, 1024),
        {"policy.name": "dms", "claim.type": "simulated", "policy.implementation": "threshold on a scorer, masked"},
        {"policy.name": "dms", "claim.type": "resident_bytes", "policy.implementation": "trained predictor, compacted"},
        ["policy.implementation", "claim.type"],
        says="Zeroed or masked entries occupy what they did before",
    ),
    Case(
        "all-zero-scores-are-collapse",
        PERCENT,
        (0, 72),
        {"quality.generated_tokens": 1},
        {"quality.generated_tokens": 40},
        ["quality.generated_tokens"],
        says="is a collapse and no point on a curve of quality",
    ),
    Case(
        "mode-name-changes-phase",
        ROWS,
        (1128, 128),
        {"policy.name": "snapkv", "phase.prefill_rule": "snapkv", "phase.decode_rule": "none", "observed.rows": 1128},
        {"policy.name": "snapkv", "phase.prefill_rule": "snapkv", "phase.decode_rule": "h2o", "observed.rows": 128},
        ["phase.decode_rule", "observed.rows"],
        says="hold different numbers of rows after a thousand",
    ),
    Case(
        "bytes-per-token-vs-pool",
        RATIO,
        (Fraction(1471, 1000), Fraction(1016, 1000)),
        {"claim.type": "resident_bytes", "metric.denominator": "bytes for each token"},
        {"claim.type": "pool_capacity", "metric.denominator": "pool tokens at equal settings"},
        ["metric.denominator", "claim.type"],
        says="are three factors from one change; the denominator tells which",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case):
    kind, unit = case.metric
    a, b = (
        subject(full(**side), {"m": {"value": value, "unit": unit, "kind": kind}}, name=name)
        for side, value, name in ((case.a, case.values[0], "a"), (case.b, case.values[1], "b"))
    )
    explanation = explain(a, b)
    assert explanation.relation.kind == INCOMPATIBLE
    [metric] = explanation.relation.metrics
    assert list(metric.differing) == case.differs
    assert list(metric.undeclared) == case.open_
    assert [change.name for change in explanation.smallest.changes] == case.differs
    text = render.text(explanation, PIPE)
    assert case.says in text
    for key in case.differs:
        assert f"\n  {key}" in text
    assert_no_measured_value(case, text)
    assert_consistent(explanation)


def assert_no_measured_value(case, text):
    """Neither value is shown, nor their difference or quotient; a number may stand there as a coordinate."""
    stated = {str(value) for side in (case.a, case.b) for value in side.values()}
    [line] = [line for line in text.splitlines() if line.startswith("  m: ")]
    assert not any(character.isdigit() for character in line)
    for value in case.values:
        if str(value) not in stated and value > 99:
            assert str(value) not in text


def assert_consistent(explanation):
    """What is said of a row follows from what is shown of it: the case error-message-predicate."""
    for row in explanation.rows:
        one, other = render._values(row)
        assert (one == other) == (row.state in ("equal", "not_applicable")) or row.state == "undeclared"


def test_error_message_predicate():
    """Two values that are called different look different, also where one reader would print them alike."""
    for one, other in (
        (128, "128"),
        (True, "true"),
        ("a", "a "),
        ("é", "e\u0301"),
        ("x", "X"),
        ("a\tb", "a b"),
        ("", " "),
    ):
        key = {"zoo.x": one}, {"zoo.x": other}
        a, b = (subject({**full(), **each}) for each in key)
        [row] = [row for row in explain(a, b).rows if row.key == "zoo.x"]
        shown, shown_other = render._values(row)
        assert row.state == "different"
        assert shown != shown_other
        assert render._looks(shown) != render._looks(shown_other)
    a, b = subject({"zoo.x": "(undeclared)"}), subject({"zoo.x": {"state": "not_applicable"}})
    [row] = [row for row in explain(a, b).rows if row.key == "zoo.x"]
    assert render._values(row) == ('"(undeclared)"', "(not applicable)")


def test_unit_header_vs_cell():
    """1.5 s and 900 ms are shown in one unit; without any ratio of the two."""
    a = subject(full(), {"m": {"value": Fraction(3, 2), "unit": "s", "kind": "latency"}})
    b = subject(full(), {"m": {"value": 900, "unit": "ms", "kind": "latency"}}, name="b")
    text = render.text(explain(a, b), PIPE)
    assert "m: may be compared; A 1.5 s, B 0.9 s" in text
    assert "1.66" not in text
    tokens = subject(full(), {"m": {"value": 900, "unit": "MB", "kind": "latency"}}, name="b")
    [metric] = explain(a, tokens).relation.metrics
    assert metric.differing == ("unit",)


def test_accuracy_and_speed_from_two_systems():
    """Quality from one system and speed from another: no common metric, and the systems are named as different."""
    a, b = (
        subject({**full(), "evidence.system_sha256": digest}, {kind: {"value": value, "unit": unit}}, name=name)
        for name, digest, kind, value, unit in (
            ("a", "aa", "task_score", 90, "points"),
            ("b", "bb", "throughput", 120, "tokens/s"),
        )
    )
    explanation = explain(a, b)
    assert explanation.relation.kind == INCOMPATIBLE
    text = render.text(explanation, PIPE)
    assert "The two have no metric in common." in text
    assert "Quality from one system and speed from another do not show that any system has both." in text


def test_a_missing_requirement_is_an_open_one():
    """bench-all-requests-failed, where nobody counted: undeclared, and so not comparable either."""
    coordinates = full()
    del coordinates["observed.completed_fraction"]
    a, b = (
        subject(coordinates, {"m": {"value": v, "unit": "ms", "kind": "latency"}}, name=n)
        for n, v in (("a", 4), ("b", 5))
    )
    [metric] = explain(a, b).relation.metrics
    assert metric.undeclared == ("observed.completed_fraction",)
