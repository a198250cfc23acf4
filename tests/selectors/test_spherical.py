"""The vectorised codes against the exact ones, the bounds at real sizes, and what evaluating depth first needs."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvaudit.policies import spherical as exact
from kvaudit.selectors import spherical


@st.composite
def trees(draw, greatest_levels=8):
    levels = draw(st.integers(1, greatest_levels))
    return exact.Tree(2**levels, tuple(draw(st.integers(1, 8)) for _ in range(levels)))


KINDS = ("random", "one pair", "alternating", "equal", "edges", "sparse")


def adversarial_keys(kind, tokens, dimension, seed):
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(tokens, dimension)) * np.exp(rng.normal(size=(tokens, 1)))
    if kind == "one pair":
        pairs = rng.integers(dimension // 2, size=tokens)
        keys *= np.arange(dimension) // 2 == pairs[:, None]
    elif kind == "alternating":
        keys = np.abs(keys[:, :1]) * (-1.0) ** np.arange(dimension)
    elif kind == "equal":
        keys = np.repeat(keys[:, :1], dimension, axis=1)
    elif kind == "edges":
        keys = rng.integers(-1, 2, size=(tokens, dimension)).astype(float)
    elif kind == "sparse":
        keys *= rng.random((tokens, dimension)) < 0.2
    return keys


keys_of_a_tree = st.tuples(trees(), st.sampled_from(KINDS), st.integers(0, 2**32 - 1))


@given(st.tuples(trees(4), st.sampled_from(["edges", "equal", "sparse"]), st.integers(0, 2**32 - 1)))
def test_the_codes_are_the_exact_ones(case):
    tree, kind, seed = case
    keys = np.round(adversarial_keys(kind, 3, tree.dimension, seed), 2)
    codes = spherical.encode(keys, tree, exact.FLOAT16)
    for token, key in enumerate(keys):
        expected = exact.encode([Fraction(str(each)) for each in key], tree, exact.FLOAT16)
        assert [cell for level in expected.angles for cell in level] == codes.angles[:, token].tolist()
        assert float(expected.radius) == codes.radii[token]


@given(keys_of_a_tree)
def test_the_bound_holds(case):
    tree, kind, seed = case
    keys = adversarial_keys(kind, 12, tree.dimension, seed)
    queries = np.concatenate([np.random.default_rng(seed + 1).normal(size=(3, tree.dimension)), keys[:2]])
    codes = spherical.encode(keys, tree, exact.FLOAT16)
    chord = float(exact.chord(exact.cosine_product(tree)))
    radii, lengths = np.linalg.norm(keys, axis=1), np.linalg.norm(queries, axis=1)
    bound = lengths[:, None] * (radii * chord + np.abs(codes.radii.astype(float) - radii))
    moved = np.abs(spherical.logits(codes, queries) - queries @ keys.T)
    # 1e-9 of |q| r more: keys at edges, and the rounding of the float64 sums.
    assert (moved <= bound + 1e-9 * lengths[:, None] * radii).all()


@given(keys_of_a_tree)
def test_the_direct_logit_is_that_of_the_decoded_keys(case):
    tree, kind, seed = case
    codes = spherical.encode(adversarial_keys(kind, 9, tree.dimension, seed), tree, exact.FLOAT32)
    queries = np.random.default_rng(seed).normal(size=(4, tree.dimension))
    scale = np.linalg.norm(queries, axis=1)[:, None] * codes.radii.astype(float)
    assert (np.abs(spherical.logits(codes, queries) - queries @ spherical.decode(codes).T) <= 1e-12 * scale).all()


@given(keys_of_a_tree)
def test_encoding_decoded_keys_changes_nothing(case):
    tree, kind, seed = case
    codes = spherical.encode(adversarial_keys(kind, 9, tree.dimension, seed), tree, exact.FLOAT16)
    again = spherical.encode(spherical.decode(codes), tree, exact.FLOAT16)
    assert (again.angles == codes.angles).all()
    assert (again.radii == codes.radii).all()


@given(keys_of_a_tree, st.sampled_from([8, 16, 24]), st.integers(1, 40))
def test_pages_hold_the_codes(case, page_tokens, tokens):
    tree, kind, seed = case
    codes = spherical.encode(adversarial_keys(kind, tokens, tree.dimension, seed), tree, exact.FLOAT16)
    pages = spherical.pack(codes, page_tokens)
    assert pages.planes.shape == (-(-tokens // page_tokens), page_tokens * tree.angle_bits // 8)
    assert (spherical.unpack(pages).angles == codes.angles).all()
    queries = np.random.default_rng(seed).normal(size=(2, tree.dimension))
    assert (spherical.page_logits(pages, queries) == spherical.logits(codes, queries)).all()


@given(st.tuples(trees(3), st.just("sparse"), st.integers(0, 2**32 - 1)), st.integers(1, 20))
def test_pages_are_the_exact_ones(case, tokens):
    tree, kind, seed = case
    keys = np.round(adversarial_keys(kind, tokens, tree.dimension, seed), 2)
    pages = spherical.pack(spherical.encode(keys, tree, exact.FLOAT16), 16)
    codes = [exact.encode([Fraction(str(each)) for each in key], tree, exact.FLOAT16) for key in keys]
    for page, planes in enumerate(pages.planes):
        assert exact.page_planes(codes[16 * page : 16 * page + 16], tree, 16) == planes.tobytes()


def test_a_page_of_nibbles_by_hand():
    """One pair at pi/2 is cell 12 of 4 bits, at 0 cell 8: tokens 0 to 3 fill low nibbles, 4 to 7 high ones."""
    keys = np.array([[0, 1]] * 4 + [[1, 0]] * 4)
    pages = spherical.pack(spherical.encode(keys, exact.Tree(2, (4,)), exact.FLOAT16), 8)
    assert pages.planes.tolist() == [[0x8C] * 4]


def test_a_page_of_odd_width_by_hand():
    """Cell 6 of 3 bits is pi/2 (110), cell 4 is 0 (100): a plane of the high two bits, then one of the low bit."""
    keys = np.array([[0, 1]] + [[1, 0]] * 7)
    pages = spherical.pack(spherical.encode(keys, exact.Tree(2, (3,)), exact.FLOAT16), 8)
    # Two bits: byte 0 holds tokens 0, 2, 4, 6 (11, 10, 10, 10), byte 1 tokens 1, 3, 5, 7. One bit: all 0.
    assert pages.planes.tolist() == [[0b10101011, 0b10101010, 0]]


def test_no_key_is_rebuilt():
    """The peak stays under log2(d) + 4 arrays of N float64; rebuilding the keys, in the same run, does not."""
    tokens, tree = 8192, exact.uniform(128, 4, 4)
    rng = np.random.default_rng(5)
    codes = spherical.encode(rng.normal(size=(tokens, 128)), tree, exact.FLOAT16)
    query = rng.normal(size=(1, 128))
    limit = (tree.levels + 4) * 8 * tokens + 8 * exact.table_entries(tree) + 16_384
    peaks = []
    for way in (spherical.logits, spherical.reconstructed_logits):
        way(codes, query)
        tracemalloc.start()
        way(codes, query)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    direct, rebuilding = peaks
    assert direct <= limit < rebuilding


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_coordinate_that_is_not_finite_is_refused(bad):
    keys = np.ones((2, 4))
    keys[1, 2] = bad
    with pytest.raises(ValueError, match="finite"):
        spherical.encode(keys, exact.uniform(4, 4, 4), exact.FLOAT16)


def test_radii_outside_the_format_are_refused():
    tree = exact.uniform(4, 4, 4)
    with pytest.raises(OverflowError, match="float16"):
        spherical.encode(np.full((1, 4), 40_000.0), tree, exact.FLOAT16)
    with pytest.raises(ValueError, match="underflows"):
        spherical.encode(np.full((1, 4), 1e-6), tree, exact.FLOAT16)
    with pytest.raises(OverflowError, match="float32"):
        spherical.encode(np.full((1, 4), 1e308), tree, exact.FLOAT32)
    with pytest.raises(ValueError, match="underflows"):
        spherical.encode(np.full((1, 4), 5e-324), tree, exact.FLOAT32)


def test_an_angle_just_below_an_edge_takes_the_upper_cell():
    angles = np.pi / 2 - np.array([5e-10, 2e-9])
    codes = spherical.encode(np.stack([np.cos(angles), np.sin(angles)], axis=1), exact.Tree(2, (4,)), exact.FLOAT16)
    assert codes.angles.tolist() == [[12, 11]]


def test_zero_and_negative_zero_are_one_number():
    tree = exact.uniform(4, 4, 4)
    positive, negative = (
        spherical.encode(np.array([[zero, zero, 1, zero]]), tree, exact.FLOAT16) for zero in (0.0, -0.0)
    )
    assert (positive.angles == negative.angles).all()
    zero = spherical.encode(np.zeros((1, 4)), tree, exact.FLOAT16)
    assert spherical.logits(zero, np.ones((1, 4))).tolist() == [[0.0]]


def test_shapes_are_checked():
    tree = exact.uniform(4, 4, 4)
    codes = spherical.encode(np.ones((1, 4)), tree, exact.FLOAT16)
    for call in (
        lambda: spherical.encode(np.ones((1, 8)), tree, exact.FLOAT16),
        lambda: spherical.logits(codes, np.ones((1, 8))),
        lambda: spherical.pack(codes, 12),
    ):
        with pytest.raises(ValueError, match=r"shape|whole bytes"):
            call()
