"""A run as a state machine: every record starts from what the one before it published."""

from bisect import bisect_right
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.loops.loop05_dynamic.diagnostics import (
    APPEND_POSITION,
    BULK_DROP,
    CANCELLED_PUBLISHED,
    CANDIDATE,
    CARRIED,
    DELETED_RETURNED,
    EVIDENCE_SHAPE,
    FRONTIER,
    GATHER_ROWS,
    GENERATION_REISSUED,
    HISTORY,
    INCOMPLETE,
    NOT_OVER_CANDIDATE,
    OWNER_COUNT,
    PARENT_GENERATION,
    PARENT_OVER_BUDGET,
    PARENT_STATE,
    PAYLOAD,
    PERMUTATIONS,
    PHASE_ORDER,
    PROTECTED,
    PUBLISHED_GENERATION,
    PUBLISHED_POSITIONS,
    QUERY,
    REQUEST,
    REQUEST_GENERATION,
    RESOLUTION,
    ROLLBACK,
    SELECTED,
    SEVERAL_ROWS,
    UNRESOLVED,
)
from kvaudit.loops.loop05_dynamic.requirements import (
    every_query_row,
    require_ascending,
    require_count,
    require_evidence,
    require_lists,
    require_mass,
    require_row,
    require_spread,
    within,
)
from kvaudit.loops.loop05_dynamic.scoring import attention_row, judge_score
from kvaudit.loops.loop05_dynamic.state import Method, Owner, State, Step, Trace, kept_positions
from kvaudit.model import Document, joined, pointer
from kvaudit.policies import retention
from kvaudit.policies.retention import ATTEND, GATHER, PHASES, PROTECT, PUBLISH, SCORE, SELECT, Number, Rows

CANCEL = "cancel"
GATHERED = ("key_rows", "value_rows", "score_rows", "position_rows")


def replay(method: Method, run: Document) -> Trace:
    """Replay one run record by record, judging every receipt."""
    parent = committed = state = _judge_parent(method, run["parent"])
    state_issued, cache_issued = parent.state_generation, parent.cache_generation
    steps: list[Step] = []
    branch: list[Step] = []
    cancelled = rolled_back = 0
    for index, record in enumerate(run["records"]):
        where = method.where + pointer("run", "records", index)
        if record["kind"] == "resolve":
            accepted = _judge_resolution(method, record, branch, committed, where)
            rolled_back += len(branch) - accepted
            steps += branch[:accepted]
            state = committed = steps[-1].after if steps else parent
            branch = []
            continue
        if branch and not record["speculative"]:
            reason = f"{len(branch)} speculative transactions are unresolved"
            raise ContractViolation(UNRESOLVED, where + "/speculative", reason)
        _judge_identity(record, run, state, state_issued, where)
        state_issued = record["state_generation"]
        step = _transaction(method, record, index, state, cache_issued, where)
        if step is None:
            cancelled += 1
            continue
        state, cache_issued = step.after, step.after.cache_generation
        if record["speculative"]:
            branch.append(step)
        else:
            steps.append(step)
            committed = state
    if branch:
        where = method.where + pointer("run", "records")
        raise ContractViolation(UNRESOLVED, where, f"{len(branch)} speculative transactions are unresolved at the end")
    return Trace(parent, tuple(steps), state, cancelled, rolled_back)


def _judge_parent(method: Method, parent: Document) -> State:
    frontier, owners = parent["frontier"], method.where + pointer("run", "parent", "owners")
    for index, (stated, owner, budget) in enumerate(zip(parent["owners"], method.owners, method.budgets, strict=True)):
        where = owners + pointer(index)
        positions = stated["positions"]
        require_ascending(positions, frontier, PARENT_STATE, where + "/positions")
        if len(stated["scores"]) != len(positions):
            reason = f"expected {len(positions)} scores, found {len(stated['scores'])}"
            raise ContractViolation(PARENT_STATE, where + "/scores", reason)
        if len(positions) > budget:
            reason = f"expected at most {budget} rows, found {len(positions)}"
            raise ContractViolation(PARENT_OVER_BUDGET, where + "/positions", reason)
        if method.name == "scissorhands":
            _judge_history(stated["history"], owner, frontier, method.mass_tolerance, where + "/history")
    return State(
        state_generation=parent["state_generation"],
        cache_generation=parent["cache_generation"],
        frontier=frontier,
        scored=parent["scored_transactions"],
        rows=tuple(Rows(tuple(stated["positions"]), tuple(stated["scores"])) for stated in parent["owners"]),
        history=tuple(
            tuple(
                tuple(attention_row(row["query_position"], row["positions"], row["weights"]) for row in rows)
                for rows in stated.get("history", ())
            )
            for stated in parent["owners"]
        ),
        noise=tuple(tuple({} for _ in owner.query_heads) for owner in method.owners),
    )


def _judge_history(history: list[Any], owner: Owner, frontier: int, tolerance: Number, where: str) -> None:
    if len(history) != len(owner.query_heads):
        raise ContractViolation(
            EVIDENCE_SHAPE, where, f"expected {len(owner.query_heads)} query heads, found {len(history)}"
        )
    for head, rows in enumerate(history):
        queries = [row["query_position"] for row in rows]
        require_ascending(queries, frontier, HISTORY, where + pointer(head), "query_position")
        for index, row in enumerate(rows):
            place = where + pointer(head, index)
            require_ascending(row["positions"], row["query_position"] + 1, HISTORY, place + "/positions")
            if len(row["weights"]) != len(row["positions"]):
                reason = f"expected {len(row['positions'])} weights, found {len(row['weights'])}"
                raise ContractViolation(EVIDENCE_SHAPE, place + "/weights", reason)
            require_mass(row["weights"], tolerance, place + "/weights")


def _judge_identity(record: Document, run: Document, state: State, state_issued: int, where: str) -> None:
    for diagnostic, name, expected in (
        (REQUEST, "request_id", run["request_id"]),
        (REQUEST_GENERATION, "request_generation", run["request_generation"]),
        (PARENT_GENERATION, "parent_state_generation", state.state_generation),
        (PARENT_GENERATION, "parent_cache_generation", state.cache_generation),
    ):
        if record[name] != expected:
            reason = f"expected {name} {expected}, found {record[name]}"
            raise ContractViolation(diagnostic, where + pointer(name), reason)
    if record["state_generation"] <= state_issued:
        reason = f"expected a generation after {state_issued}, found {record['state_generation']}"
        raise ContractViolation(GENERATION_REISSUED, where + "/state_generation", reason)


def _judge_phase_order(events: list[Document], where: str) -> None:
    """Walk the events through the state machine: the seven phases in order, or a cancellation before the last."""
    finished, cancelled = 0, False
    for index, event in enumerate(events):
        phase, place, expected = event["phase"], where + pointer(index, "phase"), retention.next_phase(finished)
        if cancelled:
            diagnostic = CANCELLED_PUBLISHED if phase == PUBLISH else PHASE_ORDER
            raise ContractViolation(diagnostic, place, f"expected nothing after the cancellation, found {phase}")
        if phase == CANCEL and expected is not None:
            cancelled = True
            continue
        if phase != expected:
            raise ContractViolation(PHASE_ORDER, place, f"expected {expected or 'nothing'}, found {phase}")
        finished += 1
    if not cancelled and finished < len(PHASES):
        reason = f"expected {retention.next_phase(finished)} or {CANCEL}, found no further event"
        raise ContractViolation(INCOMPLETE, where, reason)


def _transaction(
    method: Method, record: Document, index: int, state: State, cache_issued: int, where: str
) -> Step | None:
    """Judge one transaction and return its step, or None if it is cancelled: then as far as it came."""
    _judge_phase_order(record["events"], where + "/events")
    work = {event["phase"]: (event, where + pointer("events", at)) for at, event in enumerate(record["events"])}
    if retention.APPEND not in work:
        return None
    append, place = work[retention.APPEND]
    candidate = _judge_append(method, state, append, place)
    if ATTEND not in work:
        return None
    attend, place = work[ATTEND]
    visible = _judge_queries(attend["query_positions"], append["positions"], candidate, place + "/query_positions")
    evidence = _judge_evidence(method, attend, visible, place)
    if SCORE not in work:
        return None
    event, place = work[SCORE]
    carried = [
        retention.carried_rows(old.positions, new.positions) for old, new in zip(state.rows, candidate, strict=True)
    ]
    require_lists(CARRIED, carried, event["carried_rows"], place + "/carried_rows")
    scored = judge_score(method, state, candidate, (attend, evidence, visible), event, place)
    if PROTECT not in work:
        return None
    event, place = work[PROTECT]
    protected = tuple(retention.recent(rows.positions, method.policy["recent_rows"]) for rows in scored.rows)
    require_lists(PROTECTED, protected, event["positions"], place + "/positions")
    if SELECT not in work:
        return None
    event, place = work[SELECT]
    kept = tuple(kept_positions(method, owner, rows) for owner, rows in enumerate(scored.rows))
    historical = [sorted(set(rows) - set(newest)) for rows, newest in zip(kept, protected, strict=True)]
    require_lists(SELECTED, historical, event["positions"], place + "/positions")
    if GATHER not in work:
        return None
    event, place = work[GATHER]
    gather_rows = tuple(
        retention.packed_rows(rows.positions, owner_kept) for rows, owner_kept in zip(scored.rows, kept, strict=True)
    )
    _judge_gather(gather_rows, event, place)
    if PUBLISH not in work:
        return None
    event, place = work[PUBLISH]
    frontier = state.frontier + len(append["positions"])
    _judge_publication(record, event, cache_issued, frontier, place)
    require_lists(PUBLISHED_POSITIONS, kept, event["positions"], place + "/positions")
    _judge_payload(method, scored.rows, kept, event["payload"], place + "/payload")
    return Step(
        record=index,
        label=_label(method, state, candidate, kept),
        speculative=record["speculative"],
        before=state,
        evidence=evidence,
        scored=scored,
        protected=protected,
        kept=kept,
        gather_rows=gather_rows,
        after=State(
            state_generation=event["state_generation"],
            cache_generation=event["cache_generation"],
            frontier=frontier,
            scored=state.scored + 1,
            rows=tuple(rows.gathered(gather) for rows, gather in zip(scored.rows, gather_rows, strict=True)),
            history=scored.history,
            noise=tuple(
                tuple({position: head[position] for position in owner_kept if position in head} for head in heads)
                for heads, owner_kept in zip(scored.noise, kept, strict=True)
            ),
        ),
    )


def _label(method: Method, state: State, candidate: tuple[Rows, ...], kept: tuple[tuple[int, ...], ...]) -> str:
    newest = candidate[0].positions[-1]
    if method.name == "scissorhands" and any(
        len(one) < len(rows.positions) for one, rows in zip(kept, candidate, strict=True)
    ):
        return f"compression after position {newest}"
    return f"after position {newest}" if state.frontier else f"prompt up to position {newest}"


def _judge_append(method: Method, state: State, event: Document, where: str) -> tuple[Rows, ...]:
    """Return the candidate of each owner: the retained rows and the accepted ones, which continue the frontier."""
    appended = event["positions"]
    for index, position in enumerate(appended):
        if position != state.frontier + index:
            reason = f"expected position {state.frontier + index}, found {position}"
            raise ContractViolation(APPEND_POSITION, where + pointer("positions", index), reason)
    one_entry, prompt = method.name != "scissorhands", state.frontier == 0
    if one_entry and not prompt and len(appended) > 1:
        reason = f"expected one row a decode transaction, found {len(appended)}"
        raise ContractViolation(SEVERAL_ROWS, where + "/positions", reason)
    if method.policy.get("prompt_handoff") == "one_entry" and prompt and len(appended) > min(method.budgets):
        reason = f"expected at most {min(method.budgets)} prompt rows without bulk_drop, found {len(appended)}"
        raise ContractViolation(BULK_DROP, where + "/positions", reason)
    candidate = tuple(rows.appended(appended) for rows in state.rows)
    for owner, (rows, stated) in enumerate(zip(state.rows, event["candidate_positions"], strict=False)):
        retained = frozenset(rows.positions)
        for index, position in enumerate(stated):
            if position < state.frontier and position not in retained:
                place = where + pointer("candidate_positions", owner, index)
                raise ContractViolation(DELETED_RETURNED, place, f"position {position} was deleted, found it again")
    expected = [rows.positions for rows in candidate]
    require_lists(CANDIDATE, expected, event["candidate_positions"], where + "/candidate_positions")
    return candidate


def _judge_queries(
    queries: list[int], appended: list[int], candidate: tuple[Rows, ...], where: str
) -> tuple[list[int], ...]:
    """Return for each owner the number of candidate rows that each query row sees: those up to its own position."""
    for index, query in enumerate(queries):
        if query not in range(appended[0], appended[-1] + 1) or (index and query <= queries[index - 1]):
            reason = (
                f"expected ascending positions among those appended, {appended[0]} to {appended[-1]}, found {query}"
            )
            raise ContractViolation(QUERY, where + pointer(index), reason)
    if queries[-1] != appended[-1]:
        reason = f"expected the newest position {appended[-1]} last, found {queries[-1]}"
        raise ContractViolation(QUERY, where + pointer(len(queries) - 1), reason)
    return tuple([bisect_right(rows.positions, query) for query in queries] for rows in candidate)


def _judge_evidence(method: Method, attend: Document, visible: tuple[list[int], ...], where: str) -> Any:
    """Return attention weights or logits, [owner][query head][query row][visible row], one number a visible row."""
    name = "logits" if method.name == "keyformer" else "weights"
    evidence, where = attend[name], where + pointer(name)
    require_evidence(method, evidence, visible, NOT_OVER_CANDIDATE, where)
    for place, row in every_query_row(evidence, where):
        if name == "weights":
            require_mass(row, method.mass_tolerance, place)
        else:
            require_spread(row, 1, place)
    return evidence


def _judge_gather(expected: tuple[list[int], ...], event: Document, where: str) -> None:
    for name in GATHERED:
        require_count(event[name], len(expected), "owners", OWNER_COUNT, where + pointer(name))
    for owner, rows in enumerate(expected):
        stated = {name: event[name][owner] for name in GATHERED}
        wrong = [name for name in GATHERED if stated[name] != rows]
        if wrong:
            alike = all(found == stated["key_rows"] for found in stated.values())
            reason = f"expected packed rows {joined(rows)}, found {joined(stated[wrong[0]])}"
            raise ContractViolation(GATHER_ROWS if alike else PERMUTATIONS, where + pointer(wrong[0], owner), reason)


def _judge_publication(record: Document, event: Document, cache_issued: int, frontier: int, where: str) -> None:
    if event["state_generation"] != record["state_generation"]:
        reason = f"expected the issued generation {record['state_generation']}, found {event['state_generation']}"
        raise ContractViolation(PUBLISHED_GENERATION, where + "/state_generation", reason)
    if event["cache_generation"] <= cache_issued:
        reason = f"expected a generation after {cache_issued}, found {event['cache_generation']}"
        raise ContractViolation(GENERATION_REISSUED, where + "/cache_generation", reason)
    if event["frontier"] != frontier:
        raise ContractViolation(FRONTIER, where + "/frontier", f"expected {frontier}, found {event['frontier']}")


def _judge_payload(
    method: Method, candidate: tuple[Rows, ...], kept: tuple[tuple[int, ...], ...], stated: Document, where: str
) -> None:
    row_bytes, kept_rows = method.geometry.row_bytes(), sum(map(len, kept))
    expected = {
        "candidate_bytes": row_bytes * sum(len(rows.positions) for rows in candidate),
        "published_bytes": row_bytes * kept_rows,
        "score_bytes": method.score_bytes * kept_rows,
    }
    for name, value in expected.items():
        if stated[name] != value:
            raise ContractViolation(PAYLOAD, where + pointer(name), f"expected {value} B, found {stated[name]} B")


def _judge_resolution(method: Method, record: Document, branch: list[Step], committed: State, where: str) -> int:
    """Return how many transactions of the branch are accepted, if the state left is that of the last of them."""
    accepted: int = record["accepted_transactions"]
    if not branch or accepted > len(branch):
        reason = f"expected at most the {len(branch)} transactions of a branch, found {accepted}"
        raise ContractViolation(RESOLUTION, where + "/accepted_transactions", reason)
    state = branch[accepted - 1].after if accepted else committed
    if record["state_generation"] != state.state_generation:
        reason = f"expected state generation {state.state_generation}, found {record['state_generation']}"
        raise ContractViolation(ROLLBACK, where + "/state_generation", reason)
    require_count(record["owners"], len(method.owners), "owners", OWNER_COUNT, where + "/owners")
    for owner, (rows, stated) in enumerate(zip(state.rows, record["owners"], strict=True)):
        place = where + pointer("owners", owner)
        require_row(ROLLBACK, rows.positions, stated["positions"], place + "/positions")
        close = within(method.receipt_tolerance)
        require_row(ROLLBACK, rows.scores, stated["scores"], place + "/scores", close)
    return accepted
