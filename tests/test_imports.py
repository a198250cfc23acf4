"""What a fresh interpreter loads: the command line starts light, and torch is never near."""

import subprocess
import sys

import pytest

HEAVY = ("jsonschema", "numpy", "mpmath", "rich.table", "yaml", "jsonpatch", "torch", "transformers")


def loaded_after(statement):
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_the_command_line_imports_nothing_heavy():
    assert not loaded_after("import kvaudit.cli.main") & set(HEAVY)


def test_version_imports_nothing_heavy():
    statement = (
        "import sys\nsys.argv = ['kvaudit', '--version']\n"
        "from kvaudit.cli.main import main\n"
        "import io, contextlib\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n    main()"
    )
    assert not loaded_after(statement) & set(HEAVY)


def test_the_measuring_command_loads_torch_only_where_it_measures():
    """What the command line imports of the measurement: names, outcomes, and how to run a child process."""
    parts = "cli.measure, measure.process, measure.plan, measure.sweep, measure.engines, render.measure"
    loaded = loaded_after("import " + ", ".join(f"kvaudit.{part}" for part in parts.split(", ")))
    assert not loaded & {"torch", "transformers", "numpy", "ray"}


@pytest.mark.parametrize("module", ["numpy", "torch", "transformers", "rich.table"])
def test_check_needs_no_numpy_and_no_torch(module):
    """Oracles are exact: no array library takes part in a report."""
    assert module not in loaded_after("import kvaudit.cli.check, kvaudit.loops")


def test_evidence_and_policies_load_no_loop():
    loaded = loaded_after("import kvaudit.policies.packing, kvaudit.evidence.bundle")
    assert not {name for name in loaded if name.startswith(("kvaudit.loops", "kvaudit.suite", "kvaudit.cli"))}
