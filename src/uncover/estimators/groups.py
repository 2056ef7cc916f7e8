"""Samples that belong together: a polygon, a field, a date."""

import inspect

import numpy as np

from uncover.labels.training import main_class


def read_groups(groups, n_samples):
    """Number the groups of samples 0, 1, … in the order of their names; at least two are needed."""
    if groups is None:
        return None
    names = np.asarray(groups)
    if names.shape != (n_samples,):
        raise ValueError(
            f"groups needs one entry for each of the {n_samples} samples, got shape {names.shape}."
        )
    unsure = names.tolist() if names.dtype.kind in "fO" else []
    missing = np.flatnonzero([name is None or name != name for name in unsure])
    if len(missing):
        raise ValueError(
            f"groups has no value for sample {missing[0]} ({len(missing)} in all); a sample that belongs to "
            "no other needs a group of its own."
        )
    names, number = np.unique(names.astype(str) if names.dtype == object else names, return_inverse=True)
    if len(names) < 2:
        raise ValueError("groups has one group only: nothing would be left to predict it with.")
    return number.ravel()


def read_scored(scored, n_samples):
    """Check which samples count when they are left out; None for all."""
    if scored is None:
        return None
    found = np.asarray(scored)
    if found.shape != (n_samples,) or found.dtype != bool:
        raise ValueError(f"scored needs True or False for each of the {n_samples} samples.")
    return found


def divide(codes, groups, parts, rng):
    """Divide samples, or groups by their most frequent class, into parts: the part of each sample.

    Each class is in as many parts as it can be.

    >>> divide(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 2, 3, 3]), 2, np.random.default_rng(0))
    array([1, 1, 0, 1, 0, 0])
    """
    if groups is not None:
        return divide(main_class(codes, groups), None, parts, rng)[groups]
    part = np.empty(len(codes), dtype=int)
    part[np.lexsort((rng.random(len(codes)), codes))] = np.arange(len(codes)) % parts
    return part


def groups_for(model, groups):
    """Groups as an argument of ``fit``, if the model, or the last step of a pipeline, leaves groups out."""
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    takes = "groups" in inspect.signature(last.fit).parameters
    if groups is None or not takes or getattr(last, "calibration", "loo") is None:
        return {}
    return {"groups" if last is model else f"{model.steps[-1][0]}__groups": groups}
