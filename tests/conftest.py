"""Shared by all tests: hypothesis is deterministic, and a copy of the shipped bundle is at hand."""

import os
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import settings

from kvaudit.evidence.bundle import load_bundle
from kvaudit.suite.regenerate import regenerate

ROOT = Path(__file__).parents[1]

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("fuzz", derandomize=False, deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("KVAUDIT_HYPOTHESIS", "ci"))

BUNDLE_PARTS = ("kvaudit.yaml", "kvaudit.lock", "fixtures", "schemas", "reports", "docs/contract")


def copy_bundle(folder):
    """Copy what the shipped bundle consists of into `folder` and return it."""
    for part in BUNDLE_PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part)
        else:
            shutil.copyfile(source, folder / part)
    return folder


@pytest.fixture(scope="session")
def first_loops(tmp_path_factory):
    """A green bundle of loops 2 and 3, made once: what every stage does is seen in it, and a check of it is fast."""
    folder = copy_bundle(tmp_path_factory.mktemp("first_loops"))
    manifest = yaml.safe_load((folder / "kvaudit.yaml").read_text(encoding="utf-8"))
    manifest |= {"entries": manifest["entries"][:2], "pins": ["schemas"], "records": []}
    (folder / "kvaudit.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    kept = {entry["id"] for entry in manifest["entries"]}
    for path in [*folder.glob("fixtures/*"), *folder.glob("reports/*")]:
        if path.name.partition(".")[0] not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert regenerate(load_bundle(folder)).findings == ()
    return folder


@pytest.fixture
def bundle_folder(tmp_path, first_loops):
    """A writable copy of a small bundle, as shipped but for the loops after 3."""
    shutil.copytree(first_loops, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def whole_bundle(tmp_path):
    """A writable copy of the shipped bundle. A check of it takes seconds."""
    return copy_bundle(tmp_path)
