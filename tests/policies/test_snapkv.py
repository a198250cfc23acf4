"""SnapKV by hand, against brute force that follows the definitions cell by cell, and the laws that it must obey."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import attention, snapkv

tenths = st.integers(0, 40).map(lambda n: Fraction(n, 10))
vote_lists = st.lists(tenths, min_size=1, max_size=9)
odd_kernels = st.integers(0, 5).map(lambda n: 2 * n + 1)


def decimals(*texts):
    return [Fraction(text) for text in texts]


@st.composite
def layers(draw, most_query_heads):
    """Draw (window attention [H_q][W][T], W): each row a distribution over the keys that its query sees."""
    window, prefix, heads = draw(st.integers(1, 3)), draw(st.integers(1, 6)), draw(st.integers(1, most_query_heads))
    rows = []
    for _ in range(heads):
        of_head = []
        for query in range(window):
            weights = draw(st.lists(st.integers(0, 9), min_size=prefix + query + 1, max_size=prefix + query + 1))
            weights[-1] += 1
            total = sum(weights)
            of_head.append([Fraction(weight, total) for weight in weights] + [Fraction(0)] * (window - query - 1))
        rows.append(of_head)
    return rows, window


def brute_force_cell(votes, position, kernel):
    """The votes within the kernel around a position, None where it reaches out of range."""
    around = range(position - (kernel - 1) // 2, position + (kernel - 1) // 2 + 1)
    return [votes[each] if 0 <= each < len(votes) else None for each in around]


def brute_force_pooled(votes, pooling, kernel):
    scores = []
    for position in range(len(votes)):
        cell = brute_force_cell(votes, position, kernel)
        present = [vote for vote in cell if vote is not None]
        scores.append(
            {
                "average_padding_counted": sum(0 if vote is None else vote for vote in cell) / Fraction(kernel),
                "average_in_range": sum(present) / Fraction(len(present)),
                "maximum": sorted(present)[-1],
                "none": votes[position],
            }[pooling]
        )
    return scores


def brute_force_top(scores, count):
    """The place of a position is the number of positions that come before it."""
    places = {}
    for position, score in enumerate(scores):
        before = [other for other, s in enumerate(scores) if s > score or (s == score and other < position)]
        places[len(before)] = position
    return tuple(places[place] for place in range(count))


@pytest.mark.parametrize(
    ("prompt_rows", "branch"), [(1, "full_cache"), (3, "full_cache"), (4, "selection"), (6, "selection")]
)
def test_the_capacity_branch_is_strict(prompt_rows, branch):
    assert snapkv.branch(prompt_rows, 4) == branch


@pytest.mark.parametrize(
    ("removed", "prefix_rows", "kept_rows"), [("0.5", 4, 2), ("0.9", 100, 10), ("0.6", 4, 1), ("0", 7, 7), ("1", 7, 0)]
)
def test_a_rate_of_removed_rows_rounds_the_exact_product_down(removed, prefix_rows, kept_rows):
    assert snapkv.selected_rows_floor_of_removed_share(Fraction(removed), prefix_rows) == kept_rows


def test_binary64_would_lose_a_row():
    assert int(100 * (1 - 0.9)) == 9


@given(st.integers(0, 100), st.integers(1, 50))
def test_the_two_rates_count_opposite_rows(percent, prefix_rows):
    share = Fraction(percent, 100)
    kept = snapkv.selected_rows_floor_of_kept_share(share, prefix_rows)
    assert kept == snapkv.selected_rows_floor_of_removed_share(1 - share, prefix_rows) == percent * prefix_rows // 100


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 30))
def test_a_capacity_selects_no_more_than_the_prefix_has(window_rows, selected_rows, prompt_rows):
    """0x07A: K - L = C - T, so the budget fits exactly when the prompt is selected from."""
    capacity = window_rows + selected_rows
    fits = snapkv.selected_rows_of_capacity(capacity, window_rows) <= prompt_rows - window_rows
    assert fits == (snapkv.branch(prompt_rows, capacity) == "selection")


def test_votes_discard_the_window_after_the_softmax():
    window = [
        decimals("0.1", "0.05", "0.55", "0.1", "0.2", "0"),
        decimals("0.05", "0.05", "0.5", "0.05", "0.15", "0.2"),
    ]
    assert snapkv.prefix_votes(window, 4) == decimals("0.15", "0.1", "1.05", "0.15")


@pytest.mark.parametrize(
    ("contract", "expected"),
    [
        ("mean", [decimals("0.3", "0.5"), decimals("0.9", "0.1")]),
        ("max", [decimals("0.4", "0.8"), decimals("0.9", "0.1")]),
        ("none", [decimals("0.4", "0.2"), decimals("0.9", "0.1"), decimals("0.2", "0.8")]),
    ],
)
def test_owner_contracts_with_an_explicit_map(contract, expected):
    """Query heads 0 and 2 read K/V head 0; the grouping need be neither even nor contiguous."""
    votes = [decimals("0.4", "0.2"), decimals("0.9", "0.1"), decimals("0.2", "0.8")]
    assert snapkv.owner_votes(votes, [0, 1, 0], 2, contract) == expected


def test_the_kv_head_whose_rows_an_owner_keeps():
    assert [snapkv.kv_head_of_owner(owner, [0, 0, 1, 1], "none") for owner in range(4)] == [0, 0, 1, 1]
    assert [snapkv.kv_head_of_owner(owner, [0, 0, 1, 1], "mean") for owner in range(2)] == [0, 1]


# The published vector of a reader of the pinned code: 8 scores, kernel 3.
SCORES = decimals("0.1", "0.4", "0.05", "0.05", "0.2", "0.2", "0", "0")


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("average_padding_counted", [0.1667, 0.1833, 0.1667, 0.1, 0.15, 0.1333, 0.0667, 0]),
        ("average_in_range", [0.25, 0.1833, 0.1667, 0.1, 0.15, 0.1333, 0.0667, 0]),
        ("maximum", [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.2, 0]),
        ("none", [0.1, 0.4, 0.05, 0.05, 0.2, 0.2, 0, 0]),
    ],
)
def test_pooling_of_the_published_vector(pooling, expected):
    assert [round(float(score), 4) for score in snapkv.pooled(SCORES, pooling, 3)] == expected


def test_counted_padding_decides_whether_the_first_token_stays():
    """A report of avg_pool1d users: [4, 5] with the padding counted, [0, 5] without."""
    votes = decimals("0.6", "0.1", "0.1", "0.1", "0.4", "0.4", "0.2")
    for pooling, kept in (("average_padding_counted", {4, 5}), ("average_in_range", {0, 5})):
        assert set(snapkv.selected_prefix(snapkv.pooled(votes, pooling, 3), 2)) == kept


@pytest.mark.parametrize("pooling", snapkv.POOLINGS)
def test_even_kernels_are_refused(pooling):
    with pytest.raises(ValueError, match="odd number of rows, not 4"):
        snapkv.pooled(SCORES, pooling, 4)


@given(vote_lists, odd_kernels, st.sampled_from(snapkv.POOLINGS))
def test_pooling_agrees_with_brute_force(votes, kernel, pooling):
    assert snapkv.pooled(votes, pooling, kernel) == brute_force_pooled(votes, pooling, kernel)


@given(vote_lists, st.sampled_from(snapkv.POOLINGS))
def test_a_kernel_of_one_smooths_nothing(votes, pooling):
    assert snapkv.pooled(votes, pooling, 1) == votes


@given(vote_lists, odd_kernels)
def test_average_pooling_commutes_with_the_mean_of_heads_and_maximum_does_not_have_to(votes, kernel):
    """CD-02: only for maximum pooling does it show whether heads are reduced first."""
    other = votes[::-1]
    reduced = [(a + b) / 2 for a, b in zip(votes, other, strict=True)]
    pooled = [snapkv.pooled(each, "average_padding_counted", kernel) for each in (votes, other)]
    assert snapkv.pooled(reduced, "average_padding_counted", kernel) == [
        (a + b) / 2 for a, b in zip(*pooled, strict=True)
    ]


def test_maximum_pooling_before_the_reduction_is_another_method():
    votes = [decimals("1", "0", "0"), decimals("0", "0", "1")]
    (mean,) = snapkv.owner_votes(votes, [0, 0], 1, "mean")
    assert snapkv.pooled(mean, "maximum", 3) == decimals("0.5", "0.5", "0.5")
    first = [snapkv.pooled(each, "maximum", 3) for each in votes]
    assert snapkv.owner_votes(first, [0, 0], 1, "mean") == [decimals("0.5", "1", "0.5")]


@given(vote_lists, st.data())
def test_selection_agrees_with_brute_force_and_ties_go_to_the_lowest_position(scores, data):
    count = data.draw(st.integers(0, len(scores)))
    assert snapkv.selected_prefix(scores, count) == brute_force_top(scores, count)


def test_exact_decimals_tie_where_binary64_does_not():
    scores = [Fraction("0.1") + Fraction("0.2"), Fraction("0.3")]
    assert snapkv.selected_prefix(scores, 2) == (0, 1)
    assert 0.1 + 0.2 > 0.3


def test_equality_keeps_every_row_in_another_order():
    selected = snapkv.selected_prefix(decimals("0.1", "0.4", "0.2"), 3)
    assert snapkv.packed_positions(selected, 3, 5) == [1, 2, 0, 3, 4]


@given(layers(1), st.data())
def test_kernel_one_and_one_query_head_is_plain_top_k_of_summed_attention(layer, data):
    (window_attention,), window = layer
    prefix = len(window_attention[0]) - window
    count = data.draw(st.integers(1, prefix))
    votes = snapkv.owner_votes([snapkv.prefix_votes(window_attention, prefix)], [0], 1, "mean")
    selected = snapkv.selected_prefix(snapkv.pooled(votes[0], "average_padding_counted", 1), count)
    summed = [sum(row[position] for row in window_attention) for position in range(prefix)]
    assert selected == brute_force_top(summed, count)


@given(layers(4), odd_kernels, st.sampled_from(snapkv.POOLINGS), st.sampled_from(snapkv.OWNER_CONTRACTS), st.data())
def test_no_position_is_outside_the_frontier_and_none_is_packed_twice(layer, kernel, pooling, contract, data):
    rows, window = layer
    prompt = len(rows[0][0])
    prefix, count = prompt - window, data.draw(st.integers(1, prompt - window))
    votes = [snapkv.prefix_votes(of_head, prefix) for of_head in rows]
    for owner in snapkv.owner_votes(votes, [0] * len(rows), 1, contract):
        selected = snapkv.selected_prefix(snapkv.pooled(owner, pooling, kernel), count)
        packed = snapkv.packed_positions(selected, prefix, prompt)
        assert len(set(packed)) == len(packed) == count + window
        assert all(0 <= position < prompt for position in packed)
        assert packed[count:] == list(range(prefix, prompt))


@given(st.lists(st.permutations(range(5)), min_size=1, max_size=4, unique_by=tuple), odd_kernels, st.data())
def test_permuting_owners_with_distinct_scores_permutes_the_result(orders, kernel, data):
    """One query head for each owner, no two votes of an owner equal, so that no tie rule takes part."""
    votes = [[Fraction(2**place) for place in order] for order in orders]
    shuffled = data.draw(st.permutations(range(len(votes))))

    def selections(of_heads):
        owners = snapkv.owner_votes(of_heads, range(len(of_heads)), len(of_heads), "mean")
        return [snapkv.selected_prefix(snapkv.pooled(each, "average_padding_counted", kernel), 2) for each in owners]

    before = selections(votes)
    assert selections([votes[owner] for owner in shuffled]) == [before[owner] for owner in shuffled]


def test_observation_attention_is_normalised_over_every_visible_key():
    """Logits equal over n visible keys give 1/n each, the window's own keys included."""
    rows = snapkv.observation_attention([[Fraction(2)] * 5, [Fraction(-7)] * 6])
    assert rows == [(Fraction(1, 5),) * 5, (Fraction(1, 6),) * 6]
    assert snapkv.prefix_votes(rows, 4) == [Fraction(1, 5) + Fraction(1, 6)] * 4


@given(st.lists(st.integers(-50, 50).map(lambda n: Fraction(n, 10)), min_size=2, max_size=6), st.integers(-9, 9))
def test_a_shift_of_all_logits_changes_nothing(logits, shift):
    assert snapkv.observation_attention([logits]) == [attention.softmax([logit + shift for logit in logits])]
