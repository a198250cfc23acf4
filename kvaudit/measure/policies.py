"""The policies that are measured: what each keeps, when it decides, its parameters with their defaults.

One value a policy, in one tuple. A policy is what its parameters make it, so every parameter has a name, a default and
a meaning here, and a record writes all of them down. Policies that a checkpoint must have been trained for are in the
table too: they are refused by the checkpoint, and the refusal is a recorded outcome.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvaudit.measure import coding, merging, prompt_selection, retention
from kvaudit.measure.checkpoint import Checkpoint
from kvaudit.measure.handoff import Call, Handoff
from kvaudit.measure.outcomes import (
    BACKEND_INCOMPATIBLE,
    BUDGET,
    CHECKPOINT_INCOMPATIBLE,
    MODEL_NOT_TRAINED,
    PARAMETER,
    POLICY_NOT_EXECUTED,
    RUNTIME_INADMISSIBLE,
    Stopped,
)

INTEGER, NUMBER, TEXT, FILE = "integer", "number", "text", "file"

EVEN = "the same rows for every owner"

ALL_QUERIES, WINDOW_QUERIES, HISTORY_QUERIES, NO_QUERIES = "all", "window", "history", "none"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. A default of None depends on the budget, and the record then states what it came to."""

    name: str
    kind: str
    default: Any
    about: str
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contract:
    """What a policy is, in the words of the coordinates of a policy contract and of a result."""

    policy_class: str
    persistent_object: str
    recoverability: str
    decision_phase: str
    signal: str
    prefill_rule: str
    decode_rule: str
    budget_decision: str
    position_semantics: str = "absolute"


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy. `select` is None where it is not executed here; `queries` says which prompt queries it looks at.

    `shared_out` says what a budget of rows a K/V head means to it: rows of each, or a mean that is shared out.
    """

    name: str
    section: str
    contract: Contract
    parameters: tuple[Parameter, ...]
    takes_budget: bool
    queries: str
    select: Callable[[Call], Handoff] | None
    trained: bool = False
    shared_out: str = EVEN


ROWS = "original K/V rows"
GONE = "dropped rows are gone"
AT_HANDOFF = "once, at the end of the prompt"
EACH_STEP = "at the end of the prompt and in every decode step"
APPEND = "append every new row, evict none"

_REDUCTION = Parameter(
    "reduction", TEXT, "mean", "how the query heads of a K/V head are reduced", ("sum", "mean", "max")
)
_RECENT = Parameter("recent_rows", INTEGER, None, "newest rows that are protected")
_FLOOR = Parameter("floor_rows", INTEGER, 1, "least prefix rows that a share-out leaves an owner")


def _votes(window: int, kernel: int, pooling: str) -> tuple[Parameter, ...]:
    return (
        Parameter("window_rows", INTEGER, window, "last prompt queries, which vote and whose rows are kept"),
        Parameter("kernel_rows", INTEGER, kernel, "odd width of the pooling over neighbouring positions"),
        Parameter(
            "pooling",
            TEXT,
            pooling,
            "how neighbouring votes are pooled",
            ("average_padding_counted", "average_in_range", "maximum", "none"),
        ),
        Parameter("reduction", TEXT, "mean", "how the query heads of a K/V head are reduced", ("mean", "max")),
    )


def _static(name: str, positions: str, rule: str) -> Contract:
    return Contract(
        "none" if name == "full" else "pruned",
        ROWS,
        "nothing is dropped" if name == "full" else GONE,
        "never" if name == "full" else EACH_STEP,
        "none: fixed positions",
        "keep all rows" if name == "full" else "keep the view at the frontier, drop the rest at the end of the prompt",
        rule,
        "before the run",
        positions,
    )


def _scored(signal: str, decode_rule: str) -> Contract:
    return Contract(
        "pruned",
        "original K/V rows and their scores",
        GONE,
        EACH_STEP,
        signal,
        "every prompt query scores, then all rows past the budget leave at once",
        decode_rule,
        "before the run",
    )


def _voted(signal: str, decided: str) -> Contract:
    return Contract(
        "pruned",
        ROWS,
        GONE,
        AT_HANDOFF,
        signal,
        "keep the observation window and the best prefix rows",
        APPEND,
        decided,
    )


def _trained(name: str, persistent_object: str) -> Policy:
    contract = Contract(
        "merged", persistent_object, GONE, "learned", "trained", "not executed", "not executed", "in training"
    )
    return Policy(name, "0x0C and 0x0D", contract, (), False, NO_QUERIES, None, trained=True)


_SINKS = Parameter("sink_rows", INTEGER, 4, "first rows that always stay")
_PAGE = (
    Parameter("page_tokens", INTEGER, 64, "rows of a page, a multiple of 8"),
    Parameter("header_bytes", INTEGER, 16, "header of a page"),
    Parameter("alignment_bytes", INTEGER, 16, "alignment of a page"),
)
_ONE_OUT = "append, attend, score, drop the lowest score that is not recent"

POLICIES = (
    Policy("full", "0x03", _static("full", "absolute", APPEND), (), False, NO_QUERIES, retention.full),
    Policy(
        "window",
        "0x04",
        _static("window", "absolute", "append, drop the oldest row, attend"),
        (),
        True,
        NO_QUERIES,
        retention.sliding_window,
    ),
    Policy(
        "streaming",
        "0x05",
        _static("streaming", "absolute", "append, drop the oldest row that is no sink, attend"),
        (_SINKS,),
        True,
        NO_QUERIES,
        retention.streaming,
    ),
    Policy(
        "streaming_repositioned",
        "0x05",
        _static("streaming", "cache_relative", "append, drop the oldest row that is no sink, attend at packed rows"),
        (_SINKS,),
        True,
        NO_QUERIES,
        retention.streaming_repositioned,
    ),
    Policy(
        "h2o",
        "0x06E",
        _scored("attention accumulated over all queries", _ONE_OUT),
        (_RECENT, _REDUCTION),
        True,
        ALL_QUERIES,
        retention.h2o,
    ),
    Policy(
        "scissorhands",
        "0x06B",
        _scored(
            "how often the attention of the last queries was below 1/t",
            "append, attend, count, and past the budget drop a batch of the rows most often low",
        ),
        (
            Parameter("history_rows", INTEGER, 400, "last queries that count"),
            _RECENT,
            Parameter("drop_rows", INTEGER, None, "rows that leave together in decode"),
            _REDUCTION,
        ),
        True,
        HISTORY_QUERIES,
        retention.scissorhands,
    ),
    Policy(
        "keyformer",
        "0x06G",
        _scored("Gumbel-softmax accumulated over all queries, noise drawn once a row", _ONE_OUT),
        (
            _RECENT,
            _REDUCTION,
            Parameter("tau_initial", NUMBER, Fraction(1), "temperature at the prompt"),
            Parameter("tau_final", NUMBER, Fraction(2), "temperature after the declared number of generated tokens"),
        ),
        True,
        ALL_QUERIES,
        retention.keyformer,
    ),
    Policy(
        "snapkv",
        "0x07",
        _voted("attention of the last prompt queries, summed and pooled", "before the run"),
        _votes(32, 5, "average_padding_counted"),
        True,
        WINDOW_QUERIES,
        prompt_selection.snapkv,
    ),
    Policy(
        "pyramidkv",
        "0x08B",
        _voted("attention of the last prompt queries, summed and pooled; layer index", "before the run"),
        (
            *_votes(32, 5, "average_padding_counted"),
            Parameter("beta", NUMBER, Fraction(20), "steepness: the top layer gets 1 / beta of the mean"),
            _FLOOR,
        ),
        True,
        WINDOW_QUERIES,
        prompt_selection.pyramidkv,
        shared_out="a mean over owners, shared out between layers",
    ),
    Policy(
        "zigzagkv",
        "0x08D",
        _voted("attention of the last prompt queries; rows a layer needs", "after the whole prompt was prefilled"),
        (
            *_votes(32, 5, "average_padding_counted"),
            Parameter("share", NUMBER, Fraction(9, 10), "share of the attention that the needed rows hold"),
            Parameter("minimum_rows", INTEGER, None, "prefix rows that every layer gets"),
        ),
        True,
        WINDOW_QUERIES,
        prompt_selection.zigzagkv,
        shared_out="a mean over owners, shared out between layers",
    ),
    Policy(
        "adakv",
        "0x08E",
        _voted(
            "attention of the last prompt queries, summed and pooled, ranked over heads", "at the end of each layer"
        ),
        (
            *_votes(32, 7, "maximum"),
            Parameter("alpha", NUMBER, Fraction(4, 5), "weight of the ranked share against the even one"),
            _FLOOR,
        ),
        True,
        WINDOW_QUERIES,
        prompt_selection.adakv,
        shared_out="a mean over owners, shared out between the K/V heads of a layer",
    ),
    Policy(
        "headkv",
        "0x08G",
        _voted("attention of the last prompt queries; calibrated importance of heads", "in calibration"),
        (
            *_votes(32, 7, "maximum"),
            Parameter("profile", FILE, None, "file of the calibrated profile"),
            Parameter("profile_sha256", TEXT, None, "hash of the bytes of that file"),
            Parameter("beta", NUMBER, Fraction(3, 2), "a larger beta leaves a smaller shared pool"),
            _FLOOR,
        ),
        True,
        WINDOW_QUERIES,
        prompt_selection.headkv,
        shared_out="a mean over owners, shared out between all of them",
    ),
    Policy(
        "fastgen",
        "0x08H",
        Contract(
            "pruned",
            ROWS,
            GONE,
            AT_HANDOFF,
            "attention of all prompt queries that a family of patterns recovers",
            "give each head the cheapest nested family that recovers the threshold",
            APPEND,
            "after the whole prompt was prefilled",
        ),
        (
            Parameter("threshold", NUMBER, Fraction(19, 20), "share of the attention mass to recover"),
            Parameter("local_share", NUMBER, Fraction(3, 10), "newest rows, as a share of the prompt"),
            Parameter("frequent_share", NUMBER, Fraction(3, 10), "most attended rows, as a share of the prompt"),
        ),
        False,
        ALL_QUERIES,
        prompt_selection.fastgen,
    ),
    Policy(
        "minicache",
        "0x0CF",
        Contract(
            "merged",
            "a direction shared by two layers, magnitudes of each, exception rows",
            "directions of merged rows are lost",
            AT_HANDOFF,
            "angle between the rows of adjacent layers",
            "merge all rows of the paired layers, keep those too far apart",
            "append unmerged rows",
            "before the run",
        ),
        (
            Parameter("start_layer", INTEGER, None, "first layer of the first pair; half of the layers"),
            Parameter("rho", NUMBER, Fraction(1, 2), "place of the shared direction between the two layers"),
            Parameter("distance", NUMBER, Fraction(3, 5), "angle over pi above which a pair of rows is kept apart"),
        ),
        False,
        NO_QUERIES,
        merging.minicache,
    ),
    Policy(
        "spherical",
        "0x13",
        Contract(
            "quantised",
            "radius and angle codes of each key, original values",
            "the key that was coded is lost",
            "once for each row, when it enters",
            "none: every row is coded alike",
            "code the key of every row",
            "append and code every new row",
            "before the run",
        ),
        (
            Parameter("leaf_width", INTEGER, 4, "bits of an angle between two neighbouring channels"),
            Parameter("upper_width", INTEGER, 4, "bits of an angle above the leaves of the tree"),
            *_PAGE,
        ),
        False,
        NO_QUERIES,
        coding.spherical,
    ),
    Policy(
        "spherical_rdr",
        "0x13",
        Contract(
            "quantised",
            "rows at one of four tiers: uncompressed keys, or radius and angle codes; original values",
            "coded keys and dropped rows are lost",
            AT_HANDOFF,
            "attention of the last prompt queries times the change of the logit that a tier makes",
            "lower tiers by least added distortion a bit, then drop, until pages fit the bytes of the budget's rows",
            "append uncompressed rows",
            "after the whole prompt was prefilled",
        ),
        (
            Parameter("window_rows", INTEGER, 32, "last prompt queries, which weigh the rows and whose rows stay safe"),
            Parameter("sink_rows", INTEGER, 4, "first rows that stay safe"),
            *_PAGE,
        ),
        True,
        WINDOW_QUERIES,
        coding.spherical_rdr,
        shared_out="the bytes of so many uncompressed rows, shared out between all rows of all owners",
    ),
    _trained("dmc", "weighted means of segments of rows"),
    _trained("lckv", "K/V rows of a few producer layers"),
)


def policy_by_name(name: str) -> Policy | None:
    """Return the policy with this name, or None."""
    return next((policy for policy in POLICIES if policy.name == name), None)


def resolved(policy: Policy, stated: Mapping[str, str]) -> dict[str, Any]:
    """Return every parameter of a policy from the texts that were stated, defaults included; raise `Stopped`."""
    known = {parameter.name: parameter for parameter in policy.parameters}
    unknown = sorted(set(stated).difference(known))
    if unknown:
        has = ", ".join(known) or "none"
        raise _refused(f"{policy.name} has no parameter {' or '.join(unknown)}; it has {has}")
    return {
        name: _parsed(policy, parameter, stated[name]) if name in stated else parameter.default
        for name, parameter in known.items()
    }


def admit(policy: Policy, checkpoint: Checkpoint, *, budget_stated: bool) -> None:
    """Raise `Stopped` where a policy cannot run on this checkpoint, or was given a budget that it does not take."""
    if policy.trained and policy.name not in checkpoint.trained_for:
        raise Stopped(
            CHECKPOINT_INCOMPATIBLE,
            MODEL_NOT_TRAINED,
            f"{policy.name} needs a checkpoint that was trained for it, and this one declares no such training "
            "(kv_policies in its configuration)",
        )
    if policy.select is None:
        raise Stopped(BACKEND_INCOMPATIBLE, POLICY_NOT_EXECUTED, f"{policy.name} is not executed by this runner")
    if budget_stated and not policy.takes_budget:
        raise Stopped(
            RUNTIME_INADMISSIBLE,
            BUDGET,
            f"{policy.name} takes no budget of rows: what it keeps follows from its parameters",
        )


def query_rows(policy: Policy, parameters: Mapping[str, Any], prompt_rows: int) -> int:
    """Return how many of the last prompt queries a policy looks at."""
    if policy.queries == WINDOW_QUERIES:
        return min(prompt_rows, int(parameters["window_rows"]))
    if policy.queries == HISTORY_QUERIES:
        return min(prompt_rows, int(parameters["history_rows"]))
    return prompt_rows if policy.queries == ALL_QUERIES else 0


def shown(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in order, as a record writes them: exact numbers as texts, of a file its name and no path."""
    return {name: _written(value) for name, value in parameters.items()}


def _parsed(policy: Policy, parameter: Parameter, text: str) -> Any:
    at = f"{policy.name}: {parameter.name}"
    if parameter.kind == TEXT:
        if parameter.allowed and text not in parameter.allowed:
            raise _refused(f"{at} is {text!r}: expected one of {', '.join(parameter.allowed)}")
        return text
    if parameter.kind == FILE:
        return Path(text)
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise _refused(f"{at} is {text!r}: expected a number") from None
    if parameter.kind == NUMBER:
        return value
    if value.denominator != 1 or value < 0:
        raise _refused(f"{at} is {text!r}: expected a whole number that is not negative")
    return int(value)


def _written(value: Any) -> Any:
    if isinstance(value, Path):
        return value.name
    return str(value) if isinstance(value, Fraction) else value


def _refused(message: str) -> Stopped:
    return Stopped(RUNTIME_INADMISSIBLE, PARAMETER, message)
