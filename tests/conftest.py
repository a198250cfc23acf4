"""Shared by all tests: hypothesis is deterministic, and a copy of the shipped bundle is at hand."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("fuzz", derandomize=False, deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("KVAUDIT_HYPOTHESIS", "ci"))

BUNDLE_PARTS = ("kvaudit.yaml", "kvaudit.lock", "fixtures", "schemas", "reports")


def copy_bundle(folder):
    """Copy what the shipped bundle consists of into `folder` and return it."""
    for part in BUNDLE_PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part)
        else:
            shutil.copyfile(source, folder / part)
    return folder


@pytest.fixture
def bundle_folder(tmp_path):
    """A writable copy of the shipped bundle."""
    return copy_bundle(tmp_path)
