"""The Triton kernels: against the torch reference and the NumPy selector under the interpreter, and compiled for a GPU.

Triton decides when it is imported whether it interprets, so each of these runs in a process of its own.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed (extra: kernel)", allow_module_level=True)

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "scripts" / "check_kernel.py"

sys.path.insert(0, str(CHECK.parent))
import check_kernel  # noqa: E402 - a script, not a package

# Compiles for a Hopper GPU without one: Triton brings the assembler.
COMPILE = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kvaudit.measure import kernel
from kvaudit.policies.spherical import Tree

widths, page, group, values = json.loads(sys.argv[1])
tree = Tree(2 ** len(widths), tuple(widths))
target = GPUTarget("cuda", 90, 32)
runs = {"maxima": "*fp32", "sums": "*fp32", "weighted": "*fp32"}

def compiled(function, signature, constants, stages, warps):
    signature = {**signature, **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(function, signature, constants)
    return triton.compile(source, target=target, options={"num_stages": stages, "num_warps": warps})

pages = compiled(
    kernel._run_of_pages,
    {"queries": "*i64", "planes": "*u8", "radii": "*fp16", "values": f"*{values}", "page_table": "*i32",
     "lengths": "*i32", "tables": "*i64", **runs, "table_stride": "i32", "pages_per_split": "i32", "page_bytes": "i32"},
    kernel.constants(tree, page, group), 1, max(1, page // 32),
)
size = {"bf16": 2, "fp16": 2, "fp32": 4}[values]
d = tree.dimension
rows = compiled(
    kernel._run_of_rows,
    {"queries": f"*{values}", "keys": f"*{values}", "values": f"*{values}", "starts": "*i64", "lengths": "*i32",
     "live": "*u8", **runs, "rows_per_split": "i32", "scale": "fp32"},
    {"HAS_LIVE": True, "G": group, "GROUP": max(16, triton.next_power_of_2(group)), "D": d,
     "BLOCK": kernel.block_rows(d, size)}, 2, 4,
)
combined = compiled(
    kernel._combine, {**runs, "output": "*fp32", "splits": "i32"},
    {"SPLITS": 128, "G": group, "D": d, "BLOCK": 16}, 3, 1,
)
print(json.dumps({name: [len(each.asm["cubin"]), each.metadata.shared, each.asm["ptx"].count("st.global")]
                  for name, each in {"pages": pages, "rows": rows, "combined": combined}.items()}))
"""


def run(command, *, interpret, check=True):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_DEFAULT_FP_FUSION": "1"}
    environment.pop("TRITON_INTERPRET", None)
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=check, timeout=280
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("kernel") / "errors.json"
    ran = run([CHECK, "cpu", "--out", out], interpret=True, check=False)
    assert out.exists(), ran.stderr
    return json.loads(out.read_text())


@pytest.mark.parametrize("case", check_kernel.CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("against", ["torch", "selector", "rows"])
def test_the_kernels_agree(results, case, against):
    """`torch` and `selector`: the kernel over pages; `rows`: that over plain rows, some dead, against float64."""
    assert results[case.name][against] <= {"float32": 1e-5, "float16": 2.5e-3}[case.dtype]


def test_the_cases_cover_what_they_should():
    assert {case.dimension for case in check_kernel.CASES} == {16, 64, 128}
    assert {width for case in check_kernel.CASES for width in case.widths} == set(range(1, 9))
    assert {case.page_tokens for case in check_kernel.CASES} == {16, 32, 64, 128}
    assert any(rows % case.page_tokens for case in check_kernel.CASES for rows in case.rows)
    assert any(rows % case.page_tokens == 0 for case in check_kernel.CASES for rows in case.rows)
    assert {1, 3, 4, 8, 16, 20} <= {case.group for case in check_kernel.CASES}


def test_exchanged_pages_do_not_agree(tmp_path):
    """The check can fail: with the pages of an owner exchanged behind the kernel's back no case passes."""
    out = tmp_path / "errors.json"
    ran = run([CHECK, "cpu", "--control", "--out", out], interpret=True, check=False)
    assert ran.returncode == 1, ran.stderr
    found = json.loads(out.read_text())
    assert set(found) == set(check_kernel.CONTROLS)
    for errors in found.values():
        assert errors["selector"] > 0.05
        assert errors["rows"] <= errors["tolerance"]


@pytest.mark.parametrize(
    ("widths", "page", "group", "values"),
    [
        ([4] * 7, 64, 4, "bf16"),
        ([5, 4, 3, 2, 1, 8, 7], 128, 8, "fp16"),
        ([4] * 4, 16, 3, "fp32"),
        ([6] * 8, 64, 1, "fp32"),
    ],
)
def test_the_kernels_compile_for_a_gpu(tmp_path, monkeypatch, widths, page, group, values):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    found = json.loads(run(["-c", COMPILE, json.dumps([widths, page, group, values])], interpret=False).stdout)
    for size, shared, _ in found.values():
        assert size > 0
        # What a block may have on every data-centre GPU since 2020 without asking for more than 96 KiB.
        assert shared <= 96 * 1024
