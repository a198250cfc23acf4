"""Digests of what a measurement rests on, without torch: a sweep names its records by them before it loads anything."""

import hashlib
from pathlib import Path

from kvaudit.evidence import canonical

MODEL_FILES = (".safetensors", ".json", ".model", ".txt", ".jinja")

_BLOCK_BYTES = 1 << 20


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read block by block: weights are larger than memory needs to hold at once."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def folder_sha256(folder: Path) -> str:
    """Return the SHA-256 of the names and hashes of the files in a folder that make the model."""
    names = sorted(each.name for each in folder.iterdir() if each.is_file() and each.suffix in MODEL_FILES)
    return canonical.canonical_sha256({name: file_sha256(folder / name) for name in names})


def model_sha256(path: Path) -> str:
    """Return the digest of a checkpoint: of a file its bytes, of a folder the files that make the model."""
    return folder_sha256(path) if path.is_dir() else file_sha256(path)
