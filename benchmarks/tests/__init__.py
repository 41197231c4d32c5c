"""Tests of the loads and measurements themselves."""
