"""Loop 6 beyond its suites: a real model's shape, every switch, short prompts, and no input that crashes it."""

import contextlib
import copy
import random
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.declared import observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop06_snapkv as loop06
from kvaudit.suite.entry import redeclared

LOOP = loop06.LOOP
ROOT = Path(__file__).parents[2]
SHIPPED = parse_json((ROOT / "fixtures" / LOOP.id / "fixture.json").read_bytes())
POOLINGS = ("average_padding_counted", "average_in_range", "maximum", "none")


def random_attention(choose, layers, query_heads, window, prompt):
    """Thousandths that sum to one over the keys that each query sees, and 0 after them."""
    tensor = []
    for _ in range(layers):
        tensor.append([])
        for _ in range(query_heads):
            rows = []
            for query in range(window):
                visible = prompt - window + query + 1
                cuts = sorted(choose.randint(0, 1000) for _ in range(visible - 1))
                parts = [b - a for a, b in zip([0, *cuts], [*cuts, 1000], strict=True)]
                rows.append([Fraction(part, 1000) for part in parts] + [0] * (prompt - visible))
            tensor[-1].append(rows)
    return tensor


def stated(score):
    """A score as a receipt would print it."""
    return Fraction(f"{float(score):.12g}")


def plain_selection(attention, groups, contract, pooling, kernel, selected):
    """Votes, pooled votes and positions of each owner of one layer, by plain loops: no code under test."""
    window, prompt = len(attention[0]), len(attention[0][0])
    prefix = prompt - window
    per_head = [[sum(row[j] for row in head) for j in range(prefix)] for head in attention]
    if contract != "none":
        columns = [[[per_head[q][j] for q in group] for j in range(prefix)] for group in groups]
        per_head = [[max(c) if contract == "max" else Fraction(sum(c)) / len(c) for c in owner] for owner in columns]
    owners = []
    for votes in per_head:
        scores = []
        for j in range(prefix):
            near = [votes[i] for i in range(prefix) if abs(i - j) <= kernel // 2]
            if pooling == "none":
                near = [votes[j]]
            divisor = kernel if pooling == "average_padding_counted" else len(near)
            scores.append(max(near) if pooling == "maximum" else Fraction(sum(near)) / divisor)
        best = sorted(range(prefix), key=lambda j, scores=scores: (-scores[j], j))[:selected]
        owners.append((votes, scores, best))
    return owners


def fixture_of(
    layers=2,
    query_heads=4,
    kv_heads=2,
    head_dimension=3,
    prompt=6,
    window=2,
    capacity=4,
    contract="mean",
    pooling="average_padding_counted",
    kernel=3,
    steps=1,
    seed=0,
):
    """A valid fixture of another shape. A prompt below the capacity is a full cache without a selection."""
    choose = random.Random(seed)
    fixture = copy.deepcopy(SHIPPED)
    group = query_heads // kv_heads
    head_map = [head // group for head in range(query_heads)]
    owner_heads = head_map if contract == "none" else list(range(kv_heads))
    fixture["geometry"].update(layers=layers, query_heads=query_heads, kv_heads=kv_heads, head_dimension=head_dimension)
    fixture["geometry"]["q_to_kv_head_map"] = head_map
    fixture["policy"].update(observation_window_rows=window, owner_contract=contract)
    fixture["policy"]["budget"] = {"form": "capacity_rows", "capacity_rows": capacity}
    fixture["policy"]["pooling"] = {"kind": pooling, "kernel_rows": kernel}
    strides = {"position_stride": head_dimension, "kv_head_stride": head_dimension * (prompt + steps)}
    strides["layer_stride"] = strides["kv_head_stride"] * kv_heads
    strides["value_offset"] = strides["layer_stride"] * layers
    fixture["source_cache"].update(prompt_rows=prompt, symbolic_content=strides)
    short = prompt < capacity
    if short:
        packed = [[list(range(prompt)) for _ in owner_heads] for _ in range(layers)]
        fixture.update(observation=None, selection_receipts=None)
    else:
        attention = random_attention(choose, layers, query_heads, window, prompt)
        fixture["observation"].update(query_positions=list(range(prompt - window, prompt)), attention=attention)
        groups = [[q for q, owner in enumerate(head_map) if owner == kv] for kv in range(kv_heads)]
        chosen = [
            plain_selection(of_layer, groups, contract, pooling, kernel, capacity - window) for of_layer in attention
        ]
        last = list(range(prompt - window, prompt))
        fixture["selection_receipts"] = [
            [
                {
                    "votes": [stated(vote) for vote in votes],
                    "pooled_votes": [stated(score) for score in scores],
                    "selected_prefix_positions": best,
                    "observation_positions": last,
                }
                for votes, scores, best in of_layer
            ]
            for of_layer in chosen
        ]
        packed = [[best + last for _, _, best in of_layer] for of_layer in chosen]
    kept = min(prompt, capacity)

    def rows(flat, offset):
        return [
            list(range(first, first + head_dimension))
            for layer, owner, position in flat
            for first in [
                offset
                + layer * strides["layer_stride"]
                + owner_heads[owner] * strides["kv_head_stride"]
                + position * strides["position_stride"]
            ]
        ]

    flat = [(layer, owner, p) for layer, of in enumerate(packed) for owner, each in enumerate(of) for p in each]
    cache = 200 if short else 201
    fixture["compressed_view"].update(
        cache_generation=cache,
        logical_rows=prompt,
        physical_rows_per_owner=kept,
        owner_offsets=[kept * index for index in range(layers * len(owner_heads) + 1)],
        original_position_map=[position for _, _, position in flat],
        packed_key_rows=rows(flat, 0),
        packed_value_rows=rows(flat, strides["value_offset"]),
    )
    fixture["compression_receipt"].update(
        compressed_cache_generation=cache,
        prompt_frontier=prompt,
        branch="full_cache" if short else "selection",
        owner_count=layers * len(owner_heads),
        rows_per_owner=kept,
    )
    fixture["layer_publications"] = [
        {"layer": layer, "cache_generation": cache, "state_generation": 11} for layer in range(layers)
    ]
    if short:
        fixture["cancellations"] = []
    owners = [(layer, owner) for layer in range(layers) for owner in range(len(owner_heads))]
    fixture["decode_steps"] = [
        {
            "original_position": prompt + step,
            "rotary_position": prompt + step,
            "parent_cache_generation": cache + step,
            "cache_generation": cache + step + 1,
            "state_generation": 11,
            "tail": [prompt, prompt + step + 1],
            "logical_rows": prompt + step + 1,
            "physical_rows_per_owner": kept + step + 1,
            "appended_key_rows": rows([(*owner, prompt + step) for owner in owners], 0),
            "appended_value_rows": rows([(*owner, prompt + step) for owner in owners], strides["value_offset"]),
        }
        for step in range(steps)
    ]
    middle = [] if short else ["observe", "select", "gather"]
    fixture["phases"] = [
        *(phase(name, 200, 10, prompt) for name in ["prefill", *middle]),
        phase("publish", cache, 11, prompt),
        *(phase("decode", cache + step + 1, 11, prompt + step + 1) for step in range(steps)),
    ]
    fixture["prefix_index"]["approximate"][0]["cache_generation"] = cache
    full, compressed = ("full_prompt_payload", "compressed_prompt_payload")
    if contract == "none":
        full, compressed = ("expanded_full_payload", "expanded_compressed_payload")
    fixture["payload_claims"] = [{"before": full, "after": compressed, "ratio": stated(Fraction(prompt, kept))}]
    return fixture


def phase(name, cache, state, frontier):
    return {
        "phase": name,
        "visible_cache_generation": cache,
        "visible_state_generation": state,
        "cache_frontier": frontier,
    }


def evidence_of(fixture):
    """Judge a fixture that has to pass its schema and every contract."""
    whole = redeclared(LOOP, fixture)
    assert schema.defects(LOOP.fixture_schema, whole) == ()
    return observe(LOOP, whole)


def ledgers_of(evidence):
    return {row.name: row.value for row in evidence.ledgers}


def violation(fixture):
    with pytest.raises(ContractViolation) as caught:
        observe(LOOP, fixture)
    return caught.value.diagnostic.code, caught.value.pointer


def test_a_real_models_shape():
    """Llama-3.1-8B: 32 layers, 32 query heads on 8 K/V heads, d_h 128; a prompt of 12 rows, window 3, capacity 6."""
    evidence = evidence_of(fixture_of(32, 32, 8, 128, prompt=12, window=3, capacity=6, kernel=5))
    row = 128 * 4
    assert ledgers_of(evidence) == {
        "full_prompt_payload": 256 * 12 * row,
        "compressed_prompt_payload": 256 * 6 * row,
        "expanded_full_payload": 1024 * 12 * row,
        "expanded_compressed_payload": 1024 * 6 * row,
        "position_map": 256 * 6 * 4,
        "owner_offsets": 257 * 4,
        "first_append": 256 * row,
    }
    assert len(evidence.snapshots) == 512
    assert evidence.results["packed_original_positions"]["count"] == 32 * 8 * 6
    assert evidence.results["gather"]["scalars_checked"] == 2 * 256 * 7 * 128


@pytest.mark.parametrize("contract", ["mean", "max", "none"])
@pytest.mark.parametrize("pooling", ["average_padding_counted", "average_in_range", "maximum", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_every_owner_contract_and_pooling(contract, pooling, seed):
    kernel = 1 if pooling == "none" else 3 + 2 * seed
    fixture = fixture_of(2, 6, 2, 2, 9, 2, 5, contract, pooling, kernel, seed=seed)
    results = evidence_of(fixture).results
    assert results["owners"]["count"] == 2 * (6 if contract == "none" else 2)
    assert set(results["selection"]["other_poolings"]) | {pooling} == set(POOLINGS)
    assert set(results["selection"]["other_owner_contracts"]) | {contract} == {"mean", "max", "none"}


def test_the_labelled_alternatives_are_what_the_switch_would_give():
    base = {"prompt": 9, "window": 2, "capacity": 5, "seed": 8}
    shipped = evidence_of(fixture_of(**base)).results["selection"]
    for name, switch in (("other_poolings", "pooling"), ("other_owner_contracts", "contract")):
        for value, positions in shipped[name].items():
            if value != "none" or name == "other_owner_contracts":
                other = evidence_of(fixture_of(**base, **{switch: value})).results["selection"]
                assert other["selected_prefix_positions"] == positions


def test_query_head_owners_store_expanded_rows():
    """The pinned repeat_kv: eight owners keep what K/V heads hold, and no payload is stored per K/V head."""
    evidence = evidence_of(fixture_of(contract="none"))
    ledgers = ledgers_of(evidence)
    assert ledgers["compressed_prompt_payload"] is None
    assert (ledgers["full_prompt_payload"], ledgers["expanded_compressed_payload"]) == (288, 384)
    assert (ledgers["position_map"], ledgers["owner_offsets"], ledgers["first_append"]) == (128, 36, 96)
    assert evidence.comparisons[0].members == ("expanded_full_payload", "expanded_compressed_payload")
    assert {snapshot.owner for snapshot in evidence.snapshots} == {
        f"layer {layer} query head {head}" for layer in range(2) for head in range(4)
    }


def test_a_claim_about_what_query_head_owners_do_not_store():
    fixture = fixture_of(contract="none")
    fixture["payload_claims"][0].update(before="full_prompt_payload", after="compressed_prompt_payload")
    assert violation(fixture) == ("snapkv.claim-across-owner-axes", "/payload_claims/0/after")


@pytest.mark.parametrize(("prompt", "window"), [(3, 2), (1, 2), (2, 2)])
def test_a_short_prompt_keeps_its_full_cache(prompt, window):
    """Before any budget is formed: with one prompt row the prefix would have -1 rows."""
    evidence = evidence_of(fixture_of(prompt=prompt, window=window))
    assert evidence.results["prompt"]["branch"] == "full_cache"
    assert evidence.results["prompt"]["prefix_rows"] is None
    assert evidence.results["selection"] is None
    assert evidence.results["packed_original_positions"] == [[list(range(prompt))] * 2] * 2
    assert ledgers_of(evidence)["compressed_prompt_payload"] == ledgers_of(evidence)["full_prompt_payload"]
    assert evidence.results["decode"]["rows_per_owner"] == prompt + 1


def test_a_short_prompt_may_be_an_exact_prefix_and_makes_no_cache_of_its_own():
    fixture = fixture_of(prompt=3)
    fixture["compression_receipt"]["exact_prefix_reuse"] = True
    fixture["prefix_index"]["exact"].append({"entry": "with-the-answer", "cache_generation": 201})
    evidence_of(fixture)
    fixture["compression_receipt"]["compressed_cache_generation"] = 201
    assert violation(fixture) == ("snapkv.not-a-successor", "/compression_receipt/compressed_cache_generation")


def test_a_prompt_of_the_capacity_keeps_every_row_in_another_order():
    """CD-07: selection runs at T = C; the set is the prompt, the order is that of the scores."""
    fixture = fixture_of(prompt=6, capacity=6, window=2, seed=3)
    results = evidence_of(fixture).results
    for of_layer in results["packed_original_positions"]:
        assert all(sorted(positions) == list(range(6)) for positions in of_layer)
    assert any(positions[:4] != [0, 1, 2, 3] for layer in results["packed_original_positions"] for positions in layer)
    fixture["compression_receipt"]["exact_prefix_reuse"] = True
    assert violation(fixture) == ("snapkv.exact-reuse-claimed", "/compression_receipt/exact_prefix_reuse")


@pytest.mark.parametrize(
    ("rate", "rate_counts"), [("0.5", "removed_rows"), ("0.5", "kept_rows"), ("0.3", "removed_rows")]
)
def test_the_rate_form_of_the_same_budget(rate, rate_counts):
    fixture = copy.deepcopy(SHIPPED)
    fixture["policy"]["budget"] = {"form": "rate", "rate": Fraction(rate), "rate_counts": rate_counts}
    assert evidence_of(fixture).results["prompt"] == SHIPPED["declared"]["results"]["prompt"]


def test_a_rate_meets_a_prompt_within_its_window():
    fixture = fixture_of(prompt=2, window=2)
    fixture["policy"]["budget"] = {"form": "rate", "rate": Fraction("0.5"), "rate_counts": "removed_rows"}
    assert evidence_of(fixture).results["prompt"]["capacity_rows"] is None


def test_logits_give_the_softmax_of_their_visible_keys():
    """Equal logits: the query at 4 gives 1/5 to each of five keys, the query at 5 gives 1/6; every vote is 11/30."""
    fixture = copy.deepcopy(SHIPPED)
    rows = [[Fraction(7)] * 5 + [None], [Fraction(-2)] * 6]
    fixture["observation"].update(kind="logits", attention=[[rows] * 4] * 2)
    vote = Fraction(11, 30)
    border, inner = stated(2 * vote / 3), stated(vote)
    for layer in fixture["selection_receipts"]:
        for receipt in layer:
            receipt.update(votes=[stated(vote)] * 4, pooled_votes=[border, inner, inner, border])
            receipt["selected_prefix_positions"] = [1, 2]
    pack(fixture, [[[1, 2, 4, 5]] * 2] * 2)
    selection = evidence_of(fixture).results["selection"]
    assert selection["observation_kind"] == "logits"
    assert selection["owners_with_a_tie_at_the_cut"] == 0


def pack(fixture, packed):
    """Write the view of the shipped geometry for these positions: K is 1000 l + 100 h + 10 p + c, V is 5000 more."""
    view = fixture["compressed_view"]
    flat = [(layer, head, p) for layer, heads in enumerate(packed) for head, each in enumerate(heads) for p in each]
    view["original_position_map"] = [position for _, _, position in flat]
    for name, offset in (("packed_key_rows", 0), ("packed_value_rows", 5000)):
        view[name] = [[offset + 1000 * la + 100 * h + 10 * p + c for c in range(3)] for la, h, p in flat]


def test_an_exact_tie_at_the_cut_goes_to_the_lowest_position():
    """Votes .2 everywhere and pooling by maximum: 0.1 + 0.1, 0.15 + 0.05 and 0.2 + 0 are one score."""
    fixture = copy.deepcopy(SHIPPED)
    fixture["policy"]["pooling"]["kind"] = "maximum"
    first = [Fraction(text) for text in ("0.1", "0.15", "0.2", "0.05", "0.5", "0")]
    second = [Fraction(text) for text in ("0.1", "0.05", "0", "0.15", "0.3", "0.4")]
    fixture["observation"]["attention"] = [[[first, second]] * 4] * 2
    fifth = Fraction("0.2")
    for layer in fixture["selection_receipts"]:
        for receipt in layer:
            receipt.update(votes=[fifth] * 4, pooled_votes=[fifth] * 4, selected_prefix_positions=[0, 1])
    pack(fixture, [[[0, 1, 4, 5]] * 2] * 2)
    assert evidence_of(fixture).results["selection"]["owners_with_a_tie_at_the_cut"] == 4
    fixture["selection_receipts"][0][0]["selected_prefix_positions"] = [2, 3]
    assert violation(fixture) == (
        "snapkv.selection-not-top-k",
        "/selection_receipts/0/0/selected_prefix_positions",
    )


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_rows_per_owner_grow_by_one_a_step(steps):
    fixture = fixture_of(steps=steps)
    evidence = evidence_of(fixture)
    decode = evidence.results["decode"]
    assert decode["rows_per_owner"] == 4 + steps
    assert decode["cache_frontier"] == 6 + steps
    assert (decode["state_generation"], decode["state_frontier"]) == (11, 6)
    assert decode["tokens_sampled_over_the_compressed_cache"] == steps
    assert len(evidence.snapshots) == (8 if steps else 4)
    assert (ledgers_of(evidence)["first_append"] is None) == (steps == 0)


def test_a_chunked_prefill_that_compresses_once_is_legal():
    fixture = copy.deepcopy(SHIPPED)
    fixture["phases"][:1] = [phase("prefill", 198, 10, 2), phase("prefill", 199, 10, 4), phase("prefill", 200, 10, 6)]
    assert evidence_of(fixture).results["phases"][:3] == ["prefill"] * 3
    fixture["phases"][1]["cache_frontier"] = 2
    assert violation(fixture) == ("snapkv.partial-prompt-observed", "/phases/1/cache_frontier")


def test_an_explicit_head_map():
    fixture = copy.deepcopy(SHIPPED)
    fixture["geometry"].update(head_map_mode="explicit", q_to_kv_head_map=[0, 1, 0, 1])
    attention = fixture["observation"]["attention"]
    for layer in attention:
        layer[1], layer[2] = layer[2], layer[1]
    evidence = evidence_of(fixture)
    assert evidence.results["selection"]["votes"] == loop06.oracle(SHIPPED).results["selection"]["votes"]


def test_every_wrong_scalar_is_found():
    for name in ("packed_key_rows", "packed_value_rows"):
        for row in range(16):
            for channel in range(3):
                fixture = copy.deepcopy(SHIPPED)
                fixture["compressed_view"][name][row][channel] += 1
                assert violation(fixture) == ("snapkv.gather-misaligned", f"/compressed_view/{name}/{row}/{channel}")


def test_appended_rows_must_be_told_apart_as_well():
    """Six prompt rows would fit a head stride of 6 * 3; with five appended ones they run into the next head."""
    fixture = fixture_of(steps=5)
    fixture["source_cache"]["symbolic_content"]["kv_head_stride"] = 6 * 3
    assert violation(fixture) == ("snapkv.ambiguous-source-rows", "/source_cache/symbolic_content/kv_head_stride")


def test_first_token_is_sampled_over_the_full_cache():
    """A task that generates one token never meets the compressed cache."""
    decode = evidence_of(fixture_of(steps=0)).results["decode"]
    assert decode["tokens_sampled_over_the_full_cache"] == 1
    assert decode["tokens_sampled_over_the_compressed_cache"] == 0


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def at(document, path):
    for step in path:
        document = document[step]
    return document


SWITCHES = {
    "kind": ["probabilities", "logits", "maximum", "none", "average_in_range"],
    "owner_contract": ["none", "max"],
    "after_phase": ["prefill", "publish"],
    "phase": ["prefill", "observe", "publish", "decode"],
    "branch": ["full_cache"],
    "after": ["full_prompt_payload", "expanded_compressed_payload"],
    "head_map_mode": ["explicit"],
}
BASES = [SHIPPED, fixture_of(prompt=3), fixture_of(contract="none", pooling="none", kernel=1)]
STRUCTURE = ("geometry", "policy", "source_cache", "compression_receipt", "phases", "branch_receipts", "rate_receipts")


@pytest.mark.parametrize("seed", range(300))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits; if the schema lets them pass, the oracle answers or names a contract."""
    choose = random.Random(seed)
    fixture = copy.deepcopy(choose.choice(BASES))
    for _ in range(choose.randint(1, 3)):
        root = choose.choice(STRUCTURE) if choose.random() < 0.5 else choose.choice(list(fixture))
        path = (root, *choose.choice(list(places(fixture[root]))))
        parent, value = at(fixture, path[:-1]), at(fixture, path)
        if isinstance(value, bool):
            parent[path[-1]] = not value
        elif isinstance(value, str):
            parent[path[-1]] = choose.choice([*SWITCHES.get(path[-1], ["other"])])
        elif isinstance(value, int):
            parent[path[-1]] = choose.choice([0, 1, value + 1, max(0, value - 1), 2 * value, 10**6])
        elif isinstance(value, Fraction):
            parent[path[-1]] = choose.choice([0, 1, value / 2, -value, Fraction(10**9), None])
        elif isinstance(value, list):
            parent[path[-1]] = choose.choice([[], value[:-1], value + value[-1:], value[::-1]])
        elif value is not None and choose.random() < 0.2:
            parent[path[-1]] = None
    if schema.defects(LOOP.fixture_schema, fixture):
        return
    with contextlib.suppress(ContractViolation):
        observe(LOOP, fixture)
