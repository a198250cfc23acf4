"""What an evaluation plan has to declare before its numbers can be published: specification 0x10E.

Rules of this module:
- Eleven axes, each with its parts. A part is a value, a list of values, not applicable, or undeclared: null or absent.
- Quality and runtime are two surfaces, each over coordinates of its own. A plan cannot give one cache ratio for both:
  a ratio leaves out which rows survived, a score leaves out whether a machine gained anything, and the time of a kernel
  leaves out selection and compaction.
- All six outcomes are accounted for. Without the incompatible ones an architecture-bound method looks deployable
  everywhere, without the degraded ones a lossy selector looks exact, and without the inadmissible ones nobody sees how
  often it fell back.
- An axis whose kind the coordinate systems list (what is kept, when, how a budget is counted) takes their values.
- Nothing here judges a plan: it says what is undeclared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvaudit.errors import FileDefect
from kvaudit.evidence import schema, strict_json, strict_yaml
from kvaudit.evidence.text import DEFAULT_LIMITS, Limits
from kvaudit.model import Diagnostic, Document, Finding, pointer
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile.coordinates import State
from kvaudit.reconcile.subjects import VALUE_NOT_ALLOWED, yaml_findings

SCHEMA = "kvaudit.protocol/1"

AXIS_UNDECLARED = Diagnostic(
    code="protocol.axis-undeclared",
    contract="An evaluation plan states every part of the eleven axes, or says that a part does not apply.",
    why="What is not stated is free to change between two runs, and then the two are no comparison.",
    fix="State the part named, or write {state: not_applicable}.",
    example="axes: {budget: {value: 512, unit: rows}}",
)
SURFACE_UNDECLARED = Diagnostic(
    code="protocol.surface-undeclared",
    contract="Quality and runtime are reported as two surfaces, and each coordinate of either has its points.",
    why="One average or one ratio hides where a policy fails, and a gain in time says nothing of what was answered.",
    fix="List the points of the coordinate named; one point is a list of one.",
    example="surfaces: {quality: {budget: [512]}}",
)
OUTCOME_UNDECLARED = Diagnostic(
    code="protocol.outcome-undeclared",
    contract="An evaluation plan says how each of the six outcomes is recorded.",
    why="An outcome that is not recorded is a request that vanishes: degraded answers, refusals and fallbacks first.",
    fix="Say how the outcome named is recorded; a count a cell is enough.",
    example="outcomes: {quality-valid: a score a cell}",
)
DIAGNOSTICS = (AXIS_UNDECLARED, SURFACE_UNDECLARED, OUTCOME_UNDECLARED)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of parts that a plan states: an axis or a surface. `about` says what it is."""

    name: str
    parts: tuple[str, ...]
    about: str


AXES = (
    Group("checkpoint", ("checkpoint", "revision", "position_semantics"), "checkpoint and positional contract"),
    Group("lengths", ("prompt_tokens", "decode_tokens"), "distributions of prompt and decode length"),
    Group("retained", ("object", "metadata", "recoverability"), "retained object, its metadata, recoverability"),
    Group("budget", ("value", "unit", "owner_scope", "denominator"), "budget with unit, owner scope and denominator"),
    Group("tasks", ("family", "delayed_reference_distance"), "task family and distance of delayed references"),
    Group("cadence", ("decision_phase", "update_cadence"), "phase of the decision and cadence of updates"),
    Group("quality", ("metric", "full_cache_baseline"), "quality metric and full-cache baseline"),
    Group("runtime", ("hardware", "engine", "kernel", "batch", "parallelism"), "hardware, runtime, kernel, batch"),
    Group("timing", ("prefill", "decode", "selection", "compaction", "transfer"), "what is timed, phase by phase"),
    Group("failures", ("failure", "fallback", "incompatible_requests"), "failures, fallbacks, refused requests"),
    Group("evidence", ("evidence_class", "local_reproduction"), "evidence class, and whether it was reproduced here"),
)
SURFACES = (
    Group(
        "quality",
        (
            "checkpoint",
            "task",
            "prompt_tokens",
            "decode_tokens",
            "budget",
            "decision_phase",
            "owner_granularity",
            "calibration",
        ),
        "Q(checkpoint, task, prompt and decode length, budget, phase, owner, calibration)",
    ),
    Group(
        "runtime",
        ("hardware", "runtime", "batch", "kernel", "prompt_tokens", "decode_tokens", "budget", "compaction_cadence"),
        "T(hardware, runtime, batch, kernel, prompt and decode length, budget, compaction cadence)",
    ),
)
OUTCOMES = (
    "quality-valid",
    "quality-degraded",
    "runtime-inadmissible",
    "checkpoint-incompatible",
    "backend-incompatible",
    "unmeasured",
)

# Parts that a coordinate system lists the values of: (group of the plan, axis or surface, part) -> (system, key).
_ENUMERATED = {
    ("axes", "checkpoint", "position_semantics"): ("result/1", "policy.position_semantics"),
    ("axes", "retained", "object"): ("contract/1", "persistent_object"),
    ("axes", "retained", "recoverability"): ("contract/1", "recoverability"),
    ("axes", "budget", "unit"): ("result/1", "budget.unit"),
    ("axes", "cadence", "decision_phase"): ("contract/1", "decision_phase"),
    ("axes", "cadence", "update_cadence"): ("contract/1", "update_after_new_row"),
    ("axes", "evidence", "evidence_class"): ("result/1", "evidence.class"),
    ("surfaces", "quality", "decision_phase"): ("contract/1", "decision_phase"),
    ("surfaces", "quality", "owner_granularity"): ("contract/1", "owner_granularity"),
    ("surfaces", "quality", "calibration"): ("contract/1", "calibration_or_training"),
}


_UNDECLARED = systems.to_json(State.UNDECLARED)


@dataclass(frozen=True, slots=True)
class Statement:
    """What a plan states of one axis or surface. `undeclared` are the parts that it leaves open."""

    group: Group
    stated: Mapping[str, Any]
    undeclared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """An evaluation plan, with what it leaves undeclared as findings. `outcomes` has None for one that is not said."""

    id: str
    title: str
    axes: tuple[Statement, ...]
    surfaces: tuple[Statement, ...]
    outcomes: Mapping[str, str | None]
    findings: tuple[Finding, ...]


def read(path: str, data: bytes, limits: Limits = DEFAULT_LIMITS) -> tuple[Plan | None, tuple[Finding, ...]]:
    """Return the plan in a YAML or JSON file, or None and the findings that say why it is none."""
    is_json = path.endswith(".json")
    try:
        document = strict_json.parse_json(data, limits) if is_json else strict_yaml.parse_yaml(data, limits)
        schema.check(SCHEMA, document)
        _check_values(document)
    except FileDefect as defect:
        return None, schema.findings(path, defect, data) if is_json else yaml_findings(path, defect, data)
    plan = _plan(path, document, data, is_json)
    return plan, plan.findings


def template() -> str:
    """Return a plan in YAML that declares nothing, with what each part takes."""
    lines = [
        f"schema: {SCHEMA}",
        "id: my-evaluation",
        "title: what is evaluated, in one line",
        "# null is undeclared. A part takes a value, a list of values, or {state: not_applicable}.",
    ]
    for member, groups in (("axes", AXES), ("surfaces", SURFACES)):
        lines.append(f"{member}:")
        for group in groups:
            lines.append(f"  {group.name}:  # {group.about}")
            lines += [f"    {part}: null{_choices(member, group.name, part)}" for part in group.parts]
    lines.append("outcomes:  # how each is recorded")
    lines += [f"  {name}: null" for name in OUTCOMES]
    return "\n".join(lines) + "\n"


def _choices(*place: str) -> str:
    if place not in _ENUMERATED:
        return ""
    name, key = _ENUMERATED[place]
    return f"  # {', '.join(systems.system(name).keys[key].allowed)}"


def _plan(path: str, document: Document, data: bytes, is_json: bool) -> Plan:
    axes = tuple(_statement(document, "axes", group) for group in AXES)
    surfaces = tuple(_statement(document, "surfaces", group) for group in SURFACES)
    outcomes = {name: document.get("outcomes", {}).get(name) for name in OUTCOMES}
    found: list[tuple[Diagnostic, str, str]] = []
    for member, statements, diagnostic in (
        ("axes", axes, AXIS_UNDECLARED),
        ("surfaces", surfaces, SURFACE_UNDECLARED),
    ):
        for each in statements:
            if each.undeclared:
                message = f"{each.group.name} ({each.group.about}) leaves open: {', '.join(each.undeclared)}"
                found.append((diagnostic, _present(document, member, each.group.name), message))
    silent = [name for name, recorded in outcomes.items() if recorded is None]
    if silent:
        found.append((OUTCOME_UNDECLARED, _present(document, "outcomes"), f"not said of: {', '.join(silent)}"))
    locate = strict_json.line_of if is_json else strict_yaml.line_of
    text = data.decode()
    findings = tuple(
        Finding(path, place, message, diagnostic, locate(text, place) if place else None)
        for diagnostic, place, message in found
    )
    return Plan(document["id"], document["title"], axes, surfaces, outcomes, findings)


def _statement(document: Document, member: str, group: Group) -> Statement:
    stated = document.get(member, {}).get(group.name, {})
    undeclared = tuple(part for part in group.parts if stated.get(part) in (None, _UNDECLARED))
    return Statement(group, {part: stated[part] for part in group.parts if part not in undeclared}, undeclared)


def _present(document: Document, *path: str) -> str:
    """Return the pointer to the last member of this path that the document has."""
    reached: list[str] = []
    for name in path:
        if name not in document:
            break
        document = document[name]
        reached.append(name)
    return pointer(*reached)


def _check_values(document: Document) -> None:
    """Raise `FileDefect` for a value that its coordinate system does not list."""
    for (member, group, part), (name, key) in _ENUMERATED.items():
        value = document.get(member, {}).get(group, {}).get(part)
        for place, each in _values(value, pointer(member, group, part)):
            refused = systems.refusal(systems.system(name).keys[key], systems.from_json(each))
            if refused:
                raise FileDefect(VALUE_NOT_ALLOWED, place, refused)


def _values(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((f"{at}/{index}", each) for index, each in enumerate(value))
    elif value is not None:
        yield at, value
