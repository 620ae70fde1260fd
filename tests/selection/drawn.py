"""Selections drawn at random."""

from __future__ import annotations

from hypothesis import strategies as st

from gmmatch.selection.selection import SelectedGroup, Selection, interleave

LABELS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["a\x00", "", "null", "1", "\ud800", "ночь"]),
)
IDS = st.sampled_from(
    [
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**64 - 1),
        st.text(max_size=5),
        st.sampled_from(["\x00"]),
    ]
)


@st.composite
def groups_of_picks(draw, labels=LABELS, max_groups=5):
    """Groups that share no row, some with rows picked twice, some without picks or residuals."""
    names = draw(st.lists(labels, min_size=1, max_size=max_groups, unique=True))
    groups = []
    for i, name in enumerate(names):
        own_rows = st.integers(0, 9).map(lambda row, i=i: row * len(names) + i)
        order = draw(st.lists(own_rows, max_size=8))
        width = draw(st.sampled_from([0, len(order)]))
        residuals = draw(st.lists(st.floats(), min_size=width, max_size=width))
        groups.append(SelectedGroup(name, order, n_rows=10, residuals=residuals))
    return groups


@st.composite
def selections(draw):
    groups = draw(groups_of_picks())
    order = interleave(groups)
    ids = draw(st.none() | st.lists(draw(IDS), min_size=len(order), max_size=len(order)))
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    )
    provenance = draw(st.dictionaries(st.text(max_size=5), json_values, max_size=3))
    return Selection(order, n_rows=10 * len(groups), groups=groups, ids=ids, provenance=provenance)
