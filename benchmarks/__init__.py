"""Measurements: claims about statistics by simulation, claims about speed against peers."""
