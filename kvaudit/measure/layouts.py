"""Layouts of one layer's cache for one decode step, over synthetic rows: dense, ragged, padded, tombstone, spherical.

An owner is one K/V head of one sequence. All owners together keep a stated fraction of their rows, as one budget over
all heads does, so that they keep different numbers of them. What differs is where the kept rows lie:

- dense: all rows, nothing dropped; what the others are set beside.
- ragged: the kept rows of all owners packed one after the other, with the first row of each owner.
- padded: the kept rows of each owner packed, every owner with the room of the longest.
- tombstone: rows stay where they are, and one byte a row says which are live.
- spherical: keys as angle codes in pages of whole tokens, values plain; all rows, or the kept ones.

Two backends. *torch*: grouped matrix products, softmax in float32 or wider; the ragged layout takes one product an
owner. *triton*: the kernels of `kernel.py`. Queries of a K/V head are grouped and keys never repeated.

*Bytes addressed* are the bytes of the tensors that a step has to read or write once: what the layout stores, what finds
it, queries and output, and on triton what passes between the two kernels. Logits and weights of the torch backend are
not in it: they depend on the backend, not on the layout. So a backend that goes over a tensor twice, or writes logits
to memory, shows as a lower effective bandwidth.

Shapes: O owners, G query heads of a group, N rows an owner, d channels.
"""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import torch
from torch import Tensor

from kvaudit.measure import spherical
from kvaudit.measure.layout_names import AUTO, DENSE, PADDED, RAGGED, REFUSED, SPHERICAL, TOMBSTONE, TORCH, TRITON
from kvaudit.measure.outcomes import BACKEND_INCOMPATIBLE, Stopped
from kvaudit.policies.spherical import Tree, table_entries

_FORMULAS = {
    DENSE: "rows x d x (key + value), every owner with all rows",
    RAGGED: "kept rows x d x (key + value), packed, and the first row and length of each owner",
    PADDED: "owners x rows of the longest x d x (key + value), padding included, and the length of each owner",
    TOMBSTONE: "all rows x d x (key + value), dead ones included, and one byte a row that says whether it lives",
    SPHERICAL: "whole pages: angle codes, one radius a token, values; the page table, the length of each owner, and "
    "the cosine and sine tables",
}
_ROWS_ONLY = "; a program stops at the end of its owner, so padding is stored and not addressed"


@dataclass(frozen=True, slots=True)
class Shape:
    """One decode step: `rows` of each of `kv_heads` heads of `batch` sequences, attended to by `query_heads` heads."""

    batch: int
    query_heads: int
    kv_heads: int
    head_dimension: int
    rows: int

    @property
    def owners(self) -> int:
        return self.batch * self.kv_heads

    @property
    def group(self) -> int:
        return self.query_heads // self.kv_heads


@dataclass(frozen=True, slots=True)
class Problem:
    """Synthetic rows of one type: queries [O, G, d], keys and values [O, N, d]; and which are kept, bool [O, N]."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    kept: Tensor


@dataclass(frozen=True, slots=True)
class Coding:
    """How the spherical layout codes keys. `kept_only`: the rows that are kept, not all."""

    tree: Tree
    page_tokens: int
    kept_only: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One layout ready to run. `addressed` and `resident` are bytes by tensor; `rows` what each owner sees.

    `expected(owner)` gives the keys and values, float64 [rows, d], whose attention the step must return.
    """

    layout: str
    backend: str
    note: str | None
    run: Callable[[], Tensor]
    rows: tuple[int, ...]
    addressed: dict[str, int]
    resident: dict[str, int]
    formula: str
    expected: Callable[[int], tuple[Tensor, Tensor]]
    pages: int | None = None


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows of all owners in two tensors [R, d]. `room` is the number of rows set aside for each owner, None if packed.

    starts int64 [O]; lengths int32 [O]; live bool [R] or None where all are; `bounds` the starts and their end, on the
    host.
    """

    keys: Tensor
    values: Tensor
    starts: Tensor
    lengths: Tensor
    live: Tensor | None
    room: int | None
    bounds: tuple[int, ...]
    longest: int


def problem(shape: Shape, kept: Fraction, dtype: torch.dtype, device: str, seed: int) -> Problem:
    """Return normal rows and queries from a seed, the same numbers on every device, and the rows that are kept.

    floor(kept x all rows) rows are kept, those of largest random score over all owners; owners are biased so that they
    keep different numbers. The newest row of each owner is protected, so that none is empty.
    """
    draw = torch.Generator().manual_seed(seed)
    owners, rows, d = shape.owners, shape.rows, shape.head_dimension
    queries = torch.randn((owners, shape.group, d), generator=draw)
    keys, values = (torch.randn((owners, rows, d), generator=draw).to(dtype) for _ in range(2))
    scores = torch.rand((owners, rows), generator=draw) * (0.5 + torch.rand((owners, 1), generator=draw))
    scores[:, -1] = math.inf
    count = max(owners, math.floor(kept * owners * rows))
    mask = torch.zeros(owners * rows, dtype=torch.bool)
    mask[scores.flatten().topk(count).indices] = True
    return Problem(queries.to(device, dtype), keys.to(device), values.to(device), mask.view(owners, rows).to(device))


def plain_rows(layout: str, source: Problem) -> PlainRows:
    """Return the rows of a problem in one of the layouts of plain rows."""
    owners, rows, d = source.keys.shape
    device = source.keys.device
    kept = [int(count) for count in source.kept.sum(dim=1)]
    whole, every = torch.arange(owners, dtype=torch.int64, device=device), [rows] * owners
    if layout in (DENSE, TOMBSTONE):
        return PlainRows(
            keys=source.keys.reshape(-1, d),
            values=source.values.reshape(-1, d),
            starts=whole * rows,
            lengths=_lengths(every, device),
            live=source.kept.flatten() if layout == TOMBSTONE else None,
            room=rows,
            bounds=tuple(range(0, owners * rows + 1, rows)),
            longest=rows,
        )
    longest = max(kept)
    if layout == RAGGED:
        bounds = [0]
        for count in kept:
            bounds.append(bounds[-1] + count)
        return PlainRows(
            keys=source.keys[source.kept],
            values=source.values[source.kept],
            starts=torch.tensor(bounds[:-1], dtype=torch.int64, device=device),
            lengths=_lengths(kept, device),
            live=None,
            room=None,
            bounds=tuple(bounds),
            longest=longest,
        )
    keys, values = (source.keys.new_zeros((owners, longest, d)) for _ in range(2))
    for owner, count in enumerate(kept):
        keys[owner, :count] = source.keys[owner, source.kept[owner]]
        values[owner, :count] = source.values[owner, source.kept[owner]]
    return PlainRows(
        keys=keys.view(-1, d),
        values=values.view(-1, d),
        starts=whole * longest,
        lengths=_lengths(kept, device),
        live=None,
        room=longest,
        bounds=tuple(range(0, owners * longest + 1, longest)),
        longest=longest,
    )


def attend(store: PlainRows, queries: Tensor, layout: str) -> Tensor:
    """Return the attention output [O, G, d] of queries [O, G, d] with torch, as the layout lies in memory."""
    if store.room is None:
        outputs = [
            _grouped(queries[owner, None], store.keys[None, begin:end], store.values[None, begin:end], None)
            for owner, (begin, end) in enumerate(zip(store.bounds, store.bounds[1:], strict=False))
        ]
        return torch.cat(outputs)
    owners, _, d = queries.shape
    hidden = None
    if layout == PADDED:
        hidden = torch.arange(store.room, device=queries.device) >= store.lengths[:, None]  # [O, N]
    elif store.live is not None:
        hidden = ~store.live.view(owners, store.room)
    return _grouped(queries, store.keys.view(owners, -1, d), store.values.view(owners, -1, d), hidden)


def reference(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the attention output float64 [G, d] of one owner: queries [G, d], and the rows [n, d] that it sees."""
    exact = queries.to(torch.float64)
    weights = torch.softmax(exact @ keys.T * exact.shape[-1] ** -0.5, dim=-1)  # [G, n]
    return weights @ values


def step(layout: str, source: Problem, coding: Coding, wanted: str) -> Step:
    """Return a layout ready to run on the backend that is wanted: auto, torch or triton.

    Raises `Stopped` where a backend that is asked for by name cannot run it.
    """
    if layout == SPHERICAL:
        return _coded_step(source, coding, wanted)
    queries = source.queries
    owners, group, d = queries.shape
    backend, note = _chosen_backend(wanted, queries.device.type, _rows_refusal(d, queries.dtype))
    store = plain_rows(layout, source)
    seen = source.kept if layout != DENSE else torch.ones_like(source.kept)
    resident = {"keys": _size(store.keys), "values": _size(store.values)}
    if layout == RAGGED:
        resident |= {"starts": _size(store.starts), "lengths": _size(store.lengths)}
    elif layout == PADDED:
        resident |= {"lengths": _size(store.lengths)}
    elif store.live is not None:
        resident |= {"live": _size(store.live)}
    formula = _FORMULAS[layout]
    run: Callable[[], Tensor]
    if backend == TRITON:
        from kvaudit.measure import kernel

        live = None if store.live is None else store.live.view(torch.uint8)
        block = kernel.block_rows(d, store.keys.element_size())
        splits = -(-store.longest // kernel.rows_per_split(owners, store.longest, block))
        visited = int(store.lengths.sum()) * d * store.keys.element_size()
        addressed = resident | {
            "keys": visited,
            "values": visited,
            "starts": _size(store.starts),
            "lengths": _size(store.lengths),
            "partial_softmax": kernel.partial_bytes(owners, splits, group, d),
            "queries": _size(queries),
            "output": 4 * queries.numel(),
        }
        formula += _ROWS_ONLY if layout == PADDED else ""
        run = partial(
            kernel.attend_rows, store.keys, store.values, store.starts, store.lengths, queries, live, store.longest
        )
    else:
        addressed = resident | {"queries": _size(queries), "output": _size(queries)}
        run = partial(attend, store, queries, layout)
    return Step(
        layout=layout,
        backend=backend,
        note=note,
        run=run,
        rows=tuple(int(count) for count in seen.sum(dim=1)),
        addressed=addressed,
        resident=resident,
        formula=formula,
        expected=partial(_rows_of, source, seen),
    )


def uncoded_output(source: Problem, coding: Coding, owner: int) -> Tensor:
    """Return the output float64 [G, d] over the rows of an owner in the spherical layout, their keys not coded."""
    seen = source.kept if coding.kept_only else torch.ones_like(source.kept)
    return reference(source.queries[owner], *_rows_of(source, seen, owner))


def _coded_step(source: Problem, coding: Coding, wanted: str) -> Step:
    queries = source.queries
    owners, group, d = queries.shape
    refusal = spherical.kernel_refusal(coding.tree, coding.page_tokens, queries.dtype)
    backend, note = _chosen_backend(wanted, queries.device.type, refusal)
    seen = source.kept if coding.kept_only else torch.ones_like(source.kept)
    cache = spherical.coded_cache(
        [source.keys[owner, seen[owner]] for owner in range(owners)],
        [source.values[owner, seen[owner]] for owner in range(owners)],
        coding.tree,
        coding.page_tokens,
    )
    resident = {
        "codes": _size(cache.planes),
        "radii": _size(cache.radii),
        "values": _size(cache.values),
        "page_table": _size(cache.page_table),
        "lengths": _size(cache.lengths),
        "tables": table_entries(coding.tree) * (8 if queries.dtype == torch.float64 else 4),
    }
    run: Callable[[], Tensor]
    if backend == TRITON:
        from kvaudit.measure import kernel

        pages = cache.page_table.shape[1]
        splits = -(-pages // kernel.pages_per_split(owners, pages))
        wide = 4 * queries.numel()  # the kernel takes queries as float32 and gives its output so
        between = kernel.partial_bytes(owners, splits, group, d)
        addressed = resident | {"partial_softmax": between, "queries": wide, "output": wide}
        run = partial(kernel.attend, cache, queries)
    else:
        addressed = resident | {"queries": _size(queries), "output": _size(queries)}
        run = partial(spherical.attend, cache, queries)
    return Step(
        layout=SPHERICAL,
        backend=backend,
        note=note,
        run=run,
        rows=tuple(int(count) for count in seen.sum(dim=1)),
        addressed=addressed,
        resident=resident,
        formula=_FORMULAS[SPHERICAL],
        expected=partial(_coded_rows_of, cache),
        pages=len(cache.planes),
    )


def _chosen_backend(wanted: str, device_kind: str, refusal: str | None) -> tuple[str, str | None]:
    """Return the backend and what to say about the choice; `refusal` is why the kernel cannot take this shape."""
    if wanted == TORCH:
        return TORCH, None
    interpreted = spherical.interpreted()
    if importlib.util.find_spec("triton") is None:
        reason = "triton is not installed (extra: kernel)"
    elif refusal is not None:
        reason = refusal
    elif device_kind != "cuda" and (wanted == AUTO or not interpreted):
        reason = "it needs a CUDA device"
    else:
        return TRITON, "under Triton's interpreter: its times say nothing" if interpreted else None
    if wanted == TRITON:
        hint = "" if interpreted or device_kind == "cuda" else " (TRITON_INTERPRET=1 runs it on a CPU, very slowly)"
        raise Stopped(BACKEND_INCOMPATIBLE, REFUSED, f"no Triton kernel: {reason}{hint}")
    return TORCH, f"torch, no Triton kernel: {reason}"


def _rows_of(source: Problem, seen: Tensor, owner: int) -> tuple[Tensor, Tensor]:
    keys, values = (each[owner, seen[owner]].to(torch.float64) for each in (source.keys, source.values))
    return keys, values


def _coded_rows_of(cache: spherical.CodedCache, owner: int) -> tuple[Tensor, Tensor]:
    return spherical.decoded_keys(cache, owner), spherical.owner_values(cache, owner).to(torch.float64)


def _grouped(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> Tensor:
    """Attend: queries [O, G, d], keys and values [O, n, d], `hidden` [O, n] or None."""
    work = torch.float64 if queries.dtype == torch.float64 else torch.float32
    logits = (queries @ keys.transpose(1, 2)).to(work) * queries.shape[-1] ** -0.5  # [O, G, n]
    if hidden is not None:
        logits = logits.masked_fill(hidden[:, None], -math.inf)
    weights = torch.softmax(logits, dim=-1)
    return weights.to(values.dtype) @ values  # [O, G, d]


def _rows_refusal(d: int, dtype: torch.dtype) -> str | None:
    if not 16 <= d <= 256 or d & (d - 1):
        return f"it takes head dimensions 16 to 256, a power of two, found {d}"
    return spherical.type_refusal(dtype)


def _lengths(counts: list[int], device: torch.device) -> Tensor:
    return torch.tensor(counts, dtype=torch.int32, device=device)


def _size(tensor: Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())
