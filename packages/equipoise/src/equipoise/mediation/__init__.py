"""From submissions to a settlement, and what can be asked of one."""
