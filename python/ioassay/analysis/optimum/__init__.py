"""Which level, alternative or point is best, and how sure that is."""
