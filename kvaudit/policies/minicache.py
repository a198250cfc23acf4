"""MiniCache: two layers share one direction a position and keep their own magnitudes (specification 0x0CF to 0x0CH).

    u0 = x_low / |x_low|    u1 = x_high / |x_high|    Omega = angle between them
    e  = sin((1 - rho) Omega) / sin(Omega) u0 + sin(rho Omega) / sin(Omega) u1
    restored x_low = e |x_low|    restored x_high = e |x_high|

Keys and values are merged on their own but share one set of exception positions, whose rows stay layer-local. Rows in
and out are exact; norms, angles and sines are taken at 50 digits. A row without a direction, the zero vector, raises
`ValueError`.

Source: arXiv 2405.14366, equations 2 to 4. The paper's prose retains pairs that are *far* apart, its printed equation 4
retains those *below* the threshold; `exceptions` follows the prose, `exceptions_by_printed_inequality` the equation.
The official repository AkideLiu/MiniCache at f1baccacba6bc83dc499f5db9257576397bb4ed8 is a project page without code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kvaudit.policies import attention
from kvaudit.policies.transcendental import Number, direction_angle, pi, sine, square_root, to_digits, to_places

Row = Sequence[Number]
LayerPair = tuple[int, int]

SLERP = "slerp"
NORMALISED_LINEAR = "normalised_linear"
NO_DIRECTION = "no_direction"


@dataclass(frozen=True, slots=True)
class Interpolation:
    """The parameters of a merge.

    `rho` in [0, 1] moves the shared direction from the lower to the higher layer. At or below `near_zero_angle` radians
    the interpolation is linear. Within `near_pi_angle` radians of pi (at least 1e-9) there is no shared direction.
    """

    rho: Number
    near_zero_angle: Number
    near_pi_angle: Number


@dataclass(frozen=True, slots=True)
class MergedRow:
    """What is stored for the pair of rows of one position: K or V of two adjacent layers.

    `direction` is None, and `rule` NO_DIRECTION, where the rows are too nearly opposite to have one. `distance` is
    Omega / pi, to 40 places.
    """

    direction: tuple[Fraction, ...] | None
    rule: str
    low_magnitude: Fraction
    high_magnitude: Fraction
    angle: Fraction
    distance: Fraction


def layer_pairs(layers: int, start_layer: int) -> tuple[LayerPair, ...]:
    """Return the adjacent pairs (S, S + 1), (S + 2, S + 3), ...; an odd layer at the top stays on its own."""
    return tuple((layer, layer + 1) for layer in range(start_layer, layers - 1, 2))


def magnitude(row: Row) -> Fraction:
    """Return the L2 norm of a row; zero if and only if every channel is zero."""
    return square_root(attention.squared_norm([Fraction(channel) for channel in row]))


def unit(row: Row) -> tuple[Fraction, ...]:
    """Return row / |row|."""
    norm = magnitude(row)
    if norm == 0:
        raise ValueError("a zero vector has no direction")
    return tuple(channel / norm for channel in row)


def angle(one: Row, other: Row) -> Fraction:
    """Return the angle between two rows in [0, pi]: exactly 0 where they are parallel, exactly `pi()` if opposite.

    The rejection |a|^2 |b|^2 - (a b)^2 is exact before its root, so the cosine needs no clipping.
    """
    product = _dot(one, other)
    squares = _dot(one, one) * _dot(other, other)
    if squares == 0:
        raise ValueError("a zero vector has no direction")
    return direction_angle(square_root(squares - product**2), product)


def merge_row(low: Row, high: Row, how: Interpolation) -> MergedRow:
    """Return the shared direction, both magnitudes and the angle of one pair of rows."""
    between = angle(low, high)
    direction, rule = _direction(unit(low), unit(high), between, how)
    return MergedRow(direction, rule, magnitude(low), magnitude(high), between, to_places(between / pi()))


def merge(low: Sequence[Row], high: Sequence[Row], how: Interpolation) -> tuple[MergedRow, ...]:
    """Return the merged rows of K or of V, one for each position that the two layers share."""
    return tuple(merge_row(one, other, how) for one, other in zip(low, high, strict=True))


def exceptions(keys: Sequence[MergedRow], values: Sequence[MergedRow], distance: Number) -> tuple[int, ...]:
    """Return the row indices retained layer by layer: K or V farther apart than `distance`, or without a direction.

    One set serves K and V, or the ledger's 4 R rows would not be what is stored.
    """
    return tuple(
        index
        for index, rows in enumerate(zip(keys, values, strict=True))
        if any(row.direction is None or row.distance > distance for row in rows)
    )


def exceptions_by_printed_inequality(
    keys: Sequence[MergedRow], values: Sequence[MergedRow], distance: Number
) -> tuple[int, ...]:
    """Return the indices that equation 4 retains as it is printed: K or V *closer* than `distance`."""
    return tuple(
        index
        for index, rows in enumerate(zip(keys, values, strict=True))
        if any(row.distance < distance for row in rows)
    )


def restore(row: MergedRow) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]] | None:
    """Return the rows of the lower and the higher layer: the shared direction with each layer's own magnitude.

    Both get the norm that they had, and neither its own direction. None if there is no shared direction. To 40 digits.
    """
    if row.direction is None:
        return None
    return _scaled(row.direction, row.low_magnitude), _scaled(row.direction, row.high_magnitude)


def error_norm(restored: Row, original: Row) -> Fraction:
    """Return the L2 norm of restored - original; zero if and only if they are equal."""
    return magnitude([one - other for one, other in zip(restored, original, strict=True)])


@dataclass(frozen=True, slots=True)
class PairLedger:
    """The bytes of K and V of one layer pair in one K/V head, term by term (0x0CH)."""

    full: int
    directions: int
    magnitudes: int
    angles: int
    exception_rows: int
    exception_indices: int

    def merged(self) -> int:
        """Return 2 T d_h b + 4 T b_mag + 2 T b_angle + 4 R d_h b + R b_index."""
        return self.directions + self.magnitudes + self.angles + self.exception_rows + self.exception_indices


@dataclass(frozen=True, slots=True)
class Widths:
    """The head dimension and the bytes of one scalar, magnitude, angle and exception index."""

    head_dimension: int
    scalar: int
    magnitude: int
    angle: int
    index: int


def pair_ledger(positions: int, exception_positions: int, widths: Widths) -> PairLedger:
    """Return the ledger of T positions of which R are exceptions. Every position keeps a slot for its direction."""
    row_bytes = widths.head_dimension * widths.scalar
    return PairLedger(
        full=4 * positions * row_bytes,
        directions=2 * positions * row_bytes,
        magnitudes=4 * positions * widths.magnitude,
        angles=2 * positions * widths.angle,
        exception_rows=4 * exception_positions * row_bytes,
        exception_indices=exception_positions * widths.index,
    )


def most_exceptions_that_save(positions: int, widths: Widths) -> int | None:
    """Return the largest R with which the merged pair is smaller than the full one, None if no R is."""
    without, one = pair_ledger(positions, 0, widths), pair_ledger(positions, 1, widths)
    if without.merged() >= without.full:
        return None
    return min(positions, (without.full - without.merged() - 1) // (one.merged() - without.merged()))


def _direction(low: Row, high: Row, between: Fraction, how: Interpolation) -> tuple[tuple[Fraction, ...] | None, str]:
    if between >= pi() - how.near_pi_angle:
        return None, NO_DIRECTION
    if between == 0:
        return tuple(Fraction(channel) for channel in low), NORMALISED_LINEAR
    if between <= how.near_zero_angle:
        mixed = unit(_combined(1 - how.rho, low, how.rho, high))
        return tuple(to_places(channel) for channel in mixed), NORMALISED_LINEAR
    whole = sine(between)
    mixed = _combined(sine((1 - how.rho) * between) / whole, low, sine(how.rho * between) / whole, high)
    return tuple(to_places(channel) for channel in mixed), SLERP


def _combined(a: Number, low: Row, b: Number, high: Row) -> tuple[Fraction, ...]:
    return tuple(Fraction(a * one + b * other) for one, other in zip(low, high, strict=True))


def _scaled(direction: Sequence[Fraction], norm: Fraction) -> tuple[Fraction, ...]:
    length = magnitude(direction)
    return tuple(to_digits(channel / length * norm) for channel in direction)


def _dot(one: Row, other: Row) -> Fraction:
    return sum((Fraction(left * right) for left, right in zip(one, other, strict=True)), Fraction(0))
