"""Policies that decide bundles: what each user holds of each resource on each server.

* `solve`: in closed form where each resource of each server is shared out by itself, else by cone programs.
"""
