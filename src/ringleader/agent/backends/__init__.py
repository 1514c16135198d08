"""Chat backends, one file each: they put a turn to a provider and give the canonical dict back. They decide nothing."""
