"""The controller of the queues: admits jobs, submits them to Ray, preempts and requeues them."""
