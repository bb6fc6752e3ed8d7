"""Whole tasks over time: a scheduler for somebody else's loop, a simulator, and users who arrive one by one.

* `scheduler`: lowest share first. `placement`: on which server a task runs.
* `jobs`: batches of equal tasks with arrival and duration. `files`: jobs from tables and traces.
* `simulation`: jobs in, events of the scheduler out. `timeline`: what ran when, and what is measured of it.
"""
