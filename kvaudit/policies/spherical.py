"""Spherical key codes: a key as a radius and angles on a binary tree, its logit without the key, and what is lost.

From Spherical KV (arXiv 2605.18856) come the idea and its name: a key is stored as a scalar radius and compact angle
codes, and the logit is formed from the codes without a dense key. What was read of the paper gives neither the map from
codes to a unit vector nor an error bound. Both are therefore **this project's contract**, stated and proved here and in
docs/contract/13_spherical.md. The recursive polar map itself is prior art: PolarQuant (arXiv 2502.02617).

The contract:
- d is a power of two, at least 2. The tree has log2(d) levels. Level 0, the leaves, has d/2 angles in [-pi, pi), one a
  pair (k[2j], k[2j+1]); level l above it has d / 2^(l+1) angles in [0, pi/2], each atan2(norm of right child, norm of
  left child). Codes are of keys after RoPE: a rotation by position cannot be applied to an upper angle.
- Level l has a width of 1 to 8 bits, cells of equal size, and is decoded at the middle of the cell.
- An angle within `EDGE` below a cell edge takes the upper cell, in exact and in float code alike, because keys with
  equal or zero coordinates lie exactly on edges. So pi wraps to -pi, and pi/2 is clamped into the last cell.
- A part of the key that is all zero has no angle and is coded as angle 0. A zero key has radius 0 and logit 0.
- A radius is rounded to nearest, ties to even. It is refused where it overflows its format or, not being zero, falls
  below the least normal number: below it the relative error has no bound. Denormal coordinates are ordinary numbers.

The query stays dense. The paper codes the query too; `coded_logit` is that variant, with a bound of its own.

Everything is exact up to the first root or angle, which is taken at 50 digits and kept at 40 significant ones.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies.transcendental import (
    Number,
    cosine,
    direction_angle,
    logistic,
    pi,
    sine,
    square_root,
    to_digits,
)

Vector = Sequence[Number]

EDGE = Fraction(1, 10**9)
LEAST_WIDTH, GREATEST_WIDTH = 1, 8
# 1 - tanh(60) is below 1e-51.
_TANH_IS_ONE = 120
POST_ROPE, PRE_ROPE = "post_rope", "pre_rope"
ROPE_STAGES = (POST_ROPE, PRE_ROPE)


@dataclass(frozen=True, slots=True)
class RadiusFormat:
    """A binary floating-point format: significand bits with the hidden one, exponents of its normal numbers."""

    name: str
    bits: int
    significand_bits: int
    least_exponent: int
    greatest_exponent: int


FLOAT16 = RadiusFormat("float16", 16, 11, -14, 15)
FLOAT32 = RadiusFormat("float32", 32, 24, -126, 127)
RADIUS_FORMATS = {each.name: each for each in (FLOAT16, FLOAT32)}


@dataclass(frozen=True, slots=True)
class Tree:
    """The shape of a code: the dimension d and one width in bits a level, the leaves first.

    Raises `ValueError` unless d is a power of two, at least 2, and there are log2(d) widths of 1 to 8 bits.
    """

    dimension: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not is_dimension(self.dimension):
            raise ValueError(f"the dimension {self.dimension} is not a power of two from 2 on")
        if len(self.widths) != self.levels:
            raise ValueError(f"dimension {self.dimension} has {self.levels} levels, but {len(self.widths)} widths")
        if not all(LEAST_WIDTH <= width <= GREATEST_WIDTH for width in self.widths):
            raise ValueError(f"a width of {self.widths} is outside {LEAST_WIDTH} to {GREATEST_WIDTH} bits")

    @property
    def levels(self) -> int:
        return self.dimension.bit_length() - 1

    @property
    def angles(self) -> int:
        return self.dimension - 1

    @property
    def angle_bits(self) -> int:
        return sum(self.nodes(level) * width for level, width in enumerate(self.widths))

    def nodes(self, level: int) -> int:
        """Return the number of angles of a level: d/2 at the leaves, one at the root."""
        return self.dimension >> (level + 1)

    def first_node(self, level: int) -> int:
        """Return the index of a level's first angle when the levels follow each other, the leaves first."""
        return self.dimension - (self.dimension >> level)


@dataclass(frozen=True, slots=True)
class Code:
    """A coded key: `angles[l][j]` is the cell of node j of level l; the radius is a number of its format."""

    angles: tuple[tuple[int, ...], ...]
    radius: Fraction


def is_dimension(dimension: int) -> bool:
    """Return whether a tree exists for a dimension."""
    return dimension >= 2 and dimension & (dimension - 1) == 0


def uniform(dimension: int, leaf_width: int, upper_width: int) -> Tree:
    """Return the tree with one width at the leaves and another at all levels above."""
    return Tree(dimension, (leaf_width, *[upper_width] * (dimension.bit_length() - 2)))


def norm(vector: Vector) -> Fraction:
    """Return the Euclidean norm, at least 0."""
    return square_root(sum((Fraction(each) ** 2 for each in vector), Fraction(0)))


def dot(left: Vector, right: Vector) -> Fraction:
    """Return the inner product."""
    return sum((Fraction(a) * b for a, b in zip(left, right, strict=True)), Fraction(0))


def cell_size(level: int, width: int) -> Fraction:
    """Return the size of a cell in radians: 2 pi / 2^b at the leaves, (pi/2) / 2^b above."""
    return (2 * _pi() if level == 0 else _pi() / 2) / (1 << width)


def turn(level: int, width: int, code: int) -> tuple[Fraction, Fraction]:
    """Return the cosine and the sine at which a code is decoded."""
    return _turn(level > 0, width, code)


def half_step(level: int, width: int) -> Fraction:
    """Return eps_l in radians, half a cell: pi / 2^b at the leaves, (pi/4) / 2^b above."""
    return cell_size(level, width) / 2


def cell(level: int, width: int, angle: Number) -> int:
    """Return the code of an angle: [-pi, pi] at the leaves, [0, pi/2] above. Edges are judged with `EDGE`."""
    start = -_pi() if level == 0 else Fraction(0)
    index = math.floor((angle - start + EDGE) / cell_size(level, width))
    return index % (1 << width) if level == 0 else min(index, (1 << width) - 1)


def centre(level: int, width: int, code: int) -> Fraction:
    """Return the angle in radians at which a code is decoded, the middle of its cell."""
    start = -_pi() if level == 0 else Fraction(0)
    return start + (code + Fraction(1, 2)) * cell_size(level, width)


def stored_radius(radius: Number, radius_format: RadiusFormat) -> Fraction:
    """Return a radius >= 0 as its format holds it: to nearest, ties to even; 0 stays 0.

    Raises `OverflowError` past the format's largest number, `ValueError` for a radius that is not zero but below its
    least normal one.
    """
    exact = Fraction(radius)
    if exact == 0:
        return exact
    # 2^exponent <= exact < 2^(exponent + 1)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= exact < Fraction(2) ** exponent
    unit = Fraction(2) ** (exponent - radius_format.significand_bits + 1)
    rounded = round(exact / unit) * unit
    if rounded >= Fraction(2) ** (radius_format.greatest_exponent + 1):
        raise OverflowError(f"a radius overflows {radius_format.name}")
    if rounded < Fraction(2) ** radius_format.least_exponent:
        raise ValueError(f"a radius underflows {radius_format.name}")
    return rounded


def angles(key: Vector) -> list[list[Fraction]]:
    """Return the angles of a key in radians, level by level, the leaves first: leaves in (-pi, pi], upper in [0, pi/2].

    pi stands for itself here; `cell` wraps it.
    """
    pairs = list(zip(key[::2], key[1::2], strict=True))
    tree = [[_leaf_angle(across, along) for along, across in pairs]]
    squares = [Fraction(along) ** 2 + Fraction(across) ** 2 for along, across in pairs]
    while len(squares) > 1:
        children = list(zip(squares[::2], squares[1::2], strict=True))
        tree.append([_upper_angle(right, left) for left, right in children])
        squares = [left + right for left, right in children]
    return tree


def encode(key: Vector, tree: Tree, radius_format: RadiusFormat) -> Code:
    """Return the code of a key of d finite numbers. Raises as `stored_radius`, and `ValueError` for another length."""
    if len(key) != tree.dimension:
        raise ValueError(f"a key has {len(key)} coordinates, its tree {tree.dimension}")
    cells = tuple(
        tuple(cell(level, width, angle) for angle in of_level)
        for level, (width, of_level) in enumerate(zip(tree.widths, angles(key), strict=True))
    )
    return Code(cells, stored_radius(norm(key), radius_format))


def direction(code: Code, tree: Tree) -> list[Fraction]:
    """Return the unit vector of d coordinates that a code stands for, built from the root down.

    A zero key's code stands for a direction too; its radius makes it zero.
    """
    lengths = [Fraction(1)]
    for level in reversed(range(tree.levels)):
        turns = _turns(code, tree, level)
        lengths = [
            to_digits(length * turn) for length, turn_pair in zip(lengths, turns, strict=True) for turn in turn_pair
        ]
    return lengths


def decode(code: Code, tree: Tree) -> list[Fraction]:
    """Return the key of d coordinates that a code stands for."""
    return [code.radius * each for each in direction(code, tree)]


def direct_logit(code: Code, tree: Tree, query: Vector) -> Fraction:
    """Return q.k_hat, unscaled, on the tree: q[2j] cos + q[2j+1] sin at a leaf, cos left + sin right above it."""
    turns = _turns(code, tree, 0)
    values = [
        to_digits(query[2 * node] * along + query[2 * node + 1] * across) for node, (along, across) in enumerate(turns)
    ]
    for level in range(1, tree.levels):
        turns = _turns(code, tree, level)
        values = [
            to_digits(along * left + across * right)
            for (along, across), left, right in zip(turns, values[::2], values[1::2], strict=True)
        ]
    return code.radius * values[0]


def coded_logit(key: Code, query: Code, key_tree: Tree, query_tree: Tree) -> Fraction:
    """Return q_hat.k_hat from two codes, the paper's variant: at a leaf the cosine of the difference of two angles.

    The trees have one dimension; their widths may differ.
    """
    values: list[Fraction] = []
    for level in range(key_tree.levels):
        both = zip(_turns(key, key_tree, level), _turns(query, query_tree, level), strict=True)
        products = [(k_along * q_along, k_across * q_across) for (k_along, k_across), (q_along, q_across) in both]
        if level == 0:
            values = [to_digits(along + across) for along, across in products]
        else:
            values = [
                to_digits(along * left + across * right)
                for (along, across), left, right in zip(products, values[::2], values[1::2], strict=True)
            ]
    return key.radius * query.radius * values[0]


def cosine_product(tree: Tree, slack: Number = 0) -> Fraction:
    """Return prod_l cos(eps_l + slack), the least that the inner product of a direction and its decoded one can be.

    The proof takes |decoded angle - angle| <= eps_l. The edge rule exceeds that by at most `EDGE`, so what holds for
    every key is the product with that slack; the two differ by less than `EDGE` a level.
    """
    product = Fraction(1)
    for level, width in enumerate(tree.widths):
        product *= cosine(half_step(level, width) + slack)
    return to_digits(product)


def chord(product: Number) -> Fraction:
    """Return sqrt(2 - 2 P), the distance of two unit vectors whose inner product is P."""
    return square_root(max(Fraction(0), 2 - 2 * Fraction(product)))


def key_error_bound(radius: Number, stored: Number, chord_bound: Number) -> Fraction:
    """Return the bound on |k_hat - k|: r sqrt(2 - 2P) + |r_hat - r|."""
    return Fraction(radius) * chord_bound + abs(Fraction(stored) - radius)


def logit_error_bound(query_norm: Number, key_error: Number) -> Fraction:
    """Return the bound on |q.k_hat - q.k|, unscaled: |q| times the bound on the key's error."""
    return Fraction(query_norm) * key_error


def coded_logit_error_bound(query_norm: Number, query_error: Number, key_stored: Number, key_error: Number) -> Fraction:
    """Return the bound on |q_hat.k_hat - q.k|: |q_hat - q| r_hat + |q| |k_hat - k|, from bounds on the two errors."""
    return Fraction(query_error) * key_stored + Fraction(query_norm) * key_error


def half_range(moves: Sequence[Number]) -> Fraction:
    """Return eta of known logit moves: half of largest minus smallest. A common move changes no weight."""
    return (Fraction(max(moves)) - min(moves)) / 2


def half_range_bound(bounds: Sequence[Number]) -> Fraction:
    """Return the bound on eta where each move is known only as |move_i| <= eta_i: the mean of the two largest eta_i.

    One key alone has no other to move against: eta is 0.
    """
    ranked = sorted(bounds, reverse=True)
    return Fraction(ranked[0] + ranked[1]) / 2 if len(ranked) > 1 else Fraction(0)


def weight_factor_logarithm(eta: Number) -> Fraction:
    """Return 2 eta: every softmax weight moves by a factor within [exp(-2 eta), exp(2 eta)]."""
    return 2 * Fraction(eta)


def total_variation_bound(eta: Number) -> Fraction:
    """Return tanh(eta / 2), the most that a distribution over keys can move, in [0, 1]; 1 where 50 digits say so."""
    return Fraction(1) if eta > _TANH_IS_ONE else 2 * logistic(eta) - 1


def diameter(values: Sequence[Vector]) -> Fraction:
    """Return the largest distance of two value rows. Quadratic in the number of rows."""
    squares = [
        sum(((Fraction(a) - b) ** 2 for a, b in zip(one, two, strict=True)), Fraction(0))
        for index, one in enumerate(values)
        for two in values[:index]
    ]
    return square_root(max(squares, default=Fraction(0)))


def key_row_bits(tree: Tree, radius_format: RadiusFormat) -> int:
    """Return the bits of one coded key: all angles and the radius."""
    return tree.angle_bits + radius_format.bits


def plane_bits(width: int) -> tuple[int, ...]:
    """Return the powers of two that a width is stored in, largest first: 8 is (8,), 7 is (4, 2, 1)."""
    return tuple(bits for bits in (8, 4, 2, 1) if width & bits)


def page_bytes(row_bits: int, tokens: int, header_bytes: int, alignment_bytes: int) -> int:
    """Return the bytes of one page, full or not: a header, `tokens` rows, and padding up to the alignment.

    `tokens` is a multiple of 8, so that every plane of every node fills whole bytes; `ValueError` if it is not.
    """
    if not is_page(tokens):
        raise ValueError(f"a page of {tokens} tokens does not fill whole bytes")
    used = header_bytes + tokens * row_bits // 8
    return used + -used % alignment_bytes


def is_page(tokens: int) -> bool:
    """Return whether a page may have this many tokens."""
    return tokens > 0 and tokens % 8 == 0


def page_planes(codes: Sequence[Code], tree: Tree, tokens: int) -> bytes:
    """Return the angle planes of one page, node after node, the leaves first; slots without a code are zero.

    A width is stored in the planes of `plane_bits`, high bits first. In a plane of p bits, field f of byte i, which is
    its bits f p to f p + p - 1, belongs to token f (P p / 8) + i of the page.
    """
    page = bytearray()
    for level, width in enumerate(tree.widths):
        for node in range(tree.nodes(level)):
            above = width
            for bits in plane_bits(width):
                above -= bits
                size = tokens * bits // 8
                plane = bytearray(size)
                for token, code in enumerate(codes):
                    part = code.angles[level][node] >> above & (1 << bits) - 1
                    plane[token % size] |= part << token // size * bits
                page += plane
    return bytes(page)


def table_entries(tree: Tree) -> int:
    """Return the entries of the cosine and sine tables: two tables for the leaves, two for each upper width."""
    return 2 * ((1 << tree.widths[0]) + sum(1 << width for width in set(tree.widths[1:])))


def _leaf_angle(across: Number, along: Number) -> Fraction:
    if across == 0 and along == 0:
        return Fraction(0)
    return -direction_angle(-across, along) if across < 0 else direction_angle(across, along)


def _upper_angle(right_square: Fraction, left_square: Fraction) -> Fraction:
    if right_square == 0:
        return Fraction(0)
    return direction_angle(square_root(right_square), square_root(left_square))


def _turns(code: Code, tree: Tree, level: int) -> list[tuple[Fraction, Fraction]]:
    """Return the decoded cosine and sine of each node of a level."""
    return [_turn(level > 0, tree.widths[level], each) for each in code.angles[level]]


@functools.cache
def _turn(upper: bool, width: int, code: int) -> tuple[Fraction, Fraction]:
    """Return the cosine and sine of a cell's middle: the tables of a kernel, at most 1,020 entries of them."""
    angle = centre(int(upper), width, code)
    return cosine(angle), sine(angle)


@functools.cache
def _pi() -> Fraction:
    return pi()
