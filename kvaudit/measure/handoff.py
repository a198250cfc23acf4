"""What a policy is given at the end of a prompt, and what it hands back: the rows that stay and the rule from there on.

The prompt is prefilled once, in full, whatever the policy: every policy of a run starts from the same rows, and its
prefill memory is that of the full cache.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from kvaudit.measure.attention import Prompt
from kvaudit.measure.cache import APPEND_ONLY, Rule
from kvaudit.measure.checkpoint import Checkpoint
from kvaudit.measure.rope import Rotation


@dataclass(frozen=True, slots=True)
class Call:
    """A prompt, the rows of each K/V head that the budget gives (0 without one), and the parameters, all of them."""

    prompt: Prompt
    rows: int
    parameters: Mapping[str, Any]
    seed: int
    decode_tokens: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True)
class Handoff:
    """The state from which decode goes on.

    `kept` [layers, H, T] is true for the prompt rows that stay. `scores` [H, T] and `marks` [..., H, T], one entry a
    layer, travel with the rows. `keys` and `values` [H, T, d] replace those of the prompt where a representation
    changes them; `represented_bytes` is then what that representation would occupy, payload and metadata.
    `resolved` are parameters whose default depends on the budget, `facts` what the policy found out.
    """

    kept: Tensor
    rule: Rule = APPEND_ONLY
    scores: list[Tensor] | None = None
    marks: list[Tensor] | None = None
    keys: list[Tensor] | None = None
    values: list[Tensor] | None = None
    rotation: Rotation | None = None
    represented_bytes: int | None = None
    resolved: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
