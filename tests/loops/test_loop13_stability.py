"""The frontier and stability sections on fixtures other than the shipped one."""

import copy
from fractions import Fraction
from pathlib import Path

import pytest

from kvaudit.errors import ContractViolation
from kvaudit.evidence import strict_json
from kvaudit.loops.loop13_spherical import frontier, stability

ROOT = Path(__file__).parents[2]


@pytest.fixture
def fixture():
    document = strict_json.parse_json((ROOT / "fixtures" / "loop13_spherical" / "fixture.json").read_bytes())
    return {name: copy.deepcopy(document[name]) for name in ("frontier", "stability")}


def check_frontier(fixture):
    return frontier.check(fixture["frontier"], "/frontier")[0]["panels"]


def check_stability(fixture):
    return stability.check(fixture["stability"], "/stability", fixture["frontier"], "/frontier")[0]


def refused(check, fixture):
    with pytest.raises(ContractViolation) as raised:
        check(fixture)
    return raised.value.diagnostic.code, raised.value.pointer


def test_the_order_of_points_and_of_receipt_lists_says_nothing(fixture):
    before = check_frontier(fixture)
    for panel in fixture["frontier"]["panels"].values():
        panel["points"].reverse()
        for summary in (panel["receipt"]["overall"], *panel["receipt"]["methods"].values()):
            summary["retained"].reverse()
            summary["envelope"].reverse()
    assert check_frontier(fixture) == before
    assert check_stability(fixture)["release"]["panel"] == "context_32k"


def test_gains_scale_with_neither_bytes_nor_speed(fixture):
    """Twice the bytes and three times the speed of every point leave every set and every gain as it was."""
    before = check_frontier(fixture)
    for panel in fixture["frontier"]["panels"].values():
        for point in panel["points"]:
            for part in point["resident_parts"]:
                point["resident_parts"][part] *= 2
            point["resident_bytes_per_token"] *= 2
            point["tokens_per_second"] *= 3
    after = check_frontier(fixture)
    for name in before:
        assert after[name]["overall"] == before[name]["overall"]
        assert after[name]["methods"] == before[name]["methods"]


def test_the_release_by_hand(fixture):
    """Without spherical/3 the star is spherical/2: 131648 / 42000 of the memory, 372 / 200 of the speed."""
    release = check_stability(fixture)["release"]
    assert release["removed"] == ["reconstruct/1", "retention/1", "spherical/3"]
    assert release["before"]["representative"] == "spherical/3"
    assert release["after"]["representative"] == "spherical/2"
    assert release["after"]["gain_memory"] == Fraction(131648, 42000)
    assert release["after"]["gain_speed"] == Fraction(372, 200)


def test_a_setting_that_is_true_is_not_one(fixture):
    fixture["stability"]["release"]["published"][0]["engine_settings"]["cuda_graphs"] = 1
    where = "/stability/release/published/0/engine_settings"
    assert refused(check_stability, fixture) == ("spherical.release-settings-mismatch", where)


def test_a_common_shift_of_the_logits_is_no_perturbation(fixture):
    before = check_stability(fixture)
    for trace in fixture["stability"]["traces"].values():
        for step in trace["steps"]:
            for read in step["tiers"].values():
                read["logits"] = [logit + 5 for logit in read["logits"]]
    assert check_stability(fixture) == before


def test_a_step_after_the_stop_token_decides_nothing(fixture):
    """The gated run of `late_stop` ends at step 3; an alarm behind it is nobody's."""
    trace = fixture["stability"]["traces"]["late_stop"]
    before = check_stability(fixture)
    alarm = copy.deepcopy(trace["steps"][2])
    trace["steps"][5] = alarm
    after = check_stability(fixture)["traces"]["late_stop"]
    assert after["gated"] == before["traces"]["late_stop"]["gated"]
    assert after["decisions"] == before["traces"]["late_stop"]["decisions"]


def test_every_gated_run_is_the_dense_run_and_every_ungated_one_is_not(fixture):
    traces = check_stability(fixture)["traces"]
    assert {trace["family"] for trace in traces.values()} == set(stability.MECHANISMS)
    for trace in traces.values():
        assert trace["gated"]["emitted"] == trace["dense"] != trace["ungated"]["emitted"]
        assert trace["first_intervention"] < trace["failing_step"]


@pytest.mark.parametrize(
    ("emitted", "valid"),
    [
        ('{"name":"get_weather","arguments":{"city":"Oslo"}}', True),
        ('{"name":"get_weather","arguments":{"city":"Oslo"}', False),
        ('{"name":"get_whether","arguments":{"city":"Oslo"}}', False),
        ('{"name":"get_weather","arguments":{"town":"Oslo"}}', False),
        ('{"name":"get_weather","arguments":["city"]}', False),
        ('{"name":"get_weather","name":"get_weather","arguments":{"city":1}}', False),
        ("get_weather(Oslo)", False),
    ],
)
def test_what_a_call_of_the_tool_is(emitted, valid):
    trace = {"stop_token": "<end>", "tool": {"name": "get_weather", "arguments": ["city"]}}
    assert stability._is_call(trace, [emitted, "<end>"]) == valid
