"""Generators of files that follow from the op table: gen_stubs, gen_reference."""
