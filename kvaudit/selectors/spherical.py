"""Spherical key codes with NumPy, for real sizes: the codes and logits of `policies.spherical` in float64.

Codes are *node-major*: a uint8 array [d - 1, N], one row a node of the tree (the leaves first, then level by level, the
root last) and one column a token, so that one table look-up serves all tokens of a node and every load is contiguous.

No reconstruction: `logits` evaluates the tree depth first. At most log2(d) partial values of a token live at once, the
value under way and one finished left sibling a level; nothing of size d exists for any token. The codes and the cosines
looked up for a node serve all queries of a K/V head.

A page holds the codes of P tokens (P a multiple of 8), node after node. A width is stored in planes of 8, 4, 2 and 1
bits, largest first, high bits first: 8 is one plane, 4 is one, 3 is a plane of 2 bits and one of 1 bit. A plane of p
bits has P p / 8 bytes; field f of its byte i (bits f p to f p + p - 1) belongs to token f (P p / 8) + i of the page.
So with 4 bits the low nibbles hold the first half of the page, the high nibbles the second. No plane needs padding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvaudit.policies.spherical import EDGE, RadiusFormat, Tree, plane_bits

Reals = NDArray[np.float64]
Cells = NDArray[np.uint8]

_EDGE = float(EDGE)


@dataclass(frozen=True, slots=True)
class Codes:
    """Coded keys of one K/V head: `angles` uint8 [d - 1, N] node-major, `radii` [N] in the radius format."""

    tree: Tree
    angles: Cells
    radii: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Pages:
    """Packed keys: `planes` uint8 [pages, bytes], `radii` [pages, P]; the last page may hold fewer than P tokens.

    What a page holds past `tokens` is zero and means nothing.
    """

    tree: Tree
    tokens: int
    page_tokens: int
    planes: Cells
    radii: NDArray[Any]


def tables(tree: Tree) -> list[tuple[Reals, Reals]]:
    """Return (cosines, sines) of each level, [2^b] each, at the middles of the cells; equal upper widths share one."""
    shared: dict[tuple[bool, int], tuple[Reals, Reals]] = {}
    for level, width in enumerate(tree.widths):
        leaf = level == 0
        if (leaf, width) not in shared:
            centres = (np.arange(2**width) + 0.5) * _cell_size(level, width) - (np.pi if leaf else 0.0)
            shared[leaf, width] = np.cos(centres), np.sin(centres)
    return [shared[level == 0, width] for level, width in enumerate(tree.widths)]


def encode(keys: NDArray[Any], tree: Tree, radius_format: RadiusFormat) -> Codes:
    """Return the codes of `keys` [N, d], after RoPE.

    Raises `ValueError` for another dimension, a coordinate that is not finite, and a radius that is not zero but below
    the least normal number of its format; `OverflowError` for a radius past its largest number.
    """
    if keys.ndim != 2 or keys.shape[1] != tree.dimension:
        raise ValueError(f"the keys have the shape {keys.shape}, the tree the dimension {tree.dimension}")
    exact = keys.astype(np.float64)
    if not np.isfinite(exact).all():
        raise ValueError("a coordinate of a key is not finite")
    # Squares of scaled rows neither overflow nor vanish.
    largest = np.abs(exact).max(axis=1, initial=0.0)
    exact /= np.where(largest > 0, largest, 1.0)[:, None]
    pairs = exact.T
    along, across = pairs[::2], pairs[1::2]
    cells = np.empty((tree.angles, len(keys)), np.uint8)
    # Adding 0.0 makes -0.0 positive: the angle of (-0.0, 0.0) would be pi.
    _write_cells(cells, tree, 0, np.arctan2(across + 0.0, along + 0.0))
    squares = along**2 + across**2
    for level in range(1, tree.levels):
        left, right = squares[::2], squares[1::2]
        _write_cells(cells, tree, level, np.arctan2(np.sqrt(right), np.sqrt(left)))
        squares = left + right
    return Codes(tree, cells, _stored_radii(np.sqrt(squares[0]), largest, radius_format))


def directions(codes: Codes) -> Reals:
    """Return the unit vectors [N, d] that the codes stand for: the dense keys that attention must not need."""
    lengths = np.ones((1, codes.angles.shape[1]))
    for level, (cosines, sines) in reversed(list(enumerate(tables(codes.tree)))):
        first = codes.tree.first_node(level)
        cells = codes.angles[first : first + codes.tree.nodes(level)]
        lengths = np.stack([lengths * cosines[cells], lengths * sines[cells]], axis=1).reshape(2 * len(lengths), -1)
    return lengths.T


def decode(codes: Codes) -> Reals:
    """Return the keys [N, d] that the codes stand for."""
    return directions(codes) * codes.radii.astype(np.float64)[:, None]


def logits(codes: Codes, queries: NDArray[Any]) -> Reals:
    """Return q.k_hat, unscaled, [G, N] for `queries` [G, d], directly from the codes."""
    return _logits(codes.tree, lambda node: codes.angles[node], codes.radii, queries)


def reconstructed_logits(codes: Codes, queries: NDArray[Any]) -> Reals:
    """Return the same logits by rebuilding every key first: what the direct way is tested against, and does without."""
    found: Reals = queries.astype(np.float64) @ decode(codes).T
    return found


def pack(codes: Codes, page_tokens: int) -> Pages:
    """Return the pages of the codes, `page_tokens` tokens each. Raises `ValueError` unless it is a multiple of 8."""
    if page_tokens <= 0 or page_tokens % 8:
        raise ValueError(f"a page of {page_tokens} tokens does not fill whole bytes")
    tokens = len(codes.radii)
    pages = -(-tokens // page_tokens)
    cells = np.zeros((len(codes.angles), pages * page_tokens), np.uint8)
    cells[:, :tokens] = codes.angles
    radii = np.zeros(pages * page_tokens, codes.radii.dtype)
    radii[:tokens] = codes.radii
    planes = np.zeros((pages, page_tokens * codes.tree.angle_bits // 8), np.uint8)
    for node, (begin, width) in enumerate(node_offsets(codes.tree, page_tokens)):
        above = width
        for bits in plane_bits(width):
            above -= bits
            size, fields = page_tokens * bits // 8, 8 // bits
            plane = (cells[node] >> above & (1 << bits) - 1).reshape(pages, fields, size)
            for field in range(fields):
                planes[:, begin : begin + size] |= plane[:, field] << field * bits
            begin += size
    return Pages(codes.tree, tokens, page_tokens, planes, radii.reshape(pages, page_tokens))


def node_offsets(tree: Tree, page_tokens: int) -> list[tuple[int, int]]:
    """Return (first byte inside a page's planes, width in bits) of each node, in node order."""
    offsets, begin = [], 0
    for level, width in enumerate(tree.widths):
        for _ in range(tree.nodes(level)):
            offsets.append((begin, width))
            begin += page_tokens * width // 8
    return offsets


def page_logits(pages: Pages, queries: NDArray[Any]) -> Reals:
    """Return q.k_hat, unscaled, [G, N] for `queries` [G, d], directly from packed pages, each byte read once."""
    offsets = node_offsets(pages.tree, pages.page_tokens)
    found = _logits(pages.tree, lambda node: _unpacked(pages, *offsets[node]), pages.radii.ravel(), queries)
    return found[:, : pages.tokens]


def unpack(pages: Pages) -> Codes:
    """Return the codes that the pages hold."""
    cells = [_unpacked(pages, *each)[: pages.tokens] for each in node_offsets(pages.tree, pages.page_tokens)]
    return Codes(pages.tree, np.stack(cells), pages.radii.ravel()[: pages.tokens])


def _unpacked(pages: Pages, begin: int, width: int) -> Cells:
    """Return the codes of one node for all tokens of all pages, page after page."""
    cells = np.zeros((len(pages.planes), pages.page_tokens), np.uint8)
    for bits in plane_bits(width):
        size = pages.page_tokens * bits // 8
        plane = pages.planes[:, begin : begin + size]
        cells <<= bits
        for field in range(8 // bits):
            cells[:, field * size : (field + 1) * size] |= plane >> field * bits & (1 << bits) - 1
        begin += size
    return cells.reshape(-1)


def _logits(tree: Tree, cells: Callable[[int], Cells], radii: NDArray[Any], queries: NDArray[Any]) -> Reals:
    """Evaluate the tree depth first. `found` holds the value under way, `pending[l]` a right child of level l."""
    if queries.ndim != 2 or queries.shape[1] != tree.dimension:
        raise ValueError(f"the queries have the shape {queries.shape}, the tree the dimension {tree.dimension}")
    dense = queries.astype(np.float64)
    by_level = tables(tree)
    found = np.empty((len(dense), len(radii)))
    pending = np.empty((tree.levels - 1, *found.shape))
    looked_up, scaled = np.empty(len(radii)), np.empty_like(found)

    def evaluate(level: int, node: int, into: Reals) -> None:
        cosines, sines = by_level[level]
        if level == 0:
            here = cells(node)
            np.take(cosines, here, out=looked_up, mode="clip")
            np.multiply(dense[:, 2 * node, None], looked_up, out=into)
            np.take(sines, here, out=looked_up, mode="clip")
            np.multiply(dense[:, 2 * node + 1, None], looked_up, out=scaled)
            np.add(into, scaled, out=into)
            return
        right = pending[level - 1]
        evaluate(level - 1, 2 * node, into)
        evaluate(level - 1, 2 * node + 1, right)
        here = cells(tree.first_node(level) + node)
        np.take(cosines, here, out=looked_up, mode="clip")
        np.multiply(into, looked_up, out=into)
        np.take(sines, here, out=looked_up, mode="clip")
        np.multiply(right, looked_up, out=right)
        np.add(into, right, out=into)

    evaluate(tree.levels - 1, 0, found)
    np.multiply(found, radii, out=found)
    return found


def _cell_size(level: int, width: int) -> float:
    return float((2 * np.pi if level == 0 else np.pi / 2) / 2**width)


def _write_cells(cells: Cells, tree: Tree, level: int, angles: Reals) -> None:
    width, first = tree.widths[level], tree.first_node(level)
    angles += (np.pi if level == 0 else 0.0) + _EDGE
    angles /= _cell_size(level, width)
    found = np.floor(angles, out=angles).astype(np.int64)
    whole = 2**width
    cells[first : first + len(angles)] = found % whole if level == 0 else np.minimum(found, whole - 1)


def _stored_radii(norms: Reals, scales: Reals, radius_format: RadiusFormat) -> NDArray[Any]:
    with np.errstate(over="ignore", under="ignore"):
        radii = norms * scales
        stored: NDArray[Any] = radii.astype(np.dtype(radius_format.name))
    if np.isinf(stored).any():
        raise OverflowError(f"a radius overflows {radius_format.name}")
    if ((radii > 0) & (stored < np.finfo(stored.dtype).smallest_normal)).any():
        raise ValueError(f"a radius underflows {radius_format.name}")
    return stored
