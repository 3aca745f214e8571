"""More than one machine: the same expressions, run over turns on a Ray cluster."""

from .pipeline import OnRay, on_ray

__all__ = ["OnRay", "on_ray"]
