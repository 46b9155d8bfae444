"""The gateway of a class: Ray's Jobs API and the queues' API for people with a token each."""
