"""The stability section of loop 13: brittleness, the gate, five families of failure, and the release filter.

Judged in this order: tiers, gate, the probes of the phase diagram, the gate alone on series of brittleness
(`controller`), the traces, one family each at least, and the release.

Decided here:
- A trace gives, for each decode step, the dense logits, and for each tier the logits of a run at that tier with the
  bound eta that its codes imply. The logits do not depend on what was emitted before: what fails is the step itself,
  not what follows from another token. A bound that the logits break is refused; everything after it would be luck.
- The *ungated* run reads the tier of the allocation in every step, the *gated* run the tier that the gate has put in
  force. A run fails if a witness exceeds its allowance; the failing step is the first with another token than dense.
- The *minimal trigger* is the failing step together with the finest tier that still fails it.
- A mechanism is checked at the failing step, not believed: the row was dropped; the dense margin is small; the bound
  has jumped by the outlier factor over its least value before; the stop token or a structural token was at stake.
- A witness that was not measured is not passed. The dense method needs none: it is what the witnesses compare with.
- The release filter comes before the envelope (kvaudit/policies/frontier.py, `filtered`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvaudit.errors import ContractViolation, FileDefect
from kvaudit.evidence import canonical, strict_json
from kvaudit.evidence.summary import summarised
from kvaudit.loops.loop13_spherical import frontier as frontiers
from kvaudit.model import Diagnostic, Document, LedgerRow, Table, pointer
from kvaudit.policies import frontier as frontier_policy
from kvaudit.policies import stability as policy
from kvaudit.policies.stability import Decision, Gate, Watched
from kvaudit.reconcile.coordinates import identity

TIERS = Diagnostic(
    code="spherical.gate-tier-order",
    contract="Tiers ascend in row bits from the dropped one, which stores none, to the safe one; no name occurs twice.",
    why="A gate that goes up one tier would otherwise lower precision, at the very step that cannot bear it.",
    fix="List the tiers from dropped (0 bits) to safe.",
)
THRESHOLDS = Diagnostic(
    code="spherical.gate-thresholds-out-of-order",
    contract="The watch threshold is above zero and below the act threshold, so that there are three regimes.",
    why="With equal thresholds there is no regime between safe and brittle, and every alarm is the first one.",
    fix="Choose 0 < watch threshold < act threshold.",
)
UNCERTIFIED = Diagnostic(
    code="spherical.gate-threshold-above-certificate",
    contract="The act threshold is at most 1.",
    why="From 1 on the top-1 is not certified; a gate that waits longer lets uncertified steps pass as if they were "
    "watched.",
    fix="Act at a brittleness of at most 1.",
)
NO_HYSTERESIS = Diagnostic(
    code="spherical.gate-without-hysteresis",
    contract="The hysteresis width is above zero.",
    why="A brittleness that swings around one threshold switches tiers at every step; the pages are rewritten and the "
    "traffic that compression saved is spent on the gate.",
    fix="Give the gate a band: it lets go below act threshold minus width.",
)
NEVER_RELEASES = Diagnostic(
    code="spherical.gate-never-releases",
    contract="The hysteresis width is below the act threshold.",
    why="Brittleness is never below zero, so the gate would stay engaged after its first alarm and the budget is gone.",
    fix="Choose a width below the act threshold.",
)
RATE_VACUOUS = Diagnostic(
    code="spherical.gate-rate-limit-vacuous",
    contract="The rate limit grants fewer interventions than its window has steps.",
    why="A gate intervenes once a step at most, so a larger limit never binds and the overhead has no bound.",
    fix="Lower the number of interventions, or widen the window.",
)
NEGATIVE_MARGIN = Diagnostic(
    code="spherical.brittleness-margin-negative",
    contract="The top-1 logit of a probe is at least the top-2 logit.",
    why="A negative margin makes brittleness negative, which reads as the safest step of all.",
    fix="Sort the two logits.",
)
BRITTLENESS = Diagnostic(
    code="spherical.brittleness-mismatch",
    contract="Brittleness is 2 eta over the top-1 minus the top-2 logit, null for a margin of zero.",
    why="With eta alone, or with the margin doubled, the certificate at 1 certifies the wrong steps.",
    fix="Recompute it from eta and the two logits.",
)
CERTIFICATE = Diagnostic(
    code="spherical.certificate-unsound",
    contract="A step is certified exactly if its brittleness is below 1.",
    why="At 1 a perturbation within eta makes the two logits equal, and the tie rule may pick the other token.",
    fix="Certify below 1 only; a margin of zero is never certified.",
)
REGIME = Diagnostic(
    code="spherical.regime-mismatch",
    contract="A step is safe below the watch threshold, brittle from the act threshold on, and watched in between.",
    why="A threshold belongs to the regime above it; read the other way, the step that reaches it is let through.",
    fix="Compare with `at least` at both thresholds.",
)
UNKNOWN_TIER = Diagnostic(
    code="spherical.trace-base-tier",
    contract="A run starts from one of the tiers, and not from the safe one.",
    why="From the safe tier there is nothing to escalate to, so such a trace says nothing of the gate.",
    fix="Name a tier below the safe one.",
)
SHAPE = Diagnostic(
    code="spherical.trace-shape",
    contract="Every step of a trace has a logit for each token, for the dense run and for each of the tiers.",
    why="A missing logit shifts the tokens behind it, and the flip that is seen is not the one that happened.",
    fix="Give one logit a token, and an entry for each tier.",
)
BOUND = Diagnostic(
    code="spherical.trace-perturbation-exceeds-eta",
    contract="The logits of a tier differ from the dense ones, up to a common shift, by a range of at most 2 eta.",
    why="Brittleness is computed from eta. If the real perturbation is larger, a certified step can flip.",
    fix="Prove the larger bound and state it, or correct the logits.",
)
MONOTONE = Diagnostic(
    code="spherical.trace-eta-not-monotone",
    contract="In one step a finer tier has no larger eta than a coarser one.",
    why="Escalation is meant to shrink the perturbation; if it grows, the intervention makes the step worse.",
    fix="Correct the bounds; eta falls with every bit.",
)
FAMILY_MISSING = Diagnostic(
    code="spherical.failure-family-missing",
    contract="Each of the five families of failure has a trace.",
    why="A gate that was tried on margins alone says nothing of a dropped row, a late stop or a broken tool call.",
    fix="Add a trace of the family.",
)
NOT_REPRODUCED = Diagnostic(
    code="spherical.failure-not-reproduced",
    contract="The ungated run of a trace emits another token than dense, and a witness exceeds its allowance.",
    why="A gate that prevents what never happens proves nothing.",
    fix="Give a trace on which the tier of the allocation really fails.",
)
TRIGGER = Diagnostic(
    code="spherical.trigger-not-minimal",
    contract="The trigger names the first failing step and the finest tier that still fails it.",
    why="A later step or a coarser tier is not needed for the failure; a fix that is tried there may miss the cause.",
    fix="Name the smallest condition under which the failure appears.",
)
NO_MECHANISM = Diagnostic(
    code="spherical.witness-without-mechanism",
    contract="A failure names the mechanism behind its witness.",
    why="A witness says that something broke. Without the reason nobody knows which states to protect.",
    fix="Name the mechanism that holds at the failing step.",
)
MECHANISM = Diagnostic(
    code="spherical.mechanism-not-shown",
    contract="The mechanism belongs to the family of the failure and holds at the failing step.",
    why="An explanation that the trace does not show protects the wrong states and leaves the failure in place.",
    fix="Name the mechanism that the trace shows, or correct the trace.",
)
SILENT = Diagnostic(
    code="spherical.witness-silent",
    contract="The witness that a failure names exceeds its allowance on the ungated run.",
    why="A witness that stays silent on the failure will stay silent on the next one.",
    fix="Name a witness that sees this failure.",
)
LATE = Diagnostic(
    code="spherical.intervention-late",
    contract="The first intervention on a trace is decided before the failing step.",
    why="At the failing step the token is out. A gate that acts then explains the failure and prevents nothing.",
    fix="Lower the act threshold, or use a signal that rises earlier.",
)
RATE = Diagnostic(
    code="spherical.intervention-over-rate",
    contract="No window of the rate limit holds more interventions than it grants.",
    why="Each intervention rewrites pages; without the limit the controller costs more than it saves.",
    fix="Suppress the intervention, and report the step as suppressed.",
)
BAND = Diagnostic(
    code="spherical.gate-released-inside-band",
    contract="An engaged gate lets go only below the act threshold minus the hysteresis width.",
    why="Letting go inside the band lowers the tier while the next alarm is near, and the gate starts to thrash.",
    fix="Hold the tier until brittleness is below the band.",
)
DECISIONS = Diagnostic(
    code="spherical.gate-decisions-mismatch",
    contract="The decisions of a receipt, and the steps that it calls suppressed, are those that the gate takes.",
    why="A decision that the gate would not take was made by hand, and will not be made in the next run.",
    fix="Replay the gate on the brittleness of each step.",
)
GATED_FAILS = Diagnostic(
    code="spherical.gated-run-fails",
    contract="On the gated run of a trace no witness exceeds its allowance.",
    why="An intervention that does not prevent the failure is a cost and nothing else.",
    fix="Escalate earlier or further, or exclude the point from the release.",
)
RELEASE_PANEL = Diagnostic(
    code="spherical.release-panel-unknown",
    contract="The release names a panel of the frontier.",
    why="Points without their panel have neither a cohort nor a reference.",
    fix="Name one of the panels.",
)
RELEASE_POINT = Diagnostic(
    code="spherical.release-point-unknown",
    contract="A point with witnesses is a retained point of the panel, other than dense; a published one is a retained "
    "point, and is there once.",
    why="A released point that is not on the frontier was never held to its quality and accounting.",
    fix="Name points of the panel that are within the tolerance.",
)
UNWITNESSED = Diagnostic(
    code="spherical.release-witness-missing",
    contract="Every retained point of the panel, other than dense, has its witnesses.",
    why="A point that nobody tested would be released or removed by default, and either is a guess.",
    fix="Run the witness suite on the point; a witness that was not measured is null and is not passed.",
)
FAILED_PUBLISHED = Diagnostic(
    code="spherical.release-failed-point-published",
    contract="A point that fails a witness, or has one that was not measured, is not published.",
    why="Fast and accurate on average, it still breaks stop behaviour or tool calls where it is deployed.",
    fix="Remove the point from the release.",
)
SURVIVOR_MISSING = Diagnostic(
    code="spherical.release-survivor-missing",
    contract="Every retained point that passes all witnesses is published.",
    why="Survivors that are left out make the release look like a choice of the best case.",
    fix="Publish all survivors.",
)
SETTINGS = Diagnostic(
    code="spherical.release-settings-mismatch",
    contract="A published point carries the kernel path, the engine settings and the resident bytes it was measured "
    "with.",
    why="Under other settings it is another point, and nobody can reproduce the one that passed.",
    fix="Copy the settings from the measured point.",
)

DIAGNOSTICS = (
    TIERS,
    THRESHOLDS,
    UNCERTIFIED,
    NO_HYSTERESIS,
    NEVER_RELEASES,
    RATE_VACUOUS,
    NEGATIVE_MARGIN,
    BRITTLENESS,
    CERTIFICATE,
    REGIME,
    FAMILY_MISSING,
    UNKNOWN_TIER,
    SHAPE,
    BOUND,
    MONOTONE,
    NOT_REPRODUCED,
    TRIGGER,
    NO_MECHANISM,
    MECHANISM,
    SILENT,
    LATE,
    RATE,
    BAND,
    DECISIONS,
    GATED_FAILS,
    RELEASE_PANEL,
    RELEASE_POINT,
    UNWITNESSED,
    FAILED_PUBLISHED,
    SURVIVOR_MISSING,
    SETTINGS,
)

CATEGORIES = ("brittleness", "gate", "hysteresis", "rate limit", "failure family", "intervention", "release filter")

# What may stand behind a failure, by its family (appendix D names the families; the rules are this project's).
MECHANISMS = {
    "evidence_allocation": ("evidence_dropped",),
    "decision_boundary": ("small_margin",),
    "outlier_amplification": ("outlier_key",),
    "termination_and_structure": ("stop_decision", "structural_token"),
    "action_format": ("structural_token",),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of a trace emits, and its witnesses: None for a witness that the trace has no use for."""

    tokens: tuple[str, ...]
    witnesses: Mapping[str, int | Fraction | None]

    def failed(self, allowances: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the witnesses that exceed their allowance."""
        return tuple(name for name, value in self.witnesses.items() if value is not None and value > allowances[name])


def check(
    section: Document, at: str, frontier_section: Document, frontier_at: str
) -> tuple[Document, tuple[LedgerRow, ...]]:
    """Return the results and ledger rows of the section at `at`, or raise the first `ContractViolation`.

    The release refers to a panel of `frontier_section`, which has been judged before.
    """
    tiers = _tiers(section["tiers"], at + pointer("tiers"))
    gate = _gate(section["gate"], at + pointer("gate"))
    phase = [_probe(gate, probe, at + pointer("phase", index)) for index, probe in enumerate(section["phase"])]
    controllers = {
        name: _controller(gate, tiers, each, at + pointer("controller", name))
        for name, each in section["controller"].items()
    }
    present = {trace["family"] for trace in section["traces"].values()}
    for family in MECHANISMS:
        if family not in present:
            raise ContractViolation(FAMILY_MISSING, at + pointer("traces"), f"expected a trace of {family}, found none")
    traces = {
        name: _trace(section, gate, tiers, trace, at + pointer("traces", name))
        for name, trace in section["traces"].items()
    }
    release = _release(section, at + pointer("release"), frontier_section, frontier_at)
    results = {
        "release_level": gate.release_level,
        "phase": phase,
        "controller": controllers,
        "traces": traces,
        "release": release,
    }
    return results, tuple(_ledgers(results))


def tables(results: Mapping[str, Any]) -> tuple[Table, ...]:
    """Return the failures, the probes and the release, from the section's member of a report."""
    failures = Table(
        "Failures that the gate prevents",
        (
            "trace",
            "family",
            "fails at",
            "finest failing tier",
            "mechanism",
            "witness",
            "first decision at",
            "extra bits",
        ),
        tuple(
            (
                name,
                trace["family"],
                f"step {trace['failing_step']}",
                trace["trigger"]["tier"],
                trace["mechanism"],
                f"{trace['witness']} {_text(trace['ungated']['witnesses'][trace['witness']])}",
                f"step {trace['first_intervention']}",
                _text(trace["extra_row_bits"]),
            )
            for name, trace in results["traces"].items()
        ),
    )
    phase = Table(
        "Brittleness",
        ("eta", "margin", "B", "top-1 certified", "regime"),
        tuple(
            (
                _text(probe["eta"]),
                _text(probe["margin"]),
                _text(probe["brittleness"]),
                "yes" if probe["certified"] else "no",
                probe["regime"],
            )
            for probe in results["phase"]
        ),
    )
    release = Table(
        "Release filter",
        ("point", "published", "fails"),
        tuple(
            (name, "no" if failed else "yes", ", ".join(failed) or "nothing")
            for name, failed in results["release"]["verdicts"].items()
        ),
    )
    return failures, phase, release


def _tiers(tiers: Sequence[Document], at: str) -> tuple[str, ...]:
    names = tuple(tier["name"] for tier in tiers)
    for index, tier in enumerate(tiers):
        bits = tier["row_bits"]
        if index == 0 and bits != 0:
            raise ContractViolation(TIERS, at + "/0/row_bits", f"expected 0 for the dropped tier, found {bits}")
        if index and bits <= tiers[index - 1]["row_bits"]:
            message = f"expected more than {tiers[index - 1]['row_bits']} bits, found {bits}"
            raise ContractViolation(TIERS, at + pointer(index, "row_bits"), message)
        if tier["name"] in names[:index]:
            raise ContractViolation(TIERS, at + pointer(index, "name"), f"{tier['name']} is there twice")
    return names


def _gate(stated: Document, at: str) -> Gate:
    gate = Gate(
        stated["watch_threshold"],
        stated["act_threshold"],
        stated["hysteresis_width"],
        stated["rate_limit"]["interventions"],
        stated["rate_limit"]["window_steps"],
    )
    watch, act, width = gate.watch_threshold, gate.act_threshold, gate.hysteresis_width
    if not 0 < watch < act:
        message = f"expected more than 0 and less than {_text(act)}, found {_text(watch)}"
        raise ContractViolation(THRESHOLDS, at + "/watch_threshold", message)
    if act > 1:
        raise ContractViolation(UNCERTIFIED, at + "/act_threshold", f"expected at most 1, found {_text(act)}")
    if width <= 0:
        raise ContractViolation(NO_HYSTERESIS, at + "/hysteresis_width", f"expected more than 0, found {_text(width)}")
    if width >= act:
        message = f"expected less than {_text(act)}, found {_text(width)}"
        raise ContractViolation(NEVER_RELEASES, at + "/hysteresis_width", message)
    if gate.rate_interventions >= gate.rate_window_steps:
        message = f"expected fewer than {gate.rate_window_steps}, found {gate.rate_interventions}"
        raise ContractViolation(RATE_VACUOUS, at + "/rate_limit/interventions", message)
    return gate


def _probe(gate: Gate, probe: Document, at: str) -> Document:
    margin = Fraction(probe["top_1"]) - probe["top_2"]
    if margin < 0:
        message = f"expected at most {_text(probe['top_1'])}, found {_text(probe['top_2'])}"
        raise ContractViolation(NEGATIVE_MARGIN, at + "/top_2", message)
    value = policy.brittleness(probe["eta"], margin)
    certified, regime = policy.certified(value), policy.regime(gate, value)
    receipt, place = probe["receipt"], at + pointer("receipt")
    if not frontiers.same_value(receipt["brittleness"], value):
        message = f"expected {_text(value)}, found {_text(receipt['brittleness'])}"
        raise ContractViolation(BRITTLENESS, place + "/brittleness", message)
    if receipt["certified"] != certified:
        message = f"expected {_text(certified)} at a brittleness of {_text(value)}, found {_text(receipt['certified'])}"
        raise ContractViolation(CERTIFICATE, place + "/certified", message)
    if receipt["regime"] != regime:
        message = f"expected {regime} at a brittleness of {_text(value)}, found {receipt['regime']}"
        raise ContractViolation(REGIME, place + "/regime", message)
    return {"eta": probe["eta"], "margin": margin, "brittleness": value, "certified": certified, "regime": regime}


def _controller(gate: Gate, tiers: Sequence[str], each: Document, at: str) -> Document:
    """Judge the gate alone on a series of brittleness that does not depend on the tier."""
    base, top = _base(tiers, each["base_tier"], at), len(tiers) - 1
    series = [None if value is None else Fraction(value) for value in each["brittleness"]]

    def run(one: Gate) -> tuple[Watched, ...]:
        return policy.run_gate(one, base, top, len(series), lambda step, _: series[step])

    watched = run(gate)
    place = at + pointer("receipt")
    _judge_decisions(gate, tiers, watched, each["receipt"]["decisions"], place + pointer("decisions"), None)
    suppressed = [one.step for one in watched if one.suppressed]
    if each["receipt"]["suppressed_steps"] != suppressed:
        message = f"expected {suppressed}, found {each['receipt']['suppressed_steps']}"
        raise ContractViolation(DECISIONS, place + "/suppressed_steps", message)
    bare = run(Gate(gate.watch_threshold, gate.act_threshold, 0, gate.rate_interventions, gate.rate_window_steps))
    return {
        "regimes": summarised([one.regime for one in watched]),
        "tiers": summarised([tiers[one.tier] for one in watched]),
        "decisions": [_decision_document(tiers, one.decision) for one in watched if one.decision is not None],
        "suppressed_steps": summarised(suppressed),
        "tier_changes": _changes(watched),
        "tier_changes_without_hysteresis": _changes(bare),
    }


def _trace(section: Document, gate: Gate, tiers: Sequence[str], trace: Document, at: str) -> Document:
    base, top = _base(tiers, trace["base_tier"], at), len(tiers) - 1
    _judge_steps(tiers, trace, at)
    steps, tokens, allowances = trace["steps"], trace["tokens"], section["allowances"]
    choice = [[policy.argmax(step["tiers"][tier]["logits"]) for tier in tiers] for step in steps]
    right = [policy.argmax(step["dense_logits"]) for step in steps]
    dense = policy.emitted([tokens[index] for index in right], trace["stop_token"])
    ungated = _run(trace, dense, [tokens[row[base]] for row in choice])
    failing = next((step for step in range(len(dense)) if choice[step][base] != right[step]), None)
    if failing is None:
        raise ContractViolation(NOT_REPRODUCED, at, "expected another token than dense, found the dense run")
    if not ungated.failed(allowances):
        message = f"expected a witness above its allowance, found none in {' '.join(ungated.tokens)!r}"
        raise ContractViolation(NOT_REPRODUCED, at + pointer("steps", failing), message)

    receipt, place = trace["receipt"], at + pointer("receipt")
    finest = max(tier for tier in range(len(tiers)) if choice[failing][tier] != right[failing])
    if receipt["trigger"]["step"] != failing:
        message = f"expected step {failing}, found {receipt['trigger']['step']}"
        raise ContractViolation(TRIGGER, place + "/trigger/step", message)
    if receipt["trigger"]["tier"] != tiers[finest]:
        message = f"expected {tiers[finest]}, found {receipt['trigger']['tier']}"
        raise ContractViolation(TRIGGER, place + "/trigger/tier", message)
    _judge_mechanism(section, tiers, trace, failing, choice[failing][base], place + pointer("mechanism"))
    witness = receipt["witness"]
    if witness not in ungated.failed(allowances):
        message = f"expected more than {_text(allowances[witness])}, found {_text(ungated.witnesses[witness])}"
        raise ContractViolation(SILENT, place + "/witness", message)

    def brittleness_at(step: int, tier: int) -> Fraction | None:
        read = steps[step]["tiers"][tiers[tier]]
        return policy.brittleness(read["eta"], policy.margin(read["logits"]))

    watched = policy.run_gate(gate, base, top, len(steps), brittleness_at)
    gated = _run(trace, dense, [tokens[choice[one.step][one.tier]] for one in watched])
    watched = watched[: len(gated.tokens)]  # a run that has stopped decides nothing
    _judge_decisions(gate, tiers, watched, receipt["decisions"], place + pointer("decisions"), failing)
    failed = gated.failed(allowances)
    if failed:
        step = next((one.step for one in watched if choice[one.step][one.tier] != right[one.step]), failing)
        raise ContractViolation(
            GATED_FAILS, at + pointer("steps", step), f"expected the dense token, found {', '.join(failed)} exceeded"
        )
    bits = [tier["row_bits"] for tier in section["tiers"]]
    at_trigger = steps[failing]["tiers"][tiers[finest]]
    return {
        "family": trace["family"],
        "dense": "".join(dense),
        "failing_step": failing,
        "trigger": {
            "tier": tiers[finest],
            "brittleness": policy.brittleness(at_trigger["eta"], policy.margin(at_trigger["logits"])),
        },
        "mechanism": receipt["mechanism"],
        "witness": witness,
        "ungated": {"emitted": "".join(ungated.tokens), "witnesses": dict(ungated.witnesses)},
        "gated": {"emitted": "".join(gated.tokens), "witnesses": dict(gated.witnesses)},
        "brittleness_ungated": summarised([brittleness_at(step, base) for step in range(len(steps))]),
        "brittleness_gated": summarised([one.brittleness for one in watched]),
        "tiers_gated": summarised([tiers[one.tier] for one in watched]),
        "decisions": [_decision_document(tiers, one.decision) for one in watched if one.decision is not None],
        "first_intervention": next(one.step for one in watched if _intervenes(one.decision)),
        "extra_row_bits": sum(bits[one.tier] - bits[base] for one in watched),
    }


def _judge_steps(tiers: Sequence[str], trace: Document, at: str) -> None:
    count = len(trace["tokens"])
    for index, step in enumerate(trace["steps"]):
        place = at + pointer("steps", index)
        if len(step["dense_logits"]) != count:
            message = f"expected {count} logits, found {len(step['dense_logits'])}"
            raise ContractViolation(SHAPE, place + "/dense_logits", message)
        if set(step["tiers"]) != set(tiers):
            message = f"expected {', '.join(tiers)}; found {', '.join(step['tiers'])}"
            raise ContractViolation(SHAPE, place + "/tiers", message)
        before: int | Fraction | None = None
        for tier in tiers:
            read, where = step["tiers"][tier], place + pointer("tiers", tier)
            if len(read["logits"]) != count:
                message = f"expected {count} logits, found {len(read['logits'])}"
                raise ContractViolation(SHAPE, where + "/logits", message)
            moved = policy.half_range(step["dense_logits"], read["logits"])
            if moved > read["eta"]:
                message = f"expected at most {_text(read['eta'])}, found logits that move by {_text(moved)}"
                raise ContractViolation(BOUND, where + "/logits", message)
            if before is not None and read["eta"] > before:
                message = f"expected at most {_text(before)}, found {_text(read['eta'])}"
                raise ContractViolation(MONOTONE, where + "/eta", message)
            before = read["eta"]


def _judge_mechanism(
    section: Document, tiers: Sequence[str], trace: Document, failing: int, chosen: int, at: str
) -> None:
    mechanism, family = trace["receipt"]["mechanism"], trace["family"]
    if mechanism is None:
        raise ContractViolation(NO_MECHANISM, at, f"expected one of {', '.join(MECHANISMS[family])}, found none")
    if mechanism not in MECHANISMS[family]:
        message = f"expected one of {', '.join(MECHANISMS[family])} for {family}, found {mechanism}"
        raise ContractViolation(MECHANISM, at, message)
    base, step = trace["base_tier"], trace["steps"][failing]
    right = policy.argmax(step["dense_logits"])
    at_stake = {trace["tokens"][right], trace["tokens"][chosen]}
    before = [each["tiers"][base]["eta"] for each in trace["steps"][:failing]]
    inputs = section["mechanisms"]
    shown = {
        "evidence_dropped": base == tiers[0],
        "small_margin": policy.margin(step["dense_logits"]) <= inputs["small_margin"],
        "outlier_key": bool(before) and step["tiers"][base]["eta"] >= inputs["outlier_factor"] * min(before),
        "stop_decision": trace["stop_token"] in at_stake,
        "structural_token": bool(at_stake.intersection(trace["structural_tokens"])),
    }
    if not shown[mechanism]:
        raise ContractViolation(MECHANISM, at, f"{mechanism} does not hold at step {failing}")


def _judge_decisions(
    gate: Gate,
    tiers: Sequence[str],
    watched: Sequence[Watched],
    stated: Sequence[Document],
    at: str,
    failing: int | None,
) -> None:
    """Raise where stated decisions are not those of the gate, or where these come too late for the failing step."""
    taken = [one.decision for one in watched if one.decision is not None]
    before: list[int] = []
    for index, receipt in enumerate(stated):
        expected = _decision_document(tiers, taken[index]) if index < len(taken) else None
        place, step = at + pointer(index), receipt["step"]
        if receipt != expected:
            _refuse_decision(gate, watched, receipt, before, place, failing)
            wanted = "no decision" if expected is None else _shown(expected)
            raise ContractViolation(DECISIONS, place, f"expected {wanted}, found {_shown(receipt)}")
        if receipt["action"] != policy.RELEASE:
            before.append(step)
    if len(stated) < len(taken):
        message = f"expected {_shown(_decision_document(tiers, taken[len(stated)]))} as well, found no decision"
        raise ContractViolation(DECISIONS, at, message)
    if failing is not None and not any(step < failing for step in before):
        found = "none" if not before else f"the first at step {before[0]}"
        raise ContractViolation(LATE, at, f"expected an intervention before step {failing}, found {found}")


def _refuse_decision(
    gate: Gate, watched: Sequence[Watched], receipt: Document, before: Sequence[int], at: str, failing: int | None
) -> None:
    """Raise the rule that a wrong decision breaks, if it is one that has a name."""
    step = receipt["step"]
    if receipt["action"] != policy.RELEASE:
        if failing is not None and not before and step >= failing:
            message = f"expected an intervention before step {failing}, found the first at step {step}"
            raise ContractViolation(LATE, at + "/step", message)
        if not policy.granted(gate, before, step):
            message = (
                f"expected at most {gate.rate_interventions} interventions in {gate.rate_window_steps} steps, found "
                f"one more at step {step}"
            )
            raise ContractViolation(RATE, at + "/step", message)
    elif step < len(watched) and watched[step].engaged:
        value = watched[step].brittleness
        if value is None or value >= gate.release_level:
            message = f"expected a brittleness below {_text(gate.release_level)}, found {_text(value)} at step {step}"
            raise ContractViolation(BAND, at + "/step", message)


def _release(section: Document, at: str, frontier_section: Document, frontier_at: str) -> Document:
    stated = section["release"]
    panels = frontier_section["panels"]
    if stated["panel"] not in panels:
        message = f"expected one of {', '.join(panels)}; found {stated['panel']}"
        raise ContractViolation(RELEASE_PANEL, at + "/panel", message)
    panel = panels[stated["panel"]]
    place = frontier_at + pointer("panels", stated["panel"])
    found = frontiers.judged([(frontier_at, frontier_section), (place, panel)], panel, place)
    items = {f"{item['method']}/{item['budget_index']}": item for item in panel["points"]}
    retained = {point.id: point for point in found.overall.retained}
    tested = [name for name, point in retained.items() if point.method != panel["dense_method"]]
    verdicts: dict[str, tuple[str, ...]] = {}
    for name in stated["witnesses"]:
        if name not in tested:
            message = f"expected one of {', '.join(tested)}; found {name}"
            raise ContractViolation(RELEASE_POINT, at + pointer("witnesses", name), message)
    for name in retained:
        if name in tested and name not in stated["witnesses"]:
            message = f"expected the witnesses of {name}, found none"
            raise ContractViolation(UNWITNESSED, at + pointer("witnesses"), message)
        verdicts[name] = _failed(stated["witnesses"].get(name, {}), section["allowances"])
    published = [item["point"] for item in stated["published"]]
    for index, item in enumerate(stated["published"]):
        name, where = item["point"], at + pointer("published", index)
        if name not in retained or name in published[:index]:
            message = f"{name} is {'there twice' if name in retained else 'no retained point of the panel'}"
            raise ContractViolation(RELEASE_POINT, where + "/point", message)
        if verdicts[name]:
            message = f"{name} does not pass {', '.join(verdicts[name])}"
            raise ContractViolation(FAILED_PUBLISHED, where + "/point", message)
        for member in ("kernel_path", "engine_settings", "resident_bytes_per_token"):
            if not _alike(item[member], items[name][member]):
                message = f"expected {_text(items[name][member])}, found {_text(item[member])}"
                raise ContractViolation(SETTINGS, where + pointer(member), message)
    survivors = [name for name, failed in verdicts.items() if not failed]
    for name in survivors:
        if name not in published:
            raise ContractViolation(SURVIVOR_MISSING, at + pointer("published"), f"expected {name}, found none")
    released = frontier_policy.filtered(
        retained.values(), found.reference, found.quality_tolerance, lambda point: not verdicts[point.id]
    )
    least = min((Fraction(point.quality or 0) for point in released.retained), default=Fraction(0))
    frontiers.judge_summary(released, least, stated["receipt"], retained, at + pointer("receipt"))
    return {
        "panel": stated["panel"],
        "verdicts": {name: list(failed) for name, failed in verdicts.items()},
        "removed": summarised([name for name, failed in verdicts.items() if failed]),
        "before": frontiers.summary_document(found.overall),
        "after": frontiers.summary_document(released),
    }


def _alike(one: Any, other: Any) -> bool:
    """Return whether two settings are equal as coordinates are: true is not 1, and 1 is 1.0."""
    if isinstance(one, Mapping):
        one, other = ({name: identity(value) for name, value in each.items()} for each in (one, other))
    return bool(one == other)


def _failed(witnesses: Mapping[str, Any], allowances: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name, value in witnesses.items() if value is None or value > allowances[name])


def _run(trace: Document, dense: Sequence[str], choices: Sequence[str]) -> Run:
    tokens = policy.emitted(choices, trace["stop_token"])
    answer = trace["answer"]
    return Run(
        tokens,
        {
            policy.QUALITY_DROP: None if answer is None else policy.quality_drop(answer, dense, tokens),
            policy.TRAJECTORY: policy.trajectory(dense, tokens),
            policy.TERMINATION: None if trace["stop_token"] is None else policy.termination(dense, tokens),
            policy.DISAGREEMENT: policy.disagreement(dense, tokens),
            policy.VALIDITY: None if trace["tool"] is None else int(not _is_call(trace, tokens)),
        },
    )


def _is_call(trace: Document, tokens: Sequence[str]) -> bool:
    """Return whether what was emitted is a call of the trace's tool: strict JSON with its name and its arguments."""
    text = "".join(token for token in tokens if token != trace["stop_token"])
    try:
        call = strict_json.parse_json(text.encode())
    except FileDefect:
        return False
    if not isinstance(call, dict) or set(call) != {"name", "arguments"} or call["name"] != trace["tool"]["name"]:
        return False
    return isinstance(call["arguments"], dict) and set(call["arguments"]) == set(trace["tool"]["arguments"])


def _base(tiers: Sequence[str], name: str, at: str) -> int:
    if name not in tiers[:-1]:
        message = f"expected one of {', '.join(tiers[:-1])}; found {name}"
        raise ContractViolation(UNKNOWN_TIER, at + "/base_tier", message)
    return tiers.index(name)


def _intervenes(decision: Decision | None) -> bool:
    return decision is not None and decision.action != policy.RELEASE


def _changes(watched: Iterable[Watched]) -> int:
    return sum(one.decision is not None for one in watched)


def _decision_document(tiers: Sequence[str], decision: Decision) -> Document:
    return {
        "step": decision.step,
        "action": decision.action,
        "from_tier": tiers[decision.from_tier],
        "to_tier": tiers[decision.to_tier],
    }


def _shown(decision: Mapping[str, Any]) -> str:
    return f"{decision['action']} from {decision['from_tier']} to {decision['to_tier']} at step {decision['step']}"


def _ledgers(results: Mapping[str, Any]) -> Iterable[LedgerRow]:
    traces = results["traces"].values()
    yield LedgerRow(
        "stability_failures_prevented",
        len(traces),
        "traces",
        "traces with a failing ungated run and a gated run that passes",
    )
    yield LedgerRow(
        "stability_least_lead",
        min(trace["failing_step"] - trace["first_intervention"] for trace in traces),
        "steps",
        "least of failing step - step of the first intervention",
    )
    yield LedgerRow(
        "stability_extra_row_bits",
        sum(trace["extra_row_bits"] for trace in traces),
        "bits",
        "sum over traces and steps of row bits of the tier in force - row bits of the allocation",
    )
    yield LedgerRow(
        "stability_points_removed",
        sum(bool(failed) for failed in results["release"]["verdicts"].values()),
        "points",
        "retained points of the release's panel that do not pass every witness",
    )


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return canonical.json_text(value).replace("\n", " ").strip()
    if isinstance(value, Fraction):
        value = canonical.reported(value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)
