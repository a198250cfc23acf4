"""MiniCache: adjacent layers share one direction a position (definition: `policies.minicache`; specification 0x0CF).

The rows that attention reads are the restored ones, so quality is that of the merged cache. The store holds them
unmerged, so its own bytes are those of a full cache; what the merged form occupies is the ledger of the definition,
counted for the positions and exceptions of this prompt. Rows of generated tokens are appended unmerged.
"""

import math

import torch
from torch import Tensor

from kvaudit.measure.handoff import Call, Handoff
from kvaudit.measure.outcomes import PARAMETER, RUNTIME_INADMISSIBLE, Stopped
from kvaudit.policies import minicache as exact

NEAR_ZERO_ANGLE = 1e-6
NEAR_PI_ANGLE = 1e-6
_METADATA_BYTES = 4  # a magnitude, an angle, an exception index


def minicache(call: Call) -> Handoff:
    """Merge the layer pairs from `start_layer` on; rows that are too far apart stay as they are."""
    prompt, parameters = call.prompt, call.parameters
    start = prompt.layers // 2 if parameters["start_layer"] is None else parameters["start_layer"]
    rho, distance = float(parameters["rho"]), float(parameters["distance"])
    if not (0 <= start < prompt.layers and 0 <= rho <= 1):
        raise Stopped(RUNTIME_INADMISSIBLE, PARAMETER, f"start_layer {start} or rho {rho} is out of range")
    keys, values = list(prompt.keys), list(prompt.values)
    pairs = exact.layer_pairs(prompt.layers, start)
    heads, rows, channels = prompt.keys[0].shape
    width = prompt.keys[0].element_size()
    widths = exact.Widths(channels, width, _METADATA_BYTES, _METADATA_BYTES, _METADATA_BYTES)
    merged_bytes, exceptions = 0, []
    for low, high in pairs:
        key_low, key_high, key_distance = restored(keys[low], keys[high], rho)
        value_low, value_high, value_distance = restored(values[low], values[high], rho)
        # NaN is the distance of a pair without a direction; it is compared so that such a pair is retained.
        retained = ~((key_distance <= distance) & (value_distance <= distance))  # [H, T], one set for K and V
        for layer, key, value in ((low, key_low, value_low), (high, key_high, value_high)):
            keys[layer] = torch.where(retained[..., None], keys[layer], key)
            values[layer] = torch.where(retained[..., None], values[layer], value)
        counts = [int(count) for count in retained.sum(dim=1)]
        exceptions.append(counts)
        merged_bytes += sum(exact.pair_ledger(rows, count, widths).merged() for count in counts)
    single = prompt.layers - 2 * len(pairs)
    kept = torch.ones((prompt.layers, heads, rows), dtype=torch.bool, device=keys[0].device)
    return Handoff(
        kept=kept,
        keys=keys,
        values=values,
        represented_bytes=merged_bytes + single * heads * rows * 2 * channels * width,
        resolved={"start_layer": start},
        facts={"layer_pairs": [list(pair) for pair in pairs], "exception_rows": exceptions},
    )


def restored(low: Tensor, high: Tensor, rho: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return both layers' rows [H, T, d] as restored from one shared direction, and their distances [H, T].

    The distance is the angle over pi; it is NaN where the rows are zero or too nearly opposite to share a direction.
    """
    low_norms, high_norms = low.norm(dim=-1, keepdim=True), high.norm(dim=-1, keepdim=True)  # [H, T, 1]
    low_units, high_units = low / low_norms, high / high_norms
    # Twice the arctangent of |u0 - u1| / |u0 + u1| is accurate at both ends, where an arccosine is not.
    apart, along = (low_units - high_units).norm(dim=-1), (low_units + high_units).norm(dim=-1)
    angles = 2 * torch.atan2(apart, along)[..., None]  # [H, T, 1]
    linear = angles <= NEAR_ZERO_ANGLE
    whole = angles.sin()
    low_weights = torch.where(linear, 1 - rho, ((1 - rho) * angles).sin() / whole)
    high_weights = torch.where(linear, rho, (rho * angles).sin() / whole)
    mixed = low_weights * low_units + high_weights * high_units
    directions = mixed / mixed.norm(dim=-1, keepdim=True)
    none = (angles >= math.pi - NEAR_PI_ANGLE) | ~torch.isfinite(directions).all(dim=-1, keepdim=True)
    distances = torch.where(none, torch.nan, angles / math.pi)[..., 0]
    return directions * low_norms, directions * high_norms, distances
