"""Hold the Triton kernels against the torch reference and the NumPy selector, on a GPU or under the interpreter.

python scripts/check_kernel.py cuda|cpu [--out FILE] [--control] [--can-run]

Prints one line a case and writes the errors as JSON. On the CPU set TRITON_INTERPRET=1. Exit code 0: every case agrees;
1: one does not. `--control` exchanges the pages of an owner behind the kernel's back: no such run may agree.
`--can-run` only says with its exit code whether the packages and the device are there.
"""

import argparse
import importlib.util
import json
import sys
import time
from dataclasses import dataclass, replace

NEEDED = ("click", "numpy", "mpmath", "rfc8785", "rich", "torch", "transformers", "safetensors", "gguf", "triton")


@dataclass(frozen=True)
class Case:
    """A cache: widths a level (leaves first), tokens of a page, query heads of a group, rows of each owner."""

    name: str
    widths: tuple[int, ...]
    page_tokens: int
    group: int
    rows: tuple[int, ...]
    dtype: str = "float32"
    per_split: int | None = None

    @property
    def dimension(self) -> int:
        return 2 ** len(self.widths)


CASES = (
    Case("d16-4bit-page16-one-row", (4,) * 4, 16, 1, (1, 16, 17)),
    Case("d16-every-width", (8, 1, 5, 7), 16, 3, (33, 5), per_split=1),
    Case("d16-upper-wide", (1, 6, 2, 8), 32, 2, (40,), per_split=1),
    Case("d64-5-4-page32-group3", (5, 4, 4, 4, 4, 4), 32, 3, (1, 31, 70), per_split=2),
    Case("d64-3-2-page64-group8", (3, 2, 2, 2, 2, 2), 64, 8, (65, 64), "float16"),
    Case("d64-4bit-page16-group16", (4,) * 6, 16, 16, (50,), per_split=3),
    Case("d64-4bit-page128-group20", (4,) * 6, 128, 20, (129, 3), per_split=1),
    Case("d128-4bit-page64-group4", (4,) * 7, 64, 4, (130, 63), "float16", per_split=2),
    Case("d128-4bit-page32-group1", (4,) * 7, 32, 1, (64, 33)),
    Case("d128-6bit-page64-group3", (6,) * 7, 64, 3, (70,), per_split=1),
)
LARGE = (
    Case("d128-4bit-page64-long", (4,) * 7, 64, 4, (30000, 8192, 1, 12345), "bfloat16"),
    Case("d128-4bit-page128-long", (4,) * 7, 128, 8, (20000, 64), "float16"),
    Case("d256-4bit-page64-long", (4,) * 8, 64, 4, (4097, 300), "bfloat16"),
)
# Exchanging pages must show where owners have several.
CONTROLS = ("d16-every-width", "d64-4bit-page16-group16", "d128-4bit-page64-group4")
TOLERANCES = {"float32": 1e-5, "float16": 2.5e-3, "bfloat16": 2e-2}


def can_run(device: str) -> bool:
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        return False
    import torch

    return device == "cpu" or torch.cuda.is_available()


def relative(found, expected) -> float:
    ratio = float(((found - expected).norm(dim=-1) / expected.norm(dim=-1)).max())
    return ratio if ratio == ratio else float("inf")


def check(case: Case, device: str, *, control: bool) -> dict[str, float]:
    """Return the largest relative L2 errors: of the kernel over pages against torch and NumPy, of that over rows."""
    import numpy as np
    import torch

    from kvaudit.measure import kernel, spherical
    from kvaudit.policies.spherical import FLOAT16, Tree
    from kvaudit.selectors import spherical as selector

    tree, d = Tree(case.dimension, case.widths), case.dimension
    draw = torch.Generator().manual_seed(len(case.name))
    dtype = getattr(torch, case.dtype)
    keys = [torch.randn((rows, d), generator=draw) for rows in case.rows]
    values = [torch.randn((rows, d), generator=draw).to(dtype) for rows in case.rows]
    queries = torch.randn((len(case.rows), case.group, d), generator=draw).to(dtype)
    order = torch.randperm(sum(-(-rows // case.page_tokens) for rows in case.rows), generator=draw)
    on_device = queries.to(device)
    cache = spherical.coded_cache(
        [each.to(device) for each in keys], [each.to(device) for each in values], tree, case.page_tokens, order
    )
    from_torch = spherical.attend(cache, on_device).double().cpu()
    shown = cache
    if control:
        first = -(-case.rows[0] // case.page_tokens)
        table = cache.page_table.clone()
        table[0, :first] = table[0, :first].flip(0)
        shown = replace(cache, page_table=table)
    launch = kernel.Launch(per_split=case.per_split)
    found = kernel.attend(shown, on_device, launch).double().cpu()

    by_selector = []
    for rows, value, query in zip(keys, values, queries, strict=True):
        pages = selector.pack(selector.encode(rows.numpy(), tree, FLOAT16), case.page_tokens)
        logits = selector.page_logits(pages, query.double().numpy()) / np.sqrt(d)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        by_selector.append(weights / weights.sum(axis=1, keepdims=True) @ value.double().numpy())
    from_numpy = torch.from_numpy(np.stack(by_selector))

    flat_keys, flat_values = (torch.cat(each).to(device, dtype) for each in (keys, values))
    starts = torch.tensor([sum(case.rows[:index]) for index in range(len(case.rows))], device=device)
    live = (torch.rand(len(flat_keys), generator=draw) < 0.7).to(torch.uint8)
    live[starts.cpu()] = 1
    dense = []
    for index, rows in enumerate(case.rows):
        seen = torch.arange(len(live))[starts[index] : starts[index] + rows][live[starts[index] :][:rows] == 1]
        key, value = (each[seen.to(device)].double().cpu() for each in (flat_keys, flat_values))
        dense.append(torch.softmax(queries[index].double() @ key.T * d**-0.5, dim=-1) @ value)
    over_rows = kernel.attend_rows(
        flat_keys, flat_values, starts, cache.lengths, on_device, live.to(device), max(case.rows), kernel.Launch(64)
    )
    return {
        "torch": relative(found, from_torch),
        "selector": relative(found, from_numpy),
        "rows": relative(over_rows.double().cpu(), torch.stack(dense)),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--out")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--can-run", action="store_true")
    stated = parser.parse_args()
    if stated.can_run:
        return 0 if can_run(stated.device) else 1
    import torch

    torch.set_num_threads(1)
    cases = CASES if stated.device == "cpu" else CASES + LARGE
    results = {}
    for case in cases:
        if stated.control and case.name not in CONTROLS:
            continue
        begin = time.perf_counter()
        errors = check(case, stated.device, control=stated.control)
        agrees = max(errors.values()) <= TOLERANCES[case.dtype]
        results[case.name] = {**errors, "tolerance": TOLERANCES[case.dtype], "agrees": agrees}
        shown = "  ".join(f"{name} {error:.1e}" for name, error in errors.items())
        print(
            f"{'ok  ' if agrees else 'FAIL'} {case.name:28} {shown}  ({time.perf_counter() - begin:.1f} s)", flush=True
        )
    if stated.out:
        with open(stated.out, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2, allow_nan=False)
            file.write("\n")
    return 0 if all(result["agrees"] for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
