"""Quality by hand, the lower rungs by a second way, and full against full."""

import math
from fractions import Fraction

import pytest
import torch

from kvaudit.measure import policies, prompts, quality, run, timing
from kvaudit.measure.selection import Budget
from tests.measure import tiny


def test_step_quality_by_hand():
    """(1/2, 1/2) against (1/4, 3/4): KL is ln 2 / 2 + ln(2/3) / 2 = ln(4/3) / 2; the token that follows is 1."""
    found = quality.step_quality(torch.zeros(1, 2), torch.tensor([[0.0, math.log(3)]]), [1])
    assert found.divergences[0] == pytest.approx(math.log(4 / 3) / 2, rel=1e-6)
    assert found.agreements == (False,)  # of equal logits the first is the most probable
    assert found.full_nll[0] == pytest.approx(math.log(2))
    assert found.policy_nll[0] == pytest.approx(math.log(4 / 3), rel=1e-6)


def measured(names, items, place=prompts.OUTSIDE, decode=6, budget=Fraction(1, 2), **stated):
    checkpoint = tiny.checkpoint()
    cases = prompts.cases(items, checkpoint.tokenizer, place, decode)
    settings = []
    for name in names:
        policy = policies.policy_by_name(name)
        known = {parameter.name for parameter in policy.parameters}
        parameters = policies.resolved(policy, {key: value for key, value in stated.items() if key in known})
        asked = Budget(budget, "fraction_kept", "kv_head") if policy.takes_budget else None
        settings.append(run.Setting(policy, parameters, asked))
    return run.run(checkpoint, cases, settings, decode)


TEXT = "the keeper of the lock wrote that the number is 4817. it rained all day, and no boat came down. "
ITEMS = [
    {
        "id": "a",
        "text": TEXT,
        "references": [{"id": "near", "question": "what number?", "answer": " 4817", "evidence": "number is 4817"}],
    },
    {"id": "b", "text": TEXT * 2 + "on the next day"},
]


@pytest.mark.parametrize("place", prompts.QUESTION_PLACES)
def test_full_against_full_is_zero(place):
    [result] = measured(["full"], ITEMS, place)
    assert result.stopped is None
    for case in result.cases:
        assert set(case.steps.divergences) == {0.0}
        assert all(case.steps.agreements)
        assert case.steps.full_nll == case.steps.policy_nll
        assert all(rung.output_error == 0 and rung.retained_mass == pytest.approx(1) for rung in case.rungs)
        assert case.bytes == case.full_bytes
        assert all(reference.full == reference.policy for reference in case.references)


def test_a_budget_of_the_whole_prompt_selects_everything():
    """Policies that append only are then the full cache; SnapKV keeps window and prefix, all of both."""
    [result] = measured(["snapkv"], ITEMS, budget=Fraction(1), window_rows="8")
    assert all(case.steps.divergences == pytest.approx([0] * 6, abs=1e-9) for case in result.cases)


def test_prompts_of_unequal_length_do_not_touch_each_other():
    names = ["window", "h2o", "snapkv", "adakv"]
    together = measured(names, ITEMS, window_rows="8")
    for item in ITEMS:
        alone = measured(names, [item], window_rows="8")
        for one, both in zip(alone, together, strict=True):
            [found] = [case for case in both.cases if case.id == item["id"]]
            assert found.steps == one.cases[0].steps
            assert found.kept_rows == one.cases[0].kept_rows


def test_rungs_by_a_second_way():
    """One head, one layer, two prompt rows and two decode steps, worked through plainly."""
    torch.manual_seed(3)
    keys, values, queries = torch.randn(1, 4, 3), torch.randn(1, 4, 3), torch.randn(1, 2, 3)
    reference = quality.Reference([keys], [values], [queries], 0.5)
    views = [[torch.tensor([[1, 2]])], [torch.tensor([[1, 2, 3, -1]])]]
    [rung] = quality.layer_rungs(reference, views, 2, None, None, absolute=True)
    masses, errors = [], []
    for step, seen in enumerate([[1, 2], [1, 2, 3]]):
        weights = torch.softmax(keys[0, : 3 + step] @ queries[0, step] * 0.5, dim=0)
        masses.append(float(weights[seen].sum()))
        dense = weights @ values[0, : 3 + step]
        kept = weights[seen] / weights[seen].sum() @ values[0, seen]
        errors.append(float((kept - dense).norm() / dense.norm()))
    assert rung.retained_mass == pytest.approx(sum(masses) / 2, rel=1e-6)
    assert rung.least_retained_mass == pytest.approx(min(masses), rel=1e-6)
    assert rung.output_error == pytest.approx(sum(errors) / 2, rel=1e-5)
    assert rung.largest_output_error == pytest.approx(max(errors), rel=1e-5)


def test_the_question_is_in_or_out_of_the_compressed_prompt():
    tokenizer = tiny.CharacterTokenizer()
    [inside, _] = prompts.cases(ITEMS, tokenizer, prompts.INSIDE, 4)
    [outside, _] = prompts.cases(ITEMS, tokenizer, prompts.OUTSIDE, 4)
    question = len("what number?")
    assert len(inside.prompt_ids) == len(outside.prompt_ids) + question
    assert inside.references[0].fed_ids == ()
    assert len(outside.references[0].fed_ids) == question
    assert inside.prompt_ids == outside.prompt_ids + outside.references[0].fed_ids
    behind = len(TEXT) - TEXT.index("number is 4817") - len("number is 4817")
    assert outside.references[0].observed_distance == behind
    assert inside.references[0].observed_distance == behind + question


def test_the_first_answer_token_is_not_counted_where_the_prefill_made_it():
    [result] = measured(["window"], ITEMS[:1], prompts.INSIDE)
    [reference] = result.cases[0].references
    assert reference.under_policy == len(" 4817") - 1
    assert reference.policy[0] == reference.full[0]
    [result] = measured(["window"], ITEMS[:1], prompts.OUTSIDE)
    assert result.cases[0].references[0].under_policy == len(" 4817")


def test_the_interval_holds_the_median_by_counting():
    """Of n independent samples the median is below rank r and above its mirror with the binomial's probability."""
    for count in range(1, 60):
        rank = timing.interval_rank(count)
        outside = [2 * sum(math.comb(count, i) for i in range(r + 1)) / 2**count for r in range((count + 1) // 2)]
        wide = [r for r, missed in enumerate(outside) if missed <= 0.05]
        assert rank == (max(wide) if wide else None)
    assert timing.interval_rank(5) is None
    assert timing.interval_rank(6) == 0


def test_a_summary():
    assert timing.summary([5, 1, 3, 2]) == timing.Summary(Fraction(5, 2), None, None, 4)
    assert timing.summary(range(1, 10)) == timing.Summary(Fraction(5), 2, 8, 9)
    assert timing.summary([]) == timing.Summary(None, None, None, 0)
