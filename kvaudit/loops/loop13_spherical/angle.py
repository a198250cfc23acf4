"""Angle-domain attention: the codes, tables, pages and direct logits of a fixture, and what they lose.

The order of judgement: RoPE stage, trees, tables, keys with their codes and radii, values, queries with their direct
logits (bound before value), order of evaluation, pages and their reads, other shapes and the claims about them.

Decided here:
- A receipt of logits or of a table is a printed decimal: it is compared within `receipt_tolerance`. Codes, radii and
  pages are compared exactly.
- The bound on a stated logit takes the cosine product with the slack of the edge rule, which is what is proved. The
  report gives the product without it; the two differ in the ninth digit.
- A logit more than 300 below the largest counts as 300 below it: its weight is under 1e-130 either way.
- A query is *informative* if tanh(eta / 2) < 1/2, with eta from the bounds alone and the logits scaled by 1 / sqrt(d).
  For a large |q| |k| it is not: the bound then allows any change of the weights, and says nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence.summary import summarised
from kvaudit.loops.loop13_spherical.diagnostics import (
    BOUND,
    CLAIM,
    CODE_RANGE,
    CODE_SHAPE,
    CODE_VALUE,
    KEY_DIMENSION,
    KEY_ORDER,
    LIVE_PARTIALS,
    LOGIT_COUNT,
    LOGIT_VALUE,
    NODE_MISSING,
    NODE_ORDER,
    NODE_REPEATED,
    NODE_UNKNOWN,
    PAGE_PACKING,
    PAGE_ROWS,
    PAGE_TWICE,
    PAGE_UNKNOWN,
    PAGE_UNREAD,
    QUERY_DIMENSION,
    RADIUS_FORMAT,
    RADIUS_NEGATIVE,
    RADIUS_OVERFLOW,
    RADIUS_UNDERFLOW,
    RADIUS_VALUE,
    ROPE_STAGE,
    SHAPE_NAME,
    TABLE_ENTRY,
    TABLE_LENGTH,
    TABLE_SET,
    VALUE_SHAPE,
)
from kvaudit.loops.loop13_spherical.judging import (
    judge_dimension,
    judge_page,
    judge_tree,
    require_close,
    require_count,
    shown,
)
from kvaudit.model import Document, LedgerRow, Table, pointer
from kvaudit.policies import attention, spherical
from kvaudit.policies.spherical import Code, RadiusFormat, Tree
from kvaudit.policies.transcendental import square_root, to_digits

CATEGORIES = (
    "RoPE stage",
    "tree shape",
    "bit widths",
    "table",
    "key and query shape",
    "code ranges",
    "radius",
    "bound violation",
    "direct logit",
    "evaluation order",
    "page packing",
    "page reads",
    "traffic claim",
)

INFORMATIVE_BELOW = Fraction(1, 2)
# exp(-300) is below 1e-130: a weight under it is that, and its exact Fraction stays small.
_LARGEST_SPREAD = 300


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its code, norm, and the proved bound on |k_hat - k|."""

    vector: Sequence[Fraction]
    code: Code
    radius: Fraction
    error_bound: Fraction


@dataclass(frozen=True, slots=True)
class Plan:
    """What was judged: the trees, the keys, and for each query its norm with the direct and dense logits."""

    tree: Tree
    radius_format: RadiusFormat
    query_tree: Tree
    query_format: RadiusFormat
    keys: tuple[Key, ...]
    direct: tuple[tuple[Fraction, ...], ...]
    dense: tuple[tuple[Fraction, ...], ...]
    peak_live_partials: int
    shapes: Mapping[str, Tree]


def judge(section: Document, at: str) -> Plan:
    """Return the plan of an angle section at the pointer `at`, or raise the first `ContractViolation`."""
    if section["rope_stage"] != spherical.POST_ROPE:
        reason = f"expected {spherical.POST_ROPE}, found {section['rope_stage']}"
        raise ContractViolation(ROPE_STAGE, at + pointer("rope_stage"), reason)
    dimension = section["dimension"]
    judge_dimension(dimension, at + pointer("dimension"))
    tree = judge_tree(dimension, section["level_widths_bits"], at + pointer("level_widths_bits"))
    coding = section["query_coding"]
    query_tree = judge_tree(dimension, coding["level_widths_bits"], at + pointer("query_coding", "level_widths_bits"))
    radius_format = spherical.RADIUS_FORMATS[section["radius_format"]]
    _judge_tables(section, tree, at)
    product = spherical.cosine_product(tree, spherical.EDGE)
    keys = _judge_keys(section, tree, radius_format, spherical.chord(product), at)
    _judge_values(section, at)
    direct, dense = _judge_queries(section, tree, keys, at)
    peak = _judge_evaluation(section["evaluation_order"], tree, at + pointer("evaluation_order"))
    _judge_pages(section["pages"], tree, [key.code for key in keys], at + pointer("pages"))
    return Plan(
        tree=tree,
        radius_format=radius_format,
        query_tree=query_tree,
        query_format=spherical.RADIUS_FORMATS[coding["radius_format"]],
        keys=keys,
        direct=direct,
        dense=dense,
        peak_live_partials=peak,
        shapes=_judge_shapes(section, at),
    )


def _judge_tables(section: Document, tree: Tree, at: str) -> None:
    stated, where, tolerance = section["tables"], at + pointer("tables"), section["receipt_tolerance"]
    expected = [("leaf", tree.widths[0]), *(("upper", width) for width in sorted(set(tree.widths[1:])))]
    require_count(TABLE_SET, stated, len(expected), "tables", where)
    for index, ((level, width), table) in enumerate(zip(expected, stated, strict=True)):
        place = where + pointer(index)
        if (table["level"], table["width_bits"]) != (level, width):
            reason = f"expected the {level} table of {width} bits, found {table['level']} of {table['width_bits']}"
            raise ContractViolation(TABLE_SET, place, reason)
        entries = [spherical.turn(0 if level == "leaf" else 1, width, code) for code in range(1 << width)]
        for at_turn, name in enumerate(("cosines", "sines")):
            require_count(TABLE_LENGTH, table[name], len(entries), "entries", place + pointer(name))
            for code, (found, entry) in enumerate(zip(table[name], entries, strict=True)):
                require_close(TABLE_ENTRY, Fraction(found), entry[at_turn], tolerance, place + pointer(name, code))


def _judge_keys(
    section: Document, tree: Tree, radius_format: RadiusFormat, chord: Fraction, at: str
) -> tuple[Key, ...]:
    keys: list[Key] = []
    before = -1
    for index, stated in enumerate(section["keys"]):
        where = at + pointer("keys", index)
        if stated["original_position"] <= before:
            reason = f"expected a position after {before}, found {stated['original_position']}"
            raise ContractViolation(KEY_ORDER, where + pointer("original_position"), reason)
        before = stated["original_position"]
        keys.append(_judge_key(stated, tree, radius_format, chord, where))
    return tuple(keys)


def _judge_key(stated: Document, tree: Tree, radius_format: RadiusFormat, chord: Fraction, where: str) -> Key:
    vector, codes = [Fraction(each) for each in stated["key"]], stated["angle_codes"]
    require_count(KEY_DIMENSION, vector, tree.dimension, "coordinates", where + pointer("key"))
    place = where + pointer("angle_codes")
    require_count(CODE_SHAPE, codes, tree.levels, "levels", place)
    for level, of_level in enumerate(codes):
        require_count(CODE_SHAPE, of_level, tree.nodes(level), "codes", place + pointer(level))
        for node, found in enumerate(of_level):
            if not 0 <= found < 1 << tree.widths[level]:
                reason = f"expected a code of {tree.widths[level]} bits, found {found}"
                raise ContractViolation(CODE_RANGE, place + pointer(level, node), reason)
    radius = spherical.norm(vector)
    stored = _stored(radius, radius_format, where + pointer("key"))
    for level, (angles, width) in enumerate(zip(spherical.angles(vector), tree.widths, strict=True)):
        for node, angle in enumerate(angles):
            expected, found = spherical.cell(level, width, angle), codes[level][node]
            if found != expected:
                reason = f"the angle {shown(angle)} is in cell {expected}, found {found}"
                raise ContractViolation(CODE_VALUE, place + pointer(level, node), reason)
    _judge_radius(Fraction(stated["radius"]), stored, radius_format, where + pointer("radius"))
    code = Code(tuple(tuple(of_level) for of_level in codes), stored)
    return Key(vector, code, radius, spherical.key_error_bound(radius, stored, chord))


def _stored(radius: Fraction, radius_format: RadiusFormat, where: str) -> Fraction:
    try:
        return spherical.stored_radius(radius, radius_format)
    except OverflowError:
        diagnostic = RADIUS_OVERFLOW
    except ValueError:
        diagnostic = RADIUS_UNDERFLOW
    raise ContractViolation(diagnostic, where, f"the norm {shown(radius)} is outside {radius_format.name}")


def _judge_radius(found: Fraction, expected: Fraction, radius_format: RadiusFormat, where: str) -> None:
    if found < 0:
        raise ContractViolation(RADIUS_NEGATIVE, where, f"expected {shown(expected)}, found {shown(found)}")
    try:
        of_format = spherical.stored_radius(found, radius_format) == found
    except (OverflowError, ValueError):
        of_format = False
    if not of_format:
        reason = f"expected a number of {radius_format.name}, found {shown(found)}"
        raise ContractViolation(RADIUS_FORMAT, where, reason)
    if found != expected:
        raise ContractViolation(RADIUS_VALUE, where, f"expected {shown(expected)}, found {shown(found)}")


def _judge_values(section: Document, at: str) -> None:
    values, where = section["values"], at + pointer("values")
    require_count(VALUE_SHAPE, values, len(section["keys"]), "value rows", where)
    for index, row in enumerate(values):
        require_count(VALUE_SHAPE, row, len(values[0]), "channels", where + pointer(index))


def _judge_queries(
    section: Document, tree: Tree, keys: Sequence[Key], at: str
) -> tuple[tuple[tuple[Fraction, ...], ...], tuple[tuple[Fraction, ...], ...]]:
    """Return the direct and the dense logits, unscaled, [query][key]."""
    tolerance = section["receipt_tolerance"]
    every_direct, every_dense = [], []
    for index, stated in enumerate(section["queries"]):
        where, query = at + pointer("queries", index), stated["query"]
        require_count(QUERY_DIMENSION, query, tree.dimension, "coordinates", where + pointer("query"))
        place = where + pointer("direct_logits")
        require_count(LOGIT_COUNT, stated["direct_logits"], len(keys), "logits", place)
        length = spherical.norm(query)
        dense = tuple(spherical.dot(query, key.vector) for key in keys)
        for at_key, (found, key, exact) in enumerate(zip(stated["direct_logits"], keys, dense, strict=True)):
            bound = spherical.logit_error_bound(length, key.error_bound)
            if abs(found - exact) > bound + tolerance:
                reason = f"the dense logit is {shown(exact)} and the bound {shown(bound)}, found {shown(found)}"
                raise ContractViolation(BOUND, place + pointer(at_key), reason)
        direct = tuple(spherical.direct_logit(key.code, tree, query) for key in keys)
        for at_key, (found, expected) in enumerate(zip(stated["direct_logits"], direct, strict=True)):
            require_close(LOGIT_VALUE, Fraction(found), expected, tolerance, place + pointer(at_key))
        every_direct.append(direct)
        every_dense.append(dense)
    return tuple(every_direct), tuple(every_dense)


def _judge_evaluation(order: Sequence[Document], tree: Tree, where: str) -> int:
    """Return the most partial values that live at once when the nodes are visited in this order."""
    live: set[tuple[int, int]] = set()
    visited: set[tuple[int, int]] = set()
    peak = 0
    for index, each in enumerate(order):
        level, node, place = each["level"], each["node"], where + pointer(index)
        if level >= tree.levels or node >= tree.nodes(level):
            raise ContractViolation(NODE_UNKNOWN, place, f"expected a node of {tree.levels} levels, found {each}")
        if (level, node) in visited:
            raise ContractViolation(NODE_REPEATED, place, f"level {level} node {node} was visited before")
        visited.add((level, node))
        if level > 0:
            children = {(level - 1, 2 * node), (level - 1, 2 * node + 1)}
            if not children <= live:
                raise ContractViolation(NODE_ORDER, place, f"the children of level {level} node {node} have no value")
            live -= children
        live.add((level, node))
        peak = max(peak, len(live))
        if peak > tree.levels:
            reason = f"expected at most {tree.levels} partial values, found {peak}"
            raise ContractViolation(LIVE_PARTIALS, place, reason)
    require_count(NODE_MISSING, order, tree.angles, "nodes", where)
    return peak


def _judge_pages(pages: Document, tree: Tree, codes: Sequence[Code], where: str) -> None:
    judge_page(pages, where)
    tokens, stated = pages["tokens"], pages["table"]
    count = -(-len(codes) // tokens)
    require_count(PAGE_ROWS, stated, count, "pages", where + pointer("table"))
    for index, page in enumerate(stated):
        rows, place = codes[index * tokens : (index + 1) * tokens], where + pointer("table", index)
        if page["rows"] != len(rows):
            reason = f"expected {len(rows)} rows, found {page['rows']}"
            raise ContractViolation(PAGE_ROWS, place + pointer("rows"), reason)
        expected, found = spherical.page_planes(rows, tree, tokens).hex(), page["planes_hex"]
        if found != expected:
            reason = f"expected {expected}, found {found}"
            raise ContractViolation(PAGE_PACKING, place + pointer("planes_hex"), reason)
    seen: set[int] = set()
    for index, page_index in enumerate(pages["reads"]):
        place = where + pointer("reads", index)
        if page_index >= count:
            raise ContractViolation(PAGE_UNKNOWN, place, f"expected a page below {count}, found {page_index}")
        if page_index in seen:
            raise ContractViolation(PAGE_TWICE, place, f"page {page_index} was read before")
        seen.add(page_index)
    require_count(PAGE_UNREAD, pages["reads"], count, "pages read", where + pointer("reads"))


def _judge_shapes(section: Document, at: str) -> dict[str, Tree]:
    shapes: dict[str, Tree] = {}
    limits: dict[str, Fraction] = {}
    for index, shape in enumerate(section["shapes"]):
        where = at + pointer("shapes", index)
        if shape["name"] in shapes:
            raise ContractViolation(SHAPE_NAME, where + pointer("name"), f"{shape['name']} is named before")
        judge_dimension(shape["dimension"], where + pointer("dimension"))
        tree = judge_tree(shape["dimension"], shape["level_widths_bits"], where + pointer("level_widths_bits"))
        shapes[shape["name"]] = tree
        limits[shape["name"]] = _traffic_ratio(shape, tree)
    for index, claim in enumerate(section["traffic_claims"]):
        where = at + pointer("traffic_claims", index)
        if claim["shape"] not in shapes:
            reason = f"expected one of {', '.join(shapes)}, found {claim['shape']}"
            raise ContractViolation(SHAPE_NAME, where + pointer("shape"), reason)
        limit = limits[claim["shape"]]
        explained = claim["rows_dropped"] or claim["values_coded"]
        if claim["claimed_factor"] > limit and not explained:
            reason = f"expected at most {shown(limit)}, found {shown(claim['claimed_factor'])}"
            raise ContractViolation(CLAIM, where + pointer("claimed_factor"), reason)
    return shapes


def _shape_bits(shape: Document, tree: Tree) -> tuple[int, int, int]:
    """Return the bits of a coded key row, a dense key row and a dense value row."""
    coded = spherical.key_row_bits(tree, spherical.RADIUS_FORMATS[shape["radius_format"]])
    scalar = 8 * tree.dimension
    return coded, scalar * shape["key_scalar_bytes"], scalar * shape["value_scalar_bytes"]


def _traffic_ratio(shape: Document, tree: Tree) -> Fraction:
    """Return dense key and value bits over coded key and dense value bits: the limit when nothing is dropped."""
    coded, key, value = _shape_bits(shape, tree)
    return Fraction(key + value, coded + value)


def results(section: Document, plan: Plan) -> Document:
    """Return the results of a section that was judged."""
    tree = plan.tree
    product = spherical.cosine_product(tree)
    queries = [_query_result(section, plan, index) for index in range(len(section["queries"]))]
    informative = sum(query["informative"] for query in queries)
    over_bound = [each for query in queries for each in query["error_over_bound"] if each is not None]
    return {
        "code": {
            "rope_stage": section["rope_stage"],
            "dimension": tree.dimension,
            "level_widths_bits": list(tree.widths),
            "levels": tree.levels,
            "angles": tree.angles,
            "half_steps_radians": [spherical.half_step(level, width) for level, width in enumerate(tree.widths)],
            "radius_format": plan.radius_format.name,
        },
        "bound": {
            "cosine_product": product,
            "cosine_product_with_edge_slack": spherical.cosine_product(tree, spherical.EDGE),
            "direction_error_bound": spherical.chord(product),
        },
        "keys": _keys_result(section, plan),
        "queries": [{name: value for name, value in query.items() if name != "error_over_bound"} for query in queries],
        "error_over_bound": {
            "largest": max(over_bound, default=None),
            "mean": sum(over_bound, Fraction(0)) / len(over_bound) if over_bound else None,
            "logits": len(over_bound),
        },
        "informative": {
            "condition": "tanh(eta / 2) below 0.5, eta from the bounds alone",
            "queries": informative,
            "of": len(queries),
            "share": Fraction(informative, len(queries)),
        },
        "coded_query": _coded_query_result(section, plan),
        "evaluation": {
            "peak_live_partials": plan.peak_live_partials,
            "limit": tree.levels,
            "dense_keys_rebuilt": 0,
        },
        "shapes": {shape["name"]: _shape_result(shape, plan.shapes[shape["name"]]) for shape in section["shapes"]},
        "traffic_claims": [
            {**claim, "limit": _traffic_ratio(_named(section, claim["shape"]), plan.shapes[claim["shape"]])}
            for claim in section["traffic_claims"]
        ],
    }


def _named(section: Document, name: str) -> Document:
    shape: Document = next(each for each in section["shapes"] if each["name"] == name)
    return shape


def _keys_result(section: Document, plan: Plan) -> Document:
    """Return a list a quantity, one entry a key. A zero key has no direction, so its inner product is None."""
    products: list[Fraction | None] = []
    errors = []
    for key in plan.keys:
        direction = spherical.direction(key.code, plan.tree)
        pairs = list(zip(direction, key.vector, strict=True))
        products.append(spherical.dot(direction, key.vector) / key.radius if key.radius else None)
        errors.append(spherical.norm([to_digits(key.code.radius * unit - exact) for unit, exact in pairs]))
    return {
        "count": len(plan.keys),
        "original_positions": summarised([stated["original_position"] for stated in section["keys"]]),
        "radii": summarised([key.radius for key in plan.keys]),
        "stored_radii": summarised([key.code.radius for key in plan.keys]),
        "direction_inner_products": summarised(products),
        "errors": summarised(errors),
        "error_bounds": summarised([key.error_bound for key in plan.keys]),
    }


def _query_result(section: Document, plan: Plan, index: int) -> Document:
    query = section["queries"][index]["query"]
    length, scale = spherical.norm(query), 1 / square_root(plan.tree.dimension)
    direct, dense = plan.direct[index], plan.dense[index]
    bounds = [spherical.logit_error_bound(length, key.error_bound) for key in plan.keys]
    moves = [to_digits(a - b) for a, b in zip(direct, dense, strict=True)]
    eta = spherical.half_range_bound([scale * each for each in bounds])
    measured_eta = spherical.half_range([scale * each for each in moves])
    before, after = _weights(dense, scale), _weights(direct, scale)
    distance = sum((abs(a - b) for a, b in zip(before, after, strict=True)), Fraction(0)) / 2
    reach = spherical.diameter(section["values"])
    limit = spherical.total_variation_bound(eta)
    moved = attention.difference(
        attention.output(after, section["values"]), attention.output(before, section["values"])
    )
    return {
        "norm": length,
        "direct_logits": summarised(direct),
        "dense_logits": summarised(dense),
        "largest_error": max(abs(each) for each in moves),
        "largest_error_over_bound": max(
            (abs(move) / bound for move, bound in zip(moves, bounds, strict=True) if bound), default=None
        ),
        "eta": measured_eta,
        "eta_bound": eta,
        "total_variation": distance,
        "total_variation_bound_of_measured_eta": spherical.total_variation_bound(measured_eta),
        "total_variation_bound": limit,
        "output_error": square_root(attention.squared_norm(moved)),
        "output_error_bound": limit * reach,
        "informative": limit < INFORMATIVE_BELOW,
        "error_over_bound": [abs(move) / bound if bound else None for move, bound in zip(moves, bounds, strict=True)],
    }


def _weights(logits: Sequence[Fraction], scale: Fraction) -> tuple[Fraction, ...]:
    scaled = [scale * each for each in logits]
    floor = max(scaled) - _LARGEST_SPREAD
    return attention.softmax([max(each, floor) for each in scaled])


def _coded_query_result(section: Document, plan: Plan) -> Document:
    """Return the variant of the paper: the query coded too, with its own bound.

    A query whose norm its radius format cannot hold is left out and counted.
    """
    chord = spherical.chord(spherical.cosine_product(plan.query_tree, spherical.EDGE))
    ratios: list[Fraction] = []
    refused = 0
    for stated, dense in zip(section["queries"], plan.dense, strict=True):
        query = [Fraction(each) for each in stated["query"]]
        length = spherical.norm(query)
        try:
            code = spherical.encode(query, plan.query_tree, plan.query_format)
        except (OverflowError, ValueError):
            refused += 1
            continue
        error = spherical.key_error_bound(length, code.radius, chord)
        for key, exact in zip(plan.keys, dense, strict=True):
            bound = spherical.coded_logit_error_bound(length, error, key.code.radius, key.error_bound)
            if bound:
                found = spherical.coded_logit(key.code, code, plan.tree, plan.query_tree)
                ratios.append(abs(found - exact) / bound)
    return {
        "level_widths_bits": list(plan.query_tree.widths),
        "radius_format": plan.query_format.name,
        "queries_refused": refused,
        "largest_error_over_bound": max(ratios, default=None),
    }


def _shape_result(shape: Document, tree: Tree) -> Document:
    coded, key, value = _shape_bits(shape, tree)
    product = spherical.cosine_product(tree)
    return {
        "dimension": tree.dimension,
        "level_widths_bits": list(tree.widths),
        "key_row_bits": coded,
        "key_row_bytes": Fraction(coded, 8),
        "dense_key_row_bytes": key // 8,
        "dense_value_row_bytes": value // 8,
        "dense_over_coded_key": Fraction(key, coded),
        "traffic_limit_when_nothing_is_dropped": _traffic_ratio(shape, tree),
        "cosine_product": product,
        "relative_logit_error_bound": spherical.chord(product),
        "table_entries": spherical.table_entries(tree),
    }


def ledgers(section: Document, plan: Plan) -> tuple[LedgerRow, ...]:
    """Return the bytes of the section's own keys: rows, pages, pointers, tables, and what a decode step reads."""
    pages, tree = section["pages"], plan.tree
    bits = spherical.key_row_bits(tree, plan.radius_format)
    count, rows = len(pages["table"]), len(plan.keys)
    page = spherical.page_bytes(bits, pages["tokens"], pages["header_bytes"], pages["alignment_bytes"])
    payload = pages["tokens"] * bits // 8
    pointers = count * pages["pointer_entry_bytes"]
    values = rows * len(section["values"][0]) * pages["value_scalar_bytes"]
    dense = rows * tree.dimension * pages["dense_key_scalar_bytes"]
    tables = spherical.table_entries(tree) * pages["table_scalar_bytes"]
    return (
        LedgerRow("angle_key_row_bits", bits, "bit", "sum over levels of nodes x width, and the radius"),
        LedgerRow("angle_page_header_bytes", pages["header_bytes"], "B", "one header a page"),
        LedgerRow("angle_page_payload_bytes", payload, "B", "rows a page x row bits / 8"),
        LedgerRow("angle_page_padding_bytes", page - payload - pages["header_bytes"], "B", "up to the alignment"),
        LedgerRow("angle_page_bytes", page, "B", "header + payload + padding"),
        LedgerRow("angle_pages", count, "page", "ceil(keys / rows a page)"),
        LedgerRow("angle_key_page_bytes", count * page, "B", "pages x page bytes"),
        LedgerRow("angle_pointer_table_bytes", pointers, "B", "pages x pointer entry"),
        LedgerRow("angle_tier_table_bytes", tables, "B", "cosines and sines: leaves, and each upper width"),
        LedgerRow("angle_value_bytes", values, "B", "keys x value channels x value scalar"),
        LedgerRow("angle_dense_key_bytes", dense, "B", "keys x d x dense key scalar"),
        LedgerRow(
            "angle_step_read_bytes", count * page + pointers + values, "B", "key pages and pointers once, dense values"
        ),
        LedgerRow("angle_dense_step_read_bytes", dense + values, "B", "dense keys and values once"),
    )


def tables(found: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the shapes with their bytes and bounds, and what each query's bound says."""
    shapes = Table(
        "Shapes: bytes of a coded key, and the limits that follow",
        (
            "shape",
            "bits a level",
            "key B",
            "dense over coded key",
            "traffic limit, nothing dropped",
            "bound over |q||k|",
        ),
        tuple(
            (
                name,
                str(row["level_widths_bits"]),
                str(row["key_row_bytes"]),
                str(row["dense_over_coded_key"]),
                str(row["traffic_limit_when_nothing_is_dropped"]),
                str(row["relative_logit_error_bound"]),
            )
            for name, row in found["shapes"].items()
        ),
    )
    queries = Table(
        "Queries: largest logit error over its bound, total variation measured and bounded",
        ("query", "norm", "largest error / bound", "total variation", "its bound", "informative"),
        tuple(
            (
                str(index),
                str(row["norm"]),
                str(row["largest_error_over_bound"]),
                str(row["total_variation"]),
                str(row["total_variation_bound"]),
                "yes" if row["informative"] else "no",
            )
            for index, row in enumerate(found["queries"])
        ),
    )
    return shapes, queries
