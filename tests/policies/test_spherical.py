"""Spherical codes: small keys by hand, the bounds against brute force, and laws over random and adversarial keys."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import spherical
from kvaudit.policies.transcendental import pi

CLOSE = Fraction(1, 10**25)
FLOAT16, FLOAT32 = spherical.FLOAT16, spherical.FLOAT32

coordinates = st.integers(-4000, 4000).map(lambda n: Fraction(n, 100))


@st.composite
def trees(draw, greatest_levels=4):
    levels = draw(st.integers(1, greatest_levels))
    return spherical.Tree(2**levels, tuple(draw(st.integers(1, 8)) for _ in range(levels)))


@st.composite
def coded_keys(draw):
    """A tree, and a key of one kind: random, one pair only, alternating signs, equal coordinates, at cell edges."""
    tree = draw(trees())
    d = tree.dimension
    kind = draw(st.sampled_from(["random", "one pair", "alternating", "equal", "edges"]))
    if kind == "random":
        key = draw(st.lists(coordinates, min_size=d, max_size=d))
    elif kind == "one pair":
        key = [Fraction(0)] * d
        where = 2 * draw(st.integers(0, d // 2 - 1))
        key[where : where + 2] = draw(st.lists(coordinates, min_size=2, max_size=2))
    elif kind == "alternating":
        key = [Fraction((-1) ** index * 3) for index in range(d)]
    elif kind == "equal":
        key = [draw(coordinates)] * d
    else:
        corners = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, 0)]
        key = [Fraction(c) for _ in range(d // 2) for c in draw(st.sampled_from(corners))]
    return tree, key


def test_four_coordinates_by_hand():
    """(3, 3, 0, -4): leaves pi/4 and -pi/2 of norms sqrt(18) and 4, root atan2(4, sqrt(18)) = 0.7560, radius sqrt(34).

    Three bits at the leaves are cells of pi/4 from -pi: pi/4 is edge 5, so cell 5; -pi/2 is edge 2, so cell 2. Two bits
    at the root are cells of pi/8 = 0.3927: cell 1. sqrt(34) = 5.83095 in float16 has steps of 1/256: 1493/256.
    """
    tree = spherical.Tree(4, (3, 2))
    code = spherical.encode((3, 3, 0, -4), tree, FLOAT16)
    assert code == spherical.Code(((5, 2), (1,)), Fraction(1493, 256))
    root, first, second = 3 * math.pi / 16, 3 * math.pi / 8, -3 * math.pi / 8
    expected = [
        math.cos(root) * math.cos(first),
        math.cos(root) * math.sin(first),
        math.sin(root) * math.cos(second),
        math.sin(root) * math.sin(second),
    ]
    assert [float(each) for each in spherical.direction(code, tree)] == pytest.approx(expected, rel=1e-14)
    query = (1, -2, Fraction(1, 2), 7)
    logit = 1493 / 256 * sum(float(q) * u for q, u in zip(query, expected, strict=True))
    assert float(spherical.direct_logit(code, tree, query)) == pytest.approx(logit, rel=1e-14)


def test_edges_of_the_first_and_the_last_cell():
    whole = pi()
    assert [spherical.cell(0, 4, angle) for angle in (-whole, 0, whole, whole / 2)] == [0, 8, 0, 12]
    assert [spherical.cell(1, 4, angle) for angle in (0, whole / 4, whole / 2)] == [0, 8, 15]
    near, nearer = Fraction(2, 10**9), Fraction(1, 2 * 10**9)
    assert spherical.cell(0, 4, whole / 2 - near) == 11
    assert spherical.cell(0, 4, whole / 2 - nearer) == 12
    assert spherical.cell(0, 4, whole - near) == 15
    assert spherical.cell(0, 4, whole - nearer) == 0


def test_what_is_zero_has_angle_zero():
    """A zero pair is cell 2^(b-1) of the leaves and cell 0 above; a zero left child turns the node above to pi/2."""
    tree = spherical.uniform(8, 4, 3)
    assert spherical.encode([0] * 8, tree, FLOAT16) == spherical.Code(((8, 8, 8, 8), (0, 0), (0,)), Fraction(0))
    code = spherical.encode([0, 0, 0, 0, 0, 0, 0, 5], tree, FLOAT16)
    assert code.angles == ((8, 8, 8, 12), (0, 7), (7,))
    assert spherical.direct_logit(spherical.encode([0] * 8, tree, FLOAT16), tree, [1] * 8) == 0


@pytest.mark.parametrize(
    ("radius", "stored"),
    [(1, 1), ("2049", 2048), ("2051", 2052), ("65519", 65504), ("0.1", Fraction(1638, 16384)), (0, 0)],
)
def test_radius_in_float16(radius, stored):
    assert spherical.stored_radius(Fraction(radius), FLOAT16) == stored


def test_radius_outside_its_format():
    with pytest.raises(OverflowError):
        spherical.stored_radius(65520, FLOAT16)
    with pytest.raises(ValueError, match="underflows"):
        spherical.stored_radius(Fraction(1, 2**14 + 16), FLOAT16)
    # Just below the least normal number, but rounded to it.
    assert spherical.stored_radius(Fraction(2**14 - 1, 2**28), FLOAT16) == Fraction(1, 2**14)
    assert spherical.stored_radius(Fraction(1, 2**20), FLOAT32) == Fraction(1, 2**20)


@pytest.mark.parametrize(("dimension", "widths"), [(1, ()), (6, (4, 4)), (8, (4, 4)), (4, (0, 4)), (4, (4, 9))])
def test_trees_that_are_refused(dimension, widths):
    with pytest.raises(ValueError, match=r"dimension|width"):
        spherical.Tree(dimension, widths)


def test_bytes_of_the_common_shape():
    """64 leaves and 63 upper angles of 4 bits are 508 bits; with a 16-bit radius 524 bits are 65.5 bytes."""
    tree = spherical.uniform(128, 4, 4)
    bits = spherical.key_row_bits(tree, FLOAT16)
    assert bits == 524
    assert Fraction(bits, 8) == Fraction("65.5")
    assert round(Fraction(256 * 8, bits), 3) == Fraction("3.908")
    assert round(Fraction(512 * 8, bits + 256 * 8), 2) == Fraction("1.59")
    # 64 tokens: 64 x 65.5 = 4192 bytes, a header of 32, up to the next multiple of 128: 4224 + 0 padding.
    assert spherical.page_bytes(bits, 64, 32, 128) == 4224
    assert spherical.page_bytes(bits, 64, 33, 128) == 4352
    assert spherical.table_entries(tree) == 2 * 16 + 2 * 16
    assert spherical.table_entries(spherical.Tree(8, (5, 4, 3))) == 2 * 32 + 2 * 16 + 2 * 8
    with pytest.raises(ValueError, match="whole bytes"):
        spherical.page_bytes(bits, 12, 0, 1)


def test_planes_add_up_to_the_width():
    assert [spherical.plane_bits(width) for width in range(1, 9)] == [
        (1,),
        (2,),
        (2, 1),
        (4,),
        (4, 1),
        (4, 2),
        (4, 2, 1),
        (8,),
    ]


@given(coded_keys())
def test_the_direct_logit_is_that_of_the_decoded_key(case):
    tree, key = case
    code = spherical.encode(key, tree, FLOAT32)
    query = [Fraction(index * index % 7 - 3, 2) for index in range(tree.dimension)]
    gap = spherical.direct_logit(code, tree, query) - spherical.dot(query, spherical.decode(code, tree))
    assert abs(gap) <= CLOSE * (1 + code.radius)


@given(coded_keys())
def test_a_decoded_key_has_the_stored_radius_and_the_same_code(case):
    tree, key = case
    code = spherical.encode(key, tree, FLOAT32)
    decoded = spherical.decode(code, tree)
    assert abs(spherical.norm(decoded) - code.radius) <= CLOSE * (1 + code.radius)
    assert spherical.encode(decoded, tree, FLOAT32) == code


@given(coded_keys(), st.data())
def test_direction_and_logit_stay_within_their_bounds(case, data):
    tree, key = case
    code = spherical.encode(key, tree, FLOAT16)
    query = data.draw(st.lists(coordinates, min_size=tree.dimension, max_size=tree.dimension))
    radius, product = spherical.norm(key), spherical.cosine_product(tree, spherical.EDGE)
    if radius:
        unit = [each / radius for each in key]
        assert spherical.dot(unit, spherical.direction(code, tree)) >= product - CLOSE
    error = spherical.key_error_bound(radius, code.radius, spherical.chord(product))
    moved = spherical.direct_logit(code, tree, query) - spherical.dot(query, key)
    assert abs(moved) <= spherical.logit_error_bound(spherical.norm(query), error) + CLOSE


@given(coded_keys(), st.data())
def test_a_coded_query_stays_within_its_own_bound(case, data):
    tree, key = case
    query = data.draw(st.lists(coordinates, min_size=tree.dimension, max_size=tree.dimension))
    query_tree = spherical.Tree(tree.dimension, tuple(data.draw(st.integers(1, 8)) for _ in tree.widths))
    key_code, query_code = spherical.encode(key, tree, FLOAT16), spherical.encode(query, query_tree, FLOAT16)
    found = spherical.coded_logit(key_code, query_code, tree, query_tree)
    decoded = spherical.dot(spherical.decode(query_code, query_tree), spherical.decode(key_code, tree))
    assert abs(found - decoded) <= CLOSE * (1 + key_code.radius * query_code.radius)

    def error(vector, code, shape):
        chord = spherical.chord(spherical.cosine_product(shape, spherical.EDGE))
        return spherical.key_error_bound(spherical.norm(vector), code.radius, chord)

    bound = spherical.coded_logit_error_bound(
        spherical.norm(query), error(query, query_code, query_tree), key_code.radius, error(key, key_code, tree)
    )
    assert abs(found - spherical.dot(query, key)) <= bound + CLOSE


def test_the_cosine_product_is_attained_in_two_dimensions():
    """One leaf of 2 bits has cells of pi/2 and eps = pi/4: a key on an edge is decoded pi/4 away."""
    tree = spherical.Tree(2, (2,))
    direction = spherical.direction(spherical.encode((1, 0), tree, FLOAT16), tree)
    assert float(direction[0]) == pytest.approx(math.cos(math.pi / 4))
    assert float(spherical.cosine_product(tree)) == pytest.approx(math.cos(math.pi / 4))


def test_the_bounds_by_hand():
    """Radius 10 stored as 10.5 with a chord of 1/5: 2 + 0.5; times |q| = 4; a coded query off by 3 adds 3 x 10.5."""
    error = spherical.key_error_bound(10, Fraction(21, 2), Fraction(1, 5))
    assert error == Fraction(5, 2)
    assert spherical.logit_error_bound(4, error) == 10
    assert spherical.coded_logit_error_bound(4, 3, Fraction(21, 2), error) == Fraction(63, 2) + 10
    assert spherical.chord(Fraction(1, 2)) == 1


def softmax(logits):
    """In floating point, as a reference of its own."""
    top = max(logits)
    weights = [math.exp(each - top) for each in logits]
    return [each / sum(weights) for each in weights]


@given(st.lists(st.tuples(st.floats(-8, 8), st.floats(-3, 3)), min_size=1, max_size=6))
def test_weights_and_output_move_within_their_bounds(rows):
    before, after = softmax([a for a, _ in rows]), softmax([a + b for a, b in rows])
    eta = spherical.half_range([Fraction(b) for _, b in rows])
    factor = math.exp(spherical.weight_factor_logarithm(eta)) * (1 + 1e-9)
    assert all(p / factor <= q <= p * factor for p, q in zip(before, after, strict=True))
    distance = sum(abs(p - q) for p, q in zip(before, after, strict=True)) / 2
    assert distance <= spherical.total_variation_bound(eta) + Fraction(1, 10**9)
    values = [(index, index * index % 5) for index in range(len(rows))]
    moved = [sum((q - p) * value[axis] for p, q, value in zip(before, after, values, strict=True)) for axis in range(2)]
    reach = spherical.total_variation_bound(eta) * spherical.diameter(values)
    assert math.hypot(*moved) <= float(reach) + 1e-9


def test_the_total_variation_bound_is_attained():
    """Two keys, logits 0 and -eta, moved by -eta and +eta: weights 1/(1+e^-eta) and its complement change places."""
    eta = 0.7
    before, after = softmax([0, -eta]), softmax([-eta, 0])
    assert abs(before[0] - after[0]) == pytest.approx(math.tanh(eta / 2))
    assert float(spherical.total_variation_bound(Fraction("0.7"))) == pytest.approx(math.tanh(eta / 2))


def test_the_half_range_bound_covers_every_admitted_move():
    bounds = [Fraction(3), Fraction(1), Fraction(2)]
    corners = [
        spherical.half_range([s * b for s, b in zip(signs, bounds, strict=True)])
        for signs in [(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]
    ]
    assert max(corners) == spherical.half_range_bound(bounds) == Fraction(5, 2)
    assert spherical.half_range_bound([Fraction(9)]) == 0


def test_the_diameter_by_hand():
    assert spherical.diameter([(0, 0), (3, 4), (1, 1)]) == 5
    assert spherical.diameter([(1, 2)]) == 0
