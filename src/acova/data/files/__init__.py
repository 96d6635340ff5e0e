"""Readers and writers of files, by format."""
