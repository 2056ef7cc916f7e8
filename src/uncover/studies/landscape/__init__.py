"""The embedded scene: a simulated landscape whose truth is known, seen by a simulated Sentinel-2."""

from uncover.studies.landscape.scene import LandscapeOptions, SceneFiles, write_scene

__all__ = ["LandscapeOptions", "SceneFiles", "write_scene"]
