"""Run any pipeline over turns on a Ray cluster."""

from .on_ray import OnRay, on_ray

__all__ = ["OnRay", "on_ray"]
