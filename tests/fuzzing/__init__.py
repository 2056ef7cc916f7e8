"""Hostile files for every reader: minimal files made by code, changed at random, and read."""
