"""Thin Beam wiring of the method: read, parse, pack, attribute, make evidence, write."""
