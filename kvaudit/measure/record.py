"""A measurement record: `kvaudit.measurement/1`, one policy with its parameters and budget on one set of prompts.

A record says what was asked, what was done, on what, and what came of it; it is written for every outcome. Its
coordinates are those of `result/1` in full, so that `kvaudit explain` can hold two records against each other; what was
requested (budget.*) and what was observed (observed.*) are different keys. Every metric states its own function,
statistic and denominator. A value that was not measured is null. Metrics are given only for a run of all prompts: a
mean over those that finished would be a mean over an easier workload.

Nothing here identifies the machine's owner: no host name, no user name, no path.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import kvaudit
from kvaudit.evidence import canonical
from kvaudit.measure import outcomes, policies, timing
from kvaudit.measure.checkpoint import Checkpoint
from kvaudit.measure.outcomes import Stopped
from kvaudit.measure.run import WARM_UP_RUNS, CaseMeasure, Measured, Setting
from kvaudit.measure.selection import FRACTION_KEPT
from kvaudit.model import Document

SCHEMA = "kvaudit.measurement/1"

ATTENTION_BACKEND = "kvaudit store: grouped matrix products in blocks of queries, softmax in float32 or wider"
NOT_APPLICABLE = {"state": "not_applicable"}
UNDECLARED = {"state": "undeclared"}

_NS = 10**9


@dataclass(frozen=True, slots=True)
class Context:
    """What all records of a run share. `checkpoint` is None where none could be loaded.

    `tolerance_nats` is the largest mean divergence at which a result counts as quality-valid.
    """

    checkpoint: Checkpoint | None
    environment: Mapping[str, Any]
    prompts_sha256: str | None
    task: str
    question: str
    decode_tokens: int
    tolerance_nats: Fraction
    prompts: int | None


def document(measured: Measured, context: Context) -> Document:
    """Return the record of a setting, its numbers as `canonical.json_text` writes them."""
    setting, cases = measured.setting, measured.cases
    complete = measured.stopped is None and bool(cases)
    ledger = _metrics(cases) if complete else {}
    end = measured.stopped or _verdict(ledger, context)
    body: Document = {
        "schema": SCHEMA,
        "id": "",
        "outcome": {"class": end.outcome, "reason": end.reason or None, "message": end.message or None},
        "evidence_class": "locally_measured",
        "policy": _policy(setting, cases),
        "request": _request(setting, context),
        "coordinates": _coordinates(setting, cases, context),
        "metrics": ledger,
        "axes": _axes(setting, cases, context, end),
        "environment": dict(context.environment),
        "samples": _samples(cases),
        "prompts": [_prompt(case) for case in cases],
        "ladder": _ladder(cases) if complete else [],
    }
    body["id"] = _id(setting, body)
    exact: Document = _exact(body)
    return exact


def stopped(setting: Setting, end: Stopped, context: Context) -> Document:
    """Return the record of a setting that was not measured at all."""
    return document(Measured(setting, (), end), context)


def _id(setting: Setting, body: Document) -> str:
    """Return an id that two records share only if they asked for the same thing of the same checkpoint and prompts."""
    asked = {"request": body["request"], "checkpoint": body["coordinates"]["checkpoint.revision"]}
    budget = "" if setting.budget is None else f"-{str(setting.budget.value).replace('/', 'of')}"
    return f"{setting.policy.name}{budget}-{canonical.canonical_sha256(_exact(asked))[:12]}"


def _policy(setting: Setting, cases: Sequence[CaseMeasure]) -> Document:
    policy = setting.policy
    contract = policy.contract
    return {
        "name": policy.name,
        "specification": policy.section,
        "contract": asdict(contract),
        "parameters": _parameters(setting, cases),
    }


def _parameters(setting: Setting, cases: Sequence[CaseMeasure]) -> Document:
    """Return every parameter, defaults included; one that depends on the budget as it came out, a list if it varied."""
    shown = policies.shown(setting.parameters)
    for name in cases[0].resolved if cases else ():
        values = list(dict.fromkeys(case.resolved[name] for case in cases))
        shown[name] = values[0] if len(values) == 1 else values
    return shown


def _request(setting: Setting, context: Context) -> Document:
    budget = setting.budget
    return {
        "policy": setting.policy.name,
        "parameters": policies.shown(setting.parameters),
        "budget": None if budget is None else {"value": str(budget.value), "unit": budget.unit, "scope": budget.scope},
        "decode_tokens": context.decode_tokens,
        "question": context.question,
        "seed": setting.seed,
        "prompts_sha256": context.prompts_sha256,
        "tolerance_nats": context.tolerance_nats,
    }


def _verdict(ledger: Document, context: Context) -> Stopped:
    divergence = ledger["kl_divergence"]["value"]
    if divergence is None:
        return Stopped(outcomes.UNMEASURED, outcomes.NOT_FINITE, "the divergence from the full cache is not finite")
    valid = divergence <= context.tolerance_nats
    return Stopped(outcomes.QUALITY_VALID if valid else outcomes.QUALITY_DEGRADED, "", "")


def _coordinates(setting: Setting, cases: Sequence[CaseMeasure], context: Context) -> Document:
    checkpoint, environment, policy = context.checkpoint, context.environment, setting.policy
    contract, budget = policy.contract, setting.budget
    geometry = None if checkpoint is None else checkpoint.geometry
    versions = environment["versions"]
    memory = environment["device_memory_bytes"]
    observed = [rows for case in cases for heads in case.kept_rows for rows in heads]
    prompt_tokens = _lengths([case.prompt_rows for case in cases])
    kept_all = policy.name == "full" or contract.policy_class in ("merged", "quantised")
    compressed = [
        1 if kept_all or rows < case.prompt_rows else 0
        for case in cases
        for heads in case.kept_rows
        for rows in (sum(heads) / len(heads),)
    ]
    return {
        "checkpoint.name": _known(checkpoint and checkpoint.name),
        "checkpoint.revision": _known(checkpoint and f"sha256:{checkpoint.sha256}"),
        "checkpoint.parameters": _known(geometry and geometry.parameters),
        "checkpoint.weights": _known(checkpoint and checkpoint.weights),
        "hardware.device": _known(environment["device"]),
        "hardware.memory_gib": UNDECLARED if memory is None else Fraction(memory, 2**30),
        "runtime.engine": "kvaudit measure model",
        "runtime.engine_version": f"kvaudit {versions['kvaudit']}, torch {versions['torch']}, transformers "
        f"{versions['transformers']}",
        "runtime.attention_backend": ATTENTION_BACKEND,
        "runtime.cache_layout": "padded",
        "runtime.page_rows": NOT_APPLICABLE,
        "runtime.cuda_graphs": False,
        "runtime.memory_fraction": NOT_APPLICABLE,
        "runtime.max_batch_limited_by": NOT_APPLICABLE,
        "runtime.prefix_cache": "off",
        "runtime.prefix_cache_hit_rate": NOT_APPLICABLE,
        "runtime.tensor_parallelism": 1,
        "runtime.warm_up": WARM_UP_RUNS,
        "runtime.device_sync": True if environment["device_kind"] == "cuda" else NOT_APPLICABLE,
        "runtime.threads": environment["threads"],
        "runtime.dtype": _known(checkpoint and checkpoint.dtype),
        "workload.suite": "kvaudit prompts",
        "workload.task": context.task,
        "workload.task_version": NOT_APPLICABLE,
        "workload.data_sha256": _known(context.prompts_sha256),
        "workload.prompt_template": "verbatim",
        "workload.prompt_tokens": prompt_tokens,
        "workload.effective_tokens": prompt_tokens,
        "workload.truncation": "none",
        "workload.decode_tokens": context.decode_tokens,
        "workload.batch": 1,
        "workload.scenario": "offline, one prompt at a time",
        "workload.query_visibility": context.question,
        "workload.few_shot": 0,
        "workload.sampling": "none: the tokens of the full cache's greedy continuation, or of the file, are fed",
        "workload.samples_per_item": 1,
        "workload.seeds": setting.seed,
        "workload.items": _known(context.prompts),
        "policy.name": policy.name,
        "policy.class": contract.policy_class,
        "policy.implementation": f"kvaudit {kvaudit.__version__}",
        "policy.parameters": canonical.canonical_bytes(_exact(_parameters(setting, cases))).decode(),
        "policy.branch": "selection" if cases else UNDECLARED,
        "policy.score_rule": contract.signal,
        "policy.position_semantics": contract.position_semantics,
        "phase.prefill_rule": contract.prefill_rule,
        "phase.decode_rule": contract.decode_rule,
        "phase.prefill_execution": "full",
        "phase.budget_decision": contract.budget_decision,
        "cache.owner_granularity": "kv_head",
        "cache.owners": _known(geometry and geometry.layers * geometry.kv_heads),
        "cache.quantisation": "none" if contract.policy_class != "quantised" else contract.persistent_object,
        "budget.value": NOT_APPLICABLE if budget is None else _number(budget.value),
        "budget.unit": NOT_APPLICABLE if budget is None else budget.unit,
        "budget.scope": NOT_APPLICABLE
        if budget is None
        else f"{budget.scope}, {policy.shared_out}; protected rows inside, generated ones outside unless evicted",
        "budget.denominator": "prompt rows of each prompt"
        if budget is not None and budget.unit == FRACTION_KEPT
        else NOT_APPLICABLE,
        "budget.rounding": NOT_APPLICABLE if budget is None else "floor" if budget.unit == FRACTION_KEPT else "exact",
        "observed.rows": _mean(observed) if observed else UNDECLARED,
        "observed.coverage": _mean(compressed) if compressed else UNDECLARED,
        "observed.completed_fraction": Fraction(len(cases), context.prompts) if context.prompts else UNDECLARED,
        "baseline.name": "full cache of the same run",
        "baseline.attention_backend": ATTENTION_BACKEND,
        "quality.condition": "mean divergence from the full cache of the same run, in nats, at most "
        f"{canonical.json_text(context.tolerance_nats).strip()}",
        "quality.lower_bound": NOT_APPLICABLE,
        "quality.upper_bound": NOT_APPLICABLE,
        "quality.generated_tokens": context.decode_tokens,
        "evidence.class": "locally_measured",
        "claim.type": "simulated" if contract.policy_class in ("merged", "quantised") else "resident_bytes",
    }


def _metrics(cases: Sequence[CaseMeasure]) -> Document:
    """Return every metric of a finished run, each with its unit, its kind and the coordinates of its own."""
    divergences = [each for case in cases for each in case.steps.divergences]
    agreements = [int(each) for case in cases for each in case.steps.agreements]
    full_nll = [each for case in cases for each in case.steps.full_nll]
    policy_nll = [each for case in cases for each in case.steps.policy_nll]
    change = [policy - full for policy, full in zip(policy_nll, full_nll, strict=True)]
    references = [each for case in cases for each in case.references]
    rungs = [rung for case in cases for rung in case.rungs]
    masses = [rung.retained_mass for rung in rungs]
    errors = [rung.output_error for rung in rungs]
    step = "decode step under the policy"
    owner_rows = [rows for case in cases for heads in case.kept_rows for rows in heads]
    last_rows = [rows for case in cases for heads in case.last_rows for rows in heads]
    kept_share = [Fraction(rows, case.prompt_rows) for case in cases for heads in case.kept_rows for rows in heads]
    represented = [case.represented_bytes for case in cases if case.represented_bytes is not None]
    peaks = [case.peak.peak_bytes for case in cases]
    peak = max(each for each in peaks if each is not None) if None not in peaks else None
    return {
        "kl_divergence": _score(divergences, "nat", "KL(full || policy) of next-token distributions", step),
        "top1_agreement": _score(agreements, "1", "the most probable token is the full cache's", step),
        "nll_full": _score(full_nll, "nat", "negative log-likelihood of the continuation, full cache", step),
        "nll_policy": _score(policy_nll, "nat", "negative log-likelihood of the continuation", step),
        "nll_change": _score(change, "nat", "negative log-likelihood less that of the full cache", step),
        "reference_log_probability": _score(
            [sum(each.policy) for each in references], "nat", "log-probability of the answer", "delayed reference"
        ),
        "reference_log_probability_full": _score(
            [sum(each.full) for each in references],
            "nat",
            "log-probability of the answer, full cache",
            "delayed reference",
        ),
        "retained_mass": _local(masses, "dense attention probability of the visible rows"),
        "omitted_mass": _local([1 - each for each in masses], "dense attention probability of the rows not visible"),
        "attention_output_error": _local(
            errors, "L2 norm of the change of the attention output over that of the output"
        ),
        "prefill_time": _time([case.prefill_ns for case in cases], "prompt", prefill=True),
        "selection_time": _time([case.selection_ns for case in cases], "prompt", prefill=False),
        "compaction_time": _time([case.compaction_ns for case in cases], "prompt", prefill=False),
        "decode_step_time": _time(
            [each for case in cases for each in case.decode_ns], "generated token", prefill=False
        ),
        "transfer_time": _metric(None, "s", "latency", "time", "median", "prompt", prefill=False),
        "kept_rows": _metric(_mean(owner_rows), "rows", "logical_rows", "rows kept of the prompt", "mean", "owner"),
        "rows_after_decode": _metric(
            _mean(last_rows), "rows", "logical_rows", "rows in the cache after the continuation", "mean", "owner"
        ),
        "kept_fraction": _metric(_mean(kept_share), "1", "ratio", "rows kept over prompt rows", "mean", "owner"),
        "payload_bytes": _bytes(
            [case.bytes.payload for case in cases], "keys and values of kept rows", "logical_bytes"
        ),
        "position_map_bytes": _bytes(
            [case.bytes.position_map for case in cases], "original positions of kept rows", "logical_bytes"
        ),
        "score_bytes": _bytes([case.bytes.scores for case in cases], "scores and marks of kept rows", "logical_bytes"),
        "padding_bytes": _bytes(
            [case.bytes.padding for case in cases],
            "room without a row: shorter heads, reserve for generated rows",
            "resident_bytes",
        ),
        "resident_bytes": _bytes([case.bytes.resident for case in cases], "all tensors of the store", "resident_bytes"),
        "resident_bytes_full": _bytes(
            [case.full_bytes.resident for case in cases], "all tensors of the full store", "resident_bytes"
        ),
        "represented_bytes": _bytes(
            represented, "what the changed representation would occupy, metadata included", "logical_bytes"
        ),
        "peak_bytes": _metric(
            peak, "B", "resident_bytes", cases[0].peak.counted, "maximum", "run", parts="process or device"
        ),
    }


def _axes(setting: Setting, cases: Sequence[CaseMeasure], context: Context, end: Stopped) -> Document:
    """Return the eleven axes that an evaluation must declare (specification 0x10E)."""
    checkpoint, contract, budget = context.checkpoint, setting.policy.contract, setting.budget
    geometry = None if checkpoint is None else checkpoint.geometry
    references = [each for case in cases for each in case.references]
    return {
        "checkpoint": {
            "name": checkpoint and checkpoint.name,
            "sha256": checkpoint and checkpoint.sha256,
            "geometry": None if geometry is None else asdict(geometry),
            "position_contract": "post-rotation keys at original positions"
            if contract.position_semantics == "absolute"
            else "keys stored before rotation, rotated at their packed rows",
        },
        "lengths": {
            "prompt_tokens": [case.prompt_rows for case in cases],
            "decode_tokens": context.decode_tokens,
        },
        "object": {
            "retained": contract.persistent_object,
            "metadata": "original position of each row; scores and marks where the policy keeps them",
            "recoverability": contract.recoverability,
        },
        "budget": {
            "value": None if budget is None else str(budget.value),
            "unit": None if budget is None else budget.unit,
            "scope": None if budget is None else budget.scope,
            "denominator": None if budget is None else "prompt rows",
            "observed_rows_per_owner": [_mean([rows for heads in case.kept_rows for rows in heads]) for case in cases],
        },
        "task": {
            "family": context.task,
            "question": context.question,
            "references": [
                {
                    "declared_distance_tokens": each.declared_distance,
                    "observed_distance_tokens": each.observed_distance,
                }
                for each in references
            ],
        },
        "decision": {"phase": contract.decision_phase, "cadence": contract.decode_rule},
        "quality": {
            "metric": "divergence, agreement and likelihood of next-token distributions; delayed references",
            "baseline": "full cache of the same run",
        },
        "execution": {
            "device": context.environment["device"],
            "runtime": context.environment["versions"],
            "kernel": ATTENTION_BACKEND,
            "batch": 1,
            "parallelism": 1,
        },
        "timing": {
            "prefill": "once a prompt, shared by all policies of the run",
            "selection": "once a prompt and policy, from prompt rows and queries to positions",
            "compaction": "once a prompt and policy, the gather into a new store",
            "decode": "every generated token, the whole model, evictions included",
            "transfer": None,
        },
        "failures": {
            "outcome": end.outcome,
            "reason": end.reason or None,
            "prompts_finished": len(cases),
            "prompts": context.prompts,
            "fallback": "none: a policy that cannot run is stopped and never replaced by another",
        },
        "evidence": {"class": "locally_measured", "reproduction": "measured here, not reproduced elsewhere"},
    }


def _prompt(case: CaseMeasure) -> Document:
    owners = [rows for heads in case.kept_rows for rows in heads]
    return {
        "id": case.id,
        "prompt_rows": case.prompt_rows,
        "budget_rows": case.budget_rows,
        "kept_rows": {"least": min(owners), "mean": _mean(owners), "most": max(owners)},
        "kept_rows_sha256": canonical.canonical_sha256([list(heads) for heads in case.kept_rows]),
        "bytes": {
            "payload": case.bytes.payload,
            "position_map": case.bytes.position_map,
            "scores": case.bytes.scores,
            "padding": case.bytes.padding,
            "resident": case.bytes.resident,
            "resident_full": case.full_bytes.resident,
            "represented": case.represented_bytes,
        },
        "peak_bytes": case.peak.peak_bytes,
        "peak_counted": case.peak.counted,
        "kl_divergence": _mean(case.steps.divergences),
        "top1_agreement": _mean([int(each) for each in case.steps.agreements]),
        "nll_full": _mean(case.steps.full_nll),
        "nll_policy": _mean(case.steps.policy_nll),
        "references": [
            {
                "id": each.id,
                "declared_distance_tokens": each.declared_distance,
                "observed_distance_tokens": each.observed_distance,
                "answer_tokens": len(each.policy),
                "answer_tokens_under_policy": each.under_policy,
                "log_probability": _total(each.policy),
                "log_probability_full": _total(each.full),
            }
            for each in case.references
        ],
        "facts": dict(case.facts),
    }


def _samples(cases: Sequence[CaseMeasure]) -> Document:
    """Return every sample, prompt by prompt, in the order in which it was taken."""
    return {
        "prefill_ns": [case.prefill_ns for case in cases],
        "selection_ns": [case.selection_ns for case in cases],
        "compaction_ns": [case.compaction_ns for case in cases],
        "decode_ns": [list(case.decode_ns) for case in cases],
        "kl_divergence": [list(case.steps.divergences) for case in cases],
        "top1_agreement": [[int(each) for each in case.steps.agreements] for case in cases],
        "nll_full": [list(case.steps.full_nll) for case in cases],
        "nll_policy": [list(case.steps.policy_nll) for case in cases],
    }


def _ladder(cases: Sequence[CaseMeasure]) -> list[Document]:
    """Return the lower rungs of every layer over all prompts: means, and the worst of any step and query head."""
    rows = []
    for layer, rungs in enumerate(zip(*(case.rungs for case in cases), strict=True)):
        errors = [rung.output_error for rung in rungs]
        worst = [rung.largest_output_error for rung in rungs]
        mass = _mean([rung.retained_mass for rung in rungs])
        rows.append(
            {
                "layer": layer,
                "retained_mass": mass,
                "omitted_mass": None if mass is None else 1 - mass,
                "least_retained_mass": min(rung.least_retained_mass for rung in rungs),
                "attention_output_error": _mean(errors),
                "largest_attention_output_error": None
                if None in worst
                else max(each for each in worst if each is not None),
            }
        )
    return rows


def _metric(
    value: Any,
    unit: str,
    kind: str,
    function: str,
    statistic: str,
    denominator: str,
    *,
    prefill: bool | None = None,
    parts: str | None = None,
    interval: Document | None = None,
    samples: int | None = None,
) -> Document:
    return {
        "value": value,
        "unit": unit,
        "kind": kind,
        "interval": interval,
        "samples": samples,
        "coordinates": {
            "metric.function": function,
            "metric.statistic": statistic,
            "metric.scale": NOT_APPLICABLE if unit != "1" else 1,
            "metric.denominator": denominator,
            "metric.parts": NOT_APPLICABLE if parts is None else parts,
            "metric.prefill_included": NOT_APPLICABLE if prefill is None else prefill,
        },
    }


def _score(values: Sequence[float | int], unit: str, function: str, denominator: str) -> Document:
    return _metric(_mean(values), unit, "task_score", function, "mean", denominator, samples=len(values))


def _local(values: Sequence[float | None], function: str) -> Document:
    return _metric(
        _mean(values), "1", "other", function, "mean", "decode step, layer and query head", samples=len(values)
    )


def _time(samples: Sequence[int], denominator: str, *, prefill: bool) -> Document:
    found = timing.summary(samples)
    interval = None
    if found.low is not None and found.high is not None:
        interval = {"low": Fraction(found.low, _NS), "high": Fraction(found.high, _NS), "method": timing.METHOD}
    median = None if found.median is None else found.median / _NS
    return _metric(
        median,
        "s",
        "latency",
        "time",
        "median",
        denominator,
        prefill=prefill,
        interval=interval,
        samples=len(samples),
    )


def _bytes(values: Sequence[int], parts: str, kind: str) -> Document:
    return _metric(_mean(values), "B", kind, "bytes of tensors", "mean", "prompt", parts=parts, samples=len(values))


def _mean(values: Iterable[float | int | Fraction | None]) -> Fraction | None:
    """Return the mean, or None of nothing, of a value that was not measured, or of one that is not finite."""
    every = list(values)
    if not every or any(value is None or not math.isfinite(value) for value in every):
        return None
    return sum((Fraction(value) for value in every if value is not None), Fraction(0)) / len(every)


def _total(values: Sequence[float]) -> float | None:
    total = sum(values)
    return total if math.isfinite(total) else None


def _lengths(rows: Sequence[int]) -> Any:
    """Return a prompt length that all share, or the list of them as a text."""
    if not rows:
        return UNDECLARED
    return rows[0] if len(set(rows)) == 1 else ",".join(map(str, rows))


def _number(value: Fraction) -> int | Fraction:
    return int(value) if value.denominator == 1 else value


def _known(value: Any) -> Any:
    return UNDECLARED if value is None else value


def _exact(value: Any) -> Any:
    """Return a document in which each binary float is the exact number that it is, or null if it is not finite."""
    if isinstance(value, float):
        return Fraction(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _exact(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    return value
