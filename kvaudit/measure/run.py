"""Measure policies on prompts: one prefill a prompt, replayed for every policy, against the full cache of this run.

For each prompt: a full prefill; the full cache decodes the continuation and is the baseline; then each policy selects
from the same prompt, compacts, and decodes the same tokens, one at a time. Times of the four phases are taken apart.
Prompts run one after the other, each in a store of its own, so prompts of unequal length cannot disturb each other.

Two continuations start from the same compacted cache: the continuation of the text, and for each delayed reference its
question and answer. Tokens are always those of the baseline or of the file, never the policy's own: otherwise one
early difference would be counted again in every token after it.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvaudit.measure import attention, cache, environment, policies, quality, selection, store
from kvaudit.measure.attention import Prompt
from kvaudit.measure.cache import Cache
from kvaudit.measure.checkpoint import Checkpoint
from kvaudit.measure.environment import Peak
from kvaudit.measure.handoff import Call, Handoff
from kvaudit.measure.outcomes import MEMORY, PROMPT, RUNTIME_INADMISSIBLE, Stopped, exhausted
from kvaudit.measure.policies import Policy
from kvaudit.measure.prompts import Case, DelayedReference
from kvaudit.measure.quality import LayerRung, Reference, StepQuality
from kvaudit.measure.selection import Budget
from kvaudit.measure.store import Bytes

WARM_UP_RUNS = 1
_WARM_UP_ROWS = 64


@dataclass(frozen=True, slots=True)
class Setting:
    """One policy with all its parameters and its budget: what one record is about."""

    policy: Policy
    parameters: Mapping[str, Any]
    budget: Budget | None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ReferenceMeasure:
    """A delayed reference under a policy and under the full cache: log-probabilities in nats, one an answer token.

    `under_policy` is how many of them came from the compressed cache: all, or all but the first where nothing is fed
    between the prompt and the answer.
    """

    id: str
    declared_distance: int | None
    observed_distance: int | None
    under_policy: int
    full: tuple[float, ...]
    policy: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CaseMeasure:
    """One prompt under one setting. Times in nanoseconds; `kept_rows` [layers][K/V heads] at the end of the prompt."""

    id: str
    prompt_rows: int
    budget_rows: int | None
    prefill_ns: int
    selection_ns: int
    compaction_ns: int
    decode_ns: tuple[int, ...]
    kept_rows: tuple[tuple[int, ...], ...]
    last_rows: tuple[tuple[int, ...], ...]
    bytes: Bytes
    full_bytes: Bytes
    represented_bytes: int | None
    steps: StepQuality
    references: tuple[ReferenceMeasure, ...]
    rungs: tuple[LayerRung, ...]
    resolved: Mapping[str, Any]
    facts: Mapping[str, Any]
    peak: Peak


@dataclass(frozen=True, slots=True)
class Measured:
    """All prompts under one setting, or how it was stopped: then `cases` are those that were finished before."""

    setting: Setting
    cases: tuple[CaseMeasure, ...]
    stopped: Stopped | None


@dataclass(frozen=True, slots=True)
class _Baseline:
    """The full cache on one prompt: the tokens it was fed, its logits, and what the lower rungs need of it."""

    fed_ids: tuple[int, ...]
    following_ids: tuple[int, ...]
    logits: Tensor
    references: tuple[tuple[float, ...], ...]
    bytes: Bytes
    reference: Reference


Progress = Callable[[str, int | None], None]


def silent(_case: str, _index: int | None) -> None:
    """Say nothing."""


def run(
    checkpoint: Checkpoint,
    cases: Sequence[Case],
    settings: Sequence[Setting],
    decode_tokens: int,
    progress: Progress = silent,
) -> tuple[Measured, ...]:
    """Return every setting measured on all cases, in order. A setting that is stopped does not stop the others.

    `progress` is told the case and the index of the setting at work, None while all of them depend on it.
    """
    finished: list[list[CaseMeasure]] = [[] for _ in settings]
    stopped: list[Stopped | None] = [_refusal(checkpoint, setting) for setting in settings]
    warm = False
    for case in cases:
        open_settings = [index for index, end in enumerate(stopped) if end is None]
        if not open_settings:
            break
        progress(case.id, None)
        try:
            _admit_case(checkpoint, case, decode_tokens)
            if not warm:
                _warm_up(checkpoint, case)
                warm = True
            needed = max(
                policies.query_rows(settings[index].policy, settings[index].parameters, len(case.prompt_ids))
                for index in open_settings
            )
            prompt = attention.prefill(checkpoint.model, case.prompt_ids, needed)
            baseline = _baseline(checkpoint, prompt, case, decode_tokens)
        except (Stopped, MemoryError, RuntimeError) as error:
            stopped = [each or _end(error, checkpoint) for each in stopped]
            break
        for index in open_settings:
            setting = settings[index]
            progress(case.id, index)
            try:
                finished[index].append(_measured(checkpoint, prompt, baseline, case, setting, decode_tokens))
            except (Stopped, MemoryError, RuntimeError) as error:
                stopped[index] = _end(error, checkpoint)
        del prompt, baseline
        gc.collect()
    return tuple(
        Measured(setting, tuple(done), end) for setting, done, end in zip(settings, finished, stopped, strict=True)
    )


def hand_off(checkpoint: Checkpoint, prompt: Prompt, setting: Setting, decode_tokens: int) -> Handoff:
    """Return what a setting makes of a prefilled prompt, or raise `Stopped`."""
    assert setting.policy.select is not None
    rows = 0
    if setting.policy.takes_budget:
        rows = selection.rows_per_head(setting.budget, prompt.rows, prompt.layers, prompt.kv_heads)
    return setting.policy.select(Call(prompt, rows, setting.parameters, setting.seed, decode_tokens, checkpoint))


def compacted(prompt: Prompt, handoff: Handoff, reserve_rows: int) -> Cache:
    """Return the cache of the rows that stay, with room for `reserve_rows` rows that are decoded after the prompt."""
    keys = handoff.keys or prompt.keys
    values = handoff.values or prompt.values
    most = handoff.rule.most_rows
    # An evicting rule holds one row more than it leaves, while the new row is attended to.
    reserve = reserve_rows if most is None else 1
    stores = [
        store.packed(
            keys[layer],
            values[layer],
            handoff.kept[layer],
            reserve,
            handoff.scores[layer] if handoff.scores else None,
            handoff.marks[layer] if handoff.marks else None,
        )
        for layer in range(prompt.layers)
    ]
    return Cache(stores, handoff.rule, prompt.rows, handoff.rotation)


def _refusal(checkpoint: Checkpoint, setting: Setting) -> Stopped | None:
    try:
        policies.admit(setting.policy, checkpoint, budget_stated=setting.budget is not None)
    except Stopped as end:
        return end
    return None


def _admit_case(checkpoint: Checkpoint, case: Case, decode_tokens: int) -> None:
    most = checkpoint.geometry.most_positions
    needed = len(case.prompt_ids) + max(decode_tokens, *(_fed_rows(each) for each in case.references), 0)
    if not case.prompt_ids:
        raise Stopped(RUNTIME_INADMISSIBLE, PROMPT, f"prompt {case.id} has no tokens")
    if most is not None and needed > most:
        raise Stopped(
            RUNTIME_INADMISSIBLE,
            PROMPT,
            f"prompt {case.id} reaches position {needed}, and the checkpoint has {most} positions",
        )


def _fed_rows(reference: DelayedReference) -> int:
    return len(reference.fed_ids) + len(reference.answer_ids) - 1


def _reserve(case: Case, decode_tokens: int) -> int:
    return max(decode_tokens, *(_fed_rows(each) for each in case.references), 0)


def _baseline(checkpoint: Checkpoint, prompt: Prompt, case: Case, decode_tokens: int) -> _Baseline:
    """Run the full cache: greedily, or along the continuation that the case states."""
    full = policies.policy_by_name("full")
    assert full is not None
    handoff = hand_off(checkpoint, prompt, Setting(full, {}, None), decode_tokens)
    whole = compacted(prompt, handoff, _reserve(case, decode_tokens))
    size = store.measured_bytes(whole.stores)
    answers = tuple(
        quality.log_probabilities(_answer_logits(checkpoint, prompt, cache.branched(whole), each), each.answer_ids)
        for each in case.references
    )
    whole.queries = []
    token = int(prompt.logits.argmax()) if case.continuation_ids is None else case.continuation_ids[0]
    fed, rows = [], []
    for step in range(decode_tokens):
        fed.append(token)
        rows.append(cache.decode(checkpoint.model, token, whole))
        token = int(rows[-1].argmax()) if case.continuation_ids is None else case.continuation_ids[step + 1]
    reference = Reference(
        keys=[each.keys[:, : each.rows] for each in whole.stores],
        values=[each.values[:, : each.rows] for each in whole.stores],
        queries=[torch.cat(layer, dim=1) for layer in zip(*whole.queries, strict=True)],
        scaling=prompt.scaling,
    )
    return _Baseline(tuple(fed), (*fed[1:], token), torch.stack(rows), answers, size, reference)


def _measured(
    checkpoint: Checkpoint, prompt: Prompt, baseline: _Baseline, case: Case, setting: Setting, decode_tokens: int
) -> CaseMeasure:
    model = checkpoint.model
    was_reset = environment.reset_peak(checkpoint.device)
    began = attention.now_ns(model)
    handoff = hand_off(checkpoint, prompt, setting, decode_tokens)
    selected = attention.now_ns(model)
    compact = compacted(prompt, handoff, _reserve(case, decode_tokens))
    ready = attention.now_ns(model)
    size = store.measured_bytes(compact.stores)
    kept = tuple(tuple(each.lengths) for each in compact.stores)
    answers = tuple(
        quality.log_probabilities(_answer_logits(checkpoint, prompt, cache.branched(compact), each), each.answer_ids)
        for each in case.references
    )
    compact.views = []
    logits, times = [], []
    for token in baseline.fed_ids:
        before = attention.now_ns(model)
        logits.append(cache.decode(model, token, compact))
        times.append(attention.now_ns(model) - before)
    peak = environment.peak(checkpoint.device, was_reset=was_reset)
    rungs = quality.layer_rungs(
        baseline.reference,
        compact.views,
        prompt.rows,
        handoff.keys,
        handoff.values,
        absolute=handoff.rotation is None,
    )
    takes_budget = setting.policy.takes_budget
    return CaseMeasure(
        id=case.id,
        prompt_rows=prompt.rows,
        budget_rows=selection.rows_per_head(setting.budget, prompt.rows, prompt.layers, prompt.kv_heads)
        if takes_budget
        else None,
        prefill_ns=prompt.elapsed_ns,
        selection_ns=selected - began,
        compaction_ns=ready - selected,
        decode_ns=tuple(times),
        kept_rows=kept,
        last_rows=tuple(tuple(each.lengths) for each in compact.stores),
        bytes=size,
        full_bytes=baseline.bytes,
        represented_bytes=handoff.represented_bytes,
        steps=quality.step_quality(baseline.logits, torch.stack(logits), baseline.following_ids),
        references=tuple(
            ReferenceMeasure(
                id=each.id,
                declared_distance=each.declared_distance,
                observed_distance=each.observed_distance,
                under_policy=len(each.answer_ids) - (0 if each.fed_ids else 1),
                full=full,
                policy=policy,
            )
            for each, full, policy in zip(case.references, baseline.references, answers, strict=True)
        ),
        rungs=rungs,
        resolved=handoff.resolved,
        facts=handoff.facts,
        peak=peak,
    )


def _answer_logits(checkpoint: Checkpoint, prompt: Prompt, branch: Cache, reference: DelayedReference) -> Tensor:
    """Return the logits [answer tokens, V] from which each token of the answer is predicted."""
    rows = [prompt.logits]
    for token in (*reference.fed_ids, *reference.answer_ids[:-1]):
        rows.append(cache.decode(checkpoint.model, token, branch))  # noqa: PERF401 - one step after the other
    return torch.stack(rows[len(reference.fed_ids) :])


def _warm_up(checkpoint: Checkpoint, case: Case) -> None:
    """Run once what will be timed: the first run allocates, tunes and compiles."""
    prompt = attention.prefill(checkpoint.model, case.prompt_ids[:_WARM_UP_ROWS], 0)
    full = policies.policy_by_name("full")
    assert full is not None
    handoff = hand_off(checkpoint, prompt, Setting(full, {}, None), 1)
    cache.decode(checkpoint.model, int(prompt.logits.argmax()), compacted(prompt, handoff, 1))


def _end(error: Exception, checkpoint: Checkpoint) -> Stopped:
    """Return the end that an error is: its own, or running out of memory. Raises it again if it is something else."""
    if isinstance(error, Stopped):
        return error
    if not exhausted(error):
        raise error
    found = environment.peak(checkpoint.device, was_reset=False)
    return Stopped(
        RUNTIME_INADMISSIBLE, MEMORY, f"memory ran out; the peak so far was {found.peak_bytes} bytes ({found.counted})"
    )
