"""A checkpoint on this machine: weights, tokenizer, geometry, and the digest that says which one it was.

A Hugging Face folder or a GGUF file; nothing is downloaded. GGUF weights are unpacked to dense ones when they are
loaded: left in their blocks they would be unpacked again in every step, and that would be what a timing shows. The
digest of a GGUF file is the SHA-256 of its bytes; that of a folder is the SHA-256 of the names and hashes of the files
that make the model.

Supported is a causal decoder whose attention goes through transformers' AttentionInterface, with rotary positions and
contiguous grouped queries, and without a sliding window, soft-capping or learned sinks of its own: under those, `full`
would not be the full cache.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kvaudit.measure import attention
from kvaudit.measure.digest import model_sha256
from kvaudit.measure.outcomes import (
    BACKEND_INCOMPATIBLE,
    CHECKPOINT_INCOMPATIBLE,
    DEVICE,
    MODEL_ARCHITECTURE,
    MODEL_MISSING,
    MODEL_UNREADABLE,
    UNMEASURED,
    Stopped,
    exhausted,
)

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}


# What transformers raises for a broken file, an unknown architecture or a missing helper shares no class.
_LOAD_ERRORS = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    ImportError,
    EOFError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shape of the cache that a checkpoint fills, and the position contract that its keys follow."""

    architecture: str
    layers: int
    query_heads: int
    kv_heads: int
    head_dimension: int
    vocabulary: int
    parameters: int
    most_positions: int | None
    rope_type: str
    rope_theta: float | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded model. `trained_for` are the representation changes that its configuration declares (`kv_policies`)."""

    model: Any
    tokenizer: Any
    name: str
    sha256: str
    weights: str
    dtype: str
    device: str
    geometry: Geometry
    trained_for: tuple[str, ...]


def load(path: Path, *, dtype: str = "float32", device: str = "cpu", name: str | None = None) -> Checkpoint:
    """Return the checkpoint at `path`, in evaluation mode, or raise `Stopped`.

    `name` is its public name; None takes the name of the file or folder. Nothing is fetched from anywhere.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise Stopped(BACKEND_INCOMPATIBLE, DEVICE, f"the device {device} was asked for, and this machine has no CUDA")
    if not path.exists():
        raise Stopped(UNMEASURED, MODEL_MISSING, f"there is no model at {path.name}: expected a folder or a .gguf file")
    gguf = path.is_file()
    if gguf and path.suffix != ".gguf":
        raise Stopped(UNMEASURED, MODEL_MISSING, f"{path.name} is a file and no .gguf; give the folder of the model")
    if not gguf and not (path / "config.json").is_file():
        raise Stopped(UNMEASURED, MODEL_MISSING, f"the folder {path.name} has no config.json")
    model, tokenizer = _from_transformers(path, DTYPES[dtype], gguf=gguf)
    return adopt(
        model.to(device),
        tokenizer,
        name=name or (path.stem if gguf else path.name),
        sha256=model_sha256(path),
        weights=f"{path.stem.rpartition('.')[2]} in GGUF, unpacked to {dtype}" if gguf else dtype,
    )


def adopt(model: Any, tokenizer: Any, *, name: str, sha256: str, weights: str) -> Checkpoint:
    """Return a model in memory as a checkpoint; its attention is taken over. Raises `Stopped` if it cannot be."""
    geometry = _geometry(model)
    attention.take_over(model)
    model.eval()
    declared = getattr(model.config, "kv_policies", None) or ()
    return Checkpoint(
        model=model,
        tokenizer=tokenizer,
        name=name,
        sha256=sha256,
        weights=weights,
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        geometry=geometry,
        trained_for=tuple(declared),
    )


def parameters_sha256(model: Any) -> str:
    """Return a digest of the parameters of a model in memory: names, shapes and bytes, in order."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}\n".encode())
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _from_transformers(path: Path, dtype: torch.dtype, *, gguf: bool) -> tuple[Any, Any]:
    # A hub must not be asked for anything, whatever the environment says.
    os.environ["HF_HUB_OFFLINE"] = "1"
    import safetensors
    import transformers

    quiet: Any = transformers.utils.logging
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    folder = path.parent if gguf else path
    options: dict[str, Any] = {"dtype": dtype, "local_files_only": True}
    if gguf:
        options["gguf_file"] = path.name
        if hasattr(transformers, "GgufConfig"):  # before there was one, weights were always unpacked
            options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, **({"gguf_file": path.name} if gguf else {})
        )
    except (*_LOAD_ERRORS, safetensors.SafetensorError) as error:
        if exhausted(error):
            raise
        said = (str(error).splitlines()[0] if str(error) else type(error).__name__).replace(str(folder), folder.name)
        if isinstance(error, ValueError) and ("architecture" in said or "Unrecognized" in said or "config" in said):
            raise Stopped(CHECKPOINT_INCOMPATIBLE, MODEL_ARCHITECTURE, f"{path.name}: {said}") from error
        raise Stopped(UNMEASURED, MODEL_UNREADABLE, f"{path.name} cannot be loaded: {said}") from error
    return model, tokenizer


def _geometry(model: Any) -> Geometry:
    config = model.config
    lacking = [
        what
        for what, present in {
            "attention behind transformers' AttentionInterface": getattr(model, "_supports_attention_backend", False),
            "a causal decoder": not getattr(config, "is_encoder_decoder", False),
            "rotary positions in model.rotary_emb": hasattr(getattr(model, "model", None), "rotary_emb"),
            "query and K/V heads": bool(getattr(config, "num_attention_heads", 0)),
            "full attention in every layer": not _windowed(config),
        }.items()
        if not present
    ]
    if lacking:
        kind = type(model).__name__
        raise Stopped(
            CHECKPOINT_INCOMPATIBLE, MODEL_ARCHITECTURE, f"{kind} cannot be measured: it lacks {' and '.join(lacking)}"
        )
    rope = getattr(config, "rope_parameters", None) or {}
    query_heads = int(config.num_attention_heads)
    return Geometry(
        architecture=type(model).__name__,
        layers=int(config.num_hidden_layers),
        query_heads=query_heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or query_heads),
        head_dimension=int(getattr(config, "head_dim", None) or config.hidden_size // query_heads),
        vocabulary=int(config.vocab_size),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        most_positions=getattr(config, "max_position_embeddings", None),
        rope_type=str(rope.get("rope_type", "default")),
        rope_theta=rope.get("rope_theta"),
    )


def _windowed(config: Any) -> bool:
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return any(kind != "full_attention" for kind in kinds)
    return bool(getattr(config, "sliding_window", None)) and bool(getattr(config, "use_sliding_window", True))
