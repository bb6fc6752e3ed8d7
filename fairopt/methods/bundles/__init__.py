"""Policies that decide bundles: what each user holds of each resource on each server.

* `closed_form`: MLF-DRS, FFMRA and H-FFMRA, each resource of each server shared in proportion.
* `program`: everything else, by cone programs.
* `problem`: such a policy as a CVXPY problem in natural units.
"""
