"""Every selector keeps the positions of its definition in `policies`, on the same attention, in float64.

The attention is formed here a second time, in one piece and not in blocks; its float64 values, taken as the exact
numbers they are, go into the definitions.
"""

import json
from fractions import Fraction

import pytest
import torch

from kvaudit.evidence import canonical
from kvaudit.measure import attention, cache, names, outcomes, policies, profile, prompts, run
from kvaudit.measure.selection import Budget
from kvaudit.policies import (
    adakv,
    fastgen,
    h2o,
    headkv,
    keyformer,
    pyramidkv,
    retention,
    scissorhands,
    sliding_window,
    snapkv,
    streaming_llm,
    zigzagkv,
)
from kvaudit.policies.apportionment import apportion
from kvaudit.policies.attention import top_k
from kvaudit.policies.retention import Rows
from tests.measure import tiny

LAYERS, KV_HEADS, GROUP, PROMPT, ROWS, STEPS = 3, 2, 2, 41, 18, 9
SHAPE = {"layers": LAYERS, "query_heads": KV_HEADS * GROUP, "kv_heads": KV_HEADS, "head_dimension": 6}
HEADS = [(layer, head) for layer in range(LAYERS) for head in range(KV_HEADS)]


@pytest.fixture(scope="module")
def checkpoint():
    return tiny.checkpoint(torch.float64, **SHAPE)


@pytest.fixture(scope="module")
def prompt(checkpoint):
    return attention.prefill(checkpoint.model, tiny.token_ids(PROMPT), PROMPT)


def exact(tensor):
    """Nested lists of the exact values of a tensor."""
    if tensor.dim() == 0:
        return Fraction(tensor.item())
    return [exact(each) for each in tensor]


def logits(prompt, layer, query_head):
    """One head's logits as a causal triangle: row t has t + 1 entries."""
    keys = prompt.keys[layer][query_head // GROUP]
    full = prompt.queries[layer][query_head] @ keys.T * prompt.scaling
    return [full[row, : row + 1] for row in range(PROMPT)]


def triangle(prompt, layer, query_head):
    return [exact(torch.softmax(row, dim=0)) for row in logits(prompt, layer, query_head)]


def readers(head):
    return range(head * GROUP, (head + 1) * GROUP)


def handed_off(checkpoint, prompt, name, budget=ROWS, **stated):
    policy = policies.policy_by_name(name)
    asked = Budget(Fraction(budget), "rows", "kv_head") if policy.takes_budget else None
    setting = run.Setting(
        policy, policies.resolved(policy, {key: str(value) for key, value in stated.items()}), asked, 5
    )
    return run.hand_off(checkpoint, prompt, setting, STEPS)


def kept(handoff, layer, head):
    return tuple(handoff.kept[layer, head].nonzero()[:, 0].tolist())


def positions(intervals):
    return tuple(position for begin, end in intervals for position in range(begin, end))


def replayed(checkpoint, prompt, handoff):
    """Decode, and return the cache with every step's (layer, positions of the candidate, logits, weights, marks)."""
    seen = []
    store = run.compacted(prompt, handoff, STEPS)
    rule = store.rule

    def after(rows, step):
        marks = None if rows.marks is None else rows.marks[..., : rows.rows].clone()
        seen.append((step, rows.positions[:, : rows.rows].tolist(), marks))
        return rule.after(rows, step)

    store.rule = cache.Rule(rule.before, after, rule.arrived, rule.encoded, rule.most_rows)
    states = []
    for token in tiny.token_ids(STEPS, seed=2):
        cache.decode(checkpoint.model, token, store)
        states.append(
            [[rows.positions[head, : rows.lengths[head]].tolist() for head in range(KV_HEADS)] for rows in store.stores]
        )
    by_step = [seen[number * LAYERS : (number + 1) * LAYERS] for number in range(STEPS)]
    return by_step, states


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("full", lambda frontier: ((0, frontier),)),
        ("window", lambda frontier: sliding_window.visible(frontier, ROWS)),
        ("streaming", lambda frontier: streaming_llm.visible(frontier, 4, ROWS - 4)),
        ("streaming_repositioned", lambda frontier: streaming_llm.visible(frontier, 4, ROWS - 4)),
    ],
)
def test_static_views(checkpoint, prompt, name, view):
    """At the hand-off and at every query: the view at its frontier, its own row included."""
    handoff = handed_off(checkpoint, prompt, name)
    store = run.compacted(prompt, handoff, STEPS)
    store.views = []
    assert all(kept(handoff, *owner) == positions(view(PROMPT)) for owner in HEADS)
    for token in tiny.token_ids(STEPS):
        cache.decode(checkpoint.model, token, store)
    for number, layers in enumerate(store.views):
        expected = list(positions(view(PROMPT + number + 1)))
        assert all(sorted(head) == expected for layer in layers for head in layer.tolist())


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
def test_h2o(checkpoint, prompt, reduction):
    recent = 7
    handoff = handed_off(checkpoint, prompt, "h2o", recent_rows=recent, reduction=reduction)
    by_step, states = replayed(checkpoint, prompt, handoff)
    for layer, head in HEADS:
        sums = [retention.summed_over_queries(triangle(prompt, layer, each), PROMPT) for each in readers(head)]
        candidate = Rows(tuple(range(PROMPT)), retention.reduced(sums, reduction))
        expected = h2o.select(candidate, ROWS - recent, recent)
        assert kept(handoff, layer, head) == expected
        state = candidate.gathered(retention.packed_rows(candidate.positions, expected))
        for number in range(STEPS):
            step, seen, _ = by_step[number][layer]
            candidate = state.appended([PROMPT + number])
            assert tuple(seen[head]) == candidate.positions
            increment = retention.reduced(exact(step.weights[head, :, 0]), reduction)
            candidate = h2o.accumulated(candidate, increment)
            expected = h2o.select(candidate, ROWS - recent, recent)
            state = candidate.gathered(retention.packed_rows(candidate.positions, expected))
            assert tuple(states[number][layer][head]) == expected


@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_keyformer(checkpoint, prompt, reduction):
    recent, first, last = 5, Fraction(1), Fraction(2)
    handoff = handed_off(checkpoint, prompt, "keyformer", recent_rows=recent, reduction=reduction)
    by_step, states = replayed(checkpoint, prompt, handoff)
    schedule = keyformer.Schedule(first, last, STEPS, keyformer.CLAMP, {})
    for layer, head in HEADS[:3]:
        noise = exact(handoff.marks[layer][:, head])
        sums = []
        for place, query_head in enumerate(readers(head)):
            rows = [
                keyformer.regularised(exact(row), noise[place][: len(row)]) for row in logits(prompt, layer, query_head)
            ]
            sums.append(keyformer.increments(rows, schedule.temperature(0), PROMPT))
        candidate = Rows(tuple(range(PROMPT)), retention.reduced(sums, reduction))
        expected = keyformer.select(candidate, ROWS - recent, recent)
        assert kept(handoff, layer, head) == expected
        state = candidate.gathered(retention.packed_rows(candidate.positions, expected))
        for number in range(STEPS):
            step, _, marks = by_step[number][layer]
            candidate = state.appended([PROMPT + number])
            sums = [
                keyformer.increments(
                    [keyformer.regularised(exact(step.logits[head, place, 0]), exact(marks[place, head]))],
                    schedule.temperature(number + 1),
                    len(candidate.positions),
                )
                for place in range(GROUP)
            ]
            scores = [old + new for old, new in zip(candidate.scores, retention.reduced(sums, reduction), strict=True)]
            candidate = Rows(candidate.positions, tuple(scores))
            expected = keyformer.select(candidate, ROWS - recent, recent)
            state = candidate.gathered(retention.packed_rows(candidate.positions, expected))
            assert tuple(states[number][layer][head]) == expected


def test_keyformer_draws_noise_once_a_row(checkpoint, prompt):
    by_step, _ = replayed(checkpoint, prompt, handed_off(checkpoint, prompt, "keyformer"))
    drawn = {}
    for layers in by_step:
        for step, seen, marks in layers:
            for head in range(KV_HEADS):
                for column, position in enumerate(seen[head]):
                    value = marks[:, head, column].tolist()
                    assert drawn.setdefault((step.layer, head, position), value) == value


@pytest.mark.parametrize("history", [6, 100])
def test_scissorhands(checkpoint, prompt, history):
    recent, drop = 3, 4
    handoff = handed_off(
        checkpoint, prompt, "scissorhands", recent_rows=recent, drop_rows=drop, history_rows=history, reduction="sum"
    )
    by_step, states = replayed(checkpoint, prompt, handoff)
    for layer, head in HEADS:
        past = [
            [
                scissorhands.AttentionRow(query, dict(enumerate(row)))
                for query, row in enumerate(triangle(prompt, layer, each))
            ]
            for each in readers(head)
        ]

        def counts(of, past=past):
            rows = [scissorhands.low_score_counts_per_step(of, each[-history:]) for each in past]
            return retention.reduced(rows, "sum")

        candidate = tuple(range(PROMPT))
        state = scissorhands.compress(candidate, counts(candidate), recent, PROMPT - ROWS)
        assert kept(handoff, layer, head) == state
        for number in range(STEPS):
            step, seen, _ = by_step[number][layer]
            candidate = (*state, PROMPT + number)
            assert tuple(seen[head]) == candidate
            for place, each in enumerate(past):
                weights = dict(zip(candidate, exact(step.weights[head, place, 0]), strict=True))
                each.append(scissorhands.AttentionRow(PROMPT + number, weights))
            state = candidate
            if len(candidate) > ROWS:
                state = scissorhands.compress(candidate, counts(candidate), recent, drop)
            assert tuple(states[number][layer][head]) == state


def votes(prompt, window, contract, pooling, kernel):
    """Exact pooled votes [layers][K/V heads][prefix]."""
    prefix = PROMPT - window
    heads = KV_HEADS * GROUP
    groups = [head // GROUP for head in range(heads)]
    pooled = []
    for layer in range(LAYERS):
        by_head = [snapkv.prefix_votes(triangle(prompt, layer, head)[prefix:], prefix) for head in range(heads)]
        owners = snapkv.owner_votes(by_head, groups, KV_HEADS, contract)
        pooled.append([snapkv.pooled(each, pooling, kernel) for each in owners])
    return pooled


def best(scores, count, window):
    return (*sorted(top_k(scores, count)), *range(PROMPT - window, PROMPT))


@pytest.mark.parametrize("contract", ["mean", "max"])
@pytest.mark.parametrize("pooling", snapkv.POOLINGS)
def test_snapkv(checkpoint, prompt, contract, pooling):
    window = 6
    handoff = handed_off(
        checkpoint, prompt, "snapkv", window_rows=window, reduction=contract, pooling=pooling, kernel_rows=3
    )
    scores = votes(prompt, window, contract, pooling, 3)
    for layer, head in HEADS:
        assert kept(handoff, layer, head) == best(scores[layer][head], ROWS - window, window)


def test_pyramidkv(checkpoint, prompt):
    window, base = 6, ROWS - 6
    handoff = handed_off(checkpoint, prompt, "pyramidkv", window_rows=window, beta=4)
    scores = votes(prompt, window, "mean", "average_padding_counted", 5)
    budgets = pyramidkv.layer_budgets(base * LAYERS, LAYERS, 4, [1] * LAYERS, [PROMPT - window] * LAYERS)
    assert len(set(budgets)) == LAYERS
    for layer, head in HEADS:
        assert kept(handoff, layer, head) == best(scores[layer][head], budgets[layer], window)


def test_zigzagkv(checkpoint, prompt):
    window, base, minimum, share = 6, ROWS - 6, 2, Fraction(4, 5)
    handoff = handed_off(checkpoint, prompt, "zigzagkv", window_rows=window, minimum_rows=minimum, share=share)
    scores = votes(prompt, window, "mean", "average_padding_counted", 5)
    means = []
    for layer in range(LAYERS):
        rows = [row for head in range(KV_HEADS * GROUP) for row in triangle(prompt, layer, head)[PROMPT - window :]]
        means.append(zigzagkv.layer_mean([zigzagkv.minimum_budget_of_attention(row, share) for row in rows]))
    targets = zigzagkv.layer_targets(means, base, minimum)
    budgets = apportion(targets, base * LAYERS, [1] * LAYERS, [PROMPT - window] * LAYERS)
    assert handoff.facts["layer_mean_rows_needed"] == means
    for layer, head in HEADS:
        assert kept(handoff, layer, head) == best(scores[layer][head], budgets[layer], window)


@pytest.mark.parametrize("alpha", [Fraction(0), Fraction(3, 10), Fraction(1)])
def test_adakv(checkpoint, prompt, alpha):
    window, base = 6, ROWS - 6
    handoff = handed_off(checkpoint, prompt, "adakv", window_rows=window, alpha=alpha, floor_rows=2)
    scores = votes(prompt, window, "mean", "maximum", 7)
    for layer in range(LAYERS):
        counts = adakv.raw_counts(scores[layer], base * KV_HEADS)
        targets = adakv.safeguarded_targets(counts, alpha)
        budgets = apportion(targets, base * KV_HEADS, [2] * KV_HEADS, [PROMPT - window] * KV_HEADS)
        for head in range(KV_HEADS):
            assert kept(handoff, layer, head) == best(scores[layer][head], budgets[head], window)


def profile_file(folder, checkpoint, importances, **changes):
    path = folder / "profile.json"
    document = {
        "schema": "kvaudit.head-profile/1",
        "checkpoint": "tiny",
        "checkpoint_sha256": checkpoint.sha256,
        "calibration": {"method": "by hand", "prompts_sha256": "0" * 64, "prompts": ["a"]},
        "importances": importances,
        **changes,
    }
    path.write_text(json.dumps(document))
    return {"profile": path, "profile_sha256": canonical.sha256(path.read_bytes())}


IMPORTANCES = [[1, 2], [3, 1], [0, 5]]


def test_headkv(checkpoint, prompt, tmp_path):
    window, base, beta = 6, ROWS - 6, Fraction(3, 2)
    stated = profile_file(tmp_path, checkpoint, IMPORTANCES)
    handoff = handed_off(checkpoint, prompt, "headkv", window_rows=window, **stated)
    scores = votes(prompt, window, "mean", "maximum", 7)
    owners = LAYERS * KV_HEADS
    shares = [Fraction(each, 12) for heads in IMPORTANCES for each in heads]
    budgets = apportion(
        headkv.owner_targets(shares, base, beta), base * owners, [1] * owners, [PROMPT - window] * owners
    )
    assert len(set(budgets)) > 2
    for owner, (layer, head) in enumerate(HEADS):
        assert kept(handoff, layer, head) == best(scores[layer][head], budgets[owner], window)


def test_fastgen(checkpoint, prompt):
    threshold, share = Fraction(7, 10), Fraction(1, 4)
    handoff = handed_off(checkpoint, prompt, "fastgen", threshold=threshold, local_share=share, frequent_share=share)
    ids = prompt.token_ids
    marks = [1 + tiny.CHARACTERS.index(each) for each in ".,?!"]
    chosen = set()
    for layer, head in HEADS:
        sums = [retention.summed_over_queries(triangle(prompt, layer, each), PROMPT) for each in readers(head)]
        mass = [each / PROMPT for each in retention.reduced(sums, "mean")]
        patterns = {
            "special": [place for place, token in enumerate(ids) if token == 0],
            "punctuation": [place for place, token in enumerate(ids) if token in marks],
            "frequency": top_k(mass, PROMPT // 4),
            "locality": range(PROMPT - PROMPT // 4, PROMPT),
            "full": range(PROMPT),
        }
        expected = fastgen.choose(mass, fastgen.nested_families(patterns), threshold)
        assert kept(handoff, layer, head) == expected.positions
        assert handoff.facts["families"][layer][head] == expected.policy
        chosen.add(expected.policy)
    assert len(chosen) > 1


@pytest.mark.parametrize(
    ("importances", "changes", "said"),
    [
        ([[1, 1]] * 3, {}, "uniform"),
        ([[0, 0]] * 3, {}, "not all zero"),
        (IMPORTANCES[:2], {}, "not for 3 layers"),
        (IMPORTANCES, {"checkpoint_sha256": "0" * 64}, "another checkpoint"),
        (IMPORTANCES, {"extra": 1}, "extra"),
    ],
)
def test_a_profile_that_does_not_fit_is_refused(checkpoint, prompt, tmp_path, importances, changes, said):
    stated = profile_file(tmp_path, checkpoint, importances, **changes)
    with pytest.raises(outcomes.Stopped, match=said):
        handed_off(checkpoint, prompt, "headkv", window_rows=6, **stated)


def test_a_profile_is_pinned_by_its_bytes(checkpoint, prompt, tmp_path):
    stated = profile_file(tmp_path, checkpoint, IMPORTANCES)
    with pytest.raises(outcomes.Stopped, match="was pinned"):
        handed_off(checkpoint, prompt, "headkv", window_rows=6, **{**stated, "profile_sha256": "0" * 64})
    with pytest.raises(outcomes.Stopped, match="without a calibration"):
        handed_off(checkpoint, prompt, "headkv", window_rows=6)


def test_a_calibration_is_the_attention_to_the_evidence(checkpoint, prompt):
    """Two answer tokens behind one fed token: the queries of the fed token and of the first answer token count."""
    fed, answer = tiny.token_ids(1, seed=4), tiny.token_ids(2, seed=5)
    asked = prompts.DelayedReference("r", fed, answer, None, None, (10, 14))
    case = prompts.Case("a", prompt.token_ids, None, (asked,))
    found = profile.calibrated(checkpoint, [case])
    longer = attention.prefill(checkpoint.model, (*prompt.token_ids, *fed, *answer[:1]), PROMPT + 2)
    for layer, head in HEADS:
        shares = []
        for query_head in readers(head):
            scores = longer.queries[layer][query_head] @ longer.keys[layer][head].T * prompt.scaling
            rows = [torch.softmax(scores[row, : row + 1], dim=0) for row in (PROMPT, PROMPT + 1)]
            shares.append(sum(float(row[10:14].sum()) for row in rows) / 2)
        assert found[layer][head] == pytest.approx(sum(shares) / GROUP, rel=1e-9)


def test_the_command_line_knows_the_names_of_all_policies():
    assert [policy.name for policy in policies.POLICIES] == list(names.POLICY_NAMES)
