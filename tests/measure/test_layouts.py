"""Layouts of plain rows and of codes: each gives the attention of its rows, and its bytes are those of its tensors."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvaudit.measure import layouts, spherical
from kvaudit.measure.layout_names import LAYOUTS
from kvaudit.measure.outcomes import Stopped
from kvaudit.policies.spherical import FLOAT16, Tree, uniform
from kvaudit.selectors import spherical as selector

SHAPE = layouts.Shape(batch=2, query_heads=6, kv_heads=3, head_dimension=16, rows=37)
CODING = layouts.Coding(uniform(16, 4, 4), 8, kept_only=False)


def problem(kept=Fraction(1, 3), dtype=torch.float64, shape=SHAPE, seed=0):
    return layouts.problem(shape, kept, dtype, "cpu", seed)


def softmax_attention(query, keys, values):
    """One query over rows, written out: the independent reference."""
    logits = [float(np.dot(query, key)) / len(query) ** 0.5 for key in keys]
    weights = np.exp(np.array(logits) - max(logits))
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / weights.sum()


def rows_of(source, owner, *, every):
    positions = [row for row in range(source.keys.shape[1]) if every or bool(source.kept[owner, row])]
    return source.keys[owner].double().numpy()[positions], source.values[owner].double().numpy()[positions]


@pytest.mark.parametrize("kept", [Fraction(1, 3), Fraction(1), Fraction(1, 1000)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kept_only", [False, True])
def test_a_layout_gives_the_attention_of_its_rows(layout, kept, kept_only):
    source = problem(kept)
    coding = layouts.Coding(CODING.tree, CODING.page_tokens, kept_only=kept_only)
    output = layouts.step(layout, source, coding, "torch").run()
    assert output.shape == source.queries.shape
    every = layout == "dense" or (layout == "spherical" and not kept_only)
    for owner in range(SHAPE.owners):
        keys, values = rows_of(source, owner, every=every)
        if layout == "spherical":
            keys = selector.decode(selector.encode(keys, CODING.tree, FLOAT16))
        for head in range(SHAPE.group):
            expected = softmax_attention(source.queries[owner, head].numpy(), keys, values)
            assert np.abs(output[owner, head].numpy() - expected).max() < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_output_has_the_type_of_the_rows(layout, dtype):
    step = layouts.step(layout, problem(dtype=dtype), CODING, "torch")
    assert step.run().dtype == dtype


def test_owners_keep_different_numbers_of_rows_and_all_together_the_fraction():
    kept = problem(Fraction(1, 3)).kept.sum(dim=1)
    assert int(kept.sum()) == SHAPE.owners * SHAPE.rows // 3
    assert len(set(kept.tolist())) > 1
    assert problem(Fraction(1)).kept.all()
    # The newest row of each is protected, so none is empty even if the fraction is.
    assert problem(Fraction(1, 1000)).kept.sum(dim=1).tolist() == [1] * SHAPE.owners


def test_a_seed_gives_the_same_rows_and_another_seed_others():
    assert torch.equal(problem().keys, problem().keys)
    assert not torch.equal(problem().keys, problem(seed=1).keys)


def test_bytes_of_plain_layouts_by_hand():
    """d 16 in float32: 64 bytes a row of keys and of values; 6 owners of 37 rows; 12 query rows."""
    source = problem(dtype=torch.float32)
    steps = {name: layouts.step(name, source, CODING, "torch") for name in LAYOUTS}
    ends = {"queries": 12 * 64, "output": 12 * 64}
    kept = [int(each) for each in source.kept.sum(dim=1)]
    assert steps["dense"].addressed == {"keys": 222 * 64, "values": 222 * 64, **ends}
    assert steps["ragged"].addressed == {"keys": 74 * 64, "values": 74 * 64, "starts": 6 * 8, "lengths": 6 * 4, **ends}
    room = 6 * max(kept) * 64
    assert steps["padded"].addressed == {"keys": room, "values": room, "lengths": 6 * 4, **ends}
    assert steps["tombstone"].addressed == {"keys": 222 * 64, "values": 222 * 64, "live": 222, **ends}
    assert steps["ragged"].rows == tuple(kept)
    # A tensor's bytes, not only the formula's: 37 rows are 5 pages of 8; 15 codes of 4 bits, and 2 bytes of radius.
    pages = 6 * 5
    assert steps["spherical"].addressed == {
        "codes": pages * 8 * 15 // 2,
        "radii": pages * 8 * 2,
        "values": pages * 8 * 64,
        "page_table": 6 * 5 * 4,
        "lengths": 6 * 4,
        "tables": 2 * (16 + 16) * 4,
        **ends,
    }


def test_a_coded_key_is_65_and_a_half_bytes_and_the_traffic_limit_1_59():
    """d 128, 4 bits everywhere, bf16 values, whole pages: 256 / 65.5 = 3.908 and 512 / 321.5 = 1.593."""
    shape = layouts.Shape(batch=1, query_heads=1, kv_heads=1, head_dimension=128, rows=64)
    coding = layouts.Coding(uniform(128, 4, 4), 64, kept_only=False)
    source = problem(Fraction(1), torch.bfloat16, shape)
    dense, coded = (layouts.step(name, source, coding, "torch").addressed for name in ("dense", "spherical"))
    keys = coded["codes"] + coded["radii"]
    assert Fraction(keys, 64) == Fraction(131, 2)
    assert round(dense["keys"] / keys, 3) == 3.908
    assert round((dense["keys"] + dense["values"]) / (keys + coded["values"]), 2) == 1.59


@pytest.mark.parametrize("widths", [(4,) * 4, (8, 1, 5, 7), (3, 2, 2, 2), (1, 6, 2, 8)])
def test_codes_and_pages_are_those_of_the_selector(widths):
    tree = Tree(16, widths)
    draw = np.random.default_rng(0)
    keys = draw.standard_normal((53, 16))
    # Angles on edges of cells: equal coordinates, zeros of both signs, a zero key, half of a key zero.
    keys[:8] = np.round(keys[:8])
    keys[8], keys[9, :8], keys[10], keys[11] = 0.0, 0.0, 1.0, -0.0
    expected = selector.encode(keys, tree, FLOAT16)
    cells, radii = spherical.encode(torch.from_numpy(keys), tree)
    assert np.array_equal(cells.numpy(), expected.angles)
    assert np.array_equal(radii.numpy(), expected.radii)
    for page_tokens in (8, 16, 64):
        planes = spherical.pack(cells, tree, page_tokens).numpy()
        assert np.array_equal(planes, selector.pack(expected, page_tokens).planes)


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        (torch.full((1, 4), float("nan")), ValueError),
        (torch.full((1, 4), float("inf")), ValueError),
        (torch.ones(1, 8), ValueError),
        (torch.full((1, 4), 1e5), OverflowError),
        (torch.full((1, 4), 1e-6), ValueError),
    ],
)
def test_keys_that_have_no_code_are_refused(keys, error):
    with pytest.raises(error):
        spherical.encode(keys, uniform(4, 4, 4))


def test_an_owner_without_a_row_is_refused():
    with pytest.raises(ValueError, match="without a row"):
        spherical.coded_cache([torch.ones(0, 4)], [torch.ones(0, 4)], uniform(4, 4, 4), 8)


@pytest.mark.parametrize("d", [2, 4, 64])
def test_pages_may_lie_anywhere(d):
    tree = uniform(d, 5, 3)
    keys, values = ([torch.randn(rows, d, dtype=torch.float64) for rows in (1, 20, 16)] for _ in range(2))
    queries = torch.randn(3, 2, d, dtype=torch.float64)
    side_by_side = spherical.attend(spherical.coded_cache(keys, values, tree, 8), queries)
    order = torch.tensor([4, 0, 5, 2, 1, 3])
    scattered = spherical.attend(spherical.coded_cache(keys, values, tree, 8, order), queries)
    assert torch.allclose(side_by_side, scattered, rtol=0, atol=1e-14)


class Watch(TorchDispatchMode):
    """Notes the largest floating-point tensor that is made; a view of a stored one makes nothing."""

    def __init__(self):
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.is_floating_point() and found._base is None:
            self.largest = max(self.largest, found.numel())
        return found


def test_no_dense_key_is_formed():
    """On the way to the logits no tensor has more than G numbers a token; decoding the keys makes d."""
    shape = layouts.Shape(batch=1, query_heads=2, kv_heads=1, head_dimension=64, rows=512)
    source = problem(Fraction(1), torch.float32, shape)
    cache = spherical.coded_cache([source.keys[0]], [source.values[0]], uniform(64, 4, 4), 64)
    with Watch() as direct:
        spherical.page_logits(cache, source.queries)
    assert direct.largest == 2 * 512
    with Watch() as dense:
        spherical.decoded_keys(cache, 0)
    assert dense.largest >= 64 * 512


# What the kernel takes, so that only the device is missing.
TAKEN = layouts.Coding(uniform(16, 4, 4), 16, kept_only=False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_auto_takes_torch_on_a_cpu_and_says_so(monkeypatch, layout):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    step = layouts.step(layout, problem(dtype=torch.float32), TAKEN, "auto")
    assert step.backend == "torch"
    assert step.note == "torch, no Triton kernel: it needs a CUDA device"
    assert layouts.step(layout, problem(dtype=torch.float32), TAKEN, "torch").note is None


def test_without_triton_the_torch_path_runs_and_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    step = layouts.step("spherical", problem(dtype=torch.float32), TAKEN, "auto")
    assert step.note == "torch, no Triton kernel: triton is not installed (extra: kernel)"
    assert step.run().shape == problem().queries.shape


@pytest.mark.parametrize("layout", LAYOUTS)
def test_triton_by_name_is_refused_where_it_cannot_run(monkeypatch, layout):
    pytest.importorskip("triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(Stopped, match="it needs a CUDA device") as raised:
        layouts.step(layout, problem(dtype=torch.float32), TAKEN, "triton")
    assert (raised.value.outcome, raised.value.reason) == ("backend-incompatible", "backend.refused")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_types_that_the_interpreter_gets_wrong_are_refused(monkeypatch, dtype):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert spherical.type_refusal(dtype) is not None
    assert spherical.type_refusal(torch.float16) is None


@pytest.mark.parametrize(
    ("dimension", "page_tokens", "dtype", "said"),
    [
        (8, 64, torch.float32, "head dimensions 16 to 256"),
        (512, 64, torch.float32, "head dimensions 16 to 256"),
        (64, 8, torch.float32, "pages of 16 to 256 tokens"),
        (64, 24, torch.float32, "a power of two"),
        (64, 64, torch.float64, "at most 32 bits"),
        (256, 128, torch.float32, "bytes of values"),
    ],
)
def test_what_the_kernel_does_not_take(dimension, page_tokens, dtype, said):
    assert said in spherical.kernel_refusal(uniform(dimension, 4, 4), page_tokens, dtype)


@pytest.mark.parametrize("widths", [(1,) * 7, (8,) * 7, (5, 4, 3, 2, 1, 8, 7)])
def test_the_kernel_takes_every_width(widths):
    assert spherical.kernel_refusal(Tree(128, widths), 64, torch.bfloat16) is None
