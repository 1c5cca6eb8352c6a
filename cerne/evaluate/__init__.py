"""Scoring models: bits per byte beside baselines, tasks with exact answers, scorecards, comparison.

The order in which to read: bootstrap, baselines, bpb, tasks, multiple_choice, scorecard, compare.
"""
