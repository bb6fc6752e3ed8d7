"""Policies that decide bundles: what each user holds of each resource on each server.

* `solve`: the closed form of `formulation.division` where there is one, else cone programs.
"""
