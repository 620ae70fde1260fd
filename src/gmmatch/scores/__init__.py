"""Scores that rank rows one by one, one file each."""
