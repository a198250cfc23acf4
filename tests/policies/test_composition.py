"""The composition gates of 0x0CI and 0x0DD, one line a sentence of theirs."""

import itertools

import pytest

from kvaudit.policies import composition as c

ALL = (c.DMC, c.MINICACHE, c.LCKV, c.AUTOCOMPRESSOR)


@pytest.mark.parametrize(
    ("trained_for", "transforms", "reason"),
    [
        ((), (c.DMC,), c.NOT_TRAINED),
        ((), (c.LCKV,), c.NOT_TRAINED),
        ((), (c.AUTOCOMPRESSOR,), c.NOT_TRAINED),
        ((), (c.MINICACHE,), None),
        ((), (c.SHARED_SELECTION,), None),
        ((c.DMC,), (c.DMC,), None),
        ((c.LCKV,), (c.LCKV,), None),
        ((c.LCKV,), (), c.TRAINED_PART_MISSING),
        ((c.DMC,), (c.MINICACHE,), c.TRAINED_PART_MISSING),
        ((), (c.SHARED_SELECTION, c.MINICACHE), None),
        ((), (c.MINICACHE, c.SHARED_SELECTION), c.SELECTION_AFTER_MERGE),
        ((), (c.OWNER_SELECTION, c.MINICACHE), c.POSITION_SETS_DIFFER),
        ((c.DMC,), (c.DMC, c.MINICACHE), c.POSITION_SETS_DIFFER),
        ((c.LCKV,), (c.LCKV, c.MINICACHE), c.NO_LAYER_LOCAL_ROWS),
        ((c.DMC,), (c.DMC, c.OWNER_SELECTION), c.NO_CONTRACT),
        ((c.DMC, c.LCKV), (c.DMC, c.LCKV), c.NO_CONTRACT),
    ],
)
def test_gates(trained_for, transforms, reason):
    assert c.refusal(trained_for, transforms, ALL, None, None) == reason


def test_a_backend_must_read_the_result():
    assert c.refusal((), (c.MINICACHE,), (), None, None) == c.NO_CONSUMER
    assert c.refusal((), (c.SHARED_SELECTION,), (), None, None) is None  # original rows need no other kernel


def test_an_evaluation_contract_covers_a_composition():
    assert c.refusal((c.DMC,), (c.DMC, c.OWNER_SELECTION), ALL, "dmc-with-snapkv/1", None) is None


def test_quantisation_names_every_component():
    """Leave out any one of directions, magnitudes, angles, exceptions."""
    formats = dict.fromkeys(c.COMPONENTS[c.MINICACHE], "int4")
    assert c.refusal((), (c.MINICACHE,), ALL, None, formats) is None
    for left_out in formats:
        rest = {name: form for name, form in formats.items() if name != left_out}
        assert c.refusal((), (c.MINICACHE,), ALL, None, rest) == c.QUANTISATION_UNDECLARED
    assert c.refusal((c.DMC,), (c.DMC,), ALL, None, {"segment_rows": "int4"}) == c.QUANTISATION_UNDECLARED


def test_every_reason_is_one_of_those_declared():
    names = [(), *((name,) for name in c.TRANSFORMS), *itertools.permutations(c.TRANSFORMS, 2)]
    found = {
        c.refusal(trained, transforms, consumers, contract, quantised)
        for trained in [(), (c.DMC,), (c.LCKV,), (c.AUTOCOMPRESSOR,)]
        for transforms in names
        for consumers in [(), ALL]
        for contract in [None, "contract/1"]
        for quantised in [None, {}]
    }
    assert found == {None, *c.REASONS}
