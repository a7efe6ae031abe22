"""What a trial leaves, as contracts: records, claims, observations, and the frames of a whole run. Reads no file."""
