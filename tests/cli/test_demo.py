"""The demo: what it plants, what it counts as found, and that nearly everything is."""

from __future__ import annotations

from collections import Counter

import pytest

from gmmatch.cli.demo import PLANTED, count_errors, write_photos


def test_as_many_errors_are_planted_as_it_says(tmp_path):
    planted = write_photos(tmp_path / "photos", seed=1)
    assert Counter(planted.values()) == PLANTED
    files = {path.relative_to(tmp_path / "photos").as_posix() for path in tmp_path.rglob("*.png")}
    assert len(files) == 1797 + PLANTED["duplicate"] and set(planted) <= files


def test_a_false_alarm_is_no_hit(tmp_path):
    table = tmp_path / "removed.csv"
    table.write_text("id,why\na,mislabeled\nb,mislabeled\nc,duplicate\n")
    errors = count_errors({"a": "mislabeled", "c": "mislabeled", "d": "duplicate"}, table)["errors"]
    assert (errors["mislabeled"]["found"], errors["mislabeled"]["false_alarms"]) == (1, 1)
    assert (errors["duplicate"]["found"], errors["duplicate"]["false_alarms"]) == (0, 1)


def test_a_folder_that_exists_is_left_alone(tmp_path, refused):
    assert "exists already" in refused("demo", "-o", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_it_finds_nearly_everything_and_picks_nothing_that_is_mislabeled(tmp_path, succeeds):
    result = succeeds("demo", "-o", tmp_path / "demo", "--json")
    for kind, counts in result["errors"].items():
        assert counts["missed"] <= 0.05 * PLANTED[kind] and counts["false_alarms"] <= 0.05 * PLANTED[kind], (
            kind
        )
    assert result["picks"]["mislabeled"] <= 1 < 180 <= result["picks"]["rows"]
    for page in ("clean/report.html", "picks.html"):
        assert "data:image/" in (tmp_path / "demo" / page).read_text(encoding="utf-8")
    assert (tmp_path / "demo" / "picks.parquet").exists()
