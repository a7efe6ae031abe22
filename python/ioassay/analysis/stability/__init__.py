"""How stable the numbers are: variation between repetitions, drift, steady state."""
