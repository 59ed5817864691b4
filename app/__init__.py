"""Joins the parts: command line, settings, assistant, server. The only package that knows all the others."""
