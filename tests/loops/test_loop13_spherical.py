"""Loop 13 beyond its suite: the figures by hand, logits and weights by plain floats, real shapes, and no crash.

The sections on the frontier and on stability have tests of their own beside their policies.
"""

import contextlib
import copy
import itertools
import math
import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import schema
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop13_spherical as loop13
from kvaudit.policies import spherical
from kvaudit.selectors import spherical as selector

LOOP = loop13.LOOP
ROOT = Path(__file__).parents[2]
SHIPPED = parse_json((ROOT / "fixtures" / LOOP.id / "fixture.json").read_bytes())
RESULTS = LOOP.oracle(SHIPPED).results


def violation(fixture):
    with pytest.raises(ContractViolation) as caught:
        LOOP.oracle(fixture)
    return caught.value.diagnostic.code, caught.value.pointer


@pytest.mark.parametrize(
    ("name", "key_bytes", "bound"),
    [
        ("d128-4-4", "65.5", 0.229),
        ("d128-5-4", "73.5", 0.155),
        ("d128-4-3", "57.625", 0.307),
        ("d128-3-2", "41.75", 0.596),
        ("d128-6-6", "97.25", 0.058),
        ("d128-8-8", "129", 0.014),
    ],
)
def test_bytes_and_bounds_of_the_common_shapes(name, key_bytes, bound):
    """64 leaf angles, 63 above, two bytes of radius; cosines of pi/2^b and pi/4/2^b by plain floats."""
    _, leaf, upper = name.split("-")
    found = RESULTS["angle"]["shapes"][name]
    assert found["key_row_bytes"] == Fraction(key_bytes) == Fraction(64 * int(leaf) + 63 * int(upper), 8) + 2
    product = math.cos(math.pi / 2 ** int(leaf)) * math.cos(math.pi / 4 / 2 ** int(upper)) ** 6
    assert float(found["cosine_product"]) == pytest.approx(product)
    assert round(float(found["relative_logit_error_bound"]), 3) == bound
    assert float(found["relative_logit_error_bound"]) == pytest.approx(math.sqrt(2 - 2 * product))


def test_the_figures_of_the_specification():
    shape = RESULTS["angle"]["shapes"]["d128-4-4"]
    assert (shape["key_row_bits"], shape["dense_key_row_bytes"]) == (524, 256)
    assert round(shape["dense_over_coded_key"], 3) == Fraction("3.908")
    assert round(shape["traffic_limit_when_nothing_is_dropped"], 2) == Fraction("1.59")
    assert RESULTS["angle"]["evaluation"] == {"peak_live_partials": 3, "limit": 3, "dense_keys_rebuilt": 0}


def plain_key(codes, radius, widths):
    """The decoded key of d coordinates by plain floats, from the root down."""
    lengths = [1.0]
    for level in reversed(range(len(widths))):
        start, cell = (-math.pi, 2 * math.pi) if level == 0 else (0.0, math.pi / 2)
        angles = [start + (code + 0.5) * cell / 2 ** widths[level] for code in codes[level]]
        lengths = [n * f(a) for n, a in zip(lengths, angles, strict=True) for f in (math.cos, math.sin)]
    return [radius * each for each in lengths]


def plain_softmax(logits):
    weights = [math.exp(each - max(logits)) for each in logits]
    return [each / sum(weights) for each in weights]


def test_logits_weights_and_outputs_by_plain_floats():
    section, found = SHIPPED["angle"], RESULTS["angle"]
    widths, scale = section["level_widths_bits"], 1 / math.sqrt(section["dimension"])
    product = math.cos(math.pi / 16) * math.cos(math.pi / 32) ** 2
    informative = 0
    for stated, query in zip(section["queries"], found["queries"], strict=True):
        q = [float(each) for each in stated["query"]]
        dense, direct, bounds = [], [], []
        for key in section["keys"]:
            exact, radius = [float(each) for each in key["key"]], float(key["radius"])
            norm = math.hypot(*exact)
            dense.append(sum(map(float.__mul__, q, exact)))
            decoded = plain_key(key["angle_codes"], radius, widths)
            direct.append(sum(map(float.__mul__, q, decoded)))
            bounds.append(math.hypot(*q) * (norm * math.sqrt(2 - 2 * product) + abs(radius - norm)))
        assert [float(each) for each in query["dense_logits"]] == pytest.approx(dense, abs=1e-9)
        assert [float(each) for each in query["direct_logits"]] == pytest.approx(direct, rel=1e-9, abs=1e-9)
        moves = [a - b for a, b in zip(direct, dense, strict=True)]
        over = max(abs(move) / bound for move, bound in zip(moves, bounds, strict=True) if bound)
        assert float(query["largest_error_over_bound"]) == pytest.approx(over, rel=1e-6)
        first, second = sorted(bounds)[-1:-3:-1]
        assert float(query["eta_bound"]) == pytest.approx(scale * (first + second) / 2, rel=1e-6)
        assert float(query["eta"]) == pytest.approx(scale * (max(moves) - min(moves)) / 2, abs=1e-9)
        limit = math.tanh(scale * (first + second) / 4)
        assert float(query["total_variation_bound"]) == pytest.approx(limit, rel=1e-6)
        before, after = (plain_softmax([scale * each for each in logits]) for logits in (dense, direct))
        distance = sum(abs(a - b) for a, b in zip(before, after, strict=True)) / 2
        assert float(query["total_variation"]) == pytest.approx(distance, abs=1e-12)
        assert distance <= limit
        values = [[float(each) for each in row] for row in section["values"]]
        moved = [sum((a - b) * v[c] for a, b, v in zip(after, before, values, strict=True)) for c in range(2)]
        assert float(query["output_error"]) == pytest.approx(math.hypot(*moved), abs=1e-12)
        widest = max(math.dist(a, b) for a, b in itertools.combinations(values, 2))
        assert float(query["output_error_bound"]) == pytest.approx(limit * widest, rel=1e-6)
        informative += limit < 0.5
        assert query["informative"] == (limit < 0.5)
    assert found["informative"]["queries"] == informative
    assert 0 < informative < len(section["queries"])


def coded_section(dimension, widths, keys, queries, radius_format="float16", page_tokens=16):
    """An angle section whose codes, pages and logits are those of the NumPy selector."""
    tree = spherical.Tree(dimension, tuple(widths))
    codes = selector.encode(keys, tree, spherical.RADIUS_FORMATS[radius_format])
    pages = selector.pack(codes, page_tokens)
    section = copy.deepcopy(SHIPPED["angle"])
    tables = selector.tables(tree)
    upper = {width: tables[level] for level, width in enumerate(tree.widths) if level}
    stated = [("leaf", tree.widths[0], tables[0]), *(("upper", width, upper[width]) for width in sorted(upper))]
    firsts = [tree.first_node(level) for level in range(tree.levels)] + [tree.angles]
    order = []

    def visit(level, node):
        if level:
            visit(level - 1, 2 * node)
            visit(level - 1, 2 * node + 1)
        order.append({"level": level, "node": node})

    visit(tree.levels - 1, 0)
    section |= {
        "dimension": dimension,
        "level_widths_bits": list(tree.widths),
        "radius_format": radius_format,
        "query_coding": {"level_widths_bits": list(tree.widths), "radius_format": "float32"},
        "receipt_tolerance": Fraction(1, 10**9),
        "tables": [
            {
                "level": level,
                "width_bits": width,
                "cosines": [Fraction(each) for each in cosines],
                "sines": [Fraction(each) for each in sines],
            }
            for level, width, (cosines, sines) in stated
        ],
        "keys": [
            {
                "original_position": 3 * token,
                "key": [Fraction(each) for each in key],
                "angle_codes": [codes.angles[a:b, token].tolist() for a, b in itertools.pairwise(firsts)],
                "radius": Fraction(float(codes.radii[token])),
            }
            for token, key in enumerate(keys)
        ],
        "values": [[token, -token] for token in range(len(keys))],
        "queries": [
            {"query": [Fraction(each) for each in query], "direct_logits": [Fraction(each) for each in logits]}
            for query, logits in zip(queries, selector.page_logits(pages, queries), strict=True)
        ],
        "evaluation_order": order,
    }
    section["pages"] |= {
        "tokens": page_tokens,
        "table": [
            {"rows": min(page_tokens, len(keys) - at * page_tokens), "planes_hex": planes.tobytes().hex()}
            for at, planes in enumerate(pages.planes)
        ],
        "reads": list(range(len(pages.planes))),
    }
    return section


@pytest.mark.parametrize(
    ("dimension", "widths", "radius_format"),
    [(128, [4] * 7, "float16"), (64, [5, 4, 4, 3, 2, 1], "float32"), (2, [8], "float16"), (256, [1] * 8, "float16")],
)
def test_what_the_selector_writes_is_accepted(dimension, widths, radius_format):
    rng = np.random.default_rng(dimension)
    keys, queries = np.round(rng.normal(size=(19, dimension)), 4), np.round(rng.normal(size=(2, dimension)), 4)
    keys[4] = 0
    keys[5] = 1
    fixture = {**SHIPPED, "angle": coded_section(dimension, widths, keys, queries, radius_format)}
    fixture["declared"] = declared(LOOP.oracle(fixture))
    assert not schema.defects(LOOP.fixture_schema, fixture)
    found = fixture["declared"]["results"]["angle"]
    assert found["evaluation"]["peak_live_partials"] == len(widths)
    assert 0 < found["error_over_bound"]["largest"] <= 1
    assert 0 < found["coded_query"]["largest_error_over_bound"] <= 1


def test_a_query_of_any_size_is_answered():
    """A logit spread of millions and a query that float16 cannot hold: vacuous, not a crash."""
    section = copy.deepcopy(SHIPPED["angle"])
    tree = spherical.Tree(8, (4, 3, 3))
    query = [10**7, -(10**7), 3, 0, 0, 0, 0, 1]
    codes = [spherical.encode(key["key"], tree, spherical.FLOAT16) for key in section["keys"]]
    logits = [spherical.direct_logit(code, tree, query) for code in codes]
    section["queries"] = [{"query": query, "direct_logits": logits}]
    found = LOOP.oracle({**SHIPPED, "angle": section}).results["angle"]
    assert found["informative"]["queries"] == 0
    assert found["queries"][0]["total_variation_bound"] == 1
    assert found["coded_query"]["queries_refused"] == 1
    assert found["coded_query"]["largest_error_over_bound"] is None


def test_what_a_bound_refuses_is_no_longer_refused_within_it():
    """The bound is judged before the value: a wrong logit within it is named as a wrong value."""
    fixture = copy.deepcopy(SHIPPED)
    query = fixture["angle"]["queries"][3]
    place = "/angle/queries/3/direct_logits/5"
    query["direct_logits"][5] += 1
    assert violation(fixture) == ("spherical.logit-mismatch", place)
    query["direct_logits"][5] += 5
    assert violation(fixture) == ("spherical.bound-violated", place)


def test_the_arms_by_hand():
    """Dense rows of 512 B: pages of 32 + 8 x 512 = 4128 B, 32 rows. The joint answer keeps 24 rows on 3 pages.

    Rebuilding writes and reads 24 keys of 256 B. Packed in state order, each of the 3 pages has a protected row.
    """
    arms = {arm["arm"]: arm for arm in RESULTS["retention"]["arms"]}
    assert arms["A0"]["configuration"]["page_bytes"] == 4 * 4128
    direct, rebuilt = arms["A1"]["configuration"], arms["A1"]["controls"][0]
    assert (direct["page_bytes"], direct["kept_rows"]) == (3136 + 2 * 2432, 24)
    assert rebuilt["step_traffic_bytes"] - direct["step_traffic_bytes"] == 2 * 24 * 256
    assert arms["A4"]["controls"][0]["page_bytes"] == 3 * 3136
    assert {arm["owner"] for name, arm in arms.items() if name in ("A0", "A4")} == {"this project's contract"}


def test_what_the_sweep_says_of_additivity():
    """Joint against the better single lever, budget by budget: an answer each way, and none where there is no lever."""
    points = RESULTS["retention"]["sweep"]
    for point in points:
        single = [point["distortion"][name] for name in ("retention", "precision")]
        best = min(each for each in single if each is not None)
        assert point["best_single_lever"] == best
        assert point["joint_below_best_single_lever"] == (point["distortion"]["joint"] < best)
    assert {point["joint_below_best_single_lever"] for point in points} == {True, False}


def test_the_promise_holds_on_the_row_budget():
    found = RESULTS["retention"]["optimum"]["row_budget"]
    assert found["gap_promised_within_last_step"]
    assert 0 <= found["without_drops"]["gap"] <= found["last_step"]
    assert found["lagrangian_bound_without_drops"] <= found["without_drops"]["distortion"]


def test_a_budget_of_everything_needs_no_step():
    fixture = copy.deepcopy(SHIPPED)
    section = fixture["retention"]
    section["budget_bytes"] = 12544
    states = range(len(section["states"]))
    section["receipt"] = {
        "steps": [],
        "pages": [{"tier": 0, "states": list(states)[at : at + 8]} for at in range(0, len(states), 8)],
        "page_bytes": 12544,
    }
    found = LOOP.oracle(fixture).results["retention"]
    assert found["allocation"]["distortion"] == 0
    assert found["optimum"]["without_drops"] == {"distortion": 0, "gap": 0}


def test_many_states_have_a_bound_and_no_optimum():
    """Past the exact limit the optimum is null, never an estimate: 2 x 2 x 24 states of one kind."""
    fixture = copy.deepcopy(SHIPPED)
    section, tokens = fixture["retention"], 24
    section["geometry"]["tokens"] = tokens
    section["states"] = [
        {
            "layer": layer,
            "kv_head": head,
            "token": token,
            "protected": token in (0, tokens - 1),
            "distortions": [0, 1, 2],
            "drop_distortion": 9,
        }
        for layer in range(2)
        for head in range(2)
        for token in range(tokens)
    ]
    full = 12 * 3136
    section["budget_bytes"] = full
    section["sweep_budgets_bytes"] = [full]
    section["receipt"] = {
        "steps": [],
        "pages": [{"tier": 0, "states": list(range(at, at + 8))} for at in range(0, 96, 8)],
        "page_bytes": full,
    }
    found = LOOP.oracle(fixture).results["retention"]["optimum"]
    assert not found["exact"]
    assert found["with_drops"] == {"distortion": None, "gap": None}
    assert found["lagrangian_bound_with_drops"] is not None


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def member(document, path):
    for part in path:
        document = document[part]
    return document


@pytest.mark.parametrize("seed", range(300))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits; if the schema lets them pass, the oracle answers or names a contract."""
    choose = random.Random(seed)
    fixture = copy.deepcopy({name: value for name, value in SHIPPED.items() if name != "declared"})
    section = choose.choice(["angle", "retention", "frontier", "stability"])
    for _ in range(choose.randint(1, 3)):
        path = choose.choice([path for path in places(fixture[section]) if path])
        parent, value = member(fixture[section], path[:-1]), member(fixture[section], path)
        if isinstance(value, bool):
            parent[path[-1]] = not value
        elif isinstance(value, int):
            parent[path[-1]] = choose.choice([0, 1, value + 1, max(0, value - 1), 2 * value, -value, 10**6, 2**40])
        elif isinstance(value, Fraction):
            parent[path[-1]] = choose.choice([0, -value, value / 3, value * 10**9, Fraction(1, 10**12)])
        elif isinstance(value, list):
            edits = [[], value[:-1], value + value[-1:], value[::-1], choose.sample(value, len(value))]
            parent[path[-1]] = choose.choice(edits)
        elif isinstance(value, str):
            parent[path[-1]] = choose.choice(["pre_rope", "float32", "uniform", "direct", "A1", "00", value + "x"])
        elif isinstance(parent, dict) and choose.random() < 0.3:
            parent[path[-1]] = None
    fixture["declared"] = SHIPPED["declared"]
    if schema.defects(LOOP.fixture_schema, fixture):
        return
    with contextlib.suppress(ContractViolation):
        observe(LOOP, fixture)
