"""Brittleness, the stability gate and the witnesses of a failure (Spherical KV, arXiv 2605.18856, figures 6 and 12).

Rules of this module:
- *Brittleness* of a step is B = 2 eta / (top-1 minus top-2 logit), eta being half the range of what the compressed
  cache may add to the logits. Below 1 the top-1 is certified: of two logits, one gains at most 2 eta on the other,
  which is less than what separates them. A margin of zero has no brittleness (None) and is never certified.
- The certificate reads in both directions. If the logits at hand are the compressed ones, a step that it covers has
  the argmax of the dense run; so the gate judges what it can see, and a step that fails was not certified.
- The *gate* is a switch with memory. It engages at `act_threshold` and lets go only below `act_threshold` minus
  `hysteresis_width`; in between it stays as it is. Every step that reaches `act_threshold` asks for one tier more, and
  at most `rate_interventions` are granted in any `rate_window_steps` steps. Letting go returns to the tier of the
  allocation at once and is not counted: engaging again is.
- A decision is taken when a step has been scored, and holds from the next step on. So it comes before a failing step
  or not at all; a gate that acts in the failing step explains the failure and prevents nothing.
- Tiers ascend: tier 0 is *dropped*, the last one is the safe tier. To leave tier 0 is to force retention, any other
  step up is to escalate. Where the finer codes come from (a page that is not packed yet, a copy on the host) is the
  runtime's affair; here they cost their bits.
- Ties go to the first candidate, as everywhere.

The paper names the proxy, three regimes, both interventions, thresholds and limits, and gives no formula for any of
them. All of the above is this project's contract. The certificate asks for `act_threshold` of at most 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Number = int | Fraction

SAFE = "safe"
WATCH = "watch"
BRITTLE = "brittle"
REGIMES = (SAFE, WATCH, BRITTLE)

ESCALATE_TIER = "escalate_tier"
FORCE_RETENTION = "force_retention"
RELEASE = "release"

QUALITY_DROP = "quality_drop"
TRAJECTORY = "trajectory"
TERMINATION = "termination"
DISAGREEMENT = "disagreement"
VALIDITY = "validity"
SIGNALS = (QUALITY_DROP, TRAJECTORY, TERMINATION, DISAGREEMENT, VALIDITY)


@dataclass(frozen=True, slots=True)
class Gate:
    """The inputs of a gate: two thresholds of B, the width of the band, and the rate limit (a count, and steps)."""

    watch_threshold: Number
    act_threshold: Number
    hysteresis_width: Number
    rate_interventions: int
    rate_window_steps: int

    @property
    def release_level(self) -> Number:
        """The brittleness below which an engaged gate lets go."""
        return self.act_threshold - self.hysteresis_width


@dataclass(frozen=True, slots=True)
class GateState:
    """Where a gate stands: engaged or not, the tier in force, and the steps at which it intervened."""

    engaged: bool
    tier: int
    intervened: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision, taken at `step` and in force from the next one. The tiers are indices."""

    step: int
    action: str
    from_tier: int
    to_tier: int


@dataclass(frozen=True, slots=True)
class Watched:
    """One step under a gate: the tier in force, its brittleness and regime, what was decided and what was refused.

    `suppressed` is true where the gate wanted one tier more and the rate limit refused it. `engaged` is the state
    after the step.
    """

    step: int
    tier: int
    brittleness: Fraction | None
    regime: str
    decision: Decision | None
    suppressed: bool
    engaged: bool


def margin(logits: Sequence[Number]) -> Number:
    """Return the top-1 minus the top-2 logit of at least two candidates."""
    second, first = sorted(logits)[-2:]
    return first - second


def brittleness(eta: Number, margin: Number) -> Fraction | None:
    """Return B = 2 eta / margin, None for a margin of zero."""
    return None if margin == 0 else Fraction(2 * eta) / margin


def certified(value: Fraction | None) -> bool:
    """Return whether a brittleness certifies the top-1."""
    return value is not None and value < 1


def argmax(logits: Sequence[Number]) -> int:
    """Return the index of the largest logit, the first of equals."""
    return max(range(len(logits)), key=lambda index: (logits[index], -index))


def half_range(dense: Sequence[Number], compressed: Sequence[Number]) -> Fraction:
    """Return half the range of what compression adds to the logits: the least eta that covers it.

    A shift common to all logits moves no argmax and no softmax, so it is centred away.
    """
    moved = [Fraction(other) - one for one, other in zip(dense, compressed, strict=True)]
    return (max(moved) - min(moved)) / 2


def regime(gate: Gate, value: Fraction | None) -> str:
    """Return the regime of a brittleness. A step without a margin is brittle."""
    if value is None or value >= gate.act_threshold:
        return BRITTLE
    return WATCH if value >= gate.watch_threshold else SAFE


def granted(gate: Gate, intervened: Sequence[int], step: int) -> bool:
    """Return whether the rate limit leaves room for one more intervention at `step`."""
    recent = [each for each in intervened if each > step - gate.rate_window_steps]
    return len(recent) < gate.rate_interventions


def watch(gate: Gate, state: GateState, step: int, value: Fraction | None, base: int, top: int) -> Watched:
    """Return what the gate makes of one step. `base` is the tier of the allocation, `top` the safe one."""
    where = regime(gate, value)
    if where == BRITTLE:
        if state.tier == top:
            return Watched(step, state.tier, value, where, None, suppressed=False, engaged=True)
        if not granted(gate, state.intervened, step):
            return Watched(step, state.tier, value, where, None, suppressed=True, engaged=True)
        action = FORCE_RETENTION if state.tier == 0 else ESCALATE_TIER
        decision = Decision(step, action, state.tier, state.tier + 1)
        return Watched(step, state.tier, value, where, decision, suppressed=False, engaged=True)
    if state.engaged and value is not None and value < gate.release_level:
        decision = Decision(step, RELEASE, state.tier, base)
        return Watched(step, state.tier, value, where, decision, suppressed=False, engaged=False)
    return Watched(step, state.tier, value, where, None, suppressed=False, engaged=state.engaged)


def run_gate(
    gate: Gate, base: int, top: int, steps: int, brittleness_at: Callable[[int, int], Fraction | None]
) -> tuple[Watched, ...]:
    """Return what the gate makes of `steps` steps. `brittleness_at(step, tier)` is the brittleness at that tier."""
    state = GateState(engaged=False, tier=base, intervened=())
    watched = []
    for step in range(steps):
        each = watch(gate, state, step, brittleness_at(step, state.tier), base, top)
        watched.append(each)
        intervened = state.intervened
        if each.decision is not None and each.decision.action != RELEASE:
            intervened = (*intervened, step)
        tier = state.tier if each.decision is None else each.decision.to_tier
        state = GateState(each.engaged, tier, intervened)
    return tuple(watched)


def emitted(choices: Sequence[str], stop: str | None) -> tuple[str, ...]:
    """Return what a run emits: its choices up to and with the stop token."""
    return tuple(choices[: choices.index(stop) + 1]) if stop in choices else tuple(choices)


def quality_drop(answer: Sequence[str], dense: Sequence[str], run: Sequence[str]) -> Fraction:
    """Return by how much the share of answer tokens that a run gets right falls below that of the dense run."""
    right = [sum(one == other for one, other in zip(answer, tokens, strict=False)) for tokens in (dense, run)]
    return Fraction(right[0] - right[1], len(answer))


def trajectory(dense: Sequence[str], run: Sequence[str]) -> Fraction:
    """Return the share of the dense run that lies at or behind the first token in which the two differ."""
    common = next((at for at, (one, other) in enumerate(zip(dense, run, strict=False)) if one != other), None)
    if common is None:
        common = min(len(dense), len(run))
    return 1 - Fraction(common, len(dense))


def termination(dense: Sequence[str], run: Sequence[str]) -> int:
    """Return by how many tokens a run ends earlier or later than the dense run."""
    return abs(len(run) - len(dense))


def disagreement(dense: Sequence[str], run: Sequence[str]) -> Fraction:
    """Return the share of the dense run's steps at which the other run emits something else or nothing."""
    same = sum(one == other for one, other in zip(dense, run, strict=False))
    return 1 - Fraction(same, len(dense))
