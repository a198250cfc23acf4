"""The calibrated profile that HeadKV needs: how much each K/V head of each layer matters, and how that was found out.

A profile is a file, pinned by the hash of its bytes, that names the checkpoint and the prompts it was calibrated on. A
uniform profile is refused: with it HeadKV gives every head the same rows, which is SnapKV under another name.

`calibrate` scores a head by the attention that the answer's queries pay to the evidence in the prompt, on average over
prompts, in the manner of the retrieval heads of arXiv 2410.19258; it is a calibration of ours and not the paper's.
The prompts of a calibration should not be those of the measurement.
"""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kvaudit.errors import FileDefect
from kvaudit.evidence import canonical, files, schema, strict_json
from kvaudit.measure import attention
from kvaudit.measure.attention import Prompt
from kvaudit.measure.cache import Cache, Rule, Step, decode
from kvaudit.measure.checkpoint import Checkpoint
from kvaudit.measure.outcomes import CHECKPOINT_INCOMPATIBLE, PROFILE, RUNTIME_INADMISSIBLE, Stopped
from kvaudit.measure.prompts import Case, DelayedReference
from kvaudit.measure.store import LayerRows, packed

SCHEMA = "kvaudit.head-profile/1"


def load(path: Path | None, sha256: str | None) -> dict[str, Any]:
    """Return the profile at `path`, whose bytes have this hash, or raise `Stopped`."""
    if path is None or sha256 is None:
        raise _refused("headkv needs profile=FILE and profile_sha256=HASH: without a calibration it is SnapKV")
    try:
        data = files.read_regular(path)
        document = strict_json.parse_json(data)
        schema.check(SCHEMA, document)
    except FileDefect as defect:
        raise _refused(f"the profile {path.name}{defect.pointer}: {defect.message}") from defect
    found = canonical.sha256(data)
    if found != sha256:
        raise _refused(f"the profile {path.name} has the SHA-256 {found}, and {sha256} was pinned")
    assert isinstance(document, dict)
    return document


def owner_importances(document: dict[str, Any], checkpoint: Checkpoint) -> list[Fraction]:
    """Return the importances of all owners, layer by layer, summing to one; raise `Stopped` if they do not fit."""
    geometry = checkpoint.geometry
    rows = document["importances"]
    if document["checkpoint_sha256"] != checkpoint.sha256:
        raise Stopped(CHECKPOINT_INCOMPATIBLE, PROFILE, "the profile was calibrated on another checkpoint")
    if len(rows) != geometry.layers or any(len(heads) != geometry.kv_heads for heads in rows):
        raise _refused(f"the profile is not for {geometry.layers} layers of {geometry.kv_heads} K/V heads")
    flat = [Fraction(each) for heads in rows for each in heads]
    if min(flat) < 0 or sum(flat) == 0:
        raise _refused("the importances of a profile are not negative and not all zero")
    if len(set(flat)) == 1:
        raise _refused("the profile is uniform: every head would get the same rows, which is SnapKV")
    return [each / sum(flat) for each in flat]


def calibrated(checkpoint: Checkpoint, cases: Sequence[Case]) -> list[list[float]]:
    """Return the importance of each K/V head, [layers][K/V heads]: attention to the evidence while answering.

    The full cache is asked every delayed reference of the cases that marks its evidence; the attention that the queries
    before each answer token pay to it is averaged over query heads, tokens and references. Raises `Stopped` if no
    reference marks any.
    """
    geometry = checkpoint.geometry
    total = torch.zeros(geometry.layers, geometry.kv_heads, dtype=torch.float64)
    counted = 0
    for case in cases:
        prompt = attention.prefill(checkpoint.model, case.prompt_ids, 0)
        for reference in case.references:
            if reference.evidence is not None:
                total += _attention_to(checkpoint, prompt, reference)
                counted += 1
    if not counted:
        raise _refused("no reference of these prompts marks its evidence, so there is nothing to calibrate on")
    importances: list[list[float]] = (total / counted).tolist()
    return importances


def _attention_to(checkpoint: Checkpoint, prompt: Prompt, reference: DelayedReference) -> Tensor:
    """Return the mean attention [layers, K/V heads] to the evidence over the queries from which the answer comes."""
    assert reference.evidence is not None
    first, last = reference.evidence
    tokens = (*reference.fed_ids, *reference.answer_ids[:-1])
    seen = torch.zeros(prompt.layers, prompt.kv_heads, dtype=torch.float64)
    counted = range(max(0, len(reference.fed_ids) - 1), len(tokens))

    def after(_: LayerRows, step: Step) -> None:
        if step.number in counted:
            seen[step.layer] += step.weights[..., first:last].sum(dim=(2, 3)).mean(dim=1).cpu()

    everything = torch.ones(prompt.kv_heads, prompt.rows, dtype=torch.bool, device=prompt.keys[0].device)
    stores = [
        packed(keys, values, everything, len(tokens)) for keys, values in zip(prompt.keys, prompt.values, strict=True)
    ]
    full = Cache(stores, Rule(after=after), prompt.rows)
    for token in tokens:
        decode(checkpoint.model, token, full)
    return seen / max(1, len(counted))


def document_of(
    importances: Sequence[Sequence[float]], checkpoint: Checkpoint, calibration: dict[str, Any]
) -> dict[str, Any]:
    """Return the profile document of importances [layers][K/V heads]; `calibration` says how they were found."""
    return {
        "schema": SCHEMA,
        "checkpoint": checkpoint.name,
        "checkpoint_sha256": checkpoint.sha256,
        "calibration": calibration,
        "importances": [[Fraction(each) for each in heads] for heads in importances],
    }


def _refused(message: str) -> Stopped:
    return Stopped(RUNTIME_INADMISSIBLE, PROFILE, message)
