"""Policies that select once, at the end of the prompt, and append from there on: SnapKV and what shares out its budget.

The definitions are `policies.snapkv`, `pyramidkv`, `zigzagkv`, `adakv`, `headkv` and `fastgen`; budgets come from their
exact arithmetic and `policies.apportionment`, so that every total is conserved. All but FastGen rank the rows of an
owner by SnapKV's pooled votes and differ in how many each owner keeps. An owner is a K/V head. The observation window
is inside the budget, and the prefix rows of an owner are the budget less the window.
"""

from collections.abc import Sequence
from fractions import Fraction

import torch
from torch import Tensor

from kvaudit.measure import profile, signals
from kvaudit.measure.handoff import Call, Handoff
from kvaudit.measure.outcomes import PARAMETER, RUNTIME_INADMISSIBLE, WINDOW_ABOVE_BUDGET, Stopped
from kvaudit.measure.selection import largest, with_last
from kvaudit.policies import adakv as exact_adakv
from kvaudit.policies import fastgen as exact_fastgen
from kvaudit.policies import headkv as exact_headkv
from kvaudit.policies import pyramidkv as exact_pyramidkv
from kvaudit.policies import zigzagkv as exact_zigzagkv
from kvaudit.policies.apportionment import apportion


def snapkv(call: Call) -> Handoff:
    """Keep the same number of prefix rows for every K/V head: those with the best pooled votes."""
    base = _base(call)
    return _selected(call, _scores(call, _attention(call)), [[base] * call.prompt.kv_heads] * call.prompt.layers)


def pyramidkv(call: Call) -> Handoff:
    """Keep more prefix rows in lower layers and fewer in upper ones, on a straight line."""
    base, prompt = _base(call), call.prompt
    prefix, layers = prompt.rows - _window(call), prompt.layers
    try:
        budgets = exact_pyramidkv.layer_budgets(
            base * layers,
            layers,
            Fraction(call.parameters["beta"]),
            [min(base, call.parameters["floor_rows"])] * layers,
            [prefix] * layers,
        )
    except ValueError as error:
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, str(error)) from None
    counts = [[rows] * prompt.kv_heads for rows in budgets]
    return _selected(call, _scores(call, _attention(call)), counts, {"layer_prefix_rows": list(budgets)})


def zigzagkv(call: Call) -> Handoff:
    """Keep more prefix rows in layers that need more of them to hold a share of the attention of the window."""
    base, prompt = _base(call), call.prompt
    minimum = call.parameters["minimum_rows"]
    minimum = base // 2 if minimum is None else minimum
    attention = _attention(call)
    share = float(call.parameters["share"])
    # The mean is taken over whole numbers, so it is exact: rows needed, over the number of attention rows.
    needed = [signals.minimum_rows(each, share) for each in attention]  # [H, G, W] a layer
    sensitivities = [Fraction(int(each.sum()), each.numel()) for each in needed]
    prefix = prompt.rows - _window(call)
    try:
        targets = exact_zigzagkv.layer_targets(sensitivities, base, minimum)
        budgets = apportion(targets, base * prompt.layers, [min(base, 1)] * prompt.layers, [prefix] * prompt.layers)
    except ValueError as error:
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, str(error)) from None
    counts = [[rows] * prompt.kv_heads for rows in budgets]
    facts = {"layer_prefix_rows": list(budgets), "layer_mean_rows_needed": sensitivities}
    return _selected(call, _scores(call, attention), counts, facts, {"minimum_rows": minimum})


def adakv(call: Call) -> Handoff:
    """Share the prefix rows of a layer out between its heads by one ranking of all their votes, with a safeguard."""
    base, prompt = _base(call), call.prompt
    heads, prefix = prompt.kv_heads, prompt.rows - _window(call)
    alpha, least = Fraction(call.parameters["alpha"]), min(base, call.parameters["floor_rows"])
    if not 0 <= alpha <= 1:
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, f"alpha is {alpha}: expected between 0 and 1")
    scores = _scores(call, _attention(call))
    counts = []
    for votes in scores:
        winners = largest(votes.reshape(1, -1), base * heads).reshape(heads, -1).sum(dim=1)
        targets = exact_adakv.safeguarded_targets([int(each) for each in winners], alpha)
        counts.append(list(apportion(targets, base * heads, [least] * heads, [prefix] * heads)))
    return _selected(call, scores, counts, {"head_prefix_rows": counts})


def headkv(call: Call) -> Handoff:
    """Share one pool of prefix rows out over all owners by a calibrated profile, pinned by its hash."""
    base, prompt = _base(call), call.prompt
    calibrated = profile.load(call.parameters["profile"], call.parameters["profile_sha256"])
    importances = profile.owner_importances(calibrated, call.checkpoint)
    owners, prefix = prompt.layers * prompt.kv_heads, prompt.rows - _window(call)
    try:
        targets = exact_headkv.owner_targets(importances, base, Fraction(call.parameters["beta"]))
        flat = apportion(targets, base * owners, [min(base, call.parameters["floor_rows"])] * owners, [prefix] * owners)
    except ValueError as error:
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, str(error)) from None
    heads = prompt.kv_heads
    counts = [list(flat[layer * heads : (layer + 1) * heads]) for layer in range(prompt.layers)]
    return _selected(call, _scores(call, _attention(call)), counts, {"head_prefix_rows": counts})


def fastgen(call: Call) -> Handoff:
    """Give each head the cheapest family of patterns that recovers enough of its attention; no budget of rows.

    Decode appends: a local pattern is not rolled on.
    """
    prompt, parameters = call.prompt, call.parameters
    rows, device = prompt.rows, prompt.keys[0].device
    threshold = float(parameters["threshold"])
    ids = torch.tensor(prompt.token_ids, device=device)
    special, punctuation = (torch.isin(ids, each.to(device)) for each in _token_kinds(call))  # [T]
    local = torch.arange(rows, device=device) >= rows - _share_of_rows(parameters["local_share"], rows)
    frequent_rows = _share_of_rows(parameters["frequent_share"], rows)
    kept, chosen = [], []
    for queries, keys in zip(prompt.queries, prompt.keys, strict=True):
        mass = signals.reduced(signals.accumulated(queries, keys, prompt.scaling), "mean") / rows  # [H, T], sums to one
        patterns = {
            "special": special.expand_as(mass),
            "punctuation": punctuation.expand_as(mass),
            "frequency": largest(mass, frequent_rows),
            "locality": local.expand_as(mass),
        }
        families = torch.stack([patterns[name] for name in exact_fastgen.PAPER_ORDER]).cumsum(dim=0) > 0  # [4, H, T]
        families = torch.cat((families, torch.ones_like(families[:1])))  # and full
        enough = (mass * families).sum(dim=2) >= threshold  # [5, H]
        enough[-1] = True
        # Nested families grow, so the first that suffices is the one with the fewest rows.
        first = enough.to(torch.int8).argmax(dim=0)  # [H]
        kept.append(families[first, torch.arange(len(first), device=device)])
        chosen.append([int(each) for each in first])
    names = ["+".join(exact_fastgen.PAPER_ORDER[: count + 1]) for count in range(4)] + [exact_fastgen.FULL]
    return Handoff(kept=torch.stack(kept), facts={"families": [[names[each] for each in heads] for heads in chosen]})


def _window(call: Call) -> int:
    return int(call.parameters["window_rows"])


def _base(call: Call) -> int:
    """Return the prefix rows of a K/V head: the budget less the window, at least one."""
    window = _window(call)
    if window >= call.rows:
        raise Stopped(
            RUNTIME_INADMISSIBLE,
            WINDOW_ABOVE_BUDGET,
            f"a window of {window} rows leaves no row to select of a budget of {call.rows} rows a K/V head",
        )
    return call.rows - window


def _attention(call: Call) -> list[Tensor]:
    """Return the window attention [H, G, W, T] of every layer."""
    prompt, window = call.prompt, _window(call)
    return [
        signals.window_attention(queries, keys, prompt.scaling, window)
        for queries, keys in zip(prompt.queries, prompt.keys, strict=True)
    ]


def _scores(call: Call, attention: Sequence[Tensor]) -> list[Tensor]:
    """Return the pooled votes [H, L] of every layer."""
    reduction, pooling, kernel = (call.parameters[name] for name in ("reduction", "pooling", "kernel_rows"))
    if kernel < 1 or kernel % 2 == 0:
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, f"kernel_rows is {kernel}: expected an odd number of rows")
    return [signals.pooled(signals.prefix_votes(each, reduction), pooling, kernel) for each in attention]


def _selected(
    call: Call,
    scores: Sequence[Tensor],
    counts: Sequence[Sequence[int]],
    facts: dict[str, object] | None = None,
    resolved: dict[str, object] | None = None,
) -> Handoff:
    """Return the hand-off that keeps `counts` [layers][H] prefix rows of each owner, and the window."""
    stacked = torch.stack(list(scores))  # [layers, H, L]
    wanted = torch.tensor([list(heads) for heads in counts], device=stacked.device)
    return Handoff(with_last(largest(stacked, wanted), _window(call)), resolved=resolved or {}, facts=facts or {})


def _share_of_rows(share: object, rows: int) -> int:
    value = Fraction(str(share))
    if not 0 <= value <= 1:
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, f"a share of {share} is not between 0 and 1")
    return int(value * rows)


def _token_kinds(call: Call) -> tuple[Tensor, Tensor]:
    """Return the ids of special tokens, and those among the prompt's tokens whose text is punctuation only."""
    tokenizer = call.checkpoint.tokenizer
    special = sorted(tokenizer.all_special_ids)
    marks = []
    for token in sorted(set(call.prompt.token_ids).difference(special)):
        text = tokenizer.decode([token]).strip()
        if text and not any(character.isalnum() for character in text):
            marks.append(token)
    return torch.tensor(special, dtype=torch.long), torch.tensor(marks, dtype=torch.long)
