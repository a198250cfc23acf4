"""Spherical key codes, with and without rate-distortion retention (definitions: `policies.spherical`, rate_distortion).

Attention reads the key that a code stands for, so quality is that of the coded cache; values stay as they are. The
store holds decoded keys, so its own bytes are those of uncompressed rows; what codes and pages would occupy is counted
by the definition, headers and padding included.

*Spherical* codes every row, those of generated tokens too, with one pair of widths. *Spherical with retention* gives
every row of the prompt a tier, or none, under a budget: the bytes of the budget's rows, uncompressed, over all owners.
Decided here, because the paper that was read leaves it open: the distortion of a row at a tier is the sum over the last
prompt queries of the attention it receives times 1 - exp(-|change of its logit|), the largest so far down the tiers;
that of dropping it is that attention itself. Sinks and the last rows are protected. Generated rows are not coded.
"""

import itertools

import numpy as np
import torch
from torch import Tensor

from kvaudit.measure import signals
from kvaudit.measure.attention import grouped_logits
from kvaudit.measure.cache import Rule
from kvaudit.measure.handoff import Call, Handoff
from kvaudit.measure.outcomes import (
    BACKEND_INCOMPATIBLE,
    BUDGET_TOO_SMALL,
    NOT_FINITE,
    PARAMETER,
    POLICY_NOT_EXECUTED,
    RUNTIME_INADMISSIBLE,
    Stopped,
)
from kvaudit.policies.spherical import EDGE, FLOAT16, Tree, is_dimension, is_page, key_row_bits, page_bytes, uniform
from kvaudit.selectors import rate_distortion

# Codes of the tiers below an uncompressed row, safest first: (leaf, upper) widths in bits.
TIERS = ((6, 6), (4, 4), (3, 2))


def spherical(call: Call) -> Handoff:
    """Keep every row, its key coded; values stay."""
    prompt, parameters = call.prompt, call.parameters
    tree = _tree(call, parameters["leaf_width"], parameters["upper_width"])
    tokens, header = _page(call)
    heads, rows, channels = prompt.keys[0].shape
    width = prompt.keys[0].element_size()
    pages = -(-rows // tokens) * page_bytes(key_row_bits(tree, FLOAT16), tokens, header, parameters["alignment_bytes"])

    def encoded(_: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        return recoded(keys, tree), values

    kept = torch.ones((prompt.layers, heads, rows), dtype=torch.bool, device=prompt.keys[0].device)
    return Handoff(
        kept=kept,
        rule=Rule(encoded=encoded),
        keys=[recoded(keys, tree) for keys in prompt.keys],
        values=prompt.values,
        represented_bytes=prompt.layers * heads * (pages + rows * channels * width),
        facts={"key_row_bits": key_row_bits(tree, FLOAT16)},
    )


def spherical_rdr(call: Call) -> Handoff:
    """Give every prompt row a tier, or drop it, so that all pages together fit the bytes of the budget's rows."""
    prompt, parameters = call.prompt, call.parameters
    tokens, header = _page(call)
    heads, rows, channels = prompt.keys[0].shape
    width_bits = 8 * prompt.keys[0].element_size()
    trees = [_tree(call, *widths) for widths in TIERS]
    value_bits = channels * width_bits
    row_bits = [2 * value_bits, *(key_row_bits(tree, FLOAT16) + value_bits for tree in trees)]
    if any(low >= high for high, low in itertools.pairwise(row_bits)):
        raise _refused("the tiers do not fall in bits: uncompressed keys of this type are as small as codes")
    window = min(rows, parameters["window_rows"])
    decoded, distortions, drops = [], [], []
    for queries, keys in zip(prompt.queries, prompt.keys, strict=True):
        attention = signals.window_attention(queries, keys, prompt.scaling, window)  # [H, G, W, T]
        last = queries[:, queries.shape[1] - window :]
        tiers = torch.stack([recoded(keys, tree) for tree in trees])  # [t, H, T, d]
        changes = torch.stack([grouped_logits(last, each - keys, prompt.scaling) for each in tiers]).abs()
        costs = (attention * -torch.expm1(-changes)).sum(dim=(2, 3)).to(torch.float64)  # [t, H, T]
        distortions.append(torch.cat((torch.zeros_like(costs[:1]), costs.cummax(dim=0).values)))
        drops.append(attention.sum(dim=(1, 2)).to(torch.float64))  # [H, T]
        decoded.append(torch.cat((keys[None], tiers)))  # [1 + t, H, T, d]
    by_state = torch.stack(distortions).permute(0, 2, 3, 1).reshape(-1, len(row_bits))  # [layers H T, tiers]
    protected = np.zeros((prompt.layers * heads, rows), dtype=bool)
    protected[:, : parameters["sink_rows"]] = True
    protected[:, rows - window :] = True
    budget_bytes = call.rows * prompt.layers * heads * 2 * channels * width_bits // 8
    try:
        allocation = rate_distortion.allocate(
            by_state.cpu().numpy(),
            torch.maximum(torch.stack(drops).flatten(), by_state[:, -1]).cpu().numpy(),
            protected.ravel(),
            np.array(row_bits),
            np.array([page_bytes(bits, tokens, header, parameters["alignment_bytes"]) for bits in row_bits]),
            tokens,
            budget_bytes,
        )
    except ValueError as error:
        raise Stopped(RUNTIME_INADMISSIBLE, BUDGET_TOO_SMALL, str(error)) from None
    tier = torch.from_numpy(allocation.assignment).to(prompt.keys[0].device).reshape(prompt.layers, heads, rows).long()
    chosen = tier.clamp(min=0)
    columns = torch.arange(rows, device=tier.device)
    owners = torch.arange(heads, device=tier.device)[:, None]
    coded = [each[chosen[layer], owners, columns] for layer, each in enumerate(decoded)]  # [H, T, d]
    counts = torch.bincount((tier + 1).flatten(), minlength=len(row_bits) + 1).tolist()
    return Handoff(
        kept=tier >= 0,
        keys=coded,
        values=prompt.values,
        represented_bytes=allocation.page_bytes,
        facts={"dropped_rows": counts[0], "tier_rows": counts[1:], "budget_bytes": budget_bytes},
    )


def recoded(keys: Tensor, tree: Tree) -> Tensor:
    """Return the keys [..., d] that the codes of `keys` stand for; in float64, then in the type of `keys`.

    Raises `Stopped` if a radius has no place in the radius format.
    """
    exact = keys.to(torch.float64)
    along, across = exact[..., 0::2], exact[..., 1::2]
    # Adding 0.0 makes -0.0 positive: the angle of (-0.0, 0.0) would be pi.
    turns = [_turned(torch.atan2(across + 0.0, along + 0.0), 0, tree.widths[0])]
    squares = along.square() + across.square()
    for level in range(1, tree.levels):
        left, right = squares[..., 0::2], squares[..., 1::2]
        turns.append(_turned(torch.atan2(right.sqrt(), left.sqrt()), level, tree.widths[level]))
        squares = left + right
    radii = squares.sqrt()
    stored = radii.to(torch.float16)
    tiny = torch.finfo(torch.float16).smallest_normal
    if not bool(torch.isfinite(stored).all()) or bool(((radii > 0) & (stored < tiny)).any()):
        raise Stopped(RUNTIME_INADMISSIBLE, NOT_FINITE, "the radius of a key has no place among the normal float16")
    lengths = stored.to(torch.float64)  # [..., 1]
    for cosines, sines in reversed(turns):
        lengths = torch.stack((lengths * cosines, lengths * sines), dim=-1).flatten(-2)
    return lengths.to(keys.dtype)


def _turned(angles: Tensor, level: int, width: int) -> tuple[Tensor, Tensor]:
    """Return cosine and sine at the middle of the cell of each angle: [-pi, pi) at the leaves, [0, pi/2] above."""
    start, span = (-torch.pi, 2 * torch.pi) if level == 0 else (0.0, torch.pi / 2)
    size, whole = span / 2**width, 2**width
    cells = ((angles - start + float(EDGE)) / size).floor()
    cells = cells.remainder(whole) if level == 0 else cells.clamp(max=whole - 1)
    middles = start + (cells + 0.5) * size
    return middles.cos(), middles.sin()


def _tree(call: Call, leaf_width: int, upper_width: int) -> Tree:
    dimension = call.prompt.keys[0].shape[2]
    if not is_dimension(dimension):
        raise Stopped(
            BACKEND_INCOMPATIBLE, POLICY_NOT_EXECUTED, f"a key of {dimension} channels has no tree: no power of two"
        )
    try:
        return uniform(dimension, leaf_width, upper_width)
    except ValueError as error:
        raise _refused(str(error)) from None


def _page(call: Call) -> tuple[int, int]:
    tokens, header = call.parameters["page_tokens"], call.parameters["header_bytes"]
    if not is_page(tokens) or call.parameters["alignment_bytes"] < 1:
        raise _refused(f"a page of {tokens} tokens, expected a multiple of 8, with an alignment from 1 byte on")
    return tokens, header


def _refused(message: str) -> Stopped:
    return Stopped(RUNTIME_INADMISSIBLE, PARAMETER, message)
