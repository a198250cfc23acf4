"""Measurement records side by side: which of them are one cohort, and the points that they are for a frontier.

Rules of this module:
- Records of one sweep differ in what the sweep varies: the policy with its parameters and rules, the budget asked for,
  the rows in fact kept, the kernel. These keys are the subject of a table and no coordinate of its cohort; the list is
  that of `kvaudit.reconcile.frontier`. Every other coordinate must agree, as `relate` says, metric by metric.
- Records and metrics keep the order in which they came. Nothing is sorted by a value.
- A record without a result is of no cohort. It is listed, not dropped.
- A point takes from its record what was measured, and null for the rest: no record of this runner has measured
  traffic, so its points are complete only where somebody measures that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from kvaudit.model import Document
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile import frontier
from kvaudit.reconcile.coordinates import State, Value
from kvaudit.reconcile.relation import cohorts as by_coordinates
from kvaudit.reconcile.subjects import Subject, read_measurement

DENSE_POLICY = "full"
QUALITY_METRICS = ("top1_agreement", "reference_log_probability")
POINT_METRICS = ("resident_bytes", "decode_step_time")


@dataclass(frozen=True, slots=True)
class Cohort:
    """Records whose values of these metrics may stand in one table, each in the order given.

    `stated` are the coordinates that they share; `apart` names those of them in which this cohort differs from others.
    """

    records: tuple[Document, ...]
    metrics: tuple[str, ...]
    stated: Mapping[str, Value]
    apart: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Records by cohort; `unplaced` have no result, or state too little to be held against anything."""

    cohorts: tuple[Cohort, ...]
    unplaced: tuple[Document, ...]


def grouped(records: Sequence[Document]) -> Grouped:
    """Return records by cohort. They have passed their schema; raises `FileDefect` for a value that a key refuses."""
    subjects = [_subject(str(index), record) for index, record in enumerate(records)]
    groups = by_coordinates(subjects).groups
    metrics: dict[tuple[int, ...], list[str]] = {}
    for group in groups:
        members = tuple(int(subject.id) for subject, _ in group)
        metrics.setdefault(members, []).append(group[0][1])
    shared = [_shared(subjects[index] for index in members) for members in metrics]
    placed = {index for members in metrics for index in members}
    return Grouped(
        cohorts=tuple(
            Cohort(tuple(records[index] for index in members), tuple(names), stated, _apart(stated, shared))
            for (members, names), stated in zip(metrics.items(), shared, strict=True)
        ),
        unplaced=tuple(record for index, record in enumerate(records) if index not in placed),
    )


def mean_reference(record: Document, distance_tokens: int, member: str = "log_probability") -> Fraction | None:
    """Return the mean log-probability, in nats, of the references declared at this distance; None if not measured."""
    values = [
        each[member]
        for prompt in record["prompts"]
        for each in prompt["references"]
        if each["declared_distance_tokens"] == distance_tokens
    ]
    if not values or None in values:
        return None
    return sum(map(Fraction, values), Fraction(0)) / len(values)


def declared_distances(records: Iterable[Document]) -> tuple[int, ...]:
    """Return the declared distances of all references, each once, in the order in which they come."""
    found = (
        each["declared_distance_tokens"]
        for record in records
        for prompt in record["prompts"]
        for each in prompt["references"]
    )
    return tuple(dict.fromkeys(each for each in found if each is not None))


def frontier_document(cohort: Cohort, name: str, quality: str, tolerance: Fraction) -> Document:
    """Return the records of a cohort as a document of `kvaudit.frontier/1`, its numbers exact.

    `quality` is one of `QUALITY_METRICS`, of which more is better; `tolerance` is in its unit.
    """
    points = []
    seen: dict[str, int] = {}
    for record in cohort.records:
        method = record["policy"]["name"]
        seen[method] = seen.get(method, -1) + 1
        points.append(point(record, seen[method], quality))
    first = cohort.records[0]
    return {
        "schema": frontier.DOCUMENT_SCHEMA,
        "id": name,
        "dense_method": DENSE_POLICY,
        "quality_tolerance": tolerance,
        "coordinates": {key: systems.to_json(value) for key, value in cohort.stated.items()},
        "metrics": _metric_coordinates(first, quality),
        "points": points,
    }


def point(record: Document, budget_index: int, quality: str) -> Document:
    """Return the operating point that a finished record is: what it measured, and null for what it did not."""
    prompts, step = record["prompts"], record["metrics"]["decode_step_time"]["value"]
    rows = sum(prompt["prompt_rows"] for prompt in prompts)

    def each_token(*members: str) -> Fraction:
        return Fraction(sum(prompt["bytes"][member] for prompt in prompts for member in members), rows)

    return {
        "method": record["policy"]["name"],
        "budget_index": budget_index,
        "resident_bytes_per_token": each_token("resident"),
        "resident_parts": {
            "payload": each_token("payload"),
            "paging": each_token("padding"),
            "metadata": each_token("position_map", "scores"),
        },
        "hbm_bytes_per_token": None,
        "tokens_per_second": 1 / Fraction(step) if step else None,
        "quality": record["metrics"][quality]["value"],
        "kernel_path": str(record["coordinates"]["runtime.attention_backend"]),
        "engine_settings": {},
    }


def _metric_coordinates(record: Document, quality: str) -> Document:
    none = systems.to_json(State.NOT_APPLICABLE)
    measured = record["metrics"]
    return {
        "resident_bytes_per_token": {
            **measured["resident_bytes"]["coordinates"],
            "metric.statistic": "total over prompts",
            "metric.denominator": "prompt token",
            "metric.parts": "payload, padding, position map, scores",
        },
        "hbm_bytes_per_token": {
            "metric.function": "bytes that a decode step moves for the cache",
            "metric.statistic": none,
            "metric.scale": none,
            "metric.denominator": "prompt token",
            "metric.parts": none,
            "metric.prefill_included": False,
        },
        "tokens_per_second": {
            **measured["decode_step_time"]["coordinates"],
            "metric.function": "inverse of the time of a decode step",
            "metric.denominator": "second of decode",
        },
        "quality": measured[quality]["coordinates"],
    }


def _subject(number: str, record: Document) -> Subject:
    """Return a record in the system of a sweep: without the keys that the sweep varies. Its id is its number here."""
    subject = read_measurement(number, record)
    assert subject is not None  # it has passed the schema of a record
    kept = {key: value for key, value in subject.coordinates.items() if not frontier.is_swept(key)}
    return replace(subject, id=number, system=frontier.system(), coordinates=kept)


def _shared(subjects: Iterable[Subject]) -> dict[str, Value]:
    every = [subject.coordinates for subject in subjects]
    return {
        key: value
        for key, value in every[0].items()
        if all(key in each and systems.identity(each[key]) == systems.identity(value) for each in every)
    }


def _apart(stated: Mapping[str, Value], every: Sequence[Mapping[str, Value]]) -> tuple[str, ...]:
    def differs(key: str) -> bool:
        return any(key not in each or systems.identity(each[key]) != systems.identity(stated[key]) for each in every)

    return tuple(key for key in stated if differs(key))
