"""A backend, a method and an option of a user's own: what it takes to add one of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gmmatch.methods.ranking import Ranking
from gmmatch.rows import LocalRows
from gmmatch.targets import Targets


class ListRows(LocalRows):
    """Rows of a list of lists."""

    def __init__(self, rows):
        self.rows, self.n_features = rows, len(rows[0])

    def __len__(self):
        return len(self.rows)

    def take(self, index):
        return np.array([self.rows[i] for i in index]).reshape(-1, self.n_features)

    def map(self, row_map):
        return ListRows(row_map(np.array(self.rows)).tolist())

    def block(self, first, stop):
        return np.array(self.rows[first:stop])


def column(block, number):
    return block[:, number]


@dataclass(kw_only=True, eq=False, repr=False)
class LargestColumn(Ranking):
    """Keep the rows with the largest value in a column."""

    number: int = 0
    name, keep = "largest-column", "highest"

    def scores(self, problem, targets):
        return problem.rows.map_blocks(column, self.number)


@dataclass(frozen=True)
class FirstRow:
    """A target of a user's own: the first row of each group."""

    def compute(self, problem):
        firsts = [rows[0] for rows in problem.groups.split(problem.groups.codes >= 0)]
        return Targets(problem.rows.take(np.array(firsts)))
