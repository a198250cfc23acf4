"""How a measurement may end. Every end is recorded; none is dropped (specification 0x10E).

An incompatible checkpoint that is left out makes a method look deployable everywhere, a failed run that is left out
hides how often it fails. So whatever stops a run is a value: one of six outcomes, a stable reason, and a sentence.
"""

import errno

QUALITY_VALID = "quality-valid"
QUALITY_DEGRADED = "quality-degraded"
RUNTIME_INADMISSIBLE = "runtime-inadmissible"
CHECKPOINT_INCOMPATIBLE = "checkpoint-incompatible"
BACKEND_INCOMPATIBLE = "backend-incompatible"
UNMEASURED = "unmeasured"
OUTCOMES = (
    QUALITY_VALID,
    QUALITY_DEGRADED,
    RUNTIME_INADMISSIBLE,
    CHECKPOINT_INCOMPATIBLE,
    BACKEND_INCOMPATIBLE,
    UNMEASURED,
)
MEASURED = (QUALITY_VALID, QUALITY_DEGRADED)

MODEL_MISSING = "model.missing"
MODEL_UNREADABLE = "model.unreadable"
MODEL_ARCHITECTURE = "model.architecture"
MODEL_NOT_TRAINED = "model.not-trained-for-policy"
POLICY_NOT_EXECUTED = "policy.not-executed-here"
PARAMETER = "policy.parameter"
PROFILE = "policy.profile"
BUDGET = "budget.not-stated"
BUDGET_ABOVE_PROMPT = "budget.above-prompt"
BUDGET_TOO_SMALL = "budget.too-small"
WINDOW_ABOVE_BUDGET = "budget.window-above-budget"
PROMPT = "prompt.unusable"
NOT_FINITE = "numerics.not-finite"
MEMORY = "memory.exhausted"
DEVICE = "device.unavailable"
KILLED = "process.killed"
INTERRUPTED = "process.interrupted"


def exhausted(error: BaseException) -> bool:
    """Return whether an error means that memory ran out: torch, the system and Python each say so in their own way."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or type(error).__name__ == "OutOfMemoryError"
        or "allocate memory" in str(error)
    )


class Stopped(Exception):  # noqa: N818 - the end of a run is a result that is recorded, not an error of the program
    """A run that cannot go on: its outcome, the stable reason, and what to say about it."""

    def __init__(self, outcome: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.reason = reason
        self.message = message
