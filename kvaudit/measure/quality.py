"""Quality against the full cache of the same run, and the lower rungs of the evidence ladder (specification 0x12).

*Task rung*: next-token distributions of a policy against those of the full cache on the same tokens: divergence in
nats, agreement of the most probable token, negative log-likelihood of the continuation. *Lower rungs*, a layer at a
time: the dense probability mass that the visible rows retain, and the error of the attention output, at the queries of
the full-cache run. They are local: the queries are those of a run in which no error has built up, and the rows of
generated tokens are the full cache's. So a reader sees where the rungs part from each other.

The first token after the prompt comes from the full prefill, whatever the policy, and is in no average.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvaudit.measure.attention import grouped_logits, probabilities, weighted


@dataclass(frozen=True, slots=True)
class StepQuality:
    """One value a decode step, in order, for distributions made under the policy.

    `divergences` is KL(full || policy) in nats; `agreements` whether the most probable token is the same; the last two
    are the negative log-likelihoods, in nats, of the token that follows.
    """

    divergences: tuple[float, ...]
    agreements: tuple[bool, ...]
    full_nll: tuple[float, ...]
    policy_nll: tuple[float, ...]


def step_quality(full: Tensor, policy: Tensor, following: Sequence[int]) -> StepQuality:
    """Return the quality of logits [N, V] of a policy against those of the full cache; `following` are N tokens."""
    reference = torch.log_softmax(full.to(torch.float64), dim=-1)  # [N, V]
    measured = torch.log_softmax(policy.to(torch.float64), dim=-1)
    divergences = (reference.exp() * (reference - measured)).sum(dim=-1)  # [N]
    tokens = torch.tensor(list(following), device=full.device)[:, None]  # [N, 1]
    return StepQuality(
        divergences=tuple(divergences.tolist()),
        agreements=tuple((full.argmax(dim=-1) == policy.argmax(dim=-1)).tolist()),
        full_nll=tuple((-reference.gather(1, tokens))[:, 0].tolist()),
        policy_nll=tuple((-measured.gather(1, tokens))[:, 0].tolist()),
    )


def log_probabilities(logits: Tensor, tokens: Sequence[int]) -> tuple[float, ...]:
    """Return log p of each of N tokens under logits [N, V], in nats."""
    wide = torch.log_softmax(logits.to(torch.float64), dim=-1)
    return tuple(wide.gather(1, torch.tensor(list(tokens), device=logits.device)[:, None])[:, 0].tolist())


@dataclass(frozen=True, slots=True)
class LayerRung:
    """One layer: mean and least retained mass over steps and query heads, mean and largest relative output error.

    The error is |o_S - o| / |o| in the L2 norm. Errors are None where they are not defined for the policy.
    """

    retained_mass: float
    least_retained_mass: float
    output_error: float | None
    largest_output_error: float | None


@dataclass(frozen=True, slots=True)
class Reference:
    """The full cache of a run as the lower rungs need it, a list entry a layer: T prompt rows and N decode rows.

    keys, values [H, T + N, d]; queries [Hq, N, d] of the decode steps.
    """

    keys: list[Tensor]
    values: list[Tensor]
    queries: list[Tensor]
    scaling: float


def layer_rungs(
    reference: Reference,
    views: Sequence[Sequence[Tensor]],
    prompt_rows: int,
    keys: Sequence[Tensor] | None,
    values: Sequence[Tensor] | None,
    *,
    absolute: bool,
) -> tuple[LayerRung, ...]:
    """Return the rungs of every layer.

    `views[n][layer]` [H, rows] are the original positions that decode step n attended to, -1 where there is none.
    `keys` and `values` [H, T, d] stand in the place of the prompt's where a representation changed them. Without
    `absolute`, keys stood at other positions, and no error of the output is given.
    """
    steps = len(views)
    rungs = []
    for layer, queries in enumerate(reference.queries):
        dense_keys, dense_values = reference.keys[layer], reference.values[layer]
        heads, rows, _ = dense_keys.shape
        logits = grouped_logits(queries[:, :steps], dense_keys, reference.scaling)  # [H, G, N, T + N]
        causal = torch.arange(rows, device=logits.device) < torch.arange(
            prompt_rows + 1, prompt_rows + steps + 1, device=logits.device
        ).unsqueeze(1)  # [N, T + N]
        visible = torch.zeros((heads, steps, rows + 1), dtype=torch.bool, device=logits.device)
        for step, layers in enumerate(views):
            positions = layers[layer].long()
            visible[:, step].scatter_(1, torch.where(positions < 0, rows, positions), True)
        visible = visible[..., :rows] & causal
        weights = probabilities(logits.masked_fill(~causal, -torch.inf))  # [H, G, N, T + N]
        mass = (weights * visible[:, None]).sum(dim=-1)  # [H, G, N]
        error, largest_error = None, None
        if absolute:
            dense = weighted(weights, dense_values)  # [Hq, N, d]
            if keys is not None and values is not None:
                dense_keys = torch.cat((keys[layer], dense_keys[:, prompt_rows:]), dim=1)
                dense_values = torch.cat((values[layer], dense_values[:, prompt_rows:]), dim=1)
                logits = grouped_logits(queries[:, :steps], dense_keys, reference.scaling)
            selected = weighted(
                probabilities(logits.masked_fill(~visible[:, None], -torch.inf)), dense_values
            )  # [Hq, N, d]
            errors = (selected - dense).norm(dim=-1) / dense.norm(dim=-1)
            error, largest_error = float(errors.mean()), float(errors.max())
        rungs.append(LayerRung(float(mass.mean()), float(mass.min()), error, largest_error))
    return tuple(rungs)
