"""Run folders: written durably, read back as frames, packed for others, made of results from elsewhere."""
