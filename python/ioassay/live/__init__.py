"""The live view of a run: its state, and the local page that shows it while it lasts."""
