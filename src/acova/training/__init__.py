"""From checked views to trained runs, and from runs to one result."""
