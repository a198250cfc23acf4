"""Loop 5 beyond its suites: a second, plain replay of each method, other legal settings, no input that crashes it."""

import contextlib
import copy
import random
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import canonical, schema
from kvaudit.evidence.declared import declared, observe
from kvaudit.evidence.strict_json import parse_json
from kvaudit.loops import loop05_dynamic as loop05

LOOP = loop05.LOOP
ROOT = Path(__file__).parents[2]
PATH = ROOT / "fixtures" / LOOP.id / "fixture.json"
PHASES = ("append", "attend", "score", "protect", "select", "gather", "publish")


def owners_of(layers, head_map, owner):
    """[(layer, head, its query heads)], the order in which a fixture lists owners."""
    if owner == "query_head":
        groups = [(head, [head]) for head in range(len(head_map))]
    else:
        groups = [(kv, [q for q, mapped in enumerate(head_map) if mapped == kv]) for kv in range(max(head_map) + 1)]
    return [(layer, head, heads) for layer in range(layers) for head, heads in groups]


def reduce_heads(per_head, reduction):
    columns = list(zip(*per_head, strict=True))
    if reduction == "max":
        return [max(column) for column in columns]
    return [sum(column) / (len(column) if reduction == "mean" else 1) for column in columns]


def shares(logits, temperature):
    with mpmath.workdps(40):
        scaled = [Fraction(y) / Fraction(temperature) for y in logits]
        powers = [mpmath.exp(mpmath.mpf(y.numerator) / y.denominator) for y in scaled]
        return [power / mpmath.fsum(powers) for power in powers]


def decimal(value):
    return Fraction(mpmath.nstr(value, 15)) if isinstance(value, mpmath.mpf) else value


class Runtime:
    """A runtime that keeps dicts by original position and logs what a fixture states. Shares no code with kvaudit."""

    def __init__(self, method, policy, owners, reduction, parent, row_bytes=16, score_bytes=4, temperature=None):
        self.method, self.policy, self.owners, self.reduction = method, policy, owners, reduction
        self.row_bytes, self.score_bytes, self.temperature = row_bytes, score_bytes, temperature
        self.parent = parent
        self.rows = [dict(zip(one["positions"], one["scores"], strict=True)) for one in parent["owners"]]
        self.history = [
            [[(row["query_position"], dict(zip(row["positions"], row["weights"], strict=True))) for row in rows]
             for rows in one.get("history", [])]
            for one in parent["owners"]
        ]  # fmt: skip
        self.frontier, self.scored = parent["frontier"], parent["scored_transactions"]
        self.state, self.cache = parent["state_generation"], parent["cache_generation"]
        self.issued_state, self.issued_cache = self.state, self.cache
        self.records, self.committed, self.branch = [], None, []

    def run(self):
        return {"request_id": f"request-{self.method}", "request_generation": 1, "parent": self.parent,
                "records": self.records}  # fmt: skip

    def snapshot(self):
        return copy.deepcopy((self.rows, self.history, self.frontier, self.scored, self.state, self.cache))

    def restore(self, snapshot):
        self.rows, self.history, self.frontier, self.scored, self.state, self.cache = copy.deepcopy(snapshot)

    def step(self, evidence, gumbel=None, rows=1, queries=None, speculative=False, cancel_after=None):
        """`evidence(owner, query_head, query position, positions)` gives weights or logits, `gumbel` the noise."""
        before = self.snapshot()
        if speculative and not self.branch:
            self.committed = before
        self.issued_state += 1
        appended = list(range(self.frontier, self.frontier + rows))
        queries = queries or appended
        candidate = [[*held, *appended] for held in self.rows]
        seen = [[[p for p in positions if p <= query] for query in queries] for positions in candidate]
        cube = [
            [[list(evidence(owner, head, query, visible)) for query, visible in zip(queries, seen[owner], strict=True)]
             for head in self.owners[owner][2]]
            for owner in range(len(self.owners))
        ]  # fmt: skip
        name = "logits" if self.method == "keyformer" else "weights"
        events = [
            {"phase": "append", "positions": appended, "candidate_positions": candidate},
            {"phase": "attend", "query_positions": queries, name: cube},
        ]
        score = {"phase": "score"}
        increments = None
        if self.method == "keyformer":
            temperature = self.temperature(self.scored)
            noise = [
                [[list(gumbel(owner, head, query, visible))
                  for query, visible in zip(queries, seen[owner], strict=True)]
                 for head in self.owners[owner][2]]
                for owner in range(len(self.owners))
            ]  # fmt: skip
            score |= {"temperature": temperature, "gumbel": noise}
            increments = [
                reduce_heads(
                    [self.summed([shares([x + z for x, z in zip(row, zeta, strict=True)], temperature)
                                  for row, zeta in zip(logits, zetas, strict=True)], len(positions))
                     for logits, zetas in zip(heads, noises, strict=True)], self.reduction)
                for heads, noises, positions in zip(cube, noise, candidate, strict=True)
            ]  # fmt: skip
        elif self.method == "h2o":
            increments = [
                reduce_heads([self.summed(rows_, len(positions)) for rows_ in heads], self.reduction)
                for heads, positions in zip(cube, candidate, strict=True)
            ]
        else:
            for owner, heads in enumerate(cube):
                for head, weights in enumerate(heads):
                    self.history[owner][head] += [
                        (query, dict(zip(seen[owner][i], weights[i], strict=True))) for i, query in enumerate(queries)
                    ]
        old = [list(held) for held in self.rows]
        for owner, positions in enumerate(candidate):
            if increments is None:
                t = appended[-1] + 1
                window = self.policy["history_rows"]
                counts = [
                    [sum(1 for _, row in rows_[-window:] if p in row and row[p] * t < 1) for p in positions]
                    for rows_ in self.history[owner]
                ]
                self.rows[owner] = dict(zip(positions, reduce_heads(counts, self.reduction), strict=True))
            else:
                self.rows[owner] = {
                    p: self.rows[owner].get(p, 0) + delta for p, delta in zip(positions, increments[owner], strict=True)
                }
        scores = [[decimal(score_) for score_ in held.values()] for held in self.rows]
        carried = [
            [held.index(p) if p in held else None for p in positions]
            for held, positions in zip(old, candidate, strict=True)
        ]
        events.append({**score, "carried_rows": carried, "scores": scores})
        recent = self.policy["recent_rows"]
        protected = [positions[len(positions) - min(recent, len(positions)) :] for positions in candidate]
        events.append({"phase": "protect", "positions": protected})
        kept = [self.keep(owner, self.rows[owner], protected[owner]) for owner in range(len(candidate))]
        historical = [[p for p in one if p not in new] for one, new in zip(kept, protected, strict=True)]
        events.append({"phase": "select", "positions": historical})
        gather = [[positions.index(p) for p in one] for positions, one in zip(candidate, kept, strict=True)]
        lists = ("key_rows", "value_rows", "score_rows", "position_rows")
        events.append({"phase": "gather", **{each: copy.deepcopy(gather) for each in lists}})
        kept_rows = sum(map(len, kept))
        payload = {
            "candidate_bytes": self.row_bytes * sum(map(len, candidate)),
            "published_bytes": self.row_bytes * kept_rows,
            "score_bytes": self.score_bytes * kept_rows,
        }
        record = {"kind": "transaction", "request_id": f"request-{self.method}", "request_generation": 1,
                  "parent_state_generation": self.state, "parent_cache_generation": self.cache,
                  "state_generation": self.issued_state, "speculative": speculative}  # fmt: skip
        if cancel_after is not None:
            self.restore(before)
            events = [*events[: PHASES.index(cancel_after) + 1], {"phase": "cancel", "reason": "preempted"}]
            self.records.append({**record, "events": events})
            return
        self.issued_cache += 1
        events.append({"phase": "publish", "state_generation": self.issued_state, "cache_generation": self.issued_cache,
                       "frontier": self.frontier + rows, "positions": kept, "payload": payload})  # fmt: skip
        self.records.append({**record, "events": events})
        self.rows = [{p: held[p] for p in one} for held, one in zip(self.rows, kept, strict=True)]
        self.state, self.cache = self.issued_state, self.issued_cache
        self.frontier, self.scored = self.frontier + rows, self.scored + 1
        if speculative:
            self.branch.append(self.snapshot())

    @staticmethod
    def summed(rows, width):
        return [sum(row[column] for row in rows if column < len(row)) for column in range(width)]

    def keep(self, owner, scores, protected):
        history = [p for p in scores if p not in protected]
        if self.method == "scissorhands":
            layer_budgets = self.policy["layer_budget_rows"]
            per_layer = len(self.owners) // len(layer_budgets)
            if len(scores) <= layer_budgets[self.owners[owner][0]] // per_layer:
                return list(scores)
            dropped = sorted(history, key=lambda p: (-scores[p], p))[: self.policy["drop_rows"]]
            return [p for p in scores if p not in dropped]
        width = self.policy["heavy_rows" if self.method == "h2o" else "key_rows"]
        if len(scores) <= width + self.policy["recent_rows"]:
            return list(scores)
        return sorted([*sorted(history, key=lambda p: (-scores[p], p))[:width], *protected])

    def resolve(self, accepted):
        self.restore(self.branch[accepted - 1] if accepted else self.committed)
        self.branch = []
        owners = [{"positions": list(held), "scores": [decimal(s) for s in held.values()]} for held in self.rows]
        self.records.append(
            {"kind": "resolve", "accepted_transactions": accepted, "state_generation": self.state, "owners": owners}
        )


SHIPPED = parse_json(PATH.read_bytes())


def tau(policy):
    """The schedule by the formula, with the declared behaviour beyond T and no new generation length."""
    rise = Fraction(policy["final_temperature"]) - policy["initial_temperature"]

    def at(transaction):
        if policy["beyond_schedule"] == "clamp":
            transaction = min(transaction, policy["expected_transactions"])
        return policy["initial_temperature"] + rise * transaction / policy["expected_transactions"]

    return at


def fixture_of(choose, plan, *, layers=1, head_map=(0,), owner="kv_head", reduction=None, largest=2, recent=2,
               drop=2, window=3, layer_budgets=None, noise="every_forward", **schedule):  # fmt: skip
    """A valid fixture from three runtimes with random evidence. `plan` calls their steps: (name, keyword arguments)."""
    owners = owners_of(layers, head_map, owner)
    per_layer, budget = len(owners) // layers, largest + recent
    policies = {
        "scissorhands": {"layer_budget_rows": layer_budgets or [budget * per_layer] * layers, "history_rows": window,
                         "recent_rows": recent, "drop_rows": drop},
        "h2o": {"heavy_rows": largest, "recent_rows": recent, "prompt_handoff": "bulk_drop"},
        "keyformer": {"key_rows": largest, "recent_rows": recent, "initial_temperature": 1, "final_temperature": 2,
                      "expected_transactions": 3, "beyond_schedule": "clamp", "declared_budgets": [], "noise": noise,
                      **schedule},
    }  # fmt: skip
    fixture = copy.deepcopy(SHIPPED)
    kv_heads = max(head_map) + 1
    fixture["cache"].update(
        layers=layers, query_heads=len(head_map), kv_heads=kv_heads, q_to_kv_head_map=list(head_map)
    )
    fixture["selection"] = {"owner": owner, "reduction": reduction}
    fixture["budget"] = {"rows_per_owner": budget, "recent_rows": recent}

    def weights(_owner, _head, _query, positions):
        parts = [choose.randint(1, 9) for _ in positions]
        return [Fraction(part, sum(parts)) for part in parts]

    def logits(_owner, _head, _query, positions):
        return [Fraction(choose.randint(-30, 30), 10) for _ in positions]

    drawn = {}

    def gumbel(owner_, head, _query, positions):
        if noise == "once":
            return [drawn.setdefault((owner_, head, p), Fraction(choose.randint(-20, 40), 10)) for p in positions]
        return [Fraction(choose.randint(-20, 40), 10) for _ in positions]

    for method, policy in policies.items():
        history = [{"history": [[] for _ in heads]} if method == "scissorhands" else {} for *_, heads in owners]
        parent = {
            "state_generation": 5,
            "cache_generation": 50,
            "frontier": 0,
            "scored_transactions": 0,
            "owners": [{"positions": [], "scores": [], **one} for one in history],
        }
        runtime = Runtime(method, policy, owners, reduction, parent, temperature=tau(policies["keyformer"]))
        for name, arguments in plan:
            if name == "step":
                evidence = (logits, gumbel) if method == "keyformer" else (weights,)
                runtime.step(*evidence, **arguments)
            else:
                runtime.resolve(**arguments)
        fixture[method].update(policy=policy, run=runtime.run())
    fixture["scissorhands"]["persistence_probes"] = {}
    fixture["keyformer"]["odds_probes"] = {}
    fixture["keyformer"]["batch_variant"] = fixture["h2o"]["prompt_variant"] = None
    fixture["future_probes"] = {}
    fixture["beam_reorder"] = fixture["shared_prefix"] = None
    return fixture


def step(**arguments):
    return "step", arguments


PLAN = [step(rows=6), step(), step(cancel_after="attend"), step(speculative=True), step(speculative=True),
        step(speculative=True), ("resolve", {"accepted": 1}), step()]  # fmt: skip


def violation(fixture):
    with pytest.raises(ContractViolation) as caught:
        observe(LOOP, fixture)
    return caught.value.diagnostic.code, caught.value.pointer


def accepted(fixture):
    """The evidence of a fixture that is legal, its results in the shape that the schema demands."""
    evidence = loop05.oracle(fixture)
    written = parse_json(canonical.json_text(declared(evidence)).encode())
    assert schema.defects(LOOP.fixture_schema, {**fixture, "declared": written}) == ()
    return evidence


def finals(fixture):
    runs = loop05.oracle(fixture).results["runs"]
    return {method: (run["final_positions"], run["final_scores"]) for method, run in runs.items()}


def test_a_real_models_shape():
    """Llama-3.1-8B: 32 layers, 32 query heads on 8 K/V heads, d_h 128; the votes of four query heads add up."""
    plan = [step(rows=5, queries=[4]), step()]
    head_map = [head // 4 for head in range(32)]
    fixture = fixture_of(
        random.Random(1), plan, layers=32, head_map=head_map, owner="reduced_query_heads", reduction="sum"
    )
    fixture["cache"]["head_dimension"] = 128
    for method in loop05.METHODS:
        for record in fixture[method]["run"]["records"]:
            payload = record["events"][-1]["payload"]
            payload["candidate_bytes"] *= 32
            payload["published_bytes"] *= 32
    evidence = loop05.oracle(fixture)
    row = 128 * 2 * 2
    assert {one.name: one.value for one in evidence.ledgers} == {
        "source_rows": 256 * 6 * row,
        "append_before_evict_peak": 256 * 5 * row,
        "published_rows": 256 * 4 * row,
        "score_state": 256 * 4 * 4,
    }
    assert len(evidence.snapshots) == 3 * 2 * 256
    assert evidence.results["runs"]["h2o"]["final_positions"]["count"] == 256 * 4
    assert evidence.results["keyformer"]["odds"][1]["pairs_of_cumulative_scores"] is None  # a sum of four query heads


@pytest.mark.parametrize("noise", ["every_forward", "once"])
@pytest.mark.parametrize(
    ("owner", "reduction"),
    [("query_head", None), *(("reduced_query_heads", reduction) for reduction in ("sum", "mean", "max"))],
)
def test_every_selection_owner_agrees_with_a_second_replay(owner, reduction, noise):
    """The receipts come from `Runtime`, which shares no code with the oracle: an accepted fixture is an agreement."""
    for seed in range(2):
        head_map = [0, 0, 1, 0] if seed else [0, 0, 1, 1]
        fixture = fixture_of(random.Random(seed), PLAN, layers=2, head_map=head_map, owner=owner, reduction=reduction,
                             noise=noise, drop=2)  # fmt: skip
        evidence = accepted(fixture)
        assert evidence.results["geometry"]["selection_owners"] == 2 * (4 if owner == "query_head" else 2)
        assert evidence.results["runs"]["h2o"]["rolled_back_transactions"] == 2
        assert evidence.results["runs"]["h2o"]["cancelled_transactions"] == 1


@pytest.mark.parametrize(("largest", "recent"), [(4, 0), (0, 4), (1, 3), (3, 1)])
def test_heavy_or_recent_width_may_be_zero(largest, recent):
    fixture = fixture_of(random.Random(3), [step(rows=5), *PLAN[1:]], largest=largest, recent=recent, drop=1)
    accepted(fixture)
    if not largest:
        assert finals(fixture)["h2o"][0] == [[4, 5, 6, 7]]  # a window


def test_with_no_recents_the_new_row_itself_may_leave():
    fixture = fixture_of(random.Random(0), [step(rows=1)], largest=1, recent=0, drop=1)
    runtime = Runtime(
        "h2o", fixture["h2o"]["policy"], owners_of(1, [0], "kv_head"), None, fixture["h2o"]["run"]["parent"]
    )
    for _ in range(3):
        runtime.step(lambda _o, _h, _q, positions: [Fraction(9, 10), Fraction(1, 10)][: len(positions)] or [1])
    assert runtime.rows[0].keys() == {0}


def test_below_the_budget_every_row_stays_and_scores_grow():
    fixture = fixture_of(random.Random(4), [step(rows=2), step()], largest=4, recent=4)
    fixture["h2o"]["policy"]["prompt_handoff"] = "one_entry"
    steps = accepted(fixture).results["runs"]["h2o"]["steps"]
    assert [one["kept_positions"] for one in steps] == [[[0, 1]], [[0, 1, 2]]]
    assert sum(steps[1]["kept_scores"][0]) == 3  # three queries have voted with mass 1 each


def test_scissorhands_layers_may_have_budgets_of_their_own():
    plan = [step(rows=8)]
    fixture = fixture_of(random.Random(5), plan, layers=3, head_map=[0, 1], layer_budgets=[4, 8, 12], drop=6)
    results = accepted(fixture).results
    assert results["scissorhands"]["layer_budgets"] == {
        "rows": [4, 8, 12], "rows_per_owner": [2, 4, 6], "uniform": False, "later_layers_have_less": False,
    }  # fmt: skip
    assert [len(rows) for rows in results["runs"]["scissorhands"]["final_positions"]] == [2] * 6
    fixture["scissorhands"]["policy"]["layer_budget_rows"] = [4, 7, 13]
    assert violation(fixture) == ("dynamic.layer-budget-mismatch", "/scissorhands/policy/layer_budget_rows/1")


@pytest.mark.parametrize(("beyond", "last"), [("clamp", 2), ("continue_rising", Fraction(8, 3))])
def test_past_the_schedule(beyond, last):
    plan = [step(rows=5), *[step()] * 5]
    fixture = fixture_of(random.Random(6), plan, beyond_schedule=beyond)
    steps = accepted(fixture).results["runs"]["keyformer"]["steps"]
    assert [one["temperature"] for one in steps][:4] == [1, Fraction(4, 3), Fraction(5, 3), 2]
    assert steps[5]["temperature"] == last
    fixture["keyformer"]["policy"]["beyond_schedule"] = "recompute"
    assert violation(fixture) == ("dynamic.temperature-past-schedule", "/keyformer/run/records/4/events/2/temperature")


def test_a_new_generation_length_bends_the_schedule_from_its_step_on():
    fixture = fixture_of(random.Random(7), [step(rows=5), step()], beyond_schedule="recompute")
    bent = {0: Fraction(1), 1: Fraction(4, 3), 2: 1 + Fraction(2, 8), 3: 1 + Fraction(3, 8)}
    policy = {
        **fixture["keyformer"]["policy"],
        "declared_budgets": [{"from_transaction": 2, "expected_transactions": 8}],
    }
    choose = random.Random(8)
    evidence = [lambda _o, _h, _q, positions: [Fraction(choose.randint(-9, 9), 3) for _ in positions]] * 2
    runs = {}
    for method in loop05.METHODS:
        source = fixture_of(random.Random(9), [step(rows=5), *[step()] * 3])
        runs[method] = source[method]["run"]
    runtime = Runtime("keyformer", policy, owners_of(1, [0], "kv_head"), None, runs["keyformer"]["parent"],
                      temperature=bent.get)  # fmt: skip
    for rows in (5, 1, 1, 1):
        runtime.step(*evidence, rows=rows)
    for method in loop05.METHODS:
        fixture[method]["run"] = runs[method]
    fixture["keyformer"].update(policy=policy, run=runtime.run())
    steps = accepted(fixture).results["runs"]["keyformer"]["steps"]
    assert [one["temperature"] for one in steps] == list(bent.values())


def test_a_rolled_back_branch_leaves_no_trace_in_rows_and_scores():
    """The same committed steps with and without a rejected branch in between end in the same state."""
    fixture = copy.deepcopy(SHIPPED)
    before = finals(fixture)
    records = fixture["h2o"]["run"]["records"]
    del records[1:3]
    assert finals(fixture)["h2o"] == before["h2o"]
    fixture = copy.deepcopy(SHIPPED)
    del fixture["keyformer"]["run"]["records"][1]  # the cancelled step
    assert finals(fixture)["keyformer"] == before["keyformer"]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_branch_is_accepted_up_to_a_point(count):
    plan = [step(rows=4), *[step(speculative=True)] * 3, ("resolve", {"accepted": count}), step()]
    results = accepted(fixture_of(random.Random(10), plan)).results
    assert results["final_frontier"] == 4 + count + 1
    assert [len(run["steps"]) for run in results["runs"].values()] == [2 + count] * 3
    assert [run["rolled_back_transactions"] for run in results["runs"].values()] == [3 - count] * 3
    plan = plan[:-1]
    assert accepted(fixture_of(random.Random(10), plan)).results["final_frontier"] == 4 + count


def test_an_unresolved_branch_at_the_end_is_refused():
    fixture = fixture_of(random.Random(11), [step(rows=4), step(speculative=True)])
    assert violation(fixture) == ("dynamic.speculation-unresolved", "/scissorhands/run/records")


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_a_transaction_may_be_cancelled_after_any_phase_before_publication(phase):
    plan = [step(rows=5), step(cancel_after=phase), step()]
    results = accepted(fixture_of(random.Random(12), plan)).results
    assert {run["cancelled_transactions"] for run in results["runs"].values()} == {1}
    assert results["final_frontier"] == 6


def test_a_cancelled_transaction_is_judged_as_far_as_it_came():
    fixture = copy.deepcopy(SHIPPED)
    fixture["keyformer"]["run"]["records"][1]["events"][2]["scores"][0][4] += 1
    assert violation(fixture) == ("dynamic.score-mismatch", "/keyformer/run/records/1/events/2/scores/0/4")


@pytest.mark.parametrize("swap", [(a, b) for b in range(7) for a in range(b)])
def test_no_two_phases_may_change_places(swap):
    fixture = copy.deepcopy(SHIPPED)
    events = fixture["h2o"]["run"]["records"][0]["events"]
    events[swap[0]], events[swap[1]] = events[swap[1]], events[swap[0]]
    assert violation(fixture) == ("dynamic.phase-order", f"/h2o/run/records/0/events/{swap[0]}/phase")


@pytest.mark.parametrize("name", ["key_rows", "value_rows", "score_rows", "position_rows"])
@pytest.mark.parametrize("row", range(4))
def test_every_wrong_gather_row_is_found(name, row):
    fixture = copy.deepcopy(SHIPPED)
    fixture["keyformer"]["run"]["records"][2]["events"][5][name][0][row] = 4 - row
    assert violation(fixture) == (
        "dynamic.gather-permutations-differ", f"/keyformer/run/records/2/events/5/{name}/0",
    )  # fmt: skip


def test_several_prompt_queries_vote_causally():
    """Three prompt rows with equal logits: row j gets 1/(q+1) of each query q >= j, at any temperature."""
    fixture = fixture_of(random.Random(13), [step(rows=3)], largest=4, recent=0)
    event = fixture["keyformer"]["run"]["records"][0]["events"]
    event[1]["logits"] = [[[[1], [1, 1], [1, 1, 1]]]]
    event[2]["gumbel"] = [[[[0], [0, 0], [0, 0, 0]]]]
    expected = [1 + Fraction(1, 2) + Fraction(1, 3), Fraction(1, 2) + Fraction(1, 3), Fraction(1, 3)]
    event[2]["scores"] = [expected]
    results = accepted(fixture).results
    assert results["keyformer"]["odds"] == [
        {
            "record": 0,
            "query_rows": 3,
            "pairs": 0 + 1 + 3,
            "pairs_of_increments_with_exponential_odds": 4,
            "pairs_of_cumulative_scores": None,
            "pairs_of_cumulative_scores_with_exponential_odds": None,
        }
    ]


def test_no_transaction_at_all():
    """Cancelled runs leave the parent: nothing is published, and what does not exist is null."""
    fixture = fixture_of(random.Random(14), [step(rows=2, cancel_after="append")])
    evidence = accepted(fixture)
    assert evidence.snapshots == ()
    assert evidence.results["payload"]["h2o"]["candidate_bytes"] is None
    assert evidence.results["scissorhands"]["compression"] is None
    assert evidence.results["keyformer"]["alternatives"]["ordinary_attention"] is None
    assert {row.name: row.value for row in evidence.ledgers}["published_rows"] == 0


def test_the_printed_slice_and_window_change_what_scissorhands_keeps():
    alternatives = loop05.oracle(SHIPPED).results["scissorhands"]["alternatives"]
    assert alternatives["printed_slice"]["kept_positions"] == [[0, 1, 2, 3]]
    # The fourth history row gives position 2 a second low score; with position 3 it ties, and the lower one leaves.
    assert alternatives["printed_window"] == {
        "rows": 4,
        "is_the_declared_width": False,
        "low_score_counts": [[3, 0, 2, 2, 1, 1]],
        "kept_positions": [[1, 3, 4, 5]],
    }


def test_the_bulk_hand_off_keeps_a_row_that_one_in_one_out_has_deleted():
    prompt = loop05.oracle(SHIPPED).results["h2o"]["alternatives"]["prompt"]
    assert (prompt["kept_in_bulk"], prompt["kept_row_by_row"]) == ([0, 1, 4, 5], [0, 2, 4, 5])


def test_attention_mass_within_the_declared_tolerance():
    fixture = copy.deepcopy(SHIPPED)
    row = fixture["h2o"]["run"]["records"][0]["events"][1]["weights"][0][0][0]
    row[0] += Fraction(1, 10**6)
    assert violation(fixture)[0] == "dynamic.attention-mass"
    fixture["tolerances"] = {"attention_mass": Fraction(1, 10**5), "receipt": Fraction(1, 10**5)}
    accepted(fixture)


def test_the_declared_object_is_the_recomputed_one():
    assert declared(loop05.oracle(SHIPPED))["ledgers"] == SHIPPED["declared"]["ledgers"]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in items:
        yield from places(member, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


INPUTS = [path for path in places(SHIPPED) if path and path[0] != "declared"]


@pytest.mark.parametrize("seed", range(300))
def test_no_valid_document_crashes_the_oracle(seed):
    """One to three random edits; if the schema lets them pass, the oracle answers or names a contract."""
    choose = random.Random(seed)
    fixture = copy.deepcopy(SHIPPED)
    touched = set()
    for _ in range(choose.randint(1, 3)):
        path = choose.choice(INPUTS)
        with contextlib.suppress(KeyError, IndexError, TypeError):
            edit(at(fixture, path[:-1]), path[-1], choose)
            touched.add(path[0])
    if schema.member_defects(LOOP.fixture_schema, fixture, touched):
        return
    with contextlib.suppress(ContractViolation):
        declared(loop05.oracle(fixture))


def edit(parent, key, choose):
    value = parent[key]
    if isinstance(value, bool):
        parent[key] = not value
    elif isinstance(value, int):
        parent[key] = choose.choice([0, 1, value + 1, max(0, value - 1), 2 * value, 10**6])
    elif isinstance(value, Fraction):
        parent[key] = choose.choice([Fraction(0), 1, value / 2, -value, Fraction(1, 10**400), Fraction(10**6)])
    elif isinstance(value, list):
        parent[key] = choose.choice([[], value[:-1], value + value[-1:], value[::-1], *([sorted(value)] * flat(value))])
    elif value is None:
        parent[key] = choose.choice([0, "sum"])
    elif isinstance(value, str):
        words = ["query_head", "reduced_query_heads", "bulk_drop", "continue_rising", "recompute", "once", "x"]
        parent[key] = choose.choice(words)


def flat(value):
    return all(isinstance(item, int) for item in value)


def test_a_long_parent_costs_its_rows_not_its_history():
    """A parent at a frontier of a million with four rows: nothing is built over the positions that are gone."""
    fixture = fixture_of(random.Random(15), [step(rows=4)])
    frontier = 10**6
    for method in loop05.METHODS:
        run = fixture[method]["run"]
        run["records"] = []
        run["parent"].update(frontier=frontier)
        run["parent"]["owners"][0].update(positions=[0, 7, frontier - 2, frontier - 1], scores=[1, 2, 3, 4])
    results = accepted(fixture).results
    assert results["permanent_deletion"]["h2o"] == {
        "deleted_intervals": [[[1, 7], [8, frontier - 2]]],
        "deleted_rows_in_later_candidates": 0,
    }
