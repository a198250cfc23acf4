"""A Triton kernel for one decode step over spherical codes: codes in, partial softmax out, no dense key anywhere.

A program takes a run of pages of one owner (a K/V head of a sequence). Lanes are the tokens of a page, so that a node's
codes are one contiguous load and one look-up of cosine and sine serves all query heads of the group. The tree is
evaluated depth first, right after left: at most log2(d) partial values of a token and query head live at once, in
registers. Each page folds into a running maximum, sum and weighted sum of values; a second kernel combines the runs of
an owner. What goes to memory between the two is one maximum, one sum and one row of d numbers a run and query head.

Choices:
- Lanes read the byte of their own token, so a byte of two 4-bit codes is loaded by two lanes. The second load hits the
  cache: the traffic to memory is each byte once. In exchange every width of 1 to 8 bits takes the same path.
- Arithmetic is float32; the weights are rounded to the type of the values before their product, which accumulates in
  float32. The rows of that product are repeated up to 16, the least that tensor cores take.
- The upper levels of the tree are loops of two turns, the lower ones straight code: unrolled to the leaves, the loads
  of a query are hoisted out of the loop over pages and fill the registers, and compiling takes a minute, not seconds.
- The layouts of plain rows have a kernel of the same cut, so that all layouts can be timed on one backend.
- Tokens past the end of a sequence are masked; their values are not read.

Importing this module needs Triton. On a CPU it runs under Triton's interpreter, which is chosen before the import
(`TRITON_INTERPRET=1`): right, and a thousand times slower.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvaudit.measure.spherical import CodedCache, kernel_refusal, type_refusal
from kvaudit.policies.spherical import Tree

# What a tensor core takes at least, in rows.
_DOT_ROWS = 16
# Bytes of keys, and of values, that the kernel over plain rows takes at a time.
_BLOCK_BYTES = 16384
# Programs that fill a large GPU, and the runs an owner is cut into at most, which the combine step reads again.
_PROGRAMS, _MOST_SPLITS = 1024, 256

# Subtrees below this level (15 nodes) are straight code; above it the two children are the turns of a loop.
UNROLLED = tl.constexpr(4)


@dataclass(frozen=True, slots=True)
class Launch:
    """How the work is cut: pages or rows of one program, and warps. None: chosen from the shape."""

    per_split: int | None = None
    warps: int | None = None


@triton.jit
def _code(planes, lanes, WIDTH: tl.constexpr, PAGE: tl.constexpr):
    """The code of one node for the tokens of a page, from its planes of 8, 4, 2 and 1 bits."""
    code = tl.zeros_like(lanes)
    if WIDTH & 8:
        code = tl.load(planes + lanes).to(tl.int32)
    if WIDTH & 4:
        byte = tl.load(planes + lanes % (PAGE // 2)).to(tl.int32)
        code = (byte >> (lanes // (PAGE // 2) * 4)) & 15
    if WIDTH & 2:
        byte = tl.load(planes + PAGE * (WIDTH & 4) // 8 + lanes % (PAGE // 4)).to(tl.int32)
        code = (code << 2) | ((byte >> (lanes // (PAGE // 4) * 2)) & 3)
    if WIDTH & 1:
        byte = tl.load(planes + PAGE * (WIDTH & 6) // 8 + lanes % (PAGE // 8)).to(tl.int32)
        code = (code << 1) | ((byte >> (lanes // (PAGE // 8))) & 1)
    return code


@triton.jit
def _pair(pairs):
    """Two float32 that stand side by side in memory, out of one load of 64 bits (the first in the low half)."""
    first = pairs.to(tl.int32).to(tl.float32, bitcast=True)
    second = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return first, second


@triton.jit
def _partial(
    planes,
    tables,
    queries,
    lanes,
    present,
    node,
    LEVEL: tl.constexpr,
    BEGIN: tl.constexpr,
    WIDTHS: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    G: tl.constexpr,
):
    """The value [queries, tokens] of a node: its children first, then its own code, so that little is live at once.

    `BEGIN` is the first byte of the level in a page; `WIDTHS` holds four bits a level, the leaves lowest.
    """
    WIDTH: tl.constexpr = (WIDTHS >> (4 * LEVEL)) & 15
    if LEVEL == 0:
        one, other = _pair(tl.load(queries + node, mask=present, other=0))  # [queries]
        left, right = one[:, None], other[:, None]
        table = tables
    else:
        BELOW: tl.constexpr = BEGIN - (D >> LEVEL) * PAGE * ((WIDTHS >> (4 * (LEVEL - 1))) & 15) // 8
        if LEVEL < UNROLLED:
            left = _partial(planes, tables, queries, lanes, present, 2 * node, LEVEL - 1, BELOW, WIDTHS, D, PAGE, G)
            right = _partial(
                planes, tables, queries, lanes, present, 2 * node + 1, LEVEL - 1, BELOW, WIDTHS, D, PAGE, G
            )
        else:
            left = tl.zeros([G, PAGE], tl.float32)
            right = left
            for side in range(2):
                left = right
                right = _partial(
                    planes, tables, queries, lanes, present, 2 * node + side, LEVEL - 1, BELOW, WIDTHS, D, PAGE, G
                )
        # Upper tables of 1, 2, ... bits follow those of the leaves.
        table = tables + (1 << (WIDTHS & 15)) + (1 << WIDTH) - 2
    code = _code(planes + BEGIN + node * (PAGE * WIDTH // 8), lanes, WIDTH, PAGE)  # [tokens]
    cosine, sine = _pair(tl.load(table + code))  # [tokens]
    return cosine[None, :] * left + sine[None, :] * right


@triton.jit
def _repeated(rows, COPIES: tl.constexpr):
    """The same rows, COPIES times over."""
    if COPIES == 1:
        return rows
    wide = tl.broadcast_to(rows[None, :, :], (COPIES, rows.shape[0], rows.shape[1]))
    return tl.reshape(wide, (COPIES * rows.shape[0], rows.shape[1]))


@triton.jit
def _store_run(
    maxima,
    sums,
    weighted,
    maximum,  # [GROUP, 1]
    total,  # [GROUP, 1]
    sum_of_values,  # [ROWS, D]
    place,
    G: tl.constexpr,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
):
    """Write what a run leaves behind; rows from G on are padding."""
    group = tl.arange(0, GROUP)[:, None]
    tl.store(maxima + place * G + group, maximum, mask=group < G)
    tl.store(sums + place * G + group, total, mask=group < G)
    row = tl.arange(0, ROWS)[:, None]
    target = weighted + (place * G + row).to(tl.int64) * D + tl.arange(0, D)[None, :]
    tl.store(target, sum_of_values, mask=row < G)


@triton.jit
def _run_of_pages(
    queries,  # [owners, G, D/2] pairs of float32, times 1/sqrt(d)
    planes,  # [pages, bytes] uint8
    radii,  # [pages, PAGE]
    values,  # [pages, PAGE, D]
    page_table,  # [owners, pages of the longest] int32
    lengths,  # [owners] int32
    tables,  # [entries] pairs of float32: cosine and sine
    maxima,  # [owners, splits, G] float32
    sums,  # [owners, splits, G] float32
    weighted,  # [owners, splits, G, D] float32
    table_stride,
    pages_per_split,
    page_bytes,
    ROOT_BEGIN: tl.constexpr,
    WIDTHS: tl.constexpr,
    LEVELS: tl.constexpr,
    G: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    PAGE: tl.constexpr,
    COPIES: tl.constexpr,
):
    owner = tl.program_id(0)
    split = tl.program_id(1)
    lanes = tl.arange(0, PAGE)
    channels = tl.arange(0, D)
    group = tl.arange(0, GROUP)
    present = group < G
    length = tl.load(lengths + owner)
    first = split * pages_per_split
    last = tl.minimum(first + pages_per_split, tl.cdiv(length, PAGE))
    query = queries + (owner * G + group) * (D // 2)  # [GROUP]

    maximum = tl.full([GROUP, 1], float("-inf"), tl.float32)
    total = tl.zeros([GROUP, 1], tl.float32)
    sum_of_values = tl.zeros([COPIES * GROUP, D], tl.float32)
    for index in range(first, last):
        page = tl.load(page_table + owner * table_stride + index).to(tl.int64)
        held = index * PAGE + lanes < length  # [PAGE]
        root = _partial(
            planes + page * page_bytes, tables, query, lanes, present, 0, LEVELS - 1, ROOT_BEGIN, WIDTHS, D, PAGE, GROUP
        )
        radius = tl.load(radii + page * PAGE + lanes).to(tl.float32)
        logits = tl.where(held[None, :], root * radius[None, :], float("-inf"))  # [GROUP, PAGE]
        # A page in range holds a token, so the maximum is finite from the first page on.
        larger = tl.maximum(maximum, tl.max(logits, axis=1)[:, None])
        weights = tl.exp(logits - larger)
        shrink = tl.exp(maximum - larger)  # [GROUP, 1]
        total = total * shrink + tl.sum(weights, axis=1)[:, None]
        rows = tl.load(
            values + (page * PAGE + lanes)[:, None] * D + channels[None, :], mask=held[:, None], other=0.0
        )  # [PAGE, D]
        products = tl.dot(_repeated(weights.to(rows.dtype), COPIES), rows, input_precision="ieee")
        sum_of_values = sum_of_values * _repeated(shrink, COPIES) + products
        maximum = larger

    _store_run(
        maxima,
        sums,
        weighted,
        maximum,
        total,
        sum_of_values,
        owner * tl.num_programs(1) + split,
        G,
        GROUP,
        COPIES * GROUP,
        D,
    )


@triton.jit
def _run_of_rows(
    queries,  # [owners, G, D] in the type of the rows
    keys,  # [rows, D]
    values,  # [rows, D]
    starts,  # [owners] int64: the first row of an owner
    lengths,  # [owners] int32
    live,  # [rows] uint8, not read unless HAS_LIVE
    maxima,  # [owners, splits, G] float32
    sums,  # [owners, splits, G] float32
    weighted,  # [owners, splits, G, D] float32
    rows_per_split,
    scale,
    HAS_LIVE: tl.constexpr,
    G: tl.constexpr,
    GROUP: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    owner = tl.program_id(0)
    split = tl.program_id(1)
    channels = tl.arange(0, D)
    group = tl.arange(0, GROUP)
    length = tl.load(lengths + owner)
    start = tl.load(starts + owner)
    first = split * rows_per_split
    last = tl.minimum(first + rows_per_split, length)
    query = tl.load(
        queries + (owner * G + group)[:, None] * D + channels[None, :], mask=group[:, None] < G, other=0.0
    )  # [GROUP, D]

    maximum = tl.full([GROUP, 1], float("-inf"), tl.float32)
    total = tl.zeros([GROUP, 1], tl.float32)
    sum_of_values = tl.zeros([GROUP, D], tl.float32)
    for begin in range(first, last, BLOCK):
        row = begin + tl.arange(0, BLOCK)
        held = row < last
        place = (start + row)[:, None] * D + channels[None, :]
        key = tl.load(keys + place, mask=held[:, None], other=0.0)  # [BLOCK, D]
        visible = held
        if HAS_LIVE:
            visible = held & (tl.load(live + start + row, mask=held, other=0) != 0)
        logits = tl.dot(query, tl.trans(key), input_precision="ieee") * scale  # [GROUP, BLOCK]
        logits = tl.where(visible[None, :], logits, float("-inf"))
        larger = tl.maximum(maximum, tl.max(logits, axis=1)[:, None])
        # Rows that are all dead leave the maximum at minus infinity.
        level = tl.where(larger == float("-inf"), 0.0, larger)
        weights = tl.exp(logits - level)
        shrink = tl.exp(maximum - level)
        total = total * shrink + tl.sum(weights, axis=1)[:, None]
        value = tl.load(values + place, mask=held[:, None], other=0.0)
        sum_of_values = sum_of_values * shrink + tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        maximum = larger
    _store_run(
        maxima, sums, weighted, maximum, total, sum_of_values, owner * tl.num_programs(1) + split, G, GROUP, GROUP, D
    )


@triton.jit
def _combine(
    maxima,  # [owners, splits, G]
    sums,  # [owners, splits, G]
    weighted,  # [owners, splits, G, D]
    output,  # [owners, G, D]
    splits,
    SPLITS: tl.constexpr,
    G: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program an owner and query head: the runs under their common maximum. A run without a row weighs nothing."""
    owner = tl.program_id(0)
    head = tl.program_id(1)
    channels = tl.arange(0, D)
    every = tl.arange(0, SPLITS)
    at = (owner * splits + every) * G + head
    maximum = tl.max(tl.load(maxima + at, mask=every < splits, other=float("-inf")), axis=0)
    scales = tl.exp(tl.load(maxima + at, mask=every < splits, other=float("-inf")) - maximum)
    total = tl.sum(scales * tl.load(sums + at, mask=every < splits, other=0.0), axis=0)
    found = tl.zeros([D], tl.float32)
    for begin in range(0, splits, BLOCK):
        run = begin + tl.arange(0, BLOCK)
        held = run < splits
        place = ((owner * splits + run) * G + head).to(tl.int64)
        scale = tl.exp(tl.load(maxima + place, mask=held, other=float("-inf")) - maximum)  # [BLOCK]
        rows = tl.load(weighted + place[:, None] * D + channels[None, :], mask=held[:, None], other=0.0)  # [BLOCK, D]
        found += tl.sum(scale[:, None] * rows, axis=0)
    tl.store(output + (owner * G + head) * D + channels, found / total)


def attend(cache: CodedCache, queries: Tensor, launch: Launch | None = None) -> Tensor:
    """Return the attention output [owners, G, d], float32, of the queries [owners, G, d] over a coded cache.

    Raises `ValueError` for what the kernel does not take (see `kernel_refusal`).
    """
    refusal = kernel_refusal(cache.tree, cache.page_tokens, cache.values.dtype)
    if refusal is not None:
        raise ValueError(refusal)
    owners, group, d = queries.shape
    launch = launch or Launch()
    pages = cache.page_table.shape[1]
    per_split = launch.per_split or pages_per_split(owners, pages)
    runs = _Runs.empty(owners, -(-pages // per_split), group, d, queries.device)
    scaled = (queries.to(torch.float32) * d**-0.5).contiguous()
    _run_of_pages[(owners, runs.splits)](
        scaled.view(torch.int64),
        cache.planes,
        cache.radii,
        cache.values,
        cache.page_table,
        cache.lengths,
        cache.pairs.view(torch.int64),
        runs.maxima,
        runs.sums,
        runs.weighted,
        pages,
        per_split,
        cache.planes.shape[1],
        **constants(cache.tree, cache.page_tokens, group),
        num_warps=launch.warps or max(1, cache.page_tokens // 32),
        num_stages=1,
    )
    return _combined(runs)


def attend_rows(
    keys: Tensor,
    values: Tensor,
    starts: Tensor,
    lengths: Tensor,
    queries: Tensor,
    live: Tensor | None,
    longest: int,
    launch: Launch | None = None,
) -> Tensor:
    """Return the attention output [owners, G, d], float32, over plain rows [R, d]: `starts` int64 and `lengths` int32.

    Owner o sees the rows from starts[o] on, lengths[o] of them, without those that `live` uint8 [R] calls dead (0).
    Every owner sees one row at least. `longest` is the largest length, which the host knows. d is a power of two from
    16 on.

    Raises `ValueError` for a type of the rows that the kernel does not take.
    """
    refusal = type_refusal(keys.dtype)
    if refusal is not None:
        raise ValueError(refusal)
    owners, group, d = queries.shape
    launch = launch or Launch()
    block = block_rows(d, keys.element_size())
    per_split = launch.per_split or rows_per_split(owners, longest, block)
    runs = _Runs.empty(owners, -(-longest // per_split), group, d, queries.device)
    _run_of_rows[(owners, runs.splits)](
        queries.contiguous(),
        keys,
        values,
        starts,
        lengths,
        live if live is not None else keys,
        runs.maxima,
        runs.sums,
        runs.weighted,
        per_split,
        d**-0.5,
        HAS_LIVE=live is not None,
        G=group,
        GROUP=max(_DOT_ROWS, triton.next_power_of_2(group)),
        D=d,
        BLOCK=block,
        num_warps=launch.warps or 4,
        num_stages=2,
    )
    return _combined(runs)


def pages_per_split(owners: int, pages: int) -> int:
    """Return the pages of one program, so that a large GPU has about a thousand programs."""
    return max(1, pages // _wanted(owners))


def block_rows(d: int, element_bytes: int) -> int:
    """Return the rows that the kernel over plain rows takes at a time, 16 to 64."""
    return min(64, max(16, _BLOCK_BYTES // (d * element_bytes)))


def rows_per_split(owners: int, rows: int, block: int) -> int:
    """Return the rows of one program, whole blocks of them."""
    return block * max(1, -(-rows // block) // _wanted(owners))


def partial_bytes(owners: int, splits: int, group: int, d: int) -> int:
    """Return the bytes between the two kernels: a maximum, a sum and d numbers a run, written once and read once."""
    return 2 * 4 * owners * splits * group * (d + 2)


def constants(tree: Tree, page_tokens: int, group: int) -> dict[str, int]:
    """Return what the kernel over pages is compiled for."""
    padded = triton.next_power_of_2(group)
    return {
        "ROOT_BEGIN": page_tokens * (tree.angle_bits - tree.widths[-1]) // 8,
        "WIDTHS": sum(width << 4 * level for level, width in enumerate(tree.widths)),
        "LEVELS": tree.levels,
        "G": group,
        "GROUP": padded,
        "D": tree.dimension,
        "PAGE": page_tokens,
        "COPIES": max(1, _DOT_ROWS // padded),
    }


@dataclass(frozen=True, slots=True)
class _Runs:
    """What the first kernel leaves for the second: maxima and sums [owners, splits, G], weighted rows."""

    maxima: Tensor
    sums: Tensor
    weighted: Tensor

    @classmethod
    def empty(cls, owners: int, splits: int, group: int, d: int, device: torch.device) -> "_Runs":
        maxima = torch.empty((owners, splits, group), dtype=torch.float32, device=device)
        weighted = torch.empty((owners, splits, group, d), dtype=torch.float32, device=device)
        return cls(maxima, torch.empty_like(maxima), weighted)

    @property
    def splits(self) -> int:
        return int(self.maxima.shape[1])


def _combined(runs: _Runs) -> Tensor:
    owners, splits, group, d = runs.weighted.shape
    output = runs.weighted.new_empty((owners, group, d))
    _combine[(owners, group)](
        runs.maxima,
        runs.sums,
        runs.weighted,
        output,
        splits,
        SPLITS=triton.next_power_of_2(splits),
        G=group,
        D=d,
        BLOCK=16,
    )
    return output


def _wanted(owners: int) -> int:
    return min(_MOST_SPLITS, -(-_PROGRAMS // owners))
