"""Policies that go on evicting while tokens are generated: the static views, H2O, Scissorhands, Keyformer.

The definitions are `policies.sliding_window`, `streaming_llm`, `h2o`, `scissorhands` and `keyformer`. At the hand-off
every prompt query has scored, and all rows past the budget leave at once (the bulk variant of the pinned H2O code).
An owner is a K/V head; scores of its query heads are reduced to one.
"""

import torch
from torch import Tensor

from kvaudit.measure import rope, signals
from kvaudit.measure.cache import Rule, Step
from kvaudit.measure.handoff import Call, Handoff
from kvaudit.measure.outcomes import PARAMETER, RUNTIME_INADMISSIBLE, WINDOW_ABOVE_BUDGET, Stopped
from kvaudit.measure.selection import columns, largest, with_last
from kvaudit.measure.store import LayerRows


def full(call: Call) -> Handoff:
    """Keep every row."""
    return Handoff(_everything(call))


def sliding_window(call: Call) -> Handoff:
    """Keep the newest W rows, W being the budget."""
    return _static(call, sink_rows=0)


def streaming(call: Call) -> Handoff:
    """Keep the sinks and the newest rows, keys at their original positions."""
    return _static(call, call.parameters["sink_rows"])


def streaming_repositioned(call: Call) -> Handoff:
    """Keep the sinks and the newest rows, keys stored before rotation and rotated at their packed row in every step."""
    handoff = _static(call, call.parameters["sink_rows"])
    rotation = rope.rotation(call.checkpoint.model, max(call.prompt.rows, call.rows + 1))
    return Handoff(
        kept=handoff.kept,
        rule=handoff.rule,
        keys=[rotation.undone(keys, 0) for keys in call.prompt.keys],
        values=call.prompt.values,
        rotation=rotation,
        resolved=handoff.resolved,
    )


def h2o(call: Call) -> Handoff:
    """Keep the recents and the rows with the largest accumulated attention; one row in, one row out."""
    recent = _recent_rows(call, call.rows // 2)
    heavy = call.rows - recent
    reduction = call.parameters["reduction"]
    prompt = call.prompt
    scores = [
        signals.reduced(signals.accumulated(queries, keys, prompt.scaling), reduction)
        for queries, keys in zip(prompt.queries, prompt.keys, strict=True)
    ]  # [H, T] a layer

    def after(rows: LayerRows, step: Step) -> Tensor | None:
        assert rows.scores is not None
        rows.scores[:, : rows.rows] += signals.reduced(step.weights[:, :, 0], reduction)
        return largest_and_recent(rows.scores[:, : rows.rows], heavy, recent)

    return Handoff(
        kept=torch.stack([_largest_and_last(each, heavy, recent) for each in scores]),
        rule=Rule(after=after, most_rows=call.rows),
        scores=scores,
        resolved={"recent_rows": recent},
    )


def keyformer(call: Call) -> Handoff:
    """Keep the recents and the rows with the largest accumulated Gumbel-softmax, at a rising temperature.

    The noise is drawn once for each row and query head, when the row enters, and stays with it: the paper draws it
    before its loop. The temperature reaches its end after the declared number of generated tokens and stays there.
    """
    recent = _recent_rows(call, call.rows * 3 // 10)
    key_rows = call.rows - recent
    reduction, first, last = (call.parameters[name] for name in ("reduction", "tau_initial", "tau_final"))
    if not (first > 0 and last > 0):
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, f"temperatures {first} and {last} are not both above zero")
    prompt, expected = call.prompt, max(1, call.decode_tokens)
    generator = torch.Generator(device=prompt.keys[0].device).manual_seed(call.seed)
    group = prompt.queries[0].shape[0] // prompt.kv_heads
    marks, scores = [], []
    for queries, keys in zip(prompt.queries, prompt.keys, strict=True):
        noise = gumbel((group, prompt.kv_heads, prompt.rows), keys, generator)  # [G, H, T]
        by_head = signals.gumbel_accumulated(queries, keys, prompt.scaling, noise.transpose(0, 1), float(first))
        marks.append(noise)
        scores.append(signals.reduced(by_head, reduction))

    def arrived(rows: LayerRows, _: int) -> None:
        assert rows.marks is not None
        rows.marks[..., rows.rows - 1] = gumbel(rows.marks.shape[:2], rows.keys, generator)

    def after(rows: LayerRows, step: Step) -> Tensor | None:
        assert rows.scores is not None
        assert rows.marks is not None
        transaction = min(step.number + 1, expected)  # the prompt is transaction 0
        temperature = float(first + transaction * (last - first) / expected)
        noise = rows.marks[..., : rows.rows].transpose(0, 1)  # [H, G, n]
        increment = torch.softmax((step.logits[:, :, 0] + noise) / temperature, dim=-1, dtype=torch.float64)
        rows.scores[:, : rows.rows] += signals.reduced(increment, reduction)
        return largest_and_recent(rows.scores[:, : rows.rows], key_rows, recent)

    return Handoff(
        kept=torch.stack([_largest_and_last(each, key_rows, recent) for each in scores]),
        rule=Rule(after=after, arrived=arrived, most_rows=call.rows),
        scores=scores,
        marks=marks,
        resolved={"recent_rows": recent, "expected_tokens": expected},
    )


def scissorhands(call: Call) -> Handoff:
    """Drop the rows that were most often given less than an even share, a batch at a time, recents protected.

    Each query of the history is compared with its own 1/t, as a runtime does that counts while it generates. The
    hand-off drops what is above the budget; from there on `drop_rows` leave whenever the cache grows past it.
    """
    recent = _recent_rows(call, min(10, call.rows))
    drop = call.parameters["drop_rows"]
    drop = max(1, min(call.rows // 2, call.rows + 1 - recent)) if drop is None else drop
    if not 1 <= drop <= call.rows + 1 - recent:
        raise Stopped(
            RUNTIME_INADMISSIBLE,
            PARAMETER,
            f"drop_rows is {drop}: expected between 1 and {call.rows + 1 - recent}, the rows that are not recent",
        )
    reduction, history_rows = call.parameters["reduction"], call.parameters["history_rows"]
    prompt = call.prompt
    marks, kept, filled = [], [], min(history_rows, prompt.rows)
    for queries, keys in zip(prompt.queries, prompt.keys, strict=True):
        low = signals.low_score_history(queries, keys, prompt.scaling, history_rows).transpose(1, 2)  # [w, G, H, T]
        counts = _counts(low, reduction)
        kept.append(with_last(~largest(counts[:, : prompt.rows - recent], prompt.rows - call.rows), recent))
        marks.append(torch.nn.functional.pad(low, (0, 0, 0, 0, 0, 0, 0, history_rows - filled)))

    def after(rows: LayerRows, step: Step) -> Tensor | None:
        assert rows.marks is not None
        count = rows.rows
        low = step.weights[:, :, 0] < 1 / (step.position + 1)  # [H, G, n]
        oldest = rows.marks[(filled + step.number) % history_rows]
        oldest.zero_()
        oldest[..., :count] = low.transpose(0, 1)
        if count <= call.rows:
            return None
        counts = _counts(rows.marks[..., :count], reduction)
        return columns(with_last(~largest(counts[:, : count - recent], drop), recent))

    return Handoff(
        kept=torch.stack(kept),
        rule=Rule(after=after, most_rows=call.rows),
        marks=marks,
        resolved={"recent_rows": recent, "drop_rows": drop},
    )


def largest_and_recent(scores: Tensor, count: int, recent_rows: int) -> Tensor | None:
    """Return the packed rows [H, n] of the `count` largest scores and of the newest rows, or None where all stay."""
    rows = scores.shape[1]
    if rows <= count + recent_rows:
        return None
    return columns(_largest_and_last(scores, count, recent_rows))


def gumbel(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Return standard Gumbel noise -log(-log(u)), in float32 or wider."""
    wide = torch.float64 if like.dtype == torch.float64 else torch.float32
    exponential = torch.empty(shape, dtype=wide, device=like.device).exponential_(generator=generator)
    return -exponential.log()


def _largest_and_last(scores: Tensor, count: int, recent_rows: int) -> Tensor:
    return with_last(largest(scores[:, : scores.shape[1] - recent_rows], count), recent_rows)


def _counts(low: Tensor, reduction: str) -> Tensor:
    """Return the counts [H, n] of a history [w, G, H, n]; sums of whole numbers, so equal counts are equal."""
    return signals.reduced(low.sum(dim=0).transpose(0, 1).to(torch.float64), reduction)


def _static(call: Call, sink_rows: int) -> Handoff:
    recent = call.rows - sink_rows
    if recent < 1:
        raise Stopped(
            RUNTIME_INADMISSIBLE,
            WINDOW_ABOVE_BUDGET,
            f"{sink_rows} sinks leave no recent row of a budget of {call.rows} rows",
        )
    prompt = call.prompt
    device = prompt.keys[0].device
    positions = torch.arange(prompt.rows, device=device)
    kept = (positions < sink_rows) | (positions >= prompt.rows - recent)
    after_append = torch.arange(call.rows + 1, device=device)
    staying = after_append[after_append != sink_rows].expand(
        prompt.kv_heads, -1
    )  # the oldest row that is no sink leaves

    def before(rows: LayerRows) -> Tensor | None:
        return staying if rows.rows > call.rows else None

    return Handoff(
        kept=kept.expand(prompt.layers, prompt.kv_heads, -1),
        rule=Rule(before=before, most_rows=call.rows),
        resolved={"recent_rows": recent},
    )


def _everything(call: Call) -> Tensor:
    prompt = call.prompt
    shape = (prompt.layers, prompt.kv_heads, prompt.rows)
    return torch.ones(shape, dtype=torch.bool, device=prompt.keys[0].device)


def _recent_rows(call: Call, default: int) -> int:
    stated = call.parameters["recent_rows"]
    recent = default if stated is None else int(stated)
    if not 0 <= recent <= call.rows:
        raise Stopped(
            RUNTIME_INADMISSIBLE,
            WINDOW_ABOVE_BUDGET,
            f"{recent} recent rows do not fit a budget of {call.rows} rows a K/V head",
        )
    return recent
