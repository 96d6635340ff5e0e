"""Data sets: the catalogue, how made ones are made, and data of known truth."""
