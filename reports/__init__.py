"""Reads result files and turns them into figures and one page; knows nothing of Megatoken but its result files."""
