"""Run any pipeline over turns on a Ray cluster."""

from .pipeline import OnRay, on_ray

__all__ = ["OnRay", "on_ray"]
