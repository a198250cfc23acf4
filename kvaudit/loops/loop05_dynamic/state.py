"""The values that a replay works on: owners, methods, published states, steps, and how a run went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop05_dynamic.diagnostics import DROP_COUNT
from kvaudit.model import Document, pointer
from kvaudit.policies import h2o, keyformer, retention, scissorhands
from kvaudit.policies.geometry import Geometry
from kvaudit.policies.retention import Number, Rows
from kvaudit.policies.scissorhands import AttentionRow

TITLES = {"scissorhands": "Scissorhands", "h2o": "H2O", "keyformer": "Keyformer"}
METHODS = tuple(TITLES)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who selects: a layer, a K/V head or a query head of it, and the query heads whose attention counts for it."""

    layer: int
    head: int
    query_heads: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """One method under audit: its policy, its owners, B or k of each owner, and where its part of the fixture is."""

    name: str
    policy: Document
    owners: tuple[Owner, ...]
    owner_kind: str
    reduction: str | None
    budgets: tuple[int, ...]
    geometry: Geometry
    score_bytes: int
    mass_tolerance: Number
    receipt_tolerance: Number

    @property
    def where(self) -> str:
        """The JSON pointer of the method's part of the fixture."""
        return pointer(self.name)

    def owner_name(self, index: int) -> str:
        """Return `layer 0 K/V head 1`."""
        owner = self.owners[index]
        return f"layer {owner.layer} {self.owner_kind} {owner.head}"


@dataclass(frozen=True, slots=True)
class State:
    """A published state: generations, frontier, and for each owner its rows with their scores.

    `scored` counts the scored transactions behind it (Keyformer's t). `history` is [owner][query head] attention rows
    (Scissorhands), `noise` is [owner][query head] the noise of each retained position (Keyformer that draws once).
    """

    state_generation: int
    cache_generation: int
    frontier: int
    scored: int
    rows: tuple[Rows, ...]
    history: tuple[tuple[tuple[AttentionRow, ...], ...], ...]
    noise: tuple[tuple[Mapping[int, Number], ...], ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """What the score phase computed, an item an owner; `rows` are the candidate's rows with their new scores.

    `logits` are Keyformer's regularised ones, [owner][query head][query row][visible row], empty for the others.
    `increments` is None where the score is not a sum (Scissorhands).
    """

    rows: tuple[Rows, ...]
    increments: tuple[tuple[Number, ...], ...] | None
    temperature: Fraction | None
    logits: tuple[Any, ...]
    history: tuple[tuple[tuple[AttentionRow, ...], ...], ...]
    noise: tuple[tuple[Mapping[int, Number], ...], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A published transaction, with everything that the report says of it."""

    record: int
    label: str
    speculative: bool
    before: State
    evidence: Any
    scored: Scored
    protected: tuple[tuple[int, ...], ...]
    kept: tuple[tuple[int, ...], ...]
    gather_rows: tuple[list[int], ...]
    after: State

    def evicted(self) -> list[list[int]]:
        """Return the positions that leave, ascending, by owner."""
        return [sorted(set(rows.positions) - set(kept)) for rows, kept in zip(self.scored.rows, self.kept, strict=True)]


@dataclass(frozen=True, slots=True)
class Trace:
    """How a run went. `steps` are the transactions that are published for good, in order."""

    parent: State
    steps: tuple[Step, ...]
    final: State
    cancelled: int
    rolled_back: int


def single_row(step: Step, owner: int) -> Sequence[Number] | None:
    """Return the regularised logits of the only query row that gives this owner's increment, None if there are more.

    A sum of several rows follows no exponential, and a row that sees only a part of the candidate no common one.
    """
    heads = step.scored.logits[owner]
    row: Sequence[Number] = heads[0][0]
    whole = len(row) == len(step.scored.rows[owner].positions)
    return row if len(heads) == 1 and len(heads[0]) == 1 and whole else None


def schedule(policy: Document) -> keyformer.Schedule:
    """Return the temperature schedule that a Keyformer policy declares."""
    return keyformer.Schedule(
        initial=policy["initial_temperature"],
        final=policy["final_temperature"],
        expected_transactions=policy["expected_transactions"],
        beyond=policy["beyond_schedule"],
        budgets={one["from_transaction"]: one["expected_transactions"] for one in policy["declared_budgets"]},
    )


def kept_positions(method: Method, owner: int, rows: Rows) -> tuple[int, ...]:
    """Return what one owner keeps of its scored candidate."""
    policy, budget = method.policy, method.budgets[owner]
    if method.name == "h2o":
        return h2o.select(rows, policy["heavy_rows"], policy["recent_rows"])
    if method.name == "keyformer":
        return keyformer.select(rows, policy["key_rows"], policy["recent_rows"])
    if len(rows.positions) <= budget:
        return rows.positions
    least, largest = scissorhands.drop_limits(len(rows.positions), budget, policy["recent_rows"])
    if not least <= policy["drop_rows"] <= largest:
        reason = (
            f"expected {least} to {largest} of {len(rows.positions)} candidate rows ({method.owner_name(owner)}), "
            f"found {policy['drop_rows']}"
        )
        raise ContractViolation(DROP_COUNT, "/scissorhands/policy/drop_rows", reason)
    return scissorhands.compress(rows.positions, rows.scores, policy["recent_rows"], policy["drop_rows"])


def low_score_counts(
    method: Method, positions: Sequence[int], history: Sequence[Sequence[AttentionRow]], window: int, t: int
) -> tuple[Number, ...]:
    """Return the low-score counts of one owner over the last `window` rows of each of its query heads."""
    return retention.reduced(
        [scissorhands.low_score_counts(positions, rows[-window:], t) for rows in history], method.reduction
    )
