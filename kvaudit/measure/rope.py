"""Taking a key's rotation off and putting another on, as re-positioned rows need (0x05, arXiv 2309.17453).

A rotary key at position p is R(p) k. Attention hands over rotated keys; a policy that renumbers its rows stores k and
rotates it at its packed row in every step. The angles are the model's own. Only the layout in which channel i turns
with channel i + d/2 is known here, and only angles that do not change with the length of the text.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvaudit.measure.outcomes import BACKEND_INCOMPATIBLE, POLICY_NOT_EXECUTED, Stopped

_CHANGING = ("dynamic", "longrope")


@dataclass(frozen=True, slots=True)
class Rotation:
    """Cosines and sines of the first positions, [positions, r], for the first r channels of a key."""

    cosines: Tensor
    sines: Tensor
    scale: float

    def applied(self, keys: Tensor, first: int) -> Tensor:
        """Return keys [H, n, d] rotated at the positions `first`, `first` + 1, ..."""
        cosines, sines = self._at(first, keys.shape[1])
        return self._turned(keys, cosines, sines)

    def undone(self, keys: Tensor, first: int) -> Tensor:
        """Return the keys that rotation at the positions `first`, `first` + 1, ... made into `keys` [H, n, d]."""
        cosines, sines = self._at(first, keys.shape[1])
        return self._turned(keys, cosines / self.scale**2, -sines / self.scale**2)

    def _at(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        return self.cosines[first : first + count], self.sines[first : first + count]

    def _turned(self, keys: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        turning, still = keys[..., : cosines.shape[1]], keys[..., cosines.shape[1] :]
        low, high = turning.chunk(2, dim=2)
        turned = turning * cosines + torch.cat((-high, low), dim=2) * sines
        return torch.cat((turned, still), dim=2) if still.shape[2] else turned


def rotation(model: Any, positions: int) -> Rotation:
    """Return the rotation of a model for `positions` positions, or raise `Stopped` if it is of another kind."""
    embedding = model.model.rotary_emb
    kind = str((getattr(model.config, "rope_parameters", None) or {}).get("rope_type", "default"))
    probe = torch.zeros(1, device=model.device, dtype=torch.float32)
    cosines, sines = embedding(probe, torch.arange(positions, device=model.device)[None])  # [1, positions, r]
    low, high = cosines[0].chunk(2, dim=1)
    if kind in _CHANGING or not torch.equal(low, high):
        raise Stopped(
            BACKEND_INCOMPATIBLE,
            POLICY_NOT_EXECUTED,
            f"re-positioned rows are not executed for rotary positions of the kind {kind} in this layout",
        )
    dtype = torch.float64 if model.dtype == torch.float64 else torch.float32
    return Rotation(cosines[0].to(dtype), sines[0].to(dtype), float(embedding.attention_scaling))
