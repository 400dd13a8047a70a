"""The page's tabs, one file each: what is in it, and what its events call."""
