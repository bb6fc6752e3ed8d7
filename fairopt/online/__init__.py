"""Whole tasks over time: a scheduler for a loop of one's own, and a simulator.

* `scheduler`: lowest share first. `requests`: what its tasks need, checked.
* `jobs`: batches of equal tasks with arrival and duration. `files`: jobs from tables and traces.
* `simulation`: jobs in, events of the scheduler out. `timeline`: what ran when, and what is measured of it.
* `fair`: the divisible optimum at moments of a timeline. `frames`: its tables. `saved`: its files.
"""
