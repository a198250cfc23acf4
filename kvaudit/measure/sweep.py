"""A sweep: every setting of a plan measured once, one file a record, whatever comes between.

Rules of this module:
- The name of a record's file says what it is for a person, and ends in the hash of everything that the record depends
  on: checkpoint, prompts, question, lengths, dtype, device, policy, parameters, budget and seed. Another setting is
  another file; a plan may grow, and what it measured before stays.
- A record is finished if its file passes the schema, says the settings that its plan says, and was not interrupted.
  A finished record is not measured again, whatever its outcome: a failure is a result. `retry` measures again what
  was not measured.
- A record is written atomically, as soon as it exists. Settings that share the place of the question share the process
  and each prompt's prefill, and their records come together; `settings_at_once` of the plan makes these groups
  smaller, which loses less when interrupted and computes each prefill more often.
- A group that fails in a way that is no outcome is measured again setting by setting, so that one fault costs one
  setting. A record that says other settings than its plan is refused. The sweep goes on, and says at the end what has
  no record.

Nothing here imports torch: a child process measures.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvaudit.errors import FileDefect
from kvaudit.evidence import canonical, files, schema, strict_json
from kvaudit.measure import outcomes
from kvaudit.measure.plan import FILE_PARAMETERS, Cell, Plan
from kvaudit.measure.process import Progress, Request
from kvaudit.model import Document

RECORD_SCHEMA = "kvaudit.measurement/1"

_HASH_DIGITS = 12
_PLACES = {"inside_compressed_prompt": "inside", "outside_compressed_prompt": "outside"}


@dataclass(frozen=True, slots=True)
class Done:
    """What one request of a sweep came to: its records in order, or why there are none."""

    index: int
    records: tuple[Document, ...]
    failure: str | None


# An engine measures requests in whatever order and on whatever machine, and yields each as it is done.
Engine = Callable[[tuple[Request, ...], Progress], Iterator[Done]]


@dataclass(frozen=True, slots=True)
class Written:
    """One record as it now lies in the folder. `outcome` and `reason` are the record's; `new` if this run measured."""

    path: Path
    outcome: str
    reason: str | None
    new: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What a sweep came to. `failed` says what has no record and why; `interrupted` if a person stopped it."""

    written: tuple[Written, ...]
    failed: tuple[str, ...]
    interrupted: bool


Report = Callable[[Written], None]


def record_paths(plan: Plan, folder: Path) -> tuple[Path, ...]:
    """Return the file of each cell's record, in the order of the plan."""
    return tuple(folder / record_name(plan, cell) for cell in plan.cells)


def record_name(plan: Plan, cell: Cell) -> str:
    """Return the name of a cell's record: policy, budget, place of the question, and a hash of all that it rests on."""
    wanted = cell.wanted
    parts = [wanted.policy]
    if wanted.budget is not None:
        parts.append(wanted.budget["value"].replace("/", "of"))
    parts += [_PLACES[cell.question], canonical.canonical_sha256(plan.identity(cell))[:_HASH_DIGITS]]
    return "-".join(re.sub(r"[^A-Za-z0-9_]", "-", part) for part in parts) + ".json"


def planned(plan: Plan, folder: Path, *, retry: bool = False) -> tuple[tuple[Path, bool], ...]:
    """Return the file of each cell's record with whether it is finished, in the order of the plan."""
    return tuple(
        (path, _finished(plan, cell, path, retry) is not None)
        for cell, path in zip(plan.cells, record_paths(plan, folder), strict=True)
    )


def run(
    plan: Plan,
    folder: Path,
    engine: Engine,
    *,
    retry: bool = False,
    report: Report = lambda _: None,
    progress: Progress = lambda _: None,
) -> Result:
    """Measure what of a plan has no finished record in `folder`, and return all of its records in plan order.

    `report` is told of each record, those that were found first. Raises `KvauditError` if nothing could be measured.
    """
    paths = record_paths(plan, folder)
    found = {
        index: each for index, path in enumerate(paths) if (each := _finished(plan, plan.cells[index], path, retry))
    }
    for each in found.values():
        report(each)
    failed: dict[int, str] = {}
    interrupted = False
    waiting = groups(plan, [index for index in range(len(paths)) if index not in found])
    try:
        while waiting and not interrupted:
            again: list[tuple[int, ...]] = []
            requests = tuple(plan.request(tuple(plan.cells[index] for index in group)) for group in waiting)
            for done in engine(requests, progress):
                group = waiting[done.index]
                if done.failure is not None and len(group) > 1:
                    again.extend((index,) for index in group)
                elif done.failure is not None:
                    failed[group[0]] = f"{paths[group[0]].name}: {done.failure}"
                else:
                    for index, record in zip(group, done.records, strict=True):
                        wrong = _refusal(plan, plan.cells[index], record)
                        if wrong:
                            failed[index] = f"{paths[index].name}: what was measured is not what was planned: {wrong}"
                            continue
                        found[index] = _write(paths[index], record)
                        report(found[index])
                        interrupted = interrupted or found[index].reason == outcomes.INTERRUPTED
                if interrupted:
                    break
            waiting = tuple(again)
    except KeyboardInterrupt:
        interrupted = True  # between two records, or before a child could say what it was at
    return Result(tuple(found[index] for index in sorted(found)), tuple(failed.values()), interrupted)


def groups(plan: Plan, indices: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Return the cells that are measured together: one place of the question, at most as many as the plan allows."""
    places: dict[str, list[int]] = {}
    for index in indices:
        places.setdefault(plan.cells[index].question, []).append(index)
    return tuple(
        tuple(each[start : start + size])
        for each in places.values()
        for size in (plan.settings_at_once or len(each),)
        for start in range(0, len(each), size)
    )


def departures(plan: Plan, cell: Cell, record: Document) -> tuple[str, ...]:
    """Return what a record says otherwise than its plan; a member that could not be known then is no departure."""
    request, wanted, stated = record["request"], cell.wanted, record["coordinates"]
    pairs: list[tuple[str, Any, Any]] = [
        ("policy", request["policy"], wanted.policy),
        ("budget", request["budget"], wanted.budget),
        ("seed", request["seed"], wanted.seed),
        ("question", request["question"], cell.question),
        ("decode_tokens", request["decode_tokens"], plan.decode_tokens),
        ("tolerance_nats", Fraction(request["tolerance_nats"]), plan.tolerance_nats),
        ("threads", record["environment"]["threads"], plan.threads),
        ("task", stated["workload.task"], plan.task),
    ]
    known = [
        ("prompts_sha256", request["prompts_sha256"], plan.prompts_sha256),
        ("model_sha256", record["axes"]["checkpoint"]["sha256"], plan.model_sha256),
        ("model_name", record["axes"]["checkpoint"]["name"], plan.model_name),
        ("dtype", stated["runtime.dtype"], plan.dtype),
    ]
    if record["outcome"]["class"] in outcomes.MEASURED:  # a device that is not there is such an outcome
        pairs.append(("device", record["environment"]["device_kind"], plan.device))
    pairs += [each for each in known if each[1] is not None and not isinstance(each[1], Mapping)]
    for name, value in wanted.parameters.items():
        shown = Path(value).name if name in FILE_PARAMETERS else value
        pairs.append((name, _number(request["parameters"].get(name)), _number(shown)))
    return tuple(
        f"{name} is {said!r}, and the plan says {planned!r}" for name, said, planned in pairs if said != planned
    )


def _finished(plan: Plan, cell: Cell, path: Path, retry: bool) -> Written | None:
    """Return the record of a cell if it is finished."""
    try:
        record = strict_json.parse_json(files.read_regular(path))
        schema.check(RECORD_SCHEMA, record)
    except FileDefect:
        return None  # missing, cut short or of another version: measured again
    outcome, reason = record["outcome"]["class"], record["outcome"]["reason"]
    again = reason == outcomes.INTERRUPTED or (retry and outcome not in outcomes.MEASURED)
    if again or departures(plan, cell, record):
        return None
    return Written(path, outcome, reason, new=False)


def _refusal(plan: Plan, cell: Cell, record: Document) -> str:
    """Return why a record is not that of its cell, empty if it is."""
    parsed = strict_json.parse_json(canonical.json_text(record).encode())
    defects = schema.defects(RECORD_SCHEMA, parsed)
    if defects:
        return f"{defects[0].pointer}: {defects[0].message}"
    return "; ".join(departures(plan, cell, parsed))


def _write(path: Path, record: Document) -> Written:
    files.write_atomically(path, canonical.json_text(record).encode())
    return Written(path, record["outcome"]["class"], record["outcome"]["reason"], new=True)


def _number(value: Any) -> Any:
    """Return a parameter as a number where it is one: a plan may write 0.8 and a record 4/5."""
    try:
        return Fraction(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return value
