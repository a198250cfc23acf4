"""Spherical codes with torch: encoding, pages of a cache, and attention over the codes without a dense key.

The codes, their order and their pages are those of `kvaudit.selectors.spherical`, bit for bit: node-major, so that one
look-up serves all tokens of a node, and packed in planes of 8, 4, 2 and 1 bits (two 4-bit codes a byte, the low nibble
for the first half of the page). A cache is a pool of pages. The pages of an owner (one K/V head of one sequence) are
listed in a page table and may lie anywhere; the last may be part full, so owners may keep different numbers of rows.

`attend` is the reference of the kernel: it evaluates the tree depth first over all pages at once, and takes the softmax
of all logits of an owner, where the kernel folds page after page. It holds log2(d) values a token, never d.

Shapes: O owners, G query heads of a group, P tokens of a page, d channels of keys and of values alike.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kvaudit.policies.spherical import EDGE, Tree, is_page, plane_bits
from kvaudit.selectors import spherical as selector

RADIUS = torch.float16
_EDGE = float(EDGE)
_KERNEL_DIMENSIONS = (16, 256)
_KERNEL_PAGES = (16, 256)
# A page of values lies in shared memory.
_KERNEL_PAGE_BYTES = 65536
_KERNEL_TYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class CodedCache:
    """Coded keys and plain values of all owners, in pages.

    planes uint8 [pages, P * angle bits / 8]; radii float16 [pages, P]; values [pages, P, d]; page_table int32
    [O, pages of the longest owner], -1 behind the last page; lengths int32 [O]; owner and slot int64 [pages] say whose
    page it is and its place among that owner's. What a page holds past the length is zero. `turns` are cosines and
    sines of each level, float32, or float64 beside such values; `pairs` the same for the kernel, float32 [entries, 2].
    """

    tree: Tree
    page_tokens: int
    planes: Tensor
    radii: Tensor
    values: Tensor
    page_table: Tensor
    lengths: Tensor
    owner: Tensor
    slot: Tensor
    turns: tuple[tuple[Tensor, Tensor], ...]
    pairs: Tensor


def kernel_refusal(tree: Tree, page_tokens: int, dtype: torch.dtype) -> str | None:
    """Return why the Triton kernel cannot take a cache, or None. It takes every width of 1 to 8 bits on any level."""
    least, most = _KERNEL_DIMENSIONS
    if not least <= tree.dimension <= most:
        return f"it takes head dimensions {least} to {most}, found {tree.dimension}"
    least, most = _KERNEL_PAGES
    if not least <= page_tokens <= most or page_tokens & (page_tokens - 1):
        return f"it takes pages of {least} to {most} tokens, a power of two, found {page_tokens}"
    refusal = type_refusal(dtype)
    if refusal is not None:
        return refusal
    size = page_tokens * tree.dimension * dtype.itemsize
    if size > _KERNEL_PAGE_BYTES:
        return f"it takes pages of at most {_KERNEL_PAGE_BYTES} bytes of values, found {size}"
    return None


def type_refusal(dtype: torch.dtype) -> str | None:
    """Return why the Triton kernels cannot take rows of a type, or None."""
    if dtype not in _KERNEL_TYPES:
        return f"it computes in float32 and takes rows of at most 32 bits, found {dtype}"
    if dtype == torch.bfloat16 and interpreted():
        return "its interpreter multiplies the bits of bfloat16 as whole numbers"
    return None


def interpreted() -> bool:
    """Return whether Triton runs under its interpreter, which is chosen before it is imported."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def encode(keys: Tensor, tree: Tree) -> tuple[Tensor, Tensor]:
    """Return the codes uint8 [d - 1, N] and radii float16 [N] of post-RoPE keys [N, d], as the selector gives them.

    Raises `ValueError` for another dimension, a coordinate that is not finite and a radius that is not zero but below
    the least normal number of float16; `OverflowError` for one above its largest.
    """
    if keys.ndim != 2 or keys.shape[1] != tree.dimension:
        raise ValueError(f"the keys have the shape {tuple(keys.shape)}, the tree the dimension {tree.dimension}")
    exact = keys.to(torch.float64)
    if not bool(torch.isfinite(exact).all()):
        raise ValueError("a coordinate of a key is not finite")
    largest = exact.abs().amax(dim=1)  # [N]
    exact = exact / torch.where(largest > 0, largest, 1.0)[:, None]
    # Adding 0.0 makes -0.0 positive: the angle of (-0.0, 0.0) would be pi.
    along, across = exact[:, ::2].T + 0.0, exact[:, 1::2].T + 0.0  # [d/2, N]
    cells = [_cells(torch.atan2(across, along), 0, tree.widths[0])]
    squares = along**2 + across**2
    for level in range(1, tree.levels):
        left, right = squares[::2], squares[1::2]
        cells.append(_cells(torch.atan2(right.sqrt(), left.sqrt()), level, tree.widths[level]))
        squares = left + right
    return torch.cat(cells), _stored_radii(squares[0].sqrt() * largest)


def directions(cells: Tensor, tree: Tree) -> Tensor:
    """Return the unit vectors float64 [N, d] that codes [d - 1, N] stand for: what attention must not need."""
    lengths = torch.ones((1, cells.shape[1]), dtype=torch.float64, device=cells.device)
    turns = _turns(tree, torch.float64, cells.device)
    for level in reversed(range(tree.levels)):
        cosines, sines = turns[level]
        first = tree.first_node(level)
        here = cells[first : first + tree.nodes(level)].to(torch.int64)  # [nodes, N]
        lengths = torch.stack([lengths * cosines[here], lengths * sines[here]], dim=1).flatten(0, 1)
    return lengths.T


def pack(cells: Tensor, tree: Tree, page_tokens: int) -> Tensor:
    """Return the planes uint8 [pages, P * angle bits / 8] of codes [d - 1, N]; slots without a token are zero."""
    if not is_page(page_tokens):
        raise ValueError(f"a page of {page_tokens} tokens does not fill whole bytes")
    nodes, tokens = cells.shape
    pages = -(-tokens // page_tokens)
    whole = cells.new_zeros((nodes, pages * page_tokens))
    whole[:, :tokens] = cells
    by_page = whole.view(nodes, pages, page_tokens)
    planes = []
    for node, (_, width) in enumerate(selector.node_offsets(tree, page_tokens)):
        above = width
        for bits in plane_bits(width):
            above -= bits
            fields = (by_page[node] >> above & (1 << bits) - 1).view(pages, 8 // bits, -1)  # [pages, fields, bytes]
            planes.append(sum((fields[:, field] << field * bits for field in range(1, 8 // bits)), fields[:, 0]))
    return torch.cat(planes, dim=1)


def coded_cache(
    keys: Sequence[Tensor], values: Sequence[Tensor], tree: Tree, page_tokens: int, order: Tensor | None = None
) -> CodedCache:
    """Return the cache of the rows of each owner: keys and values [N_o, d], N_o at least 1.

    `order` places the pages in the pool, a permutation of all of them; None keeps an owner's pages side by side.
    """
    lengths = [len(each) for each in keys]
    if min(lengths) < 1:
        raise ValueError("an owner without a row has no attention output")
    device = keys[0].device
    counts = [-(-length // page_tokens) for length in lengths]
    pages = sum(counts)
    places = torch.arange(pages, device=device) if order is None else order.to(device)
    planes = torch.empty((pages, page_tokens * tree.angle_bits // 8), dtype=torch.uint8, device=device)
    radii = torch.zeros((pages, page_tokens), dtype=RADIUS, device=device)
    rows = torch.zeros((pages, page_tokens, tree.dimension), dtype=values[0].dtype, device=device)
    table = torch.full((len(keys), max(counts)), -1, dtype=torch.int32, device=device)
    owner = torch.empty(pages, dtype=torch.int64, device=device)
    slot = torch.empty(pages, dtype=torch.int64, device=device)
    begin = 0
    for index, count in enumerate(counts):
        mine = places[begin : begin + count]
        cells, radius = encode(keys[index], tree)
        planes[mine] = pack(cells, tree, page_tokens)
        radii[mine] = _paged(radius, count, page_tokens)
        rows[mine] = _paged(values[index], count, page_tokens)
        table[index, :count] = mine.to(torch.int32)
        owner[mine] = index
        slot[mine] = torch.arange(count, device=device)
        begin += count
    return CodedCache(
        tree=tree,
        page_tokens=page_tokens,
        planes=planes,
        radii=radii,
        values=rows,
        page_table=table,
        lengths=torch.tensor(lengths, dtype=torch.int32, device=device),
        owner=owner,
        slot=slot,
        turns=_turns(tree, _work(rows.dtype), device),
        pairs=packed_tables(tree, device),
    )


def decoded_keys(cache: CodedCache, owner: int) -> Tensor:
    """Return the dense keys float64 [N_o, d] that an owner's codes stand for, to check attention against."""
    mine, length = _pages_of(cache, owner)
    offsets = selector.node_offsets(cache.tree, cache.page_tokens)
    planes = cache.planes[mine]
    cells = torch.stack([_unpacked(planes, *each, cache.page_tokens).flatten()[:length] for each in offsets])
    return directions(cells, cache.tree) * cache.radii[mine].flatten()[:length, None].to(torch.float64)


def owner_values(cache: CodedCache, owner: int) -> Tensor:
    """Return the values [N_o, d] of an owner."""
    mine, length = _pages_of(cache, owner)
    return cache.values[mine].flatten(0, 1)[:length]


def page_logits(cache: CodedCache, queries: Tensor) -> Tensor:
    """Return q.k_hat, unscaled, [pages, G, P] in the type of `turns`, for queries [O, G, d], depth first from codes."""
    tree, page, work = cache.tree, cache.page_tokens, cache.turns[0][0].dtype
    offsets = selector.node_offsets(tree, page)
    dense = queries.to(work)[cache.owner]  # [pages, G, d]

    def value(level: int, node: int) -> Tensor:
        if level == 0:
            left, right = dense[:, :, 2 * node, None], dense[:, :, 2 * node + 1, None]  # [pages, G, 1]
        else:
            left, right = value(level - 1, 2 * node), value(level - 1, 2 * node + 1)  # [pages, G, P]
        cosines, sines = cache.turns[level]
        code = _unpacked(cache.planes, *offsets[tree.first_node(level) + node], page).to(torch.int32)  # [pages, P]
        # One look-up serves all query heads of the group.
        return cosines[code][:, None] * left + sines[code][:, None] * right

    return value(tree.levels - 1, 0) * cache.radii.to(work)[:, None]


def attend(cache: CodedCache, queries: Tensor) -> Tensor:
    """Return the attention output [O, G, d] of queries [O, G, d] in their own type, softmax in float32 or wider."""
    owners, group, d = queries.shape
    most, page = cache.page_table.shape[1], cache.page_tokens
    logits = page_logits(cache, queries) * d**-0.5  # [pages, G, P]
    every = logits.new_full((owners, most, group, page), -math.inf)
    every[cache.owner, cache.slot] = logits
    every = every.permute(0, 2, 1, 3).reshape(owners, group, most * page)  # [O, G, N]
    beyond = torch.arange(most * page, device=logits.device) >= cache.lengths[:, None]  # [O, N]
    weights = torch.softmax(every.masked_fill(beyond[:, None], -math.inf), dim=-1)
    by_page = weights.view(owners, group, most, page)[cache.owner, :, cache.slot]  # [pages, G, P]
    products = torch.bmm(by_page.to(cache.values.dtype), cache.values).to(logits.dtype)  # [pages, G, d]
    output = products.new_zeros((owners, group, d)).index_add_(0, cache.owner, products)
    return output.to(queries.dtype)


def packed_tables(tree: Tree, device: torch.device) -> Tensor:
    """Return cosine beside sine for the kernel, float32 [entries, 2]: leaves, then upper levels of 1, 2, ... bits."""
    leaf = selector.tables(Tree(2, tree.widths[:1]))[0]
    widest = max(tree.widths[1:], default=0)
    upper = [selector.tables(Tree(4, (1, width)))[1] for width in range(1, widest + 1)]
    pairs = np.concatenate([np.stack(each, axis=1) for each in (leaf, *upper)])
    return torch.from_numpy(pairs).to(dtype=torch.float32, device=device)


def _cells(angles: Tensor, level: int, width: int) -> Tensor:
    start, whole = (math.pi, 1 << width) if level == 0 else (0.0, 1 << width)
    size = (2 * math.pi if level == 0 else math.pi / 2) / whole
    found = torch.floor((angles + (start + _EDGE)) / size).to(torch.int64)
    return (found % whole if level == 0 else found.clamp(max=whole - 1)).to(torch.uint8)


def _stored_radii(radii: Tensor) -> Tensor:
    stored = radii.to(RADIUS)
    if bool(torch.isinf(stored).any()):
        raise OverflowError("a radius overflows float16")
    if bool(((radii > 0) & (stored < torch.finfo(RADIUS).smallest_normal)).any()):
        raise ValueError("a radius underflows float16")
    return stored


def _turns(tree: Tree, work: torch.dtype, device: torch.device) -> tuple[tuple[Tensor, Tensor], ...]:
    pairs = selector.tables(tree)
    return tuple((torch.from_numpy(one).to(device, work), torch.from_numpy(two).to(device, work)) for one, two in pairs)


def _work(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _unpacked(planes: Tensor, begin: int, width: int, page_tokens: int) -> Tensor:
    """Return the codes uint8 [pages, P] of the node whose planes begin at a byte."""
    code = planes.new_zeros((len(planes), page_tokens))
    for bits in plane_bits(width):
        size = page_tokens * bits // 8
        plane = planes[:, begin : begin + size]
        fields = [plane >> field * bits & (1 << bits) - 1 for field in range(8 // bits)]
        code = code << bits | torch.cat(fields, dim=1)
        begin += size
    return code


def _pages_of(cache: CodedCache, owner: int) -> tuple[Tensor, int]:
    length = int(cache.lengths[owner])
    return cache.page_table[owner, : -(-length // cache.page_tokens)].to(torch.int64), length


def _paged(rows: Tensor, pages: int, page_tokens: int) -> Tensor:
    whole = rows.new_zeros((pages * page_tokens, *rows.shape[1:]))
    whole[: len(rows)] = rows
    return whole.view(pages, page_tokens, *rows.shape[1:])
