"""All cases by name. Importing this package does not import any event loop package."""

from . import limit, networking, realistic, scale, scheduling  # noqa: F401  (they register their cases)
from .registry import CASES

__all__ = ["CASES"]
