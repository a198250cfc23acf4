"""Documents for tests: a fully declared one of each system, and what the tests do to it."""

import shutil
from fractions import Fraction
from pathlib import Path

import yaml

from kvaudit.evidence.canonical import exact_json_text
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.subjects import read_subject

ROOT = Path(__file__).parents[2]
SYSTEMS = ("report/1", "contract/1", "result/1")
FOLDER = "fixtures/loop11_papers"
REGISTRIES = ("contracts", "results", "boundaries")


def value_for(key, choice=0):
    """Return a value that a key takes; another `choice` is another value wherever the key has one."""
    if key.allowed:
        return key.allowed[choice % len(key.allowed)]
    kind = key.types[0]
    return {"text": f"text {choice}", "integer": choice, "number": Fraction(choice, 8), "boolean": choice % 2 == 0}[
        kind
    ]


def full(system="result/1", **overrides):
    """Return the coordinates of a document that leaves nothing open; `budget__unit` overrides budget.unit."""
    values = {name: systems.to_json(value_for(key)) for name, key in systems.system(system).keys.items()}
    return {**values, **{name.replace("__", "."): value for name, value in overrides.items()}}


def document(coordinates, metrics, system="result/1", name="a"):
    return {
        "schema": "kvaudit.coordinates/1",
        "id": name,
        "system": system,
        "coordinates": coordinates,
        "metrics": metrics,
    }


def subject(coordinates, metrics=None, system="result/1", name="a"):
    """Return the subject of a document as it is read from bytes."""
    metrics = metrics or {"tokens_per_second": {"value": 100, "unit": "tokens/s", "kind": "throughput"}}
    text = exact_json_text(document(coordinates, metrics, system, name))
    return read_subject(f"{name}.json", text.encode())


def write(path, coordinates, metrics=None, system="result/1"):
    """Write a document and return its path."""
    metrics = metrics or {"tokens_per_second": {"value": 100, "unit": "tokens/s", "kind": "throughput"}}
    path.write_text(exact_json_text(document(coordinates, metrics, system, path.stem)))
    return path


def write_registry_bundle(root, names=REGISTRIES):
    """Write a bundle of one entry that names copies of the shipped registries, and return its folder."""
    manifest = yaml.safe_load((ROOT / "kvaudit.yaml").read_text(encoding="utf-8"))
    entry = {key: value for key, value in manifest["entries"][0].items() if key not in ("documents", "needs", "links")}
    (root / FOLDER).mkdir(parents=True)
    for name in names:
        shutil.copyfile(ROOT / FOLDER / f"{name}.yaml", root / FOLDER / f"{name}.yaml")
    if names:
        entry["documents"] = {name: f"{FOLDER}/{name}.yaml" for name in names}
    (root / "kvaudit.yaml").write_text(yaml.safe_dump({**manifest, "entries": [entry]}, sort_keys=False))
    return root
