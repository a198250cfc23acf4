"""What attention policies rank rows by, from the queries and keys of a prompt: votes, accumulated sums, low counts.

Every function takes one layer and forms the causal softmax over all rows that a query sees, in blocks of queries, in
float32 or wider. The sum over a block is taken in that type (in float64 it takes twenty times as long), and blocks add
up in float64. Heads stay grouped: [H, G, ...], H K/V heads of G query heads each.

Shapes as in `attention`; W window queries, L = T - W prefix rows.
"""

import torch
from torch import Tensor

from kvaudit.measure.attention import causal_blocks, probabilities


def window_attention(queries: Tensor, keys: Tensor, scaling: float, window_rows: int) -> Tensor:
    """Return the causal attention [H, G, W, T] of the last W prompt queries; `queries` [Hq, R, d] with R >= W."""
    _require(queries, window_rows)
    [(_, logits)] = causal_blocks(queries[:, queries.shape[1] - window_rows :], keys, scaling, block=window_rows)
    return probabilities(logits)


def prefix_votes(attention: Tensor, reduction: str) -> Tensor:
    """Return the votes [H, L] of window attention [H, G, W, T]: summed over the window, then reduced over the group."""
    window_rows, prompt_rows = attention.shape[2:]
    return reduced(attention[..., : prompt_rows - window_rows].sum(dim=2).to(torch.float64), reduction)


def reduced(per_query_head: Tensor, reduction: str) -> Tensor:
    """Return [H, ...] from [H, G, ...]: the sum, mean or max over the query heads of each K/V head."""
    if reduction == "max":
        return per_query_head.amax(dim=1)
    return per_query_head.sum(dim=1) if reduction == "sum" else per_query_head.mean(dim=1)


def pooled(votes: Tensor, pooling: str, kernel_rows: int) -> Tensor:
    """Return the votes [H, L] pooled along the prefix with stride one; the names are those of `policies.snapkv`.

    `kernel_rows` is odd. Windows are summed from their first position to their last, so that equal windows stay equal.
    """
    if pooling == "none":
        return votes
    reach = kernel_rows // 2
    outside = -torch.inf if pooling == "maximum" else 0.0
    windows = torch.nn.functional.pad(votes, (reach, reach), value=outside).unfold(1, kernel_rows, 1)  # [H, L, r]
    if pooling == "maximum":
        return windows.amax(dim=2)
    total = windows[..., 0].clone()
    for offset in range(1, kernel_rows):
        total += windows[..., offset]
    if pooling == "average_padding_counted":
        return total / kernel_rows
    rows = votes.shape[1]
    columns = torch.arange(rows, device=votes.device)
    return total / ((columns + reach).clamp(max=rows - 1) - (columns - reach).clamp(min=0) + 1)


def accumulated(queries: Tensor, keys: Tensor, scaling: float) -> Tensor:
    """Return what each row receives from all prompt queries, [H, G, T]: the column sums of prompt attention."""
    _require(queries, keys.shape[1])
    heads, rows, _ = keys.shape
    total = torch.zeros((heads, queries.shape[0] // heads, rows), dtype=torch.float64, device=keys.device)
    for _, logits in causal_blocks(queries, keys, scaling):
        total[..., : logits.shape[-1]] += probabilities(logits).sum(dim=2)
    return total


def low_score_history(queries: Tensor, keys: Tensor, scaling: float, history_rows: int) -> Tensor:
    """Return [w, H, G, T], true where one of the last w queries gave a row that it saw less than 1/t.

    t is the position of the query + 1; w is `history_rows` or the length of the prompt. The oldest query comes first.
    """
    rows = keys.shape[1]
    count = min(history_rows, rows)
    _require(queries, count)
    parts = []
    for first, logits in causal_blocks(queries[:, queries.shape[1] - count :], keys, scaling):
        weights = probabilities(logits)  # [H, G, t, n]
        span = weights.shape[2]
        seen = torch.arange(first + 1, first + span + 1, device=keys.device)[:, None]  # [t, 1]
        low = (weights < 1 / seen.to(weights.dtype)) & torch.isfinite(logits)
        parts.append(torch.nn.functional.pad(low, (0, rows - low.shape[-1])).permute(2, 0, 1, 3))
    return torch.cat(parts)


def gumbel_accumulated(queries: Tensor, keys: Tensor, scaling: float, noise: Tensor, temperature: float) -> Tensor:
    """Return the sum over all prompt queries of softmax((x + zeta) / tau), [H, G, T]; `noise` [H, G, T] is a row's own.

    Each query is a causal softmax over its own visible rows.
    """
    _require(queries, keys.shape[1])
    total = torch.zeros(noise.shape, dtype=torch.float64, device=keys.device)
    for _, logits in causal_blocks(queries, keys, scaling):
        count = logits.shape[-1]
        regularised = (logits + noise[..., None, :count]) / temperature
        total[..., :count] += probabilities(regularised).sum(dim=2)
    return total


def minimum_rows(attention: Tensor, share: float) -> Tensor:
    """Return MBA of attention rows [..., T]: the least number of largest weights that hold `share` of the mass."""
    held = attention.sort(dim=-1, descending=True).values.cumsum(dim=-1, dtype=torch.float64)
    goal = share * held[..., -1:]
    return (held < goal).sum(dim=-1) + 1


def _require(queries: Tensor, count: int) -> None:
    """Raise `ValueError` where a prefill kept fewer queries than are looked at: sums would be of the last ones only."""
    if queries.shape[1] < count:
        raise ValueError(f"the prompt kept its last {queries.shape[1]} queries, and {count} are needed")
